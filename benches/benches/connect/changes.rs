//! One CNC with 32,000 links and its database in this process: from an empty database, without
//! changes, and with each kind of change.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use patchbay_benches::connect::{ClusterSize, ConnectZone, connect, network, node};
use patchbay_zone::ZoneObjects;

use crate::table::{Goal, best, head};

/// OVN-Kubernetes' network-connect controller on ovsdb-server, measured on the machine on which the
/// goals were set: 25.7 s to connect 8,004 ports, then 63.4 s for a pass without changes. Both
/// times grow with the square of the ports.
const OVN_KUBERNETES: &str =
    "OVN-Kubernetes, 8,004 ports: 25.7 s from an empty database, 63.4 s without changes (quoted)";

/// Goal of connecting 32,000 links from an empty database.
pub(crate) const CONNECT_GOAL: Duration = Duration::from_secs(1);
/// Goal of a pass without changes, and of a pass after a node came or went.
const SMALL_GOAL: Duration = Duration::from_millis(5);

pub(crate) fn report() -> Result<()> {
    let size = ClusterSize::GOAL;
    let objects = size.connected_objects()?;
    head("32,000 links, database in this process");
    best("connect all, empty database", Goal::Time(CONNECT_GOAL), 5, || {
        ConnectZone::new(size, objects.clone())?.pass()
    })?;
    best("the next pass, which reads the written rows", Goal::Rows, 3, || {
        let mut zone = ConnectZone::new(size, objects.clone())?;
        zone.pass()?;
        zone.pass()
    })?;
    let mut zone = ConnectZone::new(size, objects)?;
    zone.settle()?;
    let ports = size.links() + size.networks;
    ensure!(zone.ports() == ports, "{} of {ports} ports", zone.ports());
    best("pass without changes", Goal::Time(SMALL_GOAL), 101, || zone.pass())?;
    best("pass without changes, after a restart", Goal::Time(CONNECT_GOAL), 3, || {
        zone.controller.resync();
        zone.pass()
    })?;
    let added = node(size.nodes, size.networks)?;
    measure_and_revert(
        &mut zone,
        ["node added", "node removed"],
        Goal::Time(SMALL_GOAL),
        21,
        |objects, is_changed| {
            if is_changed {
                objects.put_checked_node(added.clone());
            } else {
                objects.remove_node(&added.name);
            }
            Ok(())
        },
    )?;
    let subnet = "10.0.255.0/27".parse()?;
    let former = node(7, size.networks)?;
    let mut moved = former.clone();
    moved.subnets.insert(network(0), vec![subnet]);
    measure_and_revert(
        &mut zone,
        ["annotation of a node: other subnet of one network", "the same, reverted"],
        Goal::Rows,
        21,
        |objects, is_changed| {
            objects.put_checked_node(if is_changed { &moved } else { &former }.clone());
            Ok(())
        },
    )?;
    let mut other = former.clone();
    other.subnets.insert("unconnected".to_owned(), vec![subnet]);
    measure_and_revert(
        &mut zone,
        ["annotation of a node: network that is not connected", "the same, reverted"],
        Goal::Rows,
        21,
        |objects, is_changed| {
            objects.put_checked_node(if is_changed { &other } else { &former }.clone());
            Ok(())
        },
    )?;
    measure_and_revert(
        &mut zone,
        ["network removed", "network added"],
        Goal::Rows,
        5,
        |objects, is_changed| {
            let networks = size.networks - usize::from(is_changed);
            objects.put_connect("connect", connect("connect", 0..networks)?);
            Ok(())
        },
    )?;
    println!("{OVN_KUBERNETES}");
    Ok(())
}

/// Makes a change and reverts it `runs` times, and prints a line for each direction.
pub(crate) fn measure_and_revert(
    zone: &mut ConnectZone,
    [name, reverted]: [&str; 2],
    goal: Goal,
    runs: usize,
    mut change: impl FnMut(&mut ZoneObjects, bool) -> Result<()>,
) -> Result<()> {
    let mut reverts = Vec::with_capacity(runs);
    best(name, goal, runs, || {
        change(&mut zone.objects, true)?;
        let pass = zone.pass()?;
        zone.settle()?;
        change(&mut zone.objects, false)?;
        reverts.push(zone.pass()?);
        zone.settle()?;
        Ok(pass)
    })?;
    best(reverted, goal, runs, || reverts.pop().context("each change is reverted"))
}
