//! Gateways that DHCP gives to machines.

use std::net::{IpAddr, Ipv4Addr};

use patchbay_schemas::nb::DhcpOptions;

use crate::address::{Interface, Prefix};

/// Options without which OVN does not answer DHCP requests.
const REQUIRED: [&str; 3] = ["server_id", "server_mac", "lease_time"];

/// Next hops that machines learn from DHCP options. The ports with the options share them.
#[derive(Debug, Default)]
pub(crate) struct Gateways {
    /// `cidr`: OVN gives options only to addresses in it.
    served: Option<Prefix>,
    /// `classless_static_route`: network and next hop, the longest prefix first.
    routes: Vec<(Prefix, IpAddr)>,
    /// `router`
    default: Option<IpAddr>,
}

/// Way of a machine to a destination.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Hop {
    pub(crate) next: IpAddr,
    /// Length of the prefix of the route.
    pub(crate) length: u8,
}

impl Gateways {
    pub(super) fn new(row: &DhcpOptions) -> Self {
        if REQUIRED.iter().any(|key| !row.options.contains_key(*key)) {
            return Self::default();
        }
        let text = row.options.get("classless_static_route");
        let mut routes = text.map_or_else(Vec::new, |text| parse_routes(text));
        routes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.length));
        let default = row.options.get("router");
        Self {
            served: Prefix::parse(&row.cidr),
            routes,
            default: default.and_then(|text| text.trim().parse().ok()),
        }
    }

    /// `true` if a machine with these interfaces gets the options.
    pub(super) fn serves(&self, interfaces: &[Interface]) -> bool {
        let first = interfaces.iter().flat_map(|own| &own.addresses);
        let first = first.map(|own| own.address).find(IpAddr::is_ipv4);
        first
            .zip(self.served)
            .is_some_and(|(own, served)| served.contains(own))
    }

    /// The way to a destination. `None`: the options have none.
    pub(crate) fn find(&self, destination: IpAddr) -> Option<Hop> {
        let mut routes = self.routes.iter();
        let route = routes.find(|(prefix, _)| prefix.contains(destination));
        let route = route.map(|(prefix, next)| Hop {
            next: *next,
            length: prefix.length,
        });
        let default = self
            .default
            .filter(|next| next.is_ipv4() == destination.is_ipv4());
        route.or_else(|| default.map(|next| Hop { next, length: 0 }))
    }
}

impl Hop {
    /// `true` if the destination is on the link of the machine.
    pub(crate) fn is_on_link(&self) -> bool {
        self.next == IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    }
}

/// Parses `{NETWORK,NEXT HOP, ...}`. Pairs that cannot be read are left out.
fn parse_routes(text: &str) -> Vec<(Prefix, IpAddr)> {
    let text = text.trim().trim_start_matches('{').trim_end_matches('}');
    let words: Vec<_> = text.split(',').map(str::trim).collect();
    let pairs = words.chunks_exact(2);
    let routes = pairs.filter_map(|pair| Some((Prefix::parse(pair[0])?, pair[1].parse().ok()?)));
    routes.collect()
}
