//! Tables of VPCs' rows.
//!
//! A row belongs to the object that its external id `owner` names, and goes if the object does not
//! want it. Routers, switches and their ports may get more from other programs, which stays. Rows
//! without an owner that are wanted are taken over, as those of Kube-OVN.
//!
//! Phases: policies of a VPC come and change before its ports on external subnets come, and go
//! after them. So no packet takes a new way before the policies that drop it are there. The same
//! holds for ACLs that drop packets, and the ports of their switch. Rows of other objects lead
//! nowhere without the router's ports.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_rows::{Holding, Identity, Layout, Owner, Phase, Phases, RowView, Table, table_row};
use patchbay_schemas::nb::{
    Acl, AclAction, AclDirection, AclSeverity, AddressSet, DhcpOptions, GatewayChassis,
    LoadBalancer, LoadBalancerHealthCheck, LogicalRouter, LogicalRouterPolicy,
    LogicalRouterPolicyAction, LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch,
    LogicalSwitchPort, Nat, NatType, PortGroup,
};
use patchbay_schemas::typed::Field;
use smol_str::SmolStr;

use super::part::Part;

/// Options and external ids of a switch port that go if they are not wanted.
const OWN_PORT_KEYS: &[&str] = &[
    "network_name",
    "nat-addresses",
    "ipv4_network",
    "ipv6_network",
    "arp_proxy",
    "virtual-parents",
    "vips",
    "attach-vips",
];
/// Phase in which policies and ACLs come and change.
const GUARD: Phase = Phase(0);
/// Phase in which all other rows come, change and go.
const CONNECT: Phase = Phase(1);
/// Phase in which policies and ACLs go.
const RELEASE: Phase = Phase(2);
/// Phases of rows that let packets pass. They go as their table's rows do.
pub(super) const ALLOWED: Phases = Phases { come: CONNECT, change: CONNECT, go: RELEASE };

/// Option of a router: seconds after which a learned neighbor is forgotten.
pub(super) const MAC_BINDING_AGE: &str = "mac_binding_age_threshold";
/// Option of a router: neighbors that are routers are learned when they are needed.
pub(super) const DYNAMIC_NEIGHBORS: &str = "dynamic_neigh_routers";
/// Option of a router: neighbors are learned from all ARP requests. Default: `true`.
pub(super) const LEARN_FROM_REQUESTS: &str = "always_learn_from_arp_request";
/// External id of DHCP options: subnet or port, and the IP family.
pub(super) const DHCP_ID: &str = "dhcp";
/// Option of a router port: route table of packets that come in there.
pub(super) const ROUTE_TABLE: &str = "route_table";

table_row! {
    /// Router of a VPC.
    pub(super) struct RouterRow of LogicalRouter {
        name: SmolStr,
        options: BTreeMap<String, String>,
        external_ids: BTreeMap<String, String>,
    }
}

table_row! {
    /// Port of a router.
    pub(super) struct RouterPortRow of LogicalRouterPort {
        name: SmolStr,
        mac: String,
        networks: BTreeSet<String>,
        peer: Option<String>,
        ipv6_prefix: BTreeSet<String>,
        ipv6_ra_configs: BTreeMap<String, String>,
        options: BTreeMap<String, String>,
        external_ids: BTreeMap<String, String>,
    }
}

table_row! {
    /// Static route.
    pub(super) struct RouteRow of LogicalRouterStaticRoute {
        ip_prefix: String,
        nexthop: String,
        policy: Option<SmolStr>,
        route_table: String,
        selection_fields: BTreeSet<String>,
        external_ids: BTreeMap<String, String>,
    }
}

table_row! {
    /// Policy of a router.
    pub(super) struct PolicyRow of LogicalRouterPolicy {
        priority: i64,
        r#match: String,
        action: LogicalRouterPolicyAction,
        nexthop: Option<String>,
        nexthops: BTreeSet<String>,
        external_ids: BTreeMap<String, String>,
    }
}

table_row! {
    /// Chassis that may host a port of a router.
    pub(super) struct ChassisRow of GatewayChassis {
        name: String,
        chassis_name: String,
        priority: i64,
        external_ids: BTreeMap<String, String>,
    }
}

table_row! {
    /// Switch of a subnet.
    pub(super) struct SwitchRow of LogicalSwitch {
        name: SmolStr,
        external_ids: BTreeMap<String, String>,
    }
}

table_row! {
    /// ACL.
    pub(super) struct AclRow of Acl {
        direction: AclDirection,
        priority: i64,
        r#match: String,
        action: AclAction,
        tier: i64,
        name: Option<String>,
        log: bool,
        severity: Option<AclSeverity>,
        external_ids: BTreeMap<String, String>,
    }
}

