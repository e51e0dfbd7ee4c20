//! Egress pipeline of a switch.

use patchbay_schemas::nb::AclAction;

use super::connection::Translator;
use super::{End, Step, Trace};
use crate::northbound::{AclPlace, Switch, SwitchId, SwitchPortId, SwitchPortKind};
use crate::packet::{Packet, Payload};

impl Trace<'_> {
    /// Sends the packet out of a switch by a port.
    pub(super) fn leave_switch(
        &mut self,
        switch: &Switch,
        output: SwitchPortId,
    ) -> Result<Step, End> {
        let port = self.northbound.switch_port(output);
        self.packet.output = Some(output.into());
        let was_tracked = self.packet.is_tracked;
        self.packet.is_tracked = self.is_tracked_out(switch, output);
        self.commit(output);
        self.restore_source(Translator::Port(output));
        if was_tracked && self.packet.is_tracked {
            self.compare_states(switch, output);
        }
        if self.answered_by.is_some() {
            self.compare_answers(switch, port.switch);
        }
        self.pass_acls(switch, AclPlace::Egress)?;
        self.mark(switch, false);
        if !port.may_receive(&self.packet) {
            let reason = format!("port security of {}", port.name);
            return Err(self.stop(switch, "ls_out_apply_port_sec", reason));
        }
        Ok(self.deliver(output))
    }

    /// Records a choice if it matters whether a packet that the switch has tracked keeps its state
    /// on its way to a port that is not tracked again:
    ///
    /// - OVN clears the state of a packet whose connection it commits; ovn-trace keeps it.
    /// - OVN's flow for packets of stateless ACLs, which keeps the state, and the one for the
    ///   router port, which clears it, have the same priority.
    fn compare_states(&mut self, switch: &Switch, output: SwitchPortId) {
        let port = self.northbound.switch_port(output);
        let acls = self.northbound.acls(switch);
        let is_unclear = if acls.is_stateful {
            port.skips_tracking()
        } else {
            port.kind == SwitchPortKind::Router
                && switch.load_balancers.has_own_vip
                && !switch.tracks_vips
                && acls.is_stateless(false, &self.packet)
        };
        if !is_unclear || self.is_reply() {
            return;
        }
        let mut cleared = self.packet.clone();
        cleared.is_tracked = false;
        if self.is_dropped_out(switch, &cleared) != self.is_dropped_out(switch, &self.packet) {
            let choice = format!("switch {} may clear the state of the packet", switch.name);
            self.path.leave_open(choice);
        }
    }

    /// Records a choice if it matters whether the switch knows the connection of a router's answer.
    /// ACLs drop no answer to a request that the switch has tracked. An answer to another request
    /// is invalid for it. ovn-trace follows both like the first packet of a connection.
    fn compare_answers(&mut self, switch: &Switch, id: SwitchId) {
        if !self.packet.is_tracked {
            return;
        }
        let verb = match (self.tracking.contains(&id), self.is_dropped_out(switch, &self.packet)) {
            (true, true) => "may know",
            (false, false) => "may not know",
            _ => return,
        };
        let choice = format!("switch {} {verb} the connection of the answer", switch.name);
        self.path.leave_open(choice);
    }

    /// `true` if egress ACLs of a switch drop a packet.
    fn is_dropped_out(&self, switch: &Switch, packet: &Packet) -> bool {
        let acls = self.northbound.acls(switch);
        match acls.decide(AclPlace::Egress, packet).acl {
            Some(acl) => matches!(acl.action, AclAction::Drop | AclAction::Reject),
            None => self.northbound.drops_by_default && acls.is_present,
        }
    }

    /// `true` if the packet is tracked when it goes out. The state of the ingress pipeline stays
    /// unless the switch tracks again, or clears it before a router.
    fn is_tracked_out(&self, switch: &Switch, output: SwitchPortId) -> bool {
        let acls = self.northbound.acls(switch);
        let balances = switch.load_balancers.has_own_vip;
        let is_ip = matches!(self.packet.payload, Payload::Ip(_));
        if !is_ip {
            return false;
        }
        let was_tracked = self.packet.is_tracked;
        if (acls.is_stateful || balances) && acls.is_stateless(false, &self.packet) {
            return was_tracked || balances && switch.tracks_vips;
        }
        let port = self.northbound.switch_port(output);
        if acls.is_stateful && !port.skips_tracking() {
            return true;
        }
        match port.kind {
            SwitchPortKind::Router => was_tracked && acls.is_stateful,
            SwitchPortKind::Switch => was_tracked,
            SwitchPortKind::Outside if !balances => was_tracked && acls.is_stateful,
            _ => was_tracked || balances,
        }
    }
}
