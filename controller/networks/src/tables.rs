//! Tables of the networks' rows.
//!
//! Rows belong to the network that their external ids or their names show. What a network does not
//! want any more goes. OVN-Kubernetes writes these rows, too, and more of them: in a database with
//! its default network, rows are made and completed, and stay. Rows that lead to a node which is
//! gone go in any case, because OVN-Kubernetes removes those as well, on the removal of a node and
//! on every start.
//!
//! All changes have one phase: none of these rows lets traffic from one network reach another. A
//! port on the default network is isolated as soon as it is in the port group, whose ACLs come in
//! the transaction that makes the group.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::external_ids::key;
use patchbay_model::names::{network_prefix, prefix_of_switch};
use patchbay_rows::{Holding, Identity, Layout, Owner, RowView, Table, table_row};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::{Datum, Map, Set};
use patchbay_schemas::nb::{
    Acl, AddressSet, Copp, GatewayChassis, LoadBalancerGroup, LogicalRouter, LogicalRouterPolicy,
    LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort, Meter,
    MeterBand, Nat, NatType, PortGroup, StaticMacBinding,
};
use patchbay_schemas::typed::{Field, TableRow};
use smol_str::SmolStr;
use uuid::Uuid;

use super::capability::Part;
use super::layer2::OLDER_LAYOUT;
use super::{advertised, default_services, isolation, multicast};

/// Key of a switch's configuration: addresses that OVN gives to no port.
pub(super) const EXCLUDED_ADDRESSES: &str = "exclude_ips";
/// Keys of a switch's configuration that follow from the definition of the network alone.
/// OVN-Kubernetes, which may run with other settings, has the same there.
const SWITCH_KEYS: [&str; 6] = [
    EXCLUDED_ADDRESSES,
    "subnet",
    "ipv6_prefix",
    "interconn-ts",
    "requested-tnl-key",
    "mcast_flood_unregistered",
];
/// Start of the names of management ports, which have no external ids.
const MANAGEMENT_PORT: &str = "k8s-";
/// Router of the default network. A database with it is OVN-Kubernetes'.
pub(super) const DEFAULT_ROUTER: &str = "ovn_cluster_router";
/// Ends of the names of load balancer groups.
const LOAD_BALANCER_GROUPS: [&str; 3] =
    ["clusterLBGroup", "clusterSwitchLBGroup", "clusterRouterLBGroup"];
/// Starts of the names of router ports that are bound to chassis.
const CHASSIS_PORTS: [&str; 2] = ["rtos-", "trtos-"];
/// Start of the names of router ports with static MAC bindings.
const EXTERNAL_PORT: &str = "rtoe-GR_";
/// Owner types of a network's ACLs and port groups.
const OWNER_TYPES: [&str; 6] = [
    advertised::OWNER_TYPE,
    isolation::OWNER_TYPE,
    "Cluster",
    "NetpolNode",
    "NetpolDefault",
    multicast::OWNER_TYPE,
];
/// Start of the names of ACLs that open ports of pods on the default network.
const OPEN_PORT: &str = "OpenPort";

/// External ids by which switch ports, router ports and routes name the other node that they lead
/// to. The first of them counts.
const NODE_MARKS: [&str; 3] = ["node", "ic-node", "k8s.ovn.org/node"];

table_row! {
    /// Port of a switch, with the columns that networks use. Ports that lead to other nodes share
    /// values.
    pub struct PortRow of LogicalSwitchPort {
        /// Name.
        name: SmolStr,
        /// Type, such as `router` and `remote`.
        r#type: SmolStr,
        /// MAC and IP addresses.
        addresses: Set,
        /// Options.
        options: Map,
        /// External ids.
        external_ids: Map,
        /// VLAN.
        tag_request: Option<i64>,
    }
}

table_row! {
    /// Static route, with the columns that networks use.
    pub struct RouteRow of LogicalRouterStaticRoute {
        /// Prefix of addresses.
        ip_prefix: SmolStr,
        /// Next hop.
        nexthop: SmolStr,
        /// Column `policy`: the prefix is of sources or of destinations.
        policy: Option<SmolStr>,
        /// Port of the next hop.
        output_port: Option<SmolStr>,
        /// Options.
        options: Map,
        /// External ids.
        external_ids: Map,
    }
}

