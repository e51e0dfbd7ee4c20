//! Writes `src/nb/generated.rs`, the typed rows of `ovn-nb.ovsschema`.
//!
//! ```text
//! cargo run -p patchbay-schemas --no-default-features --example generate_nb
//! ```
//!
//! Without the default feature `nb` the library does not contain the generated file. The command
//! therefore works even when that file does not compile.

use std::error::Error;
use std::path::Path;

use patchbay_schemas::codegen;
use patchbay_schemas::schema::DatabaseSchema;

fn main() -> Result<(), Box<dyn Error>> {
    let schema = DatabaseSchema::parse(include_bytes!("../ovn-nb.ovsschema"))?;
    let source = codegen::generate(&schema, "include_str!(\"../../ovn-nb.ovsschema\")", "crate")?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/nb/generated.rs");
    std::fs::write(path, source)?;
    Ok(())
}
