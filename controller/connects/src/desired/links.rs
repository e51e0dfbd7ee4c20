//! The links between a connect router and the networks' routers: a port on either side and a pair of addresses.

use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::{Map, Set};
use patchbay_schemas::row::Row;
use smol_str::SmolStr;

use crate::report::NodeSkip;
use patchbay_model::external_ids::AttachmentExternalIds;
use patchbay_model::{
    Attachment, Connect, ConnectSubnets, IpFamily, Network, Node, NodeId, PointToPoint, TunnelKey,
    format_net, mac_address, names, point_to_point, port_tunnel_key,
};

use super::rows::PortRow;
use super::{Around, Member, TUNNEL_KEY};

/// Key of the option that says where a port is.
const CHASSIS: &str = "requested-chassis";

/// What the rows of a network's links have in common, put together once for all of them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct LinkRows {
    /// How the names of the connect router's ports start; that of a layer2 network's port is complete.
    port_name: String,
    ports: AttachmentExternalIds,
    /// The options of ports that are not in this zone; the values are those of no port.
    remote_options: Map,
    /// Those of each family that the network has a connect subnet of.
    routes: Vec<(IpFamily, AttachmentExternalIds)>,
}

impl LinkRows {
    pub(super) fn new(connect: &Connect, network: &Network, subnets: &ConnectSubnets) -> Self {
        let name = &connect.name;
        let router = names::connect_router(name);
        let options = [CHASSIS, TUNNEL_KEY].map(|key| (Atom::from(key), Atom::from("")));
        let families = subnets.iter().map(IpFamily::of_net);
        let routes = |family| {
            (
                family,
                AttachmentExternalIds::routes(name, network.id, family),
            )
        };
        Self {
            port_name: names::connect_port(name, &network.name, network.topology, ""),
            ports: AttachmentExternalIds::ports(name, network.id, &router),
            remote_options: options.into_iter().collect(),
            routes: families.map(routes).collect(),
        }
    }

    /// What the routes of one family have in common.
    pub(super) fn routes(&self, family: IpFamily) -> Option<&AttachmentExternalIds> {
        let mut routes = self.routes.iter();
        routes.find(|(of, _)| *of == family).map(|(_, rows)| rows)
    }
}

/// One attachment of one network.
#[derive(Debug)]
pub(crate) struct Link<'a> {
    pub(super) attachment: Attachment,
    /// The node of a layer3 network's attachment.
    pub(super) node: Option<&'a Node>,
    /// The addresses of both ends, IPv4 first.
    addresses: Vec<PointToPoint>,
    /// Name of the port of the connect router.
    pub(crate) name: SmolStr,
    /// The port that has this name, whoever owns it.
    pub(crate) existing: Option<&'a Row>,
    /// Key of the port of the connect router.
    pub(crate) key: TunnelKey,
    /// Where the port of the connect router is, unless it is in this zone.
    chassis: Option<&'a str>,
    /// Whether the network's router is in this zone.
    pub(crate) is_local: bool,
}

impl<'a> Link<'a> {
    /// The one link of a layer2 network.
    pub(crate) fn of_layer2(
        connect: &Connect,
        member: &Member,
        around: &Around<'a>,
    ) -> Result<Self, NodeSkip> {
        Self::new(connect, member, Attachment::Layer2, None, around)
    }

    /// The link of a layer3 network on a node.
    pub(crate) fn of_layer3(
        connect: &Connect,
        member: &Member,
        (id, node): (NodeId, &'a Node),
        around: &Around<'a>,
    ) -> Result<Self, NodeSkip> {
        Self::new(connect, member, Attachment::Layer3(id), Some(node), around)
    }

    fn new(
        connect: &Connect,
        member: &Member,
        attachment: Attachment,
        node: Option<&'a Node>,
        around: &Around<'a>,
    ) -> Result<Self, NodeSkip> {
        let addresses = member
            .subnets
            .iter()
            .map(|subnet| point_to_point(subnet, attachment.index()))
            .collect::<Result<_, _>>()?;
        let key = port_tunnel_key(&connect.ranges, &member.subnets, attachment)?;
        let remote = node.filter(|node| node.name != around.inputs.zone);
        let chassis = remote
            .map(|node| node.chassis_id.as_deref().ok_or(NodeSkip::NoChassis))
            .transpose()?;
        let node_name = node.map_or("", |node| &node.name);
        let name = SmolStr::from([&member.link_rows.port_name, node_name].concat());
        Ok(Self {
            attachment,
            node,
            addresses,
            existing: around.index.port(&name).map(AsRef::as_ref),
            name,
            key,
            is_local: remote.is_none(),
            chassis,
        })
    }

    /// Name of the port of the network's router, if that is in this zone.
    pub(crate) fn network_name(&self, connect: &Connect, member: &Member) -> Option<SmolStr> {
        let node = self.node.map_or("", |node| &node.name);
        self.is_local
            .then(|| names::network_port(&connect.name, &member.name, member.topology, node).into())
    }

    /// The port of the connect router.
    pub(crate) fn connect_port(&self, connect: &Connect, member: &Member) -> PortRow {
        let rows = &member.link_rows;
        let key = Atom::from(itoa::Buffer::new().format(self.key.get()));
        let options = match self.chassis {
            Some(chassis) => rows.remote_options.map_values(|option, _| {
                if option.as_str() == Some(CHASSIS) {
                    chassis.into()
                } else {
                    key.clone()
                }
            }),
            None => Map::from_iter([(TUNNEL_KEY.into(), key)]),
        };
        PortRow {
            peer: self.network_name(connect, member),
            options,
            ..self.port(self.name.clone(), &rows.ports, |pair| pair.connect_side)
        }
    }

    /// The port of the network's router, if that is in this zone.
    pub(crate) fn network_port(&self, connect: &Connect, member: &Member) -> Option<PortRow> {
        let name = self.network_name(connect, member)?;
        let rows = AttachmentExternalIds::ports(&connect.name, member.id, &member.router);
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

    /// The subnets that are behind the link: the node's of a layer3 network, all of a layer2 network.
    pub(super) fn routed_subnets<'m>(&self, member: &'m Member) -> &'m [IpNet]
    where
        'a: 'm,
    {
        match self.node {
            Some(node) => node.subnets_of(&member.name),
            None => &member.pod_subnets,
        }
    }

    /// Whether the node may have subnets of the network that are not known.
    pub(crate) fn has_unreadable_subnets(&self, member: &Member) -> bool {
        self.node
            .is_some_and(|node| node.has_unknown_subnets_of(&member.name))
    }

    /// How many routes lead over the link.
    pub(crate) fn route_count(&self, member: &Member) -> usize {
        let subnets = self.routed_subnets(member).iter();
        let has_addresses =
            |subnet: &&IpNet| self.addresses_of(IpFamily::of_net(**subnet)).is_some();
        subnets.filter(has_addresses).count()
    }

    /// The addresses of both ends in one family: the connect router's and the network's.
    pub(super) fn addresses_of(&self, family: IpFamily) -> Option<(IpAddr, IpAddr)> {
        let pair = self
            .addresses
            .iter()
            .find(|pair| IpFamily::of_net(pair.connect_side) == family)?;
        Some((pair.connect_side.addr(), pair.network_side.addr()))
    }
}
