//! Nodes that rules choose by labels.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use imbl::OrdMap;
use patchbay_model::Selector;
use patchbay_rows::changed_keys;

type Labels = BTreeMap<String, String>;

/// Nodes by name, with their labels and the addresses of their hosts.
///
/// Clones share what is equal, so that the difference of two versions is found at the cost of the
/// difference.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelledNodes {
    nodes: OrdMap<Arc<str>, Arc<LabelledNode>>,
    /// Labels of nodes whose addresses cannot be read.
    unread: OrdMap<Arc<str>, Arc<Labels>>,
}

#[derive(Clone, Debug, PartialEq)]
struct LabelledNode {
    labels: Labels,
    addresses: Vec<IpAddr>,
}

impl LabelledNodes {
    /// Adds a node, or replaces the one of its name. `addresses`: those of its host. `None`: they
    /// cannot be read.
    pub(crate) fn put(&mut self, name: &str, labels: &Labels, addresses: Option<Vec<IpAddr>>) {
        self.remove(name);
        let labels = labels.clone();
        match addresses {
            Some(addresses) => {
                let node = LabelledNode { labels, addresses };
                self.nodes.insert(name.into(), Arc::new(node));
            }
            None => {
                self.unread.insert(name.into(), Arc::new(labels));
            }
        }
    }

    /// Removes a node.
    pub(crate) fn remove(&mut self, name: &str) {
        self.nodes.remove(name);
        self.unread.remove(name);
    }

    /// Addresses of the hosts of the selected nodes.
    pub(crate) fn addresses(&self, selector: &Selector) -> impl Iterator<Item = IpAddr> {
        let nodes = self.nodes.values();
        let nodes = nodes.filter(|node| selector.matches(&node.labels));
        nodes.flat_map(|node| node.addresses.iter().copied())
    }

    /// The first selected node whose addresses cannot be read.
    pub(crate) fn unread<'a>(
        &self,
        selectors: impl IntoIterator<Item = &'a Selector, IntoIter: Clone>,
    ) -> Option<&Arc<str>> {
        let selectors = selectors.into_iter();
        let mut nodes = self.unread.iter();
        let is_selected = |labels| selectors.clone().any(|one| one.matches(labels));
        let (name, _) = nodes.find(|(_, labels)| is_selected(labels))?;
        Some(name)
    }

    /// `true` if a node of the other version differs, or is missing in one of the two.
    pub(crate) fn differs_from(&self, earlier: &Self) -> bool {
        changed_keys(&earlier.nodes, &self.nodes).next().is_some() || self.has_other_unread(earlier)
    }

    /// `true` if other nodes have addresses that cannot be read, or such a node has other labels.
    pub(crate) fn has_other_unread(&self, earlier: &Self) -> bool {
        let mut unread = changed_keys(&earlier.unread, &self.unread);
        unread.next().is_some()
    }
}
