//! The way out of a primary network: gateway router, external switch, and what leads to the host.

use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::external_ids::{hashed_name, reachable_services_id};
use patchbay_model::names::gateway_router;
use patchbay_model::{IpFamily, NodeId, Uplink, format_net, mac_address};
use patchbay_schemas::nb::{
    LogicalRouter, LogicalRouterPolicy, LogicalRouterPolicyAction, LogicalRouterPort,
    LogicalRouterStaticRoute, LogicalRouterStaticRoutePolicy, LogicalSwitch, LogicalSwitchPort,
    Nat, NatType, StaticMacBinding,
};
use patchbay_zone::OutboundSnat;

use super::default_services::DefaultServices;
use super::rows::{TextMap, port_mac, texts};
use super::site::{GatewayNode, Site};
use super::{Destinations, NatRows, RouterPortRows, RouterRows, SwitchRows, advertised};

/// Priority of policies that send packets for the node itself to the management port.
const NODE_POLICY_PRIORITY: i64 = 1004;
/// Name of the physical network that the node's bridge is mapped to. A bridge of a network's own is
/// mapped to the name of the network.
const PHYSICAL_NETWORK: &str = "physnet";
/// External id of a route with the default network's service that it leads to.
const REACHABLE_SERVICE: &str = "k8s.ovn.org/udn-enabled-default-service";

/// Differences between the topologies in the way out.
pub(super) struct Inside<'a> {
    /// Port of the gateway router towards the network, with its name.
    pub(super) port: LogicalRouterPort,
    /// Subnets that the gateway router reaches through the network.
    pub(super) subnets: &'a [IpNet],
    /// Next hops from the gateway router to the network, one for each family.
    pub(super) next_hops: &'a [IpAddr],
    /// Output port of routes to the network.
    pub(super) output_port: Option<String>,
    /// Value of the gateway router's option `lb_force_snat_ip`.
    pub(super) force_snat: String,
}

/// Rows of the way out.
pub(super) struct GatewayRows {
    pub(super) router: RouterRows,
    pub(super) switch: SwitchRows,
    pub(super) mac_bindings: Vec<StaticMacBinding>,
}

impl Site<'_> {
    /// Name of the gateway router of the zone's node.
    pub(super) fn gateway_router(&self) -> String {
        self.gateway_router_of(self.node.name())
    }

    /// Name of the gateway router of a node.
    pub(super) fn gateway_router_of(&self, node: &str) -> String {
        gateway_router(&self.network.name, node)
    }
}

/// The gateway router with its external switch.
pub(super) fn gateway(site: &Site<'_>, node: &GatewayNode<'_>, inside: Inside<'_>) -> GatewayRows {
    let uplink = &node.uplink;
    let name = site.gateway_router();
    let external_port = format!("rtoe-{name}");
    let masquerades: Vec<IpAddr> =
        site.cluster_families().filter_map(|family| site.gateway_masquerade(family)).collect();
    let routes = routes(site, uplink, &inside, &external_port);
    let Inside { port, force_snat, .. } = inside;
    let mut groups = vec!["clusterLBGroup"];
    groups.extend(uplink.has_node_ports(site.settings).then_some("clusterRouterLBGroup"));
    let router = RouterRows {
        router: router_row(site, &name, node, &masquerades, force_snat),
        ports: vec![
            RouterPortRows::from(port),
            RouterPortRows::from(LogicalRouterPort {
                name: external_port.clone(),
                mac: uplink.mac.clone(),
                networks: external_networks(uplink, &masquerades),
                external_ids: site.ids(),
                ..LogicalRouterPort::default()
            }),
        ],
        static_routes: routes,
        nats: gateway_nats(site, node.id),
        load_balancer_groups: groups.into_iter().map(|group| site.prefix() + group).collect(),
        ..RouterRows::default()
    };
    GatewayRows {
        router,
        switch: external_switch(site, &name, uplink),
        mac_bindings: mac_bindings(site, &external_port),
    }
}

