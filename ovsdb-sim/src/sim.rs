//! The simulator as a library.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use patchbay_engine::client::Connector;
use patchbay_engine::txn::{BuildError, TxnBuilder};
use patchbay_schemas::schema::DatabaseSchema;
use tokio::io::DuplexStream;
use uuid::Uuid;

use crate::control;
use crate::database::SimDatabase;
use crate::databases::{AddDatabaseError, RemoveDatabaseError};
use crate::dial::{self, Dialer};
use crate::fault::{ConnectionId, FaultId, FaultRule, FaultStatus};
use crate::file::{Given, Source};
use crate::hosted::Hosted;
use crate::listen::{self, ListenError, Listener};
use crate::model::Model;
use crate::remotes::Remotes;
use crate::server::{Limits, NoConnection, Server};
use crate::unixctl::{self, Log, Unixctl};

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
            model: Model::default(),
            seed: None,
            limits: Limits::default(),
            faults: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Serves clients at `punix:PATH` or `ptcp:PORT[:HOST]`.
    ///
    /// # Errors
    /// The target is malformed or cannot be bound.
    pub async fn listen(&self, target: &str) -> Result<Listener, ListenError> {
        listen::listen(self.server.clone(), target, listen::default_probe(target)).await
    }

    /// Connects to the client at `unix:PATH` or `tcp:HOST[:PORT]` and serves it, and does so again whenever the connection
    /// ends, with a pause of one to eight seconds.
    ///
    /// # Errors
    /// The target is malformed.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn dial(&self, target: &str) -> Result<Dialer, ListenError> {
        dial::dial(self.server.clone(), target, listen::default_probe(target))
    }

    /// Serves `ovs-appctl` at a unix socket. `remotes` are those that its commands list and change, `log` is what `vlog/set`
    /// changes.
    ///
    /// # Errors
    /// The socket cannot be bound.
    pub fn serve_unixctl(
        &self,
        path: impl Into<PathBuf>,
        remotes: &Remotes,
        log: Log,
    ) -> std::io::Result<Unixctl> {
        unixctl::serve(self.server.clone(), path.into(), remotes.clone(), log)
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

    /// The way to this simulator for a [`Client`](patchbay_engine::client::Client) in the same process: no socket is
    /// opened, all else is as on one.
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

    /// Connects without a socket: the client's end of a stream of bytes, for clients that are not the engine's, and for
    /// tests that write messages themselves.
    ///
    /// # Errors
    /// The server is [down](Self::go_down) or has as many connections as it may.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn connect(&self) -> io::Result<DuplexStream> {
        listen::connect(&self.server)
    }

    /// The open connections, in the order in which they were made.
    pub fn connections(&self) -> Vec<ConnectionId> {
        self.server.connections()
    }

    /// Makes something go wrong from now on.
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
    /// It is about one connection, which is not there.
    pub fn set_fault(&self, rule: impl Into<FaultRule>) -> Result<FaultId, NoConnection> {
        self.server.set_fault(rule.into())
    }

    /// Ends a fault; false when it is not set, or not any more.
    pub fn clear_fault(&self, fault: FaultId) -> bool {
        self.server.faults().clear(fault)
    }

    /// Ends all faults.
    pub fn clear_faults(&self) {
        self.server.faults().clear_all();
    }

    /// The faults that are set, in the order in which they were. Those that went wrong as often as they should are not
    /// set any more.
    pub fn faults(&self) -> Vec<FaultStatus> {
        self.server.faults().list()
    }

    /// Closes all listeners and ends all connections, as when the server's process ends; returns when that is so. The
    /// databases stay as they are.
    pub async fn go_down(&self) {
        self.server.go_down().await;
    }

    /// Serves clients again after [`go_down`](Self::go_down), at the same places. Those that are open stay as they are.
    ///
    /// # Errors
    /// A place cannot be bound any more.
    pub async fn come_back(&self) -> Result<(), ListenError> {
        self.server.come_back().await
    }

    /// A database by name.
    pub fn database(&self, name: &str) -> Option<SimDatabase> {
        let hosted = self.hosted(name)?;
        Some(SimDatabase::new(self.server.clone(), hosted))
    }

    /// Serves another database from now on, an empty one. Clients that have not said that they understand it
    /// (`set_db_change_aware`) are hung up on, so that they look again; the others find it in `_Server`.
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
    /// There is one of its name, or the name is reserved. Nothing changed.
    pub fn add_database(
        &self,
        schema: Arc<DatabaseSchema>,
    ) -> Result<SimDatabase, AddDatabaseError> {
        let hosted = self.server.add_database(Source::empty(schema))?;
        Ok(SimDatabase::new(self.server.clone(), hosted))
    }

    /// Like [`add_database`](Self::add_database), with the content of a standalone database file, which the database goes
    /// on in: the file is its [journal](SimBuilder::journal). `ovs-appctl ovsdb-server/add-db` does the same.
    ///
    /// # Errors
    /// The file is none of a database or in use, there is a database of its name, or the name is reserved. Nothing changed.
    pub fn open_database(&self, path: impl AsRef<Path>) -> Result<SimDatabase, AddDatabaseError> {
        let hosted = self.server.open_database(path.as_ref())?;
        Ok(SimDatabase::new(self.server.clone(), hosted))
    }

    /// Serves a database no more; `ovs-appctl ovsdb-server/remove-db` does the same. Its monitors and waiting transactions
    /// are canceled, its journal is closed and can be opened by others, and clients that have not said that they
    /// understand it (`set_db_change_aware`) are hung up on. A [`SimDatabase`] of it still has the last state, and refuses
    /// transactions.
    ///
    /// # Errors
    /// There is none of this name, or it is the server's own.
    pub fn remove_database(&self, name: &str) -> Result<(), RemoveDatabaseError> {
        self.server.remove_database(name)
    }

    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    pub(crate) fn hosted(&self, name: &str) -> Option<Arc<Hosted>> {
        self.server.database(name)
    }

    /// Gives the server another id, by which clients (`get_server_id`) know that it was started anew, and returns it.
    pub fn new_server_id(&self) -> Uuid {
        self.server.renew_id()
    }
}

