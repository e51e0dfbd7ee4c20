//! Growth of the costs from 400 to 32,000 links.

use std::time::Duration;

use anyhow::{Context as _, Result};
use patchbay_benches::connect::{ClusterSize, ConnectPass, ConnectZone, node};
use patchbay_benches::text::{format_duration, growth_exponent};

/// Numbers of networks and nodes.
const SIZES: [(usize, usize); 5] = [(4, 100), (4, 500), (4, 2_000), (8, 2_000), (16, 2_000)];

/// OVN-Kubernetes' network-connect controller on ovsdb-server: ports, and seconds to connect them.
/// Measured on the machine on which the goals were set, so that only the growth compares.
const OVN_KUBERNETES: [(f64, f64); 4] =
    [(404.0, 0.21), (2_004.0, 1.9), (8_004.0, 25.7), (8_008.0, 28.7)];

pub(crate) fn report() -> Result<()> {
    print!("\n{:<40}", "growth");
    for (networks, nodes) in SIZES {
        print!("{:>12}", networks * nodes);
    }
    println!("  exponent");
    let (mut all, mut node_added, mut unchanged) = (Vec::new(), Vec::new(), Vec::new());
    for (networks, nodes) in SIZES {
        let size = ClusterSize { networks, nodes };
        let ports = size.links() as f64;
        let objects = size.connected_objects()?;
        let took = best(3, || ConnectZone::new(size, objects.clone())?.pass())?;
        all.push((ports, took.as_secs_f64() * 1e6));
        let mut zone = ConnectZone::new(size, objects)?;
        zone.settle()?;
        let took = best(101, || zone.pass())?;
        unchanged.push((ports, took.as_secs_f64() * 1e6));
        let added = node(size.nodes, size.networks)?;
        let took = best(21, || {
            zone.objects.put_checked_node(added.clone());
            let pass = zone.pass()?;
            zone.settle()?;
            zone.objects.remove_node(&added.name);
            zone.settle()?;
            Ok(pass)
        })?;
        node_added.push((ports, took.as_secs_f64() * 1e6));
    }
    let lines = [
        ("connect all, empty database", all),
        ("node added", node_added),
        ("pass without changes", unchanged),
        (
            "OVN-Kubernetes: connect all (quoted)",
            OVN_KUBERNETES.map(|(ports, seconds)| (ports, seconds * 1e6)).to_vec(),
        ),
    ];
    for (name, line) in lines {
        print!("{name:<40}");
        for (networks, nodes) in SIZES {
            let ports = (networks * nodes) as f64;
            // The quoted measurements have a few more ports.
            let point = line.iter().find(|(x, _)| (ports..ports + 8.0).contains(x));
            match point {
                Some((_, micros)) => {
                    print!("{:>12}", format_duration(Duration::from_secs_f64(micros / 1e6)));
                }
                None => print!("{:>12}", "-"),
            }
        }
        println!("  {:>8.2}", growth_exponent(&line).context("costs are above 0")?);
    }
    Ok(())
}

fn best(runs: usize, mut run: impl FnMut() -> Result<ConnectPass>) -> Result<Duration> {
    let passes = (0..runs).map(|_| run()).collect::<Result<Vec<_>>>()?;
    let best = passes.iter().map(ConnectPass::total).min();
    best.context("there is a run")
}
