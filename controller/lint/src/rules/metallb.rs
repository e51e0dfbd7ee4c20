//! Rules M: pools of `MetalLB` beside external subnets.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_resources::manifests::Sourced;
use patchbay_resources::object::Object as _;
use patchbay_resources::object::platform::{IPAddressPool, PoolAdvertisementSpec};
use patchbay_resources::selector;

use crate::cluster::{Cluster, interfaces, name_of, objects};
use crate::ranges::{Range, is_ipv4, read_addresses};
use crate::report::{Report, reference};

/// Annotation of OVN-Kubernetes: a node's primary address with the length of its network.
const PRIMARY_ADDRESS: &str = "k8s.ovn.org/node-primary-ifaddr";
/// Prefix length of a node's network in either family, if it is unknown: longer than most networks,
/// so that two addresses that are not in one of it are in different networks.
const ASSUMED_LENGTHS: (u8, u8) = (16, 48);

/// Ranges of a pool, with the paths of their fields.
fn ranges(pool: &Sourced<IPAddressPool>) -> impl Iterator<Item = (String, Range)> {
    let texts = pool.object.spec.addresses.iter().enumerate();
    texts.filter_map(|(index, text)| {
        Some((format!("spec.addresses[{index}]"), Range::parse(text, "-")?))
    })
}

/// `true` if an advertisement is of a pool.
fn advertises(spec: &PoolAdvertisementSpec, pool: &Sourced<IPAddressPool>) -> bool {
    let (names, selectors) = (&spec.ip_address_pools, &spec.ip_address_pool_selectors);
    names.is_empty() && selectors.is_empty()
        || names.iter().any(|name| name == name_of(pool))
        || selectors.iter().any(|one| selector::matches(one, pool.object.labels()))
}

/// Networks of the nodes, as far as they are known, else with a length that is assumed.
pub(super) fn node_networks(cluster: &Cluster<'_>) -> Vec<IpNet> {
    let networks = cluster.nodes.iter().flat_map(|node| {
        let known: Option<BTreeMap<String, String>> = node
            .sourced
            .object
            .annotations()
            .get(PRIMARY_ADDRESS)
            .and_then(|text| serde_json::from_str(text).ok());
        let known: Vec<IpNet> =
            known.iter().flat_map(BTreeMap::values).filter_map(|text| text.parse().ok()).collect();
        let assumed: Vec<IpNet> = node
            .node
            .addresses
            .iter()
            .filter_map(|address| {
                if known.iter().any(|net| net.contains(address)) {
                    return None;
                }
                let (ipv4, ipv6) = ASSUMED_LENGTHS;
                let length = if is_ipv4(address) { ipv4 } else { ipv6 };
                IpNet::new(*address, length).ok()
            })
            .collect();
        known.into_iter().chain(assumed).map(|net| net.trunc())
    });
    let mut networks: Vec<IpNet> = networks.collect();
    networks.sort_unstable();
    networks.dedup();
    networks
}

pub(super) fn pool_on_provider_network(cluster: &Cluster<'_>, report: &mut Report) {
    let underlays: Vec<_> = cluster.subnets.iter().filter(|subnet| subnet.is_underlay()).collect();
    for pool in objects(&cluster.inventory.ip_address_pools) {
        for (field, range) in ranges(pool) {
            let mut underlays = underlays.iter();
            let met = underlays.find(|subnet| {
                let mut nets = subnet.cidrs.iter();
                nets.any(|net| Range::from(*net).overlaps(&range))
            });
            let Some(subnet) = met else {
                continue;
            };
            let network = cluster.network_of(subnet).map_or(&*subnet.spec.vlan, name_of);
            let message = format!(
                "Pool {} offers {range} on provider network {network}; any LoadBalancer Service would sit on the \
                 tenants' egress network.",
                name_of(pool)
            );
            let draft = report.about(pool).other(subnet.sourced).field(field);
            draft.found(message, "Define pools on the management network only.");
        }
    }
}

pub(super) fn announced_on_provider_nic(cluster: &Cluster<'_>, report: &mut Report) {
    let mut nics: BTreeMap<String, &str> = BTreeMap::new();
    for network in objects(&cluster.inventory.provider_networks) {
        let name = name_of(network);
        nics.insert(format!("br-{name}"), name);
        nics.extend(interfaces(&network.object.spec).map(|(_, nic)| (nic.to_owned(), name)));
    }
    for advertisement in objects(&cluster.inventory.l2_advertisements) {
        for (index, nic) in advertisement.object.spec.interfaces.iter().enumerate() {
            if let Some(network) = nics.get(nic) {
                let message = format!(
                    "L2Advertisement {} announces on {nic}, which carries provider network {network}.",
                    name_of(advertisement)
                );
                let draft = report.about(advertisement).field(format!("spec.interfaces[{index}]"));
                draft.found(message, "Announce on interfaces of the management network only.");
            }
        }
    }
}

