//! Nodes of the cluster: ids, chassis ids, subnets and transit addresses in their annotations.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ipnet::IpNet;
use jiff::Timestamp;
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use thiserror::Error;

use super::ids::{IdError, NodeId};
use super::node_subnet_owners::SubnetRefusal;

/// Annotation: id of the node.
pub const NODE_ID: &str = "k8s.ovn.org/node-id";
/// Annotation: subnets of the node in every layer3 network, a JSON object by network name.
pub const NODE_SUBNETS: &str = "k8s.ovn.org/node-subnets";
/// Annotation: id of the node's OVN chassis.
pub const NODE_CHASSIS_ID: &str = "k8s.ovn.org/node-chassis-id";

/// Annotation: addresses of the node on transit switches, `{"ipv4": .., "ipv6": ..}`.
pub const NODE_TRANSIT_ADDRESSES: &str = "k8s.ovn.org/node-transit-switch-port-ifaddr";

/// Reads the addresses of a node on transit switches, IPv4 first, with the prefix length of the
/// range. Without the annotation the result is empty.
///
/// # Errors
/// The annotation is not a JSON object of addresses.
pub fn transit_addresses(
    annotations: Option<&BTreeMap<String, String>>,
) -> Result<Vec<IpNet>, serde_json::Error> {
    let text = annotations
        .and_then(|annotations| annotations.get(NODE_TRANSIT_ADDRESSES))
        .map_or("", String::as_str);
    if text.is_empty() {
        return Ok(Vec::new());
    }
    // The keys are `ipv4` and `ipv6`.
    let addresses: BTreeMap<String, IpNet> = serde_json::from_str(text)?;
    Ok(addresses.into_values().collect())
}

/// Error of a node annotation.
#[derive(Debug, Error)]
#[error("node {node}: annotation {annotation}: {reason}")]
pub struct NodeError {
    /// Name of the node.
    pub node: String,
    /// Key of the annotation.
    pub annotation: &'static str,
    /// The error.
    #[source]
    pub reason: NodeErrorReason,
}

impl NodeError {
    /// The network whose entry cannot be read. `None`: no entry of the annotation can be read.
    pub fn network(&self) -> Option<&str> {
        match &self.reason {
            NodeErrorReason::Subnets { network, .. } | NodeErrorReason::Refused { network, .. } => {
                Some(network)
            }
            NodeErrorReason::Id(_) | NodeErrorReason::Json(_) => None,
        }
    }
}

/// Error in the value of a node annotation.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NodeErrorReason {
    /// The value is not an id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The value is not a JSON object.
    #[error("not a JSON object with a list of subnets for each network: {0}")]
    Json(#[from] serde_json::Error),
    /// An entry of the object is not a list of subnets. Other entries are used.
    #[error("network {network}: not a list of subnets: {value}")]
    Subnets {
        /// Name of the network.
        network: String,
        /// The entry, as JSON.
        value: String,
    },
    /// A subnet is not one that the node can have in the network.
    #[error("network {network}: {refusal}")]
    Refused {
        /// Name of the network.
        network: String,
        /// Reason.
        refusal: SubnetRefusal,
    },
}

/// Node of the cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Node {
    /// Name of the node, and of its zone.
    pub name: String,
    /// Creation time. `None`: the node comes from a manifest.
    pub created: Option<Timestamp>,
    /// Id. `None`: the cluster manager has not allocated it yet, or it cannot be read.
    pub id: Option<NodeId>,
    /// Id of the node's OVN chassis. `None`: not known yet.
    pub chassis_id: Option<String>,
    /// Subnets of the annotation in layer3 networks, by network name.
    pub subnets: BTreeMap<String, Vec<IpNet>>,
    /// Annotations that cannot be read.
    pub unreadable: UnreadableAnnotations,
    /// Refused subnets by network name. The node has no subnets of these networks, as if they could
    /// not be read.
    pub refused: BTreeMap<String, Vec<SubnetRefusal>>,
    /// `true` if the node has neither an id nor a chassis id nor subnets, so that nothing shows
    /// that OVN runs there. Nodes with Windows or a virtual kubelet stay so; a joining node is so
    /// for a while.
    pub is_unmanaged: bool,
}

/// Annotations of a node that cannot be read.
///
/// An unreadable value is unknown, not absent. Rows that follow from its earlier value are
/// retained.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UnreadableAnnotations {
    /// `true` if the id cannot be read.
    pub id: bool,
    /// Networks whose node subnets cannot be read.
    pub subnets: UnreadableSubnets,
}

