//! Owners of the node subnets of layer3 networks.
//!
//! A node's subnet annotation is written by the cluster manager, but whoever may patch the node can
//! write it, too. A subnet outside of its network would route the traffic of others, and two nodes
//! with one subnet would share it as equal routes.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use ipnet::IpNet;
use jiff::Timestamp;
use smallvec::SmallVec;
use thiserror::Error;

use super::ids::Topology;
use super::network::{Network, PodSubnet};
use super::node::{NODE_SUBNETS, Node, NodeError, NodeErrorReason};

/// Reason why a node does not get a subnet that its annotation names.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum SubnetRefusal {
    /// The subnet is outside of the network's subnets.
    #[error("subnet {subnet} is outside of the network's subnets")]
    Outside {
        /// The subnet.
        subnet: IpNet,
    },
    /// The subnet covers the node subnets of several nodes.
    #[error("subnet {subnet} is wider than node subnets of the network, which are /{host_prefix}")]
    Wide {
        /// The subnet.
        subnet: IpNet,
        /// Prefix length of the network's node subnets.
        host_prefix: u8,
    },
    /// The subnet is in the node subnet of an older node.
    #[error("subnet {subnet} is that of node {owner}")]
    Taken {
        /// The subnet.
        subnet: IpNet,
        /// Name of the node that owns it.
        owner: Arc<str>,
    },
}

impl SubnetRefusal {
    /// `true` if no route to this prefix may lead to the node, not even an existing one.
    pub fn forbids(&self, prefix: IpNet) -> bool {
        match self {
            Self::Outside { subnet } | Self::Wide { subnet, .. } => *subnet == prefix,
            Self::Taken { subnet, .. } => subnet.contains(&prefix) || prefix.contains(subnet),
        }
    }
}

/// Owners of the node subnets of layer3 networks.
///
/// Of several nodes with one node subnet, the oldest owns it, so that a new node cannot take it
/// over. Equally old nodes are ordered by name. Adding or removing a node costs as much as it has
/// subnets. Clones share what is equal.
///
/// ```
/// use patchbay_model::{Network, Node, NodeSubnetOwners};
///
/// let mut owners = NodeSubnetOwners::new(std::iter::empty::<&Network>());
/// let mut node = Node::default();
/// owners.add(&node);
/// assert!(owners.refuse(&mut node).is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct NodeSubnetOwners {
    networks: OrdMap<Arc<str>, NetworkOwners>,
    /// Node subnets whose owner has changed, by network.
    changed: BTreeSet<(Arc<str>, IpNet)>,
}

/// Owners in one network.
#[derive(Clone, Debug)]
struct NetworkOwners {
    ranges: Arc<[PodSubnet]>,
    owners: OrdMap<IpNet, Arc<NodeRank>>,
    /// Nodes whose node subnet another node owns.
    others: OrdMap<IpNet, OrdSet<Arc<NodeRank>>>,
}

/// Creation time and name of a node; the node with the lowest rank owns a subnet.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct NodeRank(Option<Timestamp>, Arc<str>);

impl NodeRank {
    fn of(node: &Node) -> Arc<Self> {
        Arc::new(Self(node.created, node.name.as_str().into()))
    }
}

