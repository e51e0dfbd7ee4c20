//! Objects as API servers send them, some of other versions than ours.

use patchbay_resources::object::Object;
use patchbay_resources::object::ObjectMeta;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use patchbay_resources::Violation;
use patchbay_resources::manifests::from_json;

/// An object without the fields that are not known here: a later version of its definition may have more of them. One
/// that cannot be understood all the same does not stop a list or a watch, nor does one whose selectors say more than is
/// known here.
#[derive(Clone, Debug)]
pub(super) struct Received<K>(pub(super) Result<K, Unreadable>);

/// What is left of an object that cannot be understood.
#[derive(Clone, Debug)]
pub(super) struct Unreadable {
    pub(super) metadata: ObjectMeta,
    pub(super) status: Value,
    /// What is wrong, with the field.
    pub(super) error: String,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Received<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(deserializer)?;
        if let Ok(known) = K::deserialize(&object) {
            return Ok(Self(Ok(known)));
        }
        let metadata = ObjectMeta::deserialize(&object["metadata"]).map_err(D::Error::custom)?;
        let status = object["status"].clone();
        let (known, violations) = from_json(object);
        let wrong = match &known {
            // Without a part of a selector, more would be selected than is meant.
            Some(_) => violations.iter().find(|violation| selects(violation)),
            // Those before it are fields that are not known.
            None => violations.last(),
        };
        let error = wrong.map(ToString::to_string);
        Ok(Self(match (known, error) {
            (Some(known), None) => Ok(known),
            (_, error) => Err(Unreadable {
                metadata,
                status,
                error: error.unwrap_or_default(),
            }),
        }))
    }
}

fn selects(violation: &Violation) -> bool {
    violation.field.to_ascii_lowercase().contains("selector")
}

impl<K: Object> Object for Received<K> {
    const GROUP: &'static str = K::GROUP;
    const VERSION: &'static str = K::VERSION;
    const KIND: &'static str = K::KIND;
    const PLURAL: &'static str = K::PLURAL;
    const NAMESPACED: bool = K::NAMESPACED;

    fn meta(&self) -> &ObjectMeta {
        match &self.0 {
            Ok(object) => object.meta(),
            Err(unreadable) => &unreadable.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.0 {
            Ok(object) => object.meta_mut(),
            Err(unreadable) => &mut unreadable.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use patchbay_resources::cnc::{ClusterNetworkConnect, Connectivity};

    fn received(spec: &Value) -> Received<ClusterNetworkConnect> {
        let mut object = json!({"metadata": {"name": "c"}, "spec": {
            "networkSelectors": [], "connectSubnets": [], "connectivity": ["PodNetwork"],
        }, "status": {"status": "Success"}});
        for (key, value) in spec.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn fields_of_later_versions_are_left_out() {
        let subnet = json!({"cidr": "10.0.0.0/8", "networkPrefix": 24, "later": {"a": 1}});
        let object = received(&json!({"description": "x", "connectSubnets": [subnet]})).0;
        let object = object.unwrap();
        assert_eq!(object.spec.connectivity, [Connectivity::PodNetwork]);
        assert_eq!(object.spec.connect_subnets[0].network_prefix, 24);
        assert!(object.status.is_some());
    }

    #[test]
    fn what_narrows_a_selector_is_not_left_out() {
        let selector = json!({"networkSelectionType": "DefaultNetwork", "except": "blue"});
        let object = received(&json!({"networkSelectors": [selector]})).0;
        let error = object.unwrap_err().error;
        assert!(error.starts_with("spec.networkSelectors[0]"), "{error}");
    }

    #[test]
    fn what_cannot_be_understood_is_named_and_keeps_its_status() {
        let object = received(&json!({"description": "x", "connectivity": ["HostNetwork"]}));
        assert_eq!(object.meta().name.as_deref(), Some("c"));
        let unreadable = object.0.unwrap_err();
        assert!(
            unreadable.error.starts_with("spec.connectivity[0]: "),
            "{unreadable:?}"
        );
        assert_eq!(unreadable.status["status"], "Success");
    }
}
