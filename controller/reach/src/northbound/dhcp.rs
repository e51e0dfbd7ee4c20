//! Gateways of machines: those that DHCP gives them, and those that the rows do not name.

use std::net::{IpAddr, Ipv4Addr};

use patchbay_schemas::nb::DhcpOptions;

use super::{Northbound, PortId, SwitchPort};
use crate::address::{Interface, Prefix};

/// Options without which OVN does not answer DHCP requests.
const REQUIRED: [&str; 3] = ["server_id", "server_mac", "lease_time"];

/// Next hops that machines learn from DHCP options, or that the caller gives. The ports with the
/// options share them.
#[derive(Debug, Default)]
pub(crate) struct Gateways {
    /// `cidr`, the network of the machines: OVN gives options only to addresses in it.
    served: Option<Prefix>,
    /// `classless_static_route`, the longest prefix first.
    routes: Vec<MachineRoute>,
    /// `router`
    default: Option<IpAddr>,
}

/// Route of a machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MachineRoute {
    /// Destinations.
    pub destination: Prefix,
    /// Address of the gateway.
    pub next_hop: IpAddr,
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
        let routes = text.map_or_else(Vec::new, |text| parse_routes(text));
        let default = row.options.get("router");
        Self {
            served: Prefix::parse(&row.cidr),
            default: default.and_then(|text| text.trim().parse().ok()),
            ..Self::of_routes(routes)
        }
    }

    fn of_routes(mut routes: Vec<MachineRoute>) -> Self {
        routes.sort_by_key(|route| std::cmp::Reverse(route.destination.length));
        Self { routes, ..Self::default() }
    }

    /// `true` if a machine with these interfaces gets the options.
    pub(super) fn serves(&self, interfaces: &[Interface]) -> bool {
        let first = interfaces
            .iter()
            .flat_map(|own| &own.addresses)
            .map(|own| own.address)
            .find(IpAddr::is_ipv4);
        first.zip(self.served).is_some_and(|(own, served)| served.contains(own))
    }

    /// The way to a destination. `None`: there is none.
    fn find(&self, destination: IpAddr) -> Option<Hop> {
        let mut routes = self.routes.iter();
        let route = routes.find(|route| route.destination.contains(destination));
        let route =
            route.map(|route| Hop { next: route.next_hop, length: route.destination.length });
        let default = self.default.filter(|next| next.is_ipv4() == destination.is_ipv4());
        route.or_else(|| default.map(Hop::default_route))
    }
}

impl Northbound {
    /// Gives the machine behind a switch port routes, such as those of a pod's annotation, in place
    /// of earlier ones. They count where the port's `DHCP_Options` name no gateway. A port that the
    /// database does not have is left out.
    pub fn set_routes(&mut self, port: &str, routes: Vec<MachineRoute>) {
        if let Some(PortId::Switch(id)) = self.names.port(port) {
            let given = Box::new(Gateways::of_routes(routes));
            self.switch_ports[id.0 as usize].given_gateways = Some(given);
        }
    }
}

impl SwitchPort {
    /// The way of the port's machine to a destination. `None`: nothing names a gateway.
    pub(crate) fn next_hop(&self, destination: IpAddr) -> Option<Hop> {
        let find = |gateways: &Gateways| gateways.find(destination);
        let given = || self.given_gateways.as_deref().and_then(find);
        self.gateways.as_deref().and_then(find).or_else(given)
    }

    /// The network that DHCP gives to the port's machine. `None`: it gives none.
    pub(crate) fn dhcp_network(&self) -> Option<&Prefix> {
        self.gateways.as_ref()?.served.as_ref()
    }
}

impl Hop {
    /// The default gateway.
    pub(crate) fn default_route(next: IpAddr) -> Self {
        Self { next, length: 0 }
    }

    /// `true` if the destination is on the link of the machine.
    pub(crate) fn is_on_link(&self) -> bool {
        self.next == IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    }
}

/// Parses `{NETWORK,NEXT HOP, ...}`. Pairs that cannot be read are left out.
fn parse_routes(text: &str) -> Vec<MachineRoute> {
    let text = text.trim().trim_start_matches('{').trim_end_matches('}');
    let words: Vec<_> = text.split(',').map(str::trim).collect();
    let pairs = words.chunks_exact(2);
    let routes = pairs.filter_map(|pair| {
        Some(MachineRoute { destination: Prefix::parse(pair[0])?, next_hop: pair[1].parse().ok()? })
    });
    routes.collect()
}
