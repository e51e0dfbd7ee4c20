//! MAC addresses of IP addresses: who answers an ARP or ND request on a switch.

use std::net::IpAddr;

use super::switch::RequestFlood;
use super::{
    Link, Northbound, PortId, Responder, Router, RouterPort, RouterPortId, Switch, SwitchId,
    SwitchPortId, Variables,
};
use crate::address::Mac;

/// Owner of an IP address on a switch, as far as it is known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Neighbor {
    Known {
        owner: Owner,
        mac: Mac,
    },
    /// A machine that the database does not know may have the address.
    Outside,
    /// Nobody answers.
    Nobody,
}

/// Owner of an IP address: a machine, a router or a switch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Owner {
    pub(crate) switch: SwitchId,
    /// Port of the switch before the owner. `None`: the switch itself.
    pub(crate) port: Option<SwitchPortId>,
}

/// MAC address of a next hop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextHopMac {
    /// Zero: the address of a machine that the database does not know.
    pub(crate) mac: Mac,
    /// `true` if OVN gives the router the address, so that it does not have to ask.
    pub(crate) is_known: bool,
    /// Owner that has to answer the router's request. `None`: none, or a machine that the database
    /// does not know.
    pub(crate) asked: Option<Owner>,
    /// Number of other neighbours that have the IP address.
    pub(crate) others: usize,
}

impl Northbound {
    /// The neighbour that answers for an address on a switch or on those linked with it, and the
    /// number of others that answer, too. `asking` is the switch port of the asker.
    pub(crate) fn neighbor(
        &self,
        switch: &Switch,
        asking: SwitchPortId,
        address: IpAddr,
    ) -> (Neighbor, usize) {
        let id = self.switch_port(asking).switch;
        let (own, others) = self.own_neighbor((id, switch), asking, address);
        if matches!(own, Neighbor::Known { .. }) {
            return (own, others);
        }
        let mut result = own;
        for linked in &self.segment(switch).linked {
            let place = (linked.switch, self.switch(linked.switch));
            match self.own_neighbor(place, linked.crossing.input, address) {
                known @ (Neighbor::Known { .. }, _) => return known,
                (Neighbor::Outside, _) => result = Neighbor::Outside,
                (Neighbor::Nobody, _) => {}
            }
        }
        // For machines, nobody outside has an address of a port, also if its owner does not answer.
        let is_machine = !matches!(self.switch_port(asking).peer, Some(PortId::Router(_)));
        if result == Neighbor::Outside && is_machine && self.is_assigned(switch, address) {
            result = Neighbor::Nobody;
        }
        (result, 0)
    }

    /// `true` if a port of a switch or of those linked with it has an address, or a router behind
    /// one.
    fn is_assigned(&self, switch: &Switch, address: IpAddr) -> bool {
        let has = |switch: &Switch| {
            let mut routers = switch.router_ports.iter();
            switch.by_address.contains_key(&address)
                || routers.any(|(_, port)| self.router_port(*port).has_address(address))
        };
        let mut linked = self.segment(switch).linked.iter();
        has(switch) || linked.any(|linked| has(self.switch(linked.switch)))
    }

    /// [`neighbor`](Self::neighbor) on one switch. `asking`: the port by which the request comes
    /// in.
    fn own_neighbor(
        &self,
        (id, switch): (SwitchId, &Switch),
        asking: SwitchPortId,
        address: IpAddr,
    ) -> (Neighbor, usize) {
        let is_router = matches!(self.switch_port(asking).peer, Some(PortId::Router(_)));
        // Routers know the addresses of enabled ports without requests, but not link-local ones.
        let mut found = owners(switch, address, |id, _| {
            let port = self.switch_port(id);
            is_router && id != asking && port.is_enabled && port.has(address)
        });
        if found.is_empty() && switch.check_sources.contains(&address) {
            let owner = Owner { switch: id, port: None };
            let mac = self.monitor_mac;
            return (Neighbor::Known { owner, mac }, 0);
        }
        if found.is_empty() {
            found = owners(switch, address, |id, mac| {
                let port = self.switch_port(id);
                if is_router {
                    let answers = port.may_answer(mac, address) && self.answers_itself(switch, id);
                    id != asking && answers
                } else {
                    self.has_responder(switch, id, address)
                }
            });
        }
        if !self.switch_port(asking).kind.is_outside() {
            let groups = switch.forwarding_groups.iter();
            let of_address = groups.filter(|group| group.address.map(IpAddr::V4) == Some(address));
            found.extend(of_address.map(|group| (None, group.mac)));
        }
        if found.is_empty() && !is_router {
            let proxy = self.answer_of_proxy(switch, address);
            found.extend(proxy.map(|mac| (None, mac)));
        }
        // The others get the request and answer themselves.
        if found.is_empty() && !is_router {
            found = owners(switch, address, |id, _| self.answers_itself(switch, id));
        }
        if found.is_empty() {
            let others = switch
                .router_ports
                .iter()
                .filter(|(port, _)| *port != asking && self.switch_port(*port).is_enabled);
            let is_flooded = match switch.flood {
                RequestFlood::All => true,
                RequestFlood::Machines => !is_router,
                RequestFlood::Nobody => false,
            };
            let others =
                others.filter(|(_, router_port)| is_flooded || self.hears(*router_port, address));
            for (port, router_port) in others {
                let mac = self.answer_of_router(*router_port, address);
                found.extend(mac.map(|mac| (Some(*port), mac)));
            }
        }
        match found[..] {
            [(port, mac), ..] => {
                let owner = Owner { switch: id, port };
                (Neighbor::Known { owner, mac }, found.len() - 1)
            }
            [] if self.has_outside_port(switch, asking) => (Neighbor::Outside, 0),
            [] => (Neighbor::Nobody, 0),
        }
    }

