//! The objects of a cluster, completed as the managers of a cluster would complete them.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use patchbay_allocate::connects::{Unconnected, VpcMembers, assign_vpc_ids, with_condition};
use patchbay_allocate::networks::{assign_node_subnets, define_networks};
use patchbay_connects::{ConnectReport, ZoneReports, ZoneSummary};
use patchbay_model::condition::ConditionReport;
use patchbay_model::{ClusterSettings, Databases, Networks, object_kind};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::conversion::networks_of;
use patchbay_resources::manifests::{
    DEFAULT_MAX_MANIFEST_BYTES, Inventory, InventoryKind, LoadError, ObjectKey, Objects as Sources,
    Origin, Problem, Sourced, read_manifests_within,
};
use patchbay_resources::object::{self, Object, Time};
use patchbay_resources::state::{StateFolder, restore};
use patchbay_zone::ZoneObjects;

use super::connects::{allocate_connects, vpc_members};
use super::equal_keys::equal_key_warnings;
use super::ignored::ignored_warnings;
use super::pods::ClusterPods;
use super::range_warnings::range_warnings;
use super::warnings::connect_refusals;
use super::zone::specifies;
use super::zone_inputs::ZoneInputs;
use super::{central, refused, warnings};

/// Position of the first added object, after those of manifests.
const FIRST_ADDED_POSITION: u64 = u64::MAX / 2;

/// The objects of a cluster with their annotations and status, from which the rows of each zone are
/// derived.
#[derive(Debug)]
pub struct Cluster {
    /// The objects by kind.
    pub inventory: Inventory,
    settings: ClusterSettings,
    now: Time,
    /// `true` if the inventory has all objects of every kind, so that an empty kind has none.
    is_watched: bool,
    /// `true` if rows of an empty kind are looked at, too.
    has_every_kind: bool,
    /// Networks of connects that zones know nothing of, by connect.
    unconnected: BTreeMap<String, Unconnected>,
    /// Warnings about the objects, one line each.
    pub warnings: Vec<String>,
    /// Errors of objects of manifests that are not used as they are, one line each.
    pub errors: Vec<String>,
}

/// Reads manifests of at most `max_bytes` together, and restores the annotations and status that an
/// earlier run kept in `state`.
///
/// # Errors
/// A manifest cannot be read or is invalid, or the state does not fit the manifests.
pub fn load(
    paths: &[PathBuf],
    stdin: &mut dyn Read,
    state: Option<&StateFolder>,
    max_bytes: u64,
) -> Result<Inventory, LoadError> {
    let mut inventory = read_manifests_within(paths, stdin, max_bytes)?;
    if let Some(folder) = state {
        restore(&mut inventory, &folder.load()?)?;
    }
    Ok(inventory)
}

impl Cluster {
    /// Reads manifests and completes the objects: [`load`] and
    /// [`from_inventory`](Self::from_inventory).
    ///
    /// - `paths`: files, folders, or `-` for `stdin`.
    /// - `state`: folder with the annotations and status of earlier runs. `None`: everything is
    ///   allocated anew.
    /// - `now`: time of conditions that change.
    ///
    /// # Errors
    /// A manifest cannot be read or is invalid, or the state does not fit the manifests.
    pub fn from_manifests(
        paths: &[PathBuf],
        stdin: &mut dyn Read,
        state: Option<&StateFolder>,
        settings: ClusterSettings,
        now: Time,
    ) -> Result<Self, LoadError> {
        let inventory = load(paths, stdin, state, DEFAULT_MAX_MANIFEST_BYTES)?;
        Self::from_inventory(inventory, settings, now)
    }

