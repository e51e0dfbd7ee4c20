//! Locks of a file between a simulator and the real programs.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use ovsdb_sim::{FileError, Sim};
use patchbay_ovn_programs::testing::{RealServer, ScratchDir, program};
use patchbay_schemas::schema::DatabaseSchema;

use super::servers::{SimServer, dump, errors, run, tool, transact};
use super::steps::{SCHEMA, schema_file};

const INSERT: &str = r#"{"op":"insert","table":"Parent","row":{"name":"a"}}"#;

fn assert_refused(file: &Path) {
    let error = Sim::builder().journal(file).build().unwrap_err();
    assert!(
        matches!(error.file_error(), Some(FileError::InUse { path }) if path == file),
        "{error}"
    );
    let expected = format!("{}: another program has it open for writing", file.display());
    assert_eq!(error.to_string(), expected);
}

/// Starts ovsdb-server on the file for a moment, and returns its output.
fn serve(dir: &ScratchDir, file: &Path) -> Output {
    Command::new(program("ovsdb-server"))
        .arg(file)
        .arg(format!("--remote=punix:{}", dir.path().join("s").display()))
        .arg(format!("--unixctl={}", dir.path().join("c").display()))
        .arg("--run=true")
        .output()
        .unwrap()
}

fn assert_kept_from_others(dir: &ScratchDir, file: &Path) {
    let transact = tool("transact", file).arg(format!("[\"D\",{INSERT}]")).output();
    for output in [transact.unwrap(), serve(dir, file)] {
        let complaint = format!(
            "{}: failed to lock lockfile (Resource temporarily unavailable)",
            file.display()
        );
        assert!(!output.status.success());
        assert!(errors(&output).contains(&complaint), "{}", errors(&output));
    }
}

#[test]
fn a_file_of_a_running_ovsdb_server_is_refused() {
    let dir = ScratchDir::new();
    let (file, link) = (dir.path().join("real.db"), dir.path().join("link.db"));
    run(tool("create", &file).arg(schema_file(dir.path())));
    symlink(&file, &link).unwrap();
    let real = RealServer::open([&file]);
    for name in [&file, &link] {
        assert_refused(name);
    }
    // The file is unchanged, and can be read.
    transact(real.socket(), INSERT);
    let expected = dump(real.socket());
    assert_eq!(dump(SimServer::load(&file).socket()), expected);
    drop(real);
    // The lock file, which still exists, locks nothing.
    assert_eq!(dump(SimServer::journal(&link).socket()), expected);
}

#[test]
fn a_journal_of_a_running_simulator_is_refused_by_the_real_programs() {
    let dir = ScratchDir::new();
    let (file, link) = (dir.path().join("sim.db"), dir.path().join("link.db"));
    let schema = Arc::new(DatabaseSchema::parse(SCHEMA.as_bytes()).unwrap());
    let begin = SimServer::start(Sim::builder().schema(schema).journal(&file));
    symlink(&file, &link).unwrap();
    assert_kept_from_others(&dir, &file);
    drop(begin);
    assert!(serve(&dir, &file).status.success());

    let sim = SimServer::journal(&link);
    for name in [&file, &link] {
        assert_kept_from_others(&dir, name);
        // A second journal in this process gets no lock, and does not end the first one's.
        assert_refused(name);
        assert_kept_from_others(&dir, name);
    }
    // A conversion replaces the file.
    run(Command::new(program("ovsdb-client"))
        .args(["--timeout=20", "convert"])
        .arg(format!("unix:{}", sim.socket().display()))
        .arg(schema_file(dir.path())));
    assert_kept_from_others(&dir, &file);
    drop(sim);
    run(tool("transact", &file).arg(format!("[\"D\",{INSERT}]")));
}
