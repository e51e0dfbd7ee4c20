//! A northbound database in a real `ovsdb-server`, read by the real `ovn-nbctl`.

use std::process::Command;

use ovsdb_sim::testing::{RealServer, ScratchDir, nbctl, program};
use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb;
use patchbay_schemas::wire::{InsertRow, Operation, OperationWriter};

/// A server with the rows of a snapshot and their UUIDs.
pub(crate) struct RealNorthbound {
    server: RealServer,
}

impl RealNorthbound {
    pub(crate) fn load(northbound: &Snapshot) -> Self {
        let dir = ScratchDir::new();
        let schema = dir.path().join("ovn-nb.ovsschema");
        std::fs::write(&schema, nb::SCHEMA_TEXT).expect("a file in a fresh folder");
        let server = RealServer::start([&schema]);
        let output = Command::new(program("ovsdb-client"))
            .args(["transact", &server.remote(), &insert_all_params(northbound)])
            .output()
            .expect("an installed program starts");
        let results = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && !results.contains("\"error\""),
            "{results}"
        );
        Self { server }
    }

    /// Standard output of `ovn-nbctl` without the lines of versions after 23.03, or its error
    /// message.
    pub(crate) fn nbctl(&self, words: &[String]) -> Result<String, String> {
        let output = nbctl(&self.server.remote())
            .args(words)
            .output()
            .expect("an installed program starts");
        let text = |bytes| String::from_utf8(bytes).expect("the rows have UTF-8 texts");
        if output.status.success() {
            Ok(text(output.stdout)
                .split_inclusive('\n')
                .filter(|line| !is_of_later_version(line))
                .collect())
        } else {
            Err(text(output.stderr))
        }
    }
}

/// `true` if only versions after 23.03 print the line.
fn is_of_later_version(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("ipv6-lla: ") || line.starts_with("peer: ")
}

/// Parameters of a transaction that inserts all rows.
fn insert_all_params(northbound: &Snapshot) -> String {
    let schema = northbound.schema();
    let operations: Vec<_> = schema
        .table_ids()
        .flat_map(|table| northbound.table(table).iter().map(move |row| (table, row)))
        .map(|(table, row)| Operation::Insert {
            table,
            uuid: row.uuid,
            given: Some(row.uuid.to_string()),
            row: InsertRow::from_values(&row.values),
        })
        .collect();
    let mut params = Vec::new();
    OperationWriter::new(schema, &|_| false).write_params(&operations, &mut params);
    String::from_utf8(params).expect("JSON is UTF-8")
}
