//! Projections: reduce watched objects to the fields from which rows, annotations and conditions
//! are derived.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_model::ClusterIpService;
use patchbay_model::TUNNEL_KEYS;
use patchbay_model::{
    self, ConnectSubnetMap, NETWORK_ID, NETWORK_NAME, OwnerKey, ROUTER_TUNNEL_KEY,
};
use patchbay_resources::cnc::{
    ClusterNetworkConnect, ClusterNetworkConnectSpec, ClusterNetworkConnectStatus,
};
use patchbay_resources::nad::{NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec};
use patchbay_resources::object::MetadataOnly;
use patchbay_resources::object::ObjectMeta;
use patchbay_resources::object::{Namespace, Node, Pod, Service};
use serde::Deserialize as _;

use super::connect_revision::ConnectRevision;
use super::node_subnets::{NetworkNumbers, PackedSubnets};
use super::tolerant_object::TolerantObject;

/// A ClusterNetworkConnect as a watch has delivered it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WatchedConnect {
    /// The object. If its spec cannot be decoded, it has its metadata, its status and an empty
    /// spec.
    pub(super) object: ClusterNetworkConnect,
    /// Reason why the spec cannot be decoded. `None`: it can.
    pub(super) spec_error: Option<String>,
    /// The version from which rows are derived.
    pub(super) revision: ConnectRevision,
    /// Owner keys of the networks in the subnet annotation; empty if it cannot be decoded.
    pub(super) owners: Vec<OwnerKey>,
}

/// A node as a watch has delivered it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WatchedNode {
    /// UID, which distinguishes the node from a later one of the same name.
    pub(super) uid: Option<String>,
    /// The node, without its subnets.
    pub(super) node: patchbay_model::Node,
    /// The node's subnets.
    pub(super) subnets: PackedSubnets,
    /// Annotations that cannot be decoded.
    pub(super) errors: Vec<UnreadableAnnotation>,
}

/// An annotation of a node, or an entry of one, that cannot be decoded.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UnreadableAnnotation {
    /// Key of the annotation.
    pub(super) annotation: &'static str,
    /// The network of the entry. `None`: the whole annotation cannot be decoded.
    pub(super) network: Option<String>,
    /// Message with the error and the object.
    pub(super) message: String,
}

/// Projects a namespace to its name and labels.
pub(super) fn project_namespace(object: MetadataOnly<Namespace>) -> Arc<Namespace> {
    let metadata = ObjectMeta {
        name: object.metadata.name,
        labels: object.metadata.labels,
        ..ObjectMeta::default()
    };
    Arc::new(Namespace {
        metadata,
        ..Namespace::default()
    })
}

/// Projects a node to what its annotations contain about OVN.
pub(super) fn project_node(
    object: MetadataOnly<Node>,
    networks: &NetworkNumbers,
) -> Arc<WatchedNode> {
    let uid = object.metadata.uid.clone();
    let object = Node {
        metadata: object.metadata,
        ..Node::default()
    };
    let (mut node, errors) = patchbay_resources::conversion::node(&object);
    let subnets = networks.pack(&node.subnets);
    node.subnets.clear();
    Arc::new(WatchedNode {
        uid,
        node,
        subnets,
        errors: errors
            .iter()
            .map(|error| UnreadableAnnotation {
                annotation: error.annotation,
                network: error.network().map(str::to_owned),
                message: error.to_string(),
            })
            .collect(),
    })
}

/// Projects a service with a cluster IP to its protocols. `None`: no cluster IP.
#[expect(
    clippy::needless_pass_by_value,
    reason = "projections consume the objects that they reduce"
)]
pub(super) fn project_service(object: Service) -> Option<Arc<ClusterIpService>> {
    patchbay_resources::conversion::service(&object).map(Arc::new)
}

/// Projects a pod to its node. `None`: not scheduled, on the host network, or finished.
pub(super) fn project_pod(object: Pod) -> Option<String> {
    let spec = object.spec?;
    let phase = object.status.and_then(|status| status.phase);
    let is_over = phase.is_some_and(|phase| matches!(&*phase, "Succeeded" | "Failed"));
    let has_network = spec.host_network != Some(true) && !is_over;
    spec.node_name.filter(|_| has_network)
}

/// Projects a `NetworkAttachmentDefinition` to its configuration, ids and owner references.
pub(super) fn project_attachment_definition(
    object: TolerantObject<NetworkAttachmentDefinition>,
) -> Arc<NetworkAttachmentDefinition> {
    let (meta, spec) = match object.0 {
        Ok(nad) => (nad.metadata, nad.spec),
        // Without a configuration it is reported as a definition that leads to no network.
        Err(invalid) => (invalid.metadata, NetworkAttachmentDefinitionSpec::default()),
    };
    let mut nad = NetworkAttachmentDefinition::new("", spec);
    nad.metadata = ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        labels: meta.labels,
        annotations: retain_annotations(meta.annotations, &[NETWORK_ID, NETWORK_NAME, TUNNEL_KEYS]),
        owner_references: meta.owner_references,
        ..ObjectMeta::default()
    };
    Arc::new(nad)
}

