//! What the simulator's owner does with a database, without messages.

use std::sync::Arc;

use patchbay_engine::client::{Client, EmbeddedDatabase};
use patchbay_engine::db::{ChangeSet, DatabaseError, OperationResult, Snapshot};
use patchbay_engine::txn::{Transaction, TxnBuilder};
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::wire::DecodedTransaction;
use tokio::sync::watch;

use crate::hosted::{Hosted, NotClustered};
use crate::model::Role;
use crate::server::Server;

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
    pub(crate) fn new(server: Arc<Server>, hosted: Arc<Hosted>) -> Self {
        Self { server, hosted }
    }

    /// The committed state.
    pub fn snapshot(&self) -> Snapshot {
        self.hosted.snapshot()
    }

    /// Begins a transaction for [`transact`](Self::transact). The UUIDs of the rows that it inserts are drawn from the
    /// simulator's [seed](crate::SimBuilder::seed) and can be used at once.
    pub fn txn(&self) -> TxnBuilder {
        TxnBuilder::with_uuids(&self.snapshot(), self.server.owner_uuids())
    }

    /// Executes and commits a transaction.
    ///
    /// # Errors
    /// It was refused or its `wait` is not satisfied. Nothing changed.
    pub fn transact(&self, transaction: &Transaction) -> Result<ChangeSet, TransactError> {
        let executed = self
            .hosted
            .execute(decoded(transaction), transaction.schema());
        match executed {
            Ok((_, changes)) => Ok(changes),
            Err(DatabaseError::WaitUnsatisfied) => Err(TransactError::Blocked),
            Err(error) => Err(OvsdbError::from(error).into()),
        }
    }

    /// A client of the database that needs neither a connection nor messages: it reads the database itself, and its
    /// transactions are executed as they are: for code that reads snapshots, waits for changes and commits. What belongs to
    /// connections and replicas, such as subscriptions to the changes of rows, it has not. Faults and outages do not concern
    /// it; for a client of which they do, see [`Sim::connector`](crate::Sim::connector).
    ///
    /// ```
    /// use ovsdb_sim::Sim;
    /// use patchbay_engine::client::Client;
    /// use patchbay_engine::txn::TxnBuilder;
    /// use patchbay_schemas::nb::LogicalSwitch;
    ///
    /// /// What is to be tested: it would do the same on a connection.
    /// async fn add_switch(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    ///     let mut txn = TxnBuilder::new(&client.snapshot());
    ///     txn.insert(&LogicalSwitch { name: "sw0".into(), ..Default::default() })?;
    ///     client.transact(txn.finish()).await.into_result()?;
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let sim = Sim::builder().build()?;
    /// let database = sim.database("OVN_Northbound").ok_or("served by default")?;
    /// add_switch(&database.client()).await?;
    /// assert_eq!(database.snapshot().row_count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn client(&self) -> Client {
        Client::embedded(self.clone())
    }

    /// Changes what the server is in the database's cluster; `_Server` and its monitors tell clients. The simulator's
    /// owner can change the database whatever the role is, as another member of the cluster could.
    ///
    /// ```
    /// use ovsdb_sim::{Model, Role, Sim};
    ///
    /// let sim = Sim::builder().model(Model::Clustered).build()?;
    /// let database = sim.database("OVN_Northbound").ok_or("served by default")?;
    /// database.set_role(Role::Follower)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The database is standalone.
    pub fn set_role(&self, role: Role) -> Result<(), NotClustered> {
        self.hosted.set_role(role)
    }

    /// Forgets all committed transactions but the last, as a server that is started anew does: clients that come back
    /// and know an older one get everything anew.
    ///
    /// # Errors
    /// The database is standalone and remembers none.
    pub fn truncate_history(&self) -> Result<(), NotClustered> {
        self.hosted.truncate_history()
    }
}

impl EmbeddedDatabase for SimDatabase {
    fn snapshot(&self) -> Snapshot {
        self.hosted.snapshot()
    }

    fn transact(&self, transaction: &Transaction) -> Result<Vec<OperationResult>, DatabaseError> {
        let executed = self
            .hosted
            .execute(decoded(transaction), transaction.schema());
        executed.map(|(results, _)| results)
    }

    fn commits(&self) -> watch::Receiver<u64> {
        self.hosted.commits_watch()
    }
}

fn decoded(transaction: &Transaction) -> DecodedTransaction {
    let operations = transaction.operations().to_vec();
    DecodedTransaction {
        total: operations.len(),
        operations,
        failure: None,
    }
}
