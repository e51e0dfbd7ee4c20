//! Configuration of a client: remotes, replica contents and time limits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::typed::TableRow;
use patchbay_schemas::wire::{MonitorRequests, MonitorTable};

use crate::db::IndexSpec;

use super::filter::Filter;
use super::guard::Guard;
use super::pipelining::Pipelining;
use super::remote::{Remote, Remotes};
use super::tls::Tls;

/// Configuration of a [`Client`](super::Client). The defaults are those of OVSDB's own clients.
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
    /// Addresses of servers of the database.
    pub remotes: Remotes,
    /// Name of the database.
    pub database: String,
    /// Tables, columns and rows that the replica holds.
    pub selection: Selection,
    /// Indexes of the replica.
    pub indexes: Vec<IndexSpec>,
    /// `true` to use only the leader of a cluster. Followers also accept transactions and forward
    /// them, but may show an outdated state of the database. Default: `true`.
    pub leader_only: bool,
    /// `true` to try the remotes in random order, so that many clients spread over a cluster.
    /// Default: `false`.
    pub shuffle: bool,
    /// Keys for `ssl:` remotes.
    pub tls: Option<Tls>,
    /// Guard row of the client. It resolves transactions whose reply was lost, in clusters too, so
    /// that none of them remains [`Unknown`](super::CommitOutcome::Unknown). Without it,
    /// [`Client::wait_for_resync`](super::Client::wait_for_resync) describes what the client can
    /// find out.
    pub guard: Option<Guard>,
    /// Grouping of concurrent transactions into requests.
    pub pipelining: Pipelining,
    /// Minimum number of inserted rows for which the client suspends its monitor during a
    /// transaction. This saves the server up to half of the work before its reply. `None`
    /// (default): the monitor is never suspended.
    ///
    /// The monitor is suspended only if all of these hold:
    ///
    /// * the transaction does nothing but insert rows, add elements, expect values and comment;
    /// * the replica holds at most 1.25 rows for each row that the transaction inserts;
    /// * no lock is requested.
    ///
    /// After the commit the replica shows the transaction's own changes at once. Other clients'
    /// changes appear when the whole database has been read again
    /// ([`ConnectionEvent::Resynced`](super::ConnectionEvent::Resynced)). Until then the client is
    /// not [live](super::Client::is_live), and further transactions wait.
    pub bulk_rows: Option<usize>,
    /// Time limit to connect to a server, including the TLS handshake, and again until its first
    /// reply. It applies to unix sockets too, because a server that hangs must not block the
    /// client.
    pub connect_timeout: Duration,
    /// Maximum silence of the server after its first reply, until the replica holds the database.
    pub setup_timeout: Duration,
    /// Silence after which the client sends an `echo` request, and then the time limit for a reply.
    /// `None` and zero: no probes, as everywhere in OVSDB. For unix sockets see
    /// [`unix_probe_interval`](Self::unix_probe_interval).
    pub probe_interval: Option<Duration>,
    /// `probe_interval` of unix sockets. A unix socket reports at once that
    /// the server has exited, but not that it hangs. Default: `None`, as in OVSDB's own clients.
    pub unix_probe_interval: Option<Duration>,
    /// Minimum and maximum of the delay between two rounds of connection attempts: see
    /// [`Backoff`](crate::backoff::Backoff).
    pub backoff: (Duration, Duration),
    /// Maximum length of a received message, in bytes. Rows are decoded while they arrive, so that
    /// a long message takes much less memory.
    pub max_message: usize,
    /// Maximum length of a received string, such as a column's value or an error, in bytes.
    pub max_string: usize,
}

/// The tables, columns and rows that a replica holds. Tables and columns that the server's schema
/// lacks are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Columns of each table. `None`: all columns of all tables.
    tables: Option<BTreeMap<String, BTreeSet<String>>>,
    /// Filters by table. A table without a filter is held with all rows.
    filters: BTreeMap<String, Filter>,
}

impl Config {
    /// A configuration for all tables of a database.
    pub fn new(remotes: Remotes, database: impl Into<String>) -> Self {
        Self {
            remotes,
            database: database.into(),
            selection: Selection::default(),
            indexes: Vec::new(),
            leader_only: true,
            shuffle: false,
            tls: None,
            guard: None,
            pipelining: Pipelining::default(),
            bulk_rows: None,
            connect_timeout: Duration::from_secs(10),
            setup_timeout: Duration::from_secs(60),
            probe_interval: Some(Duration::from_secs(5)),
            unix_probe_interval: None,
            backoff: (Duration::from_secs(1), Duration::from_secs(8)),
            max_message: 1 << 30,
            max_string: 16 << 20,
        }
    }

