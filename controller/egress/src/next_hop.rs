//! Next hops of packets that leave through a node.

use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::{IpFamily, Network, Topology};
use patchbay_zone::{ZoneNode, ZoneObjects};

/// Next hop of a network's router for packets that leave through a node. `None`: it is not known.
pub(super) fn next_hop(
    objects: &ZoneObjects,
    network: &Network,
    node: &str,
    family: IpFamily,
) -> Option<IpAddr> {
    let known = objects.node(node)?;
    let is_own = node == &**objects.zone();
    let join_address = || network.join_address(known.node.id?, family);
    match network.topology {
        Topology::Layer2 if !is_own && has_older_layout(known, network) => {
            Some(join_address()?.addr())
        }
        Topology::Layer2 => {
            let (_, gateway) = network.transit_pair(known.node.id?, family)?;
            Some(gateway.addr())
        }
        // A VPC has no users of EgressIPs.
        Topology::Vpc => None,
        Topology::Layer3 if is_own => Some(join_address()?.addr()),
        Topology::Layer3 => {
            let mut addresses = known.transit.iter().map(IpNet::addr);
            addresses.find(|address| IpFamily::of(*address) == family)
        }
    }
}

/// `true` if the gateway router of a node is attached to the switch of a layer2 network.
fn has_older_layout(node: &ZoneNode, network: &Network) -> bool {
    node.layer2.older_key(&network.name).is_some()
}
