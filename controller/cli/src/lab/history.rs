//! File with the commands of earlier labs.

use std::env;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Path below the folder for state.
const FILE: &str = "patchbay/lab-history";
/// Mode of new folders, as the XDG Base Directory Specification requires it.
const FOLDER_MODE: u32 = 0o700;

/// Path of the file. `None`: the user has no home.
pub(super) fn path() -> Option<PathBuf> {
    path_in(env::var_os("XDG_STATE_HOME"), env::var_os("HOME"))
}

/// Path below `$XDG_STATE_HOME` or `$HOME/.local/state`. Relative paths are ignored, as the XDG
/// Base Directory Specification requires it.
fn path_in(state: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: Option<OsString>| path.map(PathBuf::from).filter(|p| p.is_absolute());
    let default = || Some(absolute(home)?.join(".local/state"));
    Some(absolute(state).or_else(default)?.join(FILE))
}

/// Creates the folder of the file.
///
/// # Errors
/// A folder cannot be created.
pub(super) fn create_folder(file: &Path) -> io::Result<()> {
    let Some(folder) = file.parent() else {
        return Ok(());
    };
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(FOLDER_MODE).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_in_the_folder_for_state() {
        let path = |state: Option<&str>, home: Option<&str>| {
            let path = path_in(state.map(OsString::from), home.map(OsString::from));
            path.map(|path| path.to_str().unwrap().to_owned())
        };
        let default = Some("/home/me/.local/state/patchbay/lab-history".to_owned());
        assert_eq!(path(None, Some("/home/me")), default);
        assert_eq!(path(Some(""), Some("/home/me")), default);
        assert_eq!(path(Some("state"), Some("/home/me")), default);
        let own = Some("/s/patchbay/lab-history".to_owned());
        assert_eq!(path(Some("/s"), Some("/home/me")), own);
        assert_eq!(path(Some("/s"), None), own);
        assert_eq!(path(None, None), None);
        assert_eq!(path(None, Some("")), None);
    }

    #[test]
    fn new_folders_are_the_users_own() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("state").join(FILE);
        create_folder(&file).unwrap();
        create_folder(&file).unwrap();
        let folder = file.parent().unwrap().metadata().unwrap();
        assert_eq!(folder.permissions().mode() & 0o777, FOLDER_MODE);
    }
}
