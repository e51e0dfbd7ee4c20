//! A layer3 network: a switch per node, a router per zone, and a transit switch between the zones.

use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_schemas::nb::{
    LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort,
};

use super::inputs::{Site, ZoneNode};
use super::rows::{
    address_config, interconnect_config, port_mac, port_networks, router_side, texts,
};
use super::{NetworkRows, RemoteRows, RouterPortRows, RouterRows, SkipReason, SwitchRows};
use patchbay_model::arithmetic::nth_address;
use patchbay_model::{DatapathKey, Transport, mac_address};

/// Addresses of a network on the zone's node.
struct LocalAddresses {
    /// IPv4 first.
    subnets: Vec<IpNet>,
    gateways: Vec<IpNet>,
    management: Vec<IpAddr>,
}

impl LocalAddresses {
    fn of(site: &Site<'_>) -> Result<Self, SkipReason> {
        let mut subnets = site.node.subnets_of(&site.network.name).to_vec();
        if subnets.is_empty() {
            return Err(SkipReason::NoNodeSubnets);
        }
        subnets.sort_by_key(|subnet| subnet.addr().is_ipv6());
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
    let LocalAddresses {
        subnets,
        gateways,
        management,
    } = LocalAddresses::of(site)?;
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
    if has_transit_switch(site) {
        router.ports.push(transit_port(site));
        rows.switches.push(transit_switch(site));
    }
    rows.router = Some(router);
    Ok(rows)
}

/// The rows that lead to another node; `None` if the network has none.
pub(super) fn remote_rows(site: &Site<'_>, node: &ZoneNode) -> Option<RemoteRows> {
    if !has_transit_switch(site) || LocalAddresses::of(site).is_err() {
        return None;
    }
    Some(RemoteRows {
        router: site.network.router(),
        transit_switch: transit_switch_name(site),
        port: remote_port(site, node),
        static_routes: routes_to(site, node),
    })
}

fn has_transit_switch(site: &Site<'_>) -> bool {
    site.network.transport == Transport::Overlay && !site.node.transit.is_empty()
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

fn transit_switch_name(site: &Site<'_>) -> String {
    site.prefix() + "transit_switch"
}

fn transit_switch(site: &Site<'_>) -> SwitchRows {
    let name = transit_switch_name(site);
    let key = DatapathKey::of_network(site.network.id).to_string();
    let mut local = router_side(
        transit_switch_port_name(site, &site.node.name),
        &transit_port_name(site),
    );
    local
        .options
        .insert("requested-tnl-key".to_owned(), site.node_id.to_string());
    local.external_ids = texts([("node", &site.node.name)]);
    SwitchRows {
        switch: LogicalSwitch {
            other_config: interconnect_config(&name, &key),
            name,
            external_ids: site.ids_with_role(),
            ..LogicalSwitch::default()
        },
        ports: vec![local],
        ..SwitchRows::default()
    }
}

fn transit_switch_port_name(site: &Site<'_>, node: &str) -> String {
    format!("{}tstor-{node}", site.prefix())
}

/// The transit switch's port of another node.
fn remote_port(site: &Site<'_>, node: &ZoneNode) -> Option<LogicalSwitchPort> {
    let (id, chassis) = node.identity().ok()?;
    let addresses = [mac_address(node.transit.first()?.addr())]
        .into_iter()
        .chain(node.transit.iter().map(ToString::to_string));
    Some(LogicalSwitchPort {
        name: transit_switch_port_name(site, &node.name),
        r#type: "remote".to_owned(),
        addresses: [addresses.collect::<Vec<_>>().join(" ")].into(),
        options: texts([
            ("requested-tnl-key", &id.to_string()),
            ("requested-chassis", chassis),
        ]),
        external_ids: texts([("node", &node.name)]),
        ..LogicalSwitchPort::default()
    })
}

/// Routes to the pods of another node.
fn routes_to(site: &Site<'_>, node: &ZoneNode) -> Vec<LogicalRouterStaticRoute> {
    let subnets = node.subnets_of(&site.network.name);
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
