//! Reasons why something is not connected, with the object and field to change.

use std::fmt;

use serde::Serialize;

use patchbay_connects::{HeldReason, NetworkSkip, NodeSkip};
use patchbay_model::TUNNEL_KEYS;
use patchbay_model::{
    ConnectSubnetMap, NODE_CHASSIS_ID, NODE_ID, NODE_SUBNETS, NadKey, ROUTER_TUNNEL_KEY, Topology,
};
use patchbay_networks::{DefinitionError, SkipReason};

/// Reason why something is not connected, with the object and field to change.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Reason {
    /// Description of the problem.
    pub message: String,
    /// Kind and name of the object to change, for example `Node n1`; or table and name of a missing
    /// row.
    pub object: String,
    /// Field of the object. `None`: no single field is the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

impl Reason {
    pub(super) fn new(
        message: impl fmt::Display,
        object: impl Into<String>,
        field: Option<String>,
    ) -> Self {
        Self { message: message.to_string(), object: object.into(), field }
    }

    /// Reason from a text that may begin with the path of a field of the object.
    pub(super) fn of_text(text: String, object: impl Into<String>) -> Self {
        let is_field = |head: &&str| head.starts_with("spec") || head.starts_with("metadata.");
        let split = text.split_once(": ").filter(|(head, _)| is_field(head));
        match split {
            Some((field, message)) => Self::new(message, object, Some(field.to_owned())),
            None => Self::new(text, object, None),
        }
    }

    /// Reason why a zone has not changed the rows of a connect.
    pub(super) fn of_held(reason: &HeldReason, connect: &str) -> Self {
        let (object, field) = match reason {
            HeldReason::Invalid(_) => (of_connect(connect), None),
            HeldReason::NotAccepted(_) => (of_connect(connect), Some("spec".to_owned())),
            HeldReason::NoTunnelKey => (of_connect(connect), Some(annotation(ROUTER_TUNNEL_KEY))),
            HeldReason::NoCopp(name) => (format!("Northbound row Copp {name}"), None),
            HeldReason::Refused(_) => ("Northbound database".to_owned(), None),
        };
        Self::new(reason, object, field)
    }

    /// Reason why a zone has not connected a network that this object defines.
    pub(super) fn of_network(
        reason: &NetworkSkip,
        connect: &str,
        topology: Topology,
        network: &str,
    ) -> Self {
        let (object, field) = match reason {
            NetworkSkip::Unknown | NetworkSkip::OtherTopology(_) => {
                (of_connect(connect), Some(annotation(ConnectSubnetMap::ANNOTATION)))
            }
            NetworkSkip::NoRouter(router) => {
                (format!("Northbound row Logical_Router {router}"), None)
            }
            NetworkSkip::NoSwitch(switch) => {
                (format!("Northbound row Logical_Switch {switch}"), None)
            }
            NetworkSkip::NoLocalId(node) | NetworkSkip::UnreadableLocalId(node) => {
                (format!("Node {node}"), Some(annotation(NODE_ID)))
            }
            NetworkSkip::NoSubnets => {
                (network.to_owned(), Some(field_of(network, topology, "subnets")))
            }
            NetworkSkip::ServicesOfVpc => {
                (of_connect(connect), Some("spec.connectivity".to_owned()))
            }
            NetworkSkip::NoPassAction => {
                ("Northbound schema".to_owned(), Some("table ACL, column action".to_owned()))
            }
            NetworkSkip::NoRemoteRouterPorts(_) => {
                ("Northbound schema".to_owned(), Some("version".to_owned()))
            }
        };
        Self::new(reason, object, field)
    }

    /// Reason why a network has no rows of its own in any zone.
    pub(super) fn of_rows(reason: &SkipReason, definition: Option<&NadKey>, object: &str) -> Self {
        let field = match reason {
            SkipReason::Definition(DefinitionError::Config(_)) => Some("spec.config".to_owned()),
            SkipReason::NoTunnelKeys | SkipReason::Definition(DefinitionError::Keys(_)) => {
                Some(annotation(TUNNEL_KEYS))
            }
            _ => None,
        };
        let definition = definition
            .filter(|_| field.is_some())
            .map(|nad| format!("NetworkAttachmentDefinition {nad}"));
        Self::new(reason, definition.unwrap_or_else(|| object.to_owned()), field)
    }

    /// Reason why a zone has not connected a network on a node. `None`: the only port of a layer2
    /// network.
    pub(super) fn of_node(reason: &NodeSkip, connect: &str, node: Option<&str>) -> Self {
        let on_node = |key| match node {
            Some(node) => (format!("Node {node}"), Some(annotation(key))),
            None => (of_connect(connect), None),
        };
        let (object, field) = match reason {
            NodeSkip::NoId | NodeSkip::UnreadableId | NodeSkip::SharedId(_) => on_node(NODE_ID),
            NodeSkip::NoChassis => on_node(NODE_CHASSIS_ID),
            NodeSkip::Unmanaged => match node {
                Some(node) => (format!("Node {node}"), None),
                None => (of_connect(connect), None),
            },
            NodeSkip::NoSubnet | NodeSkip::UnreadableSubnets | NodeSkip::RefusedSubnet(_) => {
                on_node(NODE_SUBNETS)
            }
            NodeSkip::Address(_) | NodeSkip::TunnelKey(_) | NodeSkip::SharedTunnelKey { .. } => {
                (of_connect(connect), Some("spec.connectSubnets".to_owned()))
            }
            NodeSkip::NameTaken(name) => {
                (format!("Northbound row Logical_Router_Port {name}"), None)
            }
        };
        Self::new(reason, object, field)
    }

    /// Reason for a node whose zone's database was not read.
    pub(super) fn of_other_zone(node: &str) -> Self {
        Self::new(
            "the northbound database of its zone was not looked at",
            format!("Node {node}"),
            None,
        )
    }

    /// Object and field to change, without the name of a node, so that equal reasons are counted
    /// together.
    pub(super) fn mend(&self) -> String {
        let object = match self.object.split_once(' ') {
            Some((kind @ "Node", _)) => kind,
            _ => &self.object,
        };
        match &self.field {
            Some(field) => format!("{object}: {field}"),
            None => object.to_owned(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, object, field } = self;
        write!(formatter, "{message} -> {object}")?;
        match field {
            Some(field) => write!(formatter, ": {field}"),
            None => Ok(()),
        }
    }
}

/// Field path of a member in the object that defines a network.
pub(super) fn field_of(object: &str, topology: Topology, member: &str) -> String {
    let spec = match object.split(' ').next() {
        Some("ClusterUserDefinedNetwork") => "spec.network",
        Some("UserDefinedNetwork") => "spec",
        _ => return "spec.config".to_owned(),
    };
    match (member, topology) {
        ("transport", _) => format!("{spec}.{member}"),
        (_, topology) => format!("{spec}.{topology}.{member}"),
    }
}

pub(super) fn of_connect(connect: &str) -> String {
    format!("ClusterNetworkConnect {connect}")
}

pub(super) fn annotation(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}
