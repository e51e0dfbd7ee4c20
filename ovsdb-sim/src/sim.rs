//! The simulator as a library.

pub(crate) mod builder;
pub(crate) mod database;
#[cfg(feature = "rows")]
pub(crate) mod rows;
pub(crate) mod snapshots;

use std::io;
use std::path::Path;
use std::sync::Arc;

use patchbay_engine::client::Connector;
use patchbay_schemas::schema::DatabaseSchema;
use tokio::io::DuplexStream;
use uuid::Uuid;

use crate::dial::{self, Dialer};
use crate::fault::{ConnectionId, FaultId, FaultRule, FaultStatus};
use crate::file::DatabaseSource;
use crate::following::SourceOptions;
use crate::in_process;
use crate::listen::{self, Endpoints, Listener};
use crate::remotes::options::RemoteOptions;
use crate::server::{AddDatabaseError, RemoveDatabaseError, Server, SetFaultError};
use crate::sim::database::SimDatabase;
use crate::sim::snapshots::Snapshots;
use crate::target::RemoteError;

/// Handle of a running simulator. Clones are handles of the same one. Listeners end when they are
/// dropped.
#[derive(Clone, Debug)]
pub struct Sim {
    server: Arc<Server>,
    /// Endpoints of all listeners, which an outage closes.
    endpoints: Arc<Endpoints>,
    snapshots: Arc<Snapshots>,
}

impl Sim {
    pub(crate) fn new(server: Server) -> Self {
        Self { server: Arc::new(server), endpoints: Arc::default(), snapshots: Arc::default() }
    }

    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    pub(crate) fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    pub(crate) fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// Serves clients at `punix:PATH`, `ptcp:PORT[:HOST]` or `pssl:PORT[:HOST]`.
    ///
    /// # Errors
    /// The target is malformed or cannot be bound.
    pub async fn listen(&self, target: &str) -> Result<Listener, RemoteError> {
        let options = RemoteOptions::of_target(target);
        listen::listen(&self.server, &self.endpoints, target, options).await
    }

