//! Clients that the server connects to, instead of being connected to: the active remotes of ovsdb-server.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::listen::{self, ListenError};
use crate::server::Server;
use crate::session::{self, Probe};

/// What OVSDB has registered with IANA.
const DEFAULT_PORT: u16 = 6640;
/// Pauses between attempts, the shortest and the longest, as ovsdb-server's.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(8);

/// A client that the server connects to, again and again. Dropping it ends the connection.
#[derive(Debug)]
pub struct Dialer {
    target: String,
    progress: watch::Receiver<Progress>,
    /// The time of silence after which the client must prove to be there.
    probe: watch::Sender<Option<Duration>>,
    task: JoinHandle<()>,
}

/// How far the server has come with a client.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) phase: Phase,
    /// When the last connection was made.
    pub(crate) connected: Option<Instant>,
    /// When the last one ended that was made.
    pub(crate) disconnected: Option<Instant>,
}

/// What the server does about a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Waits before the next attempt.
    #[default]
    Backoff,
    Connecting,
    Active,
}

impl Dialer {
    /// Whom it connects to: `unix:PATH` or `tcp:HOST[:PORT]`, as it was given.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Changes the time of silence after which the client must prove to be there.
    pub(crate) fn set_probe(&self, probe: Option<Duration>) {
        self.probe.send_replace(probe);
    }

    pub(crate) fn progress(&self) -> Progress {
        *self.progress.borrow()
    }
}

impl Drop for Dialer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Where a client waits.
#[derive(Debug, PartialEq, Eq)]
enum Peer {
    Unix(PathBuf),
    Tcp { host: String, port: u16 },
}

impl Peer {
    fn parse(target: &str) -> Option<Self> {
        if let Some(path) = target.strip_prefix("unix:") {
            return (!path.is_empty()).then(|| Self::Unix(path.into()));
        }
        let rest = target.strip_prefix("tcp:")?;
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                (
                    host,
                    port.strip_prefix(':')
                        .or(Some(port).filter(|port| port.is_empty()))?,
                )
            }
            None => rest.split_once(':').unwrap_or((rest, "")),
        };
        let port = if port.is_empty() {
            DEFAULT_PORT
        } else {
            port.parse().ok().filter(|port| *port != 0)?
        };
        let host = host.to_owned();
        (!host.is_empty()).then_some(Self::Tcp { host, port })
    }

    /// Connects once, and serves the client until the connection ends.
    async fn serve(
        &self,
        server: &Arc<Server>,
        probe: Probe,
        progress: &watch::Sender<Progress>,
    ) -> io::Result<()> {
        let join = |_| Some(Connection::new(progress));
        progress.send_modify(|progress| progress.phase = Phase::Connecting);
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        match self {
            Self::Unix(path) => {
                let stream = UnixStream::connect(path).await?;
                let _place = listen::admit(server).ok_or_else(refused)?;
                session::serve(server.clone(), stream, probe, join).await;
            }
            Self::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                let _place = listen::admit(server).ok_or_else(refused)?;
                session::serve(server.clone(), stream, probe, join).await;
            }
        }
        Ok(())
    }
}

/// Begins to connect to a client.
pub(crate) fn dial(
    server: Arc<Server>,
    target: &str,
    probe: Option<Duration>,
) -> Result<Dialer, ListenError> {
    let peer = Peer::parse(target).ok_or_else(|| ListenError::Peer(target.to_owned()))?;
    let (sender, progress) = watch::channel(Progress::default());
    let probe = watch::Sender::new(probe);
    let call = call(server, peer, target.to_owned(), probe.subscribe(), sender);
    let task = tokio::spawn(call);
    Ok(Dialer {
        target: target.to_owned(),
        progress,
        probe,
        task,
    })
}

/// A connection that is there.
struct Connection<'a>(&'a watch::Sender<Progress>);

impl<'a> Connection<'a> {
    fn new(progress: &'a watch::Sender<Progress>) -> Self {
        progress.send_modify(|progress| {
            progress.phase = Phase::Active;
            progress.connected = Some(Instant::now());
        });
        Self(progress)
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|progress| {
            progress.phase = Phase::Backoff;
            progress.disconnected = Some(Instant::now());
        });
    }
}

async fn call(
    server: Arc<Server>,
    peer: Peer,
    target: String,
    probe: Probe,
    progress: watch::Sender<Progress>,
) {
    let mut backoff = Duration::ZERO;
    loop {
        let start = Instant::now();
        // A server that is down does not call, either.
        if server.is_up() {
            match peer.serve(&server, probe.clone(), &progress).await {
                Ok(()) => tracing::info!(target, "a connection has ended"),
                Err(error) => tracing::info!(target, %error, "cannot connect"),
            }
            progress.send_modify(|progress| progress.phase = Phase::Backoff);
        }
        backoff = if start.elapsed() >= backoff {
            MIN_BACKOFF
        } else {
            (backoff * 2).clamp(MIN_BACKOFF, MAX_BACKOFF)
        };
        sleep(backoff).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use crate::Sim;

    use super::*;

    const ANSWER: &str = r#"{"id":1,"result":[],"error":null}"#;

    /// The answer to an `echo`.
    async fn echo(stream: &mut TcpStream) -> String {
        let request = br#"{"id":1,"method":"echo","params":[]}"#;
        stream.write_all(request).await.unwrap();
        let mut answer = [0; ANSWER.len()];
        stream.read_exact(&mut answer).await.unwrap();
        String::from_utf8(answer.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_client_that_hangs_up_is_called_again_until_the_dialer_is_dropped() {
        let client = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sim = Sim::builder().build().unwrap();
        let target = format!("tcp:{}", client.local_addr().unwrap());
        let dialer = sim.dial(&target).unwrap();
        assert_eq!(dialer.target(), target);
        for _ in 0..2 {
            let (mut stream, _) = client.accept().await.unwrap();
            assert_eq!(echo(&mut stream).await, ANSWER);
        }
        let (mut stream, _) = client.accept().await.unwrap();
        echo(&mut stream).await;
        drop(dialer);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"");
        while !sim.connections().is_empty() {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn targets_name_a_path_or_a_host_and_perhaps_a_port() {
        let tcp = |host: &str, port| {
            let host = host.to_owned();
            Some(Peer::Tcp { host, port })
        };
        assert_eq!(
            Peer::parse("unix:/run/x"),
            Some(Peer::Unix("/run/x".into()))
        );
        assert_eq!(Peer::parse("tcp:127.0.0.1:6641"), tcp("127.0.0.1", 6641));
        assert_eq!(Peer::parse("tcp:somewhere"), tcp("somewhere", 6640));
        assert_eq!(Peer::parse("tcp:[::1]:1"), tcp("::1", 1));
        assert_eq!(Peer::parse("tcp:[::1]"), tcp("::1", 6640));
        for wrong in [
            "unix:",
            "tcp:",
            "tcp:x:y",
            "tcp:x:0",
            "tcp:[::1",
            "tcp:[::1]1",
            "ptcp:1",
        ] {
            assert_eq!(Peer::parse(wrong), None, "{wrong}");
        }
    }
}
