//! Nodes that firewalls choose.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use patchbay_model::{FirewallDestination, Selector};

use super::ZonePolicies;

impl ZonePolicies {
    /// Adds a node, or replaces the one of its name. Firewalls choose nodes by labels, and mean
    /// their addresses. `None`: these cannot be read.
    pub fn put_node(
        &mut self,
        name: &str,
        labels: &BTreeMap<String, String>,
        addresses: Option<Vec<IpAddr>>,
    ) {
        self.nodes.put(name, labels, addresses);
    }

    /// Removes a node.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// A node that is a destination, and whose addresses cannot be read.
    pub(crate) fn unread_node(&self, destination: &FirewallDestination) -> Option<&Arc<str>> {
        match destination {
            FirewallDestination::Nodes(selector) => self.nodes.unread([selector]),
            FirewallDestination::Cidr { .. } | FirewallDestination::Name(_) => None,
        }
    }

    /// Addresses of the nodes with labels.
    pub(crate) fn node_addresses(&self, selector: &Selector) -> impl Iterator<Item = IpAddr> {
        self.nodes.addresses(selector)
    }
}
