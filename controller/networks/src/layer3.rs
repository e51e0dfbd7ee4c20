//! A layer3 network: a switch per node, a router per zone, and a transit switch between the zones.

use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::arithmetic::nth_address;
use patchbay_model::{DatapathKey, Feature, IpFamily, NodeId, Transport};
use patchbay_schemas::nb::{
    LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute, LogicalRouterStaticRoutePolicy,
    LogicalSwitch, LogicalSwitchPort,
};
use patchbay_zone::NodeSwitch;

use super::gateway::{Inside, gateway, host_nats, host_policies, host_routes, source_routes};
use super::multicast::multicast_config;
use super::node::{identity, own_subnets};
use super::rows::{
    TextMap, address_config, gateway_mac, interconnect_config, port_mac, port_networks,
    router_side, texts,
};
use super::site::{GatewayNode, Site};
use super::tables::EXCLUDED_ADDRESSES;
use super::{NetworkRows, RouterPortRows, RouterRows, SkipReason, SwitchRows};

/// Addresses of a network on the zone's node.
struct LocalAddresses {
    /// In the order of the node's annotation.
    subnets: Vec<IpNet>,
    gateways: Vec<IpNet>,
    management: Vec<IpAddr>,
}

impl LocalAddresses {
    fn of(site: &Site<'_>) -> Result<Self, SkipReason> {
        let subnets = own_subnets(site.node, &site.network.name)?.to_vec();
        let management = nth_addresses(&subnets, 2)?;
        Ok(Self {
            gateways: nth_addresses(&subnets, 1)?,
            management: management.iter().map(IpNet::addr).collect(),
            subnets,
        })
    }
}

/// The rows of the network, but for those that lead to other nodes.
pub(super) fn rows(site: &Site<'_>) -> Result<NetworkRows, SkipReason> {
    let mut router = RouterRows { router: cluster_router(site), ..RouterRows::default() };
    let mut rows = NetworkRows {
        network: site.network.name.clone(),
        load_balancer_groups: site.load_balancer_groups(),
        address_sets: site.exempted_sets(),
        ..NetworkRows::default()
    };
    let mut join = site.is_primary().then(|| join_switch(site, &mut router));
    match LocalAddresses::of(site) {
        Ok(addresses) => {
            rows.incomplete = identity(site.node).err();
            local_rows(site, &addresses, &mut rows, &mut router, join.as_mut());
        }
        Err(SkipReason::NoNodeSubnets) => {
            rows.incomplete = Some(SkipReason::NoNodeSubnets);
            rows.switches.extend(remote_transit_switch(site));
            if site.is_primary() {
                rows.port_groups = site.port_groups(None, None);
            }
        }
        Err(reason) => return Err(reason),
    }
    rows.switches.extend(join);
    rows.routers.insert(0, router);
    Ok(rows)
}

/// Adds the rows that follow from the node's subnets.
fn local_rows(
    site: &Site<'_>,
    addresses: &LocalAddresses,
    rows: &mut NetworkRows,
    router: &mut RouterRows,
    join: Option<&mut SwitchRows>,
) {
    let LocalAddresses { subnets, gateways, management } = addresses;
    router.ports.extend(node_switch_port(site, gateways));
    rows.switches.push(node_switch(site, addresses));
    if let Some(id) = transit_id(site) {
        router.ports.push(transit_port(site));
        rows.switches.push(transit_switch(site, vec![own_transit_port(site, id)]));
    } else {
        rows.switches.extend(remote_transit_switch(site));
    }
    let Some(join) = join else {
        return;
    };
    let port = site.management_port(management);
    let router_port = site.router_side_port();
    let router_port = site.has_multicast().then_some(router_port.as_str());
    rows.port_groups = site.port_groups(Some(&port.name), router_port);
    router.nats = host_nats(site, subnets, management);
    if let Some(node) = site.gateway_node() {
        gateway_rows(site, &node, addresses, rows, router, join);
    }
    let to_host = host_routes(site, subnets, management);
    router.static_routes.extend(to_host);
}

