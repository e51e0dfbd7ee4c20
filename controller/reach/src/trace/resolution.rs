//! Requests of senders and routers for MAC addresses, and the replies: where ACLs and port security
//! stop them.

use std::net::IpAddr;

use super::Path;
use super::sender::Frame;
use crate::address::{Mac, Prefix};
use crate::northbound::{
    AclPlace, Link, Northbound, Owner, PortId, RouterPortId, SwitchPortId, SwitchPortKind,
};
use crate::packet::{Arp, IpPacket, Packet, Payload, TIME_TO_LIVE, Transport};

impl Northbound {
    /// The place where the request of a frame's sender or the reply is stopped. `None`: the sender
    /// gets the MAC address, or its port lets no packet of it pass.
    pub(crate) fn blocked_resolution(&self, frame: &Frame, path: &mut Path) -> Option<String> {
        let (target, owners) = frame.resolved.as_ref()?;
        let source = frame.source()?;
        let PortId::Switch(sender) = frame.packet.input else {
            return None;
        };
        let asking = self.switch_port(sender);
        if !asking.is_enabled || !asking.may_send(&frame.packet) {
            return None;
        }
        let exchange = Exchange {
            source,
            source_mac: frame.packet.eth_source,
            target: *target,
            target_mac: frame.packet.eth_destination,
        };
        let (last, others) = owners.split_last()?;
        let mut others = others.iter();
        let is_answered = |owner: &Owner| {
            let path = &mut Path::default();
            self.exchange(&exchange, sender, *owner, path).is_ok()
        };
        if others.any(is_answered) {
            return None;
        }
        let at = self.exchange(&exchange, sender, *last, path).err()?;
        let protocol = if target.is_ipv4() { "ARP" } else { "ND" };
        Some(format!("{protocol} for {target}: {at}"))
    }

    /// Follows the request of a router port for the MAC address of a next hop, and the reply of the
    /// owner.
    ///
    /// # Errors
    /// The place where one of them is stopped.
    pub(super) fn ask_neighbor(
        &self,
        id: RouterPortId,
        (target, target_mac): (IpAddr, Mac),
        owner: Owner,
        path: &mut Path,
    ) -> Result<(), String> {
        let port = self.router_port(id);
        let Link::Switch(switch_port) = port.link else {
            return Ok(());
        };
        let is_family = |network: &&Prefix| network.address.is_ipv4() == target.is_ipv4();
        let Some(own) = port.network_of(target).or_else(|| port.networks.iter().find(is_family))
        else {
            return Ok(());
        };
        let exchange = Exchange { source: own.address, source_mac: port.mac, target, target_mac };
        self.exchange(&exchange, switch_port, owner, path)
    }

    /// Follows a request from switch to switch, and the reply of the owner of the address.
    ///
    /// # Errors
    /// The place where one of them is stopped.
    fn exchange(
        &self,
        exchange: &Exchange,
        sender: SwitchPortId,
        owner: Owner,
        path: &mut Path,
    ) -> Result<(), String> {
        let first = self.switch(self.switch_port(sender).switch);
        let crossings = self.segment(first).crossings(owner.switch);
        let switch = self.switch(owner.switch);
        // Switches do not answer requests from outside.
        let is_from_outside = self.switch_port(sender).kind.is_outside();
        let asked = owner
            .port
            .filter(|port| is_from_outside || !self.has_responder(switch, *port, exchange.target));
        let frames = self.frames(exchange, sender, asked);
        let request = |input, output| exchange.request(&frames, input, output);
        let reply = |input, output| exchange.reply(&frames, input, output);
        let mut input = sender;
        let mut inputs = Vec::with_capacity(crossings.len());
        for crossing in &crossings {
            self.enter(&request(input, None), input, path)?;
            let sent = request(input, Some(crossing.output));
            self.leave(&sent, crossing.output, path)?;
            inputs.push(input);
            input = crossing.input;
        }
        self.enter(&request(input, None), input, path)?;
        if let Some(port) = asked {
            let own = self.switch_port(port);
            if !own.is_enabled {
                return Err(format!("port {} is disabled", own.name));
            }
            self.leave(&request(input, Some(port)), port, path)?;
            self.limit_port(port, path);
            self.enter(&reply(port, None), port, path)?;
        }
        let sent = reply(asked.unwrap_or(input), Some(input));
        self.leave(&sent, input, path)?;
        for (crossing, input) in crossings.iter().zip(inputs).rev() {
            self.enter(&reply(crossing.output, None), crossing.output, path)?;
            self.leave(&reply(crossing.output, Some(input)), input, path)?;
        }
        Ok(())
    }