/// A row as one of another type of its table. The other type has all columns in which the row has
/// values.
pub(super) fn as_row<A: TableRow, B: TableRow>(row: &A) -> B {
    let data = row.to_data();
    let converted = B::from_data(|place| {
        let name = B::COLUMNS.get(place)?;
        data.get(A::COLUMNS.iter().position(|column| column == name)?)
    })
    .unwrap_or_default();
    debug_assert!(
        B::COLUMNS.len() > A::COLUMNS.len() || as_row::<B, A>(&converted) == *row,
        "{row:?} has a column that {converted:?} lacks"
    );
    converted
}

impl From<PortRow> for LogicalSwitchPort {
    fn from(port: PortRow) -> Self {
        as_row(&port)
    }
}

impl From<RouteRow> for LogicalRouterStaticRoute {
    fn from(route: RouteRow) -> Self {
        as_row(&route)
    }
}

table_row! {
    /// Port that leads to a physical network. All its columns are managed, so that a VLAN goes.
    pub(super) struct LocalnetPort of LogicalSwitchPort {
        name: String,
        r#type: String,
        addresses: BTreeSet<String>,
        options: BTreeMap<String, String>,
        external_ids: BTreeMap<String, String>,
        tag_request: Option<i64>,
    }
}

impl LocalnetPort {
    /// Type of such ports.
    pub(super) const TYPE: &str = "localnet";
}

impl From<&LogicalSwitchPort> for LocalnetPort {
    fn from(port: &LogicalSwitchPort) -> Self {
        let port = port.clone();
        Self {
            name: port.name,
            r#type: port.r#type,
            addresses: port.addresses,
            options: port.options,
            external_ids: port.external_ids,
            tag_request: port.tag_request,
        }
    }
}

table_row! {
    /// NAT whose columns nobody else writes: what is not wanted goes, such as a match.
    pub(super) struct OwnNat of Nat {
        r#type: NatType,
        logical_ip: String,
        external_ip: String,
        external_port_range: String,
        logical_port: Option<String>,
        r#match: String,
        options: BTreeMap<String, String>,
        external_ids: BTreeMap<String, String>,
        allowed_ext_ips: Option<Uuid>,
        exempted_ext_ips: Option<Uuid>,
    }
}

table_row! {
    /// Port group with exactly these ports.
    pub(super) struct PortsOfRouters of PortGroup {
        name: String,
        ports: BTreeSet<Uuid>,
        external_ids: BTreeMap<String, String>,
    }
}

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
    pub(super) routes: Table<RouteRow>,
    pub(super) switches: Table<LogicalSwitch>,
    pub(super) switch_ports: Table<PortRow>,
    pub(super) localnet_ports: Table<LocalnetPort>,
    pub(super) acls: Table<Acl>,
    pub(super) port_groups: Table<PortGroup>,
    pub(super) policies: Table<LogicalRouterPolicy>,
    pub(super) nats: Table<Nat>,
    pub(super) own_nats: Table<OwnNat>,
    pub(super) router_ports_groups: Table<PortsOfRouters>,
    pub(super) mac_bindings: Table<StaticMacBinding>,
    pub(super) address_sets: Table<AddressSet>,
    pub(super) meter_bands: Holding,
    pub(super) router_copp: Holding,
    pub(super) ports_of_router: Holding,
    pub(super) routes_of_router: Holding,
    pub(super) port_chassis: Holding,
    pub(super) ports_of_switch: Holding,
    pub(super) localnet_ports_of_switch: Holding,
    pub(super) switch_acls: Holding,
    pub(super) switch_groups: Holding,
    pub(super) ports_of_group: Holding,
    pub(super) group_acls: Holding,
    pub(super) router_groups: Holding,
    pub(super) router_policies: Holding,
    pub(super) router_nats: Holding,
    pub(super) own_nats_of_router: Holding,
    pub(super) acls_of_router_ports: Holding,
}