    /// Completes the objects as the managers of a cluster would: allocates ids and subnets of nodes
    /// and networks, addresses of pods, then subnets and tunnel keys of ClusterNetworkConnects, and
    /// sets the status. Objects that cannot be read are in [`errors`](Self::errors).
    ///
    /// # Errors
    /// The objects contradict each other.
    pub fn from_inventory(
        mut inventory: Inventory,
        settings: ClusterSettings,
        now: Time,
    ) -> Result<Self, LoadError> {
        let numbered = define_networks(&mut inventory, &settings, &now)?;
        if settings.databases == Databases::Central {
            assign_vpc_ids(&mut inventory, &numbered.networks);
        }
        let connects = allocate_connects(&mut inventory, &numbered, &settings, &now);
        let mut pods = ClusterPods::read(&inventory);
        let attached = pods.attach(&inventory, &numbered);
        assign_node_subnets(&mut inventory, &numbered, &attached, &settings, &now);
        pods.address(&mut inventory, attached, &numbered, &settings, &now);
        let mut found = inventory.warnings.clone();
        found.append(&mut pods.warnings);
        found.extend(central::allocate(&mut inventory, &settings, &now));
        found.extend(warnings::object_warnings(&inventory, &numbered.networks));
        found.extend(equal_key_warnings(pods.iter(), &numbered.networks));
        found.extend(ignored_warnings(&inventory, &numbered.networks, &settings));
        found.extend(range_warnings(&settings, &numbered));
        found.extend(connects.warnings);
        found.extend(warnings::definition_warnings(
            &inventory,
            &numbered.networks,
            &connects.reported,
        ));
        Ok(Self {
            unconnected: connects.unconnected,
            warnings: warnings::texts(found),
            errors: warnings::texts(refused::errors(&inventory).collect()),
            ..Self::new(inventory, settings, now)
        })
    }

    /// Adds pods, which get addresses as those of manifests. `owner`: origin of the pods in
    /// messages.
    ///
    /// # Errors
    /// As for [`from_inventory`](Self::from_inventory).
    pub fn with_pods(
        mut self,
        pods: impl IntoIterator<Item = object::Pod>,
        owner: &str,
    ) -> Result<Self, LoadError> {
        for (object, position) in pods.into_iter().zip(FIRST_ADDED_POSITION..) {
            self.inventory.pods.insert(Sourced {
                object,
                origin: Origin::Rendered(owner.to_owned()),
                position,
            });
        }
        Self::from_inventory(self.inventory, self.settings, self.now)
    }

    /// The objects as observed in a running cluster, whose own managers have completed them.
    pub fn observed(inventory: Inventory, settings: ClusterSettings, now: Time) -> Self {
        Self {
            warnings: inventory.warnings.iter().map(ToString::to_string).collect(),
            ..Self::new(inventory, settings, now)
        }
    }

