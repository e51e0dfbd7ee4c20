//! Waits until files change.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep};

use crate::source::manifest_files;

/// How often the files are looked at. The kernel would tell at once, but not of files on other machines or in volumes of
/// pods, which are links that are turned.
const INTERVAL: Duration = Duration::from_millis(250);
/// How long to wait until something is tried again that did not fail because of the files.
const RETRY: Duration = Duration::from_secs(5);

/// When each file was written last, its length and its number on the file system; none of one that is not there.
type State = BTreeMap<PathBuf, Option<(SystemTime, u64, u64)>>;

/// What happens to files and folders.
pub(super) struct Changes {
    paths: Vec<PathBuf>,
    seen: State,
}

impl Changes {
    /// Watches these files, and all manifests in these folders.
    pub(super) fn of(paths: &[PathBuf]) -> Self {
        Self {
            paths: paths.to_vec(),
            seen: state(paths),
        }
    }

    /// Waits for the next change and until no more follow; or, if there is something to try again, not for long.
    pub(super) async fn next(&mut self, try_again: bool) {
        let end = Instant::now() + RETRY;
        loop {
            sleep(INTERVAL).await;
            if self.look() || try_again && Instant::now() >= end {
                break;
            }
        }
        // Whoever saves several files saves them in a row.
        loop {
            sleep(INTERVAL).await;
            if !self.look() {
                break;
            }
        }
    }

    /// Whether something has changed since the last look.
    fn look(&mut self) -> bool {
        let now = state(&self.paths);
        let is_new = now != self.seen;
        self.seen = now;
        is_new
    }
}

fn state(paths: &[PathBuf]) -> State {
    let files = manifest_files(paths).into_iter();
    let state = files.map(|file| {
        let written = fs::metadata(&file).ok().and_then(|meta| {
            let modified = meta.modified().ok()?;
            Some((modified, meta.len(), meta.ino()))
        });
        (file, written)
    });
    state.collect()
}
