//! Rows whose effect on a packet does not follow from the Northbound database alone.

use std::net::IpAddr;

use super::{Path, Trace};
use crate::northbound::{LoadBalancer, Nat, Northbound, Switch, SwitchPortId, Variables, Vip};
use crate::packet::Transport;

/// UDP port of DNS.
pub(super) const DNS_PORT: u16 = 53;

impl Northbound {
    /// Records what the type of the port leaves unjudged of packets that come in through it.
    pub(super) fn limit_port(&self, port: SwitchPortId, path: &mut Path) {
        let port = self.switch_port(port);
        if let Some(limit) = port.sender_limit {
            path.leave_unjudged(port.row, &format!("{limit}: {}", port.name));
        }
    }

    /// Records what the type of the sender's port and the destination leave unjudged.
    pub(crate) fn limit_sender(&self, sender: SwitchPortId, destination: IpAddr, path: &mut Path) {
        self.limit_port(sender, path);
        let port = self.switch_port(sender);
        let is_broadcast = matches!(destination, IpAddr::V4(address) if address.is_broadcast());
        if is_broadcast || destination.is_multicast() {
            let switch = self.switch(port.switch);
            let name = &switch.name;
            let effect = format!("which ports of switch {name} get packets for {destination}");
            path.leave_unjudged(switch.row, &effect);
        }
    }

    /// Records what may answer for an address of a switch that no port is known to have. `asking`
    /// is the switch port of the asker.
    pub(crate) fn limit_neighbor(
        &self,
        switch: &Switch,
        asking: SwitchPortId,
        address: IpAddr,
        path: &mut Path,
    ) {
        if let Some(id) = switch.virtual_ports.get(&address) {
            let port = self.switch_port(*id);
            let effect = format!("which parent of virtual port {} has {address}", port.name);
            path.leave_unjudged(port.row, &effect);
        }
        let mut others = switch
            .unknown
            .iter()
            .filter(|port| **port != asking)
            .map(|port| self.switch_port(*port));
        if let Some(port) = others.find(|port| !port.kind.leads_on()) {
            let effect = format!("whether the machine of port {} has {address}", port.name);
            path.leave_unjudged(port.row, &effect);
        }
        if switch.has_remote_neighbors {
            let effect = format!("neighbours that switch {} learns by EVPN", switch.name);
            path.leave_unjudged(switch.row, &effect);
        }
    }
}

impl Trace<'_> {
    /// Records that health checks decide on the backends of a VIP.
    pub(super) fn limit_checks(&mut self, balancer: &LoadBalancer, vip: &Vip) {
        let label = balancer.label();
        if vip.is_checked && !vip.backends.is_empty() {
            let effect = format!("which backends of load balancer {label} are online");
            self.path.leave_unjudged(balancer.row, &effect);
        }
    }

    /// Records that a NAT rule replaces the destination port by one of its range.
    pub(super) fn limit_port_range(&mut self, nat: &Nat, transport: Transport) {
        let is_echo = matches!(transport, Transport::Echo { .. });
        if !is_echo && nat.moves_port(transport.destination_port()) {
            let effect = "which port of the rule's range is the new destination port";
            self.path.leave_unjudged(nat.row, effect);
        }
    }

    /// Records that the chassis decides on the variables of a template.
    pub(super) fn limit_variables(&mut self, balancer: &LoadBalancer) {
        let label = balancer.label();
        if balancer.variables == Variables::Guessed {
            let effect = format!("which chassis' variables load balancer {label} gets");
            self.path.leave_unjudged(balancer.row, &effect);
        }
    }
}
