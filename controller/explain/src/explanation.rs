//! All of it, network by network and node by node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;
use serde::Serialize;

use super::choices::Choices;
use super::known::Known;
use super::reasons::{Reason, of_connect};
use patchbay_allocate::connects::ACCEPTED;
use patchbay_connects::{ConnectReport, HeldReason};
use patchbay_model::{ConnectRange, DatapathKey, Networks};
use patchbay_networks::SkipReason;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::manifests::Inventory;

/// What became of a connect, and why.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Name of the connect.
    pub connect: String,
    /// What the cluster-wide half says; none if it has not looked at the connect.
    pub accepted: Option<String>,
    /// Whether it has accepted the connect.
    pub is_accepted: bool,
    /// Tunnel key of the connect router.
    pub tunnel_key: Option<u32>,
    /// How much the connect's ranges have room for.
    pub room: Vec<Room>,
    /// The chosen networks, by name.
    pub networks: Vec<NetworkExplanation>,
    /// What is chosen and is no network that can be connected, and what keeps the connect as a whole from working.
    pub obstacles: Vec<Reason>,
    /// What is odd without keeping anything from being connected.
    pub notices: Vec<String>,
}

/// A range of a connect.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Room {
    /// The range.
    pub cidr: IpNet,
    /// Prefix length of a block.
    pub network_prefix: u8,
    /// How many blocks can be handed out: one for each layer3 network, and one shared by layer2 networks.
    pub blocks: u32,
    /// Nodes with ids below this have addresses and tunnel keys in every block.
    pub node_ids_below: u32,
}

/// Whether a network is connected.
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

/// One chosen network.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkExplanation {
    /// Name of the network.
    pub network: String,
    /// The object that defines it.
    pub object: String,
    /// Its topology.
    pub topology: &'static str,
    /// Its id.
    pub id: u16,
    /// The selectors that have chosen it, and through what.
    pub selected_by: Vec<String>,
    /// Its connect subnets.
    pub subnets: Vec<IpNet>,
    /// Whether it is connected.
    pub state: NetworkState,
    /// Why it is not connected at all, or not in some zone.
    pub reasons: Vec<Reason>,
    /// The nodes, by name.
    pub nodes: Vec<NodeExplanation>,
}

/// A network on one node.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeExplanation {
    /// Name of the node.
    pub node: String,
    /// Whether the network is connected there.
    pub connected: bool,
    /// Why not.
    pub reasons: Vec<Reason>,
}

/// What is known of a zone.
#[derive(Clone, Debug, Default)]
pub struct ZoneView {
    /// What it reports about the connect.
    pub report: Arc<ConnectReport>,
    /// The networks that get no rows of their own there, by name, and why.
    pub without_rows: BTreeMap<String, SkipReason>,
}

/// Explains a connect of the inventory, given what is known of zones, by name. None if there is no such connect.
pub fn explain(
    name: &str,
    inventory: &Inventory,
    networks: &Networks,
    zones: &BTreeMap<String, ZoneView>,
) -> Option<Explanation> {
    let object = inventory.cluster_network_connects.named(name)?;
    let connect = patchbay_resources::conversion::connect(object);
    let choices = Choices::of(&object.spec, inventory, networks);
    let mut obstacles = choices.obstacles;
    if let Err(error) = &connect {
        obstacles.insert(Reason::new(error, of_connect(name), None));
    }
    let verdict = verdict(object);
    for ZoneView { report, .. } in zones.values() {
        // What cannot be read has been told.
        if let (Some(held), Ok(_)) = (&report.held, &connect) {
            obstacles.insert(match (held, &verdict) {
                // Who would hand it out has said why there is none.
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
    let known = Known {
        name,
        accepted: verdict.clone(),
        subnets: &connect.subnets,
        nodes: nodes.collect(),
        zones,
    };
    let notices = zones.values().flat_map(|zone| &zone.report.notices);
    let notices: BTreeSet<String> = notices.map(ToString::to_string).collect();
    Some(Explanation {
        connect: name.to_owned(),
        is_accepted: verdict.as_ref().is_some_and(|(accepted, _)| *accepted),
        accepted: verdict.map(|(_, message)| message),
        tunnel_key: connect.tunnel_key.map(DatapathKey::get),
        room: connect.ranges.iter().map(Room::of).collect(),
        networks: choices
            .networks
            .into_values()
            .map(|chosen| known.network(chosen))
            .collect(),
        obstacles: obstacles.into_iter().collect(),
        notices: notices.into_iter().collect(),
    })
}

/// What the cluster-wide half says.
fn verdict(object: &ClusterNetworkConnect) -> Option<(bool, String)> {
    let conditions = &object.status.as_ref()?.conditions;
    let mut conditions = conditions.iter();
    let condition = conditions.find(|condition| condition.type_ == ACCEPTED)?;
    Some((condition.status == "True", condition.message.clone()))
}

impl Room {
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
