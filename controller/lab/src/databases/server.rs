//! The ovsdb-server of a release, with the files of a node.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use patchbay_engine::client::{Client, Config, ConnectError, Remotes};
use patchbay_reconcile::northbound::DATABASE;
use thiserror::Error;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::{DatabaseError, NodeDatabase, SOCKET, SOUTHBOUND, SWITCH};
use crate::patience::within;
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
    /// ovsdb-server runs, and does not serve the databases.
    #[error("ovsdb-server has not served the databases within {} s", .0.as_secs_f32())]
    Timeout(Duration),
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
    /// Time in which the program must serve the databases.
    limit: Duration,
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
            limit: PATIENCE,
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
    ///
    /// # Errors
    /// The program does not start, or ends, or the clients do not follow it in time.
    pub(super) async fn start_again(
        &mut self,
        databases: [&NodeDatabase; 3],
    ) -> Result<(), DatabaseError> {
        let command = self.command.clone();
        let started = Program::start(&self.spawner, SERVER, &self.node, &self.folder, command);
        self.program = Some(started.await?);
        let Some(program) = &mut self.program else {
            return Ok(());
        };
        let live = async {
            for database in databases {
                database.wait_until_live().await;
            }
        };
        tokio::select! {
            live = within(self.limit, live) => {
                live.ok_or_else(|| ServerError::Timeout(self.limit).into())
            }
            ended = program.ended() => Err(ended.into()),
        }
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
        let deadline = Instant::now() + PATIENCE;
        // A client would log each attempt.
        while !socket.exists() {
            if Instant::now() > deadline {
                return Err(ServerError::Timeout(PATIENCE));
            }
            sleep(RECONNECT_BACKOFF.0).await;
        }
        // The server listens before it has read all databases.
        loop {
            let mut config = Config::new(remotes.clone(), name);
            config.backoff = RECONNECT_BACKOFF;
            match Client::connect_within(config, PATIENCE).await {
                Ok(client) => return Ok(NodeDatabase { name, client }),
                Err(error) if Instant::now() > deadline => return Err(error.into()),
                Err(_) => sleep(RECONNECT_BACKOFF.0).await,
            }
        }
    };
    tokio::select! {
        connected = connected => Ok(connected?),
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

#[cfg(test)]
mod tests {
    use ovsdb_sim::Sim;

    use super::*;
    use crate::process::ProgramError;

    /// Starts a program instead of ovsdb-server, for clients whose server has gone.
    async fn start_again(command: &[&str], limit: Duration) -> DatabaseError {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join(SOCKET);
        let sim = Sim::builder().build().unwrap();
        let target = format!("punix:{}", socket.display());
        let _listener = sim.listen(&target).await.unwrap();
        let remotes: Remotes = format!("unix:{}", socket.display()).parse().unwrap();
        let client = Client::connect_within(Config::new(remotes, DATABASE), PATIENCE).await;
        let database = NodeDatabase { name: DATABASE, client: client.unwrap() };
        sim.go_down().await;
        while database.client.is_live() {
            sleep(RECONNECT_BACKOFF.0).await;
        }
        let mut server = RealServer {
            program: None,
            command: command.iter().map(OsString::from).collect(),
            spawner: Spawner::start().unwrap(),
            node: "n1".to_owned(),
            folder: folder.path().to_owned(),
            limit,
        };
        server.start_again([&database; 3]).await.unwrap_err()
    }

    #[tokio::test]
    async fn a_server_that_does_not_come_back_is_an_error() {
        let limit = Duration::from_millis(100);
        let error = start_again(&["sleep", "600"], limit).await;
        assert_eq!(error.to_string(), "ovsdb-server has not served the databases within 0.1 s");
        let error = start_again(&["false"], PATIENCE).await;
        assert!(matches!(error, DatabaseError::Program(ProgramError::Ended { .. })), "{error}");
    }
}
