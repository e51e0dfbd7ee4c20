//! Temporary folder of a test.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use uuid::Uuid;

/// Temporary folder, initially empty. Dropping it removes it with its content. Its path is short
/// enough for a unix socket inside.
#[derive(Debug)]
pub struct ScratchDir {
    path: PathBuf,
}

impl ScratchDir {
    /// Creates the folder below the system's temporary folder.
    ///
    /// # Panics
    ///
    /// If it cannot be created.
    #[must_use]
    pub fn new() -> Self {
        let path = env::temp_dir().join(format!("patchbay-{}", Uuid::new_v4().simple()));
        match fs::create_dir(&path) {
            Ok(()) => Self { path },
            Err(error) => panic!("cannot create the folder {}: {error}", path.display()),
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
                tracing::warn!(path = %self.path.display(), %error, "cannot remove the folder of a test");
            }
            _ => {}
        }
    }
}
