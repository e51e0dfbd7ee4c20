//! The Kubernetes objects that the rows of networks follow from.

use std::collections::BTreeMap;

use super::networks::{AttachmentDefinition, NadKey, Networks};

/// A node's name and annotations.
#[derive(Clone, Copy, Debug)]
pub struct NodeObject<'a> {
    /// Name of the node.
    pub name: &'a str,
    /// Annotations of the node; `None`: the node has no annotations.
    pub annotations: Option<&'a BTreeMap<String, String>>,
}

/// Nodes, attachment definitions and the networks that the definitions lead to.
#[derive(Debug)]
pub struct NetworkObjects<'a> {
    /// The networks.
    pub networks: Networks,
    /// The attachment definitions.
    pub definitions: BTreeMap<NadKey, AttachmentDefinition<'a>>,
    /// The nodes, in the order of their names.
    pub nodes: Vec<NodeObject<'a>>,
}
