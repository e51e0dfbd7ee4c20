//! Switches that ports of type `switch` make one network.

use std::collections::HashSet;

use super::{Northbound, RouterPortId, Switch, SwitchPortId};

/// Switch behind ports of type `switch`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linked<'a> {
    pub(crate) switch: &'a Switch,
    /// Port of the first switch that leads there.
    pub(crate) output: SwitchPortId,
    /// Port of the linked switch by which packets come in.
    pub(crate) input: SwitchPortId,
}

impl Northbound {
    /// The switches behind the ports of type `switch` of a switch, nearest first, without itself.
    pub(crate) fn linked<'a>(&'a self, switch: &'a Switch) -> Vec<Linked<'a>> {
        let mut found: Vec<Linked<'a>> = Vec::new();
        let Some((start, _)) = switch.links.first() else {
            return found;
        };
        let mut seen = HashSet::from([self.switch_port(*start).switch]);
        let (mut current, mut first) = (switch, None);
        let mut next = 0;
        loop {
            for (port, peer) in &current.links {
                let peer_port = self.switch_port(*peer);
                if peer_port.is_enabled && seen.insert(peer_port.switch) {
                    found.push(Linked {
                        switch: self.switch(peer_port.switch),
                        output: first.unwrap_or(*port),
                        input: *peer,
                    });
                }
            }
            let Some(linked) = found.get(next) else {
                return found;
            };
            (current, first) = (linked.switch, Some(linked.output));
            next += 1;
        }
    }

    /// The router ports on a switch and on those that are linked with it.
    pub(crate) fn segment_routers(&self, switch: &Switch) -> Vec<RouterPortId> {
        let linked = self.linked(switch);
        let linked = linked.iter().flat_map(|linked| &linked.switch.router_ports);
        let ports = switch.router_ports.iter().chain(linked);
        ports.map(|(_, router_port)| *router_port).collect()
    }
}
