//! Explanation of a whole connect, by network and node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_allocate::connects::{ACCEPTED, ClusterObjects, VpcMembers, reasons_without_networks};
use patchbay_connects::{ConnectReport, HeldReason, RowDifference, RowPurpose};
use patchbay_model::{
    Connect, ConnectRange, DatapathKey, Networks, Node, NodeError, NodeIdCapacity,
    NodeSubnetOwners, Topology,
};
use patchbay_networks::SkipReason;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::manifests::{Inventory, InventoryKind, Objects};
use serde::Serialize;

use super::network::ConnectState;
use super::reasons::{Reason, of_connect};
use super::rows::RowReasons;
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
    /// Node ids with addresses and tunnel keys in the blocks of all layer3 networks. `None`: there
    /// are no such networks, or no nodes with ids.
    pub node_ids: Option<NodeIds>,
    /// Selected networks, by name.
    pub networks: Vec<NetworkExplanation>,
    /// Reasons why no network is selected. Empty: there are selected networks.
    pub unselected: Vec<String>,
    /// Reasons why selected objects have no network, and why the connect as a whole does not work.
    pub obstacles: Vec<Reason>,
    /// Notices that do not prevent connections.
    pub notices: Vec<String>,
}

/// Node ids with addresses and tunnel keys in the blocks of all layer3 networks of a connect.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct NodeIds {
    /// Number of ids that nodes can have.
    pub total: u64,
    /// Number of ids above the highest one that a node has.
    pub left: u64,
    /// Both numbers in words.
    #[serde(skip)]
    pub(super) text: String,
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
    /// Rows of the zone's database that are not as the connect wants them. Empty, too, if the
    /// database was not read.
    pub differences: Vec<(RowPurpose, RowDifference)>,
    /// Command that makes the rows.
    pub writer: RowWriter,
}

/// Command that makes the rows of a connect.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RowWriter {
    /// `patchbay apply`, from manifests.
    #[default]
    Apply,
    /// `patchbay run`, from the objects of a cluster.
    Run,
}

impl Explanation {
    /// `true` if the connect is accepted, selects networks, and all that it selects is connected on
    /// every node that OVN manages.
    pub fn is_connected(&self) -> bool {
        let mut networks = self.networks.iter();
        self.is_accepted
            && self.obstacles.is_empty()
            && !self.networks.is_empty()
            && networks.all(|network| network.state == NetworkState::Connected)
    }
}

/// Explains a connect of the inventory from the state of zones, by name. `None`: no such connect.
///
/// `vpcs`: VPCs of the connects. `None`: each node has a zone with its own database, and no VPCs.
pub fn explain(
    name: &str,
    inventory: &Inventory,
    networks: &Networks,
    zones: &BTreeMap<String, ZoneView>,
    vpcs: Option<&VpcMembers>,
) -> Option<Explanation> {
    let object = inventory.cluster_network_connects.named(name)?;
    let connect = patchbay_resources::conversion::connect(object);
    let mut selection = Selection::of(&object.spec, inventory, networks);
    if let Some(members) = vpcs {
        selection.vpcs(object, members);
        selection.refuse_layer3();
    }
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
    let mut nodes: Vec<(Node, Vec<NodeError>)> = inventory
        .nodes
        .iter()
        .map(|(_, node)| patchbay_resources::conversion::node(&node.object))
        .collect();
    let owners = NodeSubnetOwners::of_nodes(networks.iter(), nodes.iter().map(|(node, _)| node));
    for (node, _) in &mut nodes {
        owners.refuse(node);
    }
    let known: Vec<Node> = nodes.iter().map(|(node, _)| node.clone()).collect();
    let rows = RowReasons::of(zones, networks, &known);
    obstacles.extend(rows.of_connect.iter().cloned());
    let state = ConnectState {
        name,
        rows: &rows,
        accepted: verdict.clone(),
        subnets: &connect.subnets,
        nodes,
        zones,
        is_central: vpcs.is_some(),
    };
    let mut notices: BTreeSet<String> =
        zones.values().flat_map(|zone| &zone.report.notices).map(ToString::to_string).collect();
    let held = zones.values().filter_map(|zone| zone.report.held.as_ref());
    let frozen = held.filter(|held| matches!(held, HeldReason::NotAccepted(_)));
    notices.extend(frozen.map(ToString::to_string));
    notices.extend(rows.notices.iter().cloned());
    let objects = ClusterObjects::new(
        networks,
        objects(&inventory.network_attachment_definitions),
        objects(&inventory.namespaces),
        [],
    )
    .with_vpcs(vpcs);
    Some(Explanation {
        connect: name.to_owned(),
        is_accepted: verdict.as_ref().is_some_and(|(accepted, _)| *accepted),
        accepted: verdict.map(|(_, message)| message),
        tunnel_key: connect.tunnel_key.map(DatapathKey::get),
        ranges: connect.ranges.iter().map(RangeCapacity::of).collect(),
        node_ids: node_ids(&connect, &known),
        networks: selection
            .networks
            .into_values()
            .map(|selected| state.network(selected))
            .collect(),
        unselected: reasons_without_networks(object, &objects),
        obstacles: obstacles.into_iter().collect(),
        notices: notices.into_iter().collect(),
    })
}

fn node_ids(connect: &Connect, nodes: &[Node]) -> Option<NodeIds> {
    let subnets = connect.subnets.iter();
    let layer3 = subnets.filter(|(owner, _)| owner.topology == Topology::Layer3);
    let capacity = NodeIdCapacity::of(&connect.ranges, layer3.map(|(_, subnets)| subnets))?;
    let highest = nodes.iter().filter_map(|node| node.id).max()?;
    Some(NodeIds {
        total: capacity.total(),
        left: capacity.left(highest),
        text: capacity.describe(highest),
    })
}

fn objects<T: InventoryKind>(objects: &Objects<T>) -> impl Iterator<Item = &T> {
    objects.iter().map(|(_, sourced)| &sourced.object)
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
