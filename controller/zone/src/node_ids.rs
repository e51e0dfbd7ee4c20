//! Assignment of node ids to nodes.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use jiff::Timestamp;
use patchbay_model::{Node, NodeId};

/// Owners of all node ids.
///
/// Of several nodes with one id, the oldest owns it, so that a new node cannot take it over.
/// Equally old nodes are ordered by name. Clones share what is equal.
#[derive(Clone, Debug, Default)]
pub struct NodeIds {
    owners: OrdMap<NodeId, Arc<Node>>,
    without: WithoutId,
}

/// Reason why a node owns no id.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum MissingId {
    /// The node has none yet.
    Absent,
    /// The id cannot be read.
    Unreadable,
    /// The node has no annotation of OVN.
    Unmanaged,
    /// The node of this name owns the id.
    Shared(String),
}

/// Nodes that own no id.
#[derive(Clone, Debug, Default, PartialEq)]
struct WithoutId {
    /// Nodes whose id another node owns.
    others: OrdMap<NodeId, OrdMap<Rank, Arc<Node>>>,
    without: OrdSet<String>,
    /// Names of nodes whose id annotation cannot be read.
    unreadable: OrdSet<String>,
    /// Names of nodes without any annotation of OVN.
    unmanaged: OrdSet<String>,
}

/// Creation time and name; the node with the lowest rank owns the id.
type Rank = (Option<Timestamp>, String);

fn rank(node: &Node) -> Rank {
    (node.created, node.name.clone())
}

impl NodeIds {
    /// Adds a node.
    pub(crate) fn add(&mut self, node: &Arc<Node>) {
        let Some(id) = node.id else {
            self.without.without.insert(node.name.clone());
            if node.has_unknown_id() {
                self.without.unreadable.insert(node.name.clone());
            }
            if node.is_unmanaged {
                self.without.unmanaged.insert(node.name.clone());
            }
            return;
        };
        let Some(owner) = self.owners.get_mut(&id) else {
            self.owners.insert(id, node.clone());
            return;
        };
        let mut other = node.clone();
        if rank(&other) < rank(owner) {
            std::mem::swap(owner, &mut other);
        }
        let others = self.without.others.entry(id).or_default();
        others.insert(rank(&other), other);
    }

    /// Removes a node. `node` must be the version that was added.
    pub(crate) fn remove(&mut self, node: &Node) {
        let Some(id) = node.id else {
            self.without.without.remove(&node.name);
            self.without.unreadable.remove(&node.name);
            self.without.unmanaged.remove(&node.name);
            return;
        };
        if let Some(others) = self.without.others.get_mut(&id) {
            if others.remove(&rank(node)).is_none()
                && let Some((rank, next)) = others.get_min().cloned()
            {
                others.remove(&rank);
                self.owners.insert(id, next);
            }
            if others.is_empty() {
                self.without.others.remove(&id);
            }
        } else {
            self.owners.remove(&id);
        }
    }

    /// Owner of an id.
    pub fn owner(&self, id: NodeId) -> Option<&Node> {
        self.owners.get(&id).map(AsRef::as_ref)
    }

    /// Owners of all ids, for comparison with an earlier version.
    pub(crate) fn owners(&self) -> &OrdMap<NodeId, Arc<Node>> {
        &self.owners
    }

    /// `true` if the nodes that own no id are those of another version, with the same reasons.
    pub(crate) fn is_without_id_as(&self, other: &Self) -> bool {
        let owners = |ids: &Self| -> Vec<Option<String>> {
            let contested = ids.without.others.keys();
            let owner = |id: &NodeId| ids.owner(*id).map(|node| node.name.clone());
            contested.map(owner).collect()
        };
        self.without == other.without && owners(self) == owners(other)
    }

    /// Id that a node owns.
    pub fn id_of(&self, node: &Node) -> Option<NodeId> {
        let has = |id: &NodeId| self.owner(*id).is_some_and(|owner| owner.name == node.name);
        node.id.filter(has)
    }

    /// All ids in use.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> {
        self.owners.keys().copied()
    }

    /// `true` if the id of some node cannot be read. Any id without an owner may be that node's id.
    pub fn has_unreadable(&self) -> bool {
        !self.without.unreadable.is_empty()
    }

    /// Names of nodes that own no id, with the reasons.
    pub fn without_id(&self) -> impl Iterator<Item = (&str, MissingId)> {
        let without = self.without.without.iter().map(|node| {
            let reason = if self.without.unreadable.contains(node) {
                MissingId::Unreadable
            } else if self.without.unmanaged.contains(node) {
                MissingId::Unmanaged
            } else {
                MissingId::Absent
            };
            (&**node, reason)
        });
        let others = self.without.others.iter().flat_map(|(id, nodes)| {
            let owner = self.owner(*id).map_or("", |owner| &owner.name);
            let reason = move || MissingId::Shared(owner.to_owned());
            nodes.keys().map(move |(_, node)| (&**node, reason()))
        });
        without.chain(others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, id: Option<i64>) -> Arc<Node> {
        Arc::new(Node {
            name: name.to_owned(),
            id: id.map(|id| NodeId::try_new(id).unwrap()),
            ..Node::default()
        })
    }

    #[test]
    fn a_new_node_does_not_take_over_an_id() {
        let created = |name, seconds| {
            let mut node = Node::clone(&node(name, Some(2)));
            node.created = Some(Timestamp::from_second(seconds).unwrap());
            Arc::new(node)
        };
        let (old, new) = (created("z", 1), created("a", 2));
        for nodes in [[&old, &new], [&new, &old]] {
            let mut ids = NodeIds::default();
            for node in nodes {
                ids.add(node);
            }
            assert_eq!(ids.id_of(&old), old.id);
            assert_eq!(ids.id_of(&new), None);
        }
    }

    #[test]
    fn of_equally_old_nodes_the_first_by_name_owns_the_id() {
        let nodes = [node("c", Some(2)), node("a", Some(2)), node("b", Some(2)), node("d", None)];
        let id = NodeId::try_new(2).unwrap();
        let mut ids = NodeIds::default();
        for node in &nodes {
            ids.add(node);
        }
        assert_eq!(ids.owner(id), Some(&*nodes[1]));
        assert_eq!(ids.id_of(&nodes[1]), Some(id));
        assert_eq!(ids.id_of(&nodes[2]), None);
        let without: Vec<_> = ids.without_id().map(|(node, _)| node).collect();
        assert_eq!(without, ["d", "b", "c"]);
        ids.remove(&nodes[1]);
        assert_eq!(ids.owner(id), Some(&*nodes[2]));
        ids.remove(&nodes[0]);
        ids.remove(&nodes[2]);
        ids.remove(&nodes[3]);
        assert_eq!(ids.owner(id), None);
        assert_eq!(ids.without_id().count(), 0);
    }
}