    /// `true` if what is behind a port gets requests for its addresses, and replies to them.
    fn answers_itself(&self, switch: &Switch, id: SwitchPortId) -> bool {
        let port = self.switch_port(id);
        let is_router_enabled = match port.peer {
            Some(PortId::Router(router_port)) => self.router_port(router_port).is_enabled,
            _ => true,
        };
        // A machine that gets routing protocols in place of a router must not answer for it.
        let mut redirects = switch.redirects.iter();
        port.is_enabled
            && is_router_enabled
            && !port.requests.is_deaf
            && redirects.all(|redirect| redirect.output != id)
    }

    /// `true` if the switch answers in place of a port with an address.
    pub(crate) fn has_responder(
        &self,
        switch: &Switch,
        port: SwitchPortId,
        address: IpAddr,
    ) -> bool {
        let port = self.switch_port(port);
        port.requests.has_responder && !switch.is_transparent && port.has(address)
    }

    /// `true` if a port of a switch, other than `asking`, leads to a network that OVN does not
    /// know.
    fn has_outside_port(&self, switch: &Switch, asking: SwitchPortId) -> bool {
        let mut others = switch.unknown.iter().filter(|port| **port != asking);
        others.any(|port| self.switch_port(*port).kind.is_outside())
    }

    /// Ports of a switch, other than `asking`, and of those linked with it, that lead to machines
    /// that the database does not know.
    pub(crate) fn outside_ports(&self, switch: &Switch, asking: SwitchPortId) -> Vec<Owner> {
        let linked = self.segment(switch).linked.iter();
        let switches = linked.map(|linked| self.switch(linked.switch));
        let ports = std::iter::once(switch)
            .chain(switches)
            .flat_map(|switch| &switch.unknown)
            .filter(|port| **port != asking)
            .map(|port| (*port, self.switch_port(*port)))
            .filter(|(_, port)| port.kind.is_outside());
        let owners = ports.map(|(id, port)| Owner { switch: port.switch, port: Some(id) });
        owners.collect()
    }

    /// The MAC address with which a router answers on a port for an address of the port, of NAT
    /// rules and of load balancers. `None`: it does not answer.
    fn answer_of_router(&self, id: RouterPortId, address: IpAddr) -> Option<Mac> {
        let port = self.router_port(id);
        if !port.is_enabled {
            return None;
        }
        if port.has_address(address) {
            return Some(port.mac);
        }
        let router = self.router(port.router);
        let is_gateway = router.kind.is_gateway_port(id);
        let nat = router.nats.iter().find(|nat| nat.external == address);
        if let Some(nat) = nat {
            if is_gateway && nat.gateway == Some(id) && nat.distributed_mac().is_some() {
                return nat.distributed_mac().filter(|_| nat.is_resident());
            }
            return Some(port.mac);
        }
        self.answers_for_vip(router, address).then_some(port.mac)
    }

