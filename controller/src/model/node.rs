//! A node of the cluster, as far as connects care about it.

use std::collections::BTreeMap;

use ipnet::IpNet;
use k8s_openapi::api::core::v1 as core;
use serde::Deserialize;
use thiserror::Error;

use super::ids::{IdError, NodeId};

/// Annotation with the node's id.
pub const NODE_ID: &str = "k8s.ovn.org/node-id";
/// Annotation with the node's subnet of every layer3 network.
pub const NODE_SUBNETS: &str = "k8s.ovn.org/node-subnets";
/// Annotation with the id of the node's OVN chassis.
pub const NODE_CHASSIS_ID: &str = "k8s.ovn.org/node-chassis-id";

/// A node annotation that cannot be read. It counts as missing.
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

/// What is wrong with an annotation of a node.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NodeErrorReason {
    /// Not an id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// Not JSON of the right form, or a wrong CIDR in it.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// A node.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Node {
    /// Name of the node, and of its zone.
    pub name: String,
    /// Id, once the cluster manager has handed it out.
    pub id: Option<NodeId>,
    /// Id of the node's OVN chassis, once it is known.
    pub chassis_id: Option<String>,
    /// The node's subnets of layer3 networks, by network name.
    pub subnets: BTreeMap<String, Vec<IpNet>>,
}

/// One entry of the subnet annotation: a list, or a plain string as old writers had it.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    Many(Vec<IpNet>),
    One(IpNet),
}

impl Node {
    /// Reads a Kubernetes node. What cannot be read counts as missing and is told beside the node.
    pub fn read(object: &core::Node) -> (Self, Vec<NodeError>) {
        let name = object.metadata.name.clone().unwrap_or_default();
        let annotation = |key| {
            let annotations = object.metadata.annotations.as_ref()?;
            annotations.get(key).filter(|value| !value.is_empty())
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
        let subnets = annotation(NODE_SUBNETS)
            .and_then(|text| {
                parse_subnets(text)
                    .map_err(|reason| error(NODE_SUBNETS, reason.into()))
                    .ok()
            })
            .unwrap_or_default();
        let chassis_id = annotation(NODE_CHASSIS_ID).cloned();
        let node = Self {
            name,
            id,
            chassis_id,
            subnets,
        };
        (node, errors)
    }

    /// The node's subnets of a network; none if it has not got any.
    pub fn subnets_of(&self, network: &str) -> &[IpNet] {
        self.subnets.get(network).map_or(&[], Vec::as_slice)
    }
}

fn parse_subnets(text: &str) -> Result<BTreeMap<String, Vec<IpNet>>, serde_json::Error> {
    let raw: BTreeMap<String, OneOrMany> = serde_json::from_str(text)?;
    let parsed = raw.into_iter().map(|(network, subnets)| {
        let subnets = match subnets {
            OneOrMany::Many(subnets) => subnets,
            OneOrMany::One(subnet) => vec![subnet],
        };
        (network, subnets.iter().map(IpNet::trunc).collect())
    });
    Ok(parsed.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(annotations: &[(&str, &str)]) -> (Node, Vec<String>) {
        let mut object = core::Node::default();
        object.metadata.name = Some("n1".to_owned());
        object.metadata.annotations = Some(
            annotations
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        );
        let (node, errors) = Node::read(&object);
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
            (NODE_SUBNETS, r#"{"a":["10.0.0.0"]}"#),
        ]);
        assert_eq!(node.id, None);
        assert_eq!(node.chassis_id.as_deref(), Some("c1"));
        assert_eq!(errors.len(), 2);
        assert_eq!(
            errors[0],
            "node n1: annotation k8s.ovn.org/node-id: node id 5001 is not in 0..=5000"
        );
        assert!(
            errors[1].starts_with("node n1: annotation k8s.ovn.org/node-subnets: "),
            "{}",
            errors[1]
        );
    }
}