impl NodeSubnetOwners {
    /// Creates the index of these networks without nodes. Layer2 networks have no node subnets.
    pub fn new<'a>(networks: impl IntoIterator<Item = &'a Network>) -> Self {
        let layer3 = networks.into_iter().filter(|network| network.topology == Topology::Layer3);
        let networks = layer3.map(|network| {
            let owners = NetworkOwners {
                ranges: network.pod_subnets.as_slice().into(),
                owners: OrdMap::new(),
                others: OrdMap::new(),
            };
            (Arc::from(network.name.as_str()), owners)
        });
        Self { networks: networks.collect(), changed: BTreeSet::new() }
    }

    /// Creates the index of these networks with nodes.
    pub fn of_nodes<'a>(
        networks: impl IntoIterator<Item = &'a Network>,
        nodes: impl IntoIterator<Item = &'a Node>,
    ) -> Self {
        let mut owners = Self::new(networks);
        for node in nodes {
            owners.add(node);
        }
        owners
    }

    /// `true` if the index is about these networks with these ranges.
    pub fn is_of<'a>(&self, networks: impl IntoIterator<Item = &'a Network>) -> bool {
        let mut layer3 =
            networks.into_iter().filter(|network| network.topology == Topology::Layer3);
        let mut count = 0;
        let are_known = layer3.all(|network| {
            count += 1;
            let known = self.networks.get(network.name.as_str());
            known.is_some_and(|known| *known.ranges == *network.pod_subnets)
        });
        are_known && count == self.networks.len()
    }

    /// Adds a node with all subnets of its annotation.
    pub fn add(&mut self, node: &Node) {
        self.change(node, NetworkOwners::add);
    }

    /// Removes a node. `node` must be the version that was added.
    pub fn remove(&mut self, node: &Node) {
        self.change(node, NetworkOwners::remove);
    }

    /// Calls `change` for the node subnets of a node. It returns `true` if the owner has changed.
    fn change(
        &mut self,
        node: &Node,
        change: fn(&mut NetworkOwners, IpNet, &Arc<NodeRank>) -> bool,
    ) {
        let rank = NodeRank::of(node);
        for (network, subnets) in &node.subnets {
            let Some(owners) = self.networks.get_mut(network.as_str()) else {
                continue;
            };
            for place in owners.places(subnets) {
                if change(owners, place, &rank) {
                    self.changed.insert((network.as_str().into(), place));
                }
            }
        }
    }

    /// Returns the names of nodes whose refusals may have changed because other nodes were added or
    /// removed since the last call.
    pub fn take_affected(&mut self) -> BTreeSet<Arc<str>> {
        let mut affected = BTreeSet::new();
        for (network, subnet) in std::mem::take(&mut self.changed) {
            if let Some(network) = self.networks.get(&network) {
                let owner = network.owners.get(&subnet);
                let others = network.others.get(&subnet);
                let nodes = owner.into_iter().chain(others.into_iter().flatten());
                affected.extend(nodes.map(|rank| rank.1.clone()));
            }
        }
        affected
    }

    /// Finds the subnets that the node does not get, and returns the errors. If one subnet of a
    /// network is refused, the node has none of that network, because the entry is wrong as a
    /// whole.
    pub fn refuse(&self, node: &mut Node) -> Vec<NodeError> {
        let rank = NodeRank::of(node);
        let refused = node.subnets.iter().filter_map(|(name, subnets)| {
            let network = self.networks.get(name.as_str())?;
            let refusals: Vec<SubnetRefusal> =
                subnets.iter().filter_map(|subnet| network.refusal(*subnet, &rank)).collect();
            (!refusals.is_empty()).then(|| (name.clone(), refusals))
        });
        node.refused = refused.collect();
        let of_networks = node.refused.iter();
        let errors = of_networks.flat_map(|(network, refusals)| {
            refusals.iter().map(|refusal| NodeError {
                node: node.name.clone(),
                annotation: NODE_SUBNETS,
                reason: NodeErrorReason::Refused {
                    network: network.clone(),
                    refusal: refusal.clone(),
                },
            })
        });
        errors.collect()
    }
}

