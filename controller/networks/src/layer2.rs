//! A layer2 network: one switch and one router that all zones share.

use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::arithmetic::nth_address;
use patchbay_model::{DatapathKey, IpFamily, NodeId};
use patchbay_schemas::nb::{
    LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort,
};
use patchbay_zone::ZoneNode;

use super::gateway::{Inside, gateway, host_nats, host_policies, host_routes, source_routes};
use super::node::identity;
use super::rows::{
    TextMap, address_config, gateway_mac, interconnect_config, port_mac, port_networks,
    router_side, snooping_config, texts,
};
use super::site::{GatewayNode, Site};
use super::tables::as_row;
use super::{NetworkRows, RemoteRows, RouterRows, SkipReason, SwitchRows};

/// Tunnel key of the transit router's port to the gateway router of node id 0. Lower keys are those
/// of the router's other ports.
const FIRST_GATEWAY_KEY: u16 = 10;
/// External id of rows that lead to another node: its name.
const NODE_MARK: &str = "k8s.ovn.org/node";
/// End of the names of the ports of the link to nodes in the older layout.
pub(super) const OLDER_LAYOUT: &str = "-upgrade";

pub(super) fn rows(site: &Site<'_>) -> Result<NetworkRows, SkipReason> {
    let name = site.network.switch(site.node.name());
    let subnets = site.subnets();
    let mut switch = SwitchRows {
        switch: LogicalSwitch {
            name: name.clone(),
            external_ids: site.ids_with_role(),
            other_config: address_config(&subnets),
            ..LogicalSwitch::default()
        },
        load_balancer_groups: site.switch_load_balancer_groups(),
        ..SwitchRows::default()
    };
    let mut rows = NetworkRows {
        network: site.network.name.clone(),
        load_balancer_groups: site.load_balancer_groups(),
        ..NetworkRows::default()
    };
    let keys = Keys::of(site)?;
    switch.switch.other_config.extend(match keys {
        Some(keys) => interconnect_config(&name, &keys.switch.to_string()),
        None => snooping_config(),
    });
    if site.is_primary() {
        let router_key = keys.and_then(|keys| keys.router);
        primary_rows(site, &subnets, router_key, &mut rows, &mut switch)?;
    }
    rows.switches.insert(0, switch);
    Ok(rows)
}

/// Tunnel keys by which the switch and the router of a network are one with those of its other
/// zones.
#[derive(Clone, Copy)]
struct Keys {
    switch: DatapathKey,
    /// `None`: the network has no router.
    router: Option<DatapathKey>,
}

impl Keys {
    /// The keys. `None`: each zone has a switch and a router of its own, or there is one database.
    fn of(site: &Site<'_>) -> Result<Option<Self>, SkipReason> {
        if !site.has_interconnect() || site.is_central() {
            return Ok(None);
        }
        if !site.is_primary() {
            return Ok(Some(Self {
                switch: DatapathKey::of_network(site.network.id),
                router: None,
            }));
        }
        match site.details.tunnel_keys[..] {
            [switch, router] => Ok(Some(Self { switch, router: Some(router) })),
            _ => Err(SkipReason::NoTunnelKeys),
        }
    }
}

/// Adds the rows of a primary network. `key`: tunnel key of its router. In a database of all nodes
/// these are the switch and the router alone: ports and gateway routers are those of one node.
fn primary_rows(
    site: &Site<'_>,
    subnets: &[IpNet],
    key: Option<DatapathKey>,
    rows: &mut NetworkRows,
    switch: &mut SwitchRows,
) -> Result<(), SkipReason> {
    let (gateways, management) = addresses(site, subnets)?;
    let mut to_router =
        router_side(site.router_side_port(), &site.network.inport(site.node.name()));
    to_router.external_ids = site.ids();
    if site.is_central() {
        rows.port_groups = site.port_groups(None, None);
        switch.acls.extend(site.pass_acl());
        switch.ports = vec![to_router];
        rows.routers.insert(0, router(site, key, &gateways));
        return Ok(());
    }
    let management_port = site.management_port(&management);
    let fabric_port = site.fabric_port(&switch.switch.name);
    let multicast_port =
        fabric_port.as_ref().filter(|_| site.has_multicast()).map(|port| port.name.as_str());
    rows.port_groups = site.port_groups(Some(&management_port.name), multicast_port);
    switch.acls = site.management_acls(&switch.switch.name, &management);
    switch.acls.extend(site.pass_acl());
    if let Some(port) = &fabric_port {
        switch.acls.extend(site.fabric_acls(&port.name, &gateways));
    }
    switch.ports = vec![to_router, management_port];
    switch.ports.extend(fabric_port);
    let mut router = router(site, key, &gateways);
    match identity(site.node) {
        Ok(_) => router.nats = host_nats(site, subnets, &management),
        Err(reason) => rows.incomplete = Some(reason),
    }
    if let Some(node) = site.gateway_node() {
        gateway_rows(site, &node, (subnets, &management), rows, &mut router);
    }
    let to_host = host_routes(site, subnets, &management);
    router.static_routes.extend(to_host);
    if site.has_older_nodes
        && let Some(id) = site.node.node.id
    {
        add_older_link(site, id, &mut router, switch);
    }
    rows.routers.insert(0, router);
    Ok(())
}

