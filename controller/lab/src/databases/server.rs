//! The ovsdb-server of a release, with the files of a node.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use patchbay_app::northbound::DATABASE;
use patchbay_engine::client::{Client, Config, ConnectError, Remotes};
use thiserror::Error;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::{DatabaseError, NodeDatabase, SOCKET, SOUTHBOUND, SWITCH};
use crate::process::{Program, Spawner};
use crate::release::Release;

/// Name of the real server.
const SERVER: &str = "ovsdb-server";
/// Maximum time until a server answers, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Delay between attempts to reach a server that starts.
const RECONNECT_BACKOFF: (Duration, Duration) =
    (Duration::from_millis(5), Duration::from_millis(500));

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

/// An ovsdb-server with the files of a node.
#[derive(Debug)]
pub(super) struct RealServer {
    /// `None`: it was stopped.
    program: Option<Program>,
    command: Vec<OsString>,
    spawner: Spawner,
    node: String,
    folder: PathBuf,
}

impl RealServer {
    /// Creates empty databases in the folder of the node, and serves them on a socket there.
    pub(super) async fn create(
        release: &Release,
        spawner: &Spawner,
        node: &str,
        folder: &Path,
    ) -> Result<(Self, [NodeDatabase; 3]), DatabaseError> {
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
        let databases = [
            connect(&mut program, &socket, DATABASE).await?,
            connect(&mut program, &socket, SOUTHBOUND).await?,
            connect(&mut program, &socket, SWITCH).await?,
        ];
        let server = Self {
            program: Some(program),
            command,
            spawner: spawner.clone(),
            node: node.to_owned(),
            folder: folder.to_owned(),
        };
        Ok((server, databases))
    }

    /// Kills the program.
    pub(super) async fn kill(&mut self) {
        if let Some(mut program) = self.program.take() {
            program.kill().await;
        }
    }

    /// Starts the program again. Returns when the clients of the databases follow it.
    pub(super) async fn start_again(
        &mut self,
        databases: [&NodeDatabase; 3],
    ) -> Result<(), DatabaseError> {
        let command = self.command.clone();
        let started = Program::start(&self.spawner, SERVER, &self.node, &self.folder, command);
        self.program = Some(started.await?);
        for database in databases {
            database.wait_until_live().await;
        }
        Ok(())
    }

    /// The program. `None`: it was stopped.
    pub(super) fn program(&mut self) -> Option<&mut Program> {
        self.program.as_mut()
    }

    /// Name and process id of the program. `None`: it does not run.
    pub(super) fn process(&self) -> Option<(&'static str, u32)> {
        Some((SERVER, self.program.as_ref()?.id()?))
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
