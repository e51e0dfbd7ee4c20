//! Zones and connects as one JSON or YAML document.

use patchbay_connects::{ConnectReport, Counts};
use patchbay_engine::db::Snapshot;
use patchbay_model::names;
use patchbay_reconcile::zone::ZoneOutcome;
use patchbay_schemas::nb::{
    LogicalRouter, LogicalRouterPolicy, LogicalRouterPort, LogicalRouterStaticRoute,
};
use patchbay_schemas::typed::{Ref, TableRow, TypeError};
use serde::Serialize;
use serde_json::Value;

use super::kept::{KeptObject, by_object};
use super::routers::RoutersByName;

/// The document of `apply -o json` and `apply -o yaml`.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    /// Annotations and status of every connect.
    pub(super) connects: Vec<Value>,
    /// Status of every UDN and CUDN.
    pub(super) networks: Vec<Value>,
    pub(super) zones: Vec<Zone>,
}

/// Rows and reports of one zone.
#[derive(Debug, Serialize)]
pub(super) struct Zone {
    #[serde(rename = "zone")]
    name: String,
    connects: Vec<Connect>,
    /// Networks that have no rows of their own in the zone.
    skipped: Vec<Skipped>,
    /// Rows of objects that the manifests do not name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept: Vec<KeptObject>,
}

#[derive(Debug, Serialize)]
struct Skipped {
    network: String,
    message: String,
}

/// One connect in one zone.
#[derive(Debug, Serialize)]
struct Connect {
    name: String,
    inserted: usize,
    changed: usize,
    deleted: usize,
    networks: Vec<Network>,
    /// Reasons for everything that is not connected, and notes.
    messages: Vec<String>,
    router: Option<Router>,
}

/// One connected network.
#[derive(Debug, Serialize)]
struct Network {
    name: String,
    ports: usize,
    routes: usize,
    /// Policies that reroute traffic for other networks to connect routers.
    policies: Vec<Policy>,
}

/// The connect router.
#[derive(Debug, Serialize)]
struct Router {
    name: String,
    ports: Vec<Port>,
    routes: Vec<Route>,
}

#[derive(Debug, Serialize)]
struct Port {
    name: String,
    mac: String,
    networks: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    options: std::collections::BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
struct Route {
    prefix: String,
    nexthop: String,
}

#[derive(Debug, Serialize)]
struct Policy {
    priority: i64,
    r#match: String,
    action: &'static str,
    nexthops: Vec<String>,
}

impl Zone {
    pub(super) fn new(
        zone: &str,
        outcome: &ZoneOutcome,
        routers: &RoutersByName<'_>,
    ) -> Result<Self, TypeError> {
        let skipped = outcome.skipped_networks.iter().map(|skipped| Skipped {
            network: skipped.network.clone(),
            message: skipped.reason.to_string(),
        });
        let connects = outcome.reports.iter().map(|(name, report)| {
            let counts = outcome.counts.get(name).copied().unwrap_or_default();
            Connect::new(name, counts, report, routers)
        });
        Ok(Self {
            name: zone.to_owned(),
            connects: connects.collect::<Result<_, _>>()?,
            skipped: skipped.collect(),
            kept: by_object(&outcome.kept),
        })
    }
}

impl Connect {
    fn new(
        name: &str,
        counts: Counts,
        report: &ConnectReport,
        routers: &RoutersByName<'_>,
    ) -> Result<Self, TypeError> {
        let snapshot = routers.snapshot();
        let networks = report.connected.iter().map(|network| {
            let router = names::network_router(&network.network, network.owner.topology);
            let router = routers.first(&router)?.filter(|_| network.is_local);
            Ok(Network {
                name: network.network.clone(),
                ports: network.ports,
                routes: network.routes,
                policies: policies(router.as_ref(), snapshot)?,
            })
        });
        Ok(Self {
            name: name.to_owned(),
            inserted: counts.inserted,
            changed: counts.changed,
            deleted: counts.deleted,
            networks: networks.collect::<Result<_, _>>()?,
            messages: report.messages(),
            router: Router::find(name, routers)?,
        })
    }
}

impl Router {
    /// Reads the connect router. `None`: it does not exist.
    fn find(connect: &str, routers: &RoutersByName<'_>) -> Result<Option<Self>, TypeError> {
        let Some(router) = routers.first(&names::connect_router(connect))? else {
            return Ok(None);
        };
        let snapshot = routers.snapshot();
        let mut ports: Vec<Port> = rows(&router.ports, snapshot)?
            .into_iter()
            .map(|port: LogicalRouterPort| Port {
                name: port.name,
                mac: port.mac,
                networks: port.networks.into_iter().collect(),
                peer: port.peer,
                options: port.options,
            })
            .collect();
        ports.sort_by(|left, right| left.name.cmp(&right.name));
        let mut routes: Vec<Route> = rows(&router.static_routes, snapshot)?
            .into_iter()
            .map(|route: LogicalRouterStaticRoute| Route {
                prefix: route.ip_prefix,
                nexthop: route.nexthop,
            })
            .collect();
        routes.sort_by(|left, right| left.prefix.cmp(&right.prefix));
        Ok(Some(Self { name: router.name, ports, routes }))
    }
}

fn policies(router: Option<&LogicalRouter>, snapshot: &Snapshot) -> Result<Vec<Policy>, TypeError> {
    let Some(router) = router else {
        return Ok(Vec::new());
    };
    let mut policies: Vec<Policy> = rows(&router.policies, snapshot)?
        .into_iter()
        .map(|policy: LogicalRouterPolicy| Policy {
            priority: policy.priority,
            r#match: policy.r#match,
            action: policy.action.as_str(),
            nexthops: policy.nexthops.into_iter().collect(),
        })
        .collect();
    policies.sort_by(|left, right| left.r#match.cmp(&right.r#match));
    Ok(policies)
}

fn rows<T: TableRow>(
    references: &std::collections::BTreeSet<Ref<T>>,
    snapshot: &Snapshot,
) -> Result<Vec<T>, TypeError> {
    let table = snapshot.typed::<T>();
    let found = references.iter().map(|row| table.get(row.uuid).transpose());
    found.flatten().collect()
}
