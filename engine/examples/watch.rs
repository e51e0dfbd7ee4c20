//! Prints the names of logical switches and routers as they are added and removed.
//!
//! ```text
//! cargo run -p patchbay-engine --example watch -- unix:/run/ovn/ovnnb_db.sock
//! ```
//!
//! Without a remote it starts a simulator.

use std::collections::BTreeSet;
use std::error::Error;

use ovsdb_sim::Sim;
use patchbay_engine::client::{Client, Config};
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::nb::{LogicalRouter, LogicalSwitch};
use patchbay_schemas::typed::TypeError;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1) {
        Some(remotes) => watch(&remotes, usize::MAX).await,
        None => demonstrate().await,
    }
}

/// Prints changes until there are this many names.
async fn watch(remotes: &str, count: usize) -> Result<(), Box<dyn Error>> {
    let config = Config::new(remotes.parse()?, "OVN_Northbound")
        .with_columns("Logical_Switch", ["name"])
        .with_columns("Logical_Router", ["name"]);
    let client = Client::connect(config).await?;
    let mut changes = client.changes();
    let mut shown = BTreeSet::new();
    let mut snapshot = client.snapshot();
    loop {
        let names = names(&snapshot)?;
        for gone in shown.difference(&names) {
            println!("- {gone}");
        }
        for new in names.difference(&shown) {
            println!("+ {new}");
        }
        if names.len() >= count {
            return Ok(());
        }
        shown = names;
        snapshot = changes.next().await?;
    }
}

async fn demonstrate() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let sim = Sim::builder().build()?;
    let listener =
        sim.listen(&format!("punix:{}", folder.path().join("nb.sock").display())).await?;
    let database = sim.database("OVN_Northbound").ok_or("served by default")?;
    let remote = listener.remote();
    let watching =
        tokio::spawn(async move { watch(&remote, 2).await.map_err(|error| error.to_string()) });
    let mut txn = TxnBuilder::new(&database.snapshot());
    txn.insert(&LogicalSwitch { name: "sw0".into(), ..Default::default() })?;
    txn.insert(&LogicalRouter { name: "lr0".into(), ..Default::default() })?;
    database.transact(&txn.finish())?;
    Ok(watching.await??)
}

fn names(snapshot: &Snapshot) -> Result<BTreeSet<String>, TypeError> {
    let switches = snapshot.typed::<LogicalSwitch>();
    let routers = snapshot.typed::<LogicalRouter>();
    let switches = switches.iter().map(|row| Ok(format!("switch {}", row?.1.name)));
    let routers = routers.iter().map(|row| Ok(format!("router {}", row?.1.name)));
    switches.chain(routers).collect()
}