    /// MAC addresses of the frames of a request and its reply. Switches and routers reply to the
    /// source of the frame, machines to the MAC address in the request.
    fn frames(
        &self,
        exchange: &Exchange,
        sender: SwitchPortId,
        asked: Option<SwitchPortId>,
    ) -> Frames {
        let asked = asked.map(|port| self.switch_port(port));
        let of_sender = self.switch_port(sender).frame_mac(exchange.source_mac);
        let is_machine = asked.is_some_and(|port| port.kind != SwitchPortKind::Router);
        Frames {
            request_source: of_sender,
            reply_source: asked
                .map_or(exchange.target_mac, |port| port.frame_mac(exchange.target_mac)),
            reply_destination: if is_machine { exchange.source_mac } else { of_sender },
        }
    }

    /// Ingress pipeline of a switch for a request or a reply.
    fn enter(&self, packet: &Packet, input: SwitchPortId, path: &mut Path) -> Result<(), String> {
        let port = self.switch_port(input);
        // The lookup of a destination is the first stage for what comes from a VTEP.
        if port.kind == SwitchPortKind::Ramp {
            return Ok(());
        }
        // Machines outside have MAC addresses that are not known here.
        if !port.kind.is_outside() && !port.may_send(packet) {
            return Err(format!("port security of {}", port.name));
        }
        let switch = self.switch(port.switch);
        self.pass_request(switch, AclPlace::BeforeLoadBalancing, packet, path)?;
        self.pass_request(switch, AclPlace::AfterLoadBalancing, packet, path)
    }

    /// Egress pipeline of a switch for a request or a reply.
    fn leave(&self, packet: &Packet, output: SwitchPortId, path: &mut Path) -> Result<(), String> {
        let port = self.switch_port(output);
        self.pass_request(self.switch(port.switch), AclPlace::Egress, packet, path)?;
        let is_broadcast = packet.eth_destination == Mac::BROADCAST;
        if is_broadcast || port.may_receive(packet) {
            Ok(())
        } else {
            Err(format!("port security of {}", port.name))
        }
    }
}

/// Addresses of a request and its reply.
struct Exchange {
    source: IpAddr,
    source_mac: Mac,
    target: IpAddr,
    target_mac: Mac,
}

/// MAC addresses of the frames of ARP. Neighbour discovery has those of the exchange.
struct Frames {
    request_source: Mac,
    reply_source: Mac,
    reply_destination: Mac,
}

impl Exchange {
    fn request(
        &self,
        frames: &Frames,
        input: SwitchPortId,
        output: Option<SwitchPortId>,
    ) -> Packet {
        let payload = match (self.source, self.target) {
            (IpAddr::V4(source), IpAddr::V4(target)) => Payload::Arp(Arp {
                is_reply: false,
                source,
                source_mac: self.source_mac,
                target,
                target_mac: Mac::ZERO,
            }),
            (source, destination) => neighbor_discovery(source, destination),
        };
        let source = match payload {
            Payload::Arp(_) => frames.request_source,
            Payload::Ip(_) => self.source_mac,
        };
        packet(payload, [source, Mac::BROADCAST], input, output)
    }

    fn reply(&self, frames: &Frames, input: SwitchPortId, output: Option<SwitchPortId>) -> Packet {
        let payload = match (self.target, self.source) {
            (IpAddr::V4(source), IpAddr::V4(target)) => Payload::Arp(Arp {
                is_reply: true,
                source,
                source_mac: self.target_mac,
                target,
                target_mac: self.source_mac,
            }),
            (source, destination) => neighbor_discovery(source, destination),
        };
        let macs = match payload {
            Payload::Arp(_) => [frames.reply_source, frames.reply_destination],
            Payload::Ip(_) => [self.target_mac, self.source_mac],
        };
        packet(payload, macs, input, output)
    }
}

/// Packet of neighbour discovery. Port security looks at the addresses only.
fn neighbor_discovery(source: IpAddr, destination: IpAddr) -> Payload {
    Payload::Ip(IpPacket { source, destination, transport: Transport::Echo { is_reply: false } })
}

fn packet(
    payload: Payload,
    [eth_source, eth_destination]: [Mac; 2],
    input: SwitchPortId,
    output: Option<SwitchPortId>,
) -> Packet {
    Packet {
        eth_source,
        eth_destination,
        payload,
        input: input.into(),
        output: output.map(PortId::from),
        mark: 0,
        time_to_live: TIME_TO_LIVE,
        dscp: 0,
        is_tracked: false,
    }
}