/// Networks in which a node may have subnets that cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum UnreadableSubnets {
    /// The listed networks.
    Networks(BTreeSet<String>),
    /// All networks.
    All,
}

impl UnreadableSubnets {
    /// `true` if the network is one of them.
    pub fn contains(&self, network: &str) -> bool {
        match self {
            Self::Networks(networks) => networks.contains(network),
            Self::All => true,
        }
    }

    /// Adds a network.
    fn insert(&mut self, network: &str) {
        match self {
            Self::Networks(networks) => {
                networks.insert(network.to_owned());
            }
            Self::All => {}
        }
    }
}

impl Default for UnreadableSubnets {
    fn default() -> Self {
        Self::Networks(BTreeSet::new())
    }
}

/// Entry of the subnet annotation: a list, or a single subnet as earlier versions of OVN-Kubernetes
/// wrote it. Host bits are cleared.
struct SubnetEntry(Vec<IpNet>);

impl<'de> Deserialize<'de> for SubnetEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SubnetEntryVisitor)
    }
}

struct SubnetEntryVisitor;

impl<'de> Visitor<'de> for SubnetEntryVisitor {
    type Value = SubnetEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of subnets or a subnet")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<SubnetEntry, E> {
        let subnet: IpNet = text.parse().map_err(E::custom)?;
        Ok(SubnetEntry(vec![subnet.trunc()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<SubnetEntry, A::Error> {
        let mut subnets = Vec::new();
        while let Some(subnet) = list.next_element::<IpNet>()? {
            subnets.push(subnet.trunc());
        }
        Ok(SubnetEntry(subnets))
    }
}

impl Node {
    /// Reads a Kubernetes node.
    ///
    /// Annotations that cannot be read are returned as errors; the others are used.
    pub fn read(
        name: &str,
        annotations: Option<&BTreeMap<String, String>>,
        created: Option<Timestamp>,
    ) -> (Self, Vec<NodeError>) {
        let name = name.to_owned();
        let annotation = |key| {
            let value = annotations?.get(key)?;
            (!value.is_empty()).then_some(value)
        };
        let mut errors = Vec::new();
        let mut error = |annotation, reason| {
            errors.push(NodeError { node: name.clone(), annotation, reason });
        };
        let id = annotation(NODE_ID).and_then(|text| {
            text.parse().map_err(|reason: IdError| error(NODE_ID, reason.into())).ok()
        });
        let (subnets, unreadable) =
            annotation(NODE_SUBNETS).map_or_else(Default::default, |text| parse_subnets(text));
        for reason in unreadable {
            error(NODE_SUBNETS, reason);
        }
        let chassis_id = annotation(NODE_CHASSIS_ID).cloned();
        let ovn_annotations = [NODE_ID, NODE_CHASSIS_ID, NODE_SUBNETS];
        let is_unmanaged = ovn_annotations.iter().all(|key| annotation(key).is_none());
        let node = Self {
            name,
            created,
            id,
            chassis_id,
            subnets,
            unreadable: unreadable_annotations(&errors),
            refused: BTreeMap::new(),
            is_unmanaged,
        };
        (node, errors)
    }

    /// Subnets of the node in a network. The result is empty if the node has no subnet in it, or one
    /// that is refused.
    pub fn subnets_of(&self, network: &str) -> &[IpNet] {
        if self.refused.contains_key(network) {
            return &[];
        }
        self.subnets.get(network).map_or(&[], Vec::as_slice)
    }

    /// `true` if the annotation names subnets of a network, even if they cannot be used.
    pub fn names_subnets_of(&self, network: &str) -> bool {
        !self.subnets_of(network).is_empty()
            || self.unreadable.subnets.contains(network)
            || self.refused.contains_key(network)
    }

    /// `true` if a route to a subnet of a network may lead to the node: the annotation names
    /// subnets of the network, or cannot be read, and the subnet is not refused.
    pub fn may_lead_to(&self, network: &str, subnet: IpNet) -> bool {
        let mut refused = self.refused_subnets_of(network).iter();
        self.names_subnets_of(network) && !refused.any(|refusal| refusal.forbids(subnet))
    }

    /// Refused subnets of the node in a network.
    pub fn refused_subnets_of(&self, network: &str) -> &[SubnetRefusal] {
        self.refused.get(network).map_or(&[], Vec::as_slice)
    }

    /// `true` if the node has an id that cannot be read.
    pub fn has_unknown_id(&self) -> bool {
        self.id.is_none() && self.unreadable.id
    }

    /// `true` if the node may have subnets in the network that cannot be read.
    pub fn has_unknown_subnets_of(&self, network: &str) -> bool {
        self.subnets_of(network).is_empty() && self.names_subnets_of(network)
    }
}

fn unreadable_annotations(errors: &[NodeError]) -> UnreadableAnnotations {
    let mut unreadable = UnreadableAnnotations::default();
    for error in errors {
        match &error.reason {
            NodeErrorReason::Id(_) => unreadable.id = true,
            NodeErrorReason::Json(_) => unreadable.subnets = UnreadableSubnets::All,
            NodeErrorReason::Subnets { network, .. } | NodeErrorReason::Refused { network, .. } => {
                unreadable.subnets.insert(network);
            }
        }
    }
    unreadable
}

/// Reads subnets by network, and returns the errors of entries that cannot be read.
fn parse_subnets(text: &str) -> (BTreeMap<String, Vec<IpNet>>, Vec<NodeErrorReason>) {
    if let Ok(entries) = serde_json::from_str::<BTreeMap<String, SubnetEntry>>(text) {
        let subnets =
            entries.into_iter().map(|(network, SubnetEntry(subnets))| (network, subnets)).collect();
        return (subnets, Vec::new());
    }
    let entries: BTreeMap<String, serde_json::Value> = match serde_json::from_str(text) {
        Ok(entries) => entries,
        Err(error) => return (BTreeMap::new(), vec![error.into()]),
    };
    let (mut subnets, mut errors) = (BTreeMap::new(), Vec::new());
    for (network, value) in entries {
        match SubnetEntry::deserialize(&value) {
            Ok(SubnetEntry(of_network)) => {
                subnets.insert(network, of_network);
            }
            Err(_) => errors.push(NodeErrorReason::Subnets { network, value: value.to_string() }),
        }
    }
    (subnets, errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(annotations: &[(&str, &str)]) -> (Node, Vec<String>) {
        let annotations = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let (node, errors) = Node::read("n1", Some(&annotations), None);
        (node, errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn annotations_of_a_node_are_read() {
        let (node, errors) = read(&[
            (NODE_ID, "2"),
            (NODE_CHASSIS_ID, "c1"),
            (NODE_SUBNETS, r#"{"default":"10.244.0.0/24","blue_l3":["10.10.0.0/24","fd10::/64"]}"#),
        ]);
        assert_eq!(errors, Vec::<String>::new());
        assert_eq!(node.id.map(NodeId::get), Some(2));
        assert_eq!(node.chassis_id.as_deref(), Some("c1"));
        assert_eq!(node.subnets_of("blue_l3").len(), 2);
        assert_eq!(node.subnets_of("default").len(), 1);
        assert!(node.subnets_of("other").is_empty());
    }

    #[test]
    fn any_annotation_of_ovn_shows_that_a_node_is_managed() {
        let is_unmanaged = |annotations: &[(&str, &str)]| read(annotations).0.is_unmanaged;
        assert!(is_unmanaged(&[]));
        assert!(is_unmanaged(&[(NODE_ID, ""), (NODE_TRANSIT_ADDRESSES, "{}")]));
        for (key, value) in
            [(NODE_ID, "2"), (NODE_ID, "two"), (NODE_CHASSIS_ID, "c1"), (NODE_SUBNETS, "{}")]
        {
            assert!(!is_unmanaged(&[(key, value)]), "{key}");
        }
    }

    #[test]
    fn a_bad_annotation_is_an_error_and_the_others_are_used() {
        let (node, errors) = read(&[
            (NODE_ID, "5001"),
            (NODE_CHASSIS_ID, "c1"),
            (NODE_SUBNETS, r#"{"a":["10.0.0.0"],"b":["10.2.0.0/24"],"c":7}"#),
        ]);
        assert_eq!(node.id, None);
        assert_eq!(node.chassis_id.as_deref(), Some("c1"));
        assert_eq!(node.subnets.keys().collect::<Vec<_>>(), ["b"]);
        assert_eq!(
            errors,
            [
                "node n1: annotation k8s.ovn.org/node-id: node id 5001 is not in 0..=5000",
                r#"node n1: annotation k8s.ovn.org/node-subnets: network a: not a list of subnets: ["10.0.0.0"]"#,
                "node n1: annotation k8s.ovn.org/node-subnets: network c: not a list of subnets: 7",
            ]
        );
        let (node, errors) = read(&[(NODE_SUBNETS, "10.0.0.0/24")]);
        assert!(node.subnets.is_empty());
        assert!(
            errors[0].starts_with(
                "node n1: annotation k8s.ovn.org/node-subnets: not a JSON object with a list of subnets for each network: "
            ),
            "{errors:?}"
        );
    }
}
