//! The references in `docs/reference` that are made from help texts.

use std::path::Path;
use std::process::Command;

use crate::programs::Program;
use crate::repository::Repository;

#[test]
fn the_references_of_commands_are_the_help_texts() {
    let repository = Repository::find();
    // Builds the simulator if it is not there.
    Program::ovsdb_sim(repository.root());
    let folder = tempfile::tempdir().unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_patchbay")).parent().unwrap();
    let mut script = Command::new(repository.root().join("scripts/reference"));
    let output = script.args([programs, folder.path()]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for name in ["patchbay.md", "ovsdb-sim.md"] {
        let made = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(made.lines().count() > 100, "{made}");
        let kept = std::fs::read_to_string(repository.root().join("docs/reference").join(name));
        assert!(kept.unwrap() == made, "scripts/reference makes another {name}");
    }
}
