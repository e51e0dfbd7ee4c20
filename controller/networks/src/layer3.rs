//! A layer3 network: a switch per node, a router per zone, and a transit switch between the zones.

use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_schemas::nb::{
    LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort,
};

use super::input::{Site, ZoneNode};
use super::rows::{
    address_config, interconnect_config, port_mac, port_networks, router_side, texts,
};
use super::{NetworkRows, RouterPortRows, RouterRows, SkipReason, SwitchRows};
use patchbay_model::arithmetic::nth_address;
use patchbay_model::{DatapathKey, Transport, mac_address};

pub(super) fn rows(site: &Site<'_>) -> Result<NetworkRows, SkipReason> {
    let mut subnets = site
        .node
        .subnets
        .get(&site.network.name)
        .cloned()
        .unwrap_or_default();
    if subnets.is_empty() {
        return Err(SkipReason::NoNodeSubnets);
    }
    subnets.sort_by_key(|subnet| subnet.addr().is_ipv6());
    let gateways = nth_addresses(&subnets, 1)?;
    let management: Vec<IpAddr> = nth_addresses(&subnets, 2)?
        .iter()
        .map(IpNet::addr)
        .collect();
    let mut router = RouterRows {
        router: LogicalRouter {
            name: site.network.router(),
            options: texts([("always_learn_from_arp_request", "false")]),
            external_ids: site.router_ids(),
            ..LogicalRouter::default()
        },
        ports: vec![node_switch_port(site, &gateways)],
        static_routes: Vec::new(),
    };
    let mut rows = NetworkRows {
        network: site.network.name.clone(),
        load_balancer_groups: site.load_balancer_groups(),
        switches: vec![node_switch(site, &subnets, &management)],
        ..NetworkRows::default()
    };
    if site.is_primary() {
        rows.port_groups = site.port_groups(&site.management_port(&management).name);
    }
    if site.network.transport == Transport::Overlay && !site.node.transit.is_empty() {
        router.ports.push(transit_port(site));
        router.static_routes = site
            .remote
            .iter()
            .flat_map(|node| routes_to(site, node))
            .collect();
        rows.switches.push(transit_switch(site));
    }
    rows.router = Some(router);
    Ok(rows)
}

fn node_switch(site: &Site<'_>, subnets: &[IpNet], management: &[IpAddr]) -> SwitchRows {
    let name = site.network.switch(&site.node.name);
    let mut other_config = address_config(subnets);
    let mut ports = vec![router_side(
        format!("stor-{name}"),
        &site.network.inport(&site.node.name),
    )];
    let mut acls = Vec::new();
    if site.is_primary() {
        ports.push(site.management_port(management));
        acls = site.management_acls(&name, management);
    } else if let Some(address) = management.iter().find(|address| address.is_ipv4()) {
        // There is no port that would keep the address from pods.
        other_config.insert("exclude_ips".to_owned(), address.to_string());
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
    let addresses = subnets
        .iter()
        .map(|subnet| address(subnet).ok_or(SkipReason::SubnetTooSmall(*subnet)));
    addresses.collect()
}

fn node_switch_port(site: &Site<'_>, gateways: &[IpNet]) -> RouterPortRows {
    let name = site.network.inport(&site.node.name);
    RouterPortRows {
        gateway_chassis: Some(site.gateway_chassis(&name)),
        port: LogicalRouterPort {
            name,
            mac: port_mac(gateways),
            networks: port_networks(gateways),
            options: site.gateway_mtu().into_iter().collect(),
            ..LogicalRouterPort::default()
        },
    }
}

fn transit_port_name(site: &Site<'_>) -> String {
    format!("{}rtots-{}", site.prefix(), site.node.name)
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

fn transit_switch(site: &Site<'_>) -> SwitchRows {
    let name = site.prefix() + "transit_switch";
    let key = DatapathKey::of_network(site.network.id).to_string();
    let port_name = |node: &str| format!("{}tstor-{node}", site.prefix());
    let mut local = router_side(port_name(&site.node.name), &transit_port_name(site));
    local
        .options
        .insert("requested-tnl-key".to_owned(), site.node_id.to_string());
    local.external_ids = texts([("node", &site.node.name)]);
    let mut ports = vec![local];
    for node in site.remote {
        let (Ok((id, chassis)), Some(first)) = (node.identity(), node.transit.first()) else {
            continue;
        };
        let addresses = [mac_address(first.addr())]
            .into_iter()
            .chain(node.transit.iter().map(ToString::to_string));
        ports.push(LogicalSwitchPort {
            name: port_name(&node.name),
            r#type: "remote".to_owned(),
            addresses: [addresses.collect::<Vec<_>>().join(" ")].into(),
            options: texts([
                ("requested-tnl-key", &id.to_string()),
                ("requested-chassis", chassis),
            ]),
            external_ids: texts([("node", &node.name)]),
            ..LogicalSwitchPort::default()
        });
    }
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

/// Routes to the pods of another node.
fn routes_to(site: &Site<'_>, node: &ZoneNode) -> Vec<LogicalRouterStaticRoute> {
    let subnets = node
        .subnets
        .get(&site.network.name)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let route = |subnet: &IpNet| {
        Some(LogicalRouterStaticRoute {
            ip_prefix: subnet.to_string(),
            nexthop: node.transit_address(*subnet)?.to_string(),
            external_ids: texts([
                ("ic-node", &node.name),
                ("k8s.ovn.org/network", &site.network.name),
            ]),
            ..LogicalRouterStaticRoute::default()
        })
    };
    subnets.iter().filter_map(route).collect()
}
