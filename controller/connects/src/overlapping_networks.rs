//! Notices of connects that join one network with networks of the same addresses.
//!
//! A connect is refused if two of its own networks overlap. Two connects that have one network in
//! common are not compared by the cluster manager, as in OVN-Kubernetes. That network then has two
//! policies of one priority for the common addresses.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use patchbay_model::OwnerKey;
use patchbay_zone::ZoneObjects;

use crate::report::Notice;
use crate::shared_networks::network_name;

/// Number of overlaps that a connect's notices name.
const MAX_NAMED_OVERLAPS: usize = 10;

/// Pod subnet of a network that a connect joins. The order is that of addresses, with larger
/// subnets first.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
struct Destination<'a> {
    subnet: IpNet,
    owner: OwnerKey,
    connect: &'a str,
}

/// Returns the notices about networks that connects join with overlapping ones, by connect.
pub(crate) fn overlapping_networks(objects: &ZoneObjects) -> BTreeMap<String, Vec<Notice>> {
    let mut connects_of = BTreeMap::<OwnerKey, Vec<&str>>::new();
    for (name, input) in objects.connects() {
        for owner in input.connect.iter().flat_map(|c| c.subnets.owners()) {
            connects_of.entry(owner).or_default().push(name);
        }
    }
    let all = connects_of.keys().flat_map(|owner| destinations(objects, *owner, ""));
    // Networks of other addresses than all others need no further look.
    let overlapping: BTreeSet<OwnerKey> = overlaps(all.collect())
        .into_iter()
        .flat_map(|pair| pair.map(|destination| destination.owner))
        .collect();
    let mut notices = BTreeMap::<String, Vec<Notice>>::new();
    if overlapping.is_empty() {
        return notices;
    }
    let common = connects_of.iter().filter(|(_, connects)| connects.len() > 1);
    for (owner, connects) in common {
        let joined = connects.iter().flat_map(|name| {
            let connect = objects.connect(name).into_iter();
            let owners = connect.flat_map(|connect| connect.subnets.owners());
            let others = owners.filter(|other| other != owner && overlapping.contains(other));
            others.flat_map(|other| destinations(objects, other, name))
        });
        for [one, other] in overlaps(joined.collect()) {
            if one.connect == other.connect {
                continue;
            }
            for (own, other) in [(one, other), (other, one)] {
                let notice = Notice::OverlappingNetworks {
                    network: network_name(objects, *owner),
                    own: network_name(objects, own.owner),
                    connect: other.connect.to_owned(),
                    other: network_name(objects, other.owner),
                };
                let of_connect = notices.entry(own.connect.to_owned()).or_default();
                if of_connect.len() < MAX_NAMED_OVERLAPS && !of_connect.contains(&notice) {
                    of_connect.push(notice);
                }
            }
        }
    }
    notices
}

/// The pod subnets of a network.
fn destinations<'a>(
    objects: &ZoneObjects,
    owner: OwnerKey,
    connect: &'a str,
) -> impl Iterator<Item = Destination<'a>> {
    let network = objects.connectable_network(owner.network_id).into_iter();
    network.flat_map(move |network| {
        let subnets = network.pod_subnets.iter();
        subnets.map(move |subnet| Destination { subnet: subnet.cidr.trunc(), owner, connect })
    })
}

/// Pairs of overlapping destinations of different networks: each one with the smallest one before
/// it that contains it. So their number is linear, also if all networks have the same addresses.
fn overlaps(mut destinations: Vec<Destination<'_>>) -> Vec<[Destination<'_>; 2]> {
    destinations.sort_unstable();
    let mut containing = Vec::<Destination<'_>>::new();
    let mut pairs = Vec::new();
    for destination in destinations {
        while containing.pop_if(|last| !last.subnet.contains(&destination.subnet)).is_some() {}
        let last = containing.last();
        if let Some(last) = last.filter(|last| last.owner != destination.owner) {
            pairs.push([*last, destination]);
        }
        containing.push(destination);
    }
    pairs
}