fn router_row(
    site: &Site<'_>,
    name: &str,
    node: &GatewayNode<'_>,
    masquerades: &[IpAddr],
    force_snat: String,
) -> LogicalRouter {
    let addresses: Vec<String> = node
        .uplink
        .addresses
        .iter()
        .map(IpNet::addr)
        .chain(masquerades.iter().copied())
        .map(|address| address.to_string())
        .collect();
    let mut external_ids = site.ids_with_role();
    external_ids.extend(texts([
        ("physical_ip", addresses.first().map_or("", String::as_str)),
        ("physical_ips", &addresses.join(",")),
    ]));
    let mut options = texts([
        ("always_learn_from_arp_request", "false"),
        ("dynamic_neigh_routers", "false"),
        ("chassis", node.chassis),
        ("mac_binding_age_threshold", "300"),
        ("disable_garp_rarp", "true"),
    ]);
    options.insert("lb_force_snat_ip".to_owned(), force_snat);
    LogicalRouter { name: name.to_owned(), options, external_ids, ..LogicalRouter::default() }
}

/// The addresses of the node, then those that stand for the network on the host.
fn external_networks(
    uplink: &Uplink,
    masquerades: &[IpAddr],
) -> std::collections::BTreeSet<String> {
    let own = uplink.addresses.iter().map(|address| format_net(*address));
    let masquerades = masquerades.iter().map(|address| format_net((*address).into()));
    own.chain(masquerades).collect()
}

/// Routes of the gateway router: to the network, to masquerade addresses, and to everything else.
fn routes(
    site: &Site<'_>,
    uplink: &Uplink,
    inside: &Inside<'_>,
    external_port: &str,
) -> Vec<LogicalRouterStaticRoute> {
    let to_network = inside.subnets.iter().filter_map(|subnet| {
        let family = IpFamily::of_net(*subnet);
        let mut hops = inside.next_hops.iter();
        let hop = hops.find(|hop| IpFamily::of(**hop) == family)?;
        Some(LogicalRouterStaticRoute {
            output_port: inside.output_port.clone(),
            ..site.route(subnet.to_string(), *hop)
        })
    });
    let outside = |prefix: String, hop: IpAddr| LogicalRouterStaticRoute {
        output_port: Some(external_port.to_owned()),
        ..site.route(prefix, hop)
    };
    let to_host = site.cluster_families().filter_map(|family| {
        let subnet = site.settings.masquerade_subnet(family)?;
        Some(outside(subnet.to_string(), site.dummy_next_hop(family)?))
    });
    let to_others = site.cluster_families().filter_map(|family| {
        let all = match family {
            IpFamily::V4 => "0.0.0.0/0",
            IpFamily::V6 => "::/0",
        };
        Some(outside(all.to_owned(), uplink.next_hop(family)?))
    });
    to_network.chain(to_host).chain(to_others).collect()
}

