//! What to connect to, and what to keep a copy of.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::typed::TableRow;
use patchbay_schemas::wire::{MonitorRequests, MonitorTable};

use crate::db::IndexSpec;

use super::remote::{Remote, Remotes};

/// How a [`Client`](super::Client) behaves. The defaults are those of OVSDB's own clients.
///
/// ```
/// use patchbay_engine::client::Config;
/// use patchbay_schemas::nb::{LogicalRouter, LogicalRouterPort};
///
/// let config = Config::new("unix:/run/ovn/ovnnb_db.sock".parse()?, "OVN_Northbound")
///     .with_table::<LogicalRouter>()
///     .with_columns("NB_Global", ["nb_cfg"]);
/// # Ok::<(), patchbay_engine::client::RemoteError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Where the database is served.
    pub remotes: Remotes,
    /// Name of the database.
    pub database: String,
    /// Which part of the database the replica holds.
    pub selection: Selection,
    /// The indexes of the replica.
    pub indexes: Vec<IndexSpec>,
    /// After how long without a received byte to ask the server for a sign of life, and how long to wait for
    /// one; none never asks. Not used on unix sockets, which notice at once when the other side is gone.
    pub probe_interval: Option<Duration>,
    /// How long the server may be silent before the replica holds the database. On a unix socket too: a server that
    /// hangs must not make the client hang.
    pub setup_timeout: Duration,
    /// The shortest and the longest wait between two attempts to connect.
    pub backoff: (Duration, Duration),
    /// The longest message that is accepted, in bytes.
    pub max_message: usize,
}

/// The tables and columns that a replica holds. What the server's schema lacks is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The columns of each table; none for all columns of all tables.
    tables: Option<BTreeMap<String, BTreeSet<String>>>,
}

impl Config {
    /// All tables of a database.
    pub fn new(remotes: Remotes, database: impl Into<String>) -> Self {
        Self {
            remotes,
            database: database.into(),
            selection: Selection::default(),
            indexes: Vec::new(),
            probe_interval: Some(Duration::from_secs(5)),
            setup_timeout: Duration::from_secs(60),
            backoff: (Duration::from_secs(1), Duration::from_secs(8)),
            max_message: 1 << 30,
        }
    }

    /// Only the tables that are named, this one with the columns that `T` knows.
    #[must_use]
    pub fn with_table<T: TableRow>(self) -> Self {
        self.with_columns(T::TABLE, T::COLUMNS.iter().copied())
    }

    /// Only the tables that are named, this one with these columns.
    #[must_use]
    pub fn with_columns<'a>(
        mut self,
        table: &str,
        columns: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let tables = self.selection.tables.get_or_insert_default();
        let columns = columns.into_iter().map(str::to_owned).collect();
        tables.insert(table.to_owned(), columns);
        self
    }

    /// An index of the replica, which all of the client's snapshots have: see
    /// [`Snapshot::index`](crate::db::Snapshot::index). The columns that it is over are selected with it.
    ///
    /// ```
    /// use patchbay_engine::client::Config;
    /// use patchbay_engine::db::{Index, IndexSpec};
    /// use patchbay_schemas::nb::LogicalRouterPort;
    ///
    /// let config = Config::new("unix:/run/ovn/ovnnb_db.sock".parse()?, "OVN_Northbound")
    ///     .with_index(Index::by(LogicalRouterPort::NAME).unique())
    ///     .with_index(IndexSpec::new("Logical_Router_Policy", ["external_ids:k8s.ovn.org/id"]));
    /// # let _ = config;
    /// # Ok::<(), patchbay_engine::client::RemoteError>(())
    /// ```
    #[must_use]
    pub fn with_index(mut self, index: impl Into<IndexSpec>) -> Self {
        self.indexes.push(index.into());
        self
    }

    /// Selects what the indexes are over.
    pub(super) fn select_indexed_columns(&mut self) {
        let Some(tables) = &mut self.selection.tables else {
            return;
        };
        for index in &self.indexes {
            let columns = tables.entry(index.table().to_owned()).or_default();
            columns.extend(index.parts().iter().map(|part| part.column().to_owned()));
        }
    }

    /// The interval of probes on a connection to `remote`.
    pub(super) fn probe_interval(&self, remote: &Remote) -> Option<Duration> {
        match remote {
            Remote::Unix(_) => None,
            Remote::Tcp { .. } | Remote::Connector(_) => self.probe_interval,
        }
    }
}

impl Selection {
    /// The part of the selection that a schema has, and the names of what it lacks (`table` or `table.column`).
    pub(super) fn requests(&self, schema: &DatabaseSchema) -> (MonitorRequests, Vec<String>) {
        let mut requests = MonitorRequests::default();
        let mut lacking = Vec::new();
        let Some(tables) = &self.tables else {
            for id in schema.table_ids() {
                let columns = schema.table(id).column_ids();
                requests.tables.insert(id, MonitorTable::all_rows(columns));
            }
            return (requests, lacking);
        };
        for (name, columns) in tables {
            let Some((id, table)) = schema.table_by_name(name) else {
                lacking.push(name.clone());
                continue;
            };
            let mut ids = Vec::new();
            for column in columns {
                match table.column_id(column) {
                    Some(id) => ids.push(id),
                    None => lacking.push(format!("{name}.{column}")),
                }
            }
            requests.tables.insert(id, MonitorTable::all_rows(ids));
        }
        (requests, lacking)
    }
}

#[cfg(test)]
mod tests {
    use patchbay_schemas::nb;
    use patchbay_schemas::wire::MonitorVersion;

    use super::*;

    #[test]
    fn what_the_schema_lacks_is_left_out() {
        let config = Config::new(Remote::Unix("x".into()).into(), "OVN_Northbound")
            .with_columns("Logical_Switch", ["name", "later"])
            .with_columns("Later", ["name"]);
        let (requests, lacking) = config.selection.requests(&nb::schema());
        let mut json = Vec::new();
        requests.write_json(&nb::schema(), MonitorVersion::V3, &mut json);
        assert_eq!(json, br#"{"Logical_Switch":[{"columns":["name"]}]}"#);
        assert_eq!(lacking, ["Later", "Logical_Switch.later"]);
    }

    #[test]
    fn without_a_selection_everything_is_selected() {
        let (requests, lacking) = Selection::default().requests(&nb::schema());
        assert_eq!(requests.tables.len(), nb::schema().tables.len());
        assert!(lacking.is_empty());
    }
}
