//! The client against the real `ovsdb-server`, and against servers that do what no real one does.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod bulk;
mod conversion;
mod ending;
mod faults;
mod following;
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

/// How long a test waits for what should happen at once: far more than it takes, even on a loaded machine.
const SOON: Duration = Duration::from_secs(30);

/// Retries fast, so that tests need not wait.
fn impatient(mut config: Config) -> Config {
    config.backoff = (Duration::from_millis(10), Duration::from_millis(100));
    config
}

/// Waits for something that should happen at once.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, what)
        .await
        .expect("it should have happened long ago")
}

/// Waits until a client's replica follows the database, or does not any more.
async fn until_live(client: &Client, live: bool) {
    soon(async {
        while client.is_live() != live {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}
