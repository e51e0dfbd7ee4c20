//! Chassis of all nodes in the Southbound database of a node.

use std::collections::BTreeSet;
use std::time::Duration;

use uuid::Uuid;

use super::{Node, NodeError, NodeId, NodeRole};
use crate::databases::{DatabaseError, rows, rows_where, text, texts, value_of};
use crate::patience::within;
use crate::underlay;

/// Maximum time until a chassis claims a port of a router. BFD between chassis takes a few seconds.
const CLAIM_PATIENCE: Duration = Duration::from_secs(10);

impl Node {
    /// Makes the chassis of all nodes those of the Southbound database. Those of other zones are
    /// remote.
    pub(crate) async fn write_chassis(&self, nodes: &[NodeId]) -> Result<(), DatabaseError> {
        let written = self.databases.southbound.change(|txn| {
            let snapshot = txn.snapshot().clone();
            for node in nodes {
                let is_known = value_of::<String>(&snapshot, "Chassis", "name", |row| {
                    row.get::<String>("name").as_ref() == Some(&node.chassis)
                });
                let address = underlay::address(node.number).to_string();
                if is_known.is_some() {
                    // A node that comes back with its chassis has another address.
                    let moved = rows_where(&snapshot, "Encap", |row| {
                        let has = |column, value: &str| {
                            row.get::<String>(column).is_some_and(|found| found == value)
                        };
                        has("chassis_name", &node.chassis) && !has("ip", &address)
                    });
                    for row in moved {
                        txn.set_row("Encap", row, [("ip", text(address.clone()))])?;
                    }
                    continue;
                }
                let encap = txn.insert_row(
                    "Encap",
                    [
                        ("type", text("geneve")),
                        ("ip", text(address)),
                        ("options", texts([("csum", "true")])),
                        ("chassis_name", text(&node.chassis)),
                    ],
                )?;
                let is_own = self.role == NodeRole::Central || node.name == self.id.name;
                let remote = texts([("is-remote", "true")]);
                let chassis = txn.insert_row(
                    "Chassis",
                    [
                        ("name", text(&node.chassis)),
                        ("hostname", text(&node.name)),
                        ("encaps", rows([encap])),
                        ("other_config", if is_own { texts([]) } else { remote }),
                    ],
                )?;
                if is_own {
                    // `hv_cfg` of ovn-northd is the minimum over the chassis that have this row.
                    txn.insert_row(
                        "Chassis_Private",
                        [("name", text(&node.chassis)), ("chassis", rows([chassis]))],
                    )?;
                }
            }
            Ok(())
        });
        written.await?;
        Ok(())
    }

    /// Waits until these chassis have followed the Northbound database.
    pub(crate) async fn wait_for_chassis(&mut self, chassis: &[String]) -> Result<(), NodeError> {
        let wanted = self.request_flows().await?;
        let southbound = self.databases.southbound.clone();
        let done = southbound.wait_until(|snapshot| {
            chassis.iter().all(|chassis| {
                let reported = value_of::<i64>(snapshot, "Chassis_Private", "nb_cfg", |row| {
                    row.get::<String>("name").as_ref() == Some(chassis)
                });
                reported.is_some_and(|reported| reported >= wanted)
            })
        });
        self.wait("for flows of ovn-northd and of ovn-controller on all nodes", done).await
    }

    /// Waits until a chassis has claimed each of these ports of routers, for a limited time: while
    /// nodes are cut off, none may.
    pub(crate) async fn wait_for_claims(&self, ports: &[String]) {
        let claimed = self.databases.southbound.wait_until(|snapshot| {
            ports.iter().all(|port| {
                let derived = format!("cr-{port}");
                let chassis =
                    value_of::<BTreeSet<Uuid>>(snapshot, "Port_Binding", "chassis", |row| {
                        row.get::<String>("logical_port").as_ref() == Some(&derived)
                    });
                chassis.is_some_and(|chassis| !chassis.is_empty())
            })
        });
        if within(CLAIM_PATIENCE, claimed).await.is_none() {
            tracing::debug!("a port of a router has no chassis");
        }
    }
}
