//! Databases of a node in this process: Northbound, Southbound and Open vSwitch's, on one socket.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use ovsdb_sim::{Listener, RemoteError, Sim, SimBuildError};
use patchbay_app::northbound::{CommitError, DATABASE, Northbound, ReconnectError};
use patchbay_engine::client::{Client, CommitOutcome, Committed, Config, ConnectError, Remotes};
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::{BuildError, Transaction, TxnBuilder};
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::TableSchema;
use patchbay_schemas::typed::Column;
use thiserror::Error;
use tokio::process::Command;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::process::{Program, ProgramError, Spawner};
use super::release::{Release, ReleaseError};

/// Name of the real server.
const SERVER: &str = "ovsdb-server";
/// Maximum time until a server answers, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Delay between attempts to reach a server that starts.
const RECONNECT_BACKOFF: (Duration, Duration) =
    (Duration::from_millis(5), Duration::from_millis(500));
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
    #[error("{database}: {reason}")]
    Transact {
        /// Name of the database.
        database: &'static str,
        /// The error.
        reason: String,
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

/// Error: ovsdb-server does not serve the databases of a node.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// ovsdb-tool does not start.
    #[error("ovsdb-tool: {0}")]
    Tool(#[from] io::Error),
    /// ovsdb-tool does not create a database.
    #[error("ovsdb-tool: {0}")]
    Create(String),
    /// The path of the socket is no remote.
    #[error(transparent)]
    Remote(#[from] patchbay_engine::client::RemoteError),
    /// ovsdb-server does not answer.
    #[error(transparent)]
    Connect(#[from] ConnectError),
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

/// An ovsdb-server with the files of a node.
#[derive(Debug)]
struct RealServer {
    /// `None`: it was stopped.
    program: Option<Program>,
    command: Vec<OsString>,
    spawner: Spawner,
    node: String,
    folder: PathBuf,
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
            DatabaseServer::OvsdbServer => Self::start_server(release, spawner, node, folder).await,
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
            service: Service::Sim {
                _listener: sim.listen(&target).await?,
                sim,
            },
        })
    }

    async fn start_server(
        release: &Release,
        spawner: &Spawner,
        node: &str,
        folder: &Path,
    ) -> Result<Self, DatabaseError> {
        let mut command = release.command(SERVER)?;
        let socket = folder.join(SOCKET);
        command.push(format!("--remote=punix:{}", socket.display()).into());
        command.extend(["-vconsole:info", "-vsyslog:off", "-vfile:off"].map(OsString::from));
        for schema in ["ovn-nb", "ovn-sb", "vswitch"] {
            let file = folder.join(format!("{schema}.db"));
            create_file(release, &file, schema).await?;
            command.push(file.into());
        }
        let mut program = Program::start(spawner, SERVER, node, folder, command.clone()).await?;
        let [northbound, southbound, switch] = [
            connect(&mut program, &socket, DATABASE).await?,
            connect(&mut program, &socket, SOUTHBOUND).await?,
            connect(&mut program, &socket, SWITCH).await?,
        ];
        Ok(Self {
            northbound,
            southbound,
            switch,
            service: Service::Server(Box::new(RealServer {
                program: Some(program),
                command,
                spawner: spawner.clone(),
                node: node.to_owned(),
                folder: folder.to_owned(),
            })),
        })
    }

    /// Ends all connections and refuses new ones, as if the server had been killed; ovsdb-server is
    /// killed. The rows stay.
    pub(crate) async fn go_down(&mut self) {
        match &mut self.service {
            Service::Sim { sim, .. } => sim.go_down().await,
            Service::Server(server) => {
                if let Some(mut program) = server.program.take() {
                    program.kill().await;
                }
            }
        }
    }

    /// Accepts connections again.
    pub(crate) async fn come_back(&mut self) -> Result<(), DatabaseError> {
        match &mut self.service {
            Service::Sim { sim, .. } => Ok(sim.come_back().await?),
            Service::Server(server) => {
                let RealServer {
                    program,
                    command,
                    spawner,
                    node,
                    folder,
                } = &mut **server;
                let started = Program::start(spawner, SERVER, node, folder, command.clone());
                *program = Some(started.await?);
                for database in [&self.northbound, &self.southbound, &self.switch] {
                    database.wait_until_live().await;
                }
                Ok(())
            }
        }
    }

    /// The server, if it is a program that runs.
    pub(crate) fn program(&mut self) -> Option<&mut Program> {
        match &mut self.service {
            Service::Sim { .. } => None,
            Service::Server(server) => server.program.as_mut(),
        }
    }

    /// Process id of the server, if it is a program that runs.
    pub(crate) fn process(&self) -> Option<(&'static str, u32)> {
        match &self.service {
            Service::Sim { .. } => None,
            Service::Server(server) => Some((SERVER, server.program.as_ref()?.id()?)),
        }
    }
}

/// Connects to a database of a server that starts.
async fn connect(
    program: &mut Program,
    socket: &Path,
    name: &'static str,
) -> Result<NodeDatabase, DatabaseError> {
    let remote = format!("unix:{}", socket.display());
    let remotes: Remotes = remote.parse().map_err(ServerError::from)?;
    let connected = async {
        // A client would log each attempt.
        while !socket.exists() {
            sleep(RECONNECT_BACKOFF.0).await;
        }
        // The server listens before it has read all databases.
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut config = Config::new(remotes.clone(), name);
            config.backoff = RECONNECT_BACKOFF;
            match Client::connect_within(config, PATIENCE).await {
                Ok(client) => return Ok(NodeDatabase { name, client }),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => sleep(RECONNECT_BACKOFF.0).await,
            }
        }
    };
    tokio::select! {
        connected = connected => Ok(connected.map_err(ServerError::from)?),
        ended = program.ended() => Err(ended.into()),
    }
}

