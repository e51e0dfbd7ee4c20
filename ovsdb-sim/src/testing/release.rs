//! Releases of Open vSwitch and OVN: the installed one, and others in folders of their own.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{program, trixie};

/// A release of Open vSwitch and OVN that can be run.
#[derive(Clone, Debug)]
pub struct Release {
    /// None for what is installed.
    root: Option<Root>,
}

/// A folder with a system of its own, whose programs run with its own libraries: they see the files that everybody
/// sees, and need no rights that others do not have.
#[derive(Clone, Debug)]
struct Root {
    folder: PathBuf,
    /// What runs programs, `ld.so`.
    loader: PathBuf,
    libraries: PathBuf,
}

impl Release {
    /// What is installed on this machine.
    #[must_use]
    pub fn installed() -> Self {
        Self { root: None }
    }

    /// OVS 3.5 with OVN 25.03, as Debian 13 (trixie) has them; none, with the reason on standard error even where the
    /// test's output is captured, when they cannot be had.
    ///
    /// They are unpacked below the target folder when they are first asked for, which takes a minute or two, the
    /// `debootstrap` program and root's rights. The environment's `PATCHBAY_TRIXIE` names a folder to be used instead.
    ///
    /// # Panics
    ///
    /// When `PATCHBAY_TRIXIE` names a folder that has no such system.
    #[must_use]
    pub fn trixie() -> Option<Self> {
        let root = Root::at(trixie::folder()?);
        Some(Self {
            root: Some(root.unwrap_or_else(|reason| panic!("{reason}"))),
        })
    }

    /// A program, such as `ovsdb-server`, ready to get its arguments.
    ///
    /// # Panics
    ///
    /// When the release does not have it.
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

    /// A schema, such as `ovn-nb` or `vswitch`.
    ///
    /// # Panics
    ///
    /// When the release does not have it.
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
    /// When that does not say it.
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

impl Root {
    /// The system in a folder.
    ///
    /// # Errors
    /// What is missing there.
    fn at(folder: PathBuf) -> Result<Self, String> {
        let find = |parent: &str, fits: fn(&str) -> bool| {
            let names = fs::read_dir(folder.join(parent)).into_iter().flatten();
            let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            let found = names.filter(|name| fits(name)).min();
            found.map(|name| folder.join(parent).join(name))
        };
        let is_loader = |name: &str| name.starts_with("ld-linux") || name.starts_with("ld64");
        let loader = find("lib64", is_loader).or_else(|| find("lib", is_loader));
        let libraries = find("usr/lib", |name| name.contains("-linux-gnu"));
        match (loader, libraries) {
            (Some(loader), Some(libraries)) => Ok(Self {
                folder,
                loader,
                libraries,
            }),
            _ => Err(format!(
                "there is no system with libraries in {}",
                folder.display()
            )),
        }
    }

    fn program(&self, name: &str) -> OsString {
        let folders = ["usr/bin", "usr/sbin"];
        let files = folders.map(|folder| self.folder.join(folder).join(name));
        let file = files.into_iter().find(|file| file.is_file());
        let file = file.unwrap_or_else(|| panic!("{} has no {name}", self.folder.display()));
        file.into_os_string()
    }
}
