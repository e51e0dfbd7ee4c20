//! Dialers: connections that the server makes to waiting clients, the active remotes of
//! ovsdb-server.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use patchbay_engine::backoff::Backoff;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::connection;
use crate::peers::Peer;
use crate::remotes::options::RemoteOptions;
use crate::server::Server;
use crate::target::{ActiveTarget, RemoteError, check_tls_support};
use crate::unix_path::SocketPath;

/// Shortest pause between two attempts to connect, as in ovsdb-server.
pub(crate) const MIN_BACKOFF: Duration = Duration::from_secs(1);
/// Longest pause between two attempts to connect, as in ovsdb-server.
pub(crate) const MAX_BACKOFF: Duration = Duration::from_secs(8);

/// Client that the server connects to, again whenever the connection ends. Dropping it closes the
/// connection.
#[derive(Debug)]
pub struct Dialer {
    target: String,
    status: watch::Receiver<DialerStatus>,
    options: watch::Sender<RemoteOptions>,
    task: JoinHandle<()>,
}

/// State of the connection to a client.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DialerStatus {
    pub(crate) phase: DialerPhase,
    /// Time at which the last connection was made.
    pub(crate) connected: Option<Instant>,
    /// Time at which the last connection ended.
    pub(crate) disconnected: Option<Instant>,
}

/// Phase of a connection, as in the column `status` of `Connection` tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DialerPhase {
    /// The server waits before the next attempt.
    #[default]
    Backoff,
    Connecting,
    Active,
}

impl Dialer {
    /// The target as it was given: `unix:PATH`, `tcp:HOST[:PORT]` or `ssl:HOST[:PORT]`.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Changes the options of the remote.
    pub(crate) fn set_options(&self, options: RemoteOptions) {
        self.options.send_replace(options);
    }

    pub(crate) fn status(&self) -> DialerStatus {
        *self.status.borrow()
    }
}

impl Drop for Dialer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ActiveTarget {
    /// Connects once, and serves the client until the connection ends.
    async fn serve(
        &self,
        server: &Arc<Server>,
        options: watch::Receiver<RemoteOptions>,
        status: &watch::Sender<DialerStatus>,
    ) -> io::Result<()> {
        let register = |_| Some(ActiveConnection::new(status));
        status.send_modify(|status| status.phase = DialerPhase::Connecting);
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        match self {
            Self::Unix(path) => {
                let path = SocketPath::new(path)?;
                let stream = UnixStream::connect(path.as_path()).await?;
                drop(path);
                let _place = server.admit(Peer::Owner).ok_or_else(refused)?;
                connection::serve(server.clone(), stream, options, register).await;
            }
            Self::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                let _place = server.admit(Peer::Owner).ok_or_else(refused)?;
                connection::serve(server.clone(), stream, options, register).await;
            }
            #[cfg(feature = "tls")]
            Self::Tls { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                let _place = server.admit(Peer::Owner).ok_or_else(refused)?;
                let tls = server.tls();
                let stream = tls
                    .connect(server.databases(), host, stream)
                    .await
                    .map_err(io::Error::other)?;
                connection::serve(server.clone(), stream, options, register).await;
            }
            #[cfg(not(feature = "tls"))]
            Self::Tls { .. } => return Err(io::ErrorKind::Unsupported.into()),
        }
        Ok(())
    }
}

/// Starts a dialer.
pub(crate) fn dial(
    server: Arc<Server>,
    target: &str,
    options: RemoteOptions,
) -> Result<Dialer, RemoteError> {
    check_tls_support(target)?;
    #[cfg(feature = "tls")]
    server.check_keys(target);
    let client =
        ActiveTarget::parse(target).ok_or_else(|| RemoteError::Active(target.to_owned()))?;
    let client = match client {
        ActiveTarget::Unix(path) => ActiveTarget::Unix(server.settings().socket_path(path)),
        client => client,
    };
    let (sender, status) = watch::channel(DialerStatus::default());
    let options = watch::Sender::new(options);
    let task = tokio::spawn(connect_repeatedly(
        server,
        client,
        target.to_owned(),
        options.subscribe(),
        sender,
    ));
    Ok(Dialer { target: target.to_owned(), status, options, task })
}

/// Guard of an open connection, which keeps the status up to date.
struct ActiveConnection<'a>(&'a watch::Sender<DialerStatus>);

impl<'a> ActiveConnection<'a> {
    fn new(status: &'a watch::Sender<DialerStatus>) -> Self {
        status.send_modify(|status| {
            status.phase = DialerPhase::Active;
            status.connected = Some(Instant::now());
        });
        Self(status)
    }
}

impl Drop for ActiveConnection<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|status| {
            status.phase = DialerPhase::Backoff;
            status.disconnected = Some(Instant::now());
        });
    }
}

/// Connects to a client again and again, and serves it.
async fn connect_repeatedly(
    server: Arc<Server>,
    client: ActiveTarget,
    target: String,
    options: watch::Receiver<RemoteOptions>,
    status: watch::Sender<DialerStatus>,
) {
    let mut backoff = Backoff::new(MIN_BACKOFF, MAX_BACKOFF);
    loop {
        let start = Instant::now();
        // During an outage the server does not connect.
        if server.is_up() {
            match client.serve(&server, options.clone(), &status).await {
                Ok(()) => tracing::info!(target, "a connection has ended"),
                Err(error) => tracing::info!(target, %error, "cannot connect"),
            }
            status.send_modify(|status| status.phase = DialerPhase::Backoff);
        }
        // A connection that outlasts the next pause counts as a success.
        if start.elapsed() >= backoff.peek() {
            backoff.reset();
        }
        sleep(backoff.next_delay()).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use crate::Sim;

    const ANSWER: &str = r#"{"id":1,"result":[],"error":null}"#;

    /// Sends an `echo` and returns the reply.
    async fn echo(stream: &mut TcpStream) -> String {
        let request = br#"{"id":1,"method":"echo","params":[]}"#;
        stream.write_all(request).await.unwrap();
        let mut answer = [0; ANSWER.len()];
        stream.read_exact(&mut answer).await.unwrap();
        String::from_utf8(answer.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn the_server_connects_again_until_the_dialer_is_dropped() {
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
}
