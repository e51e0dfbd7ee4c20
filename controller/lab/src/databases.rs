//! Databases of a node in this process: Northbound, Southbound and Open vSwitch's, on one socket.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ovsdb_sim::{Listener, RemoteError, Sim, SimBuildError, SimDatabase, TransactError};
use patchbay_app::northbound::DATABASE;
use patchbay_engine::client::EmbeddedDatabase as _;
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::{BuildError, TxnBuilder};
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::TableSchema;
use patchbay_schemas::typed::Column;
use thiserror::Error;
use uuid::Uuid;

use super::release::Release;

/// Name of the Southbound database.
const SOUTHBOUND: &str = "OVN_Southbound";
/// Name of Open vSwitch's database.
const SWITCH: &str = "Open_vSwitch";
/// Socket of all databases in the folder of a node: the name that Open vSwitch's programs know.
pub(crate) const SOCKET: &str = "db.sock";

/// Error: a database of a node cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// The databases cannot be made.
    #[error(transparent)]
    Build(#[from] SimBuildError),
    /// The socket cannot be opened.
    #[error(transparent)]
    Listen(#[from] RemoteError),
    /// A schema file of the release has another schema.
    #[error("the release has no schema of {0}")]
    NoDatabase(&'static str),
    /// Rows do not fit the schema of the release.
    #[error(transparent)]
    Rows(#[from] Box<BuildError>),
    /// A transaction was rejected.
    #[error("{database}: {source}")]
    Transact {
        /// Name of the database.
        database: &'static str,
        /// The error.
        source: TransactError,
    },
}

/// The databases of a node, and the socket on which its programs reach them.
#[derive(Debug)]
pub(crate) struct Databases {
    pub(crate) northbound: NodeDatabase,
    pub(crate) southbound: NodeDatabase,
    pub(crate) switch: NodeDatabase,
    sim: Sim,
    _listener: Listener,
}

impl Databases {
    /// Creates empty databases and listens in the folder of the node.
    pub(crate) async fn create(release: &Release, folder: &Path) -> Result<Self, DatabaseError> {
        let sim = Sim::builder()
            .schema(release.northbound().clone())
            .schema(release.southbound().clone())
            .schema(release.switch().clone())
            .build()?;
        let database = |name| {
            let database = sim.database(name).ok_or(DatabaseError::NoDatabase(name))?;
            Ok::<_, DatabaseError>(NodeDatabase { name, database })
        };
        let target = format!("punix:{}", folder.join(SOCKET).display());
        Ok(Self {
            northbound: database(DATABASE)?,
            southbound: database(SOUTHBOUND)?,
            switch: database(SWITCH)?,
            _listener: sim.listen(&target).await?,
            sim,
        })
    }

    /// Ends all connections of programs and refuses new ones, as if the server had been killed.
    /// The rows stay.
    pub(crate) async fn go_down(&self) {
        self.sim.go_down().await;
    }

    /// Accepts connections again.
    pub(crate) async fn come_back(&self) -> Result<(), DatabaseError> {
        Ok(self.sim.come_back().await?)
    }
}

/// One database of a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeDatabase {
    name: &'static str,
    database: SimDatabase,
}

impl NodeDatabase {
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.database.snapshot()
    }

    /// Handle for the controllers of rows.
    pub(crate) fn handle(&self) -> SimDatabase {
        self.database.clone()
    }

    /// Commits the changes that `fill` adds to a transaction, if there are any.
    pub(crate) fn change(
        &self,
        fill: impl FnOnce(&mut TxnBuilder) -> Result<(), BuildError>,
    ) -> Result<(), DatabaseError> {
        let mut txn = self.database.txn();
        fill(&mut txn).map_err(Box::new)?;
        if txn.is_empty() {
            return Ok(());
        }
        let committed = self.database.transact(&txn.finish());
        committed.map(|_| ()).map_err(|source| {
            let database = self.name;
            DatabaseError::Transact { database, source }
        })
    }

    /// Waits until the database has the wanted state.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    pub(crate) async fn wait_until(&self, mut is_wanted: impl FnMut(&Snapshot) -> bool) {
        let mut commits = self.database.commits();
        loop {
            commits.borrow_and_update();
            if is_wanted(&self.snapshot()) {
                return;
            }
            if commits.changed().await.is_err() {
                // The database lives as long as this handle.
                return;
            }
        }
    }
}

/// A text as a column's value.
pub(crate) fn text(text: impl Into<String>) -> Datum {
    text.into().to_datum()
}

/// Texts as the value of a map column.
pub(crate) fn texts<const N: usize>(pairs: [(&str, &str); N]) -> Datum {
    let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    BTreeMap::from(pairs).to_datum()
}

/// References as the value of a set column.
pub(crate) fn rows(rows: impl IntoIterator<Item = Uuid>) -> Datum {
    rows.into_iter().collect::<BTreeSet<_>>().to_datum()
}

/// Value of a column of the first row of a table that `is_wanted`. `None`: there is no such row or
/// column, or it has another type.
pub(crate) fn value_of<T: Column>(
    snapshot: &Snapshot,
    table: &str,
    column: &str,
    is_wanted: impl Fn(&Lookup<'_>) -> bool,
) -> Option<T> {
    let schema = snapshot.schema();
    let (id, table_schema) = schema.table_by_name(table)?;
    let table = snapshot.table(id);
    let mut found = table.iter().map(|row| Lookup {
        row,
        table: table_schema,
    });
    let found = found.find(|row| is_wanted(row))?;
    found.get(column)
}

/// Row of a table of which there are no generated types.
pub(crate) struct Lookup<'a> {
    row: &'a Row,
    table: &'a TableSchema,
}

impl Lookup<'_> {
    /// Value of a column. `None`: the schema lacks it, or it has another type.
    pub(crate) fn get<T: Column>(&self, column: &str) -> Option<T> {
        let column = self.table.column_id(column)?;
        T::from_datum(&self.row.get(column))
    }
}
