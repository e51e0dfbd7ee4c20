//! Client of a zone's Northbound database.

use patchbay_engine::client::Client;
use patchbay_reconcile::northbound::{connects_config, networks_config};

use crate::config::{Timing, ZoneControllerConfig};

/// Connects to the zone's database, and retries until that succeeds. The replica has what the
/// configured controller reads.
pub(crate) async fn connect(zone: &ZoneControllerConfig, timing: Timing) -> Client {
    let remotes = zone.northbound.clone();
    let mut config =
        if zone.writes_networks { networks_config(remotes) } else { connects_config(remotes) };
    config.tls.clone_from(&zone.tls);
    let mut backoff = timing.retry_backoff();
    loop {
        match Client::connect(config.clone()).await {
            Ok(client) => return client,
            Err(error) => {
                tracing::warn!(%error, "waiting for the Northbound database");
                tokio::time::sleep(backoff.next_delay()).await;
            }
        }
    }
}
