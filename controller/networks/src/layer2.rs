//! A layer2 network: one switch and one router that all zones share.

use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_schemas::nb::{LogicalRouter, LogicalRouterPort, LogicalSwitch};

use super::inputs::Site;
use super::rows::{
    TextMap, address_config, interconnect_config, port_mac, port_networks, router_side, texts,
};
use super::{NetworkRows, RouterPortRows, RouterRows, SkipReason, SwitchRows};
use patchbay_model::arithmetic::nth_address;
use patchbay_model::{DatapathKey, IpFamily};

pub(super) fn rows(site: &Site<'_>) -> Result<NetworkRows, SkipReason> {
    let name = site.network.switch(&site.node.name);
    let subnets = subnets(site);
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
    let switch_key = if site.is_primary() {
        let [switch_key, router_key] = site.details.tunnel_keys[..] else {
            return Err(SkipReason::NoTunnelKeys);
        };
        let (gateways, management) = addresses(site, &subnets)?;
        let mut to_router = router_side(
            format!("stotr-{name}"),
            &site.network.inport(&site.node.name),
        );
        to_router.external_ids = site.ids();
        let management_port = site.management_port(&management);
        rows.port_groups = site.port_groups(&management_port.name);
        rows.router = Some(router(site, router_key, &gateways));
        switch.acls = site.management_acls(&name, &management);
        switch.ports = vec![to_router, management_port];
        switch_key
    } else {
        DatapathKey::of_network(site.network.id)
    };
    switch
        .switch
        .other_config
        .extend(interconnect_config(&name, &switch_key.to_string()));
    rows.switches = vec![switch];
    Ok(rows)
}

/// The network's ranges, IPv4 first.
fn subnets(site: &Site<'_>) -> Vec<IpNet> {
    IpFamily::BOTH
        .into_iter()
        .flat_map(|family| site.network.pod_subnets_of(family))
        .collect()
}

/// The gateway of each range, and the address of the node itself there, which is the same on every
/// node.
fn addresses(site: &Site<'_>, subnets: &[IpNet]) -> Result<(Vec<IpNet>, Vec<IpAddr>), SkipReason> {
    let (mut gateways, mut management) = (Vec::new(), Vec::new());
    for subnet in subnets {
        let named = site.details.default_gateways.iter();
        let named = named.copied().find(|gateway| subnet.contains(gateway));
        let ranges = site.details.infrastructure_subnets.iter().copied();
        let ranges: Vec<IpNet> = ranges.filter(|range| subnet.contains(range)).collect();
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
    let addresses = ranges
        .iter()
        .flat_map(|range| (0..).map_while(|n| nth_address(*range, n)));
    let mut free = addresses.filter(|address| is_usable(address) && Some(*address) != gateway);
    let gateway = gateway.or_else(|| free.next())?;
    Some((gateway, free.next()?))
}

fn router(site: &Site<'_>, key: DatapathKey, gateways: &[IpNet]) -> RouterRows {
    let name = site.network.inport(&site.node.name);
    let mut options = texts([("requested-tnl-key", "1")]);
    options.extend(site.gateway_mtu());
    let has_ipv6 = gateways.iter().any(|gateway| gateway.addr().is_ipv6());
    RouterRows {
        router: LogicalRouter {
            name: site.network.router(),
            options: texts([("requested-tnl-key", &key.to_string())]),
            external_ids: site.router_ids(),
            ..LogicalRouter::default()
        },
        ports: vec![RouterPortRows {
            gateway_chassis: Some(site.gateway_chassis(&name)),
            port: LogicalRouterPort {
                name,
                mac: port_mac(gateways),
                networks: port_networks(gateways),
                options,
                ipv6_ra_configs: if has_ipv6 {
                    router_advertisements(site)
                } else {
                    TextMap::new()
                },
                ..LogicalRouterPort::default()
            },
        }],
        static_routes: Vec::new(),
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
