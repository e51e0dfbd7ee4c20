//! Runs that use one folder at the same time.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::folder::{StateError, failed};

/// The file that is locked.
const NAME: &str = ".lock";

/// Keeps other runs from a folder until it is dropped. A folder in which nothing was put goes with it.
#[derive(Debug)]
pub struct StateLock {
    folder: PathBuf,
    is_exclusive: bool,
    /// The lock ends when this is closed; none if there was no folder to be locked.
    _file: Option<File>,
}

impl StateLock {
    /// None if another run has the folder.
    pub(super) fn exclusive(folder: &Path) -> Result<Option<Self>, StateError> {
        let path = folder.join(NAME);
        loop {
            fs::create_dir_all(folder).map_err(failed("create", folder))?;
            let file = match File::create(&path) {
                // Its last user has just removed the folder.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !folder.exists() => {
                    continue;
                }
                file => file.map_err(failed("create", &path))?,
            };
            if !is_locked(file.try_lock(), &path)? {
                return Ok(None);
            }
            let locked = file.metadata().map_err(failed("lock", &path))?.ino();
            // Whoever had the lock may have removed the file, and others have a new one.
            if fs::metadata(&path).is_ok_and(|there| there.ino() == locked) {
                return Ok(Some(Self {
                    folder: folder.to_owned(),
                    is_exclusive: true,
                    _file: Some(file),
                }));
            }
        }
    }

    /// None if another run writes to the folder.
    pub(super) fn shared(folder: &Path) -> Result<Option<Self>, StateError> {
        use io::ErrorKind::{NotADirectory, NotFound};

        let path = folder.join(NAME);
        let file = match File::open(&path) {
            // If the folder itself is no folder, those who read it say so.
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => None,
            file => Some(file.map_err(failed("open", &path))?),
        };
        if let Some(file) = &file
            && !is_locked(file.try_lock_shared(), &path)?
        {
            return Ok(None);
        }
        Ok(Some(Self {
            folder: folder.to_owned(),
            is_exclusive: false,
            _file: file,
        }))
    }
}

/// Whether the attempt to lock this file has had no other run in its way.
fn is_locked(attempt: Result<(), TryLockError>, path: &Path) -> Result<bool, StateError> {
    match attempt {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(failed("lock", path)(error)),
    }
}

impl Drop for StateLock {
    fn drop(&mut self) {
        let holds_more = |mut entries: fs::ReadDir| {
            entries.any(|entry| entry.map_or(true, |entry| entry.file_name() != NAME))
        };
        if self.is_exclusive && fs::read_dir(&self.folder).is_ok_and(|entries| !holds_more(entries))
        {
            // An empty folder that stays does no harm.
            let _ = fs::remove_file(self.folder.join(NAME));
            let _ = fs::remove_dir(&self.folder);
        }
    }
}
