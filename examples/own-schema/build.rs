//! Generates types from `vswitch.ovsschema`.

fn main() -> Result<(), patchbay_schemas::codegen::GenerateError> {
    patchbay_schemas::codegen::build("vswitch.ovsschema")?;
    Ok(())
}
