//! Pidfile, locked as ovs-appctl expects.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

/// Pidfile of this process. Dropping it removes the file.
///
/// Programs take the file for stale unless the process that it names has locked it with `F_SETLK`.
/// Such a lock ends when the process closes any descriptor of the file, so nothing here opens the
/// file a second time.
#[derive(Debug)]
pub(crate) struct Pidfile {
    path: PathBuf,
    _locked: File,
}

/// Error: the pidfile cannot be made. The texts are ovsdb-server's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PidfileError {
    #[error("{}: create failed ({source})", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("{}: fcntl(F_SETLK) failed ({source})", path.display())]
    Lock { path: PathBuf, source: io::Error },
    #[error("{}: write failed ({source})", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{}: already running as pid {process}, aborting", path.display())]
    Running { path: PathBuf, process: u32 },
    #[error("{}: pidfile check failed ({source}), aborting", path.display())]
    Check { path: PathBuf, source: io::Error },
    #[error("failed to rename \"{}\" to \"{}\" ({source})", from.display(), to.display())]
    Rename { from: PathBuf, to: PathBuf, source: io::Error },
}

impl Pidfile {
    /// Creates the file and locks it. A file that no running process has locked is replaced, and
    /// with `overwrite` every file.
    pub(crate) fn create(path: PathBuf, overwrite: bool) -> Result<Self, PidfileError> {
        let mut name = path.clone().into_os_string();
        name.push(".tmp");
        if overwrite {
            name.push(process::id().to_string());
        }
        let temporary = PathBuf::from(name);
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&temporary)
            .map_err(|source| PidfileError::Create { path: temporary.clone(), source })?;
        // As in ovsdb-server, the temporary file excludes processes that start at the same time.
        let mut whole = whole_file_lock();
        fcntl(&file, FcntlArg::F_SETLK(&whole)).map_err(|error| PidfileError::Lock {
            path: temporary.clone(),
            source: error.into(),
        })?;
        let written = (|| {
            if !overwrite {
                check_not_running(&path, &mut whole)?;
            }
            file.set_len(0)
                .and_then(|()| writeln!(file, "{}", process::id()))
                .map_err(|source| PidfileError::Write { path: temporary.clone(), source })?;
            fs::rename(&temporary, &path).map_err(|source| PidfileError::Rename {
                from: temporary.clone(),
                to: path.clone(),
                source,
            })
        })();
        if let Err(error) = written {
            // The first error is the one to report.
            fs::remove_file(&temporary).unwrap_or_default();
            return Err(error);
        }
        Ok(Self { path, _locked: file })
    }
}

impl Drop for Pidfile {
    fn drop(&mut self) {
        // Another program may have removed it.
        fs::remove_file(&self.path).unwrap_or_default();
    }
}

/// Checks that no process has the pidfile locked.
fn check_not_running(path: &Path, lock: &mut libc::flock) -> Result<(), PidfileError> {
    let failed = |source| PidfileError::Check { path: path.to_owned(), source };
    let mut file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    fcntl(&file, FcntlArg::F_GETLK(lock)).map_err(|error| failed(error.into()))?;
    if i32::from(lock.l_type) == libc::F_UNLCK {
        return Ok(());
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    match text.trim().parse::<u32>() {
        Ok(process) if i64::from(process) == i64::from(lock.l_pid) => {
            let path = path.to_owned();
            Err(PidfileError::Running { path, process })
        }
        _ => Err(failed(Errno::ESRCH.into())),
    }
}

/// A write lock of a whole file.
fn whole_file_lock() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}
