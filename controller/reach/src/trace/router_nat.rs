//! Translation of destinations by NAT rules and load balancers of a router.

use super::{End, Trace};
use crate::northbound::{LoadBalancer, NatEffect, Router, RouterKind, RouterPortId, Vip};
use crate::packet::IpPacket;

/// Priority of a VIP without backends that takes packets for events.
const EVENT_PRIORITY: i64 = 130;
/// Priority of a VIP with a port, among translations of destinations.
const VIP_WITH_PORT_PRIORITY: i64 = 120;
/// Priority of a VIP without a port.
const VIP_PRIORITY: i64 = 110;

/// Translation of a packet's destination by a router.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Translated {
    /// `true` if a load balancer without `skip_snat` chose the destination.
    pub(super) is_balanced: bool,
    /// `true` if a load balancer with `skip_snat` chose the destination.
    pub(super) skips_snat: bool,
    /// `true` if a NAT rule of a gateway router translated the destination.
    pub(super) is_dnat: bool,
}

impl<'a> Trace<'a> {
    /// Stage `lr_in_dnat`: NAT rules and load balancers.
    pub(super) fn translate_destination(
        &mut self,
        router: &'a Router,
        input: RouterPortId,
    ) -> Result<Translated, End> {
        const STAGE: &str = "lr_in_dnat";
        if self.is_reply() {
            return Ok(Translated::default());
        }
        let northbound = self.northbound;
        let ip = self.ip()?.clone();
        self.packet.is_tracked = self.router_tracks_in(router, input);
        let vips = self.router_vips(router, &ip);
        let event = northbound.load_balancers.event(&router.load_balancers, &ip);
        let vip_priority = match vips.first() {
            _ if event.is_some() => EVENT_PRIORITY,
            Some((_, vip)) if vip.port.is_some() => VIP_WITH_PORT_PRIORITY,
            Some(_) => VIP_PRIORITY,
            None => i64::MIN,
        };
        let packet = &self.packet;
        let effects = router
            .nats
            .iter()
            .filter(|_| router.kind.is_centralized())
            .filter_map(|nat| nat.dnat(packet, ip.source, ip.destination, input));
        let answering = router.nats.iter().filter(|_| self.recognizes_answers(router));
        let exempted =
            answering.filter_map(|nat| nat.exempted_answer(ip.source, ip.destination, input));
        let (effect, tie) = strongest(effects.chain(exempted));
        if let Some(effect) = effect.filter(|effect| effect.priority >= vip_priority) {
            let is_other = |tie: NatEffect<'_>| {
                (tie.is_exempted, tie.nat.logical) != (effect.is_exempted, effect.nat.logical)
            };
            if tie.is_some_and(is_other) || effect.priority == vip_priority {
                let address = ip.destination;
                self.path
                    .leave_open(format!("several rules translate {address} on {}", router.name));
            }
            if effect.is_exempted {
                return Ok(Translated::default());
            }
            let address = effect.nat.logical.address;
            let decision = format!("NAT {}: destination {address}", effect.nat.kind);
            self.path.router(&router.name, STAGE, Some(effect.nat.row), decision);
            self.ip_mut()?.destination = address;
            self.limit_port_range(effect.nat, ip.transport);
            self.packet.is_tracked |= !effect.nat.is_stateless;
            let is_dnat = matches!(router.kind, RouterKind::Gateway { .. });
            return Ok(Translated { is_dnat, ..Translated::default() });
        }
        let balancers = &northbound.load_balancers;
        let Some((balancer, vip)) = vips.first().copied() else {
            if let Some(own) = balancers.stateless_at(&router.load_balancers, ip.destination) {
                let label = own.label();
                let decision = format!("load balancer {label} has no state of the connection");
                self.path.router(&router.name, STAGE, Some(own.row), decision);
            }
            return Ok(Translated::default());
        };
        let label = format!("load balancer {}", balancer.label());
        let backends = router.backends(balancer, vip);
        if !backends.is_empty() && !self.is_at_gateway(router) {
            let decision = format!("{label} translates on the active gateway only");
            self.path.router(&router.name, STAGE, Some(balancer.row), decision);
            return Ok(Translated::default());
        }
        self.limit_variables(balancer);
        if !router.is_stateless(balancer) {
            self.limit_checks(balancer, vip);
        }
        if vips.len() > 1 {
            self.path.leave_open(format!(
                "{} load balancers of {} have the VIP {}",
                vips.len(),
                router.name,
                vip.address
            ));
        }
        let Some((backend, port)) = backends.first().copied() else {
            let verb = vip.empty.verb();
            let decision = format!("{label} has no backends and {verb}");
            self.path.router(&router.name, STAGE, Some(balancer.row), decision.clone());
            self.path.stopped_by = Some(balancer.row);
            return Err(End::dropped(format!("{decision} on {}", router.name)));
        };
        let decision = format!("{label}: backend {backend}");
        self.path.router(&router.name, STAGE, Some(balancer.row), decision);
        self.send_to_backend(&label, backends.len(), (backend, port))?;
        if router.is_stateless(balancer) {
            return Ok(Translated::default());
        }
        Ok(Translated {
            is_balanced: !balancer.skips_snat,
            skips_snat: balancer.skips_snat,
            is_dnat: false,
        })
    }

    /// VIPs of a router that a packet is for, those with a port first.
    ///
    /// VIPs with `use_stateless_nat` serve packets that are tracked for another reason. The router
    /// does not look at the ports of packets for their addresses. With several gateway ports, it
    /// translates for them without state.
    fn router_vips(
        &self,
        router: &'a Router,
        packet: &IpPacket,
    ) -> Vec<(&'a LoadBalancer, &'a Vip)> {
        let (balancers, attached) = (&self.northbound.load_balancers, &router.load_balancers);
        let stateless = balancers.stateless_at(attached, packet.destination);
        balancers.find(attached, packet, |balancer, vip| {
            if router.is_stateless(balancer) {
                return !router.backends(balancer, vip).is_empty();
            }
            self.packet.is_tracked && (vip.port.is_none() || stateless.is_none())
        })
    }
}

/// The effect with the highest priority, and another one with the same priority.
pub(super) fn strongest<'a>(
    effects: impl Iterator<Item = NatEffect<'a>>,
) -> (Option<NatEffect<'a>>, Option<NatEffect<'a>>) {
    let (mut best, mut tie): (Option<NatEffect<'a>>, _) = (None, None);
    for effect in effects {
        match &best {
            Some(own) if own.priority > effect.priority => {}
            Some(own) if own.priority == effect.priority => tie = Some(effect),
            _ => (best, tie) = (Some(effect), None),
        }
    }
    (best, tie)
}