table_row! {
    /// Port group of a security group.
    pub(super) struct GroupRow of PortGroup {
        name: SmolStr,
        external_ids: BTreeMap<String, String>,
    }
}

table_row! {
    /// Port of a switch.
    pub(super) struct SwitchPortRow of LogicalSwitchPort {
        name: SmolStr,
        r#type: String,
        addresses: BTreeSet<String>,
        port_security: BTreeSet<String>,
        options: BTreeMap<String, String>,
        tag: Option<i64>,
        external_ids: BTreeMap<String, String>,
    }
}

table_row! {
    /// Translation of an address.
    pub(super) struct NatTableRow of Nat {
        r#type: NatType,
        external_ip: String,
        logical_ip: String,
        logical_port: Option<String>,
        external_mac: Option<String>,
        options: BTreeMap<String, String>,
        external_ids: BTreeMap<String, String>,
    }
}

table_row! {
    /// Load balancer.
    pub(super) struct BalancerRow of LoadBalancer {
        name: SmolStr,
        protocol: Option<SmolStr>,
        vips: BTreeMap<String, String>,
        ip_port_mappings: BTreeMap<String, String>,
        selection_fields: BTreeSet<String>,
        options: BTreeMap<String, String>,
        external_ids: BTreeMap<String, String>,
    }
}

table_row! {
    /// Load balancer of a VPC, with the addresses of its services and rules.
    pub(super) struct VpcBalancerRow of LoadBalancer {
        name: SmolStr,
        protocol: Option<SmolStr>,
        vips: BTreeMap<String, String>,
        ip_port_mappings: BTreeMap<String, String>,
        selection_fields: BTreeSet<String>,
        options: BTreeMap<String, String>,
        external_ids: BTreeMap<String, String>,
    }
}

/// Tables, and the columns by which their rows hold each other.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) routers: Table<RouterRow>,
    pub(super) router_ports: Table<RouterPortRow>,
    pub(super) routes: Table<RouteRow>,
    pub(super) policies: Table<PolicyRow>,
    pub(super) chassis: Table<ChassisRow>,
    pub(super) switches: Table<SwitchRow>,
    pub(super) switch_ports: Table<SwitchPortRow>,
    pub(super) acls: Table<AclRow>,
    pub(super) groups: Table<GroupRow>,
    pub(super) dhcp: Table<DhcpOptions>,
    pub(super) nats: Table<NatTableRow>,
    pub(super) balancers: Table<BalancerRow>,
    pub(super) vpc_balancers: Table<VpcBalancerRow>,
    pub(super) health_checks: Table<LoadBalancerHealthCheck>,
    pub(super) address_sets: Table<AddressSet>,
    pub(super) ports_of_router: Holding,
    pub(super) routes_of_router: Holding,
    pub(super) policies_of_router: Holding,
    pub(super) nats_of_router: Holding,
    pub(super) balancers_of_router: Holding,
    pub(super) chassis_of_port: Holding,
    pub(super) ports_of_switch: Holding,
    pub(super) balancers_of_switch: Holding,
    pub(super) rules_of_switch: Holding,
    pub(super) checks_of_balancer: Holding,
    pub(super) checks_of_rule: Holding,
    pub(super) acls_of_switch: Holding,
    pub(super) acls_of_group: Holding,
    pub(super) ports_of_group: Holding,
    pub(super) dhcp_v4_of_port: Holding,
    pub(super) dhcp_v6_of_port: Holding,
    pub(super) port_of_nat: Holding,
}

