//! Prints which member of a cluster the client uses, and why it changes to another.
//!
//! ```text
//! cargo run -p patchbay-engine --example follow_leader -- ssl:10.0.0.1:6641,ssl:10.0.0.2:6641,ssl:10.0.0.3:6641 \
//!     key.pem cert.pem ca.pem
//! ```
//!
//! Without remotes it starts a cluster of three real `ovsdb-server`s and kills the leader.

use std::error::Error;
use std::time::Duration;

use patchbay_engine::client::{Client, Config, ConnectionEvent, Tls};
use patchbay_ovn_programs::testing::{RealCluster, installed_nb_schema};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => demonstrate().await,
        [remotes] => follow(&connect(remotes, None).await?, usize::MAX).await,
        [remotes, key, certificate, ca] => {
            let tls = Tls::new(key, certificate, ca);
            follow(&connect(remotes, Some(tls)).await?, usize::MAX).await
        }
        _ => Err("usage: follow_leader [REMOTES [KEY CERTIFICATE CA]]".into()),
    }
}

async fn connect(remotes: &str, tls: Option<Tls>) -> Result<Client, Box<dyn Error>> {
    let mut config =
        Config::new(remotes.parse()?, "OVN_Northbound").with_columns("NB_Global", ["nb_cfg"]);
    config.tls = tls;
    config.backoff = (Duration::from_millis(100), Duration::from_secs(8));
    // A member that hangs is abandoned after a second, although its socket still exists.
    config.unix_probe_interval = Some(Duration::from_millis(500));
    Ok(Client::connect(config).await?)
}

/// Prints connection events until this number of leaders was found.
async fn follow(client: &Client, leaders: usize) -> Result<(), Box<dyn Error>> {
    let mut events = client.connection_events()?;
    let mut found = 0;
    while found < leaders {
        match events.next().await? {
            ConnectionEvent::Connected { remote, status } => {
                let server = status.and_then(|status| status.server);
                let server = server.map_or_else(|| "a server".to_owned(), |id| id.to_string());
                println!("{remote}: {server} is the leader");
                found += 1;
            }
            ConnectionEvent::Resynced { kind, rows } => {
                println!("the replica is up to date: {kind:?}, {rows} rows changed");
            }
            ConnectionEvent::LeaderLost { remote } => println!("{remote} is no longer the leader"),
            ConnectionEvent::Disconnected(failure) => println!("disconnected: {failure}"),
            ConnectionEvent::Failed(failure) => println!("attempt failed: {failure}"),
            ConnectionEvent::Waiting(time) => println!("next attempt in {time:?}"),
            other => println!("{other:?}"),
        }
    }
    Ok(())
}

async fn demonstrate() -> Result<(), Box<dyn Error>> {
    let mut cluster = RealCluster::start(&installed_nb_schema(), 3);
    let client = connect(&cluster.remotes(), None).await?;
    println!("member {} is the leader", cluster.leader());
    let following = follow(&client, 1);
    cluster.kill(cluster.leader());
    following.await
}
