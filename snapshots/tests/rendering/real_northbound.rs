//! A northbound database in a real `ovsdb-server`, read by the real `ovn-nbctl`.

use std::process::Command;
use std::sync::OnceLock;

use patchbay_engine::db::Snapshot;
use patchbay_nbctl_text::Release;
use patchbay_ovn_programs::testing::{RealServer, Release as Programs, ScratchDir, nbctl, program};
use patchbay_schemas::nb;
use patchbay_schemas::wire::{InsertRow, Operation, OperationWriter};

/// Programs of the newest release. `None` inside: they are not available.
static NEWEST: OnceLock<Option<Programs>> = OnceLock::new();

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
        assert!(output.status.success() && !results.contains("\"error\""), "{results}");
        Self { server }
    }

    /// Standard output of the installed `ovn-nbctl`, or its error message.
    pub(crate) fn nbctl(&self, words: &[String]) -> Result<String, String> {
        Self::output(nbctl(&self.server.remote()).args(words))
    }

    /// Checks what a release prints. A release that is not available is not compared.
    pub(crate) fn assert_prints(&self, words: &[String], text: &str, release: Release) {
        let printed = match release {
            Release::V23_03 => Some(self.nbctl(words)),
            Release::V26_03 => self.newest(words),
        };
        if let Some(printed) = printed {
            assert_eq!(printed.as_deref(), Ok(text), "{words:?} of {release:?}");
        }
    }

    /// Standard output of the newest `ovn-nbctl`. `None`: it is not available.
    pub(crate) fn newest(&self, words: &[String]) -> Option<Result<String, String>> {
        let mut command = NEWEST.get_or_init(Programs::newest).as_ref()?.command("ovn-nbctl");
        let remote = format!("--db={}", self.server.remote());
        command.arg(remote).arg("--timeout=10").args(words);
        Some(Self::output(&mut command))
    }

    fn output(command: &mut Command) -> Result<String, String> {
        let output = command.output().expect("an installed program starts");
        let text = |bytes| String::from_utf8(bytes).expect("the rows have UTF-8 texts");
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }
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