impl Tables {
    pub(super) fn declare(layout: &mut Layout<Part>) -> Self {
        let by_name = Identity::NAME;
        let copps = layout.table(by_name).shared().declare();
        let meters = layout.table(by_name).shared().declare();
        let bands = layout.table(Identity::Columns(&["action", "rate"])).shared().declare();
        let groups = layout.table(by_name).shared().owned_by(load_balancer_group).declare();
        let routers = layout.table(by_name).shared().owned_by(network_row).declare();
        let router_ports = layout
            .table(by_name)
            .shared()
            .own_keys(&["gateway_mtu"])
            .own_columns(&["ipv6_ra_configs"])
            .owned_by(router_port)
            .declare();
        let chassis = layout.table(by_name).shared().owned_by(chassis_of_port).declare();
        let route = Identity::InHolder(&["ip_prefix", "policy"]);
        let routes = layout
            .table(route)
            .shared()
            .own_columns(&["output_port"])
            .owned_by(network_row)
            .declare();
        let switches =
            layout.table(by_name).shared().own_keys(&SWITCH_KEYS).owned_by(network_row).declare();
        let switch_ports = layout.table(by_name).shared().owned_by(switch_port).declare();
        let localnet_ports = layout.table(by_name).owned_by(localnet_port).declare();
        let acls =
            layout.table(Identity::ExternalId(key::ID)).shared().owned_by(controlled_row).declare();
        let port_groups = layout.table(by_name).shared().owned_by(controlled_row).declare();
        let policy = Identity::InHolder(&["priority", "match"]);
        let policies = layout.table(policy).shared().owned_by(network_row).declare();
        let nat = Identity::InHolder(&["type", "logical_ip", "logical_port", "external_ip"]);
        let nats = layout.table(nat).shared().owned_by(network_row).declare();
        let own_nat = Identity::InHolder(&[
            "type",
            "logical_ip",
            "logical_port",
            "external_ip",
            "allowed_ext_ips",
        ]);
        let own_nats = layout.table(own_nat).owned_by(network_row).declare();
        let router_ports_groups = layout.table(by_name).owned_by(controlled_row).declare();
        let mac_bindings = layout
            .table(Identity::Columns(&["logical_port", "ip"]))
            .owned_by(binding_of_port)
            .declare();
        let address_sets = layout.table(by_name).owned_by(controlled_row).declare();
        Self {
            meter_bands: layout.holding(meters, Meter::BANDS, bands),
            router_copp: layout.holding(routers, LogicalRouter::COPP, copps),
            ports_of_router: layout.holding(routers, LogicalRouter::PORTS, router_ports),
            routes_of_router: layout.holding(routers, LogicalRouter::STATIC_ROUTES, routes),
            port_chassis: layout.holding(router_ports, LogicalRouterPort::GATEWAY_CHASSIS, chassis),
            ports_of_switch: layout.holding(switches, LogicalSwitch::PORTS, switch_ports),
            localnet_ports_of_switch: layout.holding(
                switches,
                LogicalSwitch::PORTS,
                localnet_ports,
            ),
            switch_acls: layout.holding(switches, LogicalSwitch::ACLS, acls),
            switch_groups: layout.holding(switches, LogicalSwitch::LOAD_BALANCER_GROUP, groups),
            group_acls: layout.holding(port_groups, PortGroup::ACLS, acls),
            router_groups: layout.holding(routers, LogicalRouter::LOAD_BALANCER_GROUP, groups),
            router_policies: layout.holding(routers, LogicalRouter::POLICIES, policies),
            router_nats: layout.holding(routers, LogicalRouter::NAT, nats),
            own_nats_of_router: layout.holding(routers, LogicalRouter::NAT, own_nats),
            acls_of_router_ports: layout.holding(
                router_ports_groups,
                Field::<PortsOfRouters, ()>::new("acls"),
                acls,
            ),
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
            localnet_ports,
            acls,
            port_groups,
            policies,
            nats,
            own_nats,
            router_ports_groups,
            mac_bindings,
            address_sets,
        }
    }
}

fn of_prefix(prefix: Option<String>) -> Owner<Part> {
    prefix.map_or(Owner::Unowned, |prefix| Owner::Part(Part::Network(prefix.into())))
}

