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
pub(crate) struct Linked {
    pub(crate) switch: SwitchId,
    /// The last crossing on the way to the switch.
    pub(crate) crossing: Crossing,
    /// Place of the switch before it in the list of linked ones. `None`: the first switch.
    before: Option<u32>,
}

/// The network of a switch, as packets from this switch get through it.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The switches behind the ports of type `switch`, nearest first, without the switch itself.
    pub(crate) linked: Vec<Linked>,
    /// The router ports on the switch and on the linked ones.
    pub(crate) router_ports: Vec<RouterPortId>,
}

impl Segment {
    /// The way to a switch. It is empty for the first switch, and for those that are not linked.
    pub(crate) fn crossings(&self, to: SwitchId) -> Vec<Crossing> {
        let is_wanted = |linked: &&Linked| linked.switch == to;
        let mut next = self.linked.iter().find(is_wanted);
        let mut crossings = Vec::new();
        while let Some(linked) = next {
            crossings.push(linked.crossing);
            next = linked.before.map(|place| &self.linked[place as usize]);
        }
        crossings.reverse();
        crossings
    }
}

impl Northbound {
    /// The network of a switch. The first question about the switch looks for it.
    pub(crate) fn segment<'a>(&'a self, switch: &'a Switch) -> &'a Segment {
        switch.segment.get_or_init(|| {
            let linked = self.find_linked_switches(switch);
            let others = linked.iter().map(|linked| self.switch(linked.switch));
            let switches = std::iter::once(switch).chain(others);
            let ports = switches.flat_map(|switch| &switch.router_ports);
            let router_ports = ports.map(|(_, router_port)| *router_port).collect();
            Segment { linked, router_ports }
        })
    }

    /// The switches behind the ports of type `switch` of a switch, nearest first, without itself.
    fn find_linked_switches(&self, switch: &Switch) -> Vec<Linked> {
        let mut found: Vec<Linked> = Vec::new();
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
                        switch: peer_port.switch,
                        crossing: Crossing { output: *port, input: *peer },
                        before,
                    });
                }
            }
            let Some(linked) = found.get(next) else {
                return found;
            };
            (current, before) = (self.switch(linked.switch), Some(next as u32));
            next += 1;
        }
    }
}
