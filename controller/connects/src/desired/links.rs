//! Links between the connect router and the networks' routers: one port on each side, with a pair
//! of addresses.

use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::external_ids::AttachmentExternalIds;
use patchbay_model::{
    Attachment, Connect, ConnectRanges, ConnectSubnets, IpFamily, Network, Node, NodeId,
    PointToPoint, TunnelKey, format_net, mac_address, names, point_to_point, port_tunnel_key,
};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::{Map, Set};
use smallvec::SmallVec;
use smol_str::SmolStr;

use super::{Member, TUNNEL_KEY_OPTION};
use crate::report::NodeSkip;
use crate::tables::PortRow;

/// Option of a port with the chassis that hosts it.
const CHASSIS_OPTION: &str = "requested-chassis";

/// Values that the rows of all links of a network share.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct LinkRows {
    /// Name of the connect.
    connect: SmolStr,
    /// Name of the connect router.
    router: SmolStr,
    /// Ranges of the connect subnets.
    ranges: ConnectRanges,
    /// Name prefix of the connect router's ports; the full name for a layer2 network.
    port_name: String,
    ports: AttachmentExternalIds,
    /// Options of ports outside this zone, with empty values.
    remote_options: Map,
    /// External ids of routes, for each IP family with a connect subnet.
    routes: Vec<(IpFamily, AttachmentExternalIds)>,
}

impl LinkRows {
    pub(super) fn new(connect: &Connect, network: &Network, subnets: &ConnectSubnets) -> Self {
        let name = &connect.name;
        let router = names::connect_router(name);
        let options =
            [CHASSIS_OPTION, TUNNEL_KEY_OPTION].map(|key| (Atom::from(key), Atom::from("")));
        let families = subnets.iter().map(IpFamily::of_net);
        let routes = |family| (family, AttachmentExternalIds::routes(name, network.id, family));
        Self {
            connect: name.as_str().into(),
            ranges: connect.ranges,
            port_name: names::connect_port(name, &network.name, network.topology, ""),
            ports: AttachmentExternalIds::ports(name, network.id, &router),
            router: router.into(),
            remote_options: options.into_iter().collect(),
            routes: families.map(routes).collect(),
        }
    }

    /// Name of the connect.
    pub(crate) fn connect(&self) -> &str {
        &self.connect
    }

    /// Name of the connect router.
    pub(crate) fn router(&self) -> &SmolStr {
        &self.router
    }

    /// External ids that the routes of one IP family share.
    pub(super) fn routes(&self, family: IpFamily) -> Option<&AttachmentExternalIds> {
        let mut routes = self.routes.iter();
        routes.find(|(of, _)| *of == family).map(|(_, rows)| rows)
    }
}

/// Attachment of a network to the connect router.
#[derive(Debug)]
pub(crate) struct Link<'a> {
    pub(super) attachment: Attachment,
    /// Node of a layer3 link. `None`: layer2.
    pub(super) node: Option<&'a Node>,
    /// Subnets of the node in the network. Empty for layer2.
    node_subnets: &'a [IpNet],
    /// Addresses of both ends, IPv4 first.
    addresses: SmallVec<[PointToPoint; 2]>,
    /// Name of the port on the connect router.
    pub(crate) name: SmolStr,
    /// Tunnel key of the port on the connect router.
    pub(crate) key: TunnelKey,
    /// Chassis of the port on the connect router. `None`: in this zone.
    chassis: Option<&'a str>,
    /// `true` if the network's router is in this zone.
    pub(crate) is_local: bool,
}

impl<'a> Link<'a> {
    /// Single link of a layer2 network.
    pub(crate) fn of_layer2(member: &Member) -> Result<Self, NodeSkip> {
        Self::new(member, Attachment::Layer2, None, true)
    }

