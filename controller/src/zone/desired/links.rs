//! The links between a connect router and the networks' routers: a port on either side and a pair of addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;

use patchbay_schemas::nb::LogicalRouterPort;

use crate::model::external_ids::OwnedRow;
use crate::model::{
    Attachment, Connect, IpFamily, Node, NodeId, PointToPoint, TunnelKey, mac_address, names,
    point_to_point, port_tunnel_key,
};
use crate::zone::report::NodeSkip;

use super::Member;

/// One attachment of one network.
#[derive(Debug)]
pub(in crate::zone) struct Link<'a> {
    pub(super) attachment: Attachment,
    /// The node of a layer3 network's attachment.
    pub(super) node: Option<&'a Node>,
    /// The addresses of both ends, IPv4 first.
    addresses: Vec<PointToPoint>,
    /// Key of the port of the connect router.
    pub(in crate::zone) key: TunnelKey,
    /// Where the port of the connect router is, unless it is in this zone.
    chassis: Option<String>,
    /// Whether the network's router is in this zone.
    pub(in crate::zone) is_local: bool,
}

impl<'a> Link<'a> {
    /// The one link of a layer2 network.
    pub(in crate::zone) fn of_layer2(connect: &Connect, member: &Member) -> Result<Self, NodeSkip> {
        Self::new(connect, member, Attachment::Layer2, None, "")
    }

    /// The link of a layer3 network on a node.
    pub(in crate::zone) fn of_layer3(
        connect: &Connect,
        member: &Member,
        (id, node): (NodeId, &'a Node),
        zone: &str,
    ) -> Result<Self, NodeSkip> {
        Self::new(connect, member, Attachment::Layer3(id), Some(node), zone)
    }

    fn new(
        connect: &Connect,
        member: &Member,
        attachment: Attachment,
        node: Option<&'a Node>,
        zone: &str,
    ) -> Result<Self, NodeSkip> {
        let addresses = member
            .subnets
            .iter()
            .map(|subnet| point_to_point(subnet, attachment.index()))
            .collect::<Result<_, _>>()?;
        let key = port_tunnel_key(&connect.ranges, &member.subnets, attachment)?;
        let remote = node.filter(|node| node.name != zone);
        let chassis = remote
            .map(|node| node.chassis_id.clone().ok_or(NodeSkip::NoChassis))
            .transpose()?;
        Ok(Self {
            attachment,
            node,
            addresses,
            key,
            is_local: remote.is_none(),
            chassis,
        })
    }

    /// Name of the port of the connect router.
    pub(in crate::zone) fn connect_name(&self, connect: &Connect, member: &Member) -> String {
        let node = self.node.map_or("", |node| &node.name);
        names::connect_port(&connect.name, &member.name, member.topology, node)
    }

    /// Name of the port of the network's router.
    pub(in crate::zone) fn network_name(&self, connect: &Connect, member: &Member) -> String {
        let node = self.node.map_or("", |node| &node.name);
        names::network_port(&connect.name, &member.name, member.topology, node)
    }

    /// The port of the connect router.
    pub(in crate::zone) fn connect_port(
        &self,
        connect: &Connect,
        member: &Member,
    ) -> LogicalRouterPort {
        let mut options = BTreeMap::from([("requested-tnl-key".to_owned(), self.key.to_string())]);
        options.extend(
            self.chassis
                .iter()
                .map(|chassis| ("requested-chassis".to_owned(), chassis.clone())),
        );
        let router = names::connect_router(&connect.name);
        let name = self.connect_name(connect, member);
        LogicalRouterPort {
            peer: self.is_local.then(|| self.network_name(connect, member)),
            options,
            ..self.port(connect, member, name, &router, |pair| pair.connect_side)
        }
    }

    /// The port of the network's router, if that is in this zone.
    pub(in crate::zone) fn network_port(
        &self,
        connect: &Connect,
        member: &Member,
    ) -> Option<LogicalRouterPort> {
        let name = self.network_name(connect, member);
        self.is_local.then(|| LogicalRouterPort {
            peer: Some(self.connect_name(connect, member)),
            ..self.port(connect, member, name, &member.router, |pair| {
                pair.network_side
            })
        })
    }

    fn port(
        &self,
        connect: &Connect,
        member: &Member,
        name: String,
        router: &str,
        side: fn(&PointToPoint) -> ipnet::IpNet,
    ) -> LogicalRouterPort {
        let networks = self.addresses.iter().map(side);
        let mac = networks.clone().next().map(|net| mac_address(net.addr()));
        let row = OwnedRow::RouterPort {
            network: member.id,
            attachment: self.attachment,
            router,
        };
        LogicalRouterPort {
            name,
            mac: mac.unwrap_or_default(),
            networks: networks.map(|net| net.to_string()).collect(),
            external_ids: row.external_ids(&connect.name),
            ..LogicalRouterPort::default()
        }
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
