//! Generates the typed rows of OVN_Northbound.

// The generator and what it reads schemas with are modules of this very crate.
#![allow(dead_code, unreachable_pub, unused_imports, missing_docs)]

#[path = "src/atom.rs"]
mod atom;
#[path = "src/codegen.rs"]
mod codegen;
#[path = "src/datum/mod.rs"]
mod datum;
#[path = "src/error.rs"]
mod error;
#[path = "src/hash_order.rs"]
mod hash_order;
#[path = "src/json/mod.rs"]
mod json;
#[path = "src/schema/mod.rs"]
mod schema;
#[path = "src/utf8.rs"]
mod utf8;

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=ovn-nb.ovsschema");
    println!("cargo::rerun-if-changed=src");
    let text = std::fs::read_to_string("ovn-nb.ovsschema")?;
    let schema = schema::DatabaseSchema::parse(text.as_bytes())?;
    let out = std::env::var("OUT_DIR")?;
    let source = codegen::generate(&schema, &text, "crate")?;
    std::fs::write(Path::new(&out).join("nb.rs"), source)?;
    Ok(())
}