/// Adds the gateway router, and what leads to it and to the node itself.
fn gateway_rows(
    site: &Site<'_>,
    node: &GatewayNode<'_>,
    addresses: &LocalAddresses,
    rows: &mut NetworkRows,
    router: &mut RouterRows,
    join: &mut SwitchRows,
) {
    let name = site.gateway_router();
    let own = site.join_addresses(node.id);
    let own_addresses: Vec<IpAddr> = own.iter().map(IpNet::addr).collect();
    let cluster_router: Vec<IpAddr> =
        site.cluster_router_addresses().iter().map(IpNet::addr).collect();
    // The fabric leads to the pods of other nodes.
    let reached = match site.network.transport {
        Transport::NoOverlay => addresses.subnets.clone(),
        Transport::Overlay | Transport::Evpn => site.subnets(),
    };
    let inside = Inside {
        subnets: &reached,
        port: site.inner_port(
            format!("rtoj-{name}"),
            &own,
            site.gateway_mtu().into_iter().collect(),
        ),
        next_hops: &cluster_router,
        output_port: None,
        force_snat: "router_ip".to_owned(),
    };
    let mut to_gateway = router_side(format!("jtor-{name}"), &format!("rtoj-{name}"));
    to_gateway.external_ids = site.ids();
    join.ports.push(to_gateway);
    router.policies = host_policies(site, &node.uplink, &addresses.management, true);
    let to_own = |address: &IpAddr| site.route(address.to_string(), *address);
    router.static_routes = own_addresses.iter().map(to_own).collect();
    if !site.has_local_gateway() {
        let to_gateway = source_routes(site, &addresses.subnets, &own_addresses);
        router.static_routes.extend(to_gateway);
    }
    router.static_routes.extend(egress_routes(site, node.id));
    rows.add_gateway(gateway(site, node, inside));
}

/// Routes of packets of pods on other nodes that leave the cluster here, because of an EgressIP.
fn egress_routes(site: &Site<'_>, node: NodeId) -> Vec<LogicalRouterStaticRoute> {
    let subnets = site.subnets().into_iter();
    let subnets = subnets.filter(|_| site.settings.has_feature(Feature::EgressIp));
    let routes = subnets.filter_map(|subnet| {
        let gateway = site.join_address(node, IpFamily::of_net(subnet))?;
        Some(LogicalRouterStaticRoute {
            ip_prefix: subnet.to_string(),
            nexthop: gateway.addr().to_string(),
            policy: Some(LogicalRouterStaticRoutePolicy::SrcIp),
            ..LogicalRouterStaticRoute::default()
        })
    });
    routes.collect()
}

fn cluster_router(site: &Site<'_>) -> LogicalRouter {
    let mut options = texts([("always_learn_from_arp_request", "false")]);
    if site.has_local_gateway() {
        options.extend(texts([("ct-commit-all", "true")]));
    }
    if site.has_multicast() {
        options.extend(texts([("mcast_relay", "true")]));
    }
    LogicalRouter {
        name: site.network.router(),
        options,
        external_ids: site.router_ids(),
        ..LogicalRouter::default()
    }
}

/// The switch between the cluster router and the gateway router. Adds the router's port on it.
fn join_switch(site: &Site<'_>, router: &mut RouterRows) -> SwitchRows {
    let name = &router.router.name;
    let port = format!("rtoj-{name}");
    let to_router = router_side(format!("jtor-{name}"), &port);
    let addresses = site.cluster_router_addresses();
    let port = site.inner_port(port, &addresses, TextMap::new());
    router.ports.push(port.into());
    SwitchRows {
        switch: LogicalSwitch {
            name: site.prefix() + "join",
            external_ids: site.ids(),
            ..LogicalSwitch::default()
        },
        ports: vec![to_router],
        ..SwitchRows::default()
    }
}

/// `true` if rows of the network lead to other nodes. They do not depend on the subnets of the
/// zone's node.
pub(super) fn has_remotes(site: &Site<'_>) -> bool {
    site.has_interconnect() && !lacks_place(site)
}

/// `true` if the node has subnets of the network that cannot be used.
pub(super) fn lacks_place(site: &Site<'_>) -> bool {
    LocalAddresses::of(site).is_err_and(|reason| reason != SkipReason::NoNodeSubnets)
}

/// `true` if the network has a switch to other nodes only if there is one that it leads to.
pub(super) fn follows_remotes(site: &Site<'_>) -> bool {
    site.has_interconnect() && (transit_id(site).is_none() || LocalAddresses::of(site).is_err())
}

/// Id of a node whose router has a port to the other nodes, once it has subnets.
fn transit_id(site: &Site<'_>) -> Option<NodeId> {
    let has_port = site.has_interconnect() && !site.node.transit.is_empty();
    site.node.node.id.filter(|_| has_port)
}

