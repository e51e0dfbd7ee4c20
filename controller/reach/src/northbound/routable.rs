//! Addresses that routers announce to the other routers of their switches, by `add_route` of NAT
//! rules and load balancers.

use std::net::IpAddr;

use super::{Link, Northbound, Router, RouterKind, RouterPortId};
use crate::address::{Mac, Prefix};

impl Northbound {
    /// Adds routes to announced addresses, and the MAC addresses that gateways find behind them.
    pub(super) fn add_routable_addresses(&mut self) {
        let mut routes = Vec::new();
        let mut macs = Vec::new();
        for router in &self.routers {
            for port in &router.ports {
                let addresses = self.routable_addresses(router, *port);
                let Link::Switch(switch_port) = self.router_port(*port).link else {
                    continue;
                };
                let announces = matches!(router.kind, RouterKind::Gateway { .. })
                    || router.kind.is_gateway_port(*port);
                let switch = self.switch(self.switch_port(switch_port).switch);
                let others = switch.router_ports.iter().map(|(_, other)| *other);
                for other in others.filter(|other| other != port) {
                    let other_router = self.router(self.router_port(other).router);
                    let is_gateway = matches!(other_router.kind, RouterKind::Gateway { .. })
                        || other_router.kind.is_gateway_port(other);
                    let knows = is_gateway && !other_router.learns_neighbors;
                    for (address, mac) in &addresses {
                        routes.extend(announces.then_some((other, *address)));
                        macs.extend(knows.then_some(((other, *address), *mac)));
                    }
                }
            }
        }
        for (id, address) in routes {
            let port = &self.router_ports[id.0 as usize];
            let router = &mut self.routers[port.router.0 as usize];
            router.routes.add_connected(id, port, Prefix::host(address));
        }
        self.routable_macs.extend(macs);
    }

    /// Announced addresses of a router with the MAC addresses behind a port, in the order of the
    /// addresses.
    fn routable_addresses(&self, router: &Router, port: RouterPortId) -> Vec<(IpAddr, Mac)> {
        let mac = self.router_port(port).mac;
        let nats = router.nats.iter().filter(|nat| nat.is_routable);
        let nats = nats.map(|nat| (nat.external, nat.known_mac().unwrap_or(mac)));
        let vips = self.load_balancers.routable(&router.load_balancers);
        let vips = vips.map(|(_, vip)| (vip.address, mac));
        let mut addresses: Vec<_> = nats
            .chain(vips)
            .filter(|(address, _)| address.is_ipv4())
            .collect();
        addresses.sort_unstable();
        addresses.dedup_by_key(|(address, _)| *address);
        addresses
    }
}
