//! Egress pipeline of a switch.

use super::{End, Step, Trace};
use crate::northbound::{AclPlace, Switch, SwitchPortId, SwitchPortKind};
use crate::packet::Payload;

impl Trace<'_> {
    /// Sends the packet out of a switch by a port.
    pub(super) fn leave_switch(
        &mut self,
        switch: &Switch,
        output: SwitchPortId,
    ) -> Result<Step, End> {
        let port = self.northbound.switch_port(output);
        self.packet.output = Some(output.into());
        self.packet.is_tracked = self.is_tracked_out(switch, output);
        self.pass_acls(switch, AclPlace::Egress)?;
        self.mark(switch, false);
        if !port.may_receive(&self.packet) {
            let reason = format!("port security of {}", port.name);
            return Err(self.stop(switch, "ls_out_apply_port_sec", reason));
        }
        Ok(self.deliver(output))
    }

    /// `true` if the packet is tracked when it goes out. The state of the ingress pipeline stays
    /// unless the switch tracks again, or clears it before a router.
    fn is_tracked_out(&self, switch: &Switch, output: SwitchPortId) -> bool {
        let acls = &switch.acls;
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
