//! Attachment definitions of ClusterUserDefinedNetworks: one in every selected namespace.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::{Feature, NetConf, names};
use patchbay_resources::manifests::{Inventory, ObjectKey, Problem, Sourced, describe};
use patchbay_resources::object::{Namespace, Object, Time};
use patchbay_resources::selector::{self, LabelIndex, RequirementError};
use patchbay_resources::udn::ClusterUserDefinedNetwork;

use super::{AttachError, Attached, attach_namespace, check_primary};
use crate::networks::definition::{add_finalizer, is_controlled_by};
use crate::networks::deletion::{Deletion, delete_definition};
use crate::networks::evpn::{self, EvpnProblem, FabricIds};
use crate::networks::manager::ManagerSettings;
use crate::networks::render::NetworkRequest;
use crate::networks::status;
use crate::networks::transport::{self, Advertised};

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

/// Attaches a network to the selected namespaces.
pub(super) fn attach_cudn(
    inventory: &mut Inventory,
    key: &ObjectKey,
    plan: Result<BTreeSet<String>, Halt>,
    errors: Vec<String>,
    settings: &ManagerSettings,
    fabric_ids: &mut FabricIds,
    now: &Time,
) {
    let Some(cudn) = inventory.cluster_user_defined_networks.get_mut(key) else {
        return;
    };
    if !matches!(plan, Err(Halt::UplinkDisabled)) {
        add_finalizer(cudn.object.meta_mut());
    }
    let cudn = cudn.clone();
    let problem = match &plan {
        Err(Halt::Evpn(problem)) => Some(problem.clone()),
        _ => None,
    };
    let outcome = match plan {
        Ok(selected) => {
            if selected.is_empty() {
                inventory.warnings.push(Problem {
                    location: cudn.origin.location().cloned(),
                    object: Some(describe(&cudn.object)),
                    field: Some("spec.namespaceSelector".into()),
                    message: "selects no namespace".into(),
                });
            }
            attach_selected(inventory, &cudn, selected, errors, settings, fabric_ids)
        }
        Err(Halt::UplinkDisabled) => {
            let error =
                "spec.uplinks is set but the Uplink feature is disabled, ignoring this CUDN";
            status::CudnOutcome::Failed(vec![error.to_owned()])
        }
        Err(Halt::Evpn(problem)) => {
            let own = evpn::own_definitions(&cudn.object, inventory);
            match problem {
                // A network that works goes on as it is.
                EvpnProblem::VtepNotAccepted(_) | EvpnProblem::VtepUnknown(_)
                    if !own.is_empty() =>
                {
                    present(inventory, own)
                }
                problem => status::CudnOutcome::Evpn(problem),
            }
        }
        Err(Halt::Selector(error)) => status::CudnOutcome::Failed(vec![format!(
            "failed to get selected namespaces: failed to create label-selector: {error}"
        )]),
    };
    let is_feature_on = settings.cluster.has_feature(Feature::RouteAdvertisements);
    let advertised = Advertised::of(&cudn.object, inventory, is_feature_on);
    if let Some(cudn) = inventory.cluster_user_defined_networks.get_mut(key) {
        status::cudn_definitions(&mut cudn.object, &outcome, now);
        transport::note(&mut cudn.object, problem.as_ref(), &advertised, now);
    }
}

fn attach_selected(
    inventory: &mut Inventory,
    cudn: &Sourced<ClusterUserDefinedNetwork>,
    selected: BTreeSet<String>,
    mut errors: Vec<String>,
    settings: &ManagerSettings,
    fabric_ids: &mut FabricIds,
) -> status::CudnOutcome {
    let name = cudn.object.name_any();
    let mut deleting = Vec::new();
    for namespace in &selected {
        let attached = NetworkRequest::of_cudn(&name, &cudn.object.spec)
            .map_err(AttachError::from)
            .and_then(|request| {
                check_primary(inventory, &request, namespace)?;
                let fabric = request
                    .fabric
                    .map(|fabric| fabric_ids.allocate(&name, fabric));
                let request = request.with_fabric_ids(fabric.transpose()?);
                attach_namespace(inventory, cudn, &request, namespace, settings)
            });
        match attached {
            Ok(Attached::Present) => {}
            Ok(Attached::Deleting) => deleting.push(format!("{namespace}/{name}")),
            Err(error) => errors.push(error.to_string()),
        }
    }
    if !errors.is_empty() {
        status::CudnOutcome::Failed(errors)
    } else if !deleting.is_empty() {
        status::CudnOutcome::DefinitionsDeleted(deleting)
    } else {
        status::CudnOutcome::Created(selected)
    }
}

