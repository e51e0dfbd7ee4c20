//! Many CNCs over many networks.

use anyhow::{Context as _, Result};
use patchbay_benches::connect::{ClusterSize, ConnectZone, connect, node};

use crate::changes::measure_and_revert;
use crate::table::{Goal, best, head};

/// Cluster of all networks and nodes.
const SIZE: ClusterSize = ClusterSize {
    networks: 200,
    nodes: 50,
};
/// Number of CNCs.
const CONNECTS: usize = 100;
/// Number of networks of each CNC.
const NETWORKS_PER_CONNECT: usize = 10;

pub(crate) fn report() -> Result<()> {
    let mut inputs = SIZE.inputs()?;
    for number in 0..CONNECTS {
        let name = format!("connect{number}");
        let first = number * 2 % (SIZE.networks - NETWORKS_PER_CONNECT);
        inputs.put_connect(&name, connect(&name, first..first + NETWORKS_PER_CONNECT)?);
    }
    head("100 CNCs of 10 out of 200 networks, 50 nodes");
    best("connect all, empty database", Goal::Rows, 3, || {
        ConnectZone::new(SIZE, inputs.clone())?.pass()
    })?;
    let mut zone = ConnectZone::new(SIZE, inputs)?;
    zone.settle()?;
    best("pass without changes", Goal::Rows, 101, || zone.pass())?;
    let added = node(SIZE.nodes, SIZE.networks)?;
    measure_and_revert(
        &mut zone,
        ["node added", "node removed"],
        Goal::Rows,
        5,
        |inputs, is_changed| {
            if is_changed {
                inputs.put_node(added.clone());
            } else {
                inputs.nodes.remove(&added.name);
            }
            Ok(())
        },
    )?;
    measure_and_revert(
        &mut zone,
        ["network removed from one CNC", "network added to one CNC"],
        Goal::Rows,
        11,
        |inputs, is_changed| {
            let networks = 14..14 + NETWORKS_PER_CONNECT - usize::from(is_changed);
            inputs.put_connect("connect7", connect("connect7", networks)?);
            Ok(())
        },
    )?;
    let former = zone.inputs.connects.get("connect7").cloned();
    let former = former.context("a connect")?;
    measure_and_revert(
        &mut zone,
        ["CNC removed", "CNC added"],
        Goal::Rows,
        5,
        |inputs, is_changed| {
            if is_changed {
                inputs.connects.remove("connect7");
            } else {
                inputs
                    .connects
                    .insert("connect7".to_owned(), former.clone());
            }
            Ok(())
        },
    )
}
