//! The `patchbay` command.
fn main() {}
