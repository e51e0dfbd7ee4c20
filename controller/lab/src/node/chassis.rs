//! Chassis of all nodes in the Southbound database of a node.

use super::{Node, NodeId};
use crate::databases::{DatabaseError, rows, rows_where, text, texts, value_of};
use crate::underlay;

impl Node {
    /// Makes the chassis of all nodes those of the Southbound database. `nodes` contains this one.
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
                let is_own = node.name == self.id.name;
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
}