/// Describes a simulator.
#[derive(Debug)]
pub struct SimBuilder {
    given: Given,
    model: Model,
    seed: Option<u64>,
    limits: Limits,
    faults: Vec<FaultRule>,
    rows: Vec<Rows>,
}

/// The transaction that fills a database.
struct Rows {
    database: String,
    fill: Box<Fill>,
}

type Fill = dyn FnOnce(&mut TxnBuilder) -> Result<(), BuildError> + Send;

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rows").field(&self.database).finish()
    }
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

    /// Sets how the databases are kept, all of them: standalone if nothing is said.
    #[must_use]
    pub fn model(mut self, model: Model) -> Self {
        self.model = model;
        self
    }

    /// Makes the UUIDs of all rows depend on nothing but this and on what is done in which order: those that `insert`s
    /// of clients get (named or not) depend on the number of the connection and on what that connection inserted before,
    /// those of [`rows`](Self::rows) and of [`SimDatabase::txn`] on the calls before. So a test that does the same gets
    /// the same state, to be compared with one that was recorded.
    ///
    /// Row versions, ids of transactions and the server's id are drawn from the seed too.
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

    /// Begins with rows: `fill` adds them to a transaction, which is committed before anybody can connect. May be called
    /// several times.
    ///
    /// ```
    /// use ovsdb_sim::Sim;
    /// use patchbay_schemas::nb::{LogicalRouter, LogicalRouterPort};
    ///
    /// let sim = Sim::builder()
    ///     .seed(1)
    ///     .rows("OVN_Northbound", |txn| {
    ///         let port = txn.insert(&LogicalRouterPort { name: "lrp0".into(), ..Default::default() })?;
    ///         txn.insert(&LogicalRouter { name: "lr0".into(), ports: [port].into(), ..Default::default() })?;
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
        self.rows.push(Rows {
            database: database.into(),
            fill: Box::new(fill),
        });
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
    /// Two databases have one name, a file is not what it is given for, rows do not fit into their database, or a fault is
    /// about one connection: there is none yet.
    pub fn build(self) -> anyhow::Result<Sim> {
        let sources = self.given.sources()?;
        let server = Arc::new(Server::new(sources, self.model, self.seed, self.limits)?);
        let sim = Sim { server };
        for Rows { database, fill } in self.rows {
            let name = &database;
            let database = sim
                .database(name)
                .with_context(|| format!("there is no database {name} to put rows into"))?;
            let mut txn = database.txn();
            let filled = fill(&mut txn).map_err(anyhow::Error::from);
            filled
                .and_then(|()| Ok(database.transact(&txn.finish())?))
                .with_context(|| format!("the rows that database {name} should begin with"))?;
        }
        for rule in self.faults {
            sim.set_fault(rule)?;
        }
        Ok(sim)
    }
}
