//! Whole commands: `patchbay apply` and `patchbay plan` as processes, with the Northbound in
//! ovsdb-sim.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use patchbay_benches::connect::ClusterSize;
use patchbay_benches::networks::{ZONE, write_manifests};
use patchbay_benches::process::{Server, ServerKind, Usage, run_measured, workspace_program};
use patchbay_ovn_programs::testing::ScratchDir;

use crate::sizes;
use crate::table::{Table, best};

/// Goal of a command without changes: CPU time of its process.
const UNCHANGED_GOAL: Duration = Duration::from_secs(1);

/// Measured commands.
const NAMES: [&str; 4] =
    ["apply, empty northbound", "apply again", "plan, no changes", "apply, node added"];

pub(crate) fn report() -> Result<()> {
    let sizes = sizes();
    let program = workspace_program("patchbay")?;
    let usages = sizes.iter().map(|size| measure(&program, *size)).collect::<Result<Vec<_>>>()?;
    let table = Table::new("links; CPU of the command's process", &sizes);
    for (place, name) in NAMES.into_iter().enumerate() {
        let goal = matches!(name, "apply again" | "plan, no changes").then_some(UNCHANGED_GOAL);
        let times = |part: fn(&Usage) -> Duration| -> Vec<Duration> {
            usages.iter().map(|all: &[Usage; NAMES.len()]| part(&all[place])).collect()
        };
        table.print_times(name, &times(|usage| usage.cpu), goal);
        table.print_times("  wall-clock time", &times(|usage| usage.wall), None);
    }
    Ok(())
}

/// Measures the commands on one cluster, in the order of [`NAMES`].
fn measure(program: &Path, size: ClusterSize) -> Result<[Usage; NAMES.len()]> {
    let folder = ScratchDir::new();
    let (cluster, larger) = (folder.path().join("cluster.yaml"), folder.path().join("larger.yaml"));
    write_manifests(&cluster, size)?;
    let nodes = size.nodes + 1;
    write_manifests(&larger, ClusterSize { nodes, ..size })?;

    let run = |server: &Server, command: &str, manifests: &Path| {
        let mut process = Command::new(program);
        process
            .args([command, "--zone", ZONE, "--nb"])
            .arg(server.remote())
            .arg("--filename")
            .arg(manifests)
            .stdout(Stdio::null());
        let (status, usage) = run_measured(&mut process)?;
        ensure!(status.success(), "{process:?}: {status}");
        Ok(usage)
    };
    let cpu = |usage: &Usage| usage.cpu;
    let first = best(|| run(&Server::start(ServerKind::Simulator)?, "apply", &cluster), cpu)?;
    let server = Server::start(ServerKind::Simulator)?;
    run(&server, "apply", &cluster)?;
    // The exit status of `plan` also proves that nothing would change.
    let plan = best(|| run(&server, "plan", &cluster), cpu)?;
    let again = best(|| run(&server, "apply", &cluster), cpu)?;
    let mut node_added = Vec::new();
    best(
        || {
            node_added.push(run(&server, "apply", &larger)?);
            run(&server, "apply", &cluster)
        },
        cpu,
    )?;
    let node_added = node_added.into_iter().min_by_key(cpu);
    Ok([first, again, plan, node_added.context("there is a run")?])
}
