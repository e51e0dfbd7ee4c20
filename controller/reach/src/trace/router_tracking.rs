//! Cases in which a router sends a packet to connection tracking, so that `ct.new` holds.

use super::Trace;
use super::router::NextHop;
use crate::northbound::{CommitAll, LoadBalancer, Router, RouterPortId, Vip};

impl Trace<'_> {
    /// `true` if a router tracks a packet before it translates the destination.
    pub(super) fn router_tracks_in(&self, router: &Router, input: RouterPortId) -> bool {
        let Ok(ip) = self.ip() else {
            return false;
        };
        let (balancers, attached) = (&self.northbound.load_balancers, &router.load_balancers);
        let is_vip = balancers.at(attached, ip.destination).next().is_some();
        if is_vip && !balancers.is_untracked(attached, ip.destination) {
            return true;
        }
        if !router.kind.is_centralized() {
            return false;
        }
        let is_inside = router.is_gateway() || router.kind.is_gateway_port(input);
        if router.commits() && is_inside {
            return true;
        }
        // Packets for a VIP are not those that answer translated ones.
        let is_for_vip = |(balancer, vip): (&LoadBalancer, &Vip)| {
            let port = ip.transport.destination_port();
            balancer.has_protocol(ip.transport) && vip.port.is_none_or(|own| own == port)
        };
        let mut nats = router.nats.iter();
        nats.any(|nat| nat.tracks_arriving(ip.destination, input))
            && !balancers.at(attached, ip.destination).any(is_for_vip)
    }

    /// `true` if a packet is tracked when a router looks for the rule that translates its source.
    pub(super) fn router_tracks_out(
        &self,
        router: &Router,
        input: RouterPortId,
        next_hop: NextHop,
    ) -> bool {
        let output = next_hop.output;
        let Ok(ip) = self.ip() else {
            return false;
        };
        // A gateway router commits a new connection, and forgets the state of the packet.
        if router.is_gateway() {
            return router.commits();
        }
        if self.packet.is_tracked {
            return true;
        }
        let (balancers, attached) = (&self.northbound.load_balancers, &router.load_balancers);
        if !router.kind.is_gateway_port(output) && !router.kind.is_gateway_port(input) {
            return false;
        }
        // A backend that seems to answer is tracked, too, unless its source is to stay or to be
        // forced.
        let is_restored = if let Some(balancer) = balancers.of_sender(attached, ip) {
            let is_stateless = router.is_stateless(balancer);
            !balancer.skips_snat && !router.forced.is_load_balanced() && !is_stateless
        } else {
            let mut nats = router.nats.iter();
            nats.any(|nat| nat.tracks_leaving(ip.source, output))
        };
        let commits = router.commits()
            && router.kind.is_gateway_port(input)
            && router.kind.is_gateway_port(output);
        let mut nats = router.nats.iter().filter(|_| self.recognizes_answers(router));
        is_restored
            || commits
            || nats.any(|nat| nat.tracks_source(&self.packet, ip.source, ip.destination, output))
    }

    /// `true` if a distributed router looks whether packets from its gateway ports are answers to
    /// the machines of NAT rules.
    pub(super) fn recognizes_answers(&self, router: &Router) -> bool {
        router.commit == CommitAll::Off && !self.northbound.has_common_zone
    }
}
