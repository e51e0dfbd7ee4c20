//! Ingress pipeline of a switch.

use std::net::IpAddr;

use super::{End, Step, Trace};
use crate::northbound::{Acl, AclPlace, PortId, Switch, SwitchPortId, SwitchPortKind};
use crate::packet::{Packet, Payload};

use patchbay_schemas::nb::AclAction;

impl Trace<'_> {
    /// Sends the packet through the switch of the port by which it comes in.
    pub(super) fn cross_switch(&mut self, input: SwitchPortId) -> Result<Step, End> {
        let northbound = self.northbound;
        let port = northbound.switch_port(input);
        let switch = northbound.switch(port.switch);
        self.packet.input = input.into();
        self.packet.output = None;
        self.packet.is_tracked = false;
        let name = &switch.name;
        if !port.is_enabled {
            return Err(self.stop(
                switch,
                "ls_in_check_port_sec",
                format!("port {} is disabled", port.name),
            ));
        }
        if !port.may_send(&self.packet) {
            let reason = format!("port security of {}", port.name);
            return Err(self.stop(switch, "ls_in_apply_port_sec", reason));
        }
        self.packet.is_tracked = self.is_tracked_in(switch, input);
        self.pass_acls(switch, AclPlace::BeforeLoadBalancing)?;
        self.mark(switch, true);
        let balanced = self.balance(switch)?;
        if let Some(hairpin_source) = balanced {
            let decision = format!("{} is the sender itself", self.ip()?.destination);
            self.path.switch(name, "ls_in_hairpin", None, decision);
            let packet = &mut self.packet;
            std::mem::swap(&mut packet.eth_source, &mut packet.eth_destination);
            self.ip_mut()?.source = hairpin_source;
            return self.leave_switch(switch, input);
        }
        self.pass_acls(switch, AclPlace::AfterLoadBalancing)?;
        let output = self.find_output(switch, input)?;
        if output == input {
            let reason = format!("the packet came in by {}", port.name);
            return Err(self.stop(switch, "ls_in_l2_lkup", reason));
        }
        self.leave_switch(switch, output)
    }

    /// `true` if the switch sends the packet to connection tracking when it comes in.
    fn is_tracked_in(&self, switch: &Switch, input: SwitchPortId) -> bool {
        let acls = &switch.acls;
        let balances = switch.load_balancers.has_vip;
        let is_ip = matches!(self.packet.payload, Payload::Ip(_));
        if !is_ip || !(acls.is_stateful || balances) || acls.is_stateless(true, &self.packet) {
            return false;
        }
        let port = self.northbound.switch_port(input);
        let for_acls = acls.is_stateful && !port.skips_tracking();
        // Load balancers serve packets from outside, not those from routers.
        let for_balancers =
            balances && !matches!(port.kind, SwitchPortKind::Router | SwitchPortKind::Switch);
        for_acls || for_balancers
    }

    /// Lets the ACLs of one place decide.
    ///
    /// # Errors
    /// They drop the packet.
    pub(super) fn pass_acls(&mut self, switch: &Switch, place: AclPlace) -> Result<(), End> {
        let decision = switch.acls.decide(place, &self.packet);
        if let Some((acl, other)) = decision.contradiction {
            self.path.leave_open(format!(
                "{} and {} have the same priority",
                describe(acl, place),
                describe(other, place)
            ));
        }
        let stage = stage_of(place);
        match decision.acl {
            Some(acl) if matches!(acl.action, AclAction::Drop | AclAction::Reject) => {
                let text = format!("{} on switch {}", describe(acl, place), switch.name);
                let decision = format!("{}: {}", describe(acl, place), acl.action);
                self.path
                    .switch(&switch.name, stage, Some(acl.row), decision);
                Err(End::dropped(text))
            }
            Some(acl) => {
                let decision = format!("{}: {}", describe(acl, place), acl.action);
                self.path
                    .switch(&switch.name, stage, Some(acl.row), decision);
                Ok(())
            }
            None if self.northbound.drops_by_default && switch.acls.is_present => {
                Err(self.stop(switch, stage, "no ACL allows the packet".to_owned()))
            }
            None => Ok(()),
        }
    }

    /// Applies the load balancers of a switch. Returns the new source of a packet whose backend is
    /// its sender.
    fn balance(&mut self, switch: &Switch) -> Result<Option<IpAddr>, End> {
        let northbound = self.northbound;
        if !self.packet.is_tracked || !switch.load_balancers.has_vip {
            return Ok(None);
        }
        let vips = northbound
            .load_balancers
            .find(&switch.load_balancers, self.ip()?);
        let Some((balancer, vip)) = vips.first().copied() else {
            return Ok(None);
        };
        let label = format!("load balancer {}", balancer.label());
        if vips.len() > 1 {
            let address = vip.address;
            self.path.leave_open(format!(
                "{} load balancers have the VIP {address}",
                vips.len()
            ));
        }
        let Some((backend, port)) = vip.backends.first().copied() else {
            let verb = if vip.rejects { "rejects" } else { "drops" };
            let decision = format!("{label} has no backends and {verb}");
            self.path.switch(
                &switch.name,
                "ls_in_lb",
                Some(balancer.row),
                decision.clone(),
            );
            return Err(End::dropped(format!(
                "{decision} on switch {}",
                switch.name
            )));
        };
        if vip.backends.len() > 1 {
            let count = vip.backends.len();
            self.path
                .leave_open(format!("{label} has {count} backends"));
        }
        let decision = format!("{label}: backend {backend}");
        self.path
            .switch(&switch.name, "ls_in_lb", Some(balancer.row), decision);
        let ip = self.ip_mut()?;
        ip.destination = backend;
        if port != 0 {
            ip.transport.set_destination_port(port);
        }
        if ip.source != backend {
            return Ok(None);
        }
        let is_family = |address: &&IpAddr| address.is_ipv4() == backend.is_ipv4();
        let source = balancer.hairpin_sources.iter().find(is_family);
        Ok(Some(source.copied().unwrap_or(vip.address)))
    }

    /// Applies the rows of `QoS` of one direction.
    pub(super) fn mark(&mut self, switch: &Switch, is_ingress: bool) {
        if switch.marks.apply(is_ingress, &mut self.packet) {
            let name = &switch.name;
            let choice = format!("QoS of priority 0 on switch {name} counts as little as none");
            self.path.leave_open(choice);
        }
    }

    /// The port behind which the destination MAC address is.
    fn find_output(&mut self, switch: &Switch, input: SwitchPortId) -> Result<SwitchPortId, End> {
        let northbound = self.northbound;
        let mac = self.packet.eth_destination;
        let known = switch
            .by_mac
            .get(&mac)
            .map(Vec::as_slice)
            .unwrap_or_default();
        if let Some(first) = known.first().copied() {
            if known.len() > 1 {
                self.path
                    .leave_open(format!("{} ports have the MAC address {mac}", known.len()));
            }
            let port = northbound.switch_port(first);
            if !port.is_enabled {
                let reason = format!("port {} is disabled", port.name);
                return Err(self.stop(switch, "ls_in_l2_lkup", reason));
            }
            let decision = format!("to port {}", port.name);
            self.path
                .switch(&switch.name, "ls_in_l2_lkup", None, decision);
            return Ok(first);
        }
        let distributed = switch.router_ports.iter().find(|(_, router_port)| {
            let router = northbound.router(northbound.router_port(*router_port).router);
            router.nats.iter().any(|nat| {
                nat.distributed_mac == Some(mac)
                    && nat.is_resident()
                    && router.kind.is_gateway_port(*router_port)
            })
        });
        if let Some((port, _)) = distributed {
            let decision = format!("to port {}", northbound.switch_port(*port).name);
            self.path
                .switch(&switch.name, "ls_in_l2_lkup", None, decision);
            return Ok(*port);
        }
        let others = || switch.unknown.iter().copied().filter(|port| *port != input);
        let is_outside =
            |port: &SwitchPortId| northbound.switch_port(*port).kind == SwitchPortKind::Outside;
        let Some(output) = others().find(is_outside).or_else(|| others().next()) else {
            let reason = match switch.unknown.first() {
                Some(_) => format!(
                    "the packet came in by {}, the only port for unknown MAC addresses",
                    northbound.port_name(input.into())
                ),
                None => format!("no port has the MAC address {mac}"),
            };
            return Err(self.stop(switch, "ls_in_l2_unknown", reason));
        };
        if others().count() > 1 {
            self.path
                .leave_open("several ports get packets for unknown MAC addresses".to_owned());
        }
        let decision = format!("to port {}", northbound.switch_port(output).name);
        self.path
            .switch(&switch.name, "ls_in_l2_unknown", None, decision);
        Ok(output)
    }

    /// Records the end of the packet in a switch.
    pub(super) fn stop(&mut self, switch: &Switch, stage: &'static str, reason: String) -> End {
        let at = format!("{reason} on switch {}", switch.name);
        self.path.switch(&switch.name, stage, None, reason);
        End::dropped(at)
    }
}

