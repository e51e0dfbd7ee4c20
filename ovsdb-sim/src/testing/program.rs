//! Where the OVN and Open vSwitch programs are.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// Folders that are searched after those of `PATH`: Debian keeps `ovsdb-server` where not every user's path goes.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// What Debian and Ubuntu call the packages with all the programs and schemas that tests use.
const PACKAGES: &str = "ovn-central ovn-common openvswitch-common";

/// The path of an installed program such as `ovsdb-server`.
///
/// # Panics
///
/// When it is not installed.
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

/// The `OVN_Northbound` schema of the installed OVN; the environment's `OVN_NB_SCHEMA` names another file.
///
/// # Panics
///
/// When there is no such file.
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

/// The real `ovn-nbctl`, talking to `remote` (`unix:PATH`, `tcp:HOST:PORT`) whatever the caller's environment says,
/// and giving up after ten seconds.
///
/// # Panics
///
/// When it is not installed.
#[must_use]
pub fn nbctl(remote: &str) -> Command {
    let mut command = Command::new(program("ovn-nbctl"));
    for variable in ["OVN_NB_DB", "OVN_NB_DAEMON", "OVN_NBCTL_OPTIONS"] {
        command.env_remove(variable);
    }
    command.arg(format!("--db={remote}")).arg("--timeout=10");
    command
}

/// Sends a signal, such as `TERM`, to a child of the test. The shell does it: there is one everywhere.
///
/// # Panics
///
/// When the process is not there.
pub fn signal(child: &Child, signal: &str) {
    let command = format!("kill -{signal} {}", child.id());
    let sent = Command::new("sh").args(["-c", &command]).status();
    assert!(sent.is_ok_and(|status| status.success()), "{command}");
}
