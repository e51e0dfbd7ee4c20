//! Waits until files change.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep};

use crate::source::manifest_files;

/// How often the files are looked at. The kernel would tell at once, but not of files on other machines or in volumes of
/// pods, which are links that are turned.
const INTERVAL: Duration = Duration::from_millis(250);
/// How long to wait until something is tried again that did not fail because of the files.
const RETRY: Duration = Duration::from_secs(5);

/// When each file was written last, its length and its number on the file system; none of one that is not there.
type State = BTreeMap<PathBuf, Option<(SystemTime, u64, u64)>>;

/// What happens to files and folders, and whether the process is told to stop.
pub(super) struct Changes {
    paths: Vec<PathBuf>,
    seen: State,
    terminate: Signal,
}

impl Changes {
    /// Watches these files, and all manifests in these folders.
    pub(super) fn of(paths: &[PathBuf]) -> io::Result<Self> {
        Ok(Self {
            paths: paths.to_vec(),
            seen: state(paths),
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next change and until no more follow; or, if there is something to try again, not for long. False if
    /// the process is told to stop.
    pub(super) async fn next(&mut self, try_again: bool) -> io::Result<bool> {
        let paths = self.paths.clone();
        let changed = async {
            let end = Instant::now() + RETRY;
            loop {
                sleep(INTERVAL).await;
                let now = state(&paths);
                let is_new = now != self.seen || try_again && Instant::now() >= end;
                self.seen = now;
                if is_new {
                    break;
                }
            }
            // Whoever saves several files saves them in a row.
            loop {
                sleep(INTERVAL).await;
                let now = state(&paths);
                if std::mem::replace(&mut self.seen, now.clone()) == now {
                    break;
                }
            }
        };
        tokio::select! {
            () = changed => Ok(true),
            stopped = tokio::signal::ctrl_c() => stopped.map(|()| false),
            _ = self.terminate.recv() => Ok(false),
        }
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
