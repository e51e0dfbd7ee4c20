//! Waits until files change.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep};

use patchbay_resources::manifests::manifest_files;

/// How often the files are looked at. The kernel would tell at once, but not of files on other machines or in volumes of
/// pods, which are links that are turned.
const INTERVAL: Duration = Duration::from_millis(250);
/// How long to wait until something is tried again that has failed: what it failed of may be mended without a change of the
/// files.
pub(super) const RETRY: Duration = Duration::from_secs(5);
/// How long changes may follow each other before nobody waits for their end any more.
const PATIENCE: Duration = Duration::from_secs(2);

/// What tells of a change of each file; none of one that is not there.
type State = BTreeMap<PathBuf, Option<Stamp>>;

/// When the file was written last, when anything about it has changed, as its permissions, its length, and its number on the
/// file system.
type Stamp = (SystemTime, (i64, i64), u64, u64);

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

    /// Waits for the next change and until no more follow; or, if there is something to try again, not for long. Whether
    /// there was a change.
    ///
    /// # Cancel safety
    /// A change whose end was waited for is lost with the future; those that follow are not.
    pub(super) async fn next(&mut self, try_again: bool) -> bool {
        let end = Instant::now() + RETRY;
        loop {
            sleep(INTERVAL).await;
            if self.look() {
                break;
            }
            if try_again && Instant::now() >= end {
                return false;
            }
        }
        // Whoever saves several files saves them in a row. Who saves one all the time must not hold up the others.
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            sleep(INTERVAL).await;
            if !self.look() {
                break;
            }
        }
        true
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
            let changed = (meta.ctime(), meta.ctime_nsec());
            Some((modified, changed, meta.len(), meta.ino()))
        });
        (file, written)
    });
    state.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn permissions_are_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        fs::write(&file, "").unwrap();
        let mut changes = Changes::of(&[folder.path().to_owned()]);
        assert!(!changes.look());
        // The file system's clock may not have moved on since the file was made.
        std::thread::sleep(Duration::from_millis(50));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(changes.look());
        assert!(!changes.look());
    }
}
