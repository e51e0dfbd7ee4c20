//! State of a connection in switches and routers, from its first packet for the reply.

use std::collections::HashSet;
use std::net::IpAddr;

use super::{End, Trace};
use crate::northbound::{PortId, RouterId, Switch, SwitchPortId, SwitchPortKind};
use crate::packet::{Packet, Transport};

/// Direction of a packet in its connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Direction {
    /// First packet.
    #[default]
    Request,
    /// Packet of the machine that got the first one.
    Reply,
}

/// State of a connection in the switches and routers of a database.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection {
    /// Switch ports in whose zones of connection tracking the connection is.
    ports: HashSet<SwitchPortId>,
    /// Translated sources: router, new source, former source.
    sources: Vec<(RouterId, IpAddr, IpAddr)>,
    /// Translated destinations with their ports: translator, new destination, former destination.
    destinations: Vec<(Translator, Socket, Socket)>,
}

/// Address, with the port of the transport protocol: 0 without ports.
type Socket = (IpAddr, u16);

/// Zone of connection tracking that translates destinations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Translator {
    /// That of a switch port.
    Port(SwitchPortId),
    Router(RouterId),
}

impl Connection {
    /// Adds a translated source.
    pub(super) fn add_source(&mut self, router: RouterId, new: IpAddr, former: IpAddr) {
        self.sources.push((router, new, former));
    }

    /// The source that a router has replaced by an address.
    pub(super) fn former_source(&self, router: RouterId, new: IpAddr) -> Option<IpAddr> {
        let mut sources = self.sources.iter();
        let found = sources.find(|(own, own_new, _)| (*own, *own_new) == (router, new));
        found.map(|(.., former)| *former)
    }
}

impl Trace<'_> {
    /// `true` if the packet is a reply.
    pub(super) fn is_reply(&self) -> bool {
        self.direction == Direction::Reply
    }

    /// Destination of the packet. `None`: an ARP packet.
    pub(super) fn destination(&self) -> Option<Socket> {
        let ip = self.ip().ok()?;
        Some((ip.destination, ip.transport.destination_port()))
    }

    /// Records that the connection is in the zone of a port, if the packet is tracked there.
    pub(super) fn commit(&mut self, port: SwitchPortId) {
        if self.packet.is_tracked && !self.is_reply() && self.answered_by.is_none() {
            self.connection.ports.insert(port);
        }
    }

    /// Records that a translator has replaced a former destination, if it has.
    pub(super) fn record_destination(&mut self, translator: Translator, former: Option<Socket>) {
        if let (Some(former), Some(new)) = (former, self.destination())
            && former != new
            && !self.is_reply()
        {
            let translation = (translator, new, former);
            self.connection.destinations.push(translation);
        }
    }

    /// Gives a reply the source that the sender of the request knows, where a translator has
    /// replaced it.
    pub(super) fn restore_source(&mut self, translator: Translator) {
        if !self.is_reply() {
            return;
        }
        let Ok(ip) = self.ip() else { return };
        let source = (ip.source, ip.transport.source_port());
        let mut destinations = self.connection.destinations.iter();
        let found = destinations.find(|(own, new, _)| (*own, *new) == (translator, source));
        if let Some((.., (address, port))) = found.copied()
            && let Ok(ip) = self.ip_mut()
        {
            ip.source = address;
            ip.transport.set_source_port(port);
        }
    }

    /// `true` if a switch lets the packet pass as one of a connection that it knows, or leaves it
    /// to another chassis.
    ///
    /// # Errors
    /// The switch tracks a reply whose request it has not tracked, so that the packet is invalid.
    pub(super) fn is_established(
        &mut self,
        switch: &Switch,
        stage: &'static str,
        is_egress: bool,
    ) -> Result<bool, End> {
        if !self.is_reply() || !self.packet.is_tracked {
            return Ok(false);
        }
        let port = self.tracking_port(is_egress);
        // The chassis of a remote port has the zone of the port.
        let is_elsewhere =
            |port: SwitchPortId| self.northbound.switch_port(port).kind == SwitchPortKind::Remote;
        if port.is_some_and(|port| is_elsewhere(port) || self.connection.ports.contains(&port)) {
            return Ok(true);
        }
        if matches!(self.ip()?.transport, Transport::Udp { .. }) {
            return Ok(false);
        }
        let reason = "the switch has not tracked the connection of the reply".to_owned();
        Err(self.stop(switch, stage, reason))
    }

    /// The port in whose zone the packet is tracked. Packets for routers and networks outside keep
    /// the state of the ingress pipeline.
    fn tracking_port(&self, is_egress: bool) -> Option<SwitchPortId> {
        let Packet { input, output, .. } = &self.packet;
        let output = output.filter(|_| is_egress).and_then(as_switch_port).filter(|port| {
            let kind = self.northbound.switch_port(*port).kind;
            !matches!(
                kind,
                SwitchPortKind::Router | SwitchPortKind::Switch | SwitchPortKind::Outside
            )
        });
        output.or_else(|| as_switch_port(*input))
    }
}

fn as_switch_port(port: PortId) -> Option<SwitchPortId> {
    match port {
        PortId::Switch(port) => Some(port),
        PortId::Router(_) => None,
    }
}
