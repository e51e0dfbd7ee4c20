//! Entries of connects: the networks that they join, and the parts of their rows.

use patchbay_model::{Connect, Network, NetworkId, NodeId, OwnerKey, Topology};
use patchbay_zone::ZoneObjects;
use smol_str::SmolStr;

use super::part::{ConnectPart, LinkId, Part};

/// A known network that a connect lists with its topology.
fn attached_network<'a>(
    objects: &'a ZoneObjects,
    connect: &'a Connect,
    id: NetworkId,
) -> Option<&'a Network> {
    let network = network_of(objects, connect, id)?;
    let owner = OwnerKey { topology: network.topology, network_id: id };
    let is_listed = connect.subnets.get(owner).is_some();
    is_listed.then_some(network)
}

/// The network of an id, as a connect knows it: a VPC has the subnets that the connect selects.
pub(super) fn network_of<'a>(
    objects: &'a ZoneObjects,
    connect: &'a Connect,
    id: NetworkId,
) -> Option<&'a Network> {
    let vpc = connect.vpcs.get(&id).map(|vpc| &vpc.network);
    vpc.or_else(|| objects.connectable_network(id))
}

/// `true` if the network may have policies in the zone.
fn may_send(objects: &ZoneObjects, network: &Network) -> bool {
    objects.own_node().is_some() && objects.has_users(&network.name, objects.zone())
}

/// `true` if a connect may have rows for a part.
pub(super) fn may_have(objects: &ZoneObjects, connect: &str, part: Part) -> bool {
    let Some(input) = objects.connect_input(connect) else {
        return false;
    };
    let network = |id| attached_network(objects, input.connect.as_ref().ok()?, id);
    match part {
        Part::Link(LinkId { network: id, index }) => {
            network(id).is_some_and(|network| match network.topology {
                Topology::Layer2 | Topology::Vpc => index == 0,
                Topology::Layer3 => NodeId::try_new(index.into())
                    .is_ok_and(|id| objects.node_ids().owner(id).is_some()),
            })
        }
        Part::Policies { source, destination } => {
            let source = network(source).is_some_and(|network| may_send(objects, network));
            source && network(destination).is_some()
        }
        Part::Router | Part::Services | Part::Isolation | Part::Summary => true,
        Part::Stray => false,
    }
}

/// Calls `part` for the parts of chosen networks in all connects.
pub(super) fn parts_of_all(
    objects: &ZoneObjects,
    is_chosen: impl Fn(&Network) -> bool,
    part: &mut dyn FnMut(ConnectPart),
) {
    for (name, connect) in connects(objects) {
        for owner in connect.subnets.owners() {
            let network = network_of(objects, connect, owner.network_id);
            if network.is_some_and(&is_chosen) {
                let part = &mut |of| part(ConnectPart::new(name, of));
                parts_of_entry(objects, connect, owner.network_id, part);
            }
        }
    }
}

/// Calls `part` for the links of a node in all connects.
pub(super) fn parts_of_node(objects: &ZoneObjects, id: NodeId, part: &mut dyn FnMut(ConnectPart)) {
    for (name, connect) in connects(objects) {
        let owners = connect.subnets.owners();
        for owner in owners.filter(|owner| owner.topology == Topology::Layer3) {
            let link = Part::Link(LinkId::layer3(owner.network_id, id));
            if may_have(objects, name, link) {
                part(ConnectPart::new(name, link));
            }
        }
    }
}

/// Valid connects by name.
fn connects(objects: &ZoneObjects) -> impl Iterator<Item = (&SmolStr, &Connect)> {
    let connects = objects.connects();
    connects.filter_map(|(name, input)| Some((name, input.connect.as_ref().ok()?)))
}

/// Calls `part` for the links of a network in a connect, and for its policies.
pub(super) fn parts_of_entry(
    objects: &ZoneObjects,
    connect: &Connect,
    id: NetworkId,
    part: &mut dyn FnMut(Part),
) {
    let Some(network) = attached_network(objects, connect, id) else {
        return;
    };
    match network.topology {
        Topology::Layer2 | Topology::Vpc => part(Part::Link(LinkId { network: id, index: 0 })),
        Topology::Layer3 => {
            let ids = objects.node_ids().ids();
            ids.for_each(|node| part(Part::Link(LinkId::layer3(id, node))));
        }
    }
    let sends = may_send(objects, network);
    for owner in connect.subnets.owners() {
        let other = owner.network_id;
        if other == id {
            continue;
        }
        if sends {
            part(Part::Policies { source: id, destination: other });
        }
        let other_network = network_of(objects, connect, other);
        if other_network.is_some_and(|network| may_send(objects, network)) {
            part(Part::Policies { source: other, destination: id });
        }
    }
}
