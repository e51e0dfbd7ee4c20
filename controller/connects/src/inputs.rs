//! Inputs of a zone's rows other than the Northbound database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use ipnet::IpNet;

use patchbay_model::{ClusterIpService, ConnectInput, IpFamily, Networks, Node};

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
    /// `true` if the network is active on the node.
    pub fn is_active(&self, network: &str, node: &str) -> bool {
        self.limited
            .get(network)
            .is_none_or(|nodes| nodes.contains(node))
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
}
