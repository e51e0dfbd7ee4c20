//! The client against the real `ovsdb-server`, and against scripted servers that misbehave.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod bulk;
mod conversion;
mod ending;
mod faults;
mod following;
mod forwarding;
mod guard;
mod hostile;
mod limits;
mod live;
mod peer;
mod real_server;
mod streams;
mod takeover;

use std::time::Duration;

use patchbay_engine::client::{Client, Config};

/// Time limit for events that should happen at once. Generous, because test machines may be loaded.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Sets short reconnect delays.
fn impatient(mut config: Config) -> Config {
    config.backoff = (Duration::from_millis(10), Duration::from_millis(100));
    config
}

/// Waits for a future that should complete at once.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(TEST_TIMEOUT, what).await.expect("timed out")
}

/// Waits until [`Client::is_live`] has this value.
async fn until_live(client: &Client, live: bool) {
    soon(async {
        while client.is_live() != live {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}
