//! A node of the cluster, as far as connects care about it.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use jiff::Timestamp;
use serde::Deserialize;
use thiserror::Error;

use super::ids::{IdError, NodeId};

/// Annotation with the node's id.
pub const NODE_ID: &str = "k8s.ovn.org/node-id";
/// Annotation with the node's subnet of every layer3 network.
pub const NODE_SUBNETS: &str = "k8s.ovn.org/node-subnets";
/// Annotation with the id of the node's OVN chassis.
pub const NODE_CHASSIS_ID: &str = "k8s.ovn.org/node-chassis-id";

/// Annotation with the node's addresses on transit switches, `{"ipv4": .., "ipv6": ..}`.
pub const NODE_TRANSIT_ADDRESSES: &str = "k8s.ovn.org/node-transit-switch-port-ifaddr";

/// A node's addresses on transit switches, IPv4 first, with the length of the range; empty without the annotation.
///
/// # Errors
/// The annotation is not a JSON object of addresses.
pub fn transit_addresses(
    annotations: Option<&BTreeMap<String, String>>,
) -> Result<Vec<IpNet>, serde_json::Error> {
    let text = annotations.and_then(|annotations| annotations.get(NODE_TRANSIT_ADDRESSES));
    let text = text.map_or("", String::as_str);
    if text.is_empty() {
        return Ok(Vec::new());
    }
    // The keys are `ipv4` and `ipv6`.
    let addresses: BTreeMap<String, IpNet> = serde_json::from_str(text)?;
    Ok(addresses.into_values().collect())
}

/// A node annotation that cannot be read.
#[derive(Debug, Error)]
#[error("node {node}: annotation {annotation}: {reason}")]
pub struct NodeError {
    /// Name of the node.
    pub node: String,
    /// Key of the annotation.
    pub annotation: &'static str,
    /// What is wrong with it.
    #[source]
    pub reason: NodeErrorReason,
}

impl NodeError {
    /// The network of which an entry cannot be read, if the others can.
    pub fn network(&self) -> Option<&str> {
        match &self.reason {
            NodeErrorReason::Subnets { network, .. } => Some(network),
            NodeErrorReason::Id(_) | NodeErrorReason::Json(_) => None,
        }
    }
}

/// What is wrong with an annotation of a node.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NodeErrorReason {
    /// Not an id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// Not JSON, or not an object.
    #[error("not a JSON object with a list of subnets for each network: {0}")]
    Json(#[from] serde_json::Error),
    /// An entry of the object is not a list of subnets. The others count.
    #[error("network {network}: not a list of subnets: {value}")]
    Subnets {
        /// Name of the network.
        network: String,
        /// What stands there instead, as JSON.
        value: String,
    },
}

/// A node.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Node {
    /// Name of the node, and of its zone.
    pub name: String,
    /// When the node was created, if it was in a cluster.
    pub created: Option<Timestamp>,
    /// Id, once the cluster manager has handed it out.
    pub id: Option<NodeId>,
    /// Id of the node's OVN chassis, once it is known.
    pub chassis_id: Option<String>,
    /// The node's subnets of layer3 networks, by network name.
    pub subnets: BTreeMap<String, Vec<IpNet>>,
    /// What else its annotations say that cannot be read.
    pub unreadable: Unreadable,
}

/// What annotations of a node say that cannot be read. It is not known, which is something else than that it is not there:
/// what was made of it before stays.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Unreadable {
    /// The id.
    pub id: bool,
    /// The subnets.
    pub subnets: UnreadableSubnets,
}

/// The networks of which a node may have subnets that cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum UnreadableSubnets {
    /// These.
    Of(BTreeSet<String>),
    /// All networks.
    All,
}

impl UnreadableSubnets {
    /// Whether the network is among them.
    pub fn contains(&self, network: &str) -> bool {
        match self {
            Self::Of(networks) => networks.contains(network),
            Self::All => true,
        }
    }
}

impl Default for UnreadableSubnets {
    fn default() -> Self {
        Self::Of(BTreeSet::new())
    }
}

/// One entry of the subnet annotation: a list, or a plain string as old writers had it.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    Many(Vec<IpNet>),
    One(IpNet),
}

impl OneOrMany {
    fn into_vec(self) -> Vec<IpNet> {
        let subnets = match self {
            Self::Many(subnets) => subnets,
            Self::One(subnet) => vec![subnet],
        };
        subnets.iter().map(IpNet::trunc).collect()
    }
}

