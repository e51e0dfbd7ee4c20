//! The measured client, in a process of its own: this program, started with `subject` as its first
//! argument.

use std::io::{BufRead as _, stdin};

use anyhow::{Context as _, Result, bail};
use patchbay_benches::process;
use patchbay_engine::client::{Client, Config};
use patchbay_schemas::nb::{LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute};
use patchbay_schemas::typed::Ref;

/// First argument of the process: `subject MODE REMOTE`.
pub(crate) const SUBJECT: &str = "subject";

/// Syncs and, depending on the mode,
///
/// * `sync`: ends;
/// * `resident`: prints the resident bytes;
/// * `follow`: for each line `UUID MAC` of the standard input prints `waiting`, waits until that
///   port has that address and prints the CPU seconds spent meanwhile.
pub(crate) fn run(mode: &str, remote: &str) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let config = config(remote)?;
        let client = Client::connect(config).await?;
        match mode {
            // Destructors do not run, because those of a program that goes on would not run either.
            "sync" => std::process::exit(0),
            "resident" => {
                println!("{}", process::resident_bytes(std::process::id())?);
                std::process::exit(0)
            }
            "follow" => follow(&client).await,
            _ => bail!("no such mode: {mode}"),
        }
    })
}

/// Returns a configuration that monitors the three tables of the data set.
pub(crate) fn config(remote: &str) -> Result<Config> {
    Ok(Config::new(remote.parse()?, "OVN_Northbound")
        .with_table::<LogicalRouter>()
        .with_table::<LogicalRouterPort>()
        .with_table::<LogicalRouterStaticRoute>())
}

async fn follow(client: &Client) -> Result<()> {
    let cpu = || process::cpu_time(std::process::id());
    for line in stdin().lock().lines() {
        let line = line?;
        let (port, mac) = line.split_once(' ').context("UUID MAC")?;
        let port = Ref::<LogicalRouterPort>::new(port.parse()?);
        let before = cpu()?;
        println!("waiting");
        let mut changes = client.changes();
        let mut snapshot = client.snapshot();
        while snapshot.get(port)?.is_none_or(|port| port.mac != mac) {
            snapshot = changes.next().await?;
        }
        println!("{}", cpu()?.saturating_sub(before).as_secs_f64());
    }
    Ok(())
}
