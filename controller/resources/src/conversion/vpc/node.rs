//! Conversion of objects, as virtual private clouds need them.

use std::net::IpAddr;

use patchbay_model::NODE_CHASSIS_ID;
use patchbay_model::vpc::{CHASSIS, GATEWAY_NODE, TUNNEL_INTERFACE, VpcNode};
use serde_json::Value;

use crate::object::{Node, Object as _};

/// A node with its chassis and addresses. Addresses that cannot be read are left out.
pub fn vpc_node(object: &Node) -> VpcNode {
    let annotation = |key: &str| {
        let value = object.annotations().get(key)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    };
    let other = annotation(NODE_CHASSIS_ID);
    let chassis = annotation(CHASSIS).or(other);
    VpcNode {
        name: object.name_any().into(),
        is_gateway: object.labels().get(GATEWAY_NODE).is_some_and(|value| value == "true"),
        chassis: chassis.map(Into::into),
        other_chassis: other.filter(|_| other != chassis).map(Into::into),
        tunnel_interface: annotation(TUNNEL_INTERFACE).map(str::to_owned),
        addresses: internal_addresses(object),
    }
}

fn internal_addresses(object: &Node) -> Vec<IpAddr> {
    let addresses = object
        .status
        .as_ref()
        .and_then(|status| status.get("addresses"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let text = |address: &Value, field| Some(address.get(field)?.as_str()?.to_owned());
    let internal = addresses.filter(|one| text(one, "type").as_deref() == Some("InternalIP"));
    internal.filter_map(|one| text(one, "address")?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(labels: &Value, annotations: &Value) -> VpcNode {
        let object = json!({
            "metadata": {"name": "w1", "labels": labels, "annotations": annotations},
            "status": {"addresses": [
                {"type": "Hostname", "address": "w1"},
                {"type": "InternalIP", "address": "172.21.204.21"},
                {"type": "InternalIP", "address": "unreadable"},
            ]},
        });
        vpc_node(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_gateway_node_has_the_label_with_the_value_true() {
        assert!(node(&json!({GATEWAY_NODE: "true"}), &json!({})).is_gateway);
        assert!(!node(&json!({GATEWAY_NODE: "false"}), &json!({})).is_gateway);
        assert!(!node(&json!({GATEWAY_NODE: "True"}), &json!({})).is_gateway);
        let plain = node(&json!({}), &json!({}));
        assert!(!plain.is_gateway);
        assert_eq!(plain.addresses, ["172.21.204.21".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn the_chassis_of_kube_ovn_comes_before_that_of_ovn_kubernetes() {
        let chassis = |annotations: Value| {
            let node = node(&json!({}), &annotations);
            (node.chassis, node.other_chassis)
        };
        let known = |text: &str| Some(text.into());
        assert_eq!(chassis(json!({CHASSIS: "a"})), (known("a"), None));
        assert_eq!(chassis(json!({NODE_CHASSIS_ID: "b"})), (known("b"), None));
        let both = json!({CHASSIS: "a", NODE_CHASSIS_ID: "b"});
        assert_eq!(chassis(both), (known("a"), known("b")));
        let equal = json!({CHASSIS: "a", NODE_CHASSIS_ID: "a"});
        assert_eq!(chassis(equal), (known("a"), None));
        assert_eq!(chassis(json!({CHASSIS: ""})), (None, None));
    }
}
