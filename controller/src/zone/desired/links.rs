//! The links between a connect router and the networks' routers: a port on either side and a pair of addresses.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use patchbay_schemas::nb::LogicalRouterPort;

use crate::model::external_ids::OwnedRow;
use crate::model::{
    Attachment, Connect, IpFamily, Node, NodeId, PointToPoint, Topology, TunnelKey, mac_address,
    names, point_to_point, port_tunnel_key,
};
use crate::zone::inputs::Inputs;
use crate::zone::report::{ConnectReport, NodeSkip, SkippedNode};

use super::members::Member;
use super::{Surroundings, owned};

/// One attachment of one network.
#[derive(Debug)]
pub(super) struct Link<'a> {
    pub(super) member: &'a Member<'a>,
    pub(super) attachment: Attachment,
    /// The node of a layer3 network's attachment.
    pub(super) node: Option<&'a Node>,
    /// The addresses of both ends, IPv4 first.
    pub(super) addresses: Vec<PointToPoint>,
    /// The port of the connect router.
    pub(super) connect_port: LogicalRouterPort,
    /// The port of the network's router, if that is in this zone.
    pub(super) network_port: Option<LogicalRouterPort>,
}

impl Link<'_> {
    /// The addresses of both ends in one family.
    pub(super) fn addresses_of(&self, family: IpFamily) -> Option<(IpAddr, IpAddr)> {
        let pair = self
            .addresses
            .iter()
            .find(|pair| IpFamily::of_net(pair.connect_side) == family)?;
        Some((pair.connect_side.addr(), pair.network_side.addr()))
    }
}

/// The links of all connected members, network by network and node by node. What cannot be linked is reported.
pub(super) fn links<'a>(
    connect: &Connect,
    members: &'a [Member<'a>],
    inputs: &'a Inputs,
    around: &Surroundings<'_>,
    report: &mut ConnectReport,
) -> Vec<Link<'a>> {
    let mut maker = LinkMaker {
        connect,
        around,
        zone: &inputs.zone,
        router: names::connect_router(&connect.name),
        names: HashSet::new(),
        keys: BTreeMap::new(),
    };
    let nodes = nodes(inputs);
    let mut links = Vec::new();
    for member in members.iter().filter(|member| member.is_connected) {
        let name = &member.network.name;
        let mut skip = |node: Option<&Node>, reason| {
            report.skipped_nodes.push(SkippedNode {
                network: name.clone(),
                node: node.map(|node| node.name.clone()),
                reason,
            });
        };
        match member.network.topology {
            Topology::Layer2 if member.is_active_here => {
                match maker.link(member, Attachment::Layer2, None) {
                    Ok(link) => links.push(link),
                    Err(reason) => skip(None, reason),
                }
            }
            Topology::Layer2 => {}
            Topology::Layer3 => {
                for (node, id) in &nodes {
                    if !inputs.activity.is_active(name, &node.name) {
                        continue;
                    }
                    let linked = id
                        .clone()
                        .and_then(|id| maker.link(member, Attachment::Layer3(id), Some(node)));
                    match linked {
                        Ok(link) => links.push(link),
                        Err(reason) => skip(Some(node), reason),
                    }
                }
            }
        }
    }
    links
}

/// The nodes by name, each with its id, or with the reason why it has no usable one.
fn nodes(inputs: &Inputs) -> Vec<(&Node, Result<NodeId, NodeSkip>)> {
    let mut nodes: Vec<&Node> = inputs.nodes.iter().collect();
    nodes.sort_by(|left, right| left.name.cmp(&right.name));
    let mut taken: HashMap<NodeId, &str> = HashMap::with_capacity(nodes.len());
    nodes
        .into_iter()
        .map(|node| {
            let id = match node.id.map(|id| (id, taken.entry(id))) {
                None => Err(NodeSkip::NoId),
                Some((_, Entry::Occupied(other))) => {
                    Err(NodeSkip::SharedId((*other.get()).to_owned()))
                }
                Some((id, Entry::Vacant(free))) => {
                    free.insert(&node.name);
                    Ok(id)
                }
            };
            (node, id)
        })
        .collect()
}