/// Adds the gateway router, and what leads to it and to the node itself.
fn gateway_rows(
    site: &Site<'_>,
    node: &GatewayNode<'_>,
    (subnets, management): (&[IpNet], &[IpAddr]),
    rows: &mut NetworkRows,
    router: &mut RouterRows,
) {
    let pairs = site.transit_pairs(node.id);
    let name = site.gateway_router();
    let router_hops: Vec<IpAddr> = pairs.iter().map(|(even, _)| even.addr()).collect();
    let gateway_hops: Vec<IpAddr> = pairs.iter().map(|(_, odd)| odd.addr()).collect();
    router.ports.push(port_to_gateway(site, &name, node.id, &pairs).into());
    router.policies = host_policies(site, &node.uplink, management, false);
    router.static_routes = routes_to_gateway(site, node.id, &pairs, "");
    if !site.has_local_gateway() {
        let to_gateway = source_routes(site, subnets, &gateway_hops);
        router.static_routes.extend(to_gateway);
    }
    let inside = inside(site, node.id, &pairs, subnets, &router_hops);
    rows.add_gateway(gateway(site, node, inside));
}

/// The gateway router's side of the link to the transit router.
fn inside<'a>(
    site: &Site<'_>,
    node: NodeId,
    pairs: &[(IpNet, IpNet)],
    subnets: &'a [IpNet],
    hops: &'a [IpAddr],
) -> Inside<'a> {
    let name = site.gateway_router();
    let join = site.join_addresses(node);
    let force_snat = join.iter().map(|address| address.addr().to_string());
    let force_snat = force_snat.collect::<Vec<_>>().join(" ");
    let odd = pairs.iter().map(|(_, odd)| *odd);
    let networks: Vec<IpNet> = join.iter().copied().chain(odd).collect();
    let port = format!("rtotr-{name}");
    let options = site.gateway_mtu().into_iter().collect();
    Inside {
        port: LogicalRouterPort {
            peer: Some(format!("trtor-{name}")),
            ..site.inner_port(port.clone(), &networks, options)
        },
        subnets,
        next_hops: hops,
        output_port: Some(port),
        force_snat,
    }
}

/// The transit router's port towards the gateway router of the zone's node.
fn port_to_gateway(
    site: &Site<'_>,
    name: &str,
    node: NodeId,
    pairs: &[(IpNet, IpNet)],
) -> LogicalRouterPort {
    LogicalRouterPort {
        peer: Some(format!("rtotr-{name}")),
        ..transit_port(site, name, node, pairs)
    }
}

fn transit_port(
    site: &Site<'_>,
    gateway: &str,
    node: NodeId,
    pairs: &[(IpNet, IpNet)],
) -> LogicalRouterPort {
    let even: Vec<IpNet> = pairs.iter().map(|(even, _)| *even).collect();
    let key = FIRST_GATEWAY_KEY + node.get();
    let options = texts([("requested-tnl-key", &key.to_string())]);
    site.inner_port(format!("trtor-{gateway}"), &even, options)
}

/// Routes of the transit router to the join addresses of a node's gateway router, which has one for
/// each family of the cluster. `remote`: name of the node, empty for the zone's own.
fn routes_to_gateway(
    site: &Site<'_>,
    node: NodeId,
    pairs: &[(IpNet, IpNet)],
    remote: &str,
) -> Vec<LogicalRouterStaticRoute> {
    let joins = site.join_addresses(node);
    let routes = pairs.iter().filter_map(|(_, odd)| {
        let family = IpFamily::of_net(*odd);
        let join = joins.iter().find(|one| IpFamily::of_net(**one) == family)?;
        let mut route = site.route(join.addr().to_string(), odd.addr());
        if !remote.is_empty() {
            let mark = (NODE_MARK.to_owned(), remote.to_owned());
            route.external_ids.extend([mark]);
        }
        Some(route)
    });
    routes.collect()
}

