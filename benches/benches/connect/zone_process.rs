//! The zone controller as a process: memory and time of its first pass over a database that
//! needs no change.

use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use patchbay_benches::connect::ClusterSize;
use patchbay_benches::networks::{NetworksZone, read_cluster, write_manifests};
use patchbay_benches::process::{cpu_time, resident_bytes};
use patchbay_connects::{Counts, ZoneController};
use patchbay_engine::client::{Client, Config, Filter};
use patchbay_ovn_programs::testing::ScratchDir;
use patchbay_reconcile::northbound::{DATABASE, Northbound as _, connects_config, networks_config};
use tokio::runtime::Runtime;

/// First argument of the measured process.
pub(crate) const SUBJECT: &str = "zone-subject";

/// What the replica of the measured process holds.
const SELECTIONS: [(&str, &str); 5] = [
    ("whole", "the whole database"),
    ("tables", "all rows of the tables on which connects depend"),
    ("connects", "what connects depend on"),
    ("networks", "with --networks: what networks and connects depend on"),
    ("two", "that, and a second replica of what connects depend on"),
];

pub(crate) fn report() -> Result<()> {
    let size = ClusterSize::GOAL;
    let folder = ScratchDir::new();
    let (manifests, socket) = (folder.path().join("c.yaml"), folder.path().join("sock"));
    write_manifests(&manifests, size)?;
    let mut zone = NetworksZone::new()?;
    zone.pass(&read_cluster(&manifests)?)?;
    let runtime = Runtime::new()?;
    let northbound = zone.northbound();
    loop {
        let objects = size.connected_objects()?;
        let plan = ZoneController::default().plan(&objects, &northbound.snapshot());
        let changes = plan.connects.into_iter().map(|connect| connect.change);
        let changes = changes.collect::<Result<Vec<_>, _>>()?;
        let mut transactions =
            changes.into_iter().filter_map(|change| change.transaction).peekable();
        if transactions.peek().is_none() {
            break;
        }
        for transaction in transactions {
            runtime.block_on(northbound.commit(transaction))?;
        }
    }
    let target = format!("punix:{}", socket.display());
    let _listener = runtime.block_on(northbound.sim().listen(&target))?;
    println!(
        "\n{:<56} {:>10} {:>10} {:>10} {:>10}",
        format!("zone controller on {} rows, nothing to do", northbound.snapshot().row_count()),
        "rows",
        "time",
        "own CPU",
        "resident"
    );
    for (selection, _) in SELECTIONS {
        let status = Command::new(std::env::current_exe()?)
            .args([SUBJECT, selection])
            .arg(format!("unix:{}", socket.display()))
            .status()?;
        ensure!(status.success(), "the measured process failed");
    }
    Ok(())
}

/// Measures this process.
pub(crate) fn subject(arguments: &[String]) -> Result<()> {
    let [_, selection, remote] = arguments else {
        bail!("a selection and a remote");
    };
    let (name, text) =
        SELECTIONS.into_iter().find(|(name, _)| name == selection).unwrap_or(SELECTIONS[0]);
    let objects = ClusterSize::GOAL.connected_objects()?;
    let remotes = remote.parse()?;
    let config = match name {
        "tables" => {
            let own_rows_only = ["Logical_Router_Static_Route", "Logical_Router_Policy", "ACL"];
            let config = connects_config(remotes);
            own_rows_only
                .into_iter()
                .fold(config, |config, table| config.with_filter(table, Filter::all()))
        }
        "connects" => connects_config(remotes),
        "networks" | "two" => networks_config(remotes),
        _ => Config::new(remotes, DATABASE),
    };
    let (process, begin) = (std::process::id(), Instant::now());
    let before = cpu_time(process)?;
    let client = Runtime::new()?.block_on(async {
        let client = Client::connect(config).await?;
        let second = match name {
            "two" => Some(Client::connect(connects_config(remote.parse()?)).await?),
            _ => None,
        };
        let mut controller = ZoneController::default();
        let plan = controller.plan(&objects, &client.snapshot());
        for connect in plan.connects {
            ensure!(connect.change?.counts == Counts::default(), "rows differ");
        }
        let (wall, cpu) = (begin.elapsed(), cpu_time(process)?.saturating_sub(before));
        println!(
            "{text:<56} {:>10} {:>8.2} s {:>8.2} s {:>6.1} MiB",
            client.snapshot().row_count(),
            wall.as_secs_f64(),
            cpu.as_secs_f64(),
            resident_bytes(process)? as f64 / f64::from(1 << 20)
        );
        anyhow::Ok((client, second, controller))
    })?;
    drop(client);
    Ok(())
}
