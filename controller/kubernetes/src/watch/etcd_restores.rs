//! Restores of etcd that tasks of this process notice.

use tokio::sync::watch;

/// Announcements of restores. A watch of a kind that rarely changes knows an old resource version,
/// so it may not notice a restore itself. Each clone has seen those until its last list, or its last
/// report.
#[derive(Clone, Debug)]
pub(crate) struct EtcdRestores {
    announced: watch::Sender<()>,
    seen: watch::Receiver<()>,
}

impl Default for EtcdRestores {
    fn default() -> Self {
        let (announced, seen) = watch::channel(());
        Self { announced, seen }
    }
}

impl EtcdRestores {
    /// Announces a restore, unless another watch has announced it since the last list.
    pub(crate) fn announce(&self) {
        let is_announced = self.seen.has_changed().unwrap_or(false);
        if !is_announced {
            self.announced.send_replace(());
        }
    }

    /// Marks all restores as seen, because a list begins.
    pub(crate) fn mark_seen(&mut self) {
        self.seen.mark_unchanged();
    }

    /// Waits for a restore that has not been seen.
    pub(crate) async fn wait(&mut self) {
        // The sender lives as long as `self`.
        if self.seen.changed().await.is_ok() {
            // Only a list sees it.
            self.seen.mark_changed();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn each_watch_lists_once_after_a_restore() {
        let mut first = EtcdRestores::default();
        let mut second = first.clone();
        assert!(first.wait().now_or_never().is_none());
        first.announce();
        // The second watch notices it, too.
        second.announce();
        for watch in [&mut first, &mut second] {
            assert!(watch.wait().now_or_never().is_some());
            watch.mark_seen();
            assert!(watch.wait().now_or_never().is_none());
        }
        second.announce();
        assert!(first.wait().now_or_never().is_some());
    }
}
