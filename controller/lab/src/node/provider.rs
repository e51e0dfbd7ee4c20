//! Bridges of a node to provider networks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use patchbay_schemas::typed::Column as _;

use super::{Node, NodeError};
use crate::databases::{DatabaseError, Lookup, rows, rows_where, text, texts, value_of};
use crate::switch_rows::{MAPPINGS, internal, port};

/// Bridge of a node to a provider network.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct ProviderBridge {
    /// Name of the provider network.
    pub(crate) network: String,
    /// Name of the bridge.
    pub(crate) bridge: String,
    /// Name of its device on the wire.
    pub(crate) device: String,
}

impl Node {
    /// Socket of the device of a bridge.
    pub(crate) fn provider_socket(&self, bridge: &ProviderBridge) -> PathBuf {
        self.folder.join(format!("{}.sock", bridge.device))
    }

    /// Makes these bridges to provider networks those of the switch.
    pub(crate) async fn write_provider_bridges(
        &self,
        wanted: &[ProviderBridge],
    ) -> Result<(), DatabaseError> {
        let written = self.databases.switch.change(|txn| {
            let snapshot = txn.snapshot().clone();
            let [switch] = rows_where(&snapshot, "Open_vSwitch", |_| true)[..] else {
                return Ok(());
            };
            let name_of = |row: &Lookup<'_>| row.get::<String>("name").unwrap_or_default();
            let is_wanted = |name: &str| wanted.iter().any(|one| one.bridge == name);
            // Other bridges do not have this mark.
            let kept: BTreeSet<_> = rows_where(&snapshot, "Bridge", |row| {
                let ids = row.get::<BTreeMap<String, String>>("external_ids").unwrap_or_default();
                !ids.contains_key(MARK) || is_wanted(&name_of(row))
            })
            .into_iter()
            .collect();
            let mut bridges = kept.clone();
            for one in wanted {
                let is_known = |row: &Lookup<'_>| name_of(row) == one.bridge;
                if !rows_where(&snapshot, "Bridge", is_known).is_empty() {
                    continue;
                }
                let own = port(txn, &one.bridge, internal())?;
                let socket = format!("punix:{}", self.provider_socket(one).display());
                let options = texts([("pstream", &socket)]);
                let device = port(txn, &one.device, vec![("options", options)])?;
                bridges.insert(txn.insert_row(
                    "Bridge",
                    [
                        ("name", text(&one.bridge)),
                        ("ports", rows([own, device])),
                        ("external_ids", texts([(MARK, &one.network)])),
                    ],
                )?);
            }
            let mappings = wanted.iter().map(|one| format!("{}:{}", one.network, one.bridge));
            let mappings = mappings.collect::<Vec<_>>().join(",");
            let ids = value_of::<BTreeMap<String, String>>(
                &snapshot,
                "Open_vSwitch",
                "external_ids",
                |_| true,
            );
            let mut ids = ids.unwrap_or_default();
            ids.insert(MAPPINGS.to_owned(), mappings);
            let settings = [("bridges", rows(bridges)), ("external_ids", ids.to_datum())];
            txn.set_row("Open_vSwitch", switch, settings)
        });
        written.await?;
        Ok(())
    }

    /// Waits until the switch has the patch ports of these `localnet` ports.
    pub(crate) async fn wait_for_patches(&mut self, localnets: &[String]) -> Result<(), NodeError> {
        let switch = self.databases.switch.clone();
        let ready = switch.wait_until(|snapshot| {
            localnets.iter().all(|localnet| {
                // ovn-controller's name of the patch port.
                let name = format!("patch-{localnet}-to-br-int");
                let number = value_of::<i64>(snapshot, "Interface", "ofport", |row| {
                    row.get::<String>("name").as_ref() == Some(&name)
                });
                number.is_some_and(|number| number > 0)
            })
        });
        self.wait("for the patch ports to provider networks", ready).await
    }
}

/// External id of bridges to provider networks: the name of the network.
const MARK: &str = "provider-network";