    /// Link of a layer3 network on a node. `is_local`: the node is that of the zone.
    pub(crate) fn of_layer3(
        member: &Member,
        (id, node): (NodeId, &'a Node),
        is_local: bool,
    ) -> Result<Self, NodeSkip> {
        Self::new(member, Attachment::Layer3(id), Some(node), is_local)
    }

    fn new(
        member: &Member,
        attachment: Attachment,
        node: Option<&'a Node>,
        is_local: bool,
    ) -> Result<Self, NodeSkip> {
        let addresses = member
            .subnets
            .iter()
            .map(|subnet| point_to_point(subnet, attachment.index()))
            .collect::<Result<SmallVec<_>, _>>()?;
        let rows = &member.link_rows;
        let key = port_tunnel_key(&rows.ranges, &member.subnets, attachment)?;
        let remote = node.filter(|_| !is_local);
        let chassis =
            remote.map(|node| node.chassis_id.as_deref().ok_or(NodeSkip::NoChassis)).transpose()?;
        let node_name = node.map_or("", |node| &node.name);
        Ok(Self {
            attachment,
            node,
            node_subnets: node.map_or(&[], |node| node.subnets_of(&member.name)),
            addresses,
            name: SmolStr::from([&rows.port_name, node_name].concat()),
            key,
            is_local,
            chassis,
        })
    }

    /// Name of the port on the network's router, if the router is in this zone.
    pub(crate) fn network_name(&self, member: &Member) -> Option<SmolStr> {
        let node = self.node.map_or("", |node| &node.name);
        let connect = &member.link_rows.connect;
        self.is_local
            .then(|| names::network_port(connect, &member.name, member.topology, node).into())
    }

    /// Port on the connect router.
    pub(crate) fn connect_port(&self, member: &Member) -> PortRow {
        let rows = &member.link_rows;
        let key = Atom::from(itoa::Buffer::new().format(self.key.get()));
        let options = match self.chassis {
            Some(chassis) => rows.remote_options.map_values(|option, _| {
                if option.as_str() == Some(CHASSIS_OPTION) { chassis.into() } else { key.clone() }
            }),
            None => Map::from_iter([(TUNNEL_KEY_OPTION.into(), key)]),
        };
        PortRow {
            peer: self.network_name(member),
            options,
            ..self.port(self.name.clone(), &rows.ports, |pair| pair.connect_side)
        }
    }

    /// Port on the network's router, if the router is in this zone.
    pub(crate) fn network_port(&self, member: &Member) -> Option<PortRow> {
        let name = self.network_name(member)?;
        let connect = &member.link_rows.connect;
        let rows = AttachmentExternalIds::ports(connect, member.id, &member.router);
        Some(PortRow {
            peer: Some(self.name.clone()),
            ..self.port(name, &rows, |pair| pair.network_side)
        })
    }

    fn port(
        &self,
        name: SmolStr,
        rows: &AttachmentExternalIds,
        side: fn(&PointToPoint) -> IpNet,
    ) -> PortRow {
        let networks = self.addresses.iter().map(side);
        let mac = networks.clone().next().map(|net| mac_address(net.addr()));
        PortRow {
            name,
            mac: mac.unwrap_or_default().into(),
            networks: networks.map(|net| format_net(net).into()).collect::<Set>(),
            external_ids: rows.external_ids(self.attachment),
            ..PortRow::default()
        }
    }

    /// Subnets behind the link: those of the node for layer3, all for layer2.
    pub(super) fn routed_subnets<'m>(&self, member: &'m Member) -> &'m [IpNet]
    where
        'a: 'm,
    {
        match self.node {
            Some(_) => self.node_subnets,
            None => &member.pod_subnets,
        }
    }

    /// `true` if the node may have subnets of the network that cannot be read.
    pub(crate) fn has_unreadable_subnets(&self, member: &Member) -> bool {
        self.node.is_some_and(|node| node.has_unknown_subnets_of(&member.name))
    }

    /// Reason why the link has no routes.
    pub(crate) fn reason_without_routes(&self, member: &Member) -> NodeSkip {
        let Some(node) = self.node else {
            return NodeSkip::NoSubnet;
        };
        if let Some(refusal) = node.refused_subnets_of(&member.name).first() {
            NodeSkip::RefusedSubnet(refusal.clone())
        } else if self.has_unreadable_subnets(member) {
            NodeSkip::UnreadableSubnets
        } else {
            NodeSkip::NoSubnet
        }
    }

    /// `true` if a route to this prefix stays if it is there, although the node has no such subnet:
    /// it has none of the prefix's IP family, and that one is not refused.
    pub(crate) fn keeps_route(&self, prefix: IpNet, member: &Member) -> bool {
        let Some(node) = self.node else {
            return false;
        };
        let family = IpFamily::of_net(prefix);
        let mut subnets = self.node_subnets.iter();
        let has_other = subnets.any(|subnet| IpFamily::of_net(*subnet) == family);
        let mut ranges = member.pod_subnets.iter();
        let refused = node.refused_subnets_of(&member.name);
        !has_other
            && self.addresses_of(family).is_some()
            && ranges.any(|range| range.contains(&prefix))
            && !refused.iter().any(|refusal| refusal.forbids(prefix))
    }

    /// Number of routes over the link.
    pub(crate) fn route_count(&self, member: &Member) -> usize {
        let subnets = self.routed_subnets(member).iter();
        let has_addresses =
            |subnet: &&IpNet| self.addresses_of(IpFamily::of_net(**subnet)).is_some();
        subnets.filter(has_addresses).count()
    }

    /// Addresses of both ends in one IP family: connect router, network.
    pub(super) fn addresses_of(&self, family: IpFamily) -> Option<(IpAddr, IpAddr)> {
        let pair =
            self.addresses.iter().find(|pair| IpFamily::of_net(pair.connect_side) == family)?;
        Some((pair.connect_side.addr(), pair.network_side.addr()))
    }
}
