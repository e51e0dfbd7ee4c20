//! Routers and their ports.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use foldhash::fast::RandomState;
use patchbay_schemas::nb;
use uuid::Uuid;

use super::attached::Attached;
use super::id::{RouterId, RouterPortId, SwitchPortId};
use super::load_balancer::LoadBalancer;
use super::nat::Nat;
use super::note::RowRef;
use super::policy::Policies;
use super::routable::Announcements;
use super::route::Routes;
use super::tunnel::Binding;
use super::vip::{Backend, Vip};
use crate::address::{Mac, Prefix};

/// Router.
#[derive(Debug)]
pub(crate) struct Router {
    pub(crate) row: RowRef,
    pub(crate) name: String,
    /// `requested-tnl-key`
    pub(crate) tunnel_key: Option<String>,
    pub(crate) kind: RouterKind,
    pub(crate) ports: Vec<RouterPortId>,
    /// Ports by their own addresses, link-local ones included.
    pub(crate) own_addresses: HashMap<IpAddr, RouterPortId, RandomState>,
    /// Broadcast addresses of the networks.
    pub(crate) broadcasts: HashSet<IpAddr, RandomState>,
    pub(crate) routes: Routes,
    pub(super) announcements: Announcements,
    pub(crate) policies: Policies,
    pub(crate) nats: Vec<Nat>,
    /// Addresses that the router puts in place of sources.
    pub(crate) snat_addresses: HashSet<IpAddr, RandomState>,
    pub(crate) load_balancers: Attached,
    pub(crate) forced: ForcedSnat,
    pub(crate) commit: CommitAll,
    /// `dynamic_neigh_routers`: the router asks for the MAC addresses of other routers.
    pub(crate) learns_neighbors: bool,
    /// `true` if the router may have routes of other routers, from `dynamic-routing`.
    pub(crate) learns_routes: bool,
}

/// Effect of `ct-commit-all`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CommitAll {
    /// The option is not set.
    Off,
    /// No NAT rule, VIP or forced source makes the router track connections.
    Useless,
    On,
}

/// Place at which a router works.
#[derive(Debug)]
pub(crate) enum RouterKind {
    /// On the chassis of `options:chassis`.
    Gateway { chassis: String },
    /// On all chassis; its gateway ports work on those of their `gateway_chassis`.
    Distributed { gateways: Vec<RouterPortId> },
}

/// Sources that replace those of translated packets, from the options of a gateway router.
#[derive(Debug, Default)]
pub(crate) struct ForcedSnat {
    /// `lb_force_snat_ip=router_ip`
    pub(crate) load_balanced_by_port: bool,
    /// Addresses of `lb_force_snat_ip`.
    pub(crate) load_balanced: Vec<IpAddr>,
    /// Addresses of `dnat_force_snat_ip`.
    pub(crate) translated: Vec<IpAddr>,
}

/// Router port.
#[derive(Debug)]
pub(crate) struct RouterPort {
    pub(crate) uuid: Uuid,
    pub(crate) name: String,
    pub(crate) router: RouterId,
    pub(crate) mac: Mac,
    /// Networks: IPv4 in the order of their texts, then IPv6, then the link-local one.
    pub(crate) networks: Vec<Prefix>,
    pub(crate) is_enabled: bool,
    /// `true` if a gateway port asks for the MAC addresses of machines: `redirect-type=bridged`.
    pub(crate) asks_machines: bool,
    pub(crate) link: Link,
    /// Number of the switch ports that lead to the port. OVN takes any of them for the way back.
    pub(crate) switch_ports: usize,
    /// `true` if the port is on a switch without a `localnet` port: a gateway port that is the only
    /// one of its router then serves all addresses at its chassis.
    pub(crate) is_overlay: bool,
    /// The chassis that has a gateway port while all chassis work. `None`: no gateway port.
    pub(crate) active_chassis: Option<String>,
    pub(crate) route_table: Option<String>,
    pub(crate) binding: Binding,
}

/// Other end of a router port.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Link {
    Switch(SwitchPortId),
    Router(RouterPortId),
    /// The port is on another chassis.
    Remote,
    /// Packets are lost.
    Missing,
}

impl RouterKind {
    pub(crate) fn is_gateway_port(&self, port: RouterPortId) -> bool {
        matches!(self, Self::Distributed { gateways } if gateways.contains(&port))
    }

