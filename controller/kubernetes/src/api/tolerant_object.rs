//! Tolerant decoding of objects that may be of another version of their definition.

use patchbay_resources::manifests::{InventoryKind, decode_observed};
use patchbay_resources::object::ObjectMeta;
use serde::Deserialize as _;
use serde_json::Value;

use crate::api::requests;

/// An object from which unknown fields are dropped, because a later version of its definition may
/// have more of them.
///
/// An object that still cannot be decoded does not fail its list or watch. The same holds for an
/// object with unknown fields in a selector, because dropping those would select too much.
#[derive(Clone, Debug)]
pub(crate) struct TolerantObject<K>(pub(crate) Result<K, UndecodableObject>);

/// The remains of an object that cannot be decoded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UndecodableObject {
    pub(crate) metadata: ObjectMeta,
    pub(crate) status: Value,
    /// The whole object.
    pub(crate) raw: Value,
    /// The path of the field, and what is wrong with it.
    pub(crate) error: String,
}

impl<K: InventoryKind> TolerantObject<K> {
    /// Decodes an object.
    pub(crate) fn of(object: Value) -> Self {
        let violation = match decode_observed(&object) {
            Ok(known) => return Self(Ok(known)),
            Err(violation) => violation,
        };
        let metadata = ObjectMeta::deserialize(&object["metadata"])
            .unwrap_or_else(|_| requests::identity_of(&object));
        let status = object["status"].clone();
        let error = violation.to_string();
        Self(Err(UndecodableObject { metadata, status, raw: object, error }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use patchbay_resources::cnc::{ClusterNetworkConnect, Connectivity};
    use patchbay_resources::nad::NetworkAttachmentDefinition;
    use patchbay_resources::object::{EgressIP, NetworkPolicy, Pod, RouteAdvertisements};
    use patchbay_resources::udn::ClusterUserDefinedNetwork;

    fn received(spec: &Value) -> TolerantObject<ClusterNetworkConnect> {
        let mut object = json!({"metadata": {"name": "c"}, "spec": {
            "networkSelectors": [], "connectSubnets": [], "connectivity": ["PodNetwork"],
        }, "status": {"status": "Success"}});
        for (key, value) in spec.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        TolerantObject::of(object)
    }

    #[test]
    fn unknown_fields_are_dropped() {
        let subnet = json!({"cidr": "10.0.0.0/8", "networkPrefix": 24, "later": {"a": 1}});
        let object = received(&json!({"description": "x", "connectSubnets": [subnet]})).0.unwrap();
        assert_eq!(object.spec.connectivity, [Connectivity::PodNetwork]);
        assert_eq!(object.spec.connect_subnets[0].network_prefix, 24);
        assert!(object.status.is_some());
    }

    #[test]
    fn an_unknown_field_of_a_selector_makes_the_object_undecodable() {
        let selector = json!({"networkSelectionType": "DefaultNetwork", "except": "blue"});
        let object = received(&json!({"networkSelectors": [selector]})).0;
        let error = object.unwrap_err().error;
        assert!(error.starts_with("spec.networkSelectors[0]"), "{error}");
    }

    #[test]
    fn types_that_ignore_unknown_fields_do_not_ignore_those_of_selectors() {
        fn error<K: InventoryKind>(spec: &Value) -> Option<String> {
            let object = json!({"metadata": {"name": "a", "namespace": "b"}, "spec": spec});
            let read = TolerantObject::<K>::of(object);
            read.0.err().map(|undecodable| undecodable.error)
        }
        let selector = json!({"matchLabels": {"a": "b"}, "matchFields": []});
        let peers = json!({"podSelector": {}, "ingress": [{"from": [{"podSelector": selector}]}]});
        assert_eq!(
            error::<NetworkPolicy>(&peers).unwrap(),
            "spec.ingress[0].from[0].podSelector.matchFields: unknown field"
        );
        let address = json!({"egressIPs": [], "namespaceSelector": {}, "networkSelector": {}});
        assert_eq!(error::<EgressIP>(&address).unwrap(), "spec.networkSelector: unknown field");
        // The label selector of a type that denies its own unknown fields.
        let network = json!({"topology": "Layer2", "layer2": {"role": "Secondary"}});
        let networks = json!({"namespaceSelector": selector, "network": network});
        assert_eq!(
            error::<ClusterUserDefinedNetwork>(&networks).unwrap(),
            "spec.namespaceSelector.matchFields: unknown field"
        );
        let policy = json!({"podSelector": {}, "description": "x"});
        assert_eq!(error::<NetworkPolicy>(&policy), None);
        let pod = json!({"nodeSelector": {"a": "b"}, "containers": []});
        assert_eq!(error::<Pod>(&pod), None);
    }

    #[test]
    fn objects_without_the_spec_that_their_definitions_do_not_require_are_decoded() {
        let object = json!({"metadata": {"name": "a", "namespace": "b"}});
        let nad = TolerantObject::<NetworkAttachmentDefinition>::of(object.clone());
        assert_eq!(nad.0.unwrap().spec.config, None);
        let advertisements = TolerantObject::<RouteAdvertisements>::of(object);
        assert!(advertisements.0.unwrap().spec.advertisements.is_empty());
    }

    #[test]
    fn an_undecodable_object_names_the_field_and_keeps_its_status() {
        let object = received(&json!({"description": "x", "connectivity": ["HostNetwork"]}));
        let unreadable = object.0.unwrap_err();
        assert_eq!(unreadable.metadata.name.as_deref(), Some("c"));
        assert!(unreadable.error.starts_with("spec.connectivity[0]: "), "{unreadable:?}");
        assert_eq!(unreadable.status["status"], "Success");
    }
}
