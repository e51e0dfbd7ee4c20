//! Installed programs and schemas of OVN and Open vSwitch.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Folders that are searched after those of `PATH`, because Debian's `ovsdb-server` is not in every
/// user's path.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// Packages of Debian and Ubuntu with all programs and schemas that tests use.
const PACKAGES: &str = "ovn-central ovn-common openvswitch-common";

/// The path of an installed program such as `ovsdb-server`.
///
/// # Panics
///
/// If it is not installed.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(SYSTEM_FOLDERS.map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .unwrap_or_else(|| {
            panic!("{name} is not installed; Debian and Ubuntu: apt-get install {PACKAGES}")
        })
}

/// The `OVN_Northbound` schema of the installed OVN; the environment's `OVN_NB_SCHEMA` names
/// another file.
///
/// # Panics
///
/// If there is no such file.
#[must_use]
pub fn installed_nb_schema() -> PathBuf {
    let file = env::var_os("OVN_NB_SCHEMA").map_or_else(
        || Path::new("/usr/share/ovn/ovn-nb.ovsschema").into(),
        PathBuf::from,
    );
    assert!(
        file.is_file(),
        "there is no OVN_Northbound schema {}; Debian and Ubuntu: apt-get install {PACKAGES}",
        file.display()
    );
    file
}

/// A command that runs the real `ovn-nbctl` on `remote` (`unix:PATH`, `tcp:HOST:PORT`), with a
/// timeout of ten seconds. It ignores the caller's environment.
///
/// # Panics
///
/// If it is not installed.
#[must_use]
pub fn nbctl(remote: &str) -> Command {
    let mut command = Command::new(program("ovn-nbctl"));
    for variable in ["OVN_NB_DB", "OVN_NB_DAEMON", "OVN_NBCTL_OPTIONS"] {
        command.env_remove(variable);
    }
    command.arg(format!("--db={remote}")).arg("--timeout=10");
    command
}

/// Creates an executable script, such as `"#!/bin/sh\nexit 1\n"`.
///
/// A child writes it, because a file that is open for writing cannot be executed (`ETXTBSY`). If
/// this process wrote it, a child that another thread starts meanwhile would have it open, too, until
/// that child executes its program.
///
/// # Panics
///
/// If the file cannot be written.
pub fn create_script(path: &Path, text: &str) {
    let mut child = Command::new("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("install of coreutils runs");
    let written = child
        .stdin
        .take()
        .map(|mut input| input.write_all(text.as_bytes()));
    assert!(
        written.is_some_and(|written| written.is_ok()),
        "{}",
        path.display()
    );
    let status = child.wait();
    assert!(
        status.is_ok_and(|status| status.success()),
        "{}",
        path.display()
    );
}

/// Sends a signal, such as `TERM`, to a child of the test, by means of the shell.
///
/// # Panics
///
/// If the process does not exist.
pub fn signal(child: &Child, signal: &str) {
    let command = format!("kill -{signal} {}", child.id());
    let sent = Command::new("sh").args(["-c", &command]).status();
    assert!(sent.is_ok_and(|status| status.success()), "{command}");
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn scripts_run_while_other_threads_start_programs() {
        let folder = tempfile::tempdir().unwrap();
        let run = |thread: usize| {
            for number in 0..50 {
                let path = folder.path().join(format!("{thread}-{number}"));
                create_script(&path, "#!/bin/sh\nexit 3\n");
                let status = Command::new(&path).status().unwrap();
                assert_eq!(status.code(), Some(3));
            }
        };
        thread::scope(|scope| {
            for thread in 0..16 {
                scope.spawn(move || run(thread));
            }
        });
    }
}
