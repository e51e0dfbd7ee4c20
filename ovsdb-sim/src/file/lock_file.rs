//! Lock of a database file, as Open vSwitch's programs take it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use super::FileError;

/// Exclusive right to write a database file, until it is dropped.
///
/// The lock is that of ovsdb-server and ovsdb-tool: a write lock on the file `.NAME.~lock~` beside
/// the database file. The empty lock file is not removed. The programs' locks belong to a process;
/// this one belongs to the open file (`F_OFD_SETLK`). Both kinds exclude each other. This one also
/// excludes a second lock of the same process, and does not end when the process closes another
/// descriptor of the file.
#[derive(Debug)]
pub(super) struct LockFile(File);

impl LockFile {
    /// Locks a database file, which need not exist.
    pub(super) fn take(path: &Path) -> Result<Self, FileError> {
        let lock_path = lock_path(path).map_err(|source| FileError::io(path, source))?;
        let lock_error = |source| FileError::Lock {
            path: path.to_owned(),
            lock_path: lock_path.clone(),
            source,
        };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&lock_path).map_err(lock_error)?;
        match set_lock(&file, libc::F_WRLCK) {
            Ok(()) => Ok(Self(file)),
            Err(Errno::EAGAIN | Errno::EACCES) => Err(FileError::InUse { path: path.to_owned() }),
            Err(error) => Err(lock_error(error.into())),
        }
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // A process that is being started may have a copy of the descriptor, so closing it is not
        // enough. After a failure, the lock ends with the last descriptor.
        set_lock(&self.0, libc::F_UNLCK).unwrap_or_default();
    }
}

/// Locks or unlocks a whole file, without waiting.
fn set_lock(file: &File, to: libc::c_int) -> nix::Result<()> {
    let whole = libc::flock {
        l_type: to as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        // Must be 0 for a lock that belongs to an open file.
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_OFD_SETLK(&whole)).map(drop)
}

/// The path of the lock file: beside the database file itself, not beside a link to it.
fn lock_path(path: &Path) -> io::Result<PathBuf> {
    // A path that cannot be resolved is not a link, or its lock file cannot be opened either.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let Some(file_name) = real.file_name() else {
        let is_empty = path.as_os_str().is_empty();
        let error = if is_empty { Errno::ENOENT } else { Errno::EISDIR };
        return Err(error.into());
    };
    let mut name = std::ffi::OsString::from(".");
    name.push(file_name);
    name.push(".~lock~");
    Ok(real.with_file_name(name))
}