/// ACL in words: direction, priority, tier and name.
fn describe(acl: &Acl, place: AclPlace) -> String {
    let direction = match place {
        AclPlace::BeforeLoadBalancing | AclPlace::AfterLoadBalancing => "from-lport",
        AclPlace::Egress => "to-lport",
    };
    let tier = match acl.tier {
        0 => String::new(),
        tier => format!(" of tier {tier}"),
    };
    let name = match acl.name.as_deref() {
        None | Some("") => String::new(),
        Some(name) => format!(" ({name})"),
    };
    format!("ACL {direction} {}{tier}{name}", acl.priority)
}

fn stage_of(place: AclPlace) -> &'static str {
    match place {
        AclPlace::BeforeLoadBalancing => "ls_in_acl_eval",
        AclPlace::AfterLoadBalancing => "ls_in_acl_after_lb_eval",
        AclPlace::Egress => "ls_out_acl_eval",
    }
}

/// `true` if the ACLs of a switch drop a packet in a place, without a record.
pub(super) fn blocks(
    switch: &Switch,
    place: AclPlace,
    packet: &Packet,
    drops_by_default: bool,
) -> Option<String> {
    let decision = switch.acls.decide(place, packet);
    match decision.acl {
        Some(acl) if matches!(acl.action, AclAction::Drop | AclAction::Reject) => Some(format!(
            "{} on switch {}",
            describe(acl, place),
            switch.name
        )),
        None if drops_by_default && switch.acls.is_present => {
            Some(format!("no ACL allows ARP on switch {}", switch.name))
        }
        _ => None,
    }
}

/// `true` if a port belongs to a router.
pub(super) fn is_router(peer: Option<PortId>) -> bool {
    matches!(peer, Some(PortId::Router(_)))
}
