//! End of the parent process, with which the server of a test ends.

use std::future::pending;
use std::time::Duration;

use nix::unistd::{Pid, getppid};
use tokio::time::sleep;

/// Interval in which the parent is looked at. The kernel's signal at the end of a parent comes when
/// the thread ends that has started this process, which the parents of tests survive.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Watch on the parent of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParentWatch(Option<Pid>);

impl ParentWatch {
    /// A parent without a watch.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Watches the process of this id. `None`: the parent that there is now.
    pub(crate) fn new(parent: Option<i32>) -> Self {
        Self(Some(parent.map_or_else(getppid, Pid::from_raw)))
    }

    /// Waits until the parent has ended: the process has another one then.
    pub(crate) async fn wait(&self) {
        let Some(parent) = self.0 else {
            return pending().await;
        };
        while getppid() == parent {
            sleep(POLL_INTERVAL).await;
        }
    }
}
