//! ARP requests of senders, and the replies: where ACLs and port security stop them.

use std::net::{IpAddr, Ipv4Addr};

use super::Path;
use super::sender::Frame;
use crate::address::Mac;
use crate::northbound::{AclPlace, Northbound, Owner, PortId, SwitchPortId, SwitchPortKind};
use crate::packet::{Arp, IpPacket, Packet, Payload, TIME_TO_LIVE};

impl Northbound {
    /// The place where the ARP request of a frame's sender or the reply is stopped. `None`: the sender
    /// gets the MAC address, or its port lets no packet of it pass.
    pub(crate) fn blocked_arp(&self, frame: &Frame, path: &mut Path) -> Option<String> {
        let (IpAddr::V4(target), owners) = frame.resolved.as_ref()? else {
            return None;
        };
        let Payload::Ip(IpPacket {
            source: IpAddr::V4(source),
            ..
        }) = frame.packet.payload
        else {
            return None;
        };
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
        Some(format!("ARP for {target}: {at}"))
    }

    /// Follows an ARP request from switch to switch, and the reply of the owner of the address.
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
        let crossings = self.crossings(first, owner.switch);
        let mut input = sender;
        let mut inputs = Vec::with_capacity(crossings.len());
        for crossing in &crossings {
            self.enter(&exchange.request(input, None), input, path)?;
            let request = exchange.request(input, Some(crossing.output));
            self.leave(&request, crossing.output, path)?;
            inputs.push(input);
            input = crossing.input;
        }
        self.enter(&exchange.request(input, None), input, path)?;
        let switch = self.switch(owner.switch);
        let asked = owner
            .port
            .filter(|port| !self.has_responder(switch, *port, exchange.target.into()));
        if let Some(port) = asked {
            self.leave(&exchange.request(input, Some(port)), port, path)?;
            self.enter(&exchange.reply(port, None), port, path)?;
        }
        let reply = exchange.reply(asked.unwrap_or(input), Some(input));
        self.leave(&reply, input, path)?;
        for (crossing, input) in crossings.iter().zip(inputs).rev() {
            let reply = exchange.reply(crossing.output, None);
            self.enter(&reply, crossing.output, path)?;
            let reply = exchange.reply(crossing.output, Some(input));
            self.leave(&reply, input, path)?;
        }
        Ok(())
    }

    /// Ingress pipeline of a switch for an ARP packet.
    fn enter(&self, arp: &Packet, input: SwitchPortId, path: &mut Path) -> Result<(), String> {
        let port = self.switch_port(input);
        // The lookup of a destination is the first stage for what comes from a VTEP.
        if port.kind == SwitchPortKind::Ramp {
            return Ok(());
        }
        // Machines outside have MAC addresses that are not known here.
        if !port.kind.is_outside() && !port.may_send(arp) {
            return Err(format!("port security of {}", port.name));
        }
        let switch = self.switch(port.switch);
        self.pass_arp(switch, AclPlace::BeforeLoadBalancing, arp, path)?;
        self.pass_arp(switch, AclPlace::AfterLoadBalancing, arp, path)
    }

    /// Egress pipeline of a switch for an ARP packet.
    fn leave(&self, arp: &Packet, output: SwitchPortId, path: &mut Path) -> Result<(), String> {
        let port = self.switch_port(output);
        self.pass_arp(self.switch(port.switch), AclPlace::Egress, arp, path)?;
        let is_broadcast = arp.eth_destination == Mac::BROADCAST;
        if is_broadcast || port.may_receive(arp) {
            Ok(())
        } else {
            Err(format!("port security of {}", port.name))
        }
    }
}

/// Addresses of an ARP request and its reply.
struct Exchange {
    source: Ipv4Addr,
    source_mac: Mac,
    target: Ipv4Addr,
    target_mac: Mac,
}

impl Exchange {
    fn request(&self, input: SwitchPortId, output: Option<SwitchPortId>) -> Packet {
        let arp = Arp {
            is_reply: false,
            source: self.source,
            source_mac: self.source_mac,
            target: self.target,
            target_mac: Mac::ZERO,
        };
        packet(arp, Mac::BROADCAST, input, output)
    }

    fn reply(&self, input: SwitchPortId, output: Option<SwitchPortId>) -> Packet {
        let arp = Arp {
            is_reply: true,
            source: self.target,
            source_mac: self.target_mac,
            target: self.source,
            target_mac: self.source_mac,
        };
        packet(arp, self.source_mac, input, output)
    }
}

fn packet(
    arp: Arp,
    eth_destination: Mac,
    input: SwitchPortId,
    output: Option<SwitchPortId>,
) -> Packet {
    Packet {
        eth_source: arp.source_mac,
        eth_destination,
        payload: Payload::Arp(arp),
        input: input.into(),
        output: output.map(PortId::from),
        mark: 0,
        time_to_live: TIME_TO_LIVE,
        dscp: 0,
        is_tracked: false,
    }
}
