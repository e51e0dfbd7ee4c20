//! State of connections for a NAT rule: packets that the rule makes a router track, and packets
//! that could be answers.

use std::net::IpAddr;

use patchbay_schemas::nb::NatType;

use super::{EXEMPTED_BONUS, Nat, NatEffect, NatMatch};
use crate::address::bits;
use crate::northbound::RouterPortId;
use crate::packet::Packet;

/// Advantage of the answers to the machine of a `dnat_and_snat` rule over the rule.
const ANSWER_BONUS: i64 = 5;

impl Nat {
    /// `true` if the rule has a match, which may name the state of a connection.
    pub(crate) fn has_match(&self) -> bool {
        matches!(self.matches, NatMatch::If(_))
    }

    /// `true` if a router sends a packet that comes in by a port to connection tracking, to restore
    /// a destination that the rule has translated.
    pub(crate) fn tracks_arriving(&self, destination: IpAddr, input: RouterPortId) -> bool {
        self.translates_source()
            && !self.is_stateless
            && self.external == destination
            && self.gateway.is_none_or(|gateway| gateway == input)
    }

    /// `true` if a distributed router sends a packet that goes out by a port to connection
    /// tracking, because the rule may have translated the destination of the connection.
    pub(crate) fn tracks_leaving(&self, source: IpAddr, output: RouterPortId) -> bool {
        self.translates_destination()
            && !self.is_stateless
            && self.logical.address == source
            && self.gateway == Some(output)
    }

    /// `true` if a distributed router sends a packet to connection tracking before it looks for the
    /// rule that translates its source.
    pub(crate) fn tracks_source(
        &self,
        packet: &Packet,
        source: IpAddr,
        destination: IpAddr,
        output: RouterPortId,
    ) -> bool {
        self.translates_source()
            && !self.is_stateless
            && self.is_resident()
            && self.gateway == Some(output)
            && self.logical.contains(source)
            && self.allows(destination)
            && self.matches.holds(packet)
    }

    /// The effect of exempted addresses on a packet from a gateway port for a machine of the rule:
    /// a router that could take it for an answer does not translate its destination.
    pub(crate) fn exempted_answer(
        &self,
        source: IpAddr,
        destination: IpAddr,
        input: RouterPortId,
    ) -> Option<NatEffect<'_>> {
        let exempted = self.exempted.as_ref()?;
        let applies = self.translates_source()
            && !self.is_stateless
            && self.is_resident()
            && self.gateway == Some(input)
            && self.logical.contains(destination)
            && exempted.contains(bits(source));
        applies.then(|| NatEffect {
            priority: self.dnat_priority() + EXEMPTED_BONUS,
            nat: self,
            is_exempted: true,
        })
    }

    /// Priority with which a packet from a gateway port keeps its source, because its destination
    /// is a machine of the rule: it could be an answer. `None`: the packet is not for such a
    /// machine.
    pub(crate) fn answer_priority(
        &self,
        packet: &Packet,
        source: IpAddr,
        destination: IpAddr,
        input: RouterPortId,
    ) -> Option<i64> {
        let applies = self.translates_source()
            && !self.is_stateless
            && self.is_resident()
            && self.logical.contains(destination)
            && self.gateway == Some(input)
            && self.allows(source)
            && self.matches.holds(packet);
        let bonus = match self.kind {
            NatType::DnatAndSnat => ANSWER_BONUS,
            NatType::Dnat | NatType::Snat => 0,
        };
        applies.then(|| self.snat_priority() + bonus)
    }
}
