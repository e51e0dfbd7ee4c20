//! Rows of layer3 networks that lead to other nodes: a port of the transit switch, and routes.
//!
//! A zone has them for each network and node. What they have in common is made once for each
//! network ([`Remotes`]) and once for each node ([`WayToNode`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::external_ids::key;
use patchbay_model::{IpFamily, NodeId, format_address, format_net, mac_address, nth_of_family};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::{Map, Set};
use patchbay_zone::ZoneNode;
use smol_str::SmolStr;

use super::RemoteRows;
use super::layer3::{has_remotes, transit_switch_name, transit_switch_port_name};
use super::site::Site;
use super::tables::{PortRow, RouteRow};

/// Option with the tunnel key of a port of the transit switch.
pub(super) const TUNNEL_KEY: &str = "requested-tnl-key";
/// External id of routes with the node that they lead to.
const NODE_OF_ROUTE: &str = "ic-node";

/// Common part of the rows of one network that lead to other nodes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Remotes {
    network: String,
    /// The zone's node, to which no rows lead.
    node: String,
    router: SmolStr,
    switch: SmolStr,
    /// Start of the names of the transit switch's ports.
    port_name: String,
    /// External ids of routes, without the node.
    route_ids: Map,
    /// Join subnets of the families of the cluster. Empty: nodes have no gateway routers.
    join_subnets: Vec<(IpFamily, IpNet)>,
    /// Nodes on which the network is rendered. `None`: all.
    nodes: Option<BTreeSet<Arc<str>>>,
}

impl Remotes {
    /// Collects them for a network that is rendered on some nodes (`None`: on all). `None`: no rows
    /// of the network lead to other nodes.
    pub(super) fn new(site: &Site<'_>, nodes: Option<BTreeSet<Arc<str>>>) -> Option<Self> {
        let network = site.network;
        let families = site.cluster_families().filter(|_| site.is_primary());
        let join_subnet = |family| {
            let mut subnets = network.join_subnets.iter().copied();
            Some((family, subnets.find(|net| IpFamily::of_net(*net) == family)?))
        };
        has_remotes(site).then(|| Self {
            network: network.name.clone(),
            node: site.node.name().to_owned(),
            router: network.router().into(),
            switch: transit_switch_name(site).into(),
            port_name: transit_switch_port_name(site, ""),
            route_ids: text_map([(NODE_OF_ROUTE, ""), (key::NETWORK, &network.name)]),
            join_subnets: families.filter_map(join_subnet).collect(),
            nodes,
        })
    }

    /// `true` if the network is on a node, which is not the zone's.
    pub(super) fn leads_to(&self, node: &ZoneNode) -> bool {
        let nodes = self.nodes.as_ref();
        let is_rendered = nodes.is_none_or(|nodes| nodes.contains(node.name()));
        is_rendered && node.name() != self.node
    }

    /// The rows that lead to a node. `None`: there are none, or the node lacks what they follow
    /// from: its id, chassis or transit address, or a subnet of the network.
    pub(super) fn rows(&self, node: &ZoneNode, way: &WayToNode) -> Option<RemoteRows> {
        let port = way.port.as_ref().filter(|_| self.leads_to(node))?;
        let subnets = node.node.subnets_of(&self.network);
        let has_place = !subnets.is_empty() || node.node.has_unknown_subnets_of(&self.network);
        has_place.then(|| RemoteRows {
            router: self.router.clone(),
            switch: self.switch.clone(),
            switch_ports: vec![PortRow {
                name: [&self.port_name, node.name()].concat().into(),
                ..port.clone()
            }],
            router_ports: Vec::new(),
            static_routes: self.routes(subnets, way),
        })
    }

    /// Routes to the pods of a node, which are in these subnets, and to its gateway router.
    fn routes(&self, subnets: &[IpNet], way: &WayToNode) -> Vec<RouteRow> {
        let gateways = self.join_subnets.iter().filter_map(|(family, subnet)| {
            let place = way.id?.get().into();
            let address = nth_of_family(&[*subnet], place, *family)?;
            Some(address.addr().into())
        });
        let external_ids = self.route_ids.map_values(|key, value| {
            if key.as_str() == Some(NODE_OF_ROUTE) { way.name.clone() } else { value.clone() }
        });
        let route = |prefix: IpNet| {
            Some(RouteRow {
                ip_prefix: format_net(prefix).into(),
                nexthop: way.next_hop(IpFamily::of_net(prefix))?,
                external_ids: external_ids.clone(),
                ..RouteRow::default()
            })
        };
        subnets.iter().copied().chain(gateways).filter_map(route).collect()
    }
}

/// Common part of the rows of all networks that lead to one node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WayToNode {
    /// Name of the node.
    name: Atom,
    /// Id of a node that has a chassis.
    id: Option<NodeId>,
    /// Port of transit switches, without a name. `None`: the node has no id, chassis or transit
    /// address.
    port: Option<PortRow>,
    /// Addresses on transit switches.
    next_hops: Vec<(IpFamily, SmolStr)>,
}

impl WayToNode {
    /// The way to a node with these addresses on transit switches, IPv4 first.
    pub(super) fn new(name: &str, identity: Option<(NodeId, &str)>, transit: &[IpNet]) -> Self {
        let next_hops = transit.iter().map(|net| {
            let address = format_address(net.addr());
            (IpFamily::of_net(*net), address.into())
        });
        Self {
            name: name.into(),
            id: identity.map(|(id, _)| id),
            port: identity.and_then(|identity| remote_port(name, identity, transit)),
            next_hops: next_hops.collect(),
        }
    }

    fn next_hop(&self, family: IpFamily) -> Option<SmolStr> {
        let mut next_hops = self.next_hops.iter();
        let (_, address) = next_hops.find(|(of, _)| *of == family)?;
        Some(address.clone())
    }
}

fn remote_port(name: &str, (id, chassis): (NodeId, &str), transit: &[IpNet]) -> Option<PortRow> {
    let addresses = [mac_address(transit.first()?.addr())]
        .into_iter()
        .chain(transit.iter().map(ToString::to_string));
    let addresses = addresses.collect::<Vec<_>>().join(" ");
    Some(PortRow {
        r#type: "remote".into(),
        addresses: Set::one(addresses.as_str().into()),
        options: text_map([(TUNNEL_KEY, &id.to_string()), ("requested-chassis", chassis)]),
        external_ids: text_map([("node", name)]),
        ..PortRow::default()
    })
}

fn text_map<const N: usize>(pairs: [(&str, &str); N]) -> Map {
    let pairs = pairs.map(|(key, value)| (Atom::from(key), Atom::from(value)));
    pairs.into_iter().collect()
}
