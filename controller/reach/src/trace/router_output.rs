//! Resolution of the next hop and egress pipeline of a router.

use std::net::IpAddr;

use super::connection::Translator;
use super::router::NextHop;
use super::router_nat::{Translated, strongest};
use super::{End, Entry, Step, Trace};
use crate::northbound::{Link, LoadBalancer, Nat, Router, RouterPortId, Vip};

/// Priority with which load balancers without state give answers the address of a VIP.
const STATELESS_PRIORITY: i64 = 160;
/// Priority with which `skip_snat` keeps the source.
const SKIP_PRIORITY: i64 = 120;
/// Priority of `lb_force_snat_ip=router_ip`.
const FORCE_BY_PORT_PRIORITY: i64 = 110;
/// Priority of the addresses of `lb_force_snat_ip` and `dnat_force_snat_ip`.
const FORCE_PRIORITY: i64 = 100;
/// Priority with which `ct-commit-all` keeps the sources of new connections.
const COMMIT_PRIORITY: i64 = 10;
/// Largest number of a network that `lb_force_snat_ip=router_ip` distinguishes.
const NETWORK_NUMBER_MAX: usize = 15;

impl<'a> Trace<'a> {
    /// Sends the packet out of a router.
    pub(super) fn leave_router(
        &mut self,
        router: &'a Router,
        input: RouterPortId,
        next_hop: NextHop,
        translated: Translated,
    ) -> Result<Step, End> {
        let northbound = self.northbound;
        let port = northbound.router_port(next_hop.output);
        if port.router != northbound.router_port(input).router {
            let reason = format!("port {} is one of another router", port.name);
            return Err(self.refuse(router, "lr_in_arp_resolve", reason));
        }
        self.packet.output = Some(next_hop.output.into());
        self.packet.eth_source = port.mac;
        // The next hop is looked up behind one of them.
        if port.switch_ports > 1 {
            let choice = format!("several switch ports lead to router port {}", port.name);
            self.path.leave_open(choice);
        }
        self.resolve(router, input, next_hop)?;
        if !self.is_reply() && self.redirect(router, next_hop.output)? {
            return Ok(self.enter_again(next_hop.output));
        }
        self.move_to_gateway(router, next_hop.output);
        self.translate_source(router, input, next_hop, translated)?;
        let destination = self.ip()?.destination;
        let is_external = router.nats.iter().any(|nat| {
            nat.external == destination && nat.gateway == Some(next_hop.output) && nat.is_resident()
        });
        if is_external {
            let decision = format!("{destination} is an address of NAT: the packet comes in again");
            self.path.router(&router.name, "lr_out_egr_loop", None, decision);
            return Ok(self.enter_again(next_hop.output));
        }
        if !port.is_enabled {
            let reason = format!("port {} is disabled", port.name);
            return Err(self.refuse(router, "lr_out_delivery", reason));
        }
        Ok(self.deliver_from_router(next_hop.output))
    }

    /// Sends the packet into the router again by the port by which it would go out.
    fn enter_again(&mut self, port: RouterPortId) -> Step {
        let packet = &mut self.packet;
        std::mem::swap(&mut packet.eth_source, &mut packet.eth_destination);
        Step::Next(Entry::Router { port, is_looped: true })
    }

