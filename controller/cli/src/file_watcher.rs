//! A watcher of files and folders.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep};

use patchbay_resources::manifests::manifest_files;

/// Interval between two reads of the files' metadata. Notifications of the kernel are not used,
/// because they do not cover network file systems and the symbolic links of ConfigMap volumes.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Delay before a failed apply is retried: its cause may go away without a change of the files.
pub(super) const RETRY_DELAY: Duration = Duration::from_secs(5);
/// Maximum time to wait for the end of a series of changes.
const MAX_SETTLE_TIME: Duration = Duration::from_secs(2);

/// Metadata of a file that differs after a change.
#[derive(Debug, Eq, PartialEq)]
struct FileStamp {
    modified: SystemTime,
    /// Time of the last change of content or metadata, in seconds and nanoseconds.
    changed: (i64, i64),
    bytes: u64,
    inode: u64,
}

/// Watches manifests for changes by polling.
pub(super) struct FileWatcher {
    paths: Vec<PathBuf>,
    /// Stamps at the last poll. `None`: the file does not exist.
    stamps: BTreeMap<PathBuf, Option<FileStamp>>,
}

impl FileWatcher {
    /// Watches files, and all manifests in folders.
    pub(super) fn new(paths: &[PathBuf]) -> Self {
        Self { paths: paths.to_vec(), stamps: file_stamps(paths) }
    }

    /// Waits for the next change and the end of a series of changes. Returns `true` after a change,
    /// and `false` if `has_failed` and [`RETRY_DELAY`] has passed without one.
    ///
    /// # Cancel safety
    /// If the future is dropped, a change that it has already seen is lost; later ones are not.
    pub(super) async fn wait_for_change(&mut self, has_failed: bool) -> bool {
        let end = Instant::now() + RETRY_DELAY;
        loop {
            sleep(POLL_INTERVAL).await;
            if self.poll() {
                break;
            }
            if has_failed && Instant::now() >= end {
                return false;
            }
        }
        // Several files are often saved in a row. A file that changes all the time must not delay
        // the apply for ever.
        let end = Instant::now() + MAX_SETTLE_TIME;
        while Instant::now() < end {
            sleep(POLL_INTERVAL).await;
            if !self.poll() {
                break;
            }
        }
        true
    }

    /// Reads the stamps. Returns `true` if one has changed since the last poll.
    fn poll(&mut self) -> bool {
        let stamps = file_stamps(&self.paths);
        let has_changed = stamps != self.stamps;
        self.stamps = stamps;
        has_changed
    }
}

fn file_stamps(paths: &[PathBuf]) -> BTreeMap<PathBuf, Option<FileStamp>> {
    manifest_files(paths)
        .into_iter()
        .map(|file| {
            let stamp = fs::metadata(&file).ok().and_then(|metadata| {
                Some(FileStamp {
                    modified: metadata.modified().ok()?,
                    changed: (metadata.ctime(), metadata.ctime_nsec()),
                    bytes: metadata.len(),
                    inode: metadata.ino(),
                })
            });
            (file, stamp)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_change_of_permissions_is_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        fs::write(&file, "").unwrap();
        let mut watcher = FileWatcher::new(&[folder.path().to_owned()]);
        assert!(!watcher.poll());
        // The clock of the file system is coarse.
        std::thread::sleep(Duration::from_millis(50));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(watcher.poll());
        assert!(!watcher.poll());
    }
}
