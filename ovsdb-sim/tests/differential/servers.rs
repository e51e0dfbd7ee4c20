//! The two servers of a comparison, on the same schemas.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ovsdb_sim::testing::{RealServer, Release, ScratchDir};
use ovsdb_sim::{Listener, Sim};
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::DatabaseSchema;
use tokio::runtime::Runtime;

use crate::client::Client;
use crate::normal::{Names, Scope, is_reply};

/// The simulator, running in this process.
pub(crate) struct RunningSim {
    socket: PathBuf,
    _listener: Listener,
    _runtime: Runtime,
    _dir: ScratchDir,
}

impl RunningSim {
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }
}

/// Starts the simulator with a database of this schema.
pub(crate) fn start_sim(schema: &str) -> RunningSim {
    let dir = ScratchDir::new();
    let socket = dir.path().join("sim.sock");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let parsed = DatabaseSchema::parse(schema.as_bytes());
    let parsed = parsed.unwrap_or_else(|error| panic!("{error}: {schema}"));
    let sim = Sim::builder().schema(Arc::new(parsed)).build();
    let sim = sim.expect("a database");
    let target = format!("punix:{}", socket.display());
    let listener = runtime.block_on(sim.listen(&target)).expect("a socket");
    RunningSim {
        socket,
        _listener: listener,
        _runtime: runtime,
        _dir: dir,
    }
}

/// The real ovsdb-server and the simulator.
pub(crate) struct Servers {
    real: RealServer,
    sim: RunningSim,
}

impl Servers {
    /// Starts both with a database of this schema, the real one of a release.
    pub(crate) fn start(release: &Release, schema: &str) -> Self {
        let dir = ScratchDir::new();
        let file = dir.path().join("ovsschema");
        fs::write(&file, schema).expect("a fresh folder");
        Self {
            real: RealServer::start_of(release, [file]),
            sim: start_sim(schema),
        }
    }

    /// Begins a comparison: connections of its own.
    pub(crate) fn compare(&self, scope: Scope) -> Comparison {
        Comparison {
            real: Side::new(self.real.socket(), scope),
            sim: Side::new(self.sim.socket(), scope),
            unanswered: Vec::new(),
        }
    }
}

/// Sends the same to both servers and compares what comes back.
pub(crate) struct Comparison {
    real: Side,
    sim: Side,
    /// Requests that may still be answered: transactions that wait.
    unanswered: Vec<Json>,
}

/// What both servers said, in the same names, when they did not say the same.
pub(crate) struct Difference {
    real: String,
    sim: String,
}

impl Difference {
    /// For people, with what led to it.
    pub(crate) fn of(&self, case: &str, request: &str) -> String {
        let Self { real, sim } = self;
        format!("{case}: {request}\n  real\n{real}  sim\n{sim}\n")
    }
}

impl Comparison {
    /// Sends bytes on a connection, which is made if it is new, and compares all that any connection hears.
    /// `request` is what the bytes mean, if they are a request.
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
        let outcome = [&mut self.real, &mut self.sim].map(|side| {
            side.send(connection, bytes);
            side.settle(connection, &self.unanswered)
        });
        let [real, sim] = &outcome;
        if real == sim {
            let is_answered = |request: &Json| {
                let mut messages = real.log.iter();
                messages.any(|(_, message)| is_reply(message, request))
            };
            self.unanswered.retain(|request| !is_answered(request));
            return Ok(());
        }
        let shown = |heard: &Heard| {
            let line = |(connection, message): &(char, Json)| {
                format!("    {connection}: {}\n", message.to_text())
            };
            let log: String = heard.log.iter().map(line).collect();
            format!("{log}    in {} bytes\n", heard.len)
        };
        Err(Difference {
            real: shown(real),
            sim: shown(sim),
        })
    }

    /// Sends bytes without listening: a part of a message.
    pub(crate) fn send_part(&mut self, connection: char, bytes: &[u8]) {
        for side in [&mut self.real, &mut self.sim] {
            side.send(connection, bytes);
        }
    }

    /// Hangs up.
    pub(crate) fn close(&mut self, connection: char) {
        for side in [&mut self.real, &mut self.sim] {
            side.clients.remove(&connection);
        }
    }
}

/// What all connections heard.
#[derive(PartialEq)]
struct Heard {
    log: Vec<(char, Json)>,
    /// How many bytes it took: the only trace of how numbers and strings were spelled, as order of members and
    /// names of rows change no length.
    len: usize,
}

/// One of the servers: its connections and what its UUIDs are called.
struct Side {
    socket: PathBuf,
    clients: BTreeMap<char, Client>,
    names: Names,
    scope: Scope,
}

impl Side {
    fn new(socket: &Path, scope: Scope) -> Self {
        Self {
            scope,
            socket: socket.to_owned(),
            clients: BTreeMap::new(),
            names: Names::default(),
        }
    }

    fn send(&mut self, connection: char, bytes: &[u8]) {
        self.names.keep_those_in(bytes);
        let Self {
            socket, clients, ..
        } = self;
        clients
            .entry(connection)
            .or_insert_with(|| Client::connect(socket))
            .send(bytes);
    }

    /// Everything that all connections have heard, the acting one first.
    fn settle(&mut self, acting: char, unanswered: &[Json]) -> Heard {
        if let Some(client) = self.clients.get_mut(&acting) {
            client.barrier();
            client.read_to_barrier();
        }
        // Twice, because a server may finish what the request released after it has answered the first.
        for _ in 0..2 {
            self.clients.values_mut().for_each(Client::barrier);
            self.clients.values_mut().for_each(Client::read_to_barrier);
        }
        let (mut log, mut len) = (Vec::new(), 0);
        for (connection, client) in &mut self.clients {
            let (messages, bytes) = client.take_heard();
            log.extend(messages.into_iter().map(|message| (*connection, message)));
            len += bytes;
        }
        log.sort_by_key(|(connection, _)| *connection != acting);
        self.names.normalise(&mut log, unanswered, self.scope);
        if self.scope == Scope::Random {
            // What may differ may differ in length.
            len = 0;
        }
        Heard { log, len }
    }
}
