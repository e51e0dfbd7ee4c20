//! Description of a simulator to be made.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use patchbay_engine::db::ServerRelease;
use patchbay_engine::txn::{BuildError, TxnBuilder};
use patchbay_schemas::schema::DatabaseSchema;

use crate::fault::FaultRule;
use crate::file::{FileError, InitialDatabases, InitialDatabasesError};
use crate::limits::Limits;
use crate::model::Model;
use crate::server::{AddDatabaseError, Server, SetFaultError};
use crate::settings::RemoteSettings;
use crate::sim::Sim;
use crate::sim::database::TransactError;
use crate::tls_options::TlsOptions;
#[cfg(feature = "unixctl")]
use crate::unixctl::error_text;

/// Error: a simulator cannot be made as it is described.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimBuildError {
    /// Schemas, files and journals do not fit together, or a file cannot be used.
    #[error(transparent)]
    Databases(#[from] InitialDatabasesError),
    /// A database cannot be served.
    #[error(transparent)]
    AddDatabase(#[from] AddDatabaseError),
    /// [`SimBuilder::rows`] names a database that is not served.
    #[error("there is no database {0} to put rows into")]
    NoDatabaseForRows(String),
    /// Rows of [`SimBuilder::rows`] do not fit into the schema.
    #[error("the initial rows of database {database}: {error}")]
    Rows {
        /// Name of the database.
        database: String,
        /// The error.
        error: Box<BuildError>,
    },
    /// The transaction with the rows of [`SimBuilder::rows`] failed.
    #[error("the initial rows of database {database}: {error}")]
    CommitRows {
        /// Name of the database.
        database: String,
        /// The error.
        error: TransactError,
    },
    /// An option of [`SimBuilder::tls`] names a column that does not exist or has no strings.
    #[error("\"{value}\": {problem}")]
    TlsColumn {
        /// The value of the option.
        value: String,
        /// The error, in ovsdb-server's words.
        problem: String,
    },
    /// [`SimBuilder::fault`] names one connection, and there is none yet, or there are too many.
    #[error(transparent)]
    Fault(#[from] SetFaultError),
}

impl SimBuildError {
    /// The text of ovsdb-server for this error, without the name of the program.
    #[cfg(feature = "unixctl")]
    pub fn to_server_text(&self) -> String {
        match self {
            Self::Databases(InitialDatabasesError::File(error)) => error_text::file_error(error),
            Self::AddDatabase(error) => error_text::add_error(error),
            Self::Databases(InitialDatabasesError::TwoJournals { database, .. }) => {
                format!("ovsdb error: {database}: duplicate database name")
            }
            error => error.to_string(),
        }
    }

    /// The error of a database file, if that is the reason.
    pub fn file_error(&self) -> Option<&FileError> {
        match self {
            Self::Databases(InitialDatabasesError::File(error))
            | Self::AddDatabase(AddDatabaseError::File(error)) => Some(error),
            _ => None,
        }
    }
}

/// Description of a simulator to be made.
#[derive(Debug)]
pub struct SimBuilder {
    databases: InitialDatabases,
    model: Model,
    seed: Option<u64>,
    limits: Limits,
    settings: RemoteSettings,
    faults: Vec<FaultRule>,
    rows: Vec<InitialRows>,
}

/// Transaction that adds rows to a database.
struct InitialRows {
    database: String,
    fill: Box<FillTransaction>,
}

type FillTransaction = dyn FnOnce(&mut TxnBuilder) -> Result<(), BuildError> + Send;

impl fmt::Debug for InitialRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InitialRows").field(&self.database).finish()
    }
}

impl Sim {
    /// Begins the description of a simulator.
    pub fn builder() -> SimBuilder {
        SimBuilder {
            databases: InitialDatabases::default(),
            model: Model::default(),
            seed: None,
            limits: Limits::default(),
            settings: RemoteSettings::default(),
            faults: Vec::new(),
            rows: Vec::new(),
        }
    }
}

impl SimBuilder {
    /// Adds an empty database. Without any database, OVN_Northbound is served.
    #[must_use]
    pub fn schema(mut self, schema: Arc<DatabaseSchema>) -> Self {
        self.databases.schemas.push(schema);
        self
    }

    /// Adds a database with the schema and the content of a standalone database file (ovsdb(5)).
    /// The file is only read.
    ///
    /// Like ovsdb-server, this stops at the first record that is damaged or cut off, and leaves out
    /// transactions that violate a constraint. Both are logged.
    #[must_use]
    pub fn load(mut self, path: impl Into<PathBuf>) -> Self {
        self.databases.loads.push(path.into());
        self
    }