struct LinkMaker<'a> {
    connect: &'a Connect,
    around: &'a Surroundings<'a>,
    zone: &'a str,
    /// Name of the connect router.
    router: String,
    /// Names of the ports so far, on all routers.
    names: HashSet<String>,
    /// Tunnel keys of the connect router so far, and whose they are.
    keys: BTreeMap<TunnelKey, String>,
}

impl LinkMaker<'_> {
    fn link<'a>(
        &mut self,
        member: &'a Member<'a>,
        attachment: Attachment,
        node: Option<&'a Node>,
    ) -> Result<Link<'a>, NodeSkip> {
        let (connect, network) = (&*self.connect.name, &*member.network.name);
        let topology = member.network.topology;
        let node_name = node.map_or("", |node| &node.name);
        let connect_name = names::connect_port(connect, network, topology, node_name);
        let network_name = names::network_port(connect, network, topology, node_name);
        let is_local = node.is_none_or(|node| node.name == self.zone);
        let addresses = member
            .subnets
            .iter()
            .map(|subnet| point_to_point(subnet, attachment.index()))
            .collect::<Result<Vec<_>, _>>()?;
        let key = port_tunnel_key(&self.connect.ranges, &member.subnets, attachment)?;
        let mut options = BTreeMap::from([("requested-tnl-key".to_owned(), key.to_string())]);
        if let Some(node) = node.filter(|_| !is_local) {
            let chassis = node.chassis_id.clone().ok_or(NodeSkip::NoChassis)?;
            options.insert("requested-chassis".to_owned(), chassis);
        }
        self.claim(key, &connect_name, is_local.then_some(&*network_name))?;
        let port = |name: &str, router: &str, side: fn(&PointToPoint) -> ipnet::IpNet| {
            let networks = addresses.iter().map(side);
            let mac = networks.clone().next().map(|net| mac_address(net.addr()));
            let row = OwnedRow::RouterPort {
                network: member.network.id,
                attachment,
                router,
            };
            LogicalRouterPort {
                name: name.to_owned(),
                mac: mac.unwrap_or_default(),
                networks: networks.map(|net| net.to_string()).collect(),
                external_ids: owned(row.external_ids(connect)),
                ..LogicalRouterPort::default()
            }
        };
        let connect_port = LogicalRouterPort {
            peer: is_local.then(|| network_name.clone()),
            options,
            ..port(&connect_name, &self.router, |pair| pair.connect_side)
        };
        let network_port = is_local.then(|| LogicalRouterPort {
            peer: Some(connect_name.clone()),
            ..port(&network_name, &member.router, |pair| pair.network_side)
        });
        Ok(Link {
            member,
            attachment,
            node,
            addresses,
            connect_port,
            network_port,
        })
    }

    /// Takes the key and the names, unless one of them is taken: names are joined from parts by `_` and need not
    /// be unique, and a broken annotation may give two networks one subnet.
    fn claim(
        &mut self,
        key: TunnelKey,
        connect_port: &str,
        network_port: Option<&str>,
    ) -> Result<(), NodeSkip> {
        let ports = [Some(connect_port), network_port];
        if let Some(taken) = ports
            .into_iter()
            .flatten()
            .find(|name| self.names.contains(*name) || self.around.taken_ports.contains(name))
        {
            return Err(NodeSkip::NameTaken(taken.to_owned()));
        }
        if let Some(port) = self.keys.get(&key) {
            return Err(NodeSkip::SharedTunnelKey {
                key: key.get(),
                port: port.clone(),
            });
        }
        self.names
            .extend(ports.into_iter().flatten().map(str::to_owned));
        self.keys.insert(key, connect_port.to_owned());
        Ok(())
    }
}
