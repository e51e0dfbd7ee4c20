//! The state folder of `--state`, and its lock between runs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use patchbay_resources::state::{StateError, StateFolder, StateLock};
use tokio::time::sleep;

use super::console::Console;
use super::failure::Failure;

/// Interval between attempts to lock the folder. A blocking lock could not be interrupted by
/// Ctrl-C.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Returns the state folder of `--state`, which may not exist yet.
///
/// # Errors
/// The folder is inside a folder of manifests.
pub(super) fn folder(
    state: Option<&PathBuf>,
    manifests: &[PathBuf],
) -> Result<Option<StateFolder>, Failure> {
    let Some(state) = state else {
        return Ok(None);
    };
    match manifests.iter().find(|manifests| is_inside(state, manifests)) {
        None => Ok(Some(StateFolder::new(state))),
        Some(manifests) => Err(Failure::Arguments(format!(
            "--state {} is inside -f {}: the next run would read the state as manifests",
            state.display(),
            manifests.display()
        ))),
    }
}

/// `true` if files of the state folder would be read as manifests of this folder.
fn is_inside(state: &Path, manifests: &Path) -> bool {
    let Ok(manifests) = manifests.canonicalize() else {
        return false;
    };
    let is_hidden = |part: &OsStr| part.as_encoded_bytes().starts_with(b".");
    manifests.is_dir()
        && canonical(state).strip_prefix(&manifests).is_ok_and(|below| !below.iter().any(is_hidden))
}

/// Resolves the symbolic links of a path whose last folders may not exist yet.
fn canonical(path: &Path) -> PathBuf {
    let path = absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = path.ancestors().find_map(|ancestor| {
        let below = path.strip_prefix(ancestor).ok()?;
        Some(ancestor.canonicalize().ok()?.join(below))
    });
    found.unwrap_or(path)
}

/// Locks the folder exclusively, and waits while another run uses it.
pub(super) async fn lock(
    folder: Option<&StateFolder>,
    console: &mut Console<'_>,
) -> Result<Option<StateLock>, Failure> {
    wait(folder, StateFolder::try_lock, console).await
}

/// Locks the folder for reading, and waits while another run writes to it.
pub(super) async fn lock_to_read(
    folder: Option<&StateFolder>,
    console: &mut Console<'_>,
) -> Result<Option<StateLock>, Failure> {
    wait(folder, StateFolder::try_lock_to_read, console).await
}

async fn wait(
    folder: Option<&StateFolder>,
    attempt: fn(&StateFolder) -> Result<Option<StateLock>, StateError>,
    console: &mut Console<'_>,
) -> Result<Option<StateLock>, Failure> {
    let Some(folder) = folder else {
        return Ok(None);
    };
    let mut is_reported = false;
    loop {
        if let Some(lock) = attempt(folder)? {
            return Ok(Some(lock));
        }
        if !is_reported {
            let name = folder.path().display();
            writeln!(console.errors, "waiting for another run that uses the state folder {name}")?;
            is_reported = true;
        }
        sleep(LOCK_RETRY_INTERVAL).await;
    }
}
