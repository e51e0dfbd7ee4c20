//! Kubernetes objects from which the rows of networks are derived.

use std::collections::BTreeMap;

use super::networks::{AttachmentDefinition, NadKey, Networks};

/// Name and annotations of a node.
#[derive(Clone, Copy, Debug)]
pub struct NodeObject<'a> {
    /// Name of the node.
    pub name: &'a str,
    /// Annotations of the node; `None`: the node has no annotations.
    pub annotations: Option<&'a BTreeMap<String, String>>,
}

/// Nodes, attachment definitions and the networks of the definitions.
#[derive(Debug)]
pub struct NetworkObjects<'a> {
    /// Networks of the attachment definitions.
    pub networks: Networks,
    /// Attachment definitions.
    pub definitions: BTreeMap<NadKey, AttachmentDefinition<'a>>,
    /// Nodes, in the order of their names.
    pub nodes: Vec<NodeObject<'a>>,
}
