//! Folder of a lab: sockets and logs, in a subfolder for each node.

use std::env;
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use thiserror::Error;

/// Beginning of the names of labs' folders.
const PREFIX: &str = "patchbay-lab-";
/// File that the process of a lab keeps locked.
const LOCK: &str = "lock";
/// Name of [`LOCK`] until it is locked.
const NEW_LOCK: &str = "lock.new";
/// Content of [`LOCK`], without which a folder is not that of a lab.
const LOCK_CONTENT: &str = "lock of a Patchbay lab\n";
/// Mode of the folder: its sockets accept commands and rows from everybody who can reach them.
const FOLDER_MODE: u32 = 0o700;
/// Attempts to remove a folder, because a killed program may still create a file in it.
const REMOVALS: usize = 100;
/// Time between two attempts to remove a folder.
const REMOVAL_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum length of a unix socket's path in bytes: `sun_path` without its last zero.
const MAX_SOCKET_PATH: usize = 107;
/// Length of the longest path of a socket in the folder, such as `/n99/ovs-vswitchd.1234567.ctl`.
const LONGEST_SOCKET: usize = 40;

/// Error: a folder for a lab cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The folder of the lab cannot be created.
    #[error("cannot create the folder of the lab: {0}")]
    Parent(io::Error),
    /// A file or folder cannot be created.
    #[error("{}: {source}", .path.display())]
    Create {
        /// Path of the file or folder.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// Sockets in the folder would have paths that are too long.
    #[error(
        "{}: the path has {} bytes; sockets inside need one of at most {} bytes, so set TMPDIR to \
         a shorter path",
        .0.display(), .0.as_os_str().len(), MAX_SOCKET_PATH - LONGEST_SOCKET
    )]
    TooLong(PathBuf),
}

/// Folder of a lab. Dropping it removes it with its content.
///
/// The folder of a lab that was killed has a lock which nobody holds. The next lab removes it.
#[derive(Debug)]
pub(crate) struct LabFolder {
    folder: tempfile::TempDir,
    _lock: File,
}

impl LabFolder {
    /// Creates a folder below the system's temporary folder.
    pub(crate) fn create() -> Result<Self, FolderError> {
        Self::create_in(&env::temp_dir())
    }

    fn create_in(parent: &Path) -> Result<Self, FolderError> {
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(FOLDER_MODE))
            .tempdir_in(parent)
            .map_err(FolderError::Parent)?;
        remove_abandoned(parent, folder.path());
        if folder.path().as_os_str().len() > MAX_SOCKET_PATH - LONGEST_SOCKET {
            return Err(FolderError::TooLong(folder.path().to_owned()));
        }
        match create_lock(folder.path()) {
            Ok(lock) => Ok(Self { folder, _lock: lock }),
            Err(source) => Err(FolderError::Create { path: folder.path().join(LOCK), source }),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Creates the folder of a node. `number` counts from 1; names would be too long for sockets.
    pub(crate) fn node(&self, number: usize) -> Result<PathBuf, FolderError> {
        let path = self.path().join(format!("n{number}"));
        match fs::create_dir(&path) {
            Ok(()) => Ok(path),
            Err(source) => Err(FolderError::Create { path, source }),
        }
    }
}

impl Drop for LabFolder {
    fn drop(&mut self) {
        for _ in 0..REMOVALS {
            match fs::remove_dir_all(self.path()) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    thread::sleep(REMOVAL_INTERVAL);
                }
                // Other errors do not pass.
                _ => return,
            }
        }
    }
}

/// Creates the lock of a folder. It gets its name when it is locked, so that another lab never takes
/// the folder for abandoned.
fn create_lock(folder: &Path) -> io::Result<File> {
    let path = folder.join(NEW_LOCK);
    let mut lock = File::create(&path)?;
    lock.write_all(LOCK_CONTENT.as_bytes())?;
    lock.lock()?;
    fs::rename(path, folder.join(LOCK))?;
    Ok(lock)
}

/// Removes folders of labs whose process has ended. A folder without a lock file may be in the
/// making, so it stays, as do folders of other users than that of `own`.
fn remove_abandoned(parent: &Path, own: &Path) {
    let Ok(user) = fs::symlink_metadata(own).map(|metadata| metadata.uid()) else {
        return;
    };
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = entry.path();
        if is_abandoned(&path, user).unwrap_or_default()
            && let Err(error) = fs::remove_dir_all(&path)
        {
            tracing::debug!(path = %path.display(), %error, "cannot remove an abandoned folder");
        }
    }
}

/// `true` if the folder is that of a lab of this user whose process has ended.
fn is_abandoned(folder: &Path, user: u32) -> io::Result<bool> {
    let path = folder.join(LOCK);
    let (outer, inner) = (fs::symlink_metadata(folder)?, fs::symlink_metadata(&path)?);
    // To open a FIFO waits for a writer.
    if !outer.is_dir() || outer.uid() != user || !inner.is_file() {
        return Ok(false);
    }
    let lock = File::open(path)?;
    let mut content = String::new();
    let length = LOCK_CONTENT.len() as u64;
    (&lock).take(length).read_to_string(&mut content)?;
    Ok(content == LOCK_CONTENT && lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_folder_of_a_killed_lab_is_removed_and_that_of_a_running_one_stays() {
        let parent = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let path = parent.path().join(format!("{PREFIX}{name}"));
            fs::create_dir(&path).unwrap();
            (create_lock(&path).unwrap(), path)
        };
        let ((killed, killed_path), (_running, running_path)) = (folder("a"), folder("b"));
        drop(killed);
        let lab = LabFolder::create_in(parent.path()).unwrap();
        assert!(!killed_path.exists());
        assert!(running_path.exists());
        let mode = fs::metadata(lab.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn foreign_files_and_folders_that_are_named_like_those_of_a_lab_are_skipped() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(format!("{PREFIX}{name}"));
        fs::write(path("file"), "").unwrap();
        for name in ["notes", "pipe"] {
            fs::create_dir(path(name)).unwrap();
        }
        fs::write(path("notes").join(LOCK), "of my own\n").unwrap();
        let pipe = Command::new("mkfifo").arg(path("pipe").join(LOCK)).status();
        assert!(pipe.unwrap().success());
        LabFolder::create_in(parent.path()).unwrap();
        for name in ["file", "notes", "pipe"] {
            assert!(path(name).exists(), "{name}");
        }
    }

    #[test]
    fn labs_that_start_at_the_same_time_keep_their_folders() {
        const LABS: usize = 200;
        let parent = tempfile::tempdir().unwrap();
        let start = || {
            for _ in 0..LABS {
                let folder = LabFolder::create_in(parent.path()).unwrap();
                folder.node(1).unwrap();
            }
        };
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(start);
            }
        });
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