    /// Adds a database with the schema and the content of an existing database file, to which every
    /// committed transaction is appended, as ovsdb-server does. The file is a standalone one, or
    /// that of a cluster with one server, as `ovsdb-tool create-cluster` makes it.
    #[must_use]
    pub fn database_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.databases.files.push(path.into());
        self
    }

    /// Serves no database if none is added.
    #[must_use]
    pub fn without_default_database(mut self) -> Self {
        self.databases.is_default_omitted = true;
        self
    }

    /// Appends every committed transaction to a database file, which ovsdb-server and ovsdb-tool
    /// can open. A new file has the [model](Self::model) of the databases, an existing one its own.
    ///
    /// An existing file has its database's name and initial content. If the database is also added
    /// by [`schema`](Self::schema), both schemas must be equal. A new file is for the only
    /// database; if there are several, [`journal_of`](Self::journal_of) names one.
    ///
    /// A transaction is written before its reply is sent, and synced to the disk if it has a
    /// `commit` operation with `durable`. One that cannot be written fails with `I/O error` and
    /// changes nothing.
    #[must_use]
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Self {
        self.databases.journals.push((None, path.into()));
        self
    }

    /// Adds a journal like [`journal`](Self::journal), for the database of this name.
    #[must_use]
    pub fn journal_of(mut self, database: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        let journal = (Some(database.into()), path.into());
        self.databases.journals.push(journal);
        self
    }

    /// Sets the model of all databases that have no file yet. The default is [`Model::Standalone`].
    #[must_use]
    pub fn model(mut self, model: Model) -> Self {
        self.model = model;
        self
    }

    /// Draws all UUIDs from a seed, so that a test that does the same gets the same rows, which can
    /// be compared with recorded ones.
    ///
    /// The UUIDs of a client's rows, named or not, depend on the seed, on the number of the
    /// connection and on what that connection inserted before. Those of [`rows`](Self::rows) and of
    /// [`SimDatabase::txn`](crate::SimDatabase::txn) depend on the seed and on the calls before.
    /// Row versions, ids of transactions and the server's id are drawn from the seed, too.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the release of ovsdb-server whose words errors have, where releases differ, and whose
    /// commands ovs-appctl finds. The default is the newest.
    #[must_use]
    pub fn compat(mut self, release: ServerRelease) -> Self {
        self.settings.release = release;
        self
    }

    /// Sets the keys and parameters of `ssl:` and `pssl:` remotes.
    #[must_use]
    pub fn tls(mut self, options: TlsOptions) -> Self {
        self.settings.tls = options;
        self
    }

    /// Sets the folder of unix sockets whose path is relative. The default is the working
    /// directory.
    #[must_use]
    pub fn socket_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.settings.socket_folder = Some(folder.into());
        self
    }

    /// Adds rows to a database: `fill` adds them to a transaction, which is committed before any
    /// client can connect. May be called several times.
    ///
    /// ```
    /// use ovsdb_sim::Sim;
    /// use patchbay_schemas::nb::{LogicalRouter, LogicalRouterPort};
    ///
    /// let sim = Sim::builder()
    ///     .seed(1)
    ///     .rows("OVN_Northbound", |txn| {
    ///         let port = LogicalRouterPort { name: "lrp0".into(), ..Default::default() };
    ///         let ports = [txn.insert(&port)?].into();
    ///         txn.insert(&LogicalRouter { name: "lr0".into(), ports, ..Default::default() })?;
    ///         Ok(())
    ///     })
    ///     .build()?;
    /// let database = sim.database("OVN_Northbound").ok_or("served by default")?;
    /// assert_eq!(database.snapshot().row_count(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn rows(
        mut self,
        database: impl Into<String>,
        fill: impl FnOnce(&mut TxnBuilder) -> Result<(), BuildError> + Send + 'static,
    ) -> Self {
        self.rows.push(InitialRows { database: database.into(), fill: Box::new(fill) });
        self
    }

    /// Sets a fault from the beginning. See [`Sim::set_fault`].
    #[must_use]
    pub fn fault(mut self, rule: impl Into<FaultRule>) -> Self {
        self.faults.push(rule.into());
        self
    }

    /// Makes the simulator.
    ///
    /// # Errors
    /// Two databases have one name, a file cannot be used as described, rows do not fit into their
    /// database, or a fault names one connection: there is none yet.
    pub fn build(self) -> Result<Sim, SimBuildError> {
        let sources = self.databases.open()?;
        let server = Server::new(sources, self.model, self.seed, self.limits, self.settings)?;
        let tls = &server.settings().tls;
        tls.check_columns(server.databases())
            .map_err(|(value, problem)| SimBuildError::TlsColumn { value, problem })?;
        let sim = Sim::new(server);
        for InitialRows { database: name, fill } in self.rows {
            let Some(database) = sim.database(&name) else {
                return Err(SimBuildError::NoDatabaseForRows(name));
            };
            let mut txn = database.txn();
            if let Err(error) = fill(&mut txn) {
                return Err(SimBuildError::Rows { database: name, error: Box::new(error) });
            }
            if let Err(error) = database.transact(&txn.finish()) {
                return Err(SimBuildError::CommitRows { database: name, error });
            }
        }
        for rule in self.faults {
            sim.set_fault(rule)?;
        }
        Ok(sim)
    }
}