    /// Stage `lr_in_arp_resolve`: the MAC address of the next hop.
    fn resolve(
        &mut self,
        router: &Router,
        input: RouterPortId,
        next_hop: NextHop,
    ) -> Result<(), End> {
        const STAGE: &str = "lr_in_arp_resolve";
        let NextHop { output, address } = next_hop;
        let destination = self.ip()?.destination;
        let of_gateway = || router.nats.iter().filter(|nat| nat.gateway == Some(output));
        if input == output && of_gateway().any(|nat| nat.external == destination) {
            let reason = format!("{destination} of NAT was not translated");
            return Err(self.refuse(router, STAGE, reason));
        }
        if let Some(nat) = of_gateway().find(|nat| nat.external == address) {
            let mac = self.northbound.router_port(output).mac;
            self.packet.eth_destination = nat.distributed_mac().unwrap_or(mac);
            return Ok(());
        }
        if router.own_addresses.contains_key(&address) {
            let reason = format!("{address} belongs to the router");
            return Err(self.refuse(router, STAGE, reason));
        }
        let next = self.northbound.next_hop(output, address);
        if !next.is_some_and(|next| next.is_known || next.asked.is_some())
            && let Link::Switch(port) = self.northbound.router_port(output).link
        {
            let switch = self.northbound.switch(self.northbound.switch_port(port).switch);
            self.northbound.limit_neighbor(switch, port, address, &mut self.path);
        }
        let Some(next) = next else {
            let reason = format!("nobody answers ARP or ND for {address}");
            return Err(self.refuse(router, STAGE, reason));
        };
        // Nobody outside has an address that the router has by a load balancer.
        let is_outside = !next.is_known && next.asked.is_none();
        let balancers = &self.northbound.load_balancers;
        if is_outside && balancers.at(&router.load_balancers, address).next().is_some() {
            let reason = format!("{address} of a load balancer was not translated");
            return Err(self.refuse(router, STAGE, reason));
        }
        // Untranslated packets for an address of SNAT or of a VIP that is the router's, too.
        if !next.is_known && router.own_addresses.contains_key(&destination) {
            let reason = format!("{destination} belongs to the router");
            return Err(self.refuse(router, STAGE, reason));
        }
        if next.others > 0 {
            let count = next.others + 1;
            self.path.leave_open(format!("{count} neighbours have the address {address}"));
        }
        if let Some(owner) = next.asked {
            let asked =
                self.northbound.ask_neighbor(output, (address, next.mac), owner, &mut self.path);
            if let Err(at) = asked {
                let protocol = if address.is_ipv4() { "ARP" } else { "ND" };
                return Err(self.refuse(router, STAGE, format!("{protocol} for {address}: {at}")));
            }
        }
        self.packet.eth_destination = next.mac;
        Ok(())
    }

    /// Stage `lr_out_snat`.
    fn translate_source(
        &mut self,
        router: &'a Router,
        input: RouterPortId,
        next_hop: NextHop,
        translated: Translated,
    ) -> Result<(), End> {
        const STAGE: &str = "lr_out_snat";
        if self.is_reply() {
            let id = self.northbound.router_port(next_hop.output).router;
            self.restore_source(Translator::Router(id));
            return Ok(());
        }
        let ip = self.ip()?;
        let (source, destination) = (ip.source, ip.destination);
        if router.nats.iter().any(Nat::has_match) {
            self.packet.is_tracked = self.router_tracks_out(router, input, next_hop);
        }
        let packet = &self.packet;
        let effects = router
            .nats
            .iter()
            .filter(|_| router.kind.is_centralized())
            .filter_map(|nat| nat.snat(packet, source, destination, next_hop.output));
        let (effect, tie) = strongest(effects);
        let priority = effect.map_or(i64::MIN, |effect| effect.priority);
        let kept = self.kept_source(router, input);
        if let Some((balancer, vip)) = self.stateless_answer(router, input, next_hop)
            && STATELESS_PRIORITY >= priority.max(kept.unwrap_or(i64::MIN))
        {
            let address = vip.address;
            if STATELESS_PRIORITY == priority.max(kept.unwrap_or(i64::MIN)) {
                self.leave_source_open(router, source);
            }
            let decision = format!("load balancer {}: source {address}", balancer.label());
            self.path.router(&router.name, STAGE, Some(balancer.row), decision);
            if let Some(port) = vip.port {
                self.ip_mut()?.transport.set_source_port(port);
            }
            return self.replace_source(next_hop, address);
        }
        if translated.skips_snat && priority <= SKIP_PRIORITY {
            let decision = format!("skip_snat of the load balancer keeps source {source}");
            self.path.router(&router.name, STAGE, None, decision);
            return Ok(());
        }
        if let Some((forced, forced_priority)) =
            self.forced_source(router, next_hop, translated, source)
            && forced_priority >= priority
        {
            let decision = format!("forced source {forced}");
            self.path.router(&router.name, STAGE, None, decision);
            return self.replace_source(next_hop, forced);
        }
        let Some(effect) = effect.filter(|effect| !effect.is_exempted) else {
            return Ok(());
        };
        if let Some(tie) = tie
            && tie.nat.external != effect.nat.external
        {
            self.leave_source_open(router, source);
        }
        if let Some(kept) = kept
            && kept >= effect.priority
        {
            if kept == effect.priority {
                self.path.leave_open(format!(
                    "translating source {source} on {} counts as much as keeping it",
                    router.name
                ));
            }
            let decision = format!("source {source} stays as that of an answer");
            self.path.router(&router.name, STAGE, None, decision);
            return Ok(());
        }
        let external = effect.nat.external;
        let decision = format!("NAT {}: source {external}", effect.nat.kind);
        self.path.router(&router.name, STAGE, Some(effect.nat.row), decision);
        if let Some(mac) = effect.nat.distributed_mac() {
            self.packet.eth_source = mac;
        }
        self.replace_source(next_hop, external)
    }

