//! Layouts of layer2 networks on nodes.

use std::collections::BTreeMap;

/// Node annotation: layout of layer2 networks.
const LAYOUT_VERSION: &str = "k8s.ovn.org/layer2-topology-version";
/// Value of [`LAYOUT_VERSION`] of nodes with transit routers.
const TRANSIT_ROUTER_VERSION: &str = "2.0";
/// Node annotation: tunnel keys of gateway routers on switches of layer2 networks, as JSON.
const OLDER_KEYS: &str = "k8s.ovn.org/udn-layer2-node-gateway-router-lrp-tunnel-ids";

/// Layout of layer2 networks on a node.
///
/// In the present one a transit router leads to the gateway routers of nodes. In the older one they
/// are attached to the network's switch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer2Layout {
    has_transit_routers: bool,
    /// Tunnel keys of the gateway routers' ports on switches, by network. Only the older layout
    /// uses them.
    older_keys: BTreeMap<String, String>,
}

impl Layer2Layout {
    /// Reads the annotations of a node. One that cannot be read counts as missing.
    pub fn read(annotations: Option<&BTreeMap<String, String>>) -> Self {
        let annotation = |key| annotations?.get(key);
        let keys = annotation(OLDER_KEYS).and_then(|text| serde_json::from_str(text).ok());
        Self {
            has_transit_routers: annotation(LAYOUT_VERSION)
                .is_some_and(|version| version == TRANSIT_ROUTER_VERSION),
            older_keys: keys.unwrap_or_default(),
        }
    }

    /// Tunnel key of the port of the node's gateway router on the switch of a network, if the node
    /// has the older layout. `None`: it has the present one, as nodes of files do.
    pub fn older_key(&self, network: &str) -> Option<&str> {
        self.older_port_key(network).filter(|_| !self.has_transit_routers)
    }

    /// Tunnel key of the port of the node's gateway router on the switch of a network, in any
    /// layout.
    pub fn older_port_key(&self, network: &str) -> Option<&str> {
        self.older_keys.get(network).map(String::as_str)
    }

    /// `true` if the node has the older layout of a network.
    pub fn is_older(&self) -> bool {
        !self.has_transit_routers && !self.older_keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_with_keys_has_the_older_layout_until_it_has_the_version() {
        let mut annotations = BTreeMap::new();
        assert!(!Layer2Layout::read(Some(&annotations)).is_older());
        let keys = r#"{"green_l2":"4"}"#.to_owned();
        annotations.insert(OLDER_KEYS.to_owned(), keys);
        let layout = Layer2Layout::read(Some(&annotations));
        assert_eq!(layout.older_key("green_l2"), Some("4"));
        assert_eq!(layout.older_key("blue_l2"), None);
        assert!(layout.is_older());
        annotations.insert(LAYOUT_VERSION.to_owned(), TRANSIT_ROUTER_VERSION.to_owned());
        let layout = Layer2Layout::read(Some(&annotations));
        assert_eq!(layout.older_key("green_l2"), None);
        assert_eq!(layout.older_port_key("green_l2"), Some("4"));
        assert!(!layout.is_older());
    }
}
