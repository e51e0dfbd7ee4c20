//! Tables of the connects' rows.
//!
//! No state between two phases permits traffic that is denied both before and after. ACLs that
//! isolate pods are added first and removed last. Policies between networks are removed before and
//! added after all other rows. See `docs/design/zone.md`.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::NetworkId;
use patchbay_model::external_ids::{OWNER_CONTROLLER, OWNER_TYPE, key};
use patchbay_model::names::LOAD_BALANCER_GROUP_PREFIX;
use patchbay_rows::{Holding, Identity, Layout, Owner, Phase, Phases, RowView, Table, table_row};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::{Map, Set};
use patchbay_schemas::nb::{
    Acl, AclAction, AclDirection, AddressSet, Copp, LoadBalancer, LoadBalancerGroup, LogicalRouter,
    LogicalRouterPolicy, LogicalRouterPolicyAction, LogicalRouterPort, LogicalRouterStaticRoute,
    LogicalSwitch,
};
use patchbay_schemas::typed::{Field, Ref};
use smol_str::SmolStr;

use super::part::{ConnectPart, LinkId, Part};

/// Phases of rows: address sets grow and ACLs come.
const ISOLATE: Phase = Phase(0);
/// Policies go, and load balancer groups leave switches.
const DISCONNECT: Phase = Phase(1);
/// Ports and routes go.
const UNLINK: Phase = Phase(2);
/// Routers go.
const DISSOLVE: Phase = Phase(3);
/// Routers, ports and routes come.
const LINK: Phase = Phase(4);
/// Policies come, and ACLs let traffic within a network pass.
const CONNECT: Phase = Phase(5);
/// Load balancer groups come, and switches use them.
const SERVE: Phase = Phase(6);
/// ACLs go, and address sets shrink.
const RELEASE: Phase = Phase(7);

/// Phases of the ACL that lets traffic within a network pass: it comes with the isolation, and
/// changes with the policies of the network.
pub(super) const PASS_OWN: Phases = phases(ISOLATE, CONNECT, RELEASE);

/// Phases of routes that come and go with the policies to which they lead.
pub(super) const WAYS: Phases = phases(CONNECT, CONNECT, DISCONNECT);

table_row! {
    /// Router with the columns that a connect router needs.
    pub(super) struct RouterRow of LogicalRouter {
        name: SmolStr,
        external_ids: Map,
        options: Map,
        copp: Option<Ref<Copp>>,
        enabled: Option<bool>,
    }
}

table_row! {
    /// Router port.
    pub(super) struct PortRow of LogicalRouterPort {
        name: SmolStr,
        mac: SmolStr,
        networks: Set,
        peer: Option<SmolStr>,
        options: Map,
        external_ids: Map,
        enabled: Option<bool>,
    }
}

table_row! {
    /// Static route. Most of its columns are always empty.
    pub(super) struct RouteRow of LogicalRouterStaticRoute {
        ip_prefix: SmolStr,
        nexthop: SmolStr,
        policy: Option<SmolStr>,
        output_port: Option<SmolStr>,
        route_table: SmolStr,
        options: Map,
        external_ids: Map,
    }
}

table_row! {
    /// Policy that sends packets to a next hop.
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
    /// ACL of a switch.
    pub(super) struct AclRow of Acl {
        priority: i64,
        direction: AclDirection,
        r#match: String,
        action: AclAction,
        tier: i64,
        log: bool,
        meter: Option<String>,
        name: Option<String>,
        severity: Option<String>,
        options: BTreeMap<String, String>,
        label: i64,
        external_ids: BTreeMap<String, String>,
    }
}

table_row! {
    /// Address set.
    pub(super) struct AddressSetRow of AddressSet {
        name: String,
        addresses: BTreeSet<String>,
        external_ids: BTreeMap<String, String>,
    }
}

table_row! {
    /// Switch of a network. Connects change what it refers to.
    pub(super) struct SwitchRow of LogicalSwitch {
        name: SmolStr,
    }
}

table_row! {
    /// Load balancer of a network's services.
    pub(super) struct LoadBalancerRow of LoadBalancer {
        name: SmolStr,
        external_ids: Map,
    }
}

table_row! {
    /// Control plane protection.
    pub(super) struct CoppRow of Copp {
        name: SmolStr,
    }
}

/// Tables, and the columns by which their rows hold each other.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) copps: Table<CoppRow>,
    pub(super) load_balancers: Table<LoadBalancerRow>,
    pub(super) switches: Table<SwitchRow>,
    pub(super) routers: Table<RouterRow>,
    pub(super) ports: Table<PortRow>,
    pub(super) routes: Table<RouteRow>,
    pub(super) policies: Table<PolicyRow>,
    pub(super) groups: Table<LoadBalancerGroup>,
    pub(super) address_sets: Table<AddressSetRow>,
    pub(super) acls: Table<AclRow>,
    pub(super) router_ports: Holding,
    pub(super) router_routes: Holding,
    pub(super) router_policies: Holding,
    pub(super) switch_groups: Holding,
    pub(super) switch_acls: Holding,
}

