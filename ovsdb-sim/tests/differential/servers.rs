//! The two servers of a comparison, on the same schemas.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ovsdb_sim::{Listener, Model, ServerRelease, Sim};
use patchbay_ovn_programs::testing::{RealServer, Release, ScratchDir};
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::DatabaseSchema;
use tokio::runtime::Runtime;

use crate::client::Client;
use crate::normal::{Names, Scope, forget_versions, is_reply};
use crate::transactions::Transactions;

/// Timeout of a cluster's commit: far more than it needs, even on a loaded machine.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of the simulator's notice that a client has closed its connection.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(60);

/// Simulator in this process.
pub(crate) struct RunningSim {
    sim: Sim,
    socket: PathBuf,
    _listener: Listener,
    _runtime: Runtime,
    _dir: ScratchDir,
    /// Source of a relay.
    _source: Option<Box<RunningSim>>,
}

impl RunningSim {
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }
}

/// The release whose words a release of the real server has. A program is asked once.
fn words_of(release: &Release) -> ServerRelease {
    static KNOWN: Mutex<BTreeMap<Option<PathBuf>, ServerRelease>> = Mutex::new(BTreeMap::new());
    let folder = release.folder().map(Path::to_owned);
    let mut known = KNOWN.lock().expect("no test panics while it holds the lock");
    *known.entry(folder).or_insert_with(|| parse_version(&release.version()))
}

fn parse_version(version: &str) -> ServerRelease {
    match version.split_once('.') {
        Some(("0" | "1" | "2", _)) => ServerRelease::V3_1,
        Some(("3", minor)) if !minor.starts_with(['5', '6', '7', '8', '9']) => ServerRelease::V3_1,
        Some(("3", _)) => ServerRelease::V3_5,
        _ => ServerRelease::V4_0,
    }
}

/// Starts the simulator with a database of this schema.
pub(crate) fn start_sim(schema: &str, model: Model, release: ServerRelease) -> RunningSim {
    let dir = ScratchDir::new();
    let socket = dir.path().join("sim.sock");
    let runtime = start_runtime();
    let parsed = DatabaseSchema::parse(schema.as_bytes())
        .unwrap_or_else(|error| panic!("{error}: {schema}"));
    let sim = Sim::builder().model(model).compat(release).schema(Arc::new(parsed)).build();
    listen(&sim.expect("a database"), socket, runtime, dir)
}

fn listen(sim: &Sim, socket: PathBuf, runtime: Runtime, dir: ScratchDir) -> RunningSim {
    let target = format!("punix:{}", socket.display());
    let listener = runtime.block_on(sim.listen(&target)).expect("a socket");
    RunningSim {
        sim: sim.clone(),
        socket,
        _listener: listener,
        _runtime: runtime,
        _dir: dir,
        _source: None,
    }
}

/// Starts a simulator that relays the database D of a source.
fn start_relay(source: RunningSim, release: ServerRelease) -> RunningSim {
    let dir = ScratchDir::new();
    let socket = dir.path().join("sim.sock");
    let runtime = start_runtime();
    let sim = Sim::builder().compat(release).without_default_database().build().expect("a server");
    let remote = format!("unix:{}", source.socket().display());
    runtime.block_on(async {
        sim.add_relay("D", &remote).expect("a relay");
        sim.wait_for_sources().await;
    });
    RunningSim { _source: Some(Box::new(source)), ..listen(&sim, socket, runtime, dir) }
}

fn start_runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// The real ovsdb-server and the simulator.
pub(crate) struct Servers {
    real: RealServer,
    sim: RunningSim,
    model: Model,
    /// Source of the real relay.
    _source: Option<RealServer>,
    /// Parameters of a transaction that relays forward. `None`: the servers are no relays.
    forwarded: Option<String>,
}

impl Servers {
    /// Starts both with a database D of this schema, the real one of a release.
    pub(crate) fn start(release: &Release, model: Model, schema: &str) -> Self {
        let dir = ScratchDir::new();
        let file = dir.path().join("ovsschema");
        fs::write(&file, schema).expect("a fresh folder");
        Self {
            real: match model {
                Model::Standalone => RealServer::start_release(release, [file]),
                Model::Clustered => RealServer::start_clustered(release, "D", &file),
            },
            sim: start_sim(schema, model, words_of(release)),
            model,
            _source: None,
            forwarded: None,
        }
    }

