//! Ingress pipeline of a router: admission, own addresses, routes, policies.

use std::net::IpAddr;

use super::connection::Translator;
use super::{End, Step, Trace};
use crate::northbound::{LoadBalancer, Northd, Route, RouteKind};
use crate::northbound::{Policy, PolicyAction, PolicyHop, Router, RouterPort, RouterPortId, Vip};
use crate::packet::{ANSWER_TIME_TO_LIVE, IpPacket, Transport};

/// Chains of policies that a packet goes through at most.
const CHAINS_MAX: usize = 64;

/// Next hop and port to which a router sends a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextHop {
    pub(super) output: RouterPortId,
    pub(super) address: IpAddr,
}

impl Trace<'_> {
    /// Sends the packet through the router of the port by which it comes in.
    pub(super) fn cross_router(
        &mut self,
        input: RouterPortId,
        is_looped: bool,
    ) -> Result<Step, End> {
        let northbound = self.northbound;
        let port = northbound.router_port(input);
        let router = northbound.router(port.router);
        self.packet.input = input.into();
        self.packet.output = None;
        self.packet.is_tracked = false;
        self.admit(router, port, input)?;
        self.move_to_gateway(router, input);
        self.receive(router, port, is_looped)?;
        self.untranslate(port);
        let destination = self.destination();
        let translated = self.translate_destination(router, input)?;
        self.record_destination(Translator::Router(port.router), destination);
        let routed = self.route(router, port, input)?;
        self.packet.time_to_live = self.packet.time_to_live.saturating_sub(1);
        let next_hop = self.apply_policies(router, routed)?;
        self.leave_router(router, input, next_hop, translated)
    }

    /// Admits packets for the MAC address of the port, or for one that NAT rules give to it.
    fn admit(
        &mut self,
        router: &Router,
        port: &RouterPort,
        input: RouterPortId,
    ) -> Result<(), End> {
        if !port.is_enabled {
            return Err(self.refuse(
                router,
                "lr_in_admission",
                format!("port {} is disabled", port.name),
            ));
        }
        let mac = self.packet.eth_destination;
        let proxy = match port.link {
            crate::northbound::Link::Switch(switch_port) => {
                self.northbound.switch_port(switch_port).proxy.as_ref().map(|proxy| proxy.mac)
            }
            _ => None,
        };
        let is_admitted = mac == port.mac
            || proxy == Some(mac)
            || router.kind.is_gateway_port(input)
                && router.nats.iter().any(|nat| {
                    nat.gateway == Some(input)
                        && nat.distributed_mac() == Some(mac)
                        && nat.is_resident()
                });
        if is_admitted {
            return Ok(());
        }
        let reason = format!("MAC address {mac} is not that of port {}", port.name);
        Err(self.refuse(router, "lr_in_admission", reason))
    }

    /// Stage `lr_in_ip_input`: forbidden addresses, and packets for the router itself.
    fn receive(&mut self, router: &Router, port: &RouterPort, is_looped: bool) -> Result<(), End> {
        const STAGE: &str = "lr_in_ip_input";
        let IpPacket { source, destination, transport } = self.ip()?.clone();
        let is_from_snat = |nat: &crate::northbound::Nat| {
            nat.translates_source()
                && !nat.translates_destination()
                && nat.external == source
                && nat.gateway.is_some()
                && nat.gateway.map(Into::into) == Some(self.packet.input)
        };
        if router.nats.iter().any(is_from_snat) {
            return Ok(());
        }
        let is_own_source = source.is_ipv4()
            && (router.own_addresses.contains_key(&source) || router.broadcasts.contains(&source));
        if is_own_source && !is_looped {
            let reason = format!("source {source} belongs to the router");
            return Err(self.refuse(router, STAGE, reason));
        }
        if is_forbidden(source, destination) {
            let reason = format!("{source} or {destination} is not routed");
            return Err(self.refuse(router, STAGE, reason));
        }
        let vips: Vec<(&LoadBalancer, &Vip)> =
            self.northbound.load_balancers.at(&router.load_balancers, destination).collect();
        if vips.iter().any(|(_, vip)| vip.is_template) {
            return Ok(());
        }
        let Some(owner) = router.own_addresses.get(&destination) else {
            return if destination.is_multicast() {
                Err(self.refuse(router, STAGE, format!("{destination} is a multicast address")))
            } else {
                Ok(())
            };
        };
        if transport == (Transport::Echo { is_reply: false }) {
            let decision = format!(
                "{destination} of port {} answers",
                self.northbound.port_name((*owner).into())
            );
            self.path.router(&router.name, STAGE, None, decision);
            self.answered_by = Some(port.router);
            self.packet.time_to_live = ANSWER_TIME_TO_LIVE;
            let ip = self.ip_mut()?;
            std::mem::swap(&mut ip.source, &mut ip.destination);
            ip.transport = Transport::Echo { is_reply: true };
            return Ok(());
        }
        if !router.kind.is_centralized() {
            let reason = format!("{destination} belongs to the router, which rejects");
            return Err(self.refuse(router, STAGE, reason));
        }
        let may_be_translated = router.forced.load_balanced_by_port
            && matches!(router.kind, crate::northbound::RouterKind::Gateway { .. })
            || router.snat_addresses.contains(&destination)
            || !vips.is_empty();
        if may_be_translated {
            return Ok(());
        }
        Err(self.refuse(router, STAGE, format!("{destination} belongs to the router")))
    }

    /// Gives an answer or a reply the destination that the router replaced in the request.
    fn untranslate(&mut self, port: &RouterPort) {
        if self.answered_by.is_none() && !self.is_reply() {
            return;
        }
        let Ok(destination) = self.ip().map(|ip| ip.destination) else {
            return;
        };
        let former = self.connection.former_source(port.router, destination);
        if let Some(former) = former
            && let Ok(ip) = self.ip_mut()
        {
            ip.destination = former;
        }
    }

    /// Stage `lr_in_ip_routing`.
    fn route(
        &mut self,
        router: &Router,
        port: &RouterPort,
        input: RouterPortId,
    ) -> Result<NextHop, End> {
        const STAGE: &str = "lr_in_ip_routing";
        let ip = self.ip()?;
        let destination = ip.destination;
        let announced = self.northbound.announced(router).routes(destination);
        let table = port.route_table.as_deref();
        let routes = router.routes.find(ip, input, table, announced, self.deployment.northd);
        self.path.dependences.is_by_northd |= router.routes.has_source_fallback;
        let may_be_beaten = routes
            .first()
            .is_none_or(|route| route.kind == RouteKind::Source || !route.prefix.is_host());
        if router.learns_routes && may_be_beaten {
            let effect = format!("routes that {} learns", router.name);
            self.path.leave_unjudged(router.row, &effect);
        }
        let Some(first) = routes.first() else {
            let decision = format!("no route to {destination}");
            self.path.router(&router.name, STAGE, None, decision);
            return Err(End::dropped(format!("no route on {}", router.name)));
        };
        let label = match first.kind {
            RouteKind::Connected => format!("connected network {}", first.prefix),
            RouteKind::Destination => format!("route {}", first.prefix),
            RouteKind::Source => format!("route src-ip {}", first.prefix),
        };
        // OVN's own flow that drops packets without a route has the priority 0, too.
        let is_stock = self.deployment.northd == Northd::Stock;
        if is_stock && first.kind == RouteKind::Source && first.prefix.length == 0 {
            self.path
                .leave_open(format!("{label} on {} counts as little as no route", router.name));
            return Err(self.refuse(router, STAGE, format!("no route to {destination}")));
        }
        // One route that drops makes the whole group of equal routes drop. Routes are in a group if
        // the texts of their prefixes have the same address. Connected routes are in no group.
        let is_connected = first.kind == RouteKind::Connected;
        let is_same =
            |route: &&&Route| !is_connected && route.prefix.address == first.prefix.address;
        let group = || routes.iter().filter(is_same);
        let dropping = group().find(|route| route.output.is_none());
        let is_clear = routes.len() == 1 || dropping.is_some() && group().count() == routes.len();
        if !is_clear {
            let count = routes.len();
            self.path.leave_open(format!(
                "{count} equal routes for {} on {}",
                first.prefix, router.name
            ));
        }
        let Some(output) = first.output.filter(|_| dropping.is_none()) else {
            let row = dropping.map_or(first.row, |route| route.row);
            let decision = format!("{label}: discard");
            self.path.router(&router.name, STAGE, Some(row), decision);
            self.path.stopped_by = Some(row);
            return Err(End::dropped(format!("{label} on {}", router.name)));
        };
        let address = first.next_hop.unwrap_or(destination);
        if first.has_other_outputs {
            let choice = format!("several ports of {} lead to {address}", router.name);
            self.path.leave_open(choice);
        }
        let name = &self.northbound.router_port(output).name;
        let decision = format!("{label}: next hop {address} by port {name}");
        self.path.router(&router.name, STAGE, Some(first.row), decision);
        Ok(NextHop { output, address })
    }

    /// Stage `lr_in_policy`.
    fn apply_policies(&mut self, router: &Router, routed: NextHop) -> Result<NextHop, End> {
        const STAGE: &str = "lr_in_policy";
        self.packet.output = Some(routed.output.into());
        let mut chain = "";
        for _ in 0..CHAINS_MAX {
            let Some((policy, contradiction)) = router.policies.decide(chain, &self.packet) else {
                return Ok(routed);
            };
            let label = format!("policy {} on {}", policy.priority, router.name);
            if contradiction.is_some() {
                self.path.leave_open(format!(
                    "several policies of priority {} match on {}",
                    policy.priority, router.name
                ));
            }
            // OVN's own flow that lets packets pass has the priority 0, too.
            let is_plain = policy.action == PolicyAction::Allow && policy.mark.is_none();
            if policy.priority == 0 && !is_plain {
                self.path.leave_open(format!("{label} counts as little as no policy"));
            }
            if let Some(mark) = policy.mark {
                self.packet.mark = mark;
            }
            match &policy.action {
                PolicyAction::Allow => {
                    self.note_policy(router, policy, "allow");
                    return Ok(routed);
                }
                PolicyAction::Drop => {
                    self.note_policy(router, policy, "drop");
                    self.path.stopped_by = Some(policy.row);
                    return Err(End::dropped(label));
                }
                PolicyAction::Jump(target) => {
                    self.note_policy(router, policy, &format!("jump to chain {target}"));
                    chain = target;
                }
                PolicyAction::Reroute(next_hops) => {
                    let Some(PolicyHop { address, output, has_other_outputs }) =
                        next_hops.first().copied()
                    else {
                        return Ok(routed);
                    };
                    if has_other_outputs {
                        let choice = format!("several ports of {} lead to {address}", router.name);
                        self.path.leave_open(choice);
                    }
                    if next_hops.len() > 1 {
                        let count = next_hops.len();
                        self.path.leave_open(format!("{label} has {count} next hops"));
                    }
                    let name = &self.northbound.router_port(output).name;
                    let decision = format!("reroute to {address} by port {name}");
                    self.note_policy(router, policy, &decision);
                    if !router.ports.contains(&output) {
                        let reason = format!("port {name} is one of another router");
                        return Err(self.refuse(router, STAGE, reason));
                    }
                    return Ok(NextHop { output, address });
                }
            }
        }
        let end = End::dropped(format!("policies on {} run in a circle", router.name));
        self.path.router(&router.name, STAGE, None, end.at.clone());
        Err(end)
    }

    fn note_policy(&mut self, router: &Router, policy: &Policy, action: &str) {
        let decision = format!("policy {}: {action}", policy.priority);
        self.path.router(&router.name, "lr_in_policy", Some(policy.row), decision);
    }

    /// Records the end of the packet in a router.
    pub(super) fn refuse(&mut self, router: &Router, stage: &'static str, reason: String) -> End {
        let at = format!("{reason} on {}", router.name);
        self.path.router(&router.name, stage, None, reason);
        End::dropped(at)
    }
}

/// `true` if routers drop packets with these addresses.
fn is_forbidden(source: IpAddr, destination: IpAddr) -> bool {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (source, destination) else {
        return false;
    };
    source.is_multicast()
        || source.is_broadcast()
        || source.is_loopback()
        || destination.is_loopback()
        || source.octets()[0] == 0
        || destination.octets()[0] == 0
}