    /// The objects, without warnings about them.
    fn new(inventory: Inventory, settings: ClusterSettings, now: Time) -> Self {
        Self {
            inventory,
            settings,
            now,
            is_watched: false,
            has_every_kind: false,
            unconnected: BTreeMap::new(),
            warnings: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Objects as watched in a running cluster, all of every kind. The rows of a kind without
    /// objects are therefore removed, and EndpointSlices are taken as they are.
    pub fn watched(inventory: Inventory, settings: ClusterSettings, now: Time) -> Self {
        Self { is_watched: true, has_every_kind: true, ..Self::observed(inventory, settings, now) }
    }

    /// The cluster, with the rows of a kind without objects among those that are looked at. Without
    /// this, manifests without any pod leave all ports of pods as they are.
    #[must_use]
    pub fn with_every_kind(self) -> Self {
        Self { has_every_kind: true, ..self }
    }

    /// The networks that the network attachment definitions define.
    pub fn networks(&self) -> Networks {
        networks_of(&self.inventory)
    }

    /// VPCs of the connects. `None`: each node has a zone with its own database, and no VPCs.
    pub fn vpc_members(&self) -> Option<VpcMembers> {
        vpc_members(&self.inventory, &self.settings)
    }

    /// Names of all zones, which are the names of the nodes, in the order of the manifests; or
    /// [`Databases::CENTRAL`], if all nodes have one database.
    pub fn zones(&self) -> Vec<String> {
        if self.settings.databases == Databases::Central {
            return vec![Databases::CENTRAL.to_owned()];
        }
        self.inventory.nodes.in_order().into_iter().map(|(key, _)| key.name.clone()).collect()
    }

    /// Connects and networks that a cluster does not accept, each with the condition and its
    /// message. They are among the warnings.
    pub fn refusals(&self) -> Vec<Problem> {
        let mut refusals = warnings::network_refusals(&self.inventory);
        refusals.extend(central::refusals(&self.inventory, &self.settings));
        for connect in self.connects() {
            refusals.extend(connect_refusals(&self.inventory, &connect.name_any()));
        }
        refusals
    }

    /// The ClusterNetworkConnects, by name.
    pub fn connects(&self) -> impl Iterator<Item = &ClusterNetworkConnect> {
        objects(&self.inventory.cluster_network_connects)
    }

    /// The objects of a zone, with networks that are rendered on all nodes.
    pub fn zone_objects(&self, zone: &str) -> ZoneObjects {
        ZoneInputs::read(self, zone, None).objects
    }

    /// The objects of a zone. `None`: the objects contain no pods, and specify nothing about the
    /// ports of pods that are there.
    pub fn zone_pods(&self, zone: &str) -> Option<ZoneObjects> {
        specifies(self, &[object_kind::POD]).then(|| self.zone_objects(zone))
    }

    /// `true` if rows of a kind without objects are looked at, too.
    pub(crate) fn has_every_kind(&self) -> bool {
        self.has_every_kind
    }

    /// `true` if the objects are all of every kind, as watched in a running cluster.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Time of the conditions that change.
    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.now.0
    }

    /// Settings of the cluster.
    pub fn settings(&self) -> &ClusterSettings {
        &self.settings
    }

    /// The condition `Connected` of each connect from the reports of the zones, by zone and
    /// connect. Connects without a report have none.
    pub fn connected_conditions(
        &self,
        zones: &BTreeMap<String, BTreeMap<String, Arc<ConnectReport>>>,
    ) -> BTreeMap<String, ConditionReport> {
        let nothing = Unconnected::default();
        let condition = |name: String| {
            let reports = zones
                .iter()
                .filter_map(|(zone, reports)| Some((zone.as_str(), reports.get(&name)?)));
            let summaries: Vec<(&str, ZoneSummary)> =
                reports.map(|(zone, report)| (zone, (&**report).into())).collect();
            if summaries.is_empty() {
                return None;
            }
            let Unconnected { no_networks, without_subnets } =
                self.unconnected.get(&name).unwrap_or(&nothing);
            let reports = ZoneReports {
                current: summaries.iter().map(|(zone, summary)| (*zone, summary)).collect(),
                no_networks,
                without_subnets,
                ..ZoneReports::default()
            };
            let condition = reports.condition();
            Some((name, condition))
        };
        let names = self.connects().map(Object::name_any);
        names.filter_map(condition).collect()
    }

    /// Sets the condition `Connected` of each connect from the reports of the zones, by zone and
    /// connect.
    pub fn set_connected_conditions(
        &mut self,
        zones: &BTreeMap<String, BTreeMap<String, Arc<ConnectReport>>>,
    ) {
        for (name, verdict) in self.connected_conditions(zones) {
            let connects = &mut self.inventory.cluster_network_connects;
            if let Some(sourced) = connects.get_mut(&ObjectKey::cluster(name)) {
                let object = &mut sourced.object;
                let (status, generation) = (object.status.as_ref(), object.metadata.generation);
                object.status = Some(with_condition(status, verdict, generation, &self.now));
            }
        }
    }
}

pub(crate) fn objects<T: InventoryKind>(objects: &Sources<T>) -> impl Iterator<Item = &T> {
    objects.iter().map(|(_, sourced)| &sourced.object)
}
