//! The lock that Open vSwitch's programs take beside a database file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use super::FileError;

/// The right to write a database file, for as long as this exists.
///
/// It is ovsdb-server's and ovsdb-tool's: a write lock on the file `.NAME.~lock~` beside the database file, which stays
/// behind empty. Theirs belong to their process; this one belongs to the open file. Either kind excludes the other, and
/// this one also another of the same process, and does not end when the process closes the same file elsewhere.
#[derive(Debug)]
pub(super) struct LockFile(File);

impl LockFile {
    /// Locks a database file, whether it exists or not.
    pub(super) fn take(path: &Path) -> Result<Self, FileError> {
        let lock_path = lock_path(path).map_err(|source| FileError::io(path, source))?;
        let cannot = |source| FileError::Lock {
            path: path.to_owned(),
            lock_path: lock_path.clone(),
            source,
        };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&lock_path).map_err(cannot)?;
        match set(&file, libc::F_WRLCK) {
            Ok(()) => Ok(Self(file)),
            Err(Errno::EAGAIN | Errno::EACCES) => Err(FileError::InUse {
                path: path.to_owned(),
            }),
            Err(error) => Err(cannot(error.into())),
        }
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // Closing is not enough while a process that is being started has the descriptor too. Nothing can be done
        // about a failure, after which the lock still ends with the last descriptor.
        set(&self.0, libc::F_UNLCK).unwrap_or_default();
    }
}

/// Locks or unlocks all of a file, now or not at all.
fn set(file: &File, to: libc::c_int) -> nix::Result<()> {
    let whole = libc::flock {
        l_type: to as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        // The system wants 0 of locks that belong to open files.
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_OFD_SETLK(&whole)).map(drop)
}

/// Where the lock of a database file is: beside the file itself, not beside a link to it.
fn lock_path(path: &Path) -> io::Result<PathBuf> {
    // What cannot be followed is no link, or its lock cannot be opened either.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let Some(file_name) = real.file_name() else {
        let is_empty = path.as_os_str().is_empty();
        let error = if is_empty {
            Errno::ENOENT
        } else {
            Errno::EISDIR
        };
        return Err(error.into());
    };
    let mut name = std::ffi::OsString::from(".");
    name.push(file_name);
    name.push(".~lock~");
    Ok(real.with_file_name(name))
}