/// Projects a ClusterNetworkConnect to everything but the annotations of others.
pub(super) fn project_connect(
    object: TolerantObject<ClusterNetworkConnect>,
) -> Arc<WatchedConnect> {
    let (mut object, spec_error) = match object.0 {
        Ok(object) => (object, None),
        Err(invalid) => {
            let spec = ClusterNetworkConnectSpec::default();
            let mut object = ClusterNetworkConnect::new("", spec);
            object.metadata = invalid.metadata;
            // The previous conditions are kept, because their times must not change.
            object.status = ClusterNetworkConnectStatus::deserialize(invalid.status).ok();
            (object, Some(invalid.error))
        }
    };
    let meta = std::mem::take(&mut object.metadata);
    object.metadata = ObjectMeta {
        name: meta.name,
        uid: meta.uid,
        creation_timestamp: meta.creation_timestamp,
        generation: meta.generation,
        resource_version: meta.resource_version,
        annotations: retain_annotations(
            meta.annotations,
            &[ROUTER_TUNNEL_KEY, ConnectSubnetMap::ANNOTATION],
        ),
        ..ObjectMeta::default()
    };
    let annotations = object.metadata.annotations.as_ref();
    let subnets = annotations.and_then(|annotations| annotations.get(ConnectSubnetMap::ANNOTATION));
    let subnets = ConnectSubnetMap::parse(subnets.map_or("", String::as_str));
    Arc::new(WatchedConnect {
        revision: ConnectRevision::of(&object.metadata),
        owners: subnets.map_or_else(|_| Vec::new(), |(subnets, _)| subnets.owners().collect()),
        object,
        spec_error,
    })
}

fn retain_annotations(
    annotations: Option<BTreeMap<String, String>>,
    keys: &[&str],
) -> Option<BTreeMap<String, String>> {
    let mut annotations = annotations?;
    annotations.retain(|key, _| keys.contains(&key.as_str()));
    (!annotations.is_empty()).then_some(annotations)
}

#[cfg(test)]
mod tests {
    use patchbay_resources::object::Object;
    use serde_json::json;

    use super::*;
    use patchbay_model::{NODE_ID, NODE_SUBNETS};

    #[test]
    fn only_the_ovn_annotations_of_a_node_are_kept() {
        let read = |annotations: serde_json::Value| {
            let object = json!({"metadata": {"name": "n1", "annotations": annotations}});
            let networks = NetworkNumbers::default();
            project_node(serde_json::from_value(object).unwrap(), &networks)
        };
        let ovn = json!({NODE_ID: "2", NODE_SUBNETS: r#"{"red":["10.1.2.0/24"]}"#});
        let mut more = ovn.clone();
        more["example.org/heartbeat"] = "now".into();
        assert_eq!(read(ovn.clone()), read(more));
        assert!(read(ovn).errors.is_empty());
        assert_eq!(
            read(json!({NODE_ID: "two", NODE_SUBNETS: "{"}))
                .errors
                .len(),
            2
        );
    }

    #[test]
    fn a_pod_counts_on_its_node_while_it_uses_the_network() {
        let node = |spec: serde_json::Value, phase: &str| {
            let object = json!({"metadata": {}, "spec": spec, "status": {"phase": phase}});
            project_pod(serde_json::from_value(object).unwrap())
        };
        let spec = json!({"containers": [], "nodeName": "n1"});
        assert_eq!(node(spec.clone(), "Running").as_deref(), Some("n1"));
        assert_eq!(node(spec, "Succeeded"), None);
        assert_eq!(node(json!({"containers": []}), "Pending"), None);
        let on_host = json!({"containers": [], "nodeName": "n1", "hostNetwork": true});
        assert_eq!(node(on_host, "Running"), None);
    }

    #[test]
    fn a_connect_that_cannot_be_decoded_keeps_its_metadata() {
        let object = json!({
            "metadata": {
                "name": "c", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {ROUTER_TUNNEL_KEY: "16715779", "other": "x"},
            },
            "spec": {"networkSelectors": "all"},
        });
        let seen = project_connect(TolerantObject::of(object));
        assert!(
            seen.spec_error.as_ref().is_some_and(
                |error| error.contains("networkSelectors") || error.contains("sequence")
            )
        );
        assert_eq!(seen.object.metadata.uid.as_deref(), Some("u"));
        assert!(seen.object.creation_timestamp().is_some());
        assert_eq!(seen.object.annotations().len(), 1);
    }

    #[test]
    fn a_definition_that_cannot_be_decoded_has_no_configuration() {
        let object = json!({"metadata": {"name": "a", "namespace": "b"}, "spec": {"config": 1}});
        let nad = project_attachment_definition(TolerantObject::of(object));
        assert_eq!(nad.spec.config, None);
    }
}
