//! The sender: its source address, and the MAC address to which it sends.

use std::net::IpAddr;

use super::{End, HopKind, Path};
use crate::address::Mac;
use crate::northbound::{Hop as NextHop, Neighbor, Northbound, Owner, Switch, SwitchPortId};
use crate::packet::{IpPacket, Packet, Payload, TIME_TO_LIVE, Transport};
use crate::trace::Hop;

/// MAC address of a machine that the database does not know.
const OUTSIDE_MAC: Mac = Mac::new([0x02, 0, 0, 0, 0, 0xff]);

/// Sending port with the addresses that a question gives.
pub(crate) struct Source {
    pub(crate) port: SwitchPortId,
    /// `None`: the port's own address of the destination's family.
    pub(crate) address: Option<IpAddr>,
    /// `None`: the port's own MAC address, or one outside.
    pub(crate) mac: Option<Mac>,
    /// MAC address to which the sender sends. `None`: what ARP or ND finds.
    pub(crate) target_mac: Option<Mac>,
    /// Gateway that a question names. `None`: what rows or the machine's own routes name.
    pub(crate) gateway: Option<IpAddr>,
}

impl Source {
    /// The machine behind a port, with all that rows name.
    pub(crate) fn of_port(port: SwitchPortId) -> Self {
        Self { port, address: None, mac: None, target_mac: None, gateway: None }
    }
}

/// Frame that a sender sends, and the neighbour to which it goes.
pub(crate) struct Frame {
    pub(crate) packet: Packet,
    /// Address that the sender resolved. `None`: the MAC address was given, or a machine outside
    /// sends.
    pub(super) resolved: Option<Resolved>,
}

/// Address that a sender resolved, and those of whom one has it.
pub(super) type Resolved = (IpAddr, Vec<Owner>);

impl Frame {
    /// Source address. `None`: not an IP packet.
    pub(crate) fn source(&self) -> Option<IpAddr> {
        match &self.packet.payload {
            Payload::Ip(ip) => Some(ip.source),
            Payload::Arp(_) => None,
        }
    }
}

impl Northbound {
    /// The frame that a port sends to a destination.
    ///
    /// # Errors
    /// The sender gets no MAC address for the destination or for its gateway.
    pub(crate) fn frame(
        &self,
        source: &Source,
        destination: IpAddr,
        transport: Transport,
        path: &mut Path,
    ) -> Result<Frame, End> {
        let port = self.switch_port(source.port);
        let switch = self.switch(port.switch);
        let own = port.interfaces.iter().find_map(|interface| {
            let mut addresses = interface.addresses.iter().map(|address| address.address);
            let address = addresses.find(|address| address.is_ipv4() == destination.is_ipv4())?;
            Some((address, interface.mac))
        });
        let address = source.address.or(own.map(|(address, _)| address)).ok_or_else(|| {
            let family = if destination.is_ipv4() { "IPv4" } else { "IPv6" };
            End::unanswered(format!("port {} has no {family} address", port.name))
        })?;
        let own_mac = own
            .map(|(_, mac)| mac)
            .or_else(|| port.interfaces.first().map(|interface| interface.mac));
        let eth_source = source.mac.or(own_mac).unwrap_or(OUTSIDE_MAC);
        let (eth_destination, resolved) = match source.target_mac {
            Some(mac) => (mac, None),
            None if port.kind.is_outside() => {
                self.resolve_outside(switch, source, address, destination, path)?
            }
            None => self.resolve_inside(switch, source, address, destination, path)?,
        };
        let payload = Payload::Ip(IpPacket { source: address, destination, transport });
        Ok(Frame {
            packet: Packet {
                eth_source,
                eth_destination,
                payload,
                input: source.port.into(),
                output: None,
                mark: 0,
                time_to_live: TIME_TO_LIVE,
                dscp: 0,
                is_tracked: false,
            },
            resolved,
        })
    }

