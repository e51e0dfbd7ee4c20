//! `patchbay lab fetch`.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use patchbay_ovn_programs::testing::create_script;

use super::children;

#[test]
fn a_release_is_fetched_into_a_new_folder_only() {
    let folder = tempfile::tempdir().unwrap();
    let fetch = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_patchbay"));
        command.args(["lab", "fetch"]).args(arguments);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), errors)
    };
    let path = folder.path().to_str().unwrap();
    let (code, errors) = fetch(&["--into", path]);
    assert_eq!(code, Some(1));
    let expected = format!("error: {path} exists; a release is fetched into a new folder\n");
    assert_eq!(errors, expected);
    let (code, errors) = fetch(&["--suite", "sid main"]);
    assert_ne!(code, Some(0));
    assert!(errors.contains("a suite has a name of lowercase letters"), "{errors}");
}

#[test]
fn a_signal_ends_a_fetch_and_nothing_stays() {
    let folder = tempfile::tempdir().unwrap();
    // An `apt-get` that never ends.
    let programs = tempfile::tempdir().unwrap();
    let apt = programs.path().join("apt-get");
    create_script(&apt, "#!/bin/sh\nexec sleep 1000\n");
    let path = format!("{}:{}", programs.path().display(), std::env::var("PATH").unwrap());
    for signal in ["INT", "TERM"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_patchbay"))
            .args(["lab", "fetch", "--into"])
            .arg(folder.path().join("ovn"))
            .env("PATH", &path)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let is_empty = || fs::read_dir(folder.path()).unwrap().next().is_none();
        while children(child.id()).is_empty() {
            assert_eq!(child.try_wait().unwrap(), None);
            sleep(Duration::from_millis(5));
        }
        assert!(!is_empty());
        patchbay_ovn_programs::testing::signal(&child, signal);
        let output = patchbay_ovn_programs::testing::output_of(child);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.ends_with("error: stopped\n"), "{errors}");
        assert!(is_empty());
    }
}
