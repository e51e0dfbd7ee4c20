//! Refusals in the status of networks, with the object and field to change.
//!
//! OVN-Kubernetes and Patchbay write the same messages, so the field is found by their words.

use std::collections::BTreeSet;

use patchbay_allocate::networks::{NETWORK_ALLOCATION_SUCCEEDED, NETWORK_CREATED};
use patchbay_model::PRIMARY_NETWORK_LABEL;
use patchbay_resources::manifests::{Inventory, InventoryKind, ObjectKey, describe};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::Condition;
use patchbay_resources::udn::{
    ClusterUserDefinedNetwork, CudnTopology, NetworkRole, NetworkStatus, UdnTopology,
    UserDefinedNetwork,
};

use super::reasons::Reason;

/// Words of a message about a configuration, and the member of the topology's configuration that it
/// is about. The first words that are found count.
const MEMBERS: [(&str, &str); 9] = [
    ("lifecycle Persistent", "ipam.lifecycle"),
    ("ipam.mode", "subnets"),
    ("excluded subnets", "excludeSubnets"),
    ("reserved subnets", "reservedSubnets"),
    ("infrastructure subnets", "infrastructureSubnets"),
    ("user defined subnet", "subnets"),
    ("user defined join subnet", "joinSubnets"),
    ("host subnet", "subnets"),
    ("the cluster does not support", "subnets"),
];

/// Message about a namespace without the label of primary networks, up to the namespace.
const NO_LABEL: &str = "invalid primary network state for namespace \"";
/// Message about a namespace that does not exist, up to the namespace.
const NO_NAMESPACE: &str = "failed to get namespace \"";
/// Message about a second primary network of a namespace, up to the namespace.
const SECOND_PRIMARY: &str = "primary network already exist in namespace \"";
/// Message about an attachment definition of another owner, up to its namespace and name.
const FOREIGN: &str = "foreign NetworkAttachmentDefinition with the desired name already exist [";

/// Custom resource that defines a network.
pub(super) struct Definition<'a> {
    object: String,
    /// Field path of the topology's configuration.
    config: &'static str,
    /// `true` for a ClusterUserDefinedNetwork, which is offered to several namespaces.
    is_shared: bool,
    pub(super) is_primary: bool,
    status: Option<&'a NetworkStatus>,
}

impl<'a> Definition<'a> {
    pub(super) fn of_udn(udn: &'a UserDefinedNetwork) -> Self {
        let spec = &udn.spec;
        let (config, role) = match spec.topology {
            UdnTopology::Layer2 => ("spec.layer2", spec.layer2.as_ref().map(|layer2| layer2.role)),
            UdnTopology::Layer3 => ("spec.layer3", spec.layer3.as_ref().map(|layer3| layer3.role)),
        };
        Self {
            object: describe(udn),
            config,
            is_shared: false,
            is_primary: role == Some(NetworkRole::Primary),
            status: udn.status.as_ref(),
        }
    }

    pub(super) fn of_cudn(cudn: &'a ClusterUserDefinedNetwork) -> Self {
        Self {
            object: describe(cudn),
            config: match cudn.spec.network.topology {
                CudnTopology::Layer2 => "spec.network.layer2",
                CudnTopology::Layer3 => "spec.network.layer3",
                CudnTopology::Localnet => "spec.network.localnet",
            },
            is_shared: true,
            is_primary: cudn.spec.network.role() == Some(NetworkRole::Primary),
            status: cudn.status.as_ref(),
        }
    }

