//! Databases of a node in this process: Northbound, Southbound and Open vSwitch's, on one socket.

mod rows;
mod server;

use std::path::Path;

use ovsdb_sim::{Listener, RemoteError, Sim, SimBuildError};
use patchbay_engine::client::{self, Client, ClientClosed, CommitOutcome, Committed};
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::{BuildError, Transaction, TxnBuilder};
use patchbay_reconcile::northbound::{CommitError, DATABASE, Northbound, ReconnectError};
use thiserror::Error;
use uuid::Uuid;

use super::process::{Program, ProgramError, Spawner};
use super::release::{Release, ReleaseError};

use server::RealServer;

pub(crate) use rows::{Lookup, rows, rows_where, text, texts, value_of};
pub use server::ServerError;

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
    /// A transaction was not committed.
    #[error("{database}: {source}")]
    Transact {
        /// Name of the database.
        database: &'static str,
        /// The error.
        source: client::CommitError,
    },
    /// The release lacks a program or schema.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// ovsdb-server does not run.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// ovsdb-server does not serve the databases.
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// Server of the databases of a lab.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum DatabaseServer {
    /// ovsdb-sim, in the process of the lab.
    #[default]
    Sim,
    /// The ovsdb-server of the release, a process for each node.
    OvsdbServer,
}

/// The databases of a node, and the socket on which its programs reach them.
#[derive(Debug)]
pub(crate) struct Databases {
    pub(crate) northbound: NodeDatabase,
    pub(crate) southbound: NodeDatabase,
    pub(crate) switch: NodeDatabase,
    service: Service,
}

/// Server of a node's databases.
#[derive(Debug)]
enum Service {
    Sim { sim: Sim, _listener: Listener },
    Server(Box<RealServer>),
}

impl Databases {
    /// Creates empty databases, in memory or as files in the folder of the node, and serves them on
    /// a socket there.
    pub(crate) async fn create(
        server: DatabaseServer,
        release: &Release,
        spawner: &Spawner,
        node: &str,
        folder: &Path,
    ) -> Result<Self, DatabaseError> {
        match server {
            DatabaseServer::Sim => Self::create_sim(release, folder).await,
            DatabaseServer::OvsdbServer => {
                let (server, [northbound, southbound, switch]) =
                    RealServer::create(release, spawner, node, folder).await?;
                Ok(Self {
                    northbound,
                    southbound,
                    switch,
                    service: Service::Server(Box::new(server)),
                })
            }
        }
    }

    async fn create_sim(release: &Release, folder: &Path) -> Result<Self, DatabaseError> {
        let sim = Sim::builder()
            .schema(release.northbound().clone())
            .schema(release.southbound().clone())
            .schema(release.switch().clone())
            .build()?;
        let database = |name| {
            let database = sim.database(name).ok_or(DatabaseError::NoDatabase(name))?;
            let client = Client::embedded(database);
            Ok::<_, DatabaseError>(NodeDatabase { name, client })
        };
        let target = format!("punix:{}", folder.join(SOCKET).display());
        Ok(Self {
            northbound: database(DATABASE)?,
            southbound: database(SOUTHBOUND)?,
            switch: database(SWITCH)?,
            service: Service::Sim { _listener: sim.listen(&target).await?, sim },
        })
    }

    /// Ends all connections and refuses new ones, as if the server had been killed; ovsdb-server is
    /// killed. The rows stay.
    pub(crate) async fn go_down(&mut self) {
        match &mut self.service {
            Service::Sim { sim, .. } => sim.go_down().await,
            Service::Server(server) => server.kill().await,
        }
    }

    /// Accepts connections again.
    pub(crate) async fn come_back(&mut self) -> Result<(), DatabaseError> {
        match &mut self.service {
            Service::Sim { sim, .. } => Ok(sim.come_back().await?),
            Service::Server(server) => {
                let databases = [&self.northbound, &self.southbound, &self.switch];
                server.start_again(databases).await
            }
        }
    }

    /// The server, if it is a program that runs.
    pub(crate) fn program(&mut self) -> Option<&mut Program> {
        match &mut self.service {
            Service::Sim { .. } => None,
            Service::Server(server) => server.program(),
        }
    }

    /// Process id of the server, if it is a program that runs.
    pub(crate) fn process(&self) -> Option<(&'static str, u32)> {
        match &self.service {
            Service::Sim { .. } => None,
            Service::Server(server) => server.process(),
        }
    }
}

/// One database of a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeDatabase {
    name: &'static str,
    client: Client,
}

impl NodeDatabase {
    /// Commits the changes that `fill` adds to a transaction, if there are any. Returns the UUIDs
    /// of inserted rows by their placeholders.
    pub(crate) async fn change(
        &self,
        fill: impl FnOnce(&mut TxnBuilder) -> Result<(), BuildError>,
    ) -> Result<InsertedRows, DatabaseError> {
        let transaction = {
            let mut txn = TxnBuilder::new(&self.client.snapshot());
            fill(&mut txn).map_err(Box::new)?;
            if txn.is_empty() {
                return Ok(InsertedRows(None));
            }
            txn.finish()
        };
        let outcome = self.client.transact(transaction).await;
        let committed = outcome
            .into_result()
            .map_err(|source| DatabaseError::Transact { database: self.name, source })?;
        Ok(InsertedRows(Some(committed)))
    }

    /// Waits until the database has the wanted state.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    pub(crate) async fn wait_until(&self, mut is_wanted: impl FnMut(&Snapshot) -> bool) {
        let mut changes = self.client.changes();
        while !is_wanted(&self.client.snapshot()) {
            if changes.next().await.is_err() {
                // The client lives as long as this handle.
                return;
            }
        }
    }

    async fn wait_until_live(&self) {
        let Ok(mut events) = self.client.connection_events() else {
            return;
        };
        while !self.client.is_live() && events.next().await.is_ok() {}
    }
}

impl Northbound for NodeDatabase {
    fn snapshot(&self) -> Snapshot {
        self.client.snapshot()
    }

    async fn commit(&mut self, transaction: Transaction) -> Result<(), CommitError> {
        match self.client.transact(transaction).await {
            CommitOutcome::Committed(_) => Ok(()),
            CommitOutcome::Rejected(error) => Err(error.into()),
            CommitOutcome::NotSent(error) => Err(error.into()),
            CommitOutcome::Unknown(error) => Err(error.into()),
        }
    }

    /// Fails: only the lab stops its servers, so no transaction is tried again.
    async fn wait_for_outcome(&mut self) -> Result<(), ReconnectError> {
        Err(ReconnectError::Closed(ClientClosed))
    }
}

/// Rows that a transaction has inserted.
#[derive(Debug)]
pub(crate) struct InsertedRows(Option<Committed>);

impl InsertedRows {
    /// UUID of an inserted row.
    pub(crate) fn uuid(&self, placeholder: Uuid) -> Uuid {
        let committed = self.0.as_ref();
        committed.map_or(placeholder, |committed| committed.resolve_row(placeholder))
    }
}
