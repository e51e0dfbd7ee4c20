//! Lookup of the port by which a switch sends a packet out.

use super::{End, Trace};
use crate::address::Mac;
use crate::northbound::{ForwardingGroup, Linked, Switch, SwitchPortId};
use crate::packet::Transport;

impl Trace<'_> {
    /// The port by which the packet goes out.
    ///
    /// # Errors
    /// No port gets it, or only the one by which it came in.
    pub(super) fn find_output(
        &mut self,
        switch: &Switch,
        input: SwitchPortId,
    ) -> Result<SwitchPortId, End> {
        let is_check = self.packet.eth_destination == self.northbound.monitor_mac;
        let transport = self.ip().map(|ip| ip.transport);
        if is_check && matches!(transport, Ok(Transport::Tcp { .. } | Transport::Echo { .. })) {
            let reason = "ovn-controller takes it for the answer to a health check";
            return Err(self.stop(switch, "ls_in_l2_lkup", reason.to_owned()));
        }
        let output = match self.find_redirect(switch) {
            Some(output) => output,
            None => self.find_mac(switch, input)?,
        };
        if output == input {
            let name = self.northbound.port_name(input.into());
            let reason = format!("the packet came in by {name}");
            return Err(self.stop(switch, "ls_in_l2_lkup", reason));
        }
        Ok(output)
    }

    /// The port that gets packets of routing protocols in place of a router.
    fn find_redirect(&mut self, switch: &Switch) -> Option<SwitchPortId> {
        let ip = self.ip().ok()?;
        let redirect = switch.redirects.iter().find(|redirect| redirect.takes(ip))?;
        let name = self.northbound.port_name(redirect.output.into());
        let decision = format!("routing protocol to port {name}");
        self.path.switch(&switch.name, "ls_in_l2_lkup", Some(redirect.row), decision);
        Some(redirect.output)
    }

    /// The port of a forwarding group that gets packets for the group's MAC address.
    fn find_in_group(
        &mut self,
        switch: &Switch,
        group: &ForwardingGroup,
    ) -> Result<SwitchPortId, End> {
        let label = format!("forwarding group {}", group.name);
        let Some(first) = group.ports.first().copied() else {
            let reason = format!("{label} has a child port that is not known");
            return Err(self.stop(switch, "ls_in_l2_lkup", reason));
        };
        if group.is_monitored {
            let effect = format!("the tunnels to which ports of {label} work");
            self.path.leave_unjudged(group.row, &effect);
        }
        if group.ports.len() > 1 {
            let count = group.ports.len();
            self.path.leave_open(format!("{label} has {count} ports"));
        }
        let name = self.northbound.port_name(first.into());
        let decision = format!("{label}: to port {name}");
        self.path.switch(&switch.name, "ls_in_l2_lkup", Some(group.row), decision);
        Ok(first)
    }

    /// The port behind which the destination MAC address is.
    fn find_mac(&mut self, switch: &Switch, input: SwitchPortId) -> Result<SwitchPortId, End> {
        let northbound = self.northbound;
        let mac = self.packet.eth_destination;
        let mut groups = switch.forwarding_groups.iter();
        if let Some(group) = groups.find(|group| group.mac == mac) {
            return self.find_in_group(switch, group);
        }
        let known = switch.by_mac.get(&mac).map(Vec::as_slice).unwrap_or_default();
        if let Some(first) = known.first().copied() {
            if known.len() > 1 {
                self.path.leave_open(format!("{} ports have the MAC address {mac}", known.len()));
            }
            let port = northbound.switch_port(first);
            if !port.is_enabled {
                let reason = format!("port {} is disabled", port.name);
                return Err(self.stop(switch, "ls_in_l2_lkup", reason));
            }
            let decision = format!("to port {}", port.name);
            self.path.switch(&switch.name, "ls_in_l2_lkup", None, decision);
            return Ok(first);
        }
        let known = switch.router_ports.iter().find(|(_, router_port)| {
            let router = northbound.router(northbound.router_port(*router_port).router);
            router
                .nats
                .iter()
                .any(|nat| nat.attracts(mac) && router.kind.is_gateway_port(*router_port))
        });
        if let Some((port, _)) = known {
            let decision = format!("to port {}", northbound.switch_port(*port).name);
            self.path.switch(&switch.name, "ls_in_l2_lkup", None, decision);
            return Ok(*port);
        }
        let others = || switch.unknown.iter().copied().filter(|port| *port != input);
        let is_outside = |port: &SwitchPortId| northbound.switch_port(*port).kind.is_outside();
        let has_mac = |port: &SwitchPortId| {
            let mut interfaces = northbound.switch_port(*port).interfaces.iter();
            interfaces.any(|interface| interface.mac == mac)
        };
        let owner = others().find(has_mac);
        let linked = || self.find_linked(switch, mac).filter(|port| *port != input);
        let outside = || others().find(is_outside);
        let Some(output) = owner.or_else(linked).or_else(outside).or_else(|| others().next())
        else {
            let reason = match switch.unknown.first() {
                Some(_) => format!(
                    "the packet came in by {}, the only port for unknown MAC addresses",
                    northbound.port_name(input.into())
                ),
                None => format!("no port has the MAC address {mac}"),
            };
            if switch.has_remote_neighbors {
                let effect = format!("neighbours that switch {} learns by EVPN", switch.name);
                self.path.leave_unjudged(switch.row, &effect);
            }
            return Err(self.stop(switch, "ls_in_l2_unknown", reason));
        };
        if others().count() > 1 {
            self.path.leave_open("several ports get packets for unknown MAC addresses".to_owned());
        }
        let decision = format!("to port {}", northbound.switch_port(output).name);
        self.path.switch(&switch.name, "ls_in_l2_unknown", None, decision);
        Ok(output)
    }

    /// The port of type `switch` that leads to the linked switch on which a port has a MAC address.
    fn find_linked(&self, switch: &Switch, mac: Mac) -> Option<SwitchPortId> {
        let northbound = self.northbound;
        let segment = northbound.segment(switch);
        let has_mac = |linked: &&Linked| {
            let switch = northbound.switch(linked.switch);
            switch.by_mac.contains_key(&mac)
        };
        let owner = segment.linked.iter().find(has_mac)?;
        let crossings = segment.crossings(owner.switch);
        crossings.first().map(|crossing| crossing.output)
    }
}
