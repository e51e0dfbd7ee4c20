//! What a zone's rows follow from, besides the Northbound database itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use ipnet::IpNet;

use patchbay_model::{
    ClusterIpService, Connect, ConnectInput, DatapathKey, IpFamily, Networks, Node,
};

/// Everything that the cluster knows and a zone needs.
///
/// Clones share what is equal, and a later version shares with an earlier one what has not changed: so it is found
/// quickly what has.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Name of the zone: that of its node.
    pub zone: String,
    /// The IP families that the cluster runs.
    pub families: Vec<IpFamily>,
    /// The service ranges, in configured order.
    pub service_cidrs: Vec<IpNet>,
    /// All nodes, by name.
    pub nodes: OrdMap<String, Arc<Node>>,
    /// All networks.
    pub networks: Arc<Networks>,
    /// On which nodes networks are rendered.
    pub activity: Arc<Activity>,
    /// The services that have cluster IPs.
    pub services: Arc<[ClusterIpService]>,
    /// All connects, by name.
    pub connects: OrdMap<String, Arc<ConnectInput>>,
}

impl Inputs {
    /// Adds a node, or puts it in the place of the one with its name.
    pub fn put_node(&mut self, node: Node) {
        self.nodes.insert(node.name.clone(), Arc::new(node));
    }

    /// Adds a connect, or puts it in the place of the one with this name.
    pub fn put_connect(&mut self, name: impl Into<String>, connect: ConnectInput) {
        self.connects.insert(name.into(), Arc::new(connect));
    }
}

/// On which nodes networks are rendered: on all nodes, but for networks that are limited to some.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Activity {
    /// For each limited network, by name, the names of its nodes.
    pub limited: BTreeMap<String, BTreeSet<String>>,
}

impl Activity {
    /// Whether the network is rendered on the node.
    pub fn is_active(&self, network: &str, node: &str) -> bool {
        self.limited
            .get(network)
            .is_none_or(|nodes| nodes.contains(node))
    }
}

/// The tunnel keys that connect routers have.
///
/// The key of a router stays for the life of the object, whatever becomes of the annotation: other zones route to
/// it. An object with another UID is another object, even under the same name.
#[derive(Debug, Default)]
pub(super) struct RouterKeys(BTreeMap<String, (Option<String>, DatapathKey)>);

impl RouterKeys {
    /// Remembers the keys of new connects and forgets those of connects that are gone.
    pub(super) fn update(&mut self, connects: &OrdMap<String, Arc<ConnectInput>>) {
        self.0.retain(|name, (uid, _)| {
            connects
                .get(name)
                .is_some_and(|connect| connect.uid == *uid)
        });
        for (name, input) in connects {
            if let Ok(Connect {
                tunnel_key: Some(key),
                ..
            }) = &input.connect
            {
                self.0
                    .entry(name.clone())
                    .or_insert_with(|| (input.uid.clone(), *key));
            }
        }
    }

    /// The key of a connect's router, if it has got one.
    pub(super) fn get(&self, connect: &str) -> Option<DatapathKey> {
        self.0.get(connect).map(|(_, key)| *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_active_everywhere_unless_limited() {
        let activity = Activity {
            limited: [("red".to_owned(), ["n1".to_owned()].into())].into(),
        };
        assert!(activity.is_active("red", "n1"));
        assert!(!activity.is_active("red", "n2"));
        assert!(activity.is_active("blue", "n2"));
    }

    #[test]
    fn a_router_keeps_its_key_for_the_life_of_its_connect() {
        let input = |uid: &str, key: i64| {
            let connect = Connect {
                tunnel_key: DatapathKey::try_new(key).ok(),
                ..Connect::default()
            };
            let input = ConnectInput {
                uid: Some(uid.to_owned()),
                connect: Ok(connect),
            };
            OrdMap::unit("a".to_owned(), Arc::new(input))
        };
        let mut keys = RouterKeys::default();
        let mut after = |connects| {
            keys.update(&connects);
            keys.get("a").map(DatapathKey::get)
        };
        assert_eq!(after(input("1", 0)), None);
        assert_eq!(after(input("1", 7)), Some(7));
        assert_eq!(after(input("1", 8)), Some(7));
        assert_eq!(after(input("2", 9)), Some(9));
        assert_eq!(after(OrdMap::new()), None);
        assert_eq!(after(input("2", 10)), Some(10));
    }
}