    /// The custom resource that controls an attachment definition.
    pub(super) fn of_owner(
        nad: &NetworkAttachmentDefinition,
        inventory: &'a Inventory,
    ) -> Option<Self> {
        if let Some(name) = nad.controlling_cudn() {
            let cudn = inventory.cluster_user_defined_networks.named(name)?;
            return Some(Self::of_cudn(cudn));
        }
        let mut owners = nad.metadata.owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.controller == Some(true))?;
        let namespace = nad.metadata.namespace.as_deref().unwrap_or_default();
        let key = ObjectKey::namespaced(namespace, &*owner.name);
        let udn = inventory.user_defined_networks.get(&key)?;
        is_of_kind::<UserDefinedNetwork>(&owner.kind).then(|| Self::of_udn(&udn.object))
    }

    /// Reasons why attachment definitions are missing, one for each object to change.
    pub(super) fn refusals(&self) -> BTreeSet<Reason> {
        let lines = self.failed_condition(NETWORK_CREATED);
        let lines = lines.into_iter().flat_map(|condition| condition.message.lines());
        lines.map(|line| self.refusal(line)).collect()
    }

    /// As [`Self::refusals`], without those of other namespaces.
    pub(super) fn refusals_in(&self, namespace: &str) -> BTreeSet<Reason> {
        let lines = self.failed_condition(NETWORK_CREATED);
        let lines = lines
            .into_iter()
            .flat_map(|condition| condition.message.lines())
            .filter(|line| namespace_of(line).is_none_or(|of| of == namespace));
        lines.map(|line| self.refusal(line)).collect()
    }

    /// Reason why nodes have no subnets of the network. `None`: not known.
    pub(super) fn without_subnets(&self) -> Option<Reason> {
        let condition = self.failed_condition(NETWORK_ALLOCATION_SUCCEEDED)?;
        Some(Reason::new(
            format!("the node has no subnet of the network: {}", condition.message),
            &*self.object,
            Some(format!("{}.subnets", self.config)),
        ))
    }

    fn failed_condition(&self, kind: &str) -> Option<&'a Condition> {
        let mut conditions = self.status?.conditions.iter();
        conditions.find(|condition| condition.type_ == kind && condition.status == "False")
    }

    fn refusal(&self, line: &str) -> Reason {
        let own = |field: &str| (self.object.clone(), Some(field.to_owned()));
        let (object, field) = if let Some(namespace) = between(line, NO_LABEL, "\"") {
            let label = format!("metadata.labels[{PRIMARY_NETWORK_LABEL}]");
            (format!("Namespace {namespace}"), Some(label))
        } else if line.starts_with(NO_NAMESPACE) {
            own("metadata.namespace")
        } else if let Some(nad) = between(line, FOREIGN, "]") {
            (format!("NetworkAttachmentDefinition {nad}"), None)
        } else if let Some(namespace) = between(line, SECOND_PRIMARY, "\"") {
            if self.is_shared {
                own("spec.namespaceSelector")
            } else {
                let (_, other) = line.rsplit_once(": ").unwrap_or_default();
                let other = other.trim_matches('"');
                (format!("NetworkAttachmentDefinition {namespace}/{other}"), None)
            }
        } else if line.starts_with("EVPN transport") {
            own("spec.network.transport")
        } else if line.contains("VTEP '") {
            own("spec.network.evpn.vtep")
        } else {
            let mut members = MEMBERS.iter();
            let member = members.find(|(words, _)| line.contains(words));
            let field = member.map(|(_, member)| format!("{}.{member}", self.config));
            (self.object.clone(), field)
        };
        Reason::new(format!("{}: {line}", self.object), object, field)
    }
}

/// Namespace of a line. `None`: the line does not concern a single namespace.
fn namespace_of(line: &str) -> Option<&str> {
    let mut quoted = [NO_LABEL, NO_NAMESPACE, SECOND_PRIMARY]
        .iter()
        .filter_map(|start| between(line, start, "\""));
    quoted.next().or_else(|| between(line, FOREIGN, "/"))
}

/// The text between a prefix of a line and the next `end`.
fn between<'a>(line: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(start)?;
    rest.split_once(end).map(|(between, _)| between)
}