impl NetworkOwners {
    /// The node subnets that contain a node's subnets, each once.
    fn places(&self, subnets: &[IpNet]) -> SmallVec<[IpNet; 2]> {
        let subnets = subnets.iter();
        let mut places: SmallVec<_> =
            subnets.filter_map(|subnet| self.place(*subnet).ok()).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// The node subnet that contains a subnet.
    fn place(&self, subnet: IpNet) -> Result<IpNet, SubnetRefusal> {
        let range = self
            .ranges
            .iter()
            .find(|range| range.cidr.contains(&subnet))
            .ok_or(SubnetRefusal::Outside { subnet })?;
        let host_prefix = range.host_prefix.unwrap_or(subnet.prefix_len());
        let wide = SubnetRefusal::Wide { subnet, host_prefix };
        if subnet.prefix_len() < host_prefix {
            return Err(wide);
        }
        let place = IpNet::new(subnet.addr(), host_prefix).map_err(|_| wide)?;
        Ok(place.trunc())
    }

    fn refusal(&self, subnet: IpNet, rank: &Arc<NodeRank>) -> Option<SubnetRefusal> {
        match self.place(subnet) {
            Err(refusal) => Some(refusal),
            Ok(place) => {
                let owner = self.owners.get(&place).filter(|owner| *owner != rank)?;
                Some(SubnetRefusal::Taken { subnet, owner: owner.1.clone() })
            }
        }
    }

    /// Adds a node. Returns `true` if another node has lost the node subnet.
    fn add(&mut self, place: IpNet, rank: &Arc<NodeRank>) -> bool {
        let Some(owner) = self.owners.get_mut(&place) else {
            self.owners.insert(place, rank.clone());
            return false;
        };
        let mut other = rank.clone();
        let is_owner = other < *owner;
        if is_owner {
            std::mem::swap(owner, &mut other);
        }
        self.others.entry(place).or_default().insert(other);
        is_owner
    }

    /// Removes a node. Returns `true` if another node has got the node subnet.
    fn remove(&mut self, place: IpNet, rank: &Arc<NodeRank>) -> bool {
        let Some(others) = self.others.get_mut(&place) else {
            self.owners.remove(&place);
            return false;
        };
        let was_owner = others.remove(rank).is_none();
        if was_owner && let Some(next) = others.remove_min() {
            self.owners.insert(place, next);
        }
        if others.is_empty() {
            self.others.remove(&place);
        }
        was_owner
    }
}

#[cfg(test)]
mod tests {
    use super::super::ids::NetworkId;
    use super::super::network::{Role, Transport};
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn network(name: &str, ranges: &[(&str, u8)]) -> Network {
        Network {
            name: name.to_owned(),
            id: NetworkId::try_new(1).unwrap(),
            topology: Topology::Layer3,
            role: Role::Primary,
            transport: Transport::Overlay,
            pod_subnets: ranges
                .iter()
                .map(|(cidr, host_prefix)| PodSubnet {
                    cidr: net(cidr),
                    host_prefix: Some(*host_prefix),
                })
                .collect(),
            join_subnets: Vec::new(),
            transit_subnets: Vec::new(),
            namespaces: BTreeSet::new(),
            nads: BTreeSet::new(),
        }
    }

    fn node(name: &str, created: i64, subnets: &[&str]) -> Node {
        Node {
            name: name.to_owned(),
            created: Some(Timestamp::from_second(created).unwrap()),
            subnets: [("red".to_owned(), subnets.iter().map(|text| net(text)).collect())].into(),
            ..Node::default()
        }
    }

    fn red() -> NodeSubnetOwners {
        NodeSubnetOwners::new(&[network("red", &[("10.1.0.0/16", 24), ("fd01::/48", 64)])])
    }

    fn refusals(owners: &NodeSubnetOwners, node: &Node) -> Vec<String> {
        let errors = owners.refuse(&mut node.clone());
        errors.iter().map(|error| error.reason.to_string()).collect()
    }

    #[test]
    fn subnets_of_the_network_are_accepted() {
        let mut owners = red();
        let nodes = [
            node("n1", 1, &["10.1.0.0/24", "fd01::/64"]),
            node("n2", 2, &["10.1.255.0/24", "fd01:0:0:ffff::/64"]),
            node("n3", 3, &["10.1.7.0/25"]),
        ];
        for node in &nodes {
            owners.add(node);
        }
        for node in &nodes {
            let mut checked = node.clone();
            assert!(owners.refuse(&mut checked).is_empty());
            assert_eq!(checked, *node);
        }
    }