    /// The gateway ports of a distributed router.
    pub(crate) fn gateways(&self) -> &[RouterPortId] {
        match self {
            Self::Gateway { .. } => &[],
            Self::Distributed { gateways } => gateways,
        }
    }

    pub(crate) fn has_several_gateways(&self) -> bool {
        matches!(self, Self::Distributed { gateways } if gateways.len() > 1)
    }

    /// `true` if the router has a chassis or a gateway port, without which NAT rules do nothing.
    pub(crate) fn is_centralized(&self) -> bool {
        match self {
            Self::Gateway { .. } => true,
            Self::Distributed { gateways } => !gateways.is_empty(),
        }
    }
}

impl Router {
    /// `true` if the router commits all connections to connection tracking: those of a gateway
    /// port, or of all ports of a gateway router.
    pub(crate) fn commits(&self) -> bool {
        self.commit == CommitAll::On && self.kind.is_centralized()
    }

    pub(crate) fn is_gateway(&self) -> bool {
        matches!(self.kind, RouterKind::Gateway { .. })
    }

    /// `true` if the router translates for a load balancer without the state of connections.
    pub(crate) fn is_stateless(&self, balancer: &LoadBalancer) -> bool {
        balancer.is_stateless && self.kind.has_several_gateways()
    }

    /// The backends among which the router chooses. Without state it does not know health checks.
    pub(crate) fn backends<'v>(&self, balancer: &LoadBalancer, vip: &'v Vip) -> &'v [Backend] {
        if self.is_stateless(balancer) { &vip.row_backends } else { &vip.backends }
    }
}

impl ForcedSnat {
    /// `true` if nothing is forced.
    pub(super) fn is_empty(&self) -> bool {
        !self.load_balanced_by_port && self.load_balanced.is_empty() && self.translated.is_empty()
    }

    /// `true` if the sources of packets that load balancers have translated are forced.
    pub(crate) fn is_load_balanced(&self) -> bool {
        self.load_balanced_by_port || !self.load_balanced.is_empty()
    }

    pub(super) fn new(options: &BTreeMap<String, String>) -> Self {
        let addresses = |key| {
            let text = options.get(key).map(String::as_str).unwrap_or_default();
            let words = text.split_ascii_whitespace();
            words.map_while(|word| word.parse().ok()).collect::<Vec<IpAddr>>()
        };
        Self {
            load_balanced_by_port: options.contains_key("chassis")
                && options.get("lb_force_snat_ip").is_some_and(|value| value == "router_ip"),
            load_balanced: addresses("lb_force_snat_ip"),
            translated: addresses("dnat_force_snat_ip"),
        }
    }
}

impl RouterPort {
    /// Reads a port. `None`: its MAC address is invalid, and OVN ignores the port.
    ///
    /// `active`: the chassis of a gateway port.
    pub(super) fn new(
        uuid: Uuid,
        row: &nb::LogicalRouterPort,
        router: RouterId,
        active: Option<&str>,
    ) -> Option<Self> {
        let mac = Mac::parse(row.mac.trim())?;
        let parsed: Vec<_> = row.networks.iter().filter_map(|text| Prefix::parse(text)).collect();
        let (mut networks, others): (Vec<_>, Vec<_>) =
            parsed.into_iter().partition(|network| network.address.is_ipv4());
        networks.extend(others);
        networks.push(Prefix { address: mac.link_local().into(), length: 64 });
        let is_remote = row.options.contains_key("requested-chassis");
        Some(Self {
            uuid,
            name: row.name.clone(),
            router,
            mac,
            networks,
            is_enabled: row.enabled != Some(false),
            asks_machines: (row.ha_chassis_group.is_some() || !row.gateway_chassis.is_empty())
                && row
                    .options
                    .get("redirect-type")
                    .is_some_and(|kind| kind.eq_ignore_ascii_case("bridged")),
            link: if is_remote { Link::Remote } else { Link::Missing },
            switch_ports: 0,
            is_overlay: false,
            active_chassis: active.map(str::to_owned),
            route_table: row.options.get("route_table").cloned(),
            binding: Binding::new(&row.options, &row.external_ids),
        })
    }

    /// The network that has an address. `None`: the port has no such network.
    pub(crate) fn network_of(&self, address: IpAddr) -> Option<&Prefix> {
        self.networks.iter().find(|network| network.contains(address))
    }

    /// `true` if the port has an address.
    pub(crate) fn has_address(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.address == address)
    }
}
