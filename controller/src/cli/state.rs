//! The folder of `--state`, and runs that wait for each other.

use std::time::Duration;

use tokio::time::sleep;

use super::run::{Console, Failure};
use crate::state::{StateError, StateFolder, StateLock};

/// How often a folder that another run uses is looked at. Who waits in the kernel cannot be told to stop.
const INTERVAL: Duration = Duration::from_millis(100);

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
                "waiting for another run, which uses the state folder {name}"
            )?;
            is_told = true;
        }
        sleep(INTERVAL).await;
    }
}
