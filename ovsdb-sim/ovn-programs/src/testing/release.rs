//! Releases of Open vSwitch and OVN: the installed one, and others in separate folders.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::suite::{SID, Suite, TRIXIE};
use crate::Programs;

/// Packages of Debian and Ubuntu with all programs and schemas that tests use.
const PACKAGES: &str = "ovn-central ovn-common openvswitch-common";

/// The path of an installed program such as `ovsdb-server`.
///
/// # Panics
///
/// If it is not installed.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    Release::installed().command(name).get_program().into()
}

/// The `OVN_Northbound` schema of the installed OVN; the environment's `OVN_NB_SCHEMA` names
/// another file.
///
/// # Panics
///
/// If there is no such file.
#[must_use]
pub fn installed_nb_schema() -> PathBuf {
    env::var_os("OVN_NB_SCHEMA")
        .map_or_else(|| Release::installed().schema("ovn-nb"), PathBuf::from)
}

/// A command that runs the real `ovn-nbctl` on `remote` (`unix:PATH`, `tcp:HOST:PORT`), with a
/// timeout of ten seconds. It ignores the caller's environment.
///
/// # Panics
///
/// If it is not installed.
#[must_use]
pub fn nbctl(remote: &str) -> Command {
    let mut command = Release::installed().command("ovn-nbctl");
    for variable in ["OVN_NB_DB", "OVN_NB_DAEMON", "OVN_NBCTL_OPTIONS"] {
        command.env_remove(variable);
    }
    command.arg(format!("--db={remote}")).arg("--timeout=10");
    command
}

/// Release of Open vSwitch and OVN, whose programs can be run.
#[derive(Clone, Debug)]
pub struct Release(Programs);

impl Release {
    /// The installed release.
    #[must_use]
    pub fn installed() -> Self {
        Self(Programs::installed())
    }

    /// The release of Debian 13 (trixie): OVS 3.5 with OVN 25.03. `None`: it is not available; the
    /// reason is on standard error, even if the test's output is captured.
    ///
    /// The first call downloads Debian's packages and unpacks them below the target folder. That
    /// needs apt, a network and some seconds, and no privileges. The environment variable
    /// `PATCHBAY_TRIXIE` can name an existing folder.
    ///
    /// # Panics
    ///
    /// If there is no such system in the folder.
    #[must_use]
    pub fn trixie() -> Option<Self> {
        Self::unpacked(&TRIXIE)
    }

    /// The newest release, that of Debian's unstable suite (sid): at least OVS 4.0 with OVN 26.03.
    /// `None`: it is not available, as in [`trixie`](Self::trixie). The environment variable is
    /// `PATCHBAY_SID`.
    ///
    /// # Panics
    ///
    /// If there is no such system in the folder.
    #[must_use]
    pub fn newest() -> Option<Self> {
        Self::unpacked(&SID)
    }

    fn unpacked(suite: &Suite) -> Option<Self> {
        let programs = Programs::below(suite.folder()?);
        Some(Self(programs.unwrap_or_else(|error| panic!("{error}"))))
    }

    /// Folder with the programs. `None`: the installed release.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.0.folder()
    }

    /// A command that runs a program, such as `ovsdb-server`, still without arguments.
    ///
    /// # Panics
    ///
    /// If the release does not have it.
    #[must_use]
    pub fn command(&self, name: &str) -> Command {
        self.0.command(name).unwrap_or_else(|error| {
            panic!("{error}; Debian and Ubuntu: apt-get install {PACKAGES}")
        })
    }

    /// The path of a schema, such as `ovn-nb` or `vswitch`.
    ///
    /// # Panics
    ///
    /// If the release does not have it.
    #[must_use]
    pub fn schema(&self, name: &str) -> PathBuf {
        self.0.schema_path(name).unwrap_or_else(|error| {
            panic!("{error}; Debian and Ubuntu: apt-get install {PACKAGES}")
        })
    }

    /// The version of its `ovsdb-server`, such as `3.1.0`.
    ///
    /// # Panics
    ///
    /// If the program does not print it.
    #[must_use]
    pub fn version(&self) -> String {
        self.0.version_of("ovsdb-server").unwrap_or_else(|error| panic!("{error}")).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_unpacked_releases_run() {
        if let Some(trixie) = Release::trixie() {
            assert!(trixie.version().starts_with("3.5."));
        }
        if let Some(newest) = Release::newest() {
            assert!(newest.0.version_of("ovsdb-server").unwrap() >= crate::Version::new(4, 0, 0));
            for name in ["ovn-northd", "ovn-controller", "ovs-vswitchd", "ovn-nbctl"] {
                let output = newest.command(name).arg("--version").output().unwrap();
                assert!(output.status.success(), "{name}: {output:?}");
            }
            assert!(newest.schema("ovn-sb").is_file() && newest.schema("vswitch").is_file());
        }
    }
}
