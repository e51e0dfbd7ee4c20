//! Rows of a VPC: its router with routes, policies and ports, load balancers and address sets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::vpc::{
    ExternalPort, Peering, PolicyAction, PolicyRoute, StaticRoute, WiredRouter,
};
use patchbay_model::{format_address, format_net, gateway_mac};
use patchbay_rows::{PartRows, Reader};
use patchbay_schemas::nb::{AddressSet, LogicalRouterPolicyAction};

use super::{balancer, ids, map, router_port, router_side};
use crate::capability::Vpcs;
use crate::inputs::VpcCell;
use crate::part::Part;
use crate::tables::{
    ChassisRow, DYNAMIC_NEIGHBORS, LEARN_FROM_REQUESTS, MAC_BINDING_AGE, PolicyRow, RouteRow,
    RouterPortRow, RouterRow, SwitchPortRow,
};

/// Seconds after which a router forgets a learned neighbor, as in Kube-OVN.
const MAC_BINDING_SECONDS: &str = "300";
/// Priority of the first chassis of a port; the next ones have less.
const FIRST_CHASSIS_PRIORITY: usize = 100;

/// Name of the address set of a VPC's overlay ranges of one family, `ip4` or `ip6`.
pub(super) fn overlay_set(vpc: &str, family: &str) -> String {
    format!("{vpc}.u2o_overlay_cidrs.{family}").replace('-', ".")
}

/// Adds the rows of a VPC.
pub(crate) fn put(
    of: &Vpcs,
    (part, vpc): (&Part, &Arc<str>),
    router: &WiredRouter,
    reader: &Reader<'_, Vpcs>,
    rows: &mut PartRows<()>,
) {
    let mut options = map([(MAC_BINDING_AGE, MAC_BINDING_SECONDS), (DYNAMIC_NEIGHBORS, "true")]);
    if !router.learns_from_requests {
        options.insert(LEARN_FROM_REQUESTS.to_owned(), "false".to_owned());
    }
    let row = RouterRow { name: (&**vpc).into(), options, external_ids: ids(part, []) };
    rows.put(of.tables.routers, &row);
    put_routes(of, (part, vpc), router, reader, rows);
    for policy in &router.policies {
        rows.put(of.tables.policies, &policy_row(part, policy))
            .held_by(of.tables.policies_of_router, &**vpc);
    }
    for peering in &router.peerings {
        put_peering(of, (part, vpc), peering, reader, rows);
    }
    for port in &router.external {
        put_external(of, (part, vpc), port, reader, rows);
    }
    let vips = &reader.read(&VpcCell::Balanced(vpc.clone())).balanced;
    balancer::put_of_vpc(of, (part, vpc), vips.get(vpc).map(|vips| &**vips), reader, rows);
    for family in ["ip4", "ip6"] {
        let row = AddressSet {
            name: overlay_set(vpc, family),
            external_ids: ids(part, [("isU2OOverlayCIDRs", "true"), ("vpc", vpc)]),
            ..AddressSet::default()
        };
        rows.put(of.tables.address_sets, &row);
    }
}

fn put_routes(
    of: &Vpcs,
    (part, vpc): (&Part, &Arc<str>),
    router: &WiredRouter,
    reader: &Reader<'_, Vpcs>,
    rows: &mut PartRows<()>,
) {
    // Clients keep their next hop where the schema can express it.
    let has_fields = reader.has_column(of.tables.routes, "selection_fields");
    let mut hops: BTreeMap<_, usize> = BTreeMap::new();
    let place =
        |route: &StaticRoute| (route.table.clone(), route.is_of_source, route.prefix.clone());
    for route in &router.routes {
        *hops.entry(place(route)).or_default() += 1;
    }
    for route in &router.routes {
        let is_shared = has_fields && hops.get(&place(route)).is_some_and(|count| *count > 1);
        let fields = is_shared.then(|| "ip_src".to_owned());
        let policy = if route.is_of_source { "src-ip" } else { "dst-ip" };
        let row = RouteRow {
            ip_prefix: route.prefix.clone(),
            nexthop: format_address(route.next_hop),
            policy: Some(policy.into()),
            route_table: route.table.clone(),
            selection_fields: fields.into_iter().collect(),
            external_ids: ids(part, []),
        };
        rows.put(of.tables.routes, &row).held_by(of.tables.routes_of_router, &**vpc);
    }
}

