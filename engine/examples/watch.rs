//! Prints the names of logical switches and routers as they come and go.
//!
//! ```text
//! cargo run -p patchbay-engine --example watch -- unix:/run/ovn/ovnnb_db.sock
//! ```

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::error::Error;
use std::process::ExitCode;

use patchbay_engine::client::{Client, Config};
use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb::{LogicalRouter, LogicalSwitch};
use patchbay_schemas::typed::TypeError;

#[tokio::main]
async fn main() -> ExitCode {
    let Err(error) = watch().await;
    eprintln!("{error}");
    ExitCode::FAILURE
}

async fn watch() -> Result<Infallible, Box<dyn Error>> {
    let remotes = std::env::args()
        .nth(1)
        .ok_or("usage: watch unix:PATH|tcp:HOST:PORT[,...]")?;
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
        shown = names;
        snapshot = changes.next().await?;
    }
}

fn names(snapshot: &Snapshot) -> Result<BTreeSet<String>, TypeError> {
    let switches = snapshot.typed::<LogicalSwitch>();
    let routers = snapshot.typed::<LogicalRouter>();
    let switches = switches
        .iter()
        .map(|row| Ok(format!("switch {}", row?.1.name)));
    let routers = routers
        .iter()
        .map(|row| Ok(format!("router {}", row?.1.name)));
    switches.chain(routers).collect()
}