    /// Connects to the client at `unix:PATH`, `tcp:HOST[:PORT]` or `ssl:HOST[:PORT]` and serves it.
    /// Connects again whenever the connection ends, with a pause of one to eight seconds.
    ///
    /// # Errors
    /// The target is malformed.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn dial(&self, target: &str) -> Result<Dialer, RemoteError> {
        let options = RemoteOptions::of_target(target);
        dial::dial(self.server.clone(), target, options)
    }

    /// The connector with which a [`Client`](patchbay_engine::client::Client) in the same process
    /// connects to this simulator. It opens no socket; apart from that, its connections are like
    /// those of a socket.
    ///
    /// ```
    /// use ovsdb_sim::Sim;
    /// use patchbay_engine::client::{Client, Config};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let sim = Sim::builder().build()?;
    /// let client = Client::connect(Config::new(sim.connector().into(), "OVN_Northbound")).await?;
    /// assert_eq!(client.snapshot().row_count(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn connector(&self) -> Connector {
        let sim = self.clone();
        Connector::new("in-process", move || std::future::ready(sim.connect()))
    }

    /// Opens a connection without a socket, and returns the client's end of the byte stream. It is
    /// for clients other than the engine's, and for tests that write messages themselves.
    ///
    /// # Errors
    /// The server is [down](Self::go_down) or has as many connections as it may.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn connect(&self) -> io::Result<DuplexStream> {
        in_process::connect(&self.server)
    }

    /// The open connections, in the order in which they were made.
    pub fn connections(&self) -> Vec<ConnectionId> {
        self.server.connections()
    }

    /// The bytes that the connections hold together, of [`Limits::memory`](crate::Limits::memory),
    /// in steps of 4 KiB.
    pub fn connection_bytes(&self) -> usize {
        self.server.budget().charged()
    }

    /// Sets a fault.
    ///
    /// ```
    /// use ovsdb_sim::{Fault, FaultRule, Sim};
    /// use patchbay_engine::client::{Client, CommitOutcome, Config};
    /// use patchbay_engine::txn::TxnBuilder;
    /// use patchbay_schemas::error::OvsdbError;
    /// use patchbay_schemas::nb::LogicalSwitch;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let sim = Sim::builder().build()?;
    /// let client = Client::connect(Config::new(sim.connector().into(), "OVN_Northbound")).await?;
    /// let full = OvsdbError::new("I/O error", "No space left on device");
    /// sim.set_fault(FaultRule::from(Fault::FailCommit(full)).once())?;
    ///
    /// let mut txn = TxnBuilder::new(&client.snapshot());
    /// txn.insert(&LogicalSwitch { name: "sw0".into(), ..Default::default() })?;
    /// let txn = txn.finish();
    /// assert!(matches!(client.transact(txn.clone()).await, CommitOutcome::Rejected(_)));
    /// assert!(matches!(client.transact(txn).await, CommitOutcome::Committed(_)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The fault names one connection, which does not exist, or 1,000 faults are set.
    pub fn set_fault(&self, rule: impl Into<FaultRule>) -> Result<FaultId, SetFaultError> {
        self.server.set_fault(rule.into())
    }

    /// Clears a fault. Returns `false` if it is not set, or not any more.
    pub fn clear_fault(&self, fault: FaultId) -> bool {
        self.server.faults().clear(fault)
    }

    /// Clears all faults.
    pub fn clear_faults(&self) {
        self.server.faults().clear_all();
    }

    /// The faults, in the order in which they were set. A fault that has struck as often as it
    /// should is not among them.
    pub fn faults(&self) -> Vec<FaultStatus> {
        self.server.faults().list()
    }

    /// Begins an outage: closes all listeners and ends all connections, as if the server's process
    /// ended. Returns when they have ended. The databases stay as they are.
    pub async fn go_down(&self) {
        self.server.set_up(false);
        self.endpoints.close_all().await;
        self.server.cut_off_sessions().await;
    }

    /// Ends an outage: serves clients again, at the addresses from before
    /// [`go_down`](Self::go_down). Open listeners stay as they are.
    ///
    /// # Errors
    /// An address cannot be bound any more.
    pub async fn come_back(&self) -> Result<(), RemoteError> {
        self.server.set_up(true);
        self.endpoints.open_all(&self.server).await
    }

    /// Ends the service like ovsdb-server's command `exit`: clients that are aware of changes
    /// (`set_db_change_aware`) are notified that their monitors are canceled, and all connections are
    /// closed. Returns when they are, or after a second.
    pub async fn shut_down(&self) {
        self.server.set_up(false);
        self.server.shut_down().await;
    }

    /// The names of all databases but `_Server`, sorted.
    pub fn database_names(&self) -> Vec<String> {
        let names = self.server.databases().all();
        let names = names.keys().filter(|name| !name.starts_with('_'));
        names.cloned().collect()
    }

    /// The database of this name.
    pub fn database(&self, name: &str) -> Option<SimDatabase> {
        let served = self.server.database(name)?;
        Some(SimDatabase::new(self.server.clone(), served))
    }

    /// Adds an empty database. The connections of clients that are not aware of changes
    /// (`set_db_change_aware`) are closed, so that they list the databases again. Other clients
    /// find the database in `_Server`.
    ///
    /// ```
    /// use ovsdb_sim::Sim;
    /// use patchbay_schemas::schema::DatabaseSchema;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let sim = Sim::builder().build()?;
    /// let schema = DatabaseSchema::parse(br#"{"name":"D","tables":{}}"#)?;
    /// let database = sim.add_database(schema.into())?;
    /// assert_eq!(database.snapshot().row_count(), 0);
    /// sim.remove_database("D")?;
    /// assert!(sim.database("D").is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is a database of its name, or the name is reserved. Nothing changed.
    pub fn add_database(
        &self,
        schema: Arc<DatabaseSchema>,
    ) -> Result<SimDatabase, AddDatabaseError> {
        let served = self.server.add_database(DatabaseSource::empty(schema))?;
        Ok(SimDatabase::new(self.server.clone(), served))
    }

    /// Adds the database of a database file, standalone or of a cluster with one server, which
    /// becomes its [journal](crate::SimBuilder::journal), like `ovs-appctl ovsdb-server/add-db`.
    /// Apart from that, it is like [`add_database`](Self::add_database).
    ///
    /// # Errors
    /// The file is not a database file or in use, there is a database of its name, or the name is
    /// reserved. Nothing changed.
    pub fn open_database(&self, path: impl AsRef<Path>) -> Result<SimDatabase, AddDatabaseError> {
        let served = self.server.open_database(path.as_ref(), None)?;
        Ok(SimDatabase::new(self.server.clone(), served))
    }

    /// Adds the database of a relay, like `relay:NAME:REMOTES` among ovsdb-server's arguments: its
    /// schema and content are those of the database of this name at the `remotes`, which are in
    /// ovsdb-server's notation, separated by commas. Transactions that write are forwarded.
    ///
    /// Clients can use the database when the source has sent it. A relay keeps the content while
    /// its source is away, and forwards transactions when it is back. Like
    /// [`add_database`](Self::add_database), this closes connections.
    ///
    /// # Errors
    /// There is a database of this name, or the name is reserved. Nothing changed.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn add_relay(&self, name: &str, remotes: &str) -> Result<SimDatabase, AddDatabaseError> {
        let served = self.server.add_relay(name, SourceOptions::of_relay(remotes))?;
        Ok(SimDatabase::new(self.server.clone(), served))
    }

    /// Waits until each relay and backup has the content of its source, or could not connect to it
    /// at once.
    pub async fn wait_for_sources(&self) {
        self.server.wait_for_sources().await;
    }

    /// Makes all standalone databases backups of those of their names at `remotes`, like
    /// `ovsdb-server --sync-from`. Clients cannot change them. `excluded_tables` keep their
    /// content: `DATABASE:TABLE,...`, or nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start_backup(&self, remotes: &str, excluded_tables: &str) {
        self.prepare_backup(remotes, excluded_tables);
        // Fails only without remotes.
        self.server.connect_to_source().unwrap_or_default();
    }

    /// Names source and excluded tables as [`start_backup`](Self::start_backup) does, and leaves
    /// the databases active, like `ovsdb-server --active`.
    pub fn prepare_backup(&self, remotes: &str, excluded_tables: &str) {
        self.server.set_excluded_tables(excluded_tables);
        self.server.set_source(remotes);
        self.server.declare_backups();
    }

    /// Names the tables that later backups do not follow: `DATABASE:TABLE,...`, or nothing.
    pub fn exclude_from_backup(&self, tables: &str) {
        self.server.set_excluded_tables(tables);
    }

    /// Makes all backups active, with the content that they have.
    pub fn stop_backup(&self) {
        self.server.disconnect_from_source();
    }

    /// Removes a database, like `ovs-appctl ovsdb-server/remove-db`. Its monitors and waiting
    /// transactions are canceled, and its journal is closed and can be opened by other programs.
    /// The connections of clients that are not aware of changes (`set_db_change_aware`) are closed.
    /// A [`SimDatabase`] of it still has the last state, and rejects transactions.
    ///
    /// # Errors
    /// There is no database of this name, or it is `_Server`.
    pub fn remove_database(&self, name: &str) -> Result<(), RemoveDatabaseError> {
        self.server.remove_following_database(name)
    }

    #[cfg(test)]
    pub(crate) fn served_database(
        &self,
        name: &str,
    ) -> Option<Arc<crate::served_database::ServedDatabase>> {
        self.server.database(name)
    }

    /// Gives the server another id, as after a restart, and returns it. Clients read it with
    /// `get_server_id`.
    pub fn new_server_id(&self) -> Uuid {
        self.server.renew_id()
    }
}