fn policy_row(part: &Part, policy: &PolicyRoute) -> PolicyRow {
    let (action, nexthops) = match &policy.action {
        PolicyAction::Allow => (LogicalRouterPolicyAction::Allow, BTreeSet::new()),
        PolicyAction::Drop => (LogicalRouterPolicyAction::Drop, BTreeSet::new()),
        PolicyAction::Reroute(hops) => {
            let hops = hops.iter().map(|hop| format_address(*hop));
            (LogicalRouterPolicyAction::Reroute, hops.collect())
        }
    };
    PolicyRow {
        priority: policy.priority,
        r#match: policy.expression.clone(),
        action,
        nexthop: None,
        nexthops,
        external_ids: ids(part, []),
    }
}

fn put_peering(
    of: &Vpcs,
    (part, vpc): (&Part, &Arc<str>),
    peering: &Peering,
    reader: &Reader<'_, Vpcs>,
    rows: &mut PartRows<()>,
) {
    let name = router_port(vpc, &peering.remote);
    let addresses = peering.networks.iter().map(IpNet::addr);
    let row = RouterPortRow {
        mac: kept_mac(of, &name, reader)
            .unwrap_or_else(|| gateway_mac(addresses).unwrap_or_default()),
        name: name.into(),
        networks: peering.networks.iter().map(|net| format_net(*net)).collect(),
        peer: Some(router_port(&peering.remote, vpc)),
        external_ids: ids(part, [("lr", vpc)]),
        ..RouterPortRow::default()
    };
    rows.put(of.tables.router_ports, &row).held_by(of.tables.ports_of_router, &**vpc);
}

fn put_external(
    of: &Vpcs,
    (part, vpc): (&Part, &Arc<str>),
    port: &ExternalPort,
    reader: &Reader<'_, Vpcs>,
    rows: &mut PartRows<()>,
) {
    // Both sides of the port come at once.
    if reader.row(of.tables.switches, &port.subnet).is_none() {
        return;
    }
    let name = router_port(vpc, &port.subnet);
    let row = RouterPortRow {
        name: name.as_str().into(),
        mac: port.mac.to_string(),
        networks: port.networks.iter().map(|net| format_net(*net)).collect(),
        external_ids: ids(part, [("lr", vpc)]),
        ..RouterPortRow::default()
    };
    rows.put(of.tables.router_ports, &row).held_by(of.tables.ports_of_router, &**vpc);
    let first = FIRST_CHASSIS_PRIORITY.max(port.chassis.len());
    for (chassis, priority) in port.chassis.iter().zip((0..=first).rev()) {
        let row = ChassisRow {
            name: format!("{name}-{chassis}"),
            chassis_name: chassis.to_string(),
            priority: i64::try_from(priority).unwrap_or_default(),
            external_ids: map([("lrp", &*name), ("owner", &part.owner())]),
        };
        rows.put(of.tables.chassis, &row).held_by(of.tables.chassis_of_port, name.as_str());
    }
    let row = SwitchPortRow {
        name: router_side(&port.subnet, vpc).into(),
        r#type: "router".to_owned(),
        addresses: ["router".to_owned()].into(),
        // After a failover the new gateway announces the addresses of rules, too.
        options: map([("router-port", &*name), ("nat-addresses", "router")]),
        external_ids: ids(part, [("ls", &port.subnet)]),
        ..SwitchPortRow::default()
    };
    rows.put(of.tables.switch_ports, &row).held_by(of.tables.ports_of_switch, &*port.subnet);
}

/// MAC address of a router's port that is there, which is kept.
pub(super) fn kept_mac(of: &Vpcs, port: &str, reader: &Reader<'_, Vpcs>) -> Option<String> {
    let row: RouterPortRow = reader.typed(reader.row(of.tables.router_ports, port)?).ok()?;
    Some(row.mac).filter(|mac| !mac.is_empty())
}