impl Tables {
    pub(super) fn declare(layout: &mut Layout<ConnectPart>) -> Self {
        let by_name = Identity::NAME;
        let by_id = Identity::InPart(key::ID);
        let copps = layout.table(by_name).declare();
        let load_balancers = layout.table(Identity::ExternalId(key::NETWORK)).declare();
        let switches = layout.table(by_name).declare();
        let link = phases(LINK, LINK, UNLINK);
        let routers = layout
            .table(by_name)
            .phases(phases(LINK, LINK, DISSOLVE))
            .owned_by(|row| owner(row, |_| Some(Part::Router)))
            .declare();
        let ports = layout.table(by_name).phases(link).owned_by(owner_of_port).declare();
        let routes = layout.table(by_id).phases(link).owned_by(owner_of_route).declare();
        let policies = layout
            .table(by_id)
            .phases(phases(CONNECT, CONNECT, DISCONNECT))
            .owned_by(|row| owner(row, policies))
            .declare();
        let groups = layout
            .table(by_name)
            .phases(phases(SERVE, SERVE, DISCONNECT))
            .owned_by(owner_of_group)
            .declare();
        let isolation = |row: &RowView<'_>| owner(row, |_| Some(Part::Isolation));
        let address_sets = layout
            .table(by_name)
            .phases(phases(ISOLATE, ISOLATE, RELEASE))
            .staged(column(AddressSet::ADDRESSES))
            .owned_by(isolation)
            .declare();
        let acls = layout
            .table(by_id)
            .phases(phases(ISOLATE, ISOLATE, RELEASE))
            .owned_by(isolation)
            .declare();
        Self {
            router_ports: layout.exclusive_holding(routers, column(LogicalRouter::PORTS), ports),
            router_routes: layout.exclusive_holding(
                routers,
                column(LogicalRouter::STATIC_ROUTES),
                routes,
            ),
            router_policies: layout.exclusive_holding(
                routers,
                column(LogicalRouter::POLICIES),
                policies,
            ),
            switch_groups: layout.exclusive_holding(
                switches,
                column(LogicalSwitch::LOAD_BALANCER_GROUP),
                groups,
            ),
            switch_acls: layout.exclusive_holding(switches, column(LogicalSwitch::ACLS), acls),
            copps,
            load_balancers,
            switches,
            routers,
            ports,
            routes,
            policies,
            groups,
            address_sets,
            acls,
        }
    }
}

const fn phases(come: Phase, change: Phase, go: Phase) -> Phases {
    Phases { come, change, go }
}

/// A column of a table as one of a row type with fewer columns.
const fn column<T, R, C>(of: Field<T, C>) -> Field<R, C> {
    Field::new(of.name())
}

/// External ids that decide to which part of a connect a row belongs.
#[derive(Clone, Copy, Debug, Default)]
struct PartIds<'r> {
    network: Option<&'r str>,
    node: Option<&'r str>,
    source: Option<&'r str>,
    destination: Option<&'r str>,
}

/// Owner of a row by its external ids, read in one pass over them. Rows that show no part are
/// stray.
fn owner(row: &RowView<'_>, part: impl Fn(PartIds<'_>) -> Option<Part>) -> Owner<ConnectPart> {
    let (mut controller, mut owner_type, mut connect) = (None, None, None::<&SmolStr>);
    let mut ids = PartIds::default();
    for (key, value) in row.external_ids().into_iter().flat_map(Map::iter) {
        let place = match key.as_str().unwrap_or_default() {
            key::OWNER_CONTROLLER => &mut controller,
            key::OWNER_TYPE => &mut owner_type,
            key::NAME => {
                connect = match value {
                    Atom::String(name) => Some(name),
                    _ => None,
                };
                continue;
            }
            key::NETWORK_ID => &mut ids.network,
            key::NODE_ID => &mut ids.node,
            key::SOURCE_NETWORK_ID => &mut ids.source,
            key::DESTINATION_NETWORK_ID => &mut ids.destination,
            _ => continue,
        };
        *place = value.as_str();
    }
    let is_connect = controller == Some(OWNER_CONTROLLER) && owner_type == Some(OWNER_TYPE);
    match connect.filter(|_| is_connect) {
        Some(connect) => Owner::Part(ConnectPart {
            connect: connect.clone(),
            part: part(ids).unwrap_or(Part::Stray),
        }),
        None if controller.is_some() => Owner::Other,
        None => Owner::Unowned,
    }
}

/// Value of column `enabled` that a router or port is to have. A disabled row is enabled again; one
/// that is enabled in words stays so.
pub(super) fn enabled(row: Option<RowView<'_>>) -> Option<bool> {
    let enabled = row?.column("enabled")?.as_scalar()?;
    (*enabled == Atom::Boolean(true)).then_some(true)
}

/// `true` if a row has another owner than a connect.
pub(super) fn is_of_other(row: &RowView<'_>) -> bool {
    matches!(owner(row, |_| None), Owner::Other)
}

/// Owner of a port or route.
pub(super) fn owner_of_port(row: &RowView<'_>) -> Owner<ConnectPart> {
    owner(row, link)
}

/// Owner of a route: on a connect router, or on that of a network.
fn owner_of_route(row: &RowView<'_>) -> Owner<ConnectPart> {
    owner(row, |ids| policies(ids).or_else(|| link(ids)))
}

fn link(ids: PartIds<'_>) -> Option<Part> {
    Some(Part::Link(LinkId { network: network(ids.network)?, index: ids.node?.parse().ok()? }))
}

fn policies(ids: PartIds<'_>) -> Option<Part> {
    Some(Part::Policies { source: network(ids.source)?, destination: network(ids.destination)? })
}

fn network(id: Option<&str>) -> Option<NetworkId> {
    id?.parse().ok()
}

/// Owner of a load balancer group. Groups have no external ids: the name contains the connect. The
/// prefix alone names none.
fn owner_of_group(row: &RowView<'_>) -> Owner<ConnectPart> {
    let connect = row.name().strip_prefix(LOAD_BALANCER_GROUP_PREFIX);
    let connect = connect.filter(|connect| !connect.is_empty());
    connect.map_or(Owner::Unowned, |connect| {
        Owner::Part(ConnectPart { connect: connect.into(), part: Part::Services })
    })
}