impl Node {
    /// Reads the name, the annotations and the creation time of a Kubernetes node. An annotation that cannot be
    /// read is an error beside the node; the others count.
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
            errors.push(NodeError {
                node: name.clone(),
                annotation,
                reason,
            });
        };
        let id = annotation(NODE_ID).and_then(|text| {
            text.parse()
                .map_err(|reason: IdError| error(NODE_ID, reason.into()))
                .ok()
        });
        let (subnets, unreadable) =
            annotation(NODE_SUBNETS).map_or_else(Default::default, |text| parse_subnets(text));
        for reason in unreadable {
            error(NODE_SUBNETS, reason);
        }
        let chassis_id = annotation(NODE_CHASSIS_ID).cloned();
        let node = Self {
            name,
            created,
            id,
            chassis_id,
            subnets,
            unreadable: what_is_unreadable(&errors),
        };
        (node, errors)
    }

    /// The node's subnets of a network; none if it has not got any.
    pub fn subnets_of(&self, network: &str) -> &[IpNet] {
        self.subnets.get(network).map_or(&[], Vec::as_slice)
    }

    /// Whether the node has an id of which nobody knows what it is.
    pub fn has_unknown_id(&self) -> bool {
        self.id.is_none() && self.unreadable.id
    }

    /// Whether the node may have subnets of a network of which nobody knows what they are.
    pub fn has_unknown_subnets_of(&self, network: &str) -> bool {
        self.subnets_of(network).is_empty() && self.unreadable.subnets.contains(network)
    }
}

fn what_is_unreadable(errors: &[NodeError]) -> Unreadable {
    let mut unreadable = Unreadable::default();
    for error in errors {
        match (&error.reason, &mut unreadable.subnets) {
            (NodeErrorReason::Id(_), _) => unreadable.id = true,
            (NodeErrorReason::Json(_), subnets) => *subnets = UnreadableSubnets::All,
            (NodeErrorReason::Subnets { network, .. }, UnreadableSubnets::Of(networks)) => {
                networks.insert(network.clone());
            }
            (NodeErrorReason::Subnets { .. }, UnreadableSubnets::All) => {}
        }
    }
    unreadable
}

/// The subnets that can be read, by network, and what is wrong with the others.
fn parse_subnets(text: &str) -> (BTreeMap<String, Vec<IpNet>>, Vec<NodeErrorReason>) {
    if let Ok(entries) = serde_json::from_str::<BTreeMap<String, OneOrMany>>(text) {
        let entries = entries.into_iter();
        let subnets = entries.map(|(network, subnets)| (network, subnets.into_vec()));
        return (subnets.collect(), Vec::new());
    }
    let entries: BTreeMap<String, serde_json::Value> = match serde_json::from_str(text) {
        Ok(entries) => entries,
        Err(error) => return (BTreeMap::new(), vec![error.into()]),
    };
    let (mut subnets, mut errors) = (BTreeMap::new(), Vec::new());
    for (network, value) in entries {
        match OneOrMany::deserialize(&value) {
            Ok(entry) => {
                subnets.insert(network, entry.into_vec());
            }
            Err(_) => errors.push(NodeErrorReason::Subnets {
                network,
                value: value.to_string(),
            }),
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
    fn annotations_of_a_node() {
        let (node, errors) = read(&[
            (NODE_ID, "2"),
            (NODE_CHASSIS_ID, "c1"),
            (
                NODE_SUBNETS,
                r#"{"default":"10.244.0.0/24","blue_l3":["10.10.0.0/24","fd10::/64"]}"#,
            ),
        ]);
        assert_eq!(errors, Vec::<String>::new());
        assert_eq!(node.id.map(NodeId::get), Some(2));
        assert_eq!(node.chassis_id.as_deref(), Some("c1"));
        assert_eq!(node.subnets_of("blue_l3").len(), 2);
        assert_eq!(node.subnets_of("default").len(), 1);
        assert!(node.subnets_of("other").is_empty());
    }

    #[test]
    fn a_bad_annotation_is_told_and_the_rest_stays() {
        let (node, errors) = read(&[
            (NODE_ID, "5001"),
            (NODE_CHASSIS_ID, "c1"),
            (
                NODE_SUBNETS,
                r#"{"a":["10.0.0.0"],"b":["10.2.0.0/24"],"c":7}"#,
            ),
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