/// Rows that lead to another node belong to that node, and to the network if they name one. The
/// others belong to the network that they name. Ports of pods belong to neither.
fn network_row(row: &RowView<'_>) -> Owner<Part> {
    let (mut network, mut node, mut is_pod) = (None, None, false);
    for (key, value) in row.external_ids().into_iter().flat_map(Map::iter) {
        let (Some(key), Some(value)) = (key.as_str(), value.as_str()) else {
            continue;
        };
        match key {
            key::NETWORK => network = Some(value),
            "pod" => is_pod = true,
            _ => {
                let mark = NODE_MARKS.iter().position(|mark| *mark == key);
                let mark = mark.map(|mark| (mark, value));
                node = node.into_iter().chain(mark).min();
            }
        }
    }
    let node = node.map(|(_, node)| node);
    match (network.filter(|_| !is_pod), node) {
        (Some(network), Some(node)) => {
            Owner::Part(Part::Remote { prefix: network_prefix(network).into(), node: node.into() })
        }
        (None, Some(node)) => Owner::Part(Part::Departed(node.into())),
        (network, None) => of_prefix(network.map(network_prefix)),
    }
}

/// Management ports show their network by name only.
fn switch_port(row: &RowView<'_>) -> Owner<Part> {
    match network_row(row) {
        Owner::Unowned => {
            let name = row.name().strip_prefix(MANAGEMENT_PORT);
            of_prefix(name.and_then(prefix_of_switch).map(str::to_owned))
        }
        owner => owner,
    }
}

/// Ports of the link to nodes in the older layout show their network by name only.
fn router_port(row: &RowView<'_>) -> Owner<Part> {
    let name = row.name().strip_suffix(OLDER_LAYOUT);
    match name.and_then(|name| name.strip_prefix("trtos-")) {
        Some(switch) => of_prefix(prefix_of_switch(switch).map(str::to_owned)),
        None => network_row(row),
    }
}

/// Ports of other types are rows of the table of all ports.
fn localnet_port(row: &RowView<'_>) -> Owner<Part> {
    let port_type = row.column("type").and_then(Datum::as_scalar);
    let is_localnet = port_type.and_then(Atom::as_str) == Some(LocalnetPort::TYPE);
    if is_localnet { network_row(row) } else { Owner::Unowned }
}

fn load_balancer_group(row: &RowView<'_>) -> Owner<Part> {
    let mut ends = LOAD_BALANCER_GROUPS.into_iter();
    let prefix = ends.find_map(|end| row.name().strip_suffix(end));
    let prefix = prefix.filter(|prefix| !prefix.is_empty() && prefix.ends_with('_'));
    of_prefix(prefix.map(str::to_owned))
}

fn chassis_of_port(row: &RowView<'_>) -> Owner<Part> {
    let mut starts = CHASSIS_PORTS.into_iter();
    let name = starts.find_map(|start| row.name().strip_prefix(start));
    let chassis = row.column("chassis_name").and_then(Datum::as_scalar);
    let switch = name.and_then(|name| {
        let switch = name.strip_suffix(chassis?.as_str()?)?;
        switch.strip_suffix('-')
    });
    of_prefix(switch.and_then(prefix_of_switch).map(str::to_owned))
}

fn binding_of_port(row: &RowView<'_>) -> Owner<Part> {
    let port = row.column("logical_port").and_then(Datum::as_scalar);
    // After the start, gateway routers have the names of switches.
    let name = port.and_then(|port| port.as_str()?.strip_prefix(EXTERNAL_PORT));
    of_prefix(name.and_then(prefix_of_switch).map(str::to_owned))
}

/// Rows with an owner controller: a network's, those that isolate pods, and address sets of
/// services.
fn controlled_row(row: &RowView<'_>) -> Owner<Part> {
    let id = |key| row.external_id(key).unwrap_or_default();
    let (controller, owner_type) = (id(key::OWNER_CONTROLLER), id(key::OWNER_TYPE));
    if controller == default_services::OWNER {
        return Owner::Part(Part::Services);
    }
    if controller == isolation::OWNER && owner_type == advertised::OWNER_TYPE {
        return Owner::Part(Part::Advertised);
    }
    if controller == isolation::OWNER && owner_type == advertised::NODES_OWNER_TYPE {
        return Owner::Part(Part::Hosts);
    }
    if controller == isolation::OWNER {
        let is_of_zone =
            owner_type == isolation::OWNER_TYPE && !id(key::NAME).starts_with(OPEN_PORT);
        return if is_of_zone { Owner::Part(Part::Isolation) } else { Owner::Unowned };
    }
    let network = controller
        .strip_suffix("-network-controller")
        .filter(|_| OWNER_TYPES.contains(&owner_type));
    of_prefix(network.map(network_prefix))
}