/// The rows that lead to another node; `None` if the network has none.
pub(super) fn remote_rows(site: &Site<'_>, node: &ZoneNode) -> Option<RemoteRows> {
    if !site.is_primary() || site.details.tunnel_keys.len() != 2 {
        return None;
    }
    let (id, chassis) = identity(node).ok()?;
    if let Some(key) = node.layer2.older_key(&site.network.name) {
        return Some(older_rows(site, node, id, key));
    }
    let pairs = site.transit_pairs(id);
    let gateway = site.gateway_router_of(node.name());
    let mut port = transit_port(site, &gateway, id, &pairs);
    port.options.extend(texts([("requested-chassis", chassis)]));
    port.external_ids.extend(texts([(NODE_MARK, node.name())]));
    Some(RemoteRows {
        router: site.network.router().into(),
        switch: site.network.switch(site.node.name()).into(),
        router_ports: vec![port],
        static_routes: routes_to_gateway(site, id, &pairs, node.name())
            .iter()
            .map(as_row)
            .collect(),
        ..RemoteRows::default()
    })
}

/// The rows that lead to a node in the older layout, where the gateway router is attached to the
/// switch. `key`: tunnel key of its port there.
fn older_rows(site: &Site<'_>, node: &ZoneNode, id: NodeId, key: &str) -> RemoteRows {
    let switch = site.network.switch(site.node.name());
    let join = site.join_addresses(id);
    let mut external_ids = site.ids();
    external_ids.extend(texts([(NODE_MARK, node.name())]));
    let addresses = [port_mac(&join)].into_iter().chain(join.iter().map(ToString::to_string));
    let mut options = texts([("requested-tnl-key", key)]);
    if let Ok((_, chassis)) = identity(node) {
        options.extend(texts([("requested-chassis", chassis)]));
    }
    let port = LogicalSwitchPort {
        name: format!("stor-{switch}_{}", node.name()),
        r#type: "remote".to_owned(),
        addresses: [addresses.collect::<Vec<_>>().join(" ")].into(),
        options,
        external_ids: external_ids.clone(),
        ..LogicalSwitchPort::default()
    };
    let routes = join.iter().map(|address| LogicalRouterStaticRoute {
        external_ids: external_ids.clone(),
        ..site.route(address.addr().to_string(), address.addr())
    });
    RemoteRows {
        router: site.network.router().into(),
        static_routes: routes.map(|route| as_row(&route)).collect(),
        switch_ports: vec![as_row(&port)],
        router_ports: Vec::new(),
        switch: switch.into(),
    }
}

/// Name of the router port to the gateway routers of nodes in the older layout.
fn older_router_port(site: &Site<'_>) -> String {
    format!("{}{OLDER_LAYOUT}", site.network.inport(site.node.name()))
}

/// Adds what leads to nodes in the older layout: a second link between router and switch, in the
/// join subnets, and the address that the nodes send packets for the node itself from.
fn add_older_link(site: &Site<'_>, node: NodeId, router: &mut RouterRows, switch: &mut SwitchRows) {
    let Some(key) = site.node.layer2.older_port_key(&site.network.name) else {
        return;
    };
    let name = older_router_port(site);
    let mut port = router_side(format!("{}{OLDER_LAYOUT}", site.router_side_port()), &name);
    port.options.extend(texts([("requested-tnl-key", key)]));
    port.external_ids = site.ids();
    switch.ports.push(port);
    let own = site.join_addresses(node);
    let last = own.iter().filter_map(last_address);
    let link = LogicalRouterPort {
        name,
        mac: port_mac(&own),
        networks: last.map(|address| address.to_string()).collect(),
        ..LogicalRouterPort::default()
    };
    let masquerades = site.cluster_families().filter_map(|family| {
        let length = site.settings.masquerade_subnet(family)?.prefix_len();
        IpNet::new(site.management_masquerade(family)?, length).ok()
    });
    if let Some(to_switch) = router.ports.first_mut() {
        let masquerades = masquerades.map(|address| address.to_string());
        to_switch.port.networks.extend(masquerades);
    }
    router.ports.push(link.into());
}