    #[test]
    fn the_only_node_of_a_small_network_may_have_its_whole_range() {
        let small = NodeSubnetOwners::new(&[network("red", &[("10.1.0.0/24", 24)])]);
        assert!(refusals(&small, &node("n1", 1, &["10.1.0.0/24"])).is_empty());
    }

    #[test]
    fn subnets_outside_of_the_network_or_over_it_are_refused() {
        let owners = red();
        for (subnet, message) in [
            ("10.2.0.0/24", "network red: subnet 10.2.0.0/24 is outside of the network's subnets"),
            ("0.0.0.0/0", "network red: subnet 0.0.0.0/0 is outside of the network's subnets"),
            ("fd02::/64", "network red: subnet fd02::/64 is outside of the network's subnets"),
            (
                "10.1.0.0/16",
                "network red: subnet 10.1.0.0/16 is wider than node subnets of the network, which are /24",
            ),
            (
                "10.1.4.0/23",
                "network red: subnet 10.1.4.0/23 is wider than node subnets of the network, which are /24",
            ),
        ] {
            let mut node = node("n1", 1, &["10.1.1.0/24", subnet]);
            let errors = owners.refuse(&mut node);
            assert_eq!(errors.len(), 1, "{subnet}");
            assert_eq!(errors[0].reason.to_string(), message);
            assert_eq!(errors[0].network(), Some("red"));
            assert!(node.subnets_of("red").is_empty() && node.has_unknown_subnets_of("red"));
            assert_eq!(node.refused["red"].len(), 1);
        }
    }

    #[test]
    fn the_oldest_node_owns_a_subnet_in_any_order() {
        let old = node("z", 1, &["10.1.1.0/24"]);
        let new = node("a", 2, &["10.1.1.128/25"]);
        let taken = "network red: subnet 10.1.1.128/25 is that of node z";
        for nodes in [[&old, &new], [&new, &old]] {
            let mut owners = red();
            for node in nodes {
                owners.add(node);
            }
            assert!(refusals(&owners, &old).is_empty());
            assert_eq!(refusals(&owners, &new), [taken]);
            owners.take_affected();
            owners.remove(&old);
            assert_eq!(owners.take_affected(), ["a".into()].into());
            assert!(refusals(&owners, &new).is_empty());
            owners.remove(&new);
            assert!(owners.networks["red"].owners.is_empty());
        }
    }

    #[test]
    fn a_new_owner_affects_the_former_one() {
        let mut owners = red();
        owners.add(&node("b", 2, &["10.1.1.0/24"]));
        owners.add(&node("c", 3, &["10.1.1.0/24"]));
        assert!(owners.take_affected().is_empty());
        owners.add(&node("a", 1, &["10.1.1.0/24"]));
        let affected = owners.take_affected();
        assert!(affected.is_superset(&["b".into(), "c".into()].into()));
    }

    #[test]
    fn routes_of_another_node_are_forbidden_and_own_ones_are_not() {
        let taken = SubnetRefusal::Taken { subnet: net("10.1.1.0/24"), owner: "n1".into() };
        assert!(taken.forbids(net("10.1.1.0/24")) && taken.forbids(net("10.1.0.0/16")));
        assert!(!taken.forbids(net("10.1.2.0/24")));
        let outside = SubnetRefusal::Outside { subnet: net("0.0.0.0/0") };
        assert!(outside.forbids(net("0.0.0.0/0")) && !outside.forbids(net("10.1.2.0/24")));
    }

    #[test]
    fn changed_ranges_are_noticed() {
        let owners = red();
        let same = network("red", &[("10.1.0.0/16", 24), ("fd01::/48", 64)]);
        assert!(owners.is_of([&same]));
        assert!(!owners.is_of([&network("red", &[("10.1.0.0/16", 23)])]));
        assert!(!owners.is_of([&same, &network("blue", &[])]));
        assert!(!owners.is_of([]));
    }
}
