//! The simulator as a library.

use std::net::SocketAddr;
use std::sync::Arc;

use patchbay_engine::db::{ChangeSet, Snapshot};
use patchbay_engine::txn::Transaction;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::nb;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::DecodedTransaction;

use crate::control;
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
            schemas: Vec::new(),
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
            server: self.server.clone(),
            hosted: self.server.database(name)?.clone(),
        })
    }
}

/// Describes a simulator.
#[derive(Debug)]
pub struct SimBuilder {
    schemas: Vec<Arc<DatabaseSchema>>,
    seed: Option<u64>,
    limits: Limits,
}

impl SimBuilder {
    /// Adds a database. Without any, OVN_Northbound is served.
    #[must_use]
    pub fn schema(mut self, schema: Arc<DatabaseSchema>) -> Self {
        self.schemas.push(schema);
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
    /// Two schemas have one name.
    pub fn build(self) -> anyhow::Result<Sim> {
        let schemas = if self.schemas.is_empty() {
            vec![nb::schema()]
        } else {
            self.schemas
        };
        Ok(Sim {
            server: Arc::new(Server::new(schemas, self.seed, self.limits)?),
        })
    }
}

/// A database of a simulator, used without a socket. Monitors of connected clients see what it does.
#[derive(Clone, Debug)]
pub struct SimDatabase {
    server: Arc<Server>,
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
        match self.server.execute(&self.hosted, &decoded) {
            Ok((_, changes)) => Ok(changes),
            Err(Some(error)) => Err(error.into()),
            Err(None) => Err(TransactError::Blocked),
        }
    }
}
