//! The simulator as a library.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use patchbay_engine::db::{ChangeSet, Snapshot};
use patchbay_engine::txn::Transaction;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::DecodedTransaction;

use crate::control;
use crate::file::Given;
use crate::hosted::Hosted;
use crate::listen::{self, ListenError, Listener};
use crate::server::{Limits, Server};

/// A running simulator. Clones are handles to the same one; listeners end when they are dropped.
#[derive(Clone, Debug)]
pub struct Sim {
    server: Arc<Server>,
}

impl Sim {
    /// Begins to describe a simulator.
    pub fn builder() -> SimBuilder {
        SimBuilder {
            given: Given::default(),
            seed: None,
            limits: Limits::default(),
        }
    }

    /// Serves clients at `punix:PATH` or `ptcp:PORT[:HOST]`.
    ///
    /// # Errors
    /// The target is malformed or cannot be bound.
    pub async fn listen(&self, target: &str) -> Result<Listener, ListenError> {
        listen::listen(self.server.clone(), target).await
    }

    /// Serves the control API (JSON-RPC 2.0 over HTTP and WebSocket) and returns the address it is at.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn serve_control(
        &self,
        address: SocketAddr,
    ) -> std::io::Result<control::ControlServer> {
        control::serve(self.server.clone(), address).await
    }

    /// A database by name.
    pub fn database(&self, name: &str) -> Option<SimDatabase> {
        Some(SimDatabase {
            hosted: self.server.database(name)?.clone(),
        })
    }
}

/// Describes a simulator.
#[derive(Debug)]
pub struct SimBuilder {
    given: Given,
    seed: Option<u64>,
    limits: Limits,
}

impl SimBuilder {
    /// Adds an empty database. Without any database, OVN_Northbound is served.
    #[must_use]
    pub fn schema(mut self, schema: Arc<DatabaseSchema>) -> Self {
        self.given.schemas.push(schema);
        self
    }

    /// Adds a database with the schema and the content of a standalone database file, such as ovsdb-server writes.
    ///
    /// Like ovsdb-server, ends at the first record that is damaged or cut off, and leaves out transactions that break
    /// a constraint; both are logged.
    #[must_use]
    pub fn load(mut self, path: impl Into<PathBuf>) -> Self {
        self.given.loads.push(path.into());
        self
    }

    /// Appends every transaction that is committed to a database to a standalone database file, which ovsdb-server
    /// and ovsdb-tool can open.
    ///
    /// A file that exists says which database it is of, and that database begins with its content; where it is also
    /// added by [`schema`](Self::schema), both schemas must be the same. A file that does not exist is made, for the
    /// only database; where there are several, [`journal_of`](Self::journal_of) says which.
    ///
    /// A transaction is written before its reply is sent, and forced to the disk when it has a `commit` operation
    /// with `durable`. One that cannot be written fails with `I/O error` and changes nothing.
    #[must_use]
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Self {
        self.given.journals.push((None, path.into()));
        self
    }

    /// Like [`journal`](Self::journal), for the database of this name.
    #[must_use]
    pub fn journal_of(mut self, database: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        let journal = (Some(database.into()), path.into());
        self.given.journals.push(journal);
        self
    }

    /// Makes the sequence of UUIDs that the server draws depend on nothing but this.
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

    /// Makes the simulator.
    ///
    /// # Errors
    /// Two databases have one name, or a file is not what it is given for.
    pub fn build(self) -> anyhow::Result<Sim> {
        let sources = self.given.sources()?;
        Ok(Sim {
            server: Arc::new(Server::new(sources, self.seed, self.limits)?),
        })
    }
}

/// A database of a simulator, used without a socket. Monitors of connected clients see what it does.
#[derive(Clone, Debug)]
pub struct SimDatabase {
    hosted: Arc<Hosted>,
}

/// Why a transaction changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransactError {
    /// The server's words.
    #[error(transparent)]
    Refused(#[from] OvsdbError),
    /// A `wait` is not satisfied; there is nobody to wait for it.
    #[error("a wait operation is not satisfied")]
    Blocked,
}

impl SimDatabase {
    /// The committed state.
    pub fn snapshot(&self) -> Snapshot {
        self.hosted.snapshot()
    }

    /// Executes and commits a transaction.
    ///
    /// # Errors
    /// It was refused or its `wait` is not satisfied. Nothing changed.
    pub fn transact(&self, transaction: &Transaction) -> Result<ChangeSet, TransactError> {
        let operations = transaction.operations().to_vec();
        let decoded = DecodedTransaction {
            total: operations.len(),
            operations,
            failure: None,
        };
        match self.hosted.execute(&decoded, transaction.schema()) {
            Ok((_, changes)) => Ok(changes),
            Err(Some(error)) => Err(error.into()),
            Err(None) => Err(TransactError::Blocked),
        }
    }
}
