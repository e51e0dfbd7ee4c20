//! Kubernetes objects, as far as Patchbay reads and writes them.
//!
//! The types have the names and fields of the Kubernetes API. They replace a crate that generates
//! all of the API, because that crate takes longer to compile than all of Patchbay. A watch of
//! 100,000 pods also keeps only three fields of each pod. A field whose content is not read is
//! JSON.

mod admin_policy;
mod core;
mod custom;
mod discovery;
mod egress_firewall;
mod egress_ip;
pub mod kube_ovn;
mod meta;
pub mod platform;
mod pod;
mod policy;
mod route_advertisements;
mod vtep;

use std::collections::BTreeMap;

pub use self::core::{
    ClientIpConfig, ConfigMap, Namespace, NamespaceSpec, Node, NodeSpec, Service, ServicePort,
    ServiceSpec, SessionAffinityConfig,
};
pub use admin_policy::{
    AdminNetworkPolicy, AdminPolicyPeer, AdminPolicyPort, AdminPolicyRule, AdminPolicySpec,
    AdminPolicyStatus, AdminPortNumber, AdminPortRange, BaselineAdminNetworkPolicy, NamespacedPods,
};
pub use custom::{ApiVersion, KindName};
pub use discovery::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
pub use egress_firewall::{
    EgressFirewall, EgressFirewallDestination, EgressFirewallPort, EgressFirewallRule,
    EgressFirewallSpec,
};
pub use egress_ip::{EgressIP, EgressIPSpec, EgressIPStatus, EgressIPStatusItem};
pub use meta::{
    Condition, LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference, Time,
};
pub use pod::{Container, ContainerPort, Pod, PodCondition, PodIp, PodSpec, PodStatus};
pub use policy::{
    IpBlock, MultiNetworkPolicy, NetworkPolicy, PolicyPeer, PolicyPort, PolicyRule, PolicySpec,
};
pub use route_advertisements::{
    RouteAdvertisements, RouteAdvertisementsSpec, RouteAdvertisementsStatus,
};
pub use vtep::{VTEP, VtepSpec, VtepStatus};

static NO_ENTRIES: BTreeMap<String, String> = BTreeMap::new();

/// A kind of Kubernetes objects.
pub trait Object {
    /// API group; empty for the core group.
    const GROUP: &'static str;
    /// Version within the group.
    const VERSION: &'static str;
    /// Kind, in the singular.
    const KIND: &'static str;
    /// Plural, as in the paths of the API.
    const PLURAL: &'static str;
    /// `true` when objects belong to namespaces.
    const NAMESPACED: bool;

    /// Metadata of the object.
    fn meta(&self) -> &ObjectMeta;

    /// Metadata of the object, to be changed.
    fn meta_mut(&mut self) -> &mut ObjectMeta;

    /// Removes the parts that nothing reads, which may be most of the object.
    fn drop_unread(&mut self) {}

    /// The text of `apiVersion`: group and version.
    fn api_version() -> String {
        if Self::GROUP.is_empty() {
            Self::VERSION.to_owned()
        } else {
            format!("{}/{}", Self::GROUP, Self::VERSION)
        }
    }

    /// Name of the object; empty without a name.
    fn name_any(&self) -> String {
        self.meta().name.clone().unwrap_or_default()
    }

    /// Namespace of the object; `None`: the kind has no namespaces, or the namespace is not set.
    fn namespace(&self) -> Option<String> {
        self.meta().namespace.clone()
    }

    /// UID of the object; `None` before it was stored.
    fn uid(&self) -> Option<String> {
        self.meta().uid.clone()
    }

    /// Version of the object in its API server; `None` before it was stored.
    fn resource_version(&self) -> Option<String> {
        self.meta().resource_version.clone()
    }

    /// Time of creation; `None` before the object was stored.
    fn creation_timestamp(&self) -> Option<Time> {
        self.meta().creation_timestamp.clone()
    }

    /// Labels of the object.
    fn labels(&self) -> &BTreeMap<String, String> {
        self.meta().labels.as_ref().unwrap_or(&NO_ENTRIES)
    }

    /// Annotations of the object.
    fn annotations(&self) -> &BTreeMap<String, String> {
        self.meta().annotations.as_ref().unwrap_or(&NO_ENTRIES)
    }

    /// Owners of the object.
    fn owner_references(&self) -> &[OwnerReference] {
        self.meta().owner_references.as_deref().unwrap_or_default()
    }

    /// Annotations of the object, to be changed.
    fn annotations_mut(&mut self) -> &mut BTreeMap<String, String> {
        self.meta_mut().annotations.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifests::from_json;
    use crate::nad::{NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec};

    #[test]
    fn api_version_and_kind_are_written() {
        let node = serde_json::to_value(Node::default()).unwrap();
        assert_eq!((&node["apiVersion"], &node["kind"]), (&json!("v1"), &json!("Node")));
        let spec = NetworkAttachmentDefinitionSpec::default();
        let nad = serde_json::to_value(NetworkAttachmentDefinition::new("red", spec)).unwrap();
        assert_eq!(nad["apiVersion"], "k8s.cni.cncf.io/v1");
        assert_eq!(nad["kind"], "NetworkAttachmentDefinition");
        assert_eq!(nad["metadata"]["name"], "red");
    }

    #[test]
    fn unknown_fields_of_a_service_are_violations() {
        let service = |spec| {
            let (service, violations) = from_json::<Service>(json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec,
            }));
            assert!(service.is_some());
            violations.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let known =
            json!({"clusterIP": "10.96.0.1", "ports": [{"port": 80, "targetPort": "http"}]});
        assert_eq!(service(known), Vec::<String>::new());
        assert_eq!(
            service(json!({"clusterIp": "10.96.0.1", "ports": [{"ports": 80}]})),
            [
                "spec.clusterIp: unknown field, did you mean clusterIP?",
                "spec.ports[0].ports: unknown field, did you mean port?"
            ]
        );
    }
}
