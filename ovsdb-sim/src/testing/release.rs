//! Releases of Open vSwitch and OVN: the installed one, and others in separate folders.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::program;
use super::suite::{SID, Suite, TRIXIE};

/// Folders of a release's programs. Debian's `ovs-vswitchd` is in a folder of its own.
const PROGRAM_FOLDERS: [&str; 3] = ["usr/bin", "usr/sbin", "usr/lib/openvswitch-switch"];

/// Release of Open vSwitch and OVN, whose programs can be run.
#[derive(Clone, Debug)]
pub struct Release {
    /// `None`: the installed release.
    root: Option<SystemRoot>,
}

/// Folder with programs and all their libraries. The programs run with those libraries, without a
/// change of the root folder, so they need no privileges.
#[derive(Clone, Debug)]
struct SystemRoot {
    folder: PathBuf,
    /// Path of the dynamic linker, `ld.so`.
    loader: PathBuf,
    libraries: PathBuf,
}

impl Release {
    /// The installed release.
    #[must_use]
    pub fn installed() -> Self {
        Self { root: None }
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
        let root = SystemRoot::open(suite.folder()?.to_owned());
        Some(Self {
            root: Some(root.unwrap_or_else(|reason| panic!("{reason}"))),
        })
    }

    /// Folder with the programs. `None`: the installed release.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.root.as_ref().map(|root| &*root.folder)
    }

    /// A command that runs a program, such as `ovsdb-server`, still without arguments.
    ///
    /// # Panics
    ///
    /// If the release does not have it.
    #[must_use]
    pub fn command(&self, name: &str) -> Command {
        let Some(root) = &self.root else {
            return Command::new(program(name));
        };
        let mut command = Command::new(&root.loader);
        command
            .arg("--library-path")
            .arg(&root.libraries)
            .arg(root.program(name));
        command
    }

    /// The path of a schema, such as `ovn-nb` or `vswitch`.
    ///
    /// # Panics
    ///
    /// If the release does not have it.
    #[must_use]
    pub fn schema(&self, name: &str) -> PathBuf {
        let root = self
            .root
            .as_ref()
            .map_or(Path::new("/"), |root| &root.folder);
        let folders = ["usr/share/ovn", "usr/share/openvswitch"];
        let files = folders.map(|folder| root.join(folder).join(format!("{name}.ovsschema")));
        let file = files.iter().find(|file| file.is_file());
        file.cloned()
            .unwrap_or_else(|| panic!("there is no {}", files[0].display()))
    }

    /// The version of its `ovsdb-server`, such as `3.1.0`.
    ///
    /// # Panics
    ///
    /// If the program does not print it.
    #[must_use]
    pub fn version(&self) -> String {
        let output = self.command("ovsdb-server").arg("--version").output();
        let output = output.expect("an installed program starts");
        let text = String::from_utf8_lossy(&output.stdout);
        let word = text
            .lines()
            .next()
            .and_then(|line| line.split(' ').next_back());
        word.unwrap_or_else(|| panic!("ovsdb-server --version: {output:?}"))
            .to_owned()
    }
}

impl SystemRoot {
    /// Finds the linker and the libraries of the system in a folder.
    ///
    /// # Errors
    /// They are missing.
    fn open(folder: PathBuf) -> Result<Self, String> {
        let find = |parent: &Path, fits: fn(&str) -> bool| {
            fs::read_dir(parent)
                .into_iter()
                .flatten()
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .filter(|name| fits(name))
                .min()
                .map(|name| parent.join(name))
        };
        let is_loader = |name: &str| name.starts_with("ld-linux") || name.starts_with("ld64");
        let libraries = find(&folder.join("usr/lib"), |name| name.contains("-linux-gnu"));
        let loader = libraries
            .as_deref()
            .and_then(|libraries| find(libraries, is_loader));
        match (loader, libraries) {
            (Some(loader), Some(libraries)) => Ok(Self {
                folder,
                loader,
                libraries,
            }),
            _ => Err(format!("no system with libraries in {}", folder.display())),
        }
    }

    fn program(&self, name: &str) -> OsString {
        let files = PROGRAM_FOLDERS.map(|folder| self.folder.join(folder).join(name));
        let file = files.into_iter().find(|file| file.is_file());
        let file = file.unwrap_or_else(|| panic!("{} has no {name}", self.folder.display()));
        file.into_os_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_unpacked_releases_run() {
        let major = |release: &Release| {
            let version = release.version();
            let (major, _) = version.split_once('.').unwrap();
            major.parse::<u32>().unwrap()
        };
        if let Some(trixie) = Release::trixie() {
            assert!(trixie.version().starts_with("3.5."));
        }
        if let Some(newest) = Release::newest() {
            assert!(major(&newest) >= 4);
            for name in ["ovn-northd", "ovn-controller", "ovs-vswitchd", "ovn-nbctl"] {
                let output = newest.command(name).arg("--version").output().unwrap();
                assert!(output.status.success(), "{name}: {output:?}");
            }
            assert!(newest.schema("ovn-sb").is_file() && newest.schema("vswitch").is_file());
        }
    }
}
