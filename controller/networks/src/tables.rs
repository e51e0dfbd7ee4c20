//! Tables of the networks' rows.
//!
//! OVN-Kubernetes writes these rows, too, and more of them. So all tables are shared: rows are
//! found by name, made and completed, and stay. What goes are rows that lead to a node which is
//! gone, whoever has made them: OVN-Kubernetes removes those as well, on the removal of a node and
//! on every start.
//!
//! All changes have one phase: none of these rows lets traffic from one network reach another.

use patchbay_model::external_ids::key;
use patchbay_rows::{Holding, Identity, Layout, Owner, RowView, Table};
use patchbay_schemas::nb::{
    Acl, Copp, GatewayChassis, LoadBalancerGroup, LogicalRouter, LogicalRouterPort,
    LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort, Meter, MeterBand, PortGroup,
};

use super::capability::Part;

/// External ids by which switch ports, router ports and routes name the other node that they lead
/// to.
const NODE_MARKS: [&str; 3] = ["node", "ic-node", "k8s.ovn.org/node"];

/// Tables, and the columns by which their rows hold each other.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) copps: Table<Copp>,
    pub(super) meters: Table<Meter>,
    pub(super) bands: Table<MeterBand>,
    pub(super) groups: Table<LoadBalancerGroup>,
    pub(super) routers: Table<LogicalRouter>,
    pub(super) router_ports: Table<LogicalRouterPort>,
    pub(super) chassis: Table<GatewayChassis>,
    pub(super) routes: Table<LogicalRouterStaticRoute>,
    pub(super) switches: Table<LogicalSwitch>,
    pub(super) switch_ports: Table<LogicalSwitchPort>,
    pub(super) acls: Table<Acl>,
    pub(super) port_groups: Table<PortGroup>,
    pub(super) meter_bands: Holding,
    pub(super) router_copp: Holding,
    pub(super) ports_of_router: Holding,
    pub(super) routes_of_router: Holding,
    pub(super) port_chassis: Holding,
    pub(super) ports_of_switch: Holding,
    pub(super) switch_acls: Holding,
    pub(super) switch_groups: Holding,
    pub(super) ports_of_group: Holding,
}

impl Tables {
    pub(super) fn declare(layout: &mut Layout<Part>) -> Self {
        let by_name = Identity::NAME;
        let copps = layout.table(by_name).shared().declare();
        let meters = layout.table(by_name).shared().declare();
        let bands = layout.table(Identity::InHolder(&[])).shared().declare();
        let groups = layout.table(by_name).shared().declare();
        let routers = layout.table(by_name).shared().declare();
        let router_ports = layout
            .table(by_name)
            .shared()
            .owned_by(remote_node)
            .declare();
        let chassis = layout.table(by_name).shared().declare();
        let route = Identity::InHolder(&["ip_prefix", "policy"]);
        let routes = layout.table(route).shared().owned_by(remote_node).declare();
        let switches = layout.table(by_name).shared().declare();
        let switch_ports = layout
            .table(by_name)
            .shared()
            .owned_by(remote_node)
            .declare();
        let acls = layout
            .table(Identity::ExternalId(key::ID))
            .shared()
            .declare();
        let port_groups = layout.table(by_name).shared().declare();
        Self {
            meter_bands: layout.holding(meters, Meter::BANDS, bands),
            router_copp: layout.holding(routers, LogicalRouter::COPP, copps),
            ports_of_router: layout.holding(routers, LogicalRouter::PORTS, router_ports),
            routes_of_router: layout.holding(routers, LogicalRouter::STATIC_ROUTES, routes),
            port_chassis: layout.holding(router_ports, LogicalRouterPort::GATEWAY_CHASSIS, chassis),
            ports_of_switch: layout.holding(switches, LogicalSwitch::PORTS, switch_ports),
            switch_acls: layout.holding(switches, LogicalSwitch::ACLS, acls),
            switch_groups: layout.holding(switches, LogicalSwitch::LOAD_BALANCER_GROUP, groups),
            ports_of_group: layout.holding(port_groups, PortGroup::PORTS, switch_ports),
            copps,
            meters,
            bands,
            groups,
            routers,
            router_ports,
            chassis,
            routes,
            switches,
            switch_ports,
            acls,
            port_groups,
        }
    }
}

/// Rows that lead to another node belong to that node.
fn remote_node(row: &RowView<'_>) -> Owner<Part> {
    let mut marks = NODE_MARKS.into_iter();
    let node = marks.find_map(|mark| row.external_id(mark));
    node.map_or(Owner::Unowned, |node| {
        Owner::Part(Part::Departed(node.into()))
    })
}
