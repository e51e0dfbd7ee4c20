//! Detects that a zone's Northbound database is unreachable for long.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use patchbay_engine::client::{Client, ClientClosed};
use tokio::sync::watch;

use crate::metrics::process_state::NorthboundState;

/// Reports whether the database has been unreachable for longer than the grace period. The restart
/// of a server is not reported.
#[derive(Debug)]
pub(crate) struct NorthboundReachability {
    pub(crate) is_unreachable: watch::Sender<bool>,
    /// Time without the database that is not reported.
    pub(crate) grace_period: Duration,
    /// Receives each loss of the database, also a short one.
    pub(crate) state: NorthboundState,
}

impl NorthboundReachability {
    /// Waits for a future that completes once the database is reachable.
    pub(crate) async fn wait_for<T>(&self, ready: impl Future<Output = T>) -> T {
        let mut ready = pin!(ready);
        self.state.lose();
        let early = tokio::time::timeout(self.grace_period, &mut ready).await;
        let ready = if let Ok(ready) = early {
            ready
        } else {
            self.is_unreachable.send_replace(true);
            ready.await
        };
        self.is_unreachable.send_if_modified(std::mem::take);
        self.state.follow();
        ready
    }

    /// Follows the state of the client's connection, forever.
    ///
    /// # Errors
    /// The client is closed.
    pub(crate) async fn follow_connection(
        &self,
        client: &Client,
    ) -> Result<Infallible, ClientClosed> {
        // `is_live` is checked after each event, because it changes before the last event of a
        // change.
        let mut events = client.connection_events()?;
        loop {
            while client.is_live() {
                events.next().await?;
            }
            let live = async {
                while !client.is_live() {
                    events.next().await?;
                }
                Ok(())
            };
            self.wait_for(live).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_long_outage_is_reported() {
        let (is_unreachable, mut receiver) = watch::channel(false);
        let grace_period = Duration::from_secs(10);
        let state = NorthboundState::new();
        let reachability =
            NorthboundReachability { is_unreachable, grace_period, state: state.clone() };
        reachability.wait_for(tokio::time::sleep(grace_period / 2)).await;
        assert_eq!(state.lag(), None);
        assert!(!receiver.has_changed().unwrap());
        let until = reachability.wait_for(tokio::time::sleep(grace_period * 2));
        let expected = async {
            receiver.changed().await.unwrap();
            assert!(*receiver.borrow_and_update());
            receiver.changed().await.unwrap();
            assert!(!*receiver.borrow_and_update());
        };
        tokio::join!(until, expected);
    }
}
