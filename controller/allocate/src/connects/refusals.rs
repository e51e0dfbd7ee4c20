//! Connects whose rows must stay as they are, because the cluster manager does not accept them.
//!
//! Zones check this themselves, from the objects and by the same functions, so that nothing is open
//! before the cluster manager has seen the objects.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use patchbay_model::{ClusterSettings, ConnectRange, ConnectSubnetMap, Network, OwnerKey};
use patchbay_resources::cnc::{ClusterNetworkConnect, Connectivity};
use patchbay_resources::object::Object as _;

use super::error::{Failure, Stage};
use super::objects::ClusterObjects;
use super::owner_ranges::OwnerRanges;
use super::selection::Selection;
use super::validation::{ValidationError, shared_networks, validate};

/// Connect with the networks of its subnet annotation.
struct AnnotatedConnect<'a> {
    object: &'a ClusterNetworkConnect,
    cidrs: Vec<IpNet>,
    owners: BTreeSet<OwnerKey>,
    /// Known networks of the annotation, by name.
    networks: BTreeMap<&'a str, &'a Network>,
}

/// Two connected networks with overlapping subnets.
struct Conflict<'a> {
    connect: &'a str,
    networks: [String; 2],
}

/// Returns the reasons why connects must not be connected as they are now, by connect. Connects
/// that cannot be read have no entry.
///
/// The networks of a connect are those that it selects and those that its annotation names, because
/// either may be seen before the other.
pub fn refusals(
    settings: &ClusterSettings,
    objects: &ClusterObjects<'_>,
) -> BTreeMap<String, String> {
    let connects: BTreeMap<&str, AnnotatedConnect<'_>> = objects
        .connects
        .iter()
        .filter_map(|(name, object)| Some((name.as_str(), annotated(object, objects)?)))
        .collect();
    let mut ranges = OwnerRanges::default();
    for (name, connect) in &connects {
        ranges.insert_owners(name, connect.owners.iter().copied(), &connect.cidrs);
    }
    let mut refusals = BTreeMap::new();
    let mut conflicts = Vec::new();
    for (name, connect) in &connects {
        let selection = Selection::discover(connect.object, objects);
        let mut networks = connect.networks.clone();
        networks.extend(&selection.networks);
        let vpcs = objects.vpcs.and_then(|vpcs| vpcs.vpcs(name));
        let errors = validate(settings, &connect.cidrs, &networks, vpcs);
        conflicts.extend(errors.iter().filter_map(|error| connect.conflict(name, error)));
        let selected = selection.networks.values().map(|it| it.owner_key());
        let shared = shared_networks(name, &connect.cidrs, selected, &ranges);
        let failure = Failure::of(Stage::Validation, name, errors.first());
        let shared = Failure::of(Stage::CrossValidation, name, shared.first());
        let refusal = failure.first().or(shared.first()).map(ToString::to_string);
        if let Some(refusal) = refusal.or_else(|| connect.deselected(&selection)) {
            refusals.insert((*name).to_owned(), refusal);
        }
    }
    refuse_affected(&connects, &conflicts, &mut refusals);
    refusals
}

/// Reads the annotation and the ranges of a connect. `None`: they cannot be read.
fn annotated<'a>(
    object: &'a ClusterNetworkConnect,
    objects: &ClusterObjects<'a>,
) -> Option<AnnotatedConnect<'a>> {
    let cidrs = object
        .spec
        .connect_subnets
        .iter()
        .map(|entry| Some(ConnectRange::parse_cidr(&entry.cidr).ok()?.trunc()));
    let annotation = object.annotations().get(ConnectSubnetMap::ANNOTATION);
    let (subnets, _) = ConnectSubnetMap::parse(annotation.map_or("", String::as_str)).ok()?;
    let owners: BTreeSet<OwnerKey> = subnets.owners().collect();
    let known = owners.iter().filter_map(|owner| {
        let network = objects.networks.by_id(owner.network_id)?;
        (network.owner_key() == *owner).then_some((network.name.as_str(), network))
    });
    Some(AnnotatedConnect {
        object,
        cidrs: cidrs.collect::<Option<_>>()?,
        networks: known.collect(),
        owners,
    })
}

/// Refuses service-only connects that have one of two connected networks in conflict.
///
/// On a network's switch, their ACLs let traffic to the network's own addresses pass. These have
/// become addresses of the other network, too, and the other connect routes packets to that one.
fn refuse_affected(
    connects: &BTreeMap<&str, AnnotatedConnect<'_>>,
    conflicts: &[Conflict<'_>],
    refusals: &mut BTreeMap<String, String>,
) {
    for (name, connect) in connects {
        if connect.reaches_pods() || refusals.contains_key(*name) {
            continue;
        }
        let affects = |conflict: &&Conflict<'_>| {
            let mut networks = conflict.networks.iter();
            networks.any(|network| connect.networks.contains_key(network.as_str()))
        };
        if let Some(Conflict { connect: other, networks: [left, right] }) =
            conflicts.iter().find(affects)
        {
            let reason = format!(
                "networks {left} and {right}, which ClusterNetworkConnect {other} connects, have overlapping subnets"
            );
            refusals.insert((*name).to_owned(), reason);
        }
    }
}

impl AnnotatedConnect<'_> {
    fn reaches_pods(&self) -> bool {
        let connectivity = &self.object.spec.connectivity;
        connectivity.contains(&Connectivity::PodNetwork)
    }

    /// Refusal of an annotation with a network that the connect does not select. The cluster manager
    /// has not removed it yet, or its id was that of a former network.
    fn deselected(&self, selection: &Selection<'_>) -> Option<String> {
        let mut networks = self.networks.keys();
        let network = networks.find(|name| !selection.networks.contains_key(**name))?;
        Some(format!(
            "annotation {} names network {network}, which is not selected",
            ConnectSubnetMap::ANNOTATION
        ))
    }

    /// Conflict of two networks that are both connected.
    fn conflict<'a>(&self, connect: &'a str, error: &ValidationError) -> Option<Conflict<'a>> {
        let ValidationError::PodSubnets { left, right, .. } = error else {
            return None;
        };
        let networks = [left, right];
        let are_connected =
            networks.iter().all(|network| self.networks.contains_key(network.as_str()));
        are_connected.then(|| Conflict { connect, networks: networks.map(Clone::clone) })
    }
}