/// NAT of the gateway router: its own address and those of pods become its masquerade address.
/// Packets of advertised pods to others than nodes keep their sources, and so do packets that the
/// fabric carries (see [`no_overlay`](super::no_overlay)).
fn gateway_nats(site: &Site<'_>, node: NodeId) -> Vec<NatRows> {
    let own = site.cluster_families().filter_map(|family| {
        let address = site.join_address(node, family)?.addr();
        Some(site.snat(address.to_string(), site.gateway_masquerade(family)?))
    });
    let pods = site.subnets().into_iter().filter_map(|subnet| {
        let family = IpFamily::of_net(subnet);
        let nat = site.snat(subnet.to_string(), site.gateway_masquerade(family)?);
        match site.outbound_snat() {
            Some(OutboundSnat::Enabled) if !site.has_local_gateway() => Some(NatRows {
                nat: Nat { external_ids: site.exempting_nat_ids(subnet), ..nat },
                destinations: Destinations::AllBut(site.exempted_set_name(family)),
            }),
            Some(OutboundSnat::Disabled) if !site.is_advertised => None,
            _ if site.is_advertised => {
                Some(NatRows::from(Nat { r#match: advertised::to_nodes(family), ..nat }))
            }
            _ => Some(NatRows::from(nat)),
        }
    });
    own.map(NatRows::from).chain(pods).collect()
}

fn external_switch(site: &Site<'_>, router: &str, uplink: &Uplink) -> SwitchRows {
    let to_router = LogicalSwitchPort {
        name: format!("etor-{router}"),
        r#type: "router".to_owned(),
        addresses: [uplink.mac.clone()].into(),
        options: texts([("router-port", &format!("rtoe-{router}"))]),
        external_ids: site.ids(),
        ..LogicalSwitchPort::default()
    };
    let physical_network =
        if site.details.has_uplink { &site.network.name } else { PHYSICAL_NETWORK };
    let to_bridge = LogicalSwitchPort {
        name: format!("{}_{}{}", uplink.bridge, site.prefix(), site.node.name()),
        r#type: "localnet".to_owned(),
        addresses: ["unknown".to_owned()].into(),
        options: texts([("network_name", physical_network)]),
        tag_request: uplink.vlan,
        external_ids: site.ids(),
        ..LogicalSwitchPort::default()
    };
    SwitchRows {
        switch: LogicalSwitch {
            name: format!("ext_{}{}", site.prefix(), site.node.name()),
            external_ids: site.ids_with_role(),
            ..LogicalSwitch::default()
        },
        ports: vec![to_router, to_bridge],
        ..SwitchRows::default()
    }
}

/// MAC addresses that nobody answers for: of the dummy next hop, and of the host.
fn mac_bindings(site: &Site<'_>, port: &str) -> Vec<StaticMacBinding> {
    let addresses = site
        .cluster_families()
        .flat_map(|family| [site.dummy_next_hop(family), site.host_masquerade(family)]);
    let binding = |address: IpAddr| StaticMacBinding {
        logical_port: port.to_owned(),
        ip: address.to_string(),
        mac: mac_address(address),
        override_dynamic_mac: true,
    };
    addresses.flatten().map(binding).collect()
}

/// Policies of the network's own router for packets to the node itself, which go to its management
/// port.
pub(super) fn host_policies(
    site: &Site<'_>,
    uplink: &Uplink,
    management: &[IpAddr],
    has_masquerade_policies: bool,
) -> Vec<LogicalRouterPolicy> {
    let switch = site.network.switch(site.node.name());
    let port = site.network.inport(site.node.name());
    let policies = management.iter().flat_map(|hop| {
        let family = IpFamily::of(*hop);
        let masquerade = has_masquerade_policies.then(|| site.gateway_masquerade(family));
        let addresses = [uplink.address(family), masquerade.flatten()];
        let (port, switch) = (&port, &switch);
        addresses.into_iter().flatten().map(move |address| {
            let version = if address.is_ipv4() { "ip4" } else { "ip6" };
            LogicalRouterPolicy {
                priority: NODE_POLICY_PRIORITY,
                action: LogicalRouterPolicyAction::Reroute,
                r#match: format!(
                    "inport == \"{port}\" && {version}.dst == {address} /* {switch} */"
                ),
                nexthops: [hop.to_string()].into(),
                external_ids: site.ids(),
                ..LogicalRouterPolicy::default()
            }
        })
    });
    policies.collect()
}

/// NAT of packets from the subnets behind the router's port to the management port, which has these
/// addresses.
pub(super) fn host_nats(site: &Site<'_>, subnets: &[IpNet], management: &[IpAddr]) -> Vec<NatRows> {
    let port = site.network.inport(site.node.name());
    let management_mac = management.first().map(|address| mac_address(*address));
    let nats = subnets.iter().filter_map(|subnet| {
        let family = IpFamily::of_net(*subnet);
        let masquerade = site.management_masquerade(family)?;
        let nat =
            Nat { logical_port: Some(port.clone()), ..site.snat(subnet.to_string(), masquerade) };
        Some(nats_to(site, nat, management_mac.as_ref()?, family))
    });
    nats.flatten().collect()
}

/// Routes through the management port, which has these addresses: of all packets of the subnets in
/// local gateway mode, else to services of the default network.
pub(super) fn host_routes(
    site: &Site<'_>,
    subnets: &[IpNet],
    management: &[IpAddr],
) -> Vec<LogicalRouterStaticRoute> {
    if site.has_local_gateway() {
        source_routes(site, subnets, management)
    } else {
        service_routes(site, management)
    }
}

/// NAT of packets to the management port with this MAC address. Of a network without an overlay,
/// packets that the fabric carries keep their sources. Of an advertised network, those to
/// nodes and to services of the default network have it: without a match in shared gateway mode,
/// because there such packets leave through the gateway router, too.
fn nats_to(site: &Site<'_>, nat: Nat, mac: &str, family: IpFamily) -> Vec<NatRows> {
    if site.has_local_gateway() && site.outbound_snat() == Some(OutboundSnat::Enabled) {
        let destinations = Destinations::AllBut(site.exempted_set_name(family));
        return vec![NatRows { nat, destinations }];
    }
    let to_port = format!("eth.dst == {mac}");
    let r#match = match (site.is_advertised, site.has_local_gateway()) {
        (false, _) => to_port,
        (true, true) => format!("{to_port} && {}", advertised::to_nodes_and_services(family)),
        (true, false) => {
            let sets = [
                advertised::node_addresses_name(family),
                hashed_name(&reachable_services_id(family)),
            ];
            let nats =
                sets.map(|set| NatRows { nat: nat.clone(), destinations: Destinations::Of(set) });
            return nats.into();
        }
    };
    vec![Nat { r#match, ..nat }.into()]
}

/// Routes to services of the default network through the host.
fn service_routes(site: &Site<'_>, management: &[IpAddr]) -> Vec<LogicalRouterStaticRoute> {
    let services = DefaultServices::of(site.objects);
    let routes = services.first_addresses(&site.network.name).filter_map(|(name, address)| {
        let mut hops = management.iter().copied();
        let hop = hops.find(|hop| hop.is_ipv4() == address.is_ipv4())?;
        let mut route = LogicalRouterStaticRoute {
            policy: Some(LogicalRouterStaticRoutePolicy::DstIp),
            ..site.route(address.to_string(), hop)
        };
        let service = (REACHABLE_SERVICE.to_owned(), name.to_owned());
        route.external_ids.extend([service]);
        Some(route)
    });
    routes.collect()
}

/// Routes of pods' packets by their source, to the hop of their family.
pub(super) fn source_routes(
    site: &Site<'_>,
    subnets: &[IpNet],
    hops: &[IpAddr],
) -> Vec<LogicalRouterStaticRoute> {
    let routes = subnets.iter().filter_map(|subnet| {
        let mut hops = hops.iter().copied();
        let hop = hops.find(|hop| IpFamily::of(*hop) == IpFamily::of_net(*subnet))?;
        Some(LogicalRouterStaticRoute {
            policy: Some(LogicalRouterStaticRoutePolicy::SrcIp),
            ..site.route(subnet.to_string(), hop)
        })
    });
    routes.collect()
}

impl Site<'_> {
    /// A route with the network's external ids.
    pub(super) fn route(&self, prefix: String, next_hop: IpAddr) -> LogicalRouterStaticRoute {
        LogicalRouterStaticRoute {
            ip_prefix: prefix,
            nexthop: next_hop.to_string(),
            external_ids: self.ids(),
            ..LogicalRouterStaticRoute::default()
        }
    }

    fn snat(&self, logical_ip: String, external_ip: IpAddr) -> Nat {
        let ports = self.settings.ephemeral_ports;
        Nat {
            r#type: NatType::Snat,
            logical_ip,
            external_ip: external_ip.to_string(),
            external_port_range: ports
                .map(|(first, last)| format!("{first}-{last}"))
                .unwrap_or_default(),
            options: texts([("stateless", "false")]),
            external_ids: self.ids(),
            ..Nat::default()
        }
    }

    /// Port of a gateway router towards its network.
    pub(super) fn inner_port(
        &self,
        name: String,
        networks: &[IpNet],
        options: TextMap,
    ) -> LogicalRouterPort {
        LogicalRouterPort {
            name,
            mac: port_mac(networks),
            networks: super::rows::port_networks(networks),
            options,
            external_ids: self.ids(),
            ..LogicalRouterPort::default()
        }
    }
}
