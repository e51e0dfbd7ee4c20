//! Explanation of a whole connect, by network and node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_allocate::connects::ACCEPTED;
use patchbay_connects::{ConnectReport, HeldReason};
use patchbay_model::{ConnectRange, DatapathKey, Networks, Node, NodeError, NodeSubnetOwners};
use patchbay_networks::SkipReason;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::manifests::Inventory;
use serde::Serialize;

use super::network::ConnectState;
use super::reasons::{Reason, of_connect};
use super::selection::Selection;

/// Explanation of a ClusterNetworkConnect.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Name of the connect.
    pub connect: String,
    /// Message of the condition `Accepted`. `None`: the cluster manager has not processed the
    /// connect.
    pub accepted: Option<String>,
    /// `true` if the condition `Accepted` holds.
    pub is_accepted: bool,
    /// Tunnel key of the connect router.
    pub tunnel_key: Option<u32>,
    /// Capacity of the connect's ranges.
    pub ranges: Vec<RangeCapacity>,
    /// Selected networks, by name.
    pub networks: Vec<NetworkExplanation>,
    /// Reasons why selected objects have no network, and why the connect as a whole does not work.
    pub obstacles: Vec<Reason>,
    /// Notices that do not prevent connections.
    pub notices: Vec<String>,
}

/// Capacity of a range of a connect.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RangeCapacity {
    /// The range.
    pub cidr: IpNet,
    /// Prefix length of a block.
    pub network_prefix: u8,
    /// Number of allocatable blocks: one for each layer3 network; layer2 networks share blocks.
    pub blocks: u32,
    /// Upper bound, exclusive, of node ids with addresses and tunnel keys in every block.
    pub node_ids_below: u32,
}

/// Connection state of a network.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NetworkState {
    /// On all nodes.
    Connected,
    /// On some nodes.
    Partly,
    /// On none.
    NotConnected,
}

/// Explanation of a selected network.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkExplanation {
    /// Name of the network.
    pub network: String,
    /// Object that defines the network.
    pub object: String,
    /// Topology of the network.
    pub topology: &'static str,
    /// Id of the network.
    pub id: u16,
    /// Selectors that select the network, with the selected object.
    pub selected_by: Vec<String>,
    /// Connect subnets of the network.
    pub subnets: Vec<IpNet>,
    /// Connection state of the network.
    pub state: NetworkState,
    /// Reasons that concern all nodes.
    pub reasons: Vec<Reason>,
    /// The nodes, by name.
    pub nodes: Vec<NodeExplanation>,
}

/// Explanation of a network on one node.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeExplanation {
    /// Name of the node.
    pub node: String,
    /// `true` if the network is connected on the node.
    pub connected: bool,
    /// Reasons why it is not connected.
    pub reasons: Vec<Reason>,
}

/// State of a zone.
#[derive(Clone, Debug, Default)]
pub struct ZoneView {
    /// Report of the zone about the connect.
    pub report: Arc<ConnectReport>,
    /// Networks without rows of their own in the zone, by name, with the reason.
    pub without_rows: BTreeMap<String, SkipReason>,
}

/// Explains a connect of the inventory from the state of zones, by name. `None`: no such connect.
pub fn explain(
    name: &str,
    inventory: &Inventory,
    networks: &Networks,
    zones: &BTreeMap<String, ZoneView>,
) -> Option<Explanation> {
    let object = inventory.cluster_network_connects.named(name)?;
    let connect = patchbay_resources::conversion::connect(object);
    let selection = Selection::of(&object.spec, inventory, networks);
    let mut obstacles = selection.obstacles;
    if let Err(error) = &connect {
        obstacles.insert(Reason::new(error, of_connect(name), None));
    }
    let verdict = verdict(object);
    for ZoneView { report, .. } in zones.values() {
        // The error of a connect that cannot be read is an obstacle already. Networks of a connect
        // that is not accepted stay connected.
        if let (Some(held), Ok(_)) = (&report.held, &connect)
            && !matches!(held, HeldReason::NotAccepted(_))
        {
            obstacles.insert(match (held, &verdict) {
                // The condition contains the cause of the missing key.
                (HeldReason::NoTunnelKey, Some((false, message))) => {
                    let reason = format!("the connect router has no tunnel key: {message}");
                    Reason::new(reason, of_connect(name), Some("spec".to_owned()))
                }
                _ => Reason::of_held(held, name),
            });
        }
    }
    let connect = connect.unwrap_or_default();
    let nodes = inventory.nodes.iter();
    let nodes = nodes.map(|(_, node)| patchbay_resources::conversion::node(&node.object));
    let mut nodes: Vec<(Node, Vec<NodeError>)> = nodes.collect();
    let owners = NodeSubnetOwners::of_nodes(networks.iter(), nodes.iter().map(|(node, _)| node));
    for (node, _) in &mut nodes {
        owners.refuse(node);
    }
    let state = ConnectState {
        name,
        accepted: verdict.clone(),
        subnets: &connect.subnets,
        nodes,
        zones,
    };
    let notices = zones.values().flat_map(|zone| &zone.report.notices);
    let mut notices: BTreeSet<String> = notices.map(ToString::to_string).collect();
    let held = zones.values().filter_map(|zone| zone.report.held.as_ref());
    let frozen = held.filter(|held| matches!(held, HeldReason::NotAccepted(_)));
    notices.extend(frozen.map(ToString::to_string));
    Some(Explanation {
        connect: name.to_owned(),
        is_accepted: verdict.as_ref().is_some_and(|(accepted, _)| *accepted),
        accepted: verdict.map(|(_, message)| message),
        tunnel_key: connect.tunnel_key.map(DatapathKey::get),
        ranges: connect.ranges.iter().map(RangeCapacity::of).collect(),
        networks: selection
            .networks
            .into_values()
            .map(|selected| state.network(selected))
            .collect(),
        obstacles: obstacles.into_iter().collect(),
        notices: notices.into_iter().collect(),
    })
}

/// Status and message of the condition `Accepted`.
fn verdict(object: &ClusterNetworkConnect) -> Option<(bool, String)> {
    let conditions = &object.status.as_ref()?.conditions;
    let mut conditions = conditions.iter();
    let condition = conditions.find(|condition| condition.type_ == ACCEPTED)?;
    Some((condition.status == "True", condition.message.clone()))
}

impl RangeCapacity {
    fn of(range: ConnectRange) -> Self {
        Self {
            cidr: range.cidr(),
            network_prefix: range.network_prefix(),
            blocks: range.usable_blocks(),
            // Keys run out towards the end of the range.
            node_ids_below: range.usable_pairs(range.usable_blocks().saturating_sub(1)),
        }
    }
}
