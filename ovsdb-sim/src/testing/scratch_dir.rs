//! A folder of a test's own.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use uuid::Uuid;

/// An empty folder, removed with all it holds when dropped. Its path is short enough for a unix socket in it.
#[derive(Debug)]
pub struct ScratchDir {
    path: PathBuf,
}

impl ScratchDir {
    /// Makes the folder among the system's temporary ones.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    #[must_use]
    pub fn new() -> Self {
        let path = env::temp_dir().join(format!("patchbay-{}", Uuid::new_v4().simple()));
        match fs::create_dir(&path) {
            Ok(()) => Self { path },
            Err(error) => panic!("making the folder {}: {error}", path.display()),
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Default for ScratchDir {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %self.path.display(), %error, "a test's folder is left behind");
            }
            _ => {}
        }
    }
}
