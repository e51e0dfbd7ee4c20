//! Many CNCs over many networks.

use anyhow::Result;
use patchbay_benches::connect::{ClusterSize, ConnectZone, connect, node};

use crate::changes::measure_and_revert;
use crate::table::{Goal, best, head};

/// Cluster of all networks and nodes.
const SIZE: ClusterSize = ClusterSize { networks: 200, nodes: 50 };
/// Number of CNCs.
const CONNECTS: usize = 100;
/// Number of networks of each CNC.
const NETWORKS_PER_CONNECT: usize = 10;

pub(crate) fn report() -> Result<()> {
    let mut objects = SIZE.objects()?;
    for number in 0..CONNECTS {
        let name = format!("connect{number}");
        let first = number * 2 % (SIZE.networks - NETWORKS_PER_CONNECT);
        objects.put_connect(&name, connect(&name, first..first + NETWORKS_PER_CONNECT)?);
    }
    head("100 CNCs of 10 out of 200 networks, 50 nodes");
    best("connect all, empty database", Goal::Rows, 3, || {
        ConnectZone::new(SIZE, objects.clone())?.pass()
    })?;
    let mut zone = ConnectZone::new(SIZE, objects)?;
    zone.settle()?;
    best("pass without changes", Goal::Rows, 101, || zone.pass())?;
    let added = node(SIZE.nodes, SIZE.networks)?;
    measure_and_revert(
        &mut zone,
        ["node added", "node removed"],
        Goal::Rows,
        5,
        |objects, is_changed| {
            if is_changed {
                objects.put_checked_node(added.clone());
            } else {
                objects.remove_node(&added.name);
            }
            Ok(())
        },
    )?;
    measure_and_revert(
        &mut zone,
        ["network removed from one CNC", "network added to one CNC"],
        Goal::Rows,
        11,
        |objects, is_changed| {
            let networks = 14..14 + NETWORKS_PER_CONNECT - usize::from(is_changed);
            objects.put_connect("connect7", connect("connect7", networks)?);
            Ok(())
        },
    )?;
    measure_and_revert(
        &mut zone,
        ["CNC removed", "CNC added"],
        Goal::Rows,
        5,
        |objects, is_changed| {
            if is_changed {
                objects.remove_connect("connect7");
            } else {
                let networks = 14..14 + NETWORKS_PER_CONNECT;
                objects.put_connect("connect7", connect("connect7", networks)?);
            }
            Ok(())
        },
    )
}
