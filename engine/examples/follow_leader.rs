//! Says which member of a cluster the client talks to, and why it leaves one for another.
//!
//! ```text
//! cargo run -p patchbay-engine --example follow_leader -- ssl:10.0.0.1:6641,ssl:10.0.0.2:6641,ssl:10.0.0.3:6641 \
//!     key.pem cert.pem ca.pem
//! ```
//!
//! Without remotes it shows itself on a cluster of its own, of three real `ovsdb-server`s, whose leader it kills.

use std::error::Error;
use std::time::Duration;

use ovsdb_sim::testing::{RealCluster, installed_nb_schema};
use patchbay_engine::client::{Client, Config, ConnectionEvent, Tls};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => show_itself().await,
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
    // A hung member is left after a second, though its socket is still there.
    config.unix_probe_interval = Some(Duration::from_millis(500));
    Ok(Client::connect(config).await?)
}

/// Prints what happens, until so many leaders were found.
async fn follow(client: &Client, leaders: usize) -> Result<(), Box<dyn Error>> {
    let mut events = client.connection_events()?;
    let mut found = 0;
    while found < leaders {
        match events.next().await? {
            ConnectionEvent::Connected { remote, status } => {
                let server = status.and_then(|status| status.server);
                let server = server.map_or_else(|| "a server".to_owned(), |id| id.to_string());
                println!("{remote}: {server} leads");
                found += 1;
            }
            ConnectionEvent::Resynced { kind, rows } => {
                println!("the replica is up to date again: {kind:?}, {rows} rows changed");
            }
            ConnectionEvent::LeaderLost { remote } => println!("{remote} does not lead any more"),
            ConnectionEvent::Disconnected(lost) => println!("left {lost}"),
            ConnectionEvent::Failed(lost) => println!("tried {lost}"),
            ConnectionEvent::Waiting(time) => println!("trying again in {time:?}"),
            other => println!("{other:?}"),
        }
    }
    Ok(())
}

async fn show_itself() -> Result<(), Box<dyn Error>> {
    let mut cluster = RealCluster::start(&installed_nb_schema(), 3);
    let client = connect(&cluster.remotes(), None).await?;
    println!("member {} leads", cluster.leader());
    let following = follow(&client, 1);
    cluster.kill(cluster.leader());
    following.await
}