fn is_of_kind<T: InventoryKind>(kind: &str) -> bool {
    T::KIND == kind
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Refusals of a layer2 UDN and CUDN with these lines in their status.
    fn refusals_of(message: &str) -> [Vec<String>; 2] {
        let status = json!({"conditions": [{
            "type": "NetworkCreated", "status": "False", "reason": "SyncError", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]});
        let layer2 = json!({"role": "Primary", "subnets": ["10.1.0.0/16"]});
        let network = json!({"topology": "Layer2", "layer2": layer2});
        let udn: UserDefinedNetwork = serde_json::from_value(json!({
            "apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork",
            "metadata": {"name": "u", "namespace": "one"}, "spec": network, "status": status,
        }))
        .unwrap();
        let cudn: ClusterUserDefinedNetwork = serde_json::from_value(json!({
            "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork",
            "metadata": {"name": "c"}, "spec": {"namespaceSelector": {}, "network": network}, "status": status,
        }))
        .unwrap();
        [Definition::of_udn(&udn), Definition::of_cudn(&cudn)].map(|definition| {
            let refusals = definition.refusals();
            refusals.iter().map(ToString::to_string).collect()
        })
    }

    #[test]
    fn every_refusal_names_object_and_field() {
        let (udn, cudn) = ("UserDefinedNetwork one/u", "ClusterUserDefinedNetwork c");
        let label = "Namespace two: metadata.labels[k8s.ovn.org/primary-user-defined-network]";
        let config = |member: &str| {
            let cudn = format!("{cudn}: spec.network.layer2.{member}");
            [format!("{udn}: spec.layer2.{member}"), cudn]
        };
        let both = |mend: &str| [mend.to_owned(), mend.to_owned()];
        let overlap = "pod or join subnet overlaps with already configured internal subnets:";
        let transit = r#"transit switch subnet "100.88.0.0/16""#;
        for (line, mend) in [
            (
                r#"invalid primary network state for namespace "two": a valid primary user defined network"#.to_owned(),
                both(label),
            ),
            (
                "foreign NetworkAttachmentDefinition with the desired name already exist [two/c]".to_owned(),
                both("NetworkAttachmentDefinition two/c"),
            ),
            (
                r#"primary network already exist in namespace "two": "other""#.to_owned(),
                [
                    "NetworkAttachmentDefinition two/other".to_owned(),
                    format!("{cudn}: spec.namespaceSelector"),
                ],
            ),
            (
                format!(r#"{overlap} user defined subnet "100.88.0.0/16" overlaps {transit}"#),
                config("subnets"),
            ),
            (
                format!(r#"{overlap} user defined join subnet "100.88.0.0/16" overlaps {transit}"#),
                config("joinSubnets"),
            ),
            ("IPv6 only supports /64 host subnets".to_owned(), config("subnets")),
            (
                "cannot use a host subnet length mask shorter than or equal to the cluster subnet mask".to_owned(),
                config("subnets"),
            ),
            (
                "network n is attempting to use ipv6 subnets but the cluster does not support ipv6".to_owned(),
                config("subnets"),
            ),
            (
                "the provided network subnets do not contain infrastructure subnets [10.2.0.0/30]".to_owned(),
                config("infrastructureSubnets"),
            ),
            (
                "lifecycle Persistent is only supported when ipam.mode is Enabled".to_owned(),
                config("ipam.lifecycle"),
            ),
            ("something new".to_owned(), [udn.to_owned(), cudn.to_owned()]),
        ] {
            let [of_udn, of_cudn] = refusals_of(&line);
            assert_eq!(of_udn, [format!("{udn}: {line} -> {}", mend[0])]);
            assert_eq!(of_cudn, [format!("{cudn}: {line} -> {}", mend[1])]);
        }
        let [_, of_cudn] = refusals_of("EVPN transport requested but EVPN feature is not enabled");
        assert!(of_cudn[0].ends_with(" -> ClusterUserDefinedNetwork c: spec.network.transport"));
    }

    #[test]
    fn each_line_is_a_reason_of_its_own() {
        let [_, of_cudn] = refusals_of("one\nanother\none");
        assert_eq!(of_cudn.len(), 2);
    }
}
