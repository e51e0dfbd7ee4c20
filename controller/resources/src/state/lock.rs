//! Lock of a state folder against other runs.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::folder::{StateError, failed, refuse_link};

/// Name of the lock file in the state folder.
const LOCK_FILE_NAME: &str = ".lock";

/// Lock of a state folder, released when dropped. An exclusive lock then also removes a folder
/// without state files.
#[derive(Debug)]
pub struct StateLock {
    folder: PathBuf,
    is_exclusive: bool,
    /// Lock file; closing it releases the lock. `None`: there was no folder to lock.
    _file: Option<File>,
}

impl StateLock {
    /// Locks the folder exclusively. `None`: another run holds a lock.
    pub(super) fn exclusive(folder: &Path) -> Result<Option<Self>, StateError> {
        let path = folder.join(LOCK_FILE_NAME);
        loop {
            fs::create_dir_all(folder).map_err(failed("create", folder))?;
            refuse_other_files(&path)?;
            let file = match File::create(&path) {
                // Another run has just removed the folder.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !folder.exists() => {
                    continue;
                }
                file => file.map_err(failed("create", &path))?,
            };
            if !is_locked(file.try_lock(), &path)? {
                return Ok(None);
            }
            let locked = file.metadata().map_err(failed("lock", &path))?.ino();
            // The previous holder may have removed the file, and another run may have created and
            // locked a new one.
            if fs::metadata(&path).is_ok_and(|there| there.ino() == locked) {
                return Ok(Some(Self {
                    folder: folder.to_owned(),
                    is_exclusive: true,
                    _file: Some(file),
                }));
            }
        }
    }

    /// Locks the folder for reading. `None`: another run holds the exclusive lock.
    pub(super) fn shared(folder: &Path) -> Result<Option<Self>, StateError> {
        use io::ErrorKind::{NotADirectory, NotFound};

        let path = folder.join(LOCK_FILE_NAME);
        refuse_other_files(&path)?;
        let file = match File::open(&path) {
            // `StateFolder::load` reports a path that is not a folder.
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => None,
            file => Some(file.map_err(failed("open", &path))?),
        };
        if let Some(file) = &file
            && !is_locked(file.try_lock_shared(), &path)?
        {
            return Ok(None);
        }
        Ok(Some(Self { folder: folder.to_owned(), is_exclusive: false, _file: file }))
    }
}

/// Refuses a lock file that is a link, a pipe or a device: to open it may write elsewhere or wait.
fn refuse_other_files(path: &Path) -> Result<(), StateError> {
    refuse_link(path)?;
    if fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        let error = io::Error::other("not a regular file");
        return Err(failed("lock", path)(error));
    }
    Ok(())
}

/// Converts the result of an attempt to lock. `false`: another run holds a conflicting lock.
fn is_locked(attempt: Result<(), TryLockError>, path: &Path) -> Result<bool, StateError> {
    match attempt {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(failed("lock", path)(error)),
    }
}

impl Drop for StateLock {
    fn drop(&mut self) {
        let has_other_files = |mut entries: fs::ReadDir| {
            entries.any(|entry| entry.map_or(true, |entry| entry.file_name() != LOCK_FILE_NAME))
        };
        if self.is_exclusive
            && fs::read_dir(&self.folder).is_ok_and(|entries| !has_other_files(entries))
        {
            // Ignore errors, because a remaining empty folder does no harm.
            let _ = fs::remove_file(self.folder.join(LOCK_FILE_NAME));
            let _ = fs::remove_dir(&self.folder);
        }
    }
}
