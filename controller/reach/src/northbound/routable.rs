//! Addresses that routers announce to the other routers of their switches, by `add_route` of NAT
//! rules and load balancers.
//!
//! A router collects the announced addresses when the first packet meets it. Each of the routers of
//! a switch hears of the addresses of all others, so that those of all routers together are many.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::OnceLock;

use foldhash::fast::RandomState;

use super::{Link, Northbound, Route, Router, RouterKind, RouterPortId, SwitchId};
use crate::address::{Mac, Prefix};

/// Router port that announces addresses, with its place among all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Announcer {
    place: usize,
    port: RouterPortId,
}

/// Announcements that a router hears.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    /// Ports of the router on switches with routers that announce addresses.
    places: Vec<(RouterPortId, SwitchId)>,
    /// The announced addresses, once a packet has met the router.
    collected: OnceLock<Announced>,
}

/// Addresses that other routers announce to a router.
#[derive(Debug, Default)]
pub(crate) struct Announced {
    /// Routes to the addresses.
    routes: HashMap<IpAddr, Vec<Route>, RandomState>,
    /// MAC addresses that gateways find behind a port.
    macs: HashMap<(RouterPortId, IpAddr), Mac, RandomState>,
}

impl Announced {
    /// Routes to an address.
    pub(crate) fn routes(&self, address: IpAddr) -> &[Route] {
        self.routes.get(&address).map_or(&[], Vec::as_slice)
    }

    /// The MAC address of an announced address behind a port. `None`: the router is no gateway
    /// there, or the address is not announced.
    pub(crate) fn mac(&self, port: RouterPortId, address: IpAddr) -> Option<Mac> {
        self.macs.get(&(port, address)).copied()
    }
}

impl Northbound {
    /// Finds the routers that announce addresses, and those that hear of them.
    pub(super) fn find_announcers(&mut self) {
        let mut announcers = Vec::new();
        for router in &self.routers {
            if !router.load_balancers.has_routable()
                && router.nats.iter().all(|nat| !nat.is_routable)
            {
                continue;
            }
            for port in &router.ports {
                if let Link::Switch(switch_port) = self.router_port(*port).link {
                    announcers.push((self.switch_port(switch_port).switch, *port));
                }
            }
        }
        for (place, (switch, port)) in announcers.into_iter().enumerate() {
            let SwitchId(number) = switch;
            let switch_row = &mut self.switches[number as usize];
            if switch_row.announcers.is_empty() {
                for (_, other) in &switch_row.router_ports {
                    let router = self.router_ports[other.0 as usize].router;
                    let announcements = &mut self.routers[router.0 as usize].announcements;
                    announcements.places.push((*other, switch));
                }
            }
            switch_row.announcers.push(Announcer { place, port });
        }
    }

    /// Addresses that other routers announce to a router. The first packet that meets the router
    /// collects them.
    pub(crate) fn announced<'a>(&'a self, router: &'a Router) -> &'a Announced {
        let Announcements { places, collected } = &router.announcements;
        collected.get_or_init(|| {
            let mut pairs: Vec<_> = places
                .iter()
                .flat_map(|(port, switch)| {
                    let announcers = self.switch(*switch).announcers.iter();
                    announcers.map(|announcer| (*announcer, *port))
                })
                .filter(|(from, to)| from.port != *to)
                .collect();
            pairs.sort_by_key(|(from, _)| from.place);
            let mut announced = Announced::default();
            for (from, to) in pairs {
                self.hear(&mut announced, router, from.port, to);
            }
            announced
        })
    }

    /// Adds the addresses that a port of another router announces to a port of a router.
    fn hear(
        &self,
        announced: &mut Announced,
        router: &Router,
        from: RouterPortId,
        to: RouterPortId,
    ) {
        let is_gateway = |router: &Router, port| {
            matches!(router.kind, RouterKind::Gateway { .. }) || router.kind.is_gateway_port(port)
        };
        let sender = self.router(self.router_port(from).router);
        let announces = is_gateway(sender, from);
        let knows = is_gateway(router, to) && !router.learns_neighbors;
        for (address, mac) in self.routable_addresses(sender, from) {
            if announces {
                let route = Route::connected(to, self.router_port(to), Prefix::host(address));
                announced.routes.entry(address).or_default().push(route);
            }
            if knows {
                announced.macs.insert((to, address), mac);
            }
        }
    }

    /// Announced addresses of a router with the MAC addresses behind a port, in the order of the
    /// addresses.
    fn routable_addresses(&self, router: &Router, port: RouterPortId) -> Vec<(IpAddr, Mac)> {
        let mac = self.router_port(port).mac;
        let nats = router
            .nats
            .iter()
            .filter(|nat| nat.is_routable)
            .map(|nat| (nat.external, nat.known_mac().unwrap_or(mac)));
        let vips =
            self.load_balancers.routable(&router.load_balancers).map(|(_, vip)| (vip.address, mac));
        let mut addresses: Vec<_> =
            nats.chain(vips).filter(|(address, _)| address.is_ipv4()).collect();
        addresses.sort_unstable();
        addresses.dedup_by_key(|(address, _)| *address);
        addresses
    }
}