    /// MAC address to which a machine on a switch sends.
    fn resolve_inside(
        &self,
        switch: &Switch,
        sender: &Source,
        source: IpAddr,
        destination: IpAddr,
        path: &mut Path,
    ) -> Result<(Mac, Option<Resolved>), End> {
        let asking = sender.port;
        let port = self.switch_port(asking);
        let routers = &self.segment(switch).router_ports;
        let networks = || {
            let of_routers =
                routers.iter().flat_map(|port| self.router_port(*port).networks.iter());
            let known = of_routers.chain(&switch.subnets);
            known.chain(port.dhcp_network())
        };
        // A route of the machine's own that is longer than its network takes packets on the link.
        let given =
            sender.gateway.map(NextHop::default_route).or_else(|| port.next_hop(destination));
        let length = networks()
            .filter(|network| network.contains(source) && network.contains(destination))
            .map(|network| network.length)
            .max();
        let is_routed =
            given.zip(length).is_some_and(|(hop, length)| hop.length > length && !hop.is_on_link());
        let is_given_link = given.is_some_and(|hop| hop.is_on_link());
        let is_on_link = (length.is_some() || is_given_link) && !is_routed;
        let has_network = networks().any(|network| network.contains(source));
        let (neighbor, others) = self.neighbor(switch, asking, destination);
        // Where nothing names a network, a machine outside may have the address, or route to it.
        let is_near = !has_network
            && match neighbor {
                Neighbor::Known { .. } => true,
                Neighbor::Outside => given.is_none(),
                Neighbor::Nobody => false,
            };
        let (neighbor, others, target) = if is_on_link || is_near {
            (neighbor, others, destination)
        } else {
            let gateway = given.map(|hop| hop.next);
            let gateway =
                gateway.or_else(|| self.gateway(switch, source, path)).ok_or_else(|| {
                    let reason = if routers.is_empty() {
                        "no router on the switch".to_owned()
                    } else {
                        format!("no router on the switch is in the network of {source}")
                    };
                    End::unanswered(reason)
                })?;
            let (neighbor, others) = self.neighbor(switch, asking, gateway);
            (neighbor, others, gateway)
        };
        if !matches!(neighbor, Neighbor::Known { .. }) {
            self.limit_neighbor(switch, asking, target, path);
        }
        if others > 0 {
            path.leave_open(format!("{} neighbours have the address {target}", others + 1));
        }
        let what = if target == destination { "neighbour" } else { "gateway" };
        let (mac, resolved) = match neighbor {
            Neighbor::Known { owner, mac } => (mac, Some((target, vec![owner]))),
            Neighbor::Outside => {
                let owners = self.outside_ports(switch, asking);
                (Mac::ZERO, Some((target, owners)))
            }
            Neighbor::Nobody => return Err(End::unanswered(format!("ARP/ND for {target}"))),
        };
        let mac_text = match neighbor {
            Neighbor::Outside => "a machine outside".to_owned(),
            _ => mac.to_string(),
        };
        path.hops.push(Hop {
            kind: HopKind::Switch,
            name: switch.name.clone(),
            stage: "ls_in_arp_rsp",
            decision: format!("{what} {target} is {mac_text}"),
            row: None,
        });
        Ok((mac, resolved))
    }

    /// MAC address to which a machine outside sends: the owner's of the destination, or that of the
    /// router in its network.
    fn resolve_outside(
        &self,
        switch: &Switch,
        sender: &Source,
        source: IpAddr,
        destination: IpAddr,
        path: &mut Path,
    ) -> Result<(Mac, Option<Resolved>), End> {
        let asking = sender.port;
        if let (Neighbor::Known { mac, owner }, _) = self.neighbor(switch, asking, destination) {
            return Ok((mac, Some((destination, vec![owner]))));
        }
        let routers = &self.segment(switch).router_ports;
        let is_near = routers
            .iter()
            .flat_map(|port| &self.router_port(*port).networks)
            .chain(&switch.subnets)
            .any(|network| network.contains(destination));
        if is_near {
            self.limit_neighbor(switch, asking, destination, path);
            return Err(End::unanswered(format!("ARP/ND for {destination}")));
        }
        let mac_of = |gateway| match self.neighbor(switch, asking, gateway).0 {
            Neighbor::Known { mac, .. } => Some(mac),
            Neighbor::Outside | Neighbor::Nobody => None,
        };
        if let Some(gateway) = sender.gateway {
            let mac =
                mac_of(gateway).ok_or_else(|| End::unanswered(format!("ARP/ND for {gateway}")));
            return Ok((mac?, None));
        }
        let gateway = self.gateway(switch, source, path).and_then(mac_of);
        let only = routers.first().map(|port| self.router_port(*port).mac);
        match gateway.or(only) {
            Some(mac) => Ok((mac, None)),
            None => Err(End::unanswered(format!("ARP/ND for {destination}"))),
        }
    }

    /// Address of the router port on a switch whose network has an address. Of several that nothing
    /// tells apart, the first one.
    fn gateway(&self, switch: &Switch, source: IpAddr, path: &mut Path) -> Option<IpAddr> {
        let routers = &self.segment(switch).router_ports;
        let mut gateways = routers.iter().filter_map(|port| {
            self.router_port(*port).network_of(source).map(|network| network.address)
        });
        let first = gateways.next()?;
        let others = gateways.count();
        if others > 0 {
            path.leave_open(format!("{} routers are in the network of {source}", others + 1));
        }
        Some(first)
    }
}