/// The switch to other nodes without a port of this one. `None`: there are no other nodes.
fn remote_transit_switch(site: &Site<'_>) -> Option<SwitchRows> {
    (site.has_interconnect() && site.has_remote_nodes).then(|| transit_switch(site, Vec::new()))
}

fn node_switch(site: &Site<'_>, addresses: &LocalAddresses) -> SwitchRows {
    let LocalAddresses { subnets, gateways, management } = addresses;
    let name = site.network.switch(site.node.name());
    let mut other_config = address_config(subnets);
    let mut ports =
        vec![router_side(site.router_side_port(), &site.network.inport(site.node.name()))];
    if site.has_multicast() {
        other_config.extend(multicast_config(gateways));
    }
    let mut acls = Vec::new();
    if site.is_primary() {
        ports.push(site.management_port(management));
        acls = site.management_acls(&name, management);
        acls.extend(site.pass_acl());
    }
    // There may be no port that would keep the address from pods. As in OVN-Kubernetes, the address
    // is excluded from a new switch until its management port is made, too.
    let mut excluded = management.iter().filter(|address| address.is_ipv4());
    if let Some(address) = excluded.next()
        && (!site.is_primary() || site.switch == NodeSwitch::New)
    {
        other_config.insert(EXCLUDED_ADDRESSES.to_owned(), address.to_string());
    }
    SwitchRows {
        switch: LogicalSwitch {
            name,
            other_config,
            external_ids: site.ids_with_role(),
            ..LogicalSwitch::default()
        },
        ports,
        acls,
        load_balancer_groups: site.switch_load_balancer_groups(),
    }
}

/// The address `n` after the first one of every subnet, with the length of the subnet.
fn nth_addresses(subnets: &[IpNet], n: u128) -> Result<Vec<IpNet>, SkipReason> {
    let address = |subnet: &IpNet| {
        let address = nth_address(*subnet, n)?;
        IpNet::new(address, subnet.prefix_len()).ok()
    };
    let addresses =
        subnets.iter().map(|subnet| address(subnet).ok_or(SkipReason::SubnetTooSmall(*subnet)));
    addresses.collect()
}

fn node_switch_port(site: &Site<'_>, gateways: &[IpNet]) -> Option<RouterPortRows> {
    site.bound_port(LogicalRouterPort {
        name: site.network.inport(site.node.name()),
        mac: gateway_mac(gateways),
        networks: port_networks(gateways),
        options: site.gateway_mtu().into_iter().collect(),
        ..LogicalRouterPort::default()
    })
}

fn transit_port_name(site: &Site<'_>) -> String {
    format!("{}rtots-{}", site.prefix(), site.node.name())
}

fn transit_port(site: &Site<'_>) -> RouterPortRows {
    RouterPortRows {
        port: LogicalRouterPort {
            name: transit_port_name(site),
            mac: port_mac(&site.node.transit),
            networks: port_networks(&site.node.transit),
            options: texts([("mcast_flood", "true")]),
            ..LogicalRouterPort::default()
        },
        gateway_chassis: None,
    }
}

/// Name of the transit switch of the network with this prefix.
pub(super) fn transit_switch_of(prefix: &str) -> String {
    format!("{prefix}transit_switch")
}

pub(super) fn transit_switch_name(site: &Site<'_>) -> String {
    transit_switch_of(&site.prefix())
}

fn transit_switch(site: &Site<'_>, ports: Vec<LogicalSwitchPort>) -> SwitchRows {
    let name = transit_switch_name(site);
    let key = DatapathKey::of_network(site.network.id).to_string();
    SwitchRows {
        switch: LogicalSwitch {
            other_config: interconnect_config(&name, &key),
            name,
            external_ids: site.ids_with_role(),
            ..LogicalSwitch::default()
        },
        ports,
        ..SwitchRows::default()
    }
}

/// The port of the transit switch to the router of this node.
fn own_transit_port(site: &Site<'_>, id: NodeId) -> LogicalSwitchPort {
    let mut port =
        router_side(transit_switch_port_name(site, site.node.name()), &transit_port_name(site));
    port.options.insert("requested-tnl-key".to_owned(), id.to_string());
    port.external_ids = texts([("node", site.node.name())]);
    port
}

/// Name of a node's port of the transit switch. Without the node it is the start of the names.
pub(super) fn transit_switch_port_name(site: &Site<'_>, node: &str) -> String {
    format!("{}tstor-{node}", site.prefix())
}