/// Creates a database file with ovsdb-tool.
async fn create_file(
    release: &Release,
    file: &Path,
    schema: &'static str,
) -> Result<(), DatabaseError> {
    let mut words = release.command("ovsdb-tool")?.into_iter();
    let program = words.next().unwrap_or_default();
    let output = Command::new(program)
        .args(words)
        .arg("create")
        .arg(file)
        .arg(release.schema_path(schema)?)
        .stdin(Stdio::null())
        // Ctrl-C is for the lab.
        .process_group(0)
        .kill_on_drop(true)
        .output()
        .await;
    let output = output.map_err(ServerError::from)?;
    if output.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(ServerError::Create(reason).into())
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
        match self.client.transact(transaction).await {
            CommitOutcome::Committed(committed) => Ok(InsertedRows(Some(committed))),
            outcome => Err(DatabaseError::Transact {
                database: self.name,
                reason: describe(&outcome),
            }),
        }
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
            // Nobody but the lab stops its servers, so no transaction is tried again.
            outcome => Err(CommitError::Rejected(describe(&outcome))),
        }
    }

    async fn wait_for_outcome(&mut self) -> Result<(), ReconnectError> {
        Ok(())
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

fn describe(outcome: &CommitOutcome) -> String {
    match outcome {
        CommitOutcome::Committed(_) => "committed".to_owned(),
        CommitOutcome::Rejected(error) => error.to_string(),
        CommitOutcome::NotSent(error) => error.to_string(),
        CommitOutcome::Unknown(error) => error.to_string(),
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

/// The rows of a table that `is_wanted`.
pub(crate) fn rows_where(
    snapshot: &Snapshot,
    table: &str,
    is_wanted: impl Fn(&Lookup<'_>) -> bool,
) -> Vec<Uuid> {
    let Some((id, table)) = snapshot.schema().table_by_name(table) else {
        return Vec::new();
    };
    let rows = snapshot.table(id).iter();
    let wanted = rows.filter(|row| is_wanted(&Lookup { row, table }));
    wanted.map(|row| row.uuid).collect()
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