    /// `true` if a router port gets requests for an address also where they do not get to all
    /// routers: for its addresses, those of NAT rules, and VIPs in its networks.
    fn hears(&self, id: RouterPortId, address: IpAddr) -> bool {
        let port = self.router_port(id);
        let router = self.router(port.router);
        let mut vips = self.load_balancers.at(&router.load_balancers, address);
        if port.has_address(address) {
            true
        } else if vips.any(|(balancer, _)| balancer.variables == Variables::None) {
            port.network_of(address).is_some()
        } else {
            router.nats.iter().any(|nat| nat.external == address)
        }
    }

    fn answers_for_vip(&self, router: &Router, address: IpAddr) -> bool {
        let is_reachable = || {
            router.ports.iter().any(|port| self.router_port(*port).network_of(address).is_some())
        };
        let mut vips = self.load_balancers.at(&router.load_balancers, address);
        vips.any(|(balancer, _)| match balancer.responder {
            // OVN takes all VIPs of templates for IPv6 addresses here.
            Responder::All => balancer.variables == Variables::None || address.is_ipv6(),
            Responder::None => false,
            Responder::Reachable => is_reachable(),
        })
    }

    /// The MAC address with which a switch answers for an address by `arp_proxy` of one of its
    /// ports.
    fn answer_of_proxy(&self, switch: &Switch, address: IpAddr) -> Option<Mac> {
        let mut ports = switch
            .router_ports
            .iter()
            .filter(|(id, _)| !switch.is_transparent && !self.switch_port(*id).is_unknown);
        ports.find_map(|(id, router_port)| {
            let proxy = self.switch_port(*id).proxy.as_ref()?;
            let mut networks = proxy.addresses.iter();
            let answers = networks.any(|network| network.contains(address));
            let mac =
                if proxy.mac == Mac::ZERO { self.router_port(*router_port).mac } else { proxy.mac };
            answers.then_some(mac)
        })
    }

    /// The neighbour that a router finds for a next hop behind a port. `None`: nobody answers.
    pub(crate) fn next_hop(&self, id: RouterPortId, address: IpAddr) -> Option<NextHopMac> {
        let port = self.router_port(id);
        let learned = NextHopMac { mac: Mac::ZERO, is_known: false, asked: None, others: 0 };
        let found = match port.link {
            Link::Switch(switch_port) => {
                let id = self.switch_port(switch_port).switch;
                let switch = self.switch(id);
                match self.neighbor(switch, switch_port, address) {
                    (Neighbor::Known { owner, mac }, others) => {
                        let is_known = owner.switch == id && self.knows(port, owner, address);
                        Some(NextHopMac {
                            mac,
                            is_known,
                            asked: (!is_known).then_some(owner),
                            others,
                        })
                    }
                    (Neighbor::Outside, _) => Some(learned),
                    (Neighbor::Nobody, _) => None,
                }
            }
            Link::Router(peer) => self.answer_of_router(peer, address).map(|mac| NextHopMac {
                mac,
                is_known: true,
                asked: None,
                others: 0,
            }),
            Link::Remote => Some(learned),
            Link::Missing => None,
        };
        if let Some(known) = found.filter(|found| found.is_known) {
            return Some(known);
        }
        let router = self.router(port.router);
        if let Some(mac) = self.announced(router).mac(id, address) {
            return Some(NextHopMac { mac, is_known: true, asked: None, others: 0 });
        }
        match self.static_macs.get(&(id, address)) {
            Some(mac) => Some(NextHopMac { mac: *mac, ..learned }),
            None => found,
        }
    }
}

impl Northbound {
    /// `true` if OVN gives a router the MAC address of an owner on the switch behind a port: a
    /// machine in a network of the port, or another router.
    fn knows(&self, port: &RouterPort, owner: Owner, address: IpAddr) -> bool {
        let Some(id) = owner.port else {
            return false;
        };
        let neighbor = self.switch_port(id);
        if let Some(PortId::Router(other)) = neighbor.peer {
            let other = self.router_port(other);
            let is_own = other.has_address(address);
            return is_own && !self.router(port.router).learns_neighbors;
        }
        let is_asked = port.asks_machines && address.is_ipv4();
        !is_asked && port.network_of(address).is_some() && neighbor.has(address)
    }
}

/// Ports of a switch that have an address and fulfil a condition, with their MAC addresses.
fn owners(
    switch: &Switch,
    address: IpAddr,
    is_wanted: impl Fn(SwitchPortId, Mac) -> bool,
) -> Vec<(Option<SwitchPortId>, Mac)> {
    let owners = switch.by_address.get(&address).into_iter().flatten();
    let wanted = owners.filter(|(id, mac)| is_wanted(*id, *mac));
    wanted.map(|(id, mac)| (Some(*id), *mac)).collect()
}
