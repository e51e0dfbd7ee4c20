//! Download of the programs of a Debian suite.

mod apt;
mod workspace;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;

use apt::{Apt, can_hold, run};
use workspace::Workspace;

/// Packages with the programs and schemas of Open vSwitch and OVN.
const PACKAGES: [&str; 3] = ["ovn-central", "ovn-host", "openvswitch-switch"];

/// Beginnings of the names of the packages to unpack: programs, and the libraries that they need.
const UNPACKED: [&str; 4] = ["ovn-", "openvswitch-", "lib", "zlib1g"];

/// Name of a Debian suite, such as `trixie` or `sid`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Suite(String);

/// Error: a text is no name of a suite.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("a suite has a name of lowercase letters, digits, - and ., such as sid or trixie")]
pub struct InvalidSuite;

impl FromStr for Suite {
    type Err = InvalidSuite;

    fn from_str(text: &str) -> Result<Self, InvalidSuite> {
        let is_valid =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
        (begins && text.bytes().all(is_valid)).then(|| Self(text.to_owned())).ok_or(InvalidSuite)
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Progress of [`fetch`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// The suite's index of packages is downloaded.
    Index(&'a Suite),
    /// Packages are downloaded.
    Download {
        /// Number of packages.
        packages: usize,
    },
    /// Packages are unpacked.
    Unpack {
        /// Number of packages.
        packages: usize,
    },
}

impl fmt::Display for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(suite) => write!(f, "reading the packages of Debian {suite}"),
            Self::Download { packages } => write!(f, "downloading {packages} packages"),
            Self::Unpack { packages } => write!(f, "unpacking {packages} packages"),
        }
    }
}

/// Error: a release cannot be fetched.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The folder exists.
    #[error("{} exists; a release is fetched into a new folder", .0.display())]
    Exists(PathBuf),
    /// The folder beside the release, in which it is made, is of another origin.
    #[error("{} exists, and no fetch has made it: remove it, or fetch into another folder", .0.display())]
    Foreign(PathBuf),
    /// Another fetch makes a release in the same folder.
    #[error("{}: another fetch is running", .0.display())]
    Running(PathBuf),
    /// Options of apt cannot hold the path of the folder.
    #[error(
        "{}: a path with quotation marks, backslashes, control characters or other bytes than UTF-8 \
         cannot be an option of apt; fetch into another folder",
        .0.display()
    )]
    Unquotable(PathBuf),
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The keys of Debian's archive are not installed.
    #[error("{0} not found; Debian and Ubuntu: apt-get install debian-archive-keyring")]
    NoKeyring(&'static str),
    /// The machine has no apt or dpkg.
    #[error(
        "{0} not found: releases are fetched with apt and dpkg; on other systems install OVN and Open \
         vSwitch, for example with: dnf install ovn-central ovn-host openvswitch"
    )]
    NoProgram(String),
    /// A program cannot be run.
    #[error("cannot run {program}: {source}")]
    Run {
        /// Name of the program.
        program: String,
        /// The error.
        source: io::Error,
    },
    /// A program failed.
    #[error("{program}: {reason}")]
    Failed {
        /// Name of the program.
        program: String,
        /// Exit status and last line of its standard error.
        reason: String,
    },
    /// The fetch was cancelled.
    #[error("cancelled")]
    Cancelled,
}

impl FetchError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

/// Request to end a [`fetch`], from another thread. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Ends the fetch: the running program is killed.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Downloads and unpacks the programs of a suite into a new folder.
///
/// The folder gets its name when it is complete. Beside it, `FOLDER.partial` exists meanwhile.
///
/// # Errors
/// The folder exists or cannot be written, `FOLDER.partial` is not that of an ended fetch, apt or
/// dpkg is missing or fails, or the fetch is cancelled.
pub fn fetch(
    suite: &Suite,
    folder: &Path,
    cancellation: &Cancellation,
    mut progress: impl FnMut(Progress<'_>),
) -> Result<(), FetchError> {
    if folder.symlink_metadata().is_ok() {
        return Err(FetchError::Exists(folder.to_owned()));
    }
    // apt has a working directory of its own.
    let folder = &std::path::absolute(folder).map_err(FetchError::io(folder))?;
    if !can_hold(folder) {
        return Err(FetchError::Unquotable(folder.clone()));
    }
    let mut partial = folder.clone().into_os_string();
    partial.push(".partial");
    let workspace = Workspace::create(partial.into())?;
    let apt = Apt::new(workspace.path("apt"), suite)?;
    progress(Progress::Index(suite));
    apt.run(&["update"], cancellation)?;
    let plan = apt.run(&[&["-s", "install"], &PACKAGES[..]].concat(), cancellation)?;
    let packages: Vec<_> = plan
        .lines()
        .filter_map(|line| line.strip_prefix("Inst ")?.split(' ').next())
        .filter(|package| UNPACKED.iter().any(|begin| package.starts_with(begin)))
        .collect();
    progress(Progress::Download { packages: packages.len() });
    apt.run(&[&["download"], &packages[..]].concat(), cancellation)?;
    let files = apt.downloaded()?;
    progress(Progress::Unpack { packages: files.len() });
    let root = workspace.path("root");
    for file in files {
        let mut unpack = Command::new("dpkg");
        run(unpack.arg("-x").args([&file, &root]), cancellation)?;
    }
    fs::rename(root, folder).map_err(FetchError::io(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_suites_cannot_contain_options_of_apt() {
        for name in ["", "Sid", "sid main", "-sid", "sid\n", "si/d", "sid]"] {
            assert_eq!(name.parse::<Suite>(), Err(InvalidSuite), "{name:?}");
        }
        for name in ["sid", "trixie", "trixie-backports", "13"] {
            assert_eq!(name.parse::<Suite>().is_ok(), name != "13", "{name}");
        }
    }

    #[test]
    fn paths_that_options_of_apt_cannot_hold_are_refused() {
        for name in ["a\"b", "a\nb", "a\\b"] {
            let folder = tempfile::tempdir().unwrap();
            let suite: Suite = "sid".parse().unwrap();
            let into = folder.path().join(name);
            let error = fetch(&suite, &into, &Cancellation::default(), |_| {}).unwrap_err();
            assert!(matches!(error, FetchError::Unquotable(_)), "{error}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn an_existing_folder_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "text").unwrap();
        let suite: Suite = "sid".parse().unwrap();
        let error = fetch(&suite, folder.path(), &Cancellation::default(), |_| {}).unwrap_err();
        assert!(matches!(error, FetchError::Exists(_)), "{error}");
        assert_eq!(fs::read_to_string(file).unwrap(), "text");
    }
}
