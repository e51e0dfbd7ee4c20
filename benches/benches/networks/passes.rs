//! Passes over a Northbound in this process.

use std::time::Duration;

use anyhow::{Result, ensure};
use patchbay_benches::connect::ClusterSize;
use patchbay_benches::networks::{NetworksPass, NetworksZone, read_cluster, write_manifests};
use patchbay_ovn_programs::testing::ScratchDir;

use crate::sizes;
use crate::table::{Table, best};

/// Goal of a pass without changes.
const UNCHANGED_GOAL: Duration = Duration::from_secs(1);
/// Goal of a pass after a node came or went.
const NODE_GOAL: Duration = Duration::from_millis(10);

/// Passes over one cluster.
struct Passes {
    first: NetworksPass,
    unchanged: NetworksPass,
    node_added: NetworksPass,
    node_removed: NetworksPass,
}

pub(crate) fn report() -> Result<()> {
    let sizes = sizes();
    let table = Table::new("links; northbound in this process", &sizes);
    let passes = sizes.iter().map(|size| measure(*size)).collect::<Result<Vec<_>>>()?;
    let each = |pass: fn(&Passes) -> NetworksPass| -> Vec<NetworksPass> {
        passes.iter().map(pass).collect()
    };
    let lines = [
        ("first pass, empty northbound", each(|all| all.first), None),
        ("second pass, without changes", each(|all| all.unchanged), Some(UNCHANGED_GOAL)),
        ("node added", each(|all| all.node_added), Some(NODE_GOAL)),
        ("node removed", each(|all| all.node_removed), Some(NODE_GOAL)),
    ];
    for (name, passes, goal) in lines {
        let times = |part: fn(&NetworksPass) -> Duration| -> Vec<Duration> {
            passes.iter().map(part).collect()
        };
        table.print_times(name, &times(NetworksPass::total), goal);
        table.print_times("  read", &times(|pass| pass.read), None);
        table.print_times("  plan", &times(|pass| pass.plan), None);
        table.print_times("  commit", &times(|pass| pass.commit), None);
        let rows: Vec<usize> = passes.iter().map(NetworksPass::rows).collect();
        Table::print_counts("  changed rows", &rows);
    }
    Ok(())
}

fn measure(size: ClusterSize) -> Result<Passes> {
    let folder = ScratchDir::new();
    let read = |size: ClusterSize| {
        let file = folder.path().join("cluster.yaml");
        write_manifests(&file, size)?;
        read_cluster(&file)
    };
    let cluster = read(size)?;
    let larger = read(ClusterSize { nodes: size.nodes + 1, ..size })?;

    let first = best(|| NetworksZone::new()?.pass(&cluster), NetworksPass::total)?;
    let mut zone = NetworksZone::new()?;
    zone.pass(&cluster)?;
    let rows = zone.row_count();
    let unchanged = best(|| zone.pass(&cluster), NetworksPass::total)?;
    ensure!(unchanged.rows() == 0, "{:?}", unchanged.counts);

    let node = format!("node{}", size.nodes);
    let mut node_removed = Vec::new();
    let node_added = best(
        || {
            let more = zone.node_pass(&larger, &node)?;
            // Looks at the committed rows.
            zone.node_pass(&larger, &node)?;
            node_removed.push(zone.node_pass(&cluster, &node)?);
            zone.node_pass(&cluster, &node)?;
            Ok(more)
        },
        NetworksPass::total,
    )?;
    ensure!(
        zone.row_count() == rows,
        "a node that came and went leaves {} of {rows} rows",
        zone.row_count()
    );
    let node_removed = node_removed.into_iter().min_by_key(NetworksPass::total);
    Ok(Passes { first, unchanged, node_added, node_removed: node_removed.unwrap_or_default() })
}
