//! `src/nb/generated.rs` is what the generator writes for `ovn-nb.ovsschema`.

use patchbay_schemas::codegen;
use patchbay_schemas::nb;

#[test]
fn the_checked_in_types_are_those_of_the_schema() {
    let text = "include_str!(\"../../ovn-nb.ovsschema\")";
    let generated = codegen::generate(&nb::schema(), text, "crate").unwrap();
    assert!(
        generated == include_str!("../../src/nb/generated.rs"),
        "cargo run -p patchbay-schemas --no-default-features --example generate_nb"
    );
}