impl Tables {
    pub(super) fn declare(layout: &mut Layout<Part>) -> Self {
        let by_name = Identity::NAME;
        let phases = Phases { come: CONNECT, change: CONNECT, go: CONNECT };
        let guards = Phases { come: GUARD, change: GUARD, go: RELEASE };
        let routers = layout
            .table(by_name)
            .shared()
            .own_keys(&[MAC_BINDING_AGE, DYNAMIC_NEIGHBORS, LEARN_FROM_REQUESTS])
            .owned_by(owner)
            .phases(phases)
            .declare();
        let router_ports = layout
            .table(by_name)
            .shared()
            .own_keys(&[ROUTE_TABLE])
            .own_columns(&["peer", "ipv6_prefix", "ipv6_ra_configs"])
            .owned_by(owner)
            .phases(phases)
            .declare();
        let routes = layout
            .table(Identity::InHolder(&["route_table", "policy", "ip_prefix", "nexthop"]))
            .owned_by(owner)
            .phases(phases)
            .declare();
        let policies = layout
            .table(Identity::InHolder(&["priority", "match"]))
            .owned_by(owner)
            .phases(guards)
            .declare();
        let chassis = layout.table(by_name).owned_by(owner).phases(phases).declare();
        let switches = layout.table(by_name).shared().owned_by(owner).phases(phases).declare();
        let switch_ports = layout
            .table(by_name)
            .shared()
            .own_keys(OWN_PORT_KEYS)
            .own_columns(&["tag", "port_security"])
            .owned_by(owner)
            .phases(phases)
            .declare();
        let acls = layout
            .table(Identity::InHolder(&["direction", "priority", "match", "tier"]))
            .owned_by(owner)
            .phases(guards)
            .declare();
        let groups = layout.table(by_name).owned_by(owner).phases(guards).declare();
        let dhcp =
            layout.table(Identity::ExternalId(DHCP_ID)).owned_by(owner).phases(phases).declare();
        let nats = layout
            .table(Identity::InHolder(&["type", "external_ip", "logical_ip"]))
            .owned_by(owner)
            .phases(phases)
            .declare();
        let balancers = layout.table(by_name).owned_by(owner_of_rule).phases(phases).declare();
        let vpc_balancers = layout
            .table(by_name)
            .shared()
            .own_columns(&["vips", "ip_port_mappings"])
            .owned_by(owner_of_vpc)
            .phases(phases)
            .declare();
        let health_checks =
            layout.table(Identity::InHolder(&["vip"])).owned_by(owner).phases(phases).declare();
        let address_sets = layout
            .table(by_name)
            .owned_by(owner)
            .phases(phases)
            .members(AddressSet::ADDRESSES)
            .declare();
        Self {
            ports_of_router: layout.holding(routers, column(LogicalRouter::PORTS), router_ports),
            routes_of_router: layout.holding(routers, column(LogicalRouter::STATIC_ROUTES), routes),
            policies_of_router: layout.holding(routers, column(LogicalRouter::POLICIES), policies),
            nats_of_router: layout.holding(routers, column(LogicalRouter::NAT), nats),
            balancers_of_router: layout.holding(
                routers,
                column(LogicalRouter::LOAD_BALANCER),
                balancers,
            ),
            chassis_of_port: layout.holding(
                router_ports,
                column(LogicalRouterPort::GATEWAY_CHASSIS),
                chassis,
            ),
            ports_of_switch: layout.holding(switches, column(LogicalSwitch::PORTS), switch_ports),
            balancers_of_switch: layout.holding(
                switches,
                column(LogicalSwitch::LOAD_BALANCER),
                vpc_balancers,
            ),
            checks_of_balancer: layout.holding(
                vpc_balancers,
                column(LoadBalancer::HEALTH_CHECK),
                health_checks,
            ),
            checks_of_rule: layout.holding(
                balancers,
                column(LoadBalancer::HEALTH_CHECK),
                health_checks,
            ),
            rules_of_switch: layout.holding(
                switches,
                column(LogicalSwitch::LOAD_BALANCER),
                balancers,
            ),
            dhcp_v4_of_port: layout.holding(
                switch_ports,
                column(LogicalSwitchPort::DHCPV4_OPTIONS),
                dhcp,
            ),
            dhcp_v6_of_port: layout.holding(
                switch_ports,
                column(LogicalSwitchPort::DHCPV6_OPTIONS),
                dhcp,
            ),
            acls_of_group: layout.holding(groups, column(PortGroup::ACLS), acls),
            ports_of_group: layout.holding(groups, column(PortGroup::PORTS), switch_ports),
            acls_of_switch: layout.holding(switches, column(LogicalSwitch::ACLS), acls),
            port_of_nat: layout.holding(nats, column(Nat::GATEWAY_PORT), router_ports),
            routers,
            router_ports,
            routes,
            policies,
            chassis,
            switches,
            switch_ports,
            acls,
            groups,
            dhcp,
            nats,
            balancers,
            vpc_balancers,
            health_checks,
            address_sets,
        }
    }
}

/// A column of a table as one of a row type with fewer columns.
const fn column<T, R, C>(of: Field<T, C>) -> Field<R, C> {
    Field::new(of.name())
}

fn owner(row: &RowView<'_>) -> Owner<Part> {
    Part::of_row(row).map_or(Owner::Unowned, Owner::Part)
}

fn owner_of_rule(row: &RowView<'_>) -> Owner<Part> {
    match Part::of_row(row) {
        Some(Part::Vpc(_)) => Owner::Other,
        other => other.map_or(Owner::Unowned, Owner::Part),
    }
}

fn owner_of_vpc(row: &RowView<'_>) -> Owner<Part> {
    match Part::of_row(row) {
        Some(part @ Part::Vpc(_)) => Owner::Part(part),
        Some(_) => Owner::Other,
        None => Owner::Unowned,
    }
}