/// The last but one address of a subnet.
fn last_address(subnet: &IpNet) -> Option<IpNet> {
    let addresses = 1_u128.checked_shl((subnet.max_prefix_len() - subnet.prefix_len()).into())?;
    let last = nth_address(*subnet, addresses.checked_sub(2)?)?;
    IpNet::new(last, subnet.prefix_len()).ok()
}

/// The gateway of each range, and the address of the node itself there, which is the same on every
/// node.
fn addresses(site: &Site<'_>, subnets: &[IpNet]) -> Result<(Vec<IpNet>, Vec<IpAddr>), SkipReason> {
    let (mut gateways, mut management) = (Vec::new(), Vec::new());
    for subnet in subnets {
        let named =
            site.details.default_gateways.iter().copied().find(|gateway| subnet.contains(gateway));
        let ranges: Vec<IpNet> = site
            .details
            .infrastructure_subnets
            .iter()
            .copied()
            .filter(|range| subnet.contains(range))
            .collect();
        let found = if ranges.is_empty() {
            usual_addresses(*subnet, named).ok_or(SkipReason::SubnetTooSmall(*subnet))
        } else {
            reserved_addresses(*subnet, &ranges, named)
                .ok_or(SkipReason::InfrastructureTooSmall(*subnet))
        };
        let (gateway, node) = found?;
        gateways.extend(IpNet::new(gateway, subnet.prefix_len()));
        management.push(node);
    }
    Ok((gateways, management))
}

/// The gateway is the one that the network names, else the first address; the node's address is the
/// second one, or the first one if that is not the gateway.
fn usual_addresses(subnet: IpNet, gateway: Option<IpAddr>) -> Option<(IpAddr, IpAddr)> {
    let gateway = gateway.or_else(|| nth_address(subnet, 1))?;
    let mut addresses = [2, 1].into_iter().filter_map(|n| nth_address(subnet, n));
    Some((gateway, addresses.find(|address| *address != gateway)?))
}

/// The first addresses of the ranges that hold nothing else: one for the gateway, unless the
/// network names it, and one for the node. Only what no host of the whole subnet can have is left
/// out.
fn reserved_addresses(
    subnet: IpNet,
    ranges: &[IpNet],
    gateway: Option<IpAddr>,
) -> Option<(IpAddr, IpAddr)> {
    let has_broadcast = subnet.addr().is_ipv4();
    let is_usable = |address: &IpAddr| {
        *address != subnet.network() && !(has_broadcast && *address == subnet.broadcast())
    };
    let addresses = ranges.iter().flat_map(|range| (0..).map_while(|n| nth_address(*range, n)));
    let mut free = addresses.filter(|address| is_usable(address) && Some(*address) != gateway);
    let gateway = gateway.or_else(|| free.next())?;
    Some((gateway, free.next()?))
}

fn router(site: &Site<'_>, key: Option<DatapathKey>, gateways: &[IpNet]) -> RouterRows {
    let mut options =
        if site.is_central() { TextMap::new() } else { texts([("requested-tnl-key", "1")]) };
    options.extend(site.gateway_mtu());
    let mut router_options = match key {
        Some(key) => texts([("requested-tnl-key", &key.to_string())]),
        None => texts([("always_learn_from_arp_request", "false")]),
    };
    if site.has_local_gateway() {
        router_options.extend(texts([("ct-commit-all", "true")]));
    }
    let has_ipv6 = gateways.iter().any(|gateway| gateway.addr().is_ipv6());
    let to_switch = LogicalRouterPort {
        name: site.network.inport(site.node.name()),
        mac: gateway_mac(gateways),
        networks: port_networks(gateways),
        options,
        ipv6_ra_configs: if has_ipv6 { router_advertisements(site) } else { TextMap::new() },
        ..LogicalRouterPort::default()
    };
    RouterRows {
        router: LogicalRouter {
            name: site.network.router(),
            options: router_options,
            external_ids: site.router_ids(),
            ..LogicalRouter::default()
        },
        ports: site.bound_port(to_switch).into_iter().collect(),
        ..RouterRows::default()
    }
}

fn router_advertisements(site: &Site<'_>) -> TextMap {
    texts([
        ("address_mode", "dhcpv6_stateful"),
        ("send_periodic", "true"),
        ("max_interval", "900"),
        ("min_interval", "300"),
        ("router_preference", "LOW"),
        ("mtu", &site.mtu().to_string()),
    ])
}