    /// The VIP of a load balancer that translates without state, and one of whose backends seems to
    /// answer: the address takes the place of the source. `None`: there is none.
    fn stateless_answer(
        &self,
        router: &'a Router,
        input: RouterPortId,
        next_hop: NextHop,
    ) -> Option<(&'a LoadBalancer, &'a Vip)> {
        let kind = &router.kind;
        if !kind.is_gateway_port(input) && !kind.is_gateway_port(next_hop.output) {
            return None;
        }
        let balancers = &self.northbound.load_balancers;
        let mut vips = balancers
            .stateless_of_sender(&router.load_balancers, self.ip().ok()?)
            .filter(|(balancer, _)| router.is_stateless(balancer));
        vips.next()
    }

    fn leave_source_open(&mut self, router: &Router, source: IpAddr) {
        let name = &router.name;
        let choice = format!("several rules translate source {source} on {name}");
        self.path.leave_open(choice);
    }

    /// Priority of the flows that keep the source of a packet. `None`: there are none.
    fn kept_source(&self, router: &Router, input: RouterPortId) -> Option<i64> {
        let ip = self.ip().ok()?;
        let nats = router.nats.iter().filter(|_| self.recognizes_answers(router));
        let answers = nats
            .filter_map(|nat| nat.answer_priority(&self.packet, ip.source, ip.destination, input));
        let commits = router.is_gateway() && router.commits();
        let committed = commits.then_some(COMMIT_PRIORITY);
        answers.chain(committed).max()
    }

    fn replace_source(&mut self, next_hop: NextHop, new: IpAddr) -> Result<(), End> {
        let router = self.northbound.router_port(next_hop.output).router;
        let former = self.ip()?.source;
        self.connection.add_source(router, new, former);
        self.ip_mut()?.source = new;
        Ok(())
    }

    /// The source that the options of a gateway router force on translated packets, with its
    /// priority.
    fn forced_source(
        &self,
        router: &Router,
        next_hop: NextHop,
        translated: Translated,
        source: IpAddr,
    ) -> Option<(IpAddr, i64)> {
        if !router.is_gateway() {
            return None;
        }
        let is_family = |address: &&IpAddr| address.is_ipv4() == source.is_ipv4();
        let forced = &router.forced;
        if translated.is_balanced && forced.load_balanced_by_port {
            let port = self.northbound.router_port(next_hop.output);
            let mut own = port.networks.iter().filter(|network| {
                is_family(&&network.address)
                    && !matches!(network.address, IpAddr::V6(own) if own.is_unicast_link_local())
            });
            let first = own.clone().next()?;
            let network = own
                .by_ref()
                .take(NETWORK_NUMBER_MAX + 1)
                .find(|network| network.contains(next_hop.address));
            return Some((network.unwrap_or(first).address, FORCE_BY_PORT_PRIORITY));
        }
        let addresses = match translated {
            Translated { is_balanced: true, .. } => &forced.load_balanced,
            Translated { is_dnat: true, .. } => &forced.translated,
            _ => return None,
        };
        let address = addresses.iter().find(is_family)?;
        Some((*address, FORCE_PRIORITY))
    }
}
