//! Folders with the programs of a Debian suite, each created once below the target folder.

use std::env;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Debian suite with a release of Open vSwitch and OVN.
#[derive(Debug)]
pub(super) struct Suite {
    /// Name in the archive.
    name: &'static str,
    /// Environment variable with the path of an existing folder.
    variable: &'static str,
    /// `None` inside: the folder cannot be created.
    folder: OnceLock<Option<PathBuf>>,
}

/// Debian 13.
pub(super) static TRIXIE: Suite = Suite::new("trixie", "PATCHBAY_TRIXIE");

/// Debian's unstable suite, which has the newest release.
pub(super) static SID: Suite = Suite::new("sid", "PATCHBAY_SID");

/// Error: a suite has no folder.
#[derive(Debug, thiserror::Error)]
enum UnpackError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("no target folder around {}", .0.display())]
    NoTargetFolder(PathBuf),
    #[error(transparent)]
    Name(#[from] crate::InvalidSuite),
    #[error(transparent)]
    Fetch(#[from] crate::FetchError),
}

impl UnpackError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

impl Suite {
    const fn new(name: &'static str, variable: &'static str) -> Self {
        Self { name, variable, folder: OnceLock::new() }
    }

    /// The folder, which is created if it does not exist. `None`: it cannot be created; the reason
    /// is on standard error, once per process.
    pub(super) fn folder(&self) -> Option<&Path> {
        let open = || {
            if let Some(folder) = env::var_os(self.variable) {
                return Some(folder.into());
            }
            self.unpack_once()
                .inspect_err(|error| {
                    let name = self.name;
                    print_uncaptured(&format!("NOT COMPARED with Debian {name}: {error}"));
                })
                .ok()
        };
        self.folder.get_or_init(open).as_deref()
    }

    fn unpack_once(&self) -> Result<PathBuf, UnpackError> {
        let target = target_folder()?;
        let done = target.join(self.name);
        // Test processes may create it at the same time.
        let lock_path = target.join(format!("{}.lock", self.name));
        let lock = File::create(&lock_path).map_err(UnpackError::io(&lock_path))?;
        lock.lock().map_err(UnpackError::io(&lock_path))?;
        if !done.exists() {
            let name = self.name;
            print_uncaptured(&format!("downloading Open vSwitch and OVN of Debian {name}, once"));
            let cancellation = crate::Cancellation::default();
            crate::fetch(&name.parse()?, &done, &cancellation, |_| {})?;
        }
        Ok(done)
    }
}

/// Prints a line to standard error, also in tests that pass: only the output of macros is captured.
fn print_uncaptured(text: &str) {
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Cargo's target folder, which contains the test's program as `PROFILE/deps/NAME`.
fn target_folder() -> Result<PathBuf, UnpackError> {
    let test = env::current_exe().map_err(UnpackError::io(Path::new("this program")))?;
    // Cargo does not mark a target folder that existed before, such as a restored cache.
    let marked = test.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    let target = marked
        .or_else(|| {
            let dependencies = test
                .ancestors()
                .find(|folder| folder.ends_with("deps") || folder.ends_with("examples"));
            dependencies?.parent()?.parent()
        })
        .map(Path::to_owned);
    target.ok_or(UnpackError::NoTargetFolder(test))
}