pub(super) fn unused_pool(cluster: &Cluster<'_>, report: &mut Report) {
    let inventory = cluster.inventory;
    let mut all: Vec<(Range, String, &Sourced<IPAddressPool>)> = Vec::new();
    for pool in objects(&inventory.ip_address_pools) {
        let l2 = objects(&inventory.l2_advertisements).map(|one| &one.object.spec);
        let bgp = objects(&inventory.bgp_advertisements).map(|one| &one.object.spec);
        if !l2.chain(bgp).any(|spec| advertises(spec, pool)) {
            let message = format!("Pool {} is never announced.", name_of(pool));
            report
                .about(pool)
                .found(message, "Add an L2Advertisement or a BGPAdvertisement of it.");
        }
        all.extend(ranges(pool).map(|(field, range)| (range, field, pool)));
    }
    all.sort_by_key(|(range, _, _)| *range);
    for pair in all.windows(2) {
        if let [(one_range, one_field, one), (range, field, other)] = pair
            && one_range.overlaps(range)
        {
            let is_later = one.position <= other.position;
            let [first, (later, field)] = if is_later {
                [(one, one_field), (other, field)]
            } else {
                [(other, field), (one, one_field)]
            };
            let message = format!("Pool {} overlaps {}.", name_of(later), name_of(first.0));
            let draft = report.about(*later).other(*first.0).field(field);
            draft.found(message, "Use each address in one pool.");
        }
    }
}

pub(super) fn unanswered_pool(cluster: &Cluster<'_>, report: &mut Report) {
    let networks = node_networks(cluster);
    if networks.is_empty() {
        return;
    }
    for pool in objects(&cluster.inventory.ip_address_pools) {
        let mut bgp = objects(&cluster.inventory.bgp_advertisements);
        if bgp.any(|one| advertises(&one.object.spec, pool)) {
            continue;
        }
        for (field, range) in ranges(pool) {
            let is_near = |net: &IpNet| Range::from(*net).overlaps(&range);
            if !networks.iter().any(is_near) {
                let message = format!(
                    "Pool {}: no host on the wire answers for {range}, which is in no network of the nodes.",
                    name_of(pool)
                );
                let draft = report.about(pool).field(field);
                draft.found(message, "Use a range of the nodes' network, or a BGPAdvertisement.");
            }
        }
    }
}

pub(super) fn taken_pool(cluster: &Cluster<'_>, report: &mut Report) {
    let mut taken: Vec<(IpAddr, String)> = Vec::new();
    for node in &cluster.nodes {
        let addresses = node.node.addresses.iter();
        taken.extend(addresses.map(|address| (*address, reference(node.sourced))));
    }
    for subnet in &cluster.subnets {
        let gateways = subnet.gateways.iter();
        let name = format!("the gateway of {}", reference(subnet.sourced));
        taken.extend(gateways.map(|address| (*address, name.clone())));
    }
    for eip in objects(&cluster.inventory.ovn_eips) {
        let spec = &eip.object.spec;
        for text in [&spec.v4_ip, &spec.v6_ip] {
            let addresses = read_addresses(text).into_iter();
            taken.extend(addresses.map(|address| (address, reference(eip))));
        }
    }
    taken.sort_unstable();
    for pool in objects(&cluster.inventory.ip_address_pools) {
        for (field, range) in ranges(pool) {
            let first = taken.partition_point(|(address, _)| *address < range.first);
            let inside = taken[first..].iter().take_while(|(address, _)| *address <= range.last);
            for (address, owner) in inside.filter(|(address, _)| range.contains(address)) {
                let message = format!("Pool {}: {address} is in use by {owner}.", name_of(pool));
                let draft = report.about(pool).field(&field);
                draft.found(message, "Leave the address out of the pool.");
            }
        }
    }
}

pub(super) fn unsent_pool(cluster: &Cluster<'_>, report: &mut Report) {
    let inventory = cluster.inventory;
    let has_peer = objects(&inventory.bgp_peers).next().is_some();
    for advertisement in objects(&inventory.bgp_advertisements) {
        for pool in objects(&inventory.ip_address_pools) {
            if !advertises(&advertisement.object.spec, pool) {
                continue;
            }
            let mut l2 = objects(&inventory.l2_advertisements);
            let also_l2 = l2.find(|one| advertises(&one.object.spec, pool));
            let reason = match also_l2 {
                _ if !has_peer => "no BGPPeer is there to announce it to".to_owned(),
                Some(l2) => {
                    format!("it is announced by {} and {}", reference(l2), reference(advertisement))
                }
                None => continue,
            };
            let message = format!("Pool {}: {reason}.", name_of(pool));
            let draft = report.about(advertisement).other(pool).field("spec.ipAddressPools");
            draft.found(message, "Announce each pool in one way, and create its BGPPeer.");
        }
    }
}