/// Outcome of definitions that stay as they are.
fn present(inventory: &Inventory, own: Vec<ObjectKey>) -> status::CudnOutcome {
    let nads = &inventory.network_attachment_definitions;
    let is_deleting = |key: &&ObjectKey| {
        let nad = nads.get(key);
        nad.is_some_and(|nad| nad.object.metadata.deletion_timestamp.is_some())
    };
    let deleting: Vec<String> = own
        .iter()
        .filter(is_deleting)
        .map(ToString::to_string)
        .collect();
    if deleting.is_empty() {
        let namespaces = own.into_iter().filter_map(|key| key.namespace);
        status::CudnOutcome::Created(namespaces.collect())
    } else {
        status::CudnOutcome::DefinitionsDeleted(deleting)
    }
}

/// The namespaces that each ClusterUserDefinedNetwork selects. A namespace that is being deleted is
/// none of them.
pub(super) fn plans(
    inventory: &Inventory,
    settings: &ManagerSettings,
) -> BTreeMap<ObjectKey, Result<BTreeSet<String>, Halt>> {
    let staying = |namespace: &Namespace| namespace.metadata.deletion_timestamp.is_none();
    let namespaces: LabelIndex<'_, &String> = inventory
        .namespaces
        .iter()
        .filter(|(_, namespace)| staying(&namespace.object))
        .map(|(key, namespace)| (&key.name, namespace.object.labels()))
        .collect();
    let plan = |cudn: &ClusterUserDefinedNetwork| {
        let spec = &cudn.spec;
        let has_uplinks = spec
            .uplinks
            .as_ref()
            .is_some_and(|uplinks| !uplinks.is_empty());
        if has_uplinks && !settings.cluster.has_feature(Feature::Uplink) {
            return Err(Halt::UplinkDisabled);
        }
        if let Some(problem) = evpn::problem(cudn, inventory, &settings.cluster) {
            return Err(Halt::Evpn(problem));
        }
        let selector = selector::convert(&spec.namespace_selector).map_err(Halt::Selector)?;
        let selected = namespaces.select(&selector).into_iter();
        Ok(selected.map(|name| (*name).clone()).collect())
    };
    let cudns = inventory.cluster_user_defined_networks.iter();
    cudns
        .filter(|(_, cudn)| cudn.object.metadata.deletion_timestamp.is_none())
        .map(|(key, cudn)| (key.clone(), plan(&cudn.object)))
        .collect()
}

/// Removes definitions from namespaces that their networks no longer select.
pub(super) fn remove_unselected(
    inventory: &mut Inventory,
    plans: &BTreeMap<ObjectKey, Result<BTreeSet<String>, Halt>>,
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
        let Some(Ok(selected)) = plans.get(&cudn_key) else {
            continue;
        };
        if key
            .namespace
            .as_ref()
            .is_some_and(|namespace| selected.contains(namespace))
        {
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
            Err(error) => removed
                .errors
                .entry(cudn)
                .or_default()
                .push(error.to_string()),
        }
    }
    let rest = inventory.network_attachment_definitions.iter();
    let rest =
        rest.filter_map(|(_, nad)| NetConf::parse(nad.object.spec.config.as_deref()?).ok()?);
    waiting.extend(rest.map(|network| network.name));
    removed
        .networks
        .retain(|network| !waiting.contains(network));
    removed
}
