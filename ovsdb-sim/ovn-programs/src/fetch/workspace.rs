//! Folder in which a release is made.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::FetchError;

/// File that shows that a fetch has made the folder; locked while the fetch runs.
const MARK: &str = "patchbay-fetch";
/// Content of [`MARK`].
const MARK_CONTENT: &str = "folder of `patchbay lab fetch`; removed when it ends\n";

/// New folder, removed with the value.
#[derive(Debug)]
pub(super) struct Workspace {
    folder: PathBuf,
    _mark: File,
}

impl Workspace {
    /// Creates the folder. The folder of a fetch that was killed is removed before.
    pub(super) fn create(folder: PathBuf) -> Result<Self, FetchError> {
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                remove_abandoned(&folder)?;
                fs::create_dir(&folder).map_err(FetchError::io(&folder))?;
            }
            created => created.map_err(FetchError::io(&folder))?,
        }
        let mark = create_mark(&folder).map_err(FetchError::io(&folder.join(MARK)))?;
        Ok(Self { folder, _mark: mark })
    }

    /// Path of a file or folder inside.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // A folder that stays is removed by the next fetch.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn create_mark(folder: &Path) -> io::Result<File> {
    let mut mark = File::create_new(folder.join(MARK))?;
    mark.lock()?;
    mark.write_all(MARK_CONTENT.as_bytes())?;
    Ok(mark)
}

/// Removes the folder of a fetch that has ended.
fn remove_abandoned(folder: &Path) -> Result<(), FetchError> {
    let path = folder.join(MARK);
    let is_file = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    let is_folder = fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir());
    // To open a FIFO waits for a writer.
    if !is_folder || !is_file(&path) {
        return Err(FetchError::Foreign(folder.to_owned()));
    }
    let mark = File::open(&path).map_err(FetchError::io(&path))?;
    match mark.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(FetchError::Running(folder.to_owned())),
        Err(TryLockError::Error(error)) => return Err(FetchError::io(&path)(error)),
    }
    let mut content = String::new();
    (&mark)
        .take(MARK_CONTENT.len() as u64)
        .read_to_string(&mut content)
        .map_err(FetchError::io(&path))?;
    if content != MARK_CONTENT {
        return Err(FetchError::Foreign(folder.to_owned()));
    }
    fs::remove_dir_all(folder).map_err(FetchError::io(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_killed_fetch_is_removed_and_no_other() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("ovn.partial");
        let create = || Workspace::create(folder.clone());

        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("notes"), "text").unwrap();
        assert!(matches!(create(), Err(FetchError::Foreign(_))));
        fs::write(folder.join(MARK), "text").unwrap();
        assert!(matches!(create(), Err(FetchError::Foreign(_))));
        assert!(folder.join("notes").exists());

        fs::write(folder.join(MARK), MARK_CONTENT).unwrap();
        let running = create().unwrap();
        assert!(!folder.join("notes").exists());
        assert!(matches!(create(), Err(FetchError::Running(_))));
        drop(running);
        assert!(!folder.exists());
    }
}
