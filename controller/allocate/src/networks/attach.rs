//! Attachment definitions: one in the namespace of a UDN, one in every selected namespace of a
//! CUDN.

mod namespace;
mod plans;
mod refusal;
mod removal;

use std::collections::BTreeSet;

use patchbay_resources::manifests::{Inventory, ObjectKey, Sourced};
use patchbay_resources::object::Time;
use patchbay_resources::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};

use super::definition::{add_finalizer, own_definitions};
use super::evpn::{EvpnProblem, FabricIds};
use super::outcome::DefinitionOutcome;
use super::resource::NetworkResource;
use super::settings::ManagerSettings;
use super::status::{note_definitions, note_transport};
use namespace::{AttachError, Attached, attach_namespace, check_primary};
use plans::{Halt, plan_namespaces, remove_unselected};
pub use refusal::{
    RefusedWrite, note_refused_definitions, note_refused_finalizers, note_undefined_definitions,
};
use removal::{Definitions, finish_deleted, remove_orphans};

/// Creates, updates and removes attachment definitions as the custom resources require, in the
/// order of the custom resources, and writes the outcome into their status.
///
/// Definitions are removed first, so that a namespace that one network leaves is free for another
/// one. A definition that pods use stays. As in OVN-Kubernetes, a network that has left all its
/// namespaces is a new one in those that it joins: its name is returned.
pub(super) fn sync_definitions(
    inventory: &mut Inventory,
    settings: &ManagerSettings,
    fabric_ids: &mut FabricIds,
    now: &Time,
) -> BTreeSet<String> {
    remove_orphans(inventory);
    let (cluster, definitions) = (&settings.cluster, &mut Definitions::default());
    finish_deleted::<UserDefinedNetwork>(inventory, definitions, cluster, now);
    finish_deleted::<ClusterUserDefinedNetwork>(inventory, definitions, cluster, now);
    fabric_ids.restore(inventory);
    let plans = plan_namespaces(inventory, cluster);
    let mut removed = remove_unselected(inventory, &plans);
    let mut plans: Vec<_> = plans.into_iter().collect();
    plans.sort_by_key(|(key, plan)| (plan.position, key.namespace.is_none()));
    let mut sync = DefinitionSync { inventory, settings, fabric_ids, now };
    for (key, plan) in plans {
        let errors = removed.errors.remove(&key).unwrap_or_default();
        if key.namespace.is_some() {
            sync.attach::<UserDefinedNetwork>(&key, plan.namespaces, errors);
        } else {
            sync.attach::<ClusterUserDefinedNetwork>(&key, plan.namespaces, errors);
        }
    }
    removed.networks
}

struct DefinitionSync<'a> {
    inventory: &'a mut Inventory,
    settings: &'a ManagerSettings,
    fabric_ids: &'a mut FabricIds,
    now: &'a Time,
}

impl DefinitionSync<'_> {
    /// Attaches a network to its namespaces. `errors`: reasons why former definitions stay.
    fn attach<T: NetworkResource>(
        &mut self,
        key: &ObjectKey,
        namespaces: Result<BTreeSet<String>, Halt>,
        errors: Vec<String>,
    ) {
        let Some(mut sourced) = T::objects(self.inventory).get(key).cloned() else {
            return;
        };
        if !matches!(namespaces, Err(Halt::UplinkDisabled)) {
            add_finalizer(sourced.object.meta_mut());
        }
        let mut fabric_problem = None;
        let outcome = match namespaces {
            Ok(selected) => {
                if selected.is_empty() {
                    let problem = sourced.problem("selects no namespace");
                    let warnings = &mut self.inventory.warnings;
                    warnings.push(problem.in_field("spec.namespaceSelector"));
                }
                self.attach_selected(key, &sourced, selected, errors)
            }
            Err(Halt::UplinkDisabled) => {
                let error =
                    "spec.uplinks is set but the Uplink feature is disabled, ignoring this CUDN";
                DefinitionOutcome::Failed(vec![error.to_owned()])
            }
            Err(Halt::Evpn(problem)) => {
                fabric_problem = Some(problem.clone());
                let own = own_definitions(&sourced.object, self.inventory);
                match problem {
                    // A network that works goes on as it is.
                    EvpnProblem::VtepNotAccepted(_) | EvpnProblem::VtepUnknown(_)
                        if !own.is_empty() =>
                    {
                        present(self.inventory, own)
                    }
                    problem => DefinitionOutcome::Evpn(problem),
                }
            }
            Err(Halt::Selector(error)) => DefinitionOutcome::Failed(vec![format!(
                "failed to get selected namespaces: failed to create label-selector: {error}"
            )]),
        };
        let object = &mut sourced.object;
        note_definitions(object, &outcome, self.now);
        let cluster = &self.settings.cluster;
        note_transport(object, fabric_problem.as_ref(), self.inventory, cluster, self.now);
        T::objects_mut(self.inventory).put(sourced);
    }

    fn attach_selected<T: NetworkResource>(
        &mut self,
        key: &ObjectKey,
        owner: &Sourced<T>,
        selected: BTreeSet<String>,
        mut errors: Vec<String>,
    ) -> DefinitionOutcome {
        let mut deleting = Vec::new();
        for namespace in &selected {
            match self.attach_namespace(key, owner, namespace) {
                Ok(Attached::Present) => {}
                Ok(Attached::Deleting) => deleting.push(format!("{namespace}/{}", key.name)),
                Err(error) => errors.push(error.to_string()),
            }
        }
        if !errors.is_empty() {
            DefinitionOutcome::Failed(errors)
        } else if !deleting.is_empty() {
            DefinitionOutcome::Deleting(deleting)
        } else {
            DefinitionOutcome::Created(selected)
        }
    }

    fn attach_namespace<T: NetworkResource>(
        &mut self,
        key: &ObjectKey,
        owner: &Sourced<T>,
        namespace: &str,
    ) -> Result<Attached, AttachError> {
        let request = owner.object.request(key)?;
        check_primary(self.inventory, &request, namespace)?;
        let fabric = request.fabric;
        let fabric_ids = fabric.map(|fabric| self.fabric_ids.allocate(&key.name, fabric));
        let request = request.with_fabric_ids(fabric_ids.transpose()?);
        attach_namespace(self.inventory, owner, &request, namespace, self.settings)
    }
}

/// Outcome of definitions that stay as they are.
fn present(inventory: &Inventory, own: Vec<ObjectKey>) -> DefinitionOutcome {
    let nads = &inventory.network_attachment_definitions;
    let is_deleting = |key: &&ObjectKey| {
        let nad = nads.get(key);
        nad.is_some_and(|nad| nad.object.metadata.deletion_timestamp.is_some())
    };
    let deleting: Vec<String> = own.iter().filter(is_deleting).map(ToString::to_string).collect();
    if deleting.is_empty() {
        let namespaces = own.into_iter().filter_map(|key| key.namespace);
        DefinitionOutcome::Created(namespaces.collect())
    } else {
        DefinitionOutcome::Deleting(deleting)
    }
}