    /// Starts both like [`start`](Self::start), and a relay of each, which are compared.
    pub(crate) fn start_relays(release: &Release, model: Model, schema: &str) -> Self {
        let sources = Self::start(release, model, schema);
        let parsed = DatabaseSchema::parse(schema.as_bytes()).expect("a valid schema");
        let table = parsed.tables.first().expect("a schema with tables");
        let nil = uuid::Uuid::nil();
        let forwarded = format!(
            r#"["D",{{"op":"delete","table":"{}","where":[["_uuid","==",["uuid","{nil}"]]]}}]"#,
            table.name
        );
        Self {
            real: RealServer::start_relay(release, "D", &sources.real.remote()),
            sim: start_relay(sources.sim, words_of(release)),
            model,
            _source: Some(sources.real),
            forwarded: Some(forwarded),
        }
    }

    /// `true` if the servers are relays.
    pub(crate) fn are_relays(&self) -> bool {
        self.forwarded.is_some()
    }

    /// Begins a comparison with new connections.
    pub(crate) fn compare(&self, scope: Scope) -> Comparison {
        Comparison {
            real: self.side(self.real.socket(), scope),
            sim: self.side(self.sim.socket(), scope),
            running_sim: self.sim.sim.clone(),
            unanswered: Vec::new(),
        }
    }

    fn side(&self, socket: &Path, scope: Scope) -> Side {
        Side::new(socket, scope, self.model, self.forwarded.clone())
    }
}

/// Comparison of two servers, which get the same bytes.
pub(crate) struct Comparison {
    real: Side,
    sim: Side,
    running_sim: Sim,
    /// Requests that may still get a reply: waiting transactions.
    unanswered: Vec<Json>,
}

/// Messages of both servers, with UUIDs by name, if they differ.
pub(crate) struct Difference {
    real: String,
    sim: String,
}

impl Difference {
    /// Describes the difference with the request that led to it.
    pub(crate) fn describe(&self, case: &str, request: &str) -> String {
        let Self { real, sim } = self;
        format!("{case}: {request}\n  real\n{real}  sim\n{sim}\n")
    }
}

impl Comparison {
    /// Sends bytes on a connection, which is opened if it is new. Compares the messages on all
    /// connections. `request` is the request in the bytes, if there is one.
    ///
    /// # Errors
    /// The servers differ.
    pub(crate) fn send(
        &mut self,
        connection: char,
        bytes: &[u8],
        request: Option<&Json>,
    ) -> Result<(), Difference> {
        self.unanswered.extend(request.cloned());
        self.real.send(connection, bytes);
        self.sim.send(connection, bytes);
        self.sim.listen(connection);
        self.real.listen(connection);
        if self.sim.transactions.is_some() {
            self.real.listen_for(&self.sim.received_counts());
        }
        self.compare_received(connection)
    }

    /// Compares the messages on all connections, those of the acting one first.
    fn compare_received(&mut self, acting: char) -> Result<(), Difference> {
        let real = &self.real.take_received(acting, &self.unanswered);
        let sim = &self.sim.take_received(acting, &self.unanswered);
        if real == sim {
            let is_answered = |request: &Json| {
                let mut messages = real.log.iter();
                messages.any(|(_, message)| is_reply(message, request))
            };
            self.unanswered.retain(|request| !is_answered(request));
            return Ok(());
        }
        let shown = |received: &Received| {
            let line = |(connection, message): &(char, Json)| {
                format!("    {connection}: {}\n", message.to_text())
            };
            let log: String = received.log.iter().map(line).collect();
            format!("{log}    in {} bytes\n", received.len)
        };
        Err(Difference { real: shown(real), sim: shown(sim) })
    }

    /// Sends a part of a message, without reading.
    pub(crate) fn send_part(&mut self, connection: char, bytes: &[u8]) {
        for side in [&mut self.real, &mut self.sim] {
            side.send(connection, bytes);
        }
    }

    /// `true` if the real server does not answer any more, because it has crashed.
    pub(crate) fn real_is_gone(&self) -> bool {
        let mut client = Client::connect(&self.real.socket);
        client.barrier();
        client.read_to_barrier();
        !client.take_received().0.is_empty()
    }

    /// Closes a connection, and waits until both servers have noticed that. Compares the messages
    /// on all others.
    ///
    /// # Errors
    /// The servers differ.
    pub(crate) fn close_noticed(&mut self, connection: char) -> Result<(), Difference> {
        self.close(connection);
        // The real server reads from all connections before it answers a second time.
        let mut other = Client::connect(&self.real.socket);
        for _ in 0..3 {
            other.barrier();
            other.read_to_barrier();
        }
        let open = self.sim.clients.len() + usize::from(self.sim.transactions.is_some());
        let start = Instant::now();
        while self.running_sim.connections().len() > open && start.elapsed() < NOTICE_TIMEOUT {
            thread::sleep(Duration::from_millis(1));
        }
        for side in [&mut self.real, &mut self.sim] {
            side.listen_once();
            side.listen_once();
        }
        self.compare_received(connection)
    }

