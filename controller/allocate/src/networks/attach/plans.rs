//! Namespaces in which networks have attachment definitions: that of a UserDefinedNetwork, and those
//! that a ClusterUserDefinedNetwork selects.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::{ClusterSettings, Feature, NetConf, names};
use patchbay_resources::manifests::{Inventory, ObjectKey};
use patchbay_resources::object::Object as _;
use patchbay_resources::selector::{self, LabelIndex, RequirementError};
use patchbay_resources::udn::ClusterUserDefinedNetwork;

use crate::networks::definition::is_controlled_by;
use crate::networks::deletion::{Deletion, delete_definition};
use crate::networks::evpn::{self, EvpnProblem};

/// Reason why the definitions of a ClusterUserDefinedNetwork stay as they are.
#[derive(Clone, Debug)]
pub(super) enum Halt {
    /// It has uplinks, and the cluster does not run the feature.
    UplinkDisabled,
    /// It is on an EVPN fabric, and cannot be.
    Evpn(EvpnProblem),
    /// Its selector selects nothing because of an error.
    Selector(RequirementError),
}

/// Outcome of the removal of definitions from namespaces that networks have left.
#[derive(Debug, Default)]
pub(super) struct RemovedDefinitions {
    /// Reasons why definitions stay, by CUDN.
    pub(super) errors: BTreeMap<ObjectKey, Vec<String>>,
    /// Names of the networks that have lost all their definitions.
    pub(super) networks: BTreeSet<String>,
}

/// Namespaces of a network.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Position of the custom resource.
    pub(super) position: u64,
    pub(super) namespaces: Result<BTreeSet<String>, Halt>,
}

/// The namespaces of each custom resource that is not being deleted. A ClusterUserDefinedNetwork
/// does not select a namespace that is being deleted.
pub(super) fn plan_namespaces(
    inventory: &Inventory,
    settings: &ClusterSettings,
) -> BTreeMap<ObjectKey, Plan> {
    let namespaces: LabelIndex<'_, &String> = inventory
        .namespaces
        .iter()
        .filter(|(_, namespace)| namespace.object.metadata.deletion_timestamp.is_none())
        .map(|(key, namespace)| (&key.name, namespace.object.labels()))
        .collect();
    let select = |cudn: &ClusterUserDefinedNetwork| {
        let has_uplinks = cudn.spec.uplinks.iter().flatten().next().is_some();
        if has_uplinks && !settings.has_feature(Feature::Uplink) {
            return Err(Halt::UplinkDisabled);
        }
        if let Some(problem) = evpn::problem(cudn, inventory, settings) {
            return Err(Halt::Evpn(problem));
        }
        let selector = selector::convert(&cudn.spec.namespace_selector).map_err(Halt::Selector)?;
        let selected = namespaces.select(&selector).into_iter();
        Ok(selected.map(|name| (*name).clone()).collect())
    };
    let udns = inventory.user_defined_networks.iter();
    let cudns = inventory.cluster_user_defined_networks.iter();
    udns.filter(|(_, udn)| udn.object.metadata.deletion_timestamp.is_none())
        .map(|(key, udn)| (key, udn.position, Ok(key.namespace.iter().cloned().collect())))
        .chain(
            cudns
                .filter(|(_, cudn)| cudn.object.metadata.deletion_timestamp.is_none())
                .map(|(key, cudn)| (key, cudn.position, select(&cudn.object))),
        )
        .map(|(key, position, namespaces)| (key.clone(), Plan { position, namespaces }))
        .collect()
}

/// Removes definitions from namespaces that their networks no longer select.
pub(super) fn remove_unselected(
    inventory: &mut Inventory,
    plans: &BTreeMap<ObjectKey, Plan>,
) -> RemovedDefinitions {
    let mut unselected = Vec::new();
    for (key, nad) in inventory.network_attachment_definitions.iter() {
        let Some(owner) = nad.object.controlling_cudn() else {
            continue;
        };
        let cudn_key = ObjectKey::cluster(owner);
        let cudn = inventory.cluster_user_defined_networks.get(&cudn_key);
        if !cudn.is_some_and(|cudn| is_controlled_by(&nad.object, &cudn.object)) {
            continue;
        }
        let Some(Ok(selected)) = plans.get(&cudn_key).map(|plan| &plan.namespaces) else {
            continue;
        };
        if key.namespace.as_ref().is_some_and(|namespace| selected.contains(namespace)) {
            continue;
        }
        unselected.push((cudn_key, key.clone()));
    }
    let (mut removed, mut waiting) = (RemovedDefinitions::default(), BTreeSet::new());
    for (cudn, nad) in unselected {
        match delete_definition(inventory, &nad) {
            Ok(Deletion::Done) => {
                removed.networks.insert(names::cudn_network(&cudn.name));
            }
            Ok(Deletion::Waiting) => {
                waiting.insert(names::cudn_network(&cudn.name));
            }
            Err(error) => removed.errors.entry(cudn).or_default().push(error.to_string()),
        }
    }
    if !removed.networks.is_empty() {
        let rest = inventory.network_attachment_definitions.iter();
        let configured =
            rest.filter_map(|(_, nad)| NetConf::parse(nad.object.spec.config.as_deref()?).ok()?);
        waiting.extend(configured.map(|network| network.name));
        removed.networks.retain(|network| !waiting.contains(network));
    }
    removed
}
