//! Direct access to a database for the simulator's owner.

use std::path::PathBuf;
use std::sync::Arc;

use patchbay_engine::client::{Client, EmbeddedDatabase};
use patchbay_engine::db::{ChangeSet, DatabaseError, OperationResult, Snapshot};
use patchbay_engine::txn::{Transaction, TxnBuilder};
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::wire::DecodedTransaction;
use tokio::sync::watch;

use crate::model::Role;
use crate::served_database::{NotClustered, ServedDatabase};
use crate::server::Server;

/// Handle of a simulator's database for the simulator's owner, who needs neither a connection nor
/// messages. Monitors of connected clients report its commits.
#[derive(Clone, Debug)]
pub struct SimDatabase {
    server: Arc<Server>,
    served: Arc<ServedDatabase>,
}

/// Error: a transaction failed and changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransactError {
    /// The database rejected the transaction, with the error that a client would get.
    #[error(transparent)]
    Rejected(#[from] OvsdbError),
    /// A `wait` operation is not satisfied. Transactions of the owner do not wait.
    #[error("a wait operation is not satisfied")]
    WaitNotSatisfied,
}

impl SimDatabase {
    pub(crate) fn new(server: Arc<Server>, served: Arc<ServedDatabase>) -> Self {
        Self { server, served }
    }

    /// The committed state.
    pub fn snapshot(&self) -> Snapshot {
        self.served.snapshot()
    }

    /// The path of the file to which transactions are appended. `None`: the database is kept in
    /// memory only.
    pub fn file(&self) -> Option<PathBuf> {
        self.served.file()
    }

    /// Begins a transaction for [`transact`](Self::transact). The UUIDs of its new rows are drawn
    /// from the simulator's [seed](crate::SimBuilder::seed), and are final.
    pub fn txn(&self) -> TxnBuilder {
        TxnBuilder::with_uuids(&self.snapshot(), self.server.owner_uuids())
    }

    /// Executes and commits a transaction.
    ///
    /// # Errors
    /// The transaction was rejected or its `wait` is not satisfied. Nothing changed.
    pub fn transact(&self, transaction: &Transaction) -> Result<ChangeSet, TransactError> {
        let executed = self.served.execute(to_decoded(transaction), transaction.schema());
        match executed {
            Ok((_, changes)) => Ok(changes),
            Err(DatabaseError::WaitUnsatisfied) => Err(TransactError::WaitNotSatisfied),
            Err(error) => Err(OvsdbError::from(error).into()),
        }
    }

    /// Makes an embedded client, which reads the database itself and hands it transactions without
    /// a connection or messages. It is for code that reads snapshots, waits for changes and
    /// commits.
    ///
    /// It lacks the features of connections and replicas, such as subscriptions to the changes of
    /// rows, and faults and outages do not affect it. For a client with a connection, see
    /// [`Sim::connector`](crate::Sim::connector).
    ///
    /// ```
    /// use ovsdb_sim::Sim;
    /// use patchbay_engine::client::Client;
    /// use patchbay_engine::txn::TxnBuilder;
    /// use patchbay_schemas::nb::LogicalSwitch;
    ///
    /// /// The code under test, which works on a connection, too.
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

    /// Changes the server's role in the database's cluster, which clients read in `_Server`. The
    /// simulator's owner can change the database in any role, as another member of the cluster
    /// could.
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
        self.served.set_role(role)
    }

    /// Removes all transactions but the last from the history, as a restart of the server does. A
    /// returning client that knows an older one gets the full content.
    ///
    /// # Errors
    /// The database is standalone and has no history.
    pub fn truncate_history(&self) -> Result<(), NotClustered> {
        self.served.truncate_history()
    }
}

impl EmbeddedDatabase for SimDatabase {
    fn snapshot(&self) -> Snapshot {
        self.served.snapshot()
    }

    fn transact(&self, transaction: &Transaction) -> Result<Vec<OperationResult>, DatabaseError> {
        self.served
            .execute(to_decoded(transaction), transaction.schema())
            .map(|(results, _)| results)
    }

    fn commits(&self) -> watch::Receiver<u64> {
        self.served.watch_commits()
    }
}

fn to_decoded(transaction: &Transaction) -> DecodedTransaction {
    let operations = transaction.operations().to_vec();
    DecodedTransaction { total: operations.len(), operations: operations.into(), failure: None }
}
