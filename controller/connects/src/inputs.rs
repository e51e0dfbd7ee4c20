//! Inputs of a zone's rows other than the Northbound database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use ipnet::IpNet;

use patchbay_model::{
    ClusterIpService, Connect, ConnectInput, DatapathKey, IpFamily, Networks, Node,
};

/// Cluster state that a zone needs.
///
/// Clones share their data. A later version shares unchanged data with an earlier one, so that
/// differences are found quickly.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Name of the zone, which is the name of its node.
    pub zone: String,
    /// IP families of the cluster.
    pub families: Vec<IpFamily>,
    /// Service ranges, in configured order.
    pub service_cidrs: Vec<IpNet>,
    /// All nodes, by name.
    pub nodes: OrdMap<String, Arc<Node>>,
    /// All networks.
    pub networks: Arc<Networks>,
    /// Nodes on which each network is active.
    pub activity: Arc<Activity>,
    /// Services with cluster IPs.
    pub services: Arc<[ClusterIpService]>,
    /// All connects, by name.
    pub connects: OrdMap<String, Arc<ConnectInput>>,
}

impl Inputs {
    /// Inserts a node, or replaces the node of the same name.
    pub fn put_node(&mut self, node: Node) {
        self.nodes.insert(node.name.clone(), Arc::new(node));
    }

    /// Inserts a connect, or replaces the connect of the same name.
    pub fn put_connect(&mut self, name: impl Into<String>, connect: ConnectInput) {
        self.connects.insert(name.into(), Arc::new(connect));
    }
}

/// Nodes on which each network is active: all nodes, except for limited networks.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Activity {
    /// Node names by name of the limited network.
    pub limited: BTreeMap<String, BTreeSet<String>>,
}

impl Activity {
    /// True if the network is active on the node.
    pub fn is_active(&self, network: &str, node: &str) -> bool {
        self.limited
            .get(network)
            .is_none_or(|nodes| nodes.contains(node))
    }
}

/// Tunnel keys of connect routers.
///
/// A router keeps its key for the life of the CNC, even if the annotation changes, because other
/// zones route to it. A CNC with another UID is another object, even under the same name.
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

    /// Tunnel key of a connect's router. `None`: not allocated yet.
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
