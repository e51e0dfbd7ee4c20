//! Nodes that firewalls choose.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use patchbay_model::{FirewallDestination, Selector};

use super::ZonePolicies;

/// A node, as firewalls depend on it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PolicyNode {
    labels: BTreeMap<String, String>,
    addresses: Vec<IpAddr>,
}

impl ZonePolicies {
    /// Adds a node, or replaces the one of its name. Firewalls choose nodes by labels, and mean
    /// their addresses. `None`: these cannot be read.
    pub fn put_node(
        &mut self,
        name: &str,
        labels: &BTreeMap<String, String>,
        addresses: Option<Vec<IpAddr>>,
    ) {
        self.remove_node(name);
        let labels = labels.clone();
        match addresses {
            Some(addresses) => {
                let node = PolicyNode { labels, addresses };
                self.nodes.insert(name.into(), Arc::new(node));
            }
            None => {
                self.unread_nodes.insert(name.into(), Arc::new(labels));
            }
        }
    }

    /// Removes a node.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
        self.unread_nodes.remove(name);
    }

    /// A node that is a destination, and whose addresses cannot be read.
    pub(crate) fn unread_node(&self, destination: &FirewallDestination) -> Option<&Arc<str>> {
        let FirewallDestination::Nodes(selector) = destination else {
            return None;
        };
        let mut nodes = self.unread_nodes.iter();
        let (name, _) = nodes.find(|(_, labels)| selector.matches(labels))?;
        Some(name)
    }

    /// Addresses of the nodes with labels.
    pub(crate) fn node_addresses(&self, selector: &Selector) -> impl Iterator<Item = IpAddr> {
        let nodes = self.nodes.values();
        let nodes = nodes.filter(|node| selector.matches(&node.labels));
        nodes.flat_map(|node| node.addresses.iter().copied())
    }
}