    /// Adds the table and columns of `T` to the selection. Tables that are not selected are left
    /// out.
    #[must_use]
    pub fn with_table<T: TableRow>(self) -> Self {
        self.with_columns(T::TABLE, T::COLUMNS.iter().copied())
    }

    /// Adds a table with these columns to the selection. Tables that are not selected are left out.
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

    /// Adds an index to the replica and so to all snapshots: see
    /// [`Snapshot::index`](crate::db::Snapshot::index). Selects the indexed columns, too.
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

    /// Selects the indexed columns.
    pub(super) fn select_indexed_columns(&mut self) {
        let Some(tables) = &mut self.selection.tables else {
            return;
        };
        for index in &self.indexes {
            let columns = tables.entry(index.table().to_owned()).or_default();
            columns.extend(index.parts().iter().map(|part| part.column().to_owned()));
        }
    }

    /// Restricts a table to the rows that the filter selects.
    /// [`Client::set_filter`](super::Client::set_filter) changes the filter later.
    #[must_use]
    pub fn with_filter(mut self, table: &str, filter: Filter) -> Self {
        self.selection.filters.insert(table.to_owned(), filter);
        self
    }

    /// The probe interval of a connection to `remote`. `None`: no probes.
    pub(super) fn probe_interval(&self, remote: &Remote) -> Option<Duration> {
        let interval = match remote {
            Remote::Unix(_) => self.unix_probe_interval,
            Remote::Tcp { .. } | Remote::Ssl { .. } | Remote::Connector(_) => self.probe_interval,
        };
        interval.filter(|interval| !interval.is_zero())
    }
}

impl Selection {
    /// The initial filters.
    pub(super) fn filters(&self) -> &BTreeMap<String, Filter> {
        &self.filters
    }

    /// `true` if the replica holds the table, provided that the schema has it.
    pub(super) fn has_table(&self, name: &str) -> bool {
        self.tables.as_ref().is_none_or(|tables| tables.contains_key(name))
    }

    /// The part of the selection that a schema has, with these filters. Also returns the names of
    /// what the schema lacks (`table` or `table.column`).
    pub(super) fn requests(
        &self,
        schema: &DatabaseSchema,
        filters: &BTreeMap<String, Filter>,
    ) -> (MonitorRequests, Vec<String>) {
        let (mut requests, lacking) = self.tables_and_columns(schema);
        for (id, request) in &mut requests.tables {
            let table = schema.table(*id);
            if let Some(filter) = filters.get(&*table.name) {
                request.condition = filter.condition(table);
            }
        }
        (requests, lacking)
    }

    fn tables_and_columns(&self, schema: &DatabaseSchema) -> (MonitorRequests, Vec<String>) {
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
    use patchbay_schemas::datum::Datum;
    use patchbay_schemas::nb;
    use patchbay_schemas::wire::{Function, MonitorVersion};

    use super::*;

    #[test]
    fn tables_and_columns_that_the_schema_lacks_are_left_out() {
        let config = Config::new(Remote::Unix("x".into()).into(), "OVN_Northbound")
            .with_columns("Logical_Switch", ["name", "later"])
            .with_columns("Later", ["name"]);
        let (requests, lacking) = config.selection.requests(&nb::schema(), &BTreeMap::new());
        let mut json = Vec::new();
        requests.write_json(&nb::schema(), MonitorVersion::V3, &mut json);
        assert_eq!(json, br#"{"Logical_Switch":[{"columns":["name"]}]}"#);
        assert_eq!(lacking, ["Later", "Logical_Switch.later"]);
    }

    #[test]
    fn without_a_selection_all_tables_are_selected() {
        let (requests, lacking) = Selection::default().requests(&nb::schema(), &BTreeMap::new());
        assert_eq!(requests.tables.len(), nb::schema().tables.len());
        assert!(lacking.is_empty());
    }

    #[test]
    fn filters_become_conditions() {
        let name = |column: &str| Filter::column(column, Function::Equal, Datum::scalar("a"));
        for (filter, condition) in [
            (Filter::all(), ""),
            (name("name"), r#","where":[["name","==","a"]]"#),
            (name("name").or(name("later")), r#","where":[["name","==","a"]]"#),
            (name("later"), r#","where":[false]"#),
            (Filter::none(), r#","where":[false]"#),
        ] {
            let config = Config::new(Remote::Unix("x".into()).into(), "OVN_Northbound")
                .with_columns("Logical_Switch", ["name"])
                .with_filter("Logical_Switch", filter);
            let filters = config.selection.filters();
            let (requests, _) = config.selection.requests(&nb::schema(), filters);
            let mut json = Vec::new();
            requests.write_json(&nb::schema(), MonitorVersion::V3, &mut json);
            let wanted = format!(r#"{{"Logical_Switch":[{{"columns":["name"]{condition}}}]}}"#);
            assert_eq!(String::from_utf8(json).unwrap(), wanted);
        }
    }
}