    /// Closes a connection.
    pub(crate) fn close(&mut self, connection: char) {
        for side in [&mut self.real, &mut self.sim] {
            side.clients.remove(&connection);
        }
    }
}

/// Messages on all connections.
#[derive(PartialEq)]
struct Received {
    log: Vec<(char, Json)>,
    /// Number of bytes. It shows the spelling of numbers and strings, because the order of members
    /// and the UUIDs do not change it.
    len: usize,
}

/// One of the servers: its connections and the names of its UUIDs.
struct Side {
    socket: PathBuf,
    clients: BTreeMap<char, Client>,
    names: Names,
    scope: Scope,
    /// `None`: standalone server.
    transactions: Option<Transactions>,
    /// Parameters of a transaction that a relay forwards. `None`: the server is no relay.
    forwarded: Option<String>,
}

impl Side {
    fn new(socket: &Path, scope: Scope, model: Model, forwarded: Option<String>) -> Self {
        Self {
            scope,
            transactions: (model == Model::Clustered).then(|| Transactions::new(socket)),
            socket: socket.to_owned(),
            clients: BTreeMap::new(),
            names: Names::default(),
            forwarded,
        }
    }

    fn send(&mut self, connection: char, bytes: &[u8]) {
        self.names.keep_those_in(bytes);
        let bytes = match &self.transactions {
            Some(transactions) => transactions.insert_ids(bytes),
            None => bytes.to_vec(),
        };
        let Self { socket, clients, .. } = self;
        clients.entry(connection).or_insert_with(|| Client::connect(socket)).send(&bytes);
    }

    /// Reads everything that the server sends at once.
    fn listen(&mut self, acting: char) {
        // A reply may lead to other forwarded transactions, which were waiting.
        for _ in 0..2 {
            let Some(params) = &self.forwarded else {
                break;
            };
            for client in self.clients.values_mut() {
                client.forwarded_barrier(params);
                client.read_to_barrier();
            }
        }
        if let Some(client) = self.clients.get_mut(&acting) {
            client.barrier();
            client.read_to_barrier();
        }
        // Twice, because a server may execute satisfied transactions after the first reply.
        for _ in 0..2 {
            self.listen_once();
        }
    }

    fn listen_once(&mut self) {
        self.clients.values_mut().for_each(Client::barrier);
        self.clients.values_mut().for_each(Client::read_to_barrier);
    }

    /// Reads until the expected numbers of messages are there, because a cluster commits while it
    /// answers other requests.
    fn listen_for(&mut self, expected: &BTreeMap<char, (usize, usize)>) {
        let start = Instant::now();
        let is_missing = |received: (usize, usize), expected: (usize, usize)| {
            received.0 < expected.0 || received.1 < expected.1
        };
        while start.elapsed() < COMMIT_TIMEOUT
            && expected
                .iter()
                .any(|(name, count)| is_missing(self.clients[name].received_count(), *count))
        {
            self.listen_once();
        }
    }

    /// The numbers of messages and of replies on each connection.
    fn received_counts(&self) -> BTreeMap<char, (usize, usize)> {
        let counts = self.clients.iter();
        counts.map(|(name, client)| (*name, client.received_count())).collect()
    }

    /// Takes the messages on all connections, the acting one first.
    fn take_received(&mut self, acting: char, unanswered: &[Json]) -> Received {
        if let Some(transactions) = &mut self.transactions {
            transactions.note_last();
        }
        let (mut log, mut len) = (Vec::new(), 0);
        for (connection, client) in &mut self.clients {
            let (messages, bytes) = client.take_received();
            log.extend(messages.into_iter().map(|message| (*connection, message)));
            len += bytes;
        }
        log.sort_by_key(|(connection, _)| *connection != acting);
        if self.scope == Scope::Random && self.transactions.is_some() {
            for (_, message) in &mut log {
                forget_versions(message);
            }
        }
        self.names.normalise(&mut log, unanswered, self.scope);
        let timed = |(_, message): &(char, Json)| message.to_text().contains("timed out after");
        if self.scope != Scope::Directed || log.iter().any(timed) {
            // Messages that may differ may differ in length.
            len = 0;
        }
        Received { log, len }
    }
}
