//! What to connect to, and what to keep a copy of.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::typed::TableRow;
use patchbay_schemas::wire::{MonitorRequests, MonitorTable};

use crate::db::IndexSpec;

use super::condition::Filter;
use super::guard::Guard;
use super::pipeline::Pipelining;
use super::remote::{Remote, Remotes};
use super::tls::Tls;

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
    /// Whether of a cluster only the leader is good enough. Others accept transactions too and pass them on, but may show
    /// the database as it was some time ago.
    pub leader_only: bool,
    /// Whether the remotes are tried in another order than that in which they are given, so that many clients spread
    /// over a cluster.
    pub shuffle: bool,
    /// The keys for `ssl:` remotes.
    pub tls: Option<Tls>,
    /// A row of the client's own, with which it finds out what became of transactions that were not answered, on clusters
    /// too: none of them is left [`Unknown`](super::CommitOutcome::Unknown) then. Without it the client knows what
    /// [`Client::resynced`](super::Client::resynced) says.
    pub guard: Option<Guard>,
    /// How transactions that are asked for at the same time go to the server.
    pub pipelining: Pipelining,
    /// From so many inserted rows on, a transaction that does little else may go to the server while it reports nothing
    /// to the client, which spares the server up to half of the work before it answers. None by default: the client
    /// follows the database all the time.
    ///
    /// This is done if the replica holds no more rows than a quarter more than that, and all rows of its tables, and no lock
    /// is wanted. When the transaction is committed, the replica shows its changes, as always; they are
    /// those that it makes by itself. What others have committed meanwhile is seen a moment later, when the whole
    /// database has been read anew ([`ConnectionEvent::Resynced`](super::ConnectionEvent::Resynced)). Until then the client is
    /// not [live](super::Client::is_live) and further transactions wait.
    pub bulk_rows: Option<usize>,
    /// How long it may take to connect to a server (with TLS, to agree on keys too), and then until its first answer. On a
    /// unix socket too: a server that hangs must not make the client hang.
    pub connect_timeout: Duration,
    /// How long the server may be silent from then on, before the replica holds the database.
    pub setup_timeout: Duration,
    /// After how long without a received byte to ask the server for a sign of life, and how long to wait for
    /// one; none never asks, and neither does zero, as everywhere in OVSDB. For unix sockets see [`unix_probe_interval`](Self::unix_probe_interval).
    pub probe_interval: Option<Duration>,
    /// The same on unix sockets, which notice at once when the other side is gone, but not when it hangs. None by default,
    /// as with OVSDB's own clients.
    pub unix_probe_interval: Option<Duration>,
    /// The shortest and the longest wait between two attempts to connect.
    pub backoff: (Duration, Duration),
    /// The longest message that is accepted, in bytes.
    pub max_message: usize,
}

/// The tables, columns and rows that a replica holds. What the server's schema lacks is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The columns of each table; none for all columns of all tables.
    tables: Option<BTreeMap<String, BTreeSet<String>>>,
    /// The rows of each table that is named; of others, all.
    filters: BTreeMap<String, Filter>,
}

impl Config {
    /// All tables of a database.
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

    /// Of this table only the rows that the filter lets through. [`Client::set_filter`](super::Client::set_filter) changes
    /// that later.
    #[must_use]
    pub fn with_filter(mut self, table: &str, filter: Filter) -> Self {
        self.selection.filters.insert(table.to_owned(), filter);
        self
    }

    /// The interval of probes on a connection to `remote`.
    pub(super) fn probe_interval(&self, remote: &Remote) -> Option<Duration> {
        let interval = match remote {
            Remote::Unix(_) => self.unix_probe_interval,
            Remote::Tcp { .. } | Remote::Ssl { .. } | Remote::Connector(_) => self.probe_interval,
        };
        interval.filter(|interval| !interval.is_zero())
    }
}

impl Selection {
    /// The filters to begin with.
    pub(super) fn filters(&self) -> &BTreeMap<String, Filter> {
        &self.filters
    }

    /// Whether the replica holds a table that the schema has.
    pub(super) fn has_table(&self, name: &str) -> bool {
        self.tables
            .as_ref()
            .is_none_or(|tables| tables.contains_key(name))
    }

    /// The part of the selection that a schema has, with these filters, and the names of what it lacks (`table` or
    /// `table.column`).
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
    fn what_the_schema_lacks_is_left_out() {
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
    fn without_a_selection_everything_is_selected() {
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
            (
                name("name").or(name("later")),
                r#","where":[["name","==","a"]]"#,
            ),
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
