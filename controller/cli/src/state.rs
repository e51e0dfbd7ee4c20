//! The folder of `--state`, and runs that wait for each other.

use std::ffi::OsStr;
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use tokio::time::sleep;

use super::console::Console;
use super::failure::Failure;
use patchbay_resources::state::{StateError, StateFolder, StateLock};

/// How often a folder that another run uses is looked at. Who waits in the kernel cannot be told to stop.
const INTERVAL: Duration = Duration::from_millis(100);

/// The state's folder, if there is to be one. Nothing is made yet.
pub(super) fn folder(
    state: Option<&PathBuf>,
    manifests: &[PathBuf],
) -> Result<Option<StateFolder>, Failure> {
    let Some(state) = state else {
        return Ok(None);
    };
    match manifests
        .iter()
        .find(|manifests| is_among(state, manifests))
    {
        None => Ok(Some(StateFolder::new(state))),
        Some(manifests) => Err(Failure::Arguments(format!(
            "--state {} is inside -f {}: the next run would read the state as manifests",
            state.display(),
            manifests.display()
        ))),
    }
}

/// Whether what is written to the state's folder would be read with this folder of manifests.
fn is_among(state: &Path, manifests: &Path) -> bool {
    let Ok(manifests) = manifests.canonicalize() else {
        return false;
    };
    let is_hidden = |part: &OsStr| part.as_encoded_bytes().starts_with(b".");
    manifests.is_dir()
        && canonical(state)
            .strip_prefix(&manifests)
            .is_ok_and(|below| !below.iter().any(is_hidden))
}

/// The path without links, of a folder that may not be there yet.
fn canonical(path: &Path) -> PathBuf {
    let path = absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = path.ancestors().find_map(|ancestor| {
        let below = path.strip_prefix(ancestor).ok()?;
        Some(ancestor.canonicalize().ok()?.join(below))
    });
    found.unwrap_or(path)
}

/// Waits until no other run uses the folder, and keeps others out of it.
pub(super) async fn lock(
    folder: Option<&StateFolder>,
    console: &mut Console<'_>,
) -> Result<Option<StateLock>, Failure> {
    wait(folder, StateFolder::try_lock, console).await
}

/// Waits until no other run writes to the folder, and keeps those out that would.
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
    let mut is_told = false;
    loop {
        if let Some(lock) = attempt(folder)? {
            return Ok(Some(lock));
        }
        if !is_told {
            let name = folder.path().display();
            writeln!(
                console.errors,
                "waiting for another run that uses the state folder {name}"
            )?;
            is_told = true;
        }
        sleep(INTERVAL).await;
    }
}
