//! Rows of a subnet: its switch with the ports towards the router and the physical network, and the
//! policy of its range.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_model::vpc::{SubnetNet, WiredSubnet};
use patchbay_model::{format_net, gateway_mac};
use patchbay_rows::{PartRows, Reader};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::nb::LogicalRouterPolicyAction;

use super::router::{kept_mac, overlay_set};
use super::{acl, balancer, dhcp, ids, map, port, router_port, router_side};
use crate::capability::Vpcs;
use crate::part::Part;
use crate::tables::{PolicyRow, ROUTE_TABLE, RouterPortRow, SwitchPortRow, SwitchRow};

/// Priority of the policy that lets packets to a range of the VPC pass.
const OWN_RANGE_PRIORITY: i64 = 31_000;
/// Load balancers of the default VPC.
const DEFAULT_BALANCERS: [&str; 6] = [
    "cluster-tcp-loadbalancer",
    "cluster-tcp-session-loadbalancer",
    "cluster-udp-loadbalancer",
    "cluster-udp-session-loadbalancer",
    "cluster-sctp-loadbalancer",
    "cluster-sctp-session-loadbalancer",
];

/// Adds the rows of a subnet.
pub(crate) fn put(
    of: &Vpcs,
    (part, name): (&Part, &Arc<str>),
    subnet: &WiredSubnet,
    reader: &Reader<'_, Vpcs>,
    rows: &mut PartRows<()>,
) {
    let row = SwitchRow { name: (&**name).into(), external_ids: ids(part, []) };
    let mut switch = rows.put(of.tables.switches, &row);
    for balancer in balancers(subnet) {
        switch.holds(of.tables.balancers_of_switch, balancer);
    }
    acl::put_of_subnet(of, (part, name), subnet, reader, rows);
    dhcp::put_of_subnet(of, (part, name), &subnet.dhcp, rows);
    put_localnet(of, (part, name), subnet, rows);
    for (ip, ports) in &subnet.virtual_ips {
        let row = port::virtual_row(&format!("{name}-vip-{ip}"), ip, ports);
        let row = SwitchPortRow { external_ids: ids(part, [("ls", name)]), ..row };
        rows.put(of.tables.switch_ports, &row).held_by(of.tables.ports_of_switch, &**name);
    }
    if !subnet.has_router_port {
        return;
    }
    put_router_port(of, (part, name), subnet, reader, rows);
    for net in &subnet.nets {
        let row = PolicyRow {
            priority: OWN_RANGE_PRIORITY,
            r#match: format!("{}.dst == {}", family(net), format_net(net.net)),
            action: LogicalRouterPolicyAction::Allow,
            nexthop: None,
            nexthops: BTreeSet::new(),
            external_ids: ids(part, [("subnet", name)]),
        };
        rows.put(of.tables.policies, &row).held_by(of.tables.policies_of_router, &*subnet.vpc);
    }
    if subnet.localnet.is_none() && !subnet.is_in_default_vpc {
        for net in &subnet.nets {
            let set = overlay_set(&subnet.vpc, family(net));
            let range = Atom::from(format_net(net.net).as_str());
            rows.member(of.tables.address_sets, set, range);
        }
    }
}

/// Field of OVN for addresses of a range.
fn family(net: &SubnetNet) -> &'static str {
    if net.net.addr().is_ipv4() { "ip4" } else { "ip6" }
}

fn balancers(subnet: &WiredSubnet) -> Vec<String> {
    if !subnet.has_load_balancers {
        return Vec::new();
    }
    if subnet.is_in_default_vpc {
        return DEFAULT_BALANCERS.map(str::to_owned).to_vec();
    }
    let names = balancer::names(&subnet.vpc);
    names.map(|(_, _, name)| name).collect()
}

fn put_localnet(
    of: &Vpcs,
    (part, name): (&Part, &Arc<str>),
    subnet: &WiredSubnet,
    rows: &mut PartRows<()>,
) {
    let Some(localnet) = &subnet.localnet else {
        return;
    };
    let mut external_ids = ids(part, [("ls", name)]);
    for net in &subnet.nets {
        let key = match family(net) {
            "ip4" => "ipv4_network",
            _ => "ipv6_network",
        };
        external_ids.insert(key.to_owned(), format_net(net.net));
    }
    let row = SwitchPortRow {
        name: format!("localnet.{name}").into(),
        r#type: "localnet".to_owned(),
        addresses: ["unknown".to_owned()].into(),
        options: map([("network_name", &*localnet.network)]),
        tag: localnet.tag,
        external_ids,
        ..SwitchPortRow::default()
    };
    rows.put(of.tables.switch_ports, &row).held_by(of.tables.ports_of_switch, &**name);
}

fn put_router_port(
    of: &Vpcs,
    (part, name): (&Part, &Arc<str>),
    subnet: &WiredSubnet,
    reader: &Reader<'_, Vpcs>,
    rows: &mut PartRows<()>,
) {
    // Both sides of the port come at once.
    if reader.row(of.tables.routers, &subnet.vpc).is_none() {
        return;
    }
    let port = router_port(&subnet.vpc, name);
    let gateways = subnet.nets.iter().map(|net| net.gateway);
    let mut options = BTreeMap::new();
    if !subnet.route_table.is_empty() {
        options.insert(ROUTE_TABLE.to_owned(), subnet.route_table.clone());
    }
    let mac = kept_mac(of, &port, reader).or_else(|| gateway_mac(gateways)).unwrap_or_default();
    let advertised = subnet.advertised.as_ref();
    let row = RouterPortRow {
        name: port.as_str().into(),
        mac: mac.clone(),
        networks: subnet.nets.iter().map(|net| format_net(net.gateway_net())).collect(),
        peer: None,
        ipv6_prefix: advertised.map(|_| prefix_lengths(subnet)).unwrap_or_default(),
        ipv6_ra_configs: advertised.map(|of| of.0.clone()).unwrap_or_default(),
        options,
        external_ids: ids(part, [("lr", &subnet.vpc)]),
    };
    rows.put(of.tables.router_ports, &row).held_by(of.tables.ports_of_router, &*subnet.vpc);
    let mut options = map([("router-port", &*port)]);
    if !subnet.answered.is_empty() {
        let answered = subnet.answered.iter().map(ToString::to_string);
        let answered: Vec<String> = [mac].into_iter().chain(answered).collect();
        options.insert("arp_proxy".to_owned(), answered.join(" "));
    }
    let row = SwitchPortRow {
        name: router_side(name, &subnet.vpc).into(),
        r#type: "router".to_owned(),
        addresses: ["router".to_owned()].into(),
        options,
        external_ids: ids(part, [("ls", name)]),
        ..SwitchPortRow::default()
    };
    rows.put(of.tables.switch_ports, &row).held_by(of.tables.ports_of_switch, &**name);
}

/// Lengths of the ranges of IPv6, which Kube-OVN writes beside router advertisements.
fn prefix_lengths(subnet: &WiredSubnet) -> BTreeSet<String> {
    let nets = subnet.nets.iter().filter(|net| net.net.addr().is_ipv6());
    nets.map(|net| net.net.prefix_len().to_string()).collect()
}
