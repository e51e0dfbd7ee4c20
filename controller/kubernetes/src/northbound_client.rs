//! Client of a zone's Northbound database, which the zone's controllers share.

use std::sync::Arc;

use patchbay_engine::client::{Client, Config};
use patchbay_reconcile::northbound::{connects_config, networks_config};
use tokio::sync::OnceCell;

use super::config::{Timing, ZoneControllerConfig};

/// The client of the zone's Northbound database. Clones share one client, and so one replica and
/// one monitor.
#[derive(Clone, Debug)]
pub(super) struct NorthboundClient {
    config: Arc<Config>,
    timing: Timing,
    client: Arc<OnceCell<Client>>,
}

impl NorthboundClient {
    /// A client that is not connected yet. Its replica has what the configured controllers read.
    pub(super) fn new(zone: &ZoneControllerConfig, timing: Timing) -> Self {
        let remotes = zone.northbound.clone();
        let mut config = match zone.networks {
            Some(_) => networks_config(remotes),
            None => connects_config(remotes),
        };
        config.tls.clone_from(&zone.tls);
        Self {
            config: Arc::new(config),
            timing,
            client: Arc::default(),
        }
    }

    /// Connects to the database, and retries until that succeeds. If the client is connected,
    /// returns it.
    ///
    /// # Cancel safety
    /// If the future is dropped, another one that waits connects.
    pub(super) async fn connect(&self) -> Client {
        let connected = self.client.get_or_init(|| self.connect_first());
        connected.await.clone()
    }

    async fn connect_first(&self) -> Client {
        let mut backoff = self.timing.retry_backoff();
        loop {
            match Client::connect((*self.config).clone()).await {
                Ok(client) => return client,
                Err(error) => {
                    tracing::warn!(%error, "waiting for the Northbound database");
                    tokio::time::sleep(backoff.next_delay()).await;
                }
            }
        }
    }
}
