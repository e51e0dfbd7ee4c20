//! Ingress pipeline of a switch.

use std::net::IpAddr;

use patchbay_schemas::nb::AclAction;

use super::connection::Translator;
use super::limits::DNS_PORT;
use super::{End, Path, Step, Trace};
use crate::northbound::{
    Acl, AclDecision, AclPlace, LoadBalancer, Northbound, Switch, SwitchPortId, SwitchPortKind, Vip,
};
use crate::packet::{Packet, Payload, Transport};

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
        if port.kind == SwitchPortKind::Ramp {
            let output = self.find_output(switch, input)?;
            return self.leave_switch(switch, output);
        }
        self.packet.is_tracked = self.is_tracked_in(switch, input);
        if self.packet.is_tracked && self.answered_by.is_none() {
            self.tracking.push(port.switch);
        }
        self.commit(input);
        self.pass_acls(switch, AclPlace::BeforeLoadBalancing)?;
        self.mark(switch, true);
        let destination = self.destination();
        let balanced = self.balance(switch)?;
        self.record_destination(Translator::Port(input), destination);
        if let Some(hairpin_source) = balanced {
            let decision = format!("{} is the sender itself", self.ip()?.destination);
            self.path.switch(name, "ls_in_hairpin", None, decision);
            let packet = &mut self.packet;
            std::mem::swap(&mut packet.eth_source, &mut packet.eth_destination);
            self.ip_mut()?.source = hairpin_source;
            return self.leave_switch(switch, input);
        }
        self.pass_acls(switch, AclPlace::AfterLoadBalancing)?;
        if let Some(row) = switch.dns
            && matches!(self.ip()?.transport, Transport::Udp { destination, .. } if destination == DNS_PORT)
        {
            let effect = format!("which DNS queries switch {name} answers");
            self.path.leave_unjudged(row, &effect);
        }
        let output = self.find_output(switch, input)?;
        self.leave_switch(switch, output)
    }

    /// `true` if the switch sends the packet to connection tracking when it comes in.
    fn is_tracked_in(&self, switch: &Switch, input: SwitchPortId) -> bool {
        if self.packet.eth_destination == self.northbound.monitor_mac {
            return false;
        }
        let acls = self.northbound.acls(switch);
        let balances = switch.load_balancers.has_own_vip;
        let is_ip = matches!(self.packet.payload, Payload::Ip(_));
        if switch.tracks_vips && self.is_for_vip(switch) {
            return true;
        }
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

    /// `true` if the destination is a VIP of the switch, for the protocol of its load balancer.
    fn is_for_vip(&self, switch: &Switch) -> bool {
        let balancers = &self.northbound.load_balancers;
        let ip = self.ip();
        ip.is_ok_and(|ip| balancers.has_destination(&switch.load_balancers, ip))
    }

    /// Lets the ACLs of one place decide.
    ///
    /// # Errors
    /// They drop the packet.
    pub(super) fn pass_acls(&mut self, switch: &Switch, place: AclPlace) -> Result<(), End> {
        if self.northbound.is_check(place, &self.packet) {
            return Ok(());
        }
        let stage = stage_of(place);
        if self.is_established(switch, stage, place == AclPlace::Egress)? {
            return Ok(());
        }
        let acls = self.northbound.acls(switch);
        let decision = acls.decide(place, &self.packet);
        leave_tie_open(&decision, place, &mut self.path);
        leave_function_unjudged(&decision, &mut self.path);
        if let Some(row) = acls.translation {
            let name = &switch.name;
            let effect = format!("which ports of the connection the ACLs of {name} compare");
            self.path.leave_unjudged(row, &effect);
        }
        match decision.acl {
            Some(acl) if matches!(acl.action, AclAction::Drop | AclAction::Reject) => {
                let text = format!("{} on switch {}", describe(acl, place), switch.name);
                let decision = format!("{}: {}", describe(acl, place), acl.action);
                self.path.switch(&switch.name, stage, Some(acl.row), decision);
                self.path.stopped_by = Some(acl.row);
                Err(End::dropped(text))
            }
            Some(acl) => {
                let decision = format!("{}: {}", describe(acl, place), acl.action);
                self.path.switch(&switch.name, stage, Some(acl.row), decision);
                Ok(())
            }
            None if self.northbound.drops_by_default && acls.is_present => {
                Err(self.stop(switch, stage, "no ACL allows the packet".to_owned()))
            }
            None => Ok(()),
        }
    }

    /// Applies the load balancers of a switch. Returns the new source of a packet whose backend is
    /// its sender.
    fn balance(&mut self, switch: &Switch) -> Result<Option<IpAddr>, End> {
        let northbound = self.northbound;
        if self.is_reply() || !switch.load_balancers.has_vip {
            return Ok(None);
        }
        let event = northbound.load_balancers.event(&switch.load_balancers, self.ip()?);
        if !self.packet.is_tracked && event.is_none() {
            return Ok(None);
        }
        // Only switches with VIPs of their own look at the ports of packets.
        let attached = &switch.load_balancers;
        let serves = |_: &LoadBalancer, vip: &Vip| attached.has_own_vip || vip.port.is_none();
        let vips = northbound.load_balancers.find(attached, self.ip()?, serves);
        let Some((balancer, vip)) = vips.first().copied() else {
            return Ok(None);
        };
        let label = format!("load balancer {}", balancer.label());
        self.limit_variables(balancer);
        self.limit_checks(balancer, vip);
        if vips.len() > 1 {
            let address = vip.address;
            self.path.leave_open(format!("{} load balancers have the VIP {address}", vips.len()));
        }
        let Some((backend, port)) = vip.backends.first().copied() else {
            let verb = vip.empty.verb();
            let decision = format!("{label} has no backends and {verb}");
            self.path.switch(&switch.name, "ls_in_lb", Some(balancer.row), decision.clone());
            self.path.stopped_by = Some(balancer.row);
            return Err(End::dropped(format!("{decision} on switch {}", switch.name)));
        };
        let decision = format!("{label}: backend {backend}");
        self.path.switch(&switch.name, "ls_in_lb", Some(balancer.row), decision);
        let ip = self.send_to_backend(&label, vip.backends.len(), (backend, port))?;
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

impl Northbound {
    /// `true` if ACLs of a place let a packet pass as one of a health check.
    fn is_check(&self, place: AclPlace, packet: &Packet) -> bool {
        match place {
            AclPlace::BeforeLoadBalancing => packet.eth_destination == self.monitor_mac,
            AclPlace::AfterLoadBalancing => false,
            AclPlace::Egress => packet.eth_source == self.monitor_mac,
        }
    }

    /// Lets the ACLs of one place of a switch decide on a request for a MAC address, or on its
    /// reply. Neighbour discovery passes.
    ///
    /// # Errors
    /// The ACL that stops it.
    pub(super) fn pass_request(
        &self,
        switch: &Switch,
        place: AclPlace,
        packet: &Packet,
        path: &mut Path,
    ) -> Result<(), String> {
        if matches!(packet.payload, Payload::Ip(_)) || self.is_check(place, packet) {
            return Ok(());
        }
        let acls = self.acls(switch);
        let decision = acls.decide(place, packet);
        leave_tie_open(&decision, place, path);
        leave_function_unjudged(&decision, path);
        let name = &switch.name;
        let (row, reason, decision) = match decision.acl {
            Some(acl) if matches!(acl.action, AclAction::Drop | AclAction::Reject) => {
                let reason = describe(acl, place);
                let decision = format!("{reason}: {}", acl.action);
                (Some(acl.row), reason, decision)
            }
            None if self.drops_by_default && acls.is_present => {
                let reason = "no ACL allows ARP".to_owned();
                (None, reason.clone(), reason)
            }
            _ => return Ok(()),
        };
        path.switch(name, stage_of(place), row, decision);
        Err(format!("{reason} on switch {name}"))
    }
}

/// Records that a network function gets the packet that an ACL allows.
fn leave_function_unjudged(decision: &AclDecision<'_>, path: &mut Path) {
    // OVN has no other ACLs with such a group.
    let Some(acl) = decision.acl else { return };
    if let Some(group) = &acl.function_group {
        let effect = format!("network function group {group} gets the packet");
        path.leave_unjudged(acl.row, &effect);
    }
}

/// Records that ACLs with the same priority decide differently.
fn leave_tie_open(decision: &AclDecision<'_>, place: AclPlace, path: &mut Path) {
    if let Some((acl, other)) = decision.contradiction {
        path.leave_open(format!(
            "{} and {} have the same priority",
            describe(acl, place),
            describe(other, place)
        ));
    }
}
