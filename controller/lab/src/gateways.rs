//! Gateways of routers: the nodes that may host a port, and the one that does.

use std::collections::BTreeSet;

use patchbay_reconcile::northbound::Northbound as _;
use patchbay_schemas::nb::{LogicalRouter, LogicalRouterPort};
use uuid::Uuid;

use super::databases::{rows_where, value_of};
use super::lab::Lab;

/// Port of a router that one node hosts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GatewayPort {
    /// Name of the port.
    pub port: String,
    /// Node that hosts the port. `None`: no node does.
    pub active: Option<String>,
    /// Nodes that may host it, those with higher priority before the others.
    pub nodes: Vec<String>,
}

impl Lab {
    /// The ports of a router that one node hosts, by name. A lab without a database of all nodes has
    /// none.
    pub fn gateway_ports(&self, router: &str) -> Vec<GatewayPort> {
        let Some(central) = &self.central else {
            return Vec::new();
        };
        let northbound = central.northbound().snapshot();
        let routers = northbound.typed::<LogicalRouter>();
        let router = routers.iter().flatten().find(|(_, row)| row.name == router);
        let ports = router.map(|(_, row)| row.ports).unwrap_or_default();
        let ports = ports.iter().filter_map(|port| northbound.get(*port).ok()?);
        let hosted = ports.filter(|port| !port.gateway_chassis.is_empty());
        let mut found: Vec<GatewayPort> = hosted
            .map(|port: LogicalRouterPort| {
                let rows = port.gateway_chassis.iter();
                let mut rows: Vec<_> = rows.filter_map(|row| northbound.get(*row).ok()?).collect();
                rows.sort_by_key(|row| -row.priority);
                let nodes = rows.iter().map(|row| self.node_of_chassis(&row.chassis_name));
                GatewayPort {
                    active: self.host_of(&format!("cr-{}", port.name)),
                    nodes: nodes.collect(),
                    port: port.name,
                }
            })
            .collect();
        found.sort_by(|one, other| one.port.cmp(&other.port));
        found
    }

    /// Node that has claimed a port of the Southbound database.
    fn host_of(&self, port: &str) -> Option<String> {
        let southbound = self.central.as_ref()?.node.databases.southbound.snapshot();
        let bound = value_of::<BTreeSet<Uuid>>(&southbound, "Port_Binding", "chassis", |row| {
            row.get::<String>("logical_port").is_some_and(|name| name == port)
        })?;
        let mut hosts = self.nodes.values().filter(|one| {
            let rows = rows_where(&southbound, "Chassis", |row| {
                row.get::<String>("name").as_ref() == Some(&one.node.id.chassis)
            });
            rows.iter().any(|row| bound.contains(row))
        });
        hosts.next().map(|one| one.node.id.name.clone())
    }

    /// Name of the node with a chassis, or that of the chassis.
    fn node_of_chassis(&self, chassis: &str) -> String {
        let mut nodes = self.nodes.values();
        let found = nodes.find(|one| one.node.id.chassis == chassis);
        found.map_or(chassis, |one| &one.node.id.name).to_owned()
    }
}
