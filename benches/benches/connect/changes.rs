//! One connect with 32,000 ports, its database in this process: from nothing, nothing to do, and every kind of change.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use patchbay_benches::connect::{Size, Zone, connect, network, node};
use patchbay_controller::zone::Inputs;

use crate::table::{Goal, best, head};

/// OVN-Kubernetes' own controller on ovsdb-server, as measured in the place where the goals were set: 25.7 s until
/// 8,004 ports were connected, then 63.4 s to find nothing to do. Both grow with the square.
const OVN_KUBERNETES: &str =
    "OVN-Kubernetes, 8,004 ports: 25.7 s from nothing, 63.4 s for nothing to do (quoted)";

/// The goal for connecting all.
pub(crate) const CONNECT_GOAL: Duration = Duration::from_secs(1);
/// The goal for a pass with nothing to do, and for a node that comes or goes.
const SMALL_GOAL: Duration = Duration::from_millis(5);

pub(crate) fn report() -> Result<()> {
    let size = Size::GOAL;
    let inputs = size.connected_inputs()?;
    head("32,000 ports, database in this process");
    best(
        "connect all, from nothing",
        Goal::Time(CONNECT_GOAL),
        5,
        || Zone::new(size, inputs.clone())?.pass(),
    )?;
    best(
        "the pass after it, which looks at what was written",
        Goal::Rows,
        3,
        || {
            let mut zone = Zone::new(size, inputs.clone())?;
            zone.pass()?;
            zone.pass()
        },
    )?;
    let mut zone = Zone::new(size, inputs)?;
    zone.settle()?;
    let ports = size.ports() + size.networks;
    ensure!(zone.ports() == ports, "{} of {ports} ports", zone.ports());
    best("nothing to do", Goal::Time(SMALL_GOAL), 101, || zone.pass())?;
    best(
        "nothing to do, after a restart",
        Goal::Time(CONNECT_GOAL),
        3,
        || {
            zone.controller.resync();
            zone.pass()
        },
    )?;
    let added = node(size.nodes, size.networks)?;
    there_and_back(
        &mut zone,
        ["a node more", "a node less"],
        Goal::Time(SMALL_GOAL),
        21,
        |inputs, there| {
            if there {
                inputs.put_node(added.clone());
            } else {
                inputs.nodes.remove(&added.name);
            }
            Ok(())
        },
    )?;
    let subnet = "10.0.255.0/27".parse()?;
    let former = node(7, size.networks)?;
    let mut moved = former.clone();
    moved.subnets.insert(network(0), vec![subnet]);
    there_and_back(
        &mut zone,
        [
            "a node's annotation: another subnet of one network",
            "the same, back",
        ],
        Goal::Rows,
        21,
        |inputs, there| {
            inputs.put_node(if there { &moved } else { &former }.clone());
            Ok(())
        },
    )?;
    let mut other = former.clone();
    other.subnets.insert("unconnected".to_owned(), vec![subnet]);
    there_and_back(
        &mut zone,
        [
            "a node's annotation: a network that is not connected",
            "the same, back",
        ],
        Goal::Rows,
        21,
        |inputs, there| {
            inputs.put_node(if there { &other } else { &former }.clone());
            Ok(())
        },
    )?;
    there_and_back(
        &mut zone,
        ["a network less", "a network more"],
        Goal::Rows,
        5,
        |inputs, there| {
            let networks = size.networks - usize::from(there);
            inputs.put_connect("connect", connect("connect", 0..networks)?);
            Ok(())
        },
    )?;
    println!("{OVN_KUBERNETES}");
    Ok(())
}

/// Makes a change and takes it back several times, and prints a line for each of both.
pub(crate) fn there_and_back(
    zone: &mut Zone,
    [there, back]: [&str; 2],
    goal: Goal,
    runs: usize,
    mut change: impl FnMut(&mut Inputs, bool) -> Result<()>,
) -> Result<()> {
    let mut returns = Vec::with_capacity(runs);
    best(there, goal, runs, || {
        change(&mut zone.inputs, true)?;
        let pass = zone.pass()?;
        zone.settle()?;
        change(&mut zone.inputs, false)?;
        returns.push(zone.pass()?);
        zone.settle()?;
        Ok(pass)
    })?;
    best(back, goal, runs, || {
        returns.pop().context("as many ways back as there")
    })
}
