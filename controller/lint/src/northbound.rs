//! Rows of a Northbound database that rules compare with objects.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb::{
    GatewayChassis, LoadBalancer, LogicalRouter, LogicalRouterPolicy, LogicalRouterPort,
    LogicalRouterStaticRoute, LogicalSwitch, Nat,
};
use patchbay_schemas::typed::{Ref, TableRow};

/// Rows of routers, switches and load balancers. Rows that cannot be read are left out.
#[derive(Default)]
pub(crate) struct NorthboundRows {
    /// Routers, in the order of their names.
    pub(crate) routers: BTreeMap<String, RouterRows>,
    /// External ids of switches by name.
    pub(crate) switches: BTreeMap<String, BTreeMap<String, String>>,
    /// Load balancers.
    pub(crate) load_balancers: Vec<LoadBalancer>,
}

/// A router with its rows.
#[derive(Default)]
pub(crate) struct RouterRows {
    pub(crate) external_ids: BTreeMap<String, String>,
    pub(crate) routes: Vec<LogicalRouterStaticRoute>,
    pub(crate) policies: Vec<LogicalRouterPolicy>,
    pub(crate) nat: Vec<Nat>,
    pub(crate) load_balancers: Vec<LoadBalancer>,
    /// Names of the gateway chassis of each port.
    pub(crate) chassis: BTreeMap<String, BTreeSet<String>>,
}

impl NorthboundRows {
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        let routers = all::<LogicalRouter>(snapshot).map(|router| {
            let ports = rows::<LogicalRouterPort>(snapshot, &router.ports);
            let chassis = ports.into_iter().map(|port| {
                let chassis = rows::<GatewayChassis>(snapshot, &port.gateway_chassis);
                let names = chassis.into_iter().map(|chassis| chassis.chassis_name);
                (port.name, names.collect())
            });
            let rows = RouterRows {
                routes: rows(snapshot, &router.static_routes),
                policies: rows(snapshot, &router.policies),
                nat: rows(snapshot, &router.nat),
                load_balancers: rows(snapshot, &router.load_balancer),
                chassis: chassis.collect(),
                external_ids: router.external_ids,
            };
            (router.name, rows)
        });
        let switches = all::<LogicalSwitch>(snapshot);
        Self {
            routers: routers.collect(),
            switches: switches.map(|switch| (switch.name, switch.external_ids)).collect(),
            load_balancers: all(snapshot).collect(),
        }
    }
}

fn all<T: TableRow>(snapshot: &Snapshot) -> impl Iterator<Item = T> {
    let table = snapshot.typed::<T>();
    let rows: Vec<T> = table.iter().filter_map(|row| Some(row.ok()?.1)).collect();
    rows.into_iter()
}

fn rows<T: TableRow>(snapshot: &Snapshot, references: &BTreeSet<Ref<T>>) -> Vec<T> {
    let table = snapshot.typed::<T>();
    let rows = references.iter().map(|reference| table.get(reference.uuid));
    rows.filter_map(|row| row.ok().flatten()).collect()
}
