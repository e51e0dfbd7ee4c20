//! Clients that know which rows they have.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::server::{Connection, SoakServer};

/// Number of rows from which a writer deletes as many as it inserts.
const MAX_ROWS: usize = 2_000;
/// Number of attempts of a transaction, each after a lost connection or a fault.
const MAX_ATTEMPTS: usize = 100;

/// Client that inserts and deletes rows.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    server: &'a SoakServer,
    number: usize,
    connection: Option<Connection>,
    report: WriterReport,
}

/// What a writer has done.
#[derive(Debug, Default)]
pub(crate) struct WriterReport {
    /// Names of the rows that exist.
    pub(crate) rows: VecDeque<String>,
    pub(crate) acknowledged: u64,
    /// Transactions whose reply was lost.
    pub(crate) unknown: u64,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(server: &'a SoakServer, number: usize) -> Self {
        Self { server, number, connection: None, report: WriterReport::default() }
    }

    /// Writes until the end.
    pub(crate) fn run(mut self, is_over: &AtomicBool) -> Result<WriterReport> {
        for row in 0_u64.. {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let name = format!("w{}-{row}", self.number);
            let insert = json!({"op": "insert", "table": "Logical_Switch", "row": {"name": name}});
            self.execute(&insert, &name, true)?;
            self.report.rows.push_back(name);
            if self.report.rows.len() > MAX_ROWS
                && let Some(oldest) = self.report.rows.front().cloned()
            {
                let delete = json!({"op": "delete", "table": "Logical_Switch",
                    "where": [["name", "==", oldest]]});
                self.execute(&delete, &oldest, false)?;
                self.report.rows.pop_front();
            }
        }
        Ok(self.report)
    }

    /// Executes an operation until the row exists, or does not.
    fn execute(&mut self, operation: &Value, name: &str, exists: bool) -> Result<()> {
        let mut is_unknown = false;
        for _ in 0..MAX_ATTEMPTS {
            if is_unknown {
                match self.count(name) {
                    Ok(count) if (count > 0) == exists => return Ok(()),
                    Ok(_) => {}
                    Err(_) => {
                        self.connection = None;
                        continue;
                    }
                }
            }
            match self.transact(operation) {
                Ok(results) if results.iter().all(|result| result.get("error").is_none()) => {
                    self.report.acknowledged += 1;
                    return Ok(());
                }
                // A fault has refused it.
                Ok(_) => {}
                Err(_) => {
                    self.connection = None;
                    self.report.unknown += 1;
                    is_unknown = true;
                }
            }
        }
        anyhow::bail!("{operation} does not succeed")
    }

    /// The number of rows of a name.
    fn count(&mut self, name: &str) -> Result<usize> {
        let select = json!({"op": "select", "table": "Logical_Switch",
            "where": [["name", "==", name]], "columns": ["name"]});
        let results = self.transact(&select)?;
        let rows = results.first().and_then(|result| result["rows"].as_array());
        Ok(rows.context("rows")?.len())
    }

    fn transact(&mut self, operation: &Value) -> Result<Vec<Value>> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => self.connection.insert(Connection::open(self.server.socket())?),
        };
        connection.transact(std::slice::from_ref(operation))
    }
}
