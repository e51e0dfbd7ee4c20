//! Switches that ports of type `switch` make one network.

use std::collections::HashSet;

use super::{Northbound, RouterPortId, Switch, SwitchId, SwitchPortId};

/// Ports of type `switch` by which packets get from one switch to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossing {
    /// Port by which packets leave the first switch.
    pub(crate) output: SwitchPortId,
    /// Port by which they come into the second one.
    pub(crate) input: SwitchPortId,
}

/// Switch behind ports of type `switch`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linked<'a> {
    pub(crate) id: SwitchId,
    pub(crate) switch: &'a Switch,
    /// The last crossing on the way to the switch.
    pub(crate) crossing: Crossing,
    /// Place of the switch before it in the list of linked ones. `None`: the first switch.
    before: Option<usize>,
}

impl Northbound {
    /// The switches behind the ports of type `switch` of a switch, nearest first, without itself.
    pub(crate) fn linked<'a>(&'a self, switch: &'a Switch) -> Vec<Linked<'a>> {
        let mut found: Vec<Linked<'a>> = Vec::new();
        let Some((start, _)) = switch.links.first() else {
            return found;
        };
        let mut seen = HashSet::from([self.switch_port(*start).switch]);
        let (mut current, mut before) = (switch, None);
        let mut next = 0;
        loop {
            for (port, peer) in &current.links {
                let peer_port = self.switch_port(*peer);
                if peer_port.is_enabled && seen.insert(peer_port.switch) {
                    found.push(Linked {
                        id: peer_port.switch,
                        switch: self.switch(peer_port.switch),
                        crossing: Crossing {
                            output: *port,
                            input: *peer,
                        },
                        before,
                    });
                }
            }
            let Some(linked) = found.get(next) else {
                return found;
            };
            (current, before) = (linked.switch, Some(next));
            next += 1;
        }
    }

    /// The way from a switch to a linked one. It is empty if both are the same, or not linked.
    pub(crate) fn crossings(&self, from: &Switch, to: SwitchId) -> Vec<Crossing> {
        let linked = self.linked(from);
        let mut next = linked.iter().position(|linked| linked.id == to);
        let mut crossings = Vec::new();
        while let Some(place) = next {
            crossings.push(linked[place].crossing);
            next = linked[place].before;
        }
        crossings.reverse();
        crossings
    }

    /// The router ports on a switch and on those that are linked with it.
    pub(crate) fn segment_routers(&self, switch: &Switch) -> Vec<RouterPortId> {
        let linked = self.linked(switch);
        let linked = linked.iter().flat_map(|linked| &linked.switch.router_ports);
        let ports = switch.router_ports.iter().chain(linked);
        ports.map(|(_, router_port)| *router_port).collect()
    }
}
