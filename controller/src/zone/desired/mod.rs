//! The rows that a connect should have in one zone: pure functions of what the cluster knows and of which rows of
//! others there are to attach to.
//!
//! ```text
//! members     which networks the annotation names, and where they are in this zone
//! links       the ports between the connect router and the networks' routers, a pair of addresses each
//! routing     policies on the networks' routers, routes on the connect router
//! services    the load balancer group
//! isolation   ACLs and address sets that keep pods apart when only services are let through
//! ```

mod isolation;
mod links;
mod members;
mod routing;
mod services;

use std::collections::{BTreeMap, BTreeSet};

use patchbay_schemas::nb::{
    Acl, AddressSet, Copp, LoadBalancer, LoadBalancerGroup, LogicalRouter, LogicalRouterPolicy,
    LogicalRouterPort, LogicalRouterStaticRoute,
};
use patchbay_schemas::typed::Ref;

use super::inputs::Inputs;
use super::report::{ConnectReport, ConnectedNetwork, HeldReason, Notice};
use crate::model::external_ids::{ExternalIds, OwnedRow};
use crate::model::{Connect, DatapathKey, NetworkId, Topology, names};

/// Name of the control plane protection that all routers share.
pub(super) const COPP: &str = "ovnkube-default";

/// The rows of others that a connect's rows attach to.
#[derive(Debug, Default)]
pub(super) struct Surroundings<'a> {
    /// Names of the routers there are.
    pub(super) routers: BTreeSet<&'a str>,
    /// Names of the switches there are.
    pub(super) switches: BTreeSet<&'a str>,
    /// Names of ports that cannot be had, because other controllers own rows of these names.
    pub(super) taken_ports: BTreeSet<&'a str>,
    /// The control plane protection.
    pub(super) copp: Option<Ref<Copp>>,
    /// Load balancers of services, by network.
    pub(super) load_balancers: BTreeMap<&'a str, BTreeSet<Ref<LoadBalancer>>>,
    /// Whether an ACL can leave the decision to the next tier.
    pub(super) has_pass_action: bool,
}

/// The rows of one connect in one zone.
#[derive(Debug)]
pub(super) struct DesiredRows {
    /// The connect router; its ports and routes are beside it.
    pub(super) router: LogicalRouter,
    /// Ports of the connect router.
    pub(super) ports: Vec<LogicalRouterPort>,
    /// Routes of the connect router.
    pub(super) routes: Vec<LogicalRouterStaticRoute>,
    /// Rows on the routers of the networks.
    pub(super) network_routers: Vec<NetworkRouterRows>,
    /// The load balancer group and the switches that use it.
    pub(super) services: Option<ServiceRows>,
    /// What keeps pods apart; none if pods may reach pods.
    pub(super) isolation: Option<IsolationRows>,
}

/// The rows of one connect on one network's router.
#[derive(Debug)]
pub(super) struct NetworkRouterRows {
    /// Name of the router.
    pub(super) router: String,
    /// The port to the connect router.
    pub(super) port: LogicalRouterPort,
    /// What sends traffic for the other networks to the connect router.
    pub(super) policies: Vec<LogicalRouterPolicy>,
}

/// Load balancers of all connected networks.
#[derive(Debug)]
pub(super) struct ServiceRows {
    /// The group.
    pub(super) group: LoadBalancerGroup,
    /// Names of the switches that use the group.
    pub(super) switches: Vec<String>,
}

/// ACLs that drop traffic from pod to pod, and the address sets that they refer to.
#[derive(Debug)]
pub(super) struct IsolationRows {
    /// The pod subnets of all networks, a row for each family.
    pub(super) address_sets: Vec<AddressSet>,
    /// The ACLs.
    pub(super) acls: Vec<Acl>,
    /// For each switch, by name, the places of its ACLs in `acls`.
    pub(super) switches: Vec<(String, Vec<usize>)>,
}

/// What a connect comes to in a zone: its rows, unless all rows are to be left as they are, and what to tell.
pub(super) struct Outcome {
    pub(super) rows: Option<DesiredRows>,
    pub(super) report: ConnectReport,
}

/// The rows of a connect whose router has this key.
pub(super) fn desired(
    connect: &Connect,
    key: Option<DatapathKey>,
    inputs: &Inputs,
    around: &Surroundings<'_>,
) -> Outcome {
    let (key, copp) = match (key, around.copp) {
        (Some(key), Some(copp)) => (key, copp),
        (None, _) => return held(HeldReason::NoTunnelKey),
        (_, None) => return held(HeldReason::NoCopp(COPP)),
    };
    let mut report = ConnectReport {
        notices: connect
            .unknown_owners
            .iter()
            .map(|error| Notice::UnknownOwner(error.to_string()))
            .collect(),
        ..ConnectReport::default()
    };
    let members = members::members(connect, inputs, around, &mut report);
    let links = links::links(connect, &members, inputs, around, &mut report);
    let routes = routing::routes(connect, &links, &mut report);
    report.connected = connected(&members, &links, &routes);
    let rows = DesiredRows {
        router: LogicalRouter {
            name: names::connect_router(&connect.name),
            external_ids: owned(OwnedRow::Router.external_ids(&connect.name)),
            options: [("requested-tnl-key".to_owned(), key.to_string())].into(),
            copp: Some(copp),
            ..LogicalRouter::default()
        },
        network_routers: routing::network_routers(connect, &members, &links),
        ports: links.into_iter().map(|link| link.connect_port).collect(),
        routes,
        services: services::services(connect, &members, inputs, around, &mut report),
        isolation: isolation::isolation(connect, &members, inputs),
    };
    Outcome {
        rows: Some(rows),
        report,
    }
}

fn held(reason: HeldReason) -> Outcome {
    Outcome {
        rows: None,
        report: ConnectReport::held(reason),
    }
}

fn connected(
    members: &[members::Member<'_>],
    links: &[links::Link<'_>],
    routes: &[LogicalRouterStaticRoute],
) -> Vec<ConnectedNetwork> {
    let mut ports = BTreeMap::<NetworkId, (usize, bool)>::new();
    for link in links {
        let count = ports.entry(link.member.network.id).or_default();
        count.0 += 1;
        count.1 |= link.network_port.is_some();
    }
    let mut routes_to = BTreeMap::<&str, usize>::new();
    for route in routes {
        let network = route
            .external_ids
            .get(crate::model::external_ids::key::NETWORK_ID);
        *routes_to
            .entry(network.map_or("", String::as_str))
            .or_default() += 1;
    }
    let members = members.iter().filter(|member| member.is_connected);
    members
        .map(|member| {
            let id = member.network.id;
            let (ports, is_local) = ports.get(&id).copied().unwrap_or_default();
            ConnectedNetwork {
                owner: member.network.owner_key(),
                network: member.network.name.clone(),
                is_local,
                ports,
                routes: routes_to.get(&*id.to_string()).copied().unwrap_or_default(),
            }
        })
        .collect()
}

/// External ids as a column has them.
fn owned(ids: ExternalIds) -> BTreeMap<String, String> {
    ids.into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

/// Whether a network of this topology has a place in a zone whose node is not there.
const fn needs_local_node(topology: Topology) -> bool {
    matches!(topology, Topology::Layer3)
}
