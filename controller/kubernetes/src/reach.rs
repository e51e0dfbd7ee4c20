//! Whether the Northbound database of a zone can be reached.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use patchbay_engine::client::{Client, ClientClosed};
use tokio::sync::watch;

/// Says whether the database has been out of reach for long. A server that is restarted is not worth a word.
#[derive(Debug)]
pub(super) struct Reach {
    pub(super) is_lost: watch::Sender<bool>,
    /// How long it may be out of reach.
    pub(super) patience: Duration,
}

impl Reach {
    /// Waits for what only comes when the database can be reached.
    pub(super) async fn until<T>(&self, found: impl Future<Output = T>) -> T {
        let mut found = pin!(found);
        let early = tokio::time::timeout(self.patience, &mut found).await;
        let found = if let Ok(found) = early {
            found
        } else {
            self.is_lost.send_replace(true);
            found.await
        };
        self.is_lost.send_if_modified(std::mem::take);
        found
    }

    /// Follows the connection, for ever.
    ///
    /// # Errors
    /// The client has ended.
    pub(super) async fn follow(&self, client: &Client) -> Result<Infallible, ClientClosed> {
        // Whether the client is live is asked after each event: it is so before the last event that tells of it.
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
            self.until(live).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_what_lasts_is_told() {
        let (is_lost, mut said) = watch::channel(false);
        let patience = Duration::from_secs(10);
        let reach = Reach { is_lost, patience };
        reach.until(tokio::time::sleep(patience / 2)).await;
        assert!(!said.has_changed().unwrap());
        let until = reach.until(tokio::time::sleep(patience * 2));
        let told = async {
            said.changed().await.unwrap();
            assert!(*said.borrow_and_update());
            said.changed().await.unwrap();
            assert!(!*said.borrow_and_update());
        };
        tokio::join!(until, told);
    }
}
