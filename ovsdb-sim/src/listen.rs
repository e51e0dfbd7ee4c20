//! Where clients connect: unix sockets, TCP, and pipes within the process.

mod clients;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::JoinHandle;

use crate::server::Server;
use crate::session::{self, Probe, SessionId};

use clients::Clients;

/// A TCP client that is silent for so long must answer a probe, as with ovsdb-server.
const TCP_PROBE: Duration = Duration::from_secs(5);
/// Pause after a failed `accept` (out of file descriptors, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// So many bytes fit into a pipe within the process, each way, as into a unix socket.
const PIPE: usize = 208 << 10;

/// Why a listener could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// None of the kinds of targets that a server takes.
    #[error(
        "{0}: expected punix:PATH, ptcp:PORT[:HOST], unix:PATH, tcp:HOST[:PORT] or db:DATABASE,TABLE,COLUMN"
    )]
    Remote(String),
    /// Not `punix:PATH` or `ptcp:PORT[:HOST]`.
    #[error("{0}: expected punix:PATH or ptcp:PORT[:HOST], HOST being an IP address")]
    Target(String),
    /// Not `unix:PATH` or `tcp:HOST[:PORT]`.
    #[error("{0}: expected unix:PATH or tcp:HOST[:PORT]")]
    Peer(String),
    /// `db:DATABASE,TABLE,COLUMN` that names no column.
    #[error("\"{target}\": {problem}")]
    Column {
        /// The target.
        target: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The system refused.
    #[error("{target}: {source}")]
    Io {
        /// The target.
        target: String,
        /// The system's answer.
        source: io::Error,
    },
}

/// A place at which clients are served. Dropping it stops accepting and removes a unix socket's file;
/// connections that are there go on.
#[derive(Debug)]
pub struct Listener {
    endpoint: Arc<Endpoint>,
}

impl Listener {
    /// As clients name it: `unix:PATH` or `tcp:HOST:PORT`.
    pub fn remote(&self) -> String {
        match &self.endpoint.place {
            Place::Tcp(address) => format!("tcp:{}:{}", host_text(address.ip()), address.port()),
            Place::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// Where it listens, of TCP; tells the port that port 0 became.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.endpoint.place {
            Place::Tcp(address) => Some(*address),
            Place::Unix(_) => None,
        }
    }

    /// How many clients are connected to it.
    pub(crate) fn clients(&self) -> usize {
        self.endpoint.clients.present().sessions.len()
    }

    /// Changes the time of silence after which clients must prove to be there.
    pub(crate) fn set_probe(&self, probe: Option<Duration>) {
        self.endpoint.clients.probe.send_replace(probe);
    }

    /// Hangs up on its clients, those included that are about to be served.
    pub(crate) fn hang_up(&self, server: &Server) {
        let clients = {
            let mut present = self.endpoint.clients.present();
            present.is_over = true;
            present.sessions.clone()
        };
        server.close(|session| clients.contains(&session.id()));
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(task) = self.endpoint.leave(Accepting::Ended) {
            task.abort();
        }
    }
}

/// A listener as the server knows it: it may be closed and opened again.
#[derive(Debug)]
pub(crate) struct Endpoint {
    place: Place,
    accepting: Mutex<Accepting>,
    /// Whose turn it is to open the place: binding a unix socket takes the file away from a socket that is there.
    opening: tokio::sync::Mutex<()>,
    clients: Arc<Clients>,
}

#[derive(Debug)]
enum Place {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

#[derive(Debug)]
enum Accepting {
    Open(JoinHandle<()>),
    Closed,
    /// For good.
    Ended,
}

/// A socket that was opened for a place.
enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Endpoint {
    /// Opens the place again after [`close`](Self::close). One that is open stays as it is.
    pub(crate) async fn open(&self, server: &Arc<Server>) -> Result<(), ListenError> {
        let _turn = self.opening.lock().await;
        if !matches!(*self.accepting(), Accepting::Closed) {
            return Ok(());
        }
        let socket = self.place.bind().await;
        let socket = socket.map_err(|source| ListenError::Io {
            target: self.place.target(),
            source,
        })?;
        let mut accepting = self.accepting();
        if matches!(*accepting, Accepting::Closed) {
            let clients = self.clients.clone();
            let task = tokio::spawn(accept(server.clone(), socket, clients));
            *accepting = Accepting::Open(task);
        }
        Ok(())
    }

    /// Returns when no more connections can be made.
    pub(crate) async fn close(&self) {
        if let Some(task) = self.leave(Accepting::Closed) {
            task.abort();
            // It ends by being aborted, and cannot panic.
            let _ = task.await;
        }
    }

    /// Stops being open; what is left to end.
    fn leave(&self, to: Accepting) -> Option<JoinHandle<()>> {
        let mut accepting = self.accepting();
        if matches!(*accepting, Accepting::Ended) {
            return None;
        }
        let Accepting::Open(task) = std::mem::replace(&mut *accepting, to) else {
            return None;
        };
        if let Place::Unix(path) = &self.place {
            // Somebody may have removed it already.
            std::fs::remove_file(path).unwrap_or_default();
        }
        Some(task)
    }

    fn accepting(&self) -> MutexGuard<'_, Accepting> {
        // Each change is one assignment.
        self.accepting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    fn parse(target: &str) -> Option<Self> {
        match target.strip_prefix("punix:") {
            Some("") => None,
            Some(path) => Some(Self::Unix(path.into())),
            None => target
                .strip_prefix("ptcp:")
                .and_then(parse_address)
                .map(Self::Tcp),
        }
    }

    fn target(&self) -> String {
        match self {
            Self::Unix(path) => format!("punix:{}", path.display()),
            Self::Tcp(address) => format!("ptcp:{}:{}", address.port(), host_text(address.ip())),
        }
    }

    async fn bind(&self) -> io::Result<Socket> {
        Ok(match self {
            Self::Unix(path) => {
                remove_stale(path)?;
                Socket::Unix(UnixListener::bind(path)?)
            }
            Self::Tcp(address) => Socket::Tcp(TcpListener::bind(address).await?),
        })
    }
}

/// Whether something could be listening there.
pub(crate) fn is_place(target: &str) -> bool {
    Place::parse(target).is_some()
}

/// The time of silence after which clients must prove to be there, if nothing else is said.
pub(crate) fn default_probe(target: &str) -> Option<Duration> {
    (target.starts_with("ptcp:") || target.starts_with("tcp:")).then_some(TCP_PROBE)
}

pub(crate) async fn listen(
    server: Arc<Server>,
    target: &str,
    probe: Option<Duration>,
) -> Result<Listener, ListenError> {
    let mut place = Place::parse(target).ok_or_else(|| ListenError::Target(target.to_owned()))?;
    let io_error = |source| ListenError::Io {
        target: target.to_owned(),
        source,
    };
    let socket = place.bind().await.map_err(io_error)?;
    if let Socket::Tcp(listener) = &socket {
        place = Place::Tcp(listener.local_addr().map_err(io_error)?);
    }
    let clients = Arc::new(Clients::new(probe));
    let accept = accept(server.clone(), socket, clients.clone());
    let task = tokio::spawn(accept);
    let endpoint = Arc::new(Endpoint {
        place,
        accepting: Mutex::new(Accepting::Open(task)),
        opening: tokio::sync::Mutex::default(),
        clients,
    });
    server.add_endpoint(&endpoint);
    Ok(Listener { endpoint })
}

/// Connects without a socket.
pub(crate) fn connect(server: &Arc<Server>) -> io::Result<DuplexStream> {
    let (ours, theirs) = tokio::io::duplex(PIPE);
    let probe = watch::Sender::new(None).subscribe();
    if spawn(server, ours, probe, |_| Some(())) {
        Ok(theirs)
    } else {
        Err(io::ErrorKind::ConnectionRefused.into())
    }
}

async fn accept(server: Arc<Server>, socket: Socket, clients: Arc<Clients>) {
    loop {
        let joined = clients.clone();
        let join = move |session| joined.join(session);
        let accepted = match &socket {
            Socket::Unix(listener) => listener.accept().await.map(|(stream, _)| {
                spawn(&server, stream, clients.probe.subscribe(), join);
            }),
            Socket::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                stream.set_nodelay(true).unwrap_or_default();
                spawn(&server, stream, clients.probe.subscribe(), join);
            }),
        };
        if let Err(error) = accepted {
            pause(&error).await;
        }
    }
}

/// Serves a connection; false when it is refused.
fn spawn<S, K>(
    server: &Arc<Server>,
    stream: S,
    probe: Probe,
    join: impl FnOnce(SessionId) -> Option<K> + Send + 'static,
) -> bool
where
    S: AsyncRead + AsyncWrite + Send + 'static,
    K: Send + 'static,
{
    let Some(place) = admit(server) else {
        return false;
    };
    let server = server.clone();
    tokio::spawn(async move {
        session::serve(server, stream, probe, join).await;
        drop(place);
    });
    true
}

/// A place for a connection, if the server takes one more.
pub(crate) fn admit(server: &Server) -> Option<OwnedSemaphorePermit> {
    if !server.is_up() {
        return None;
    }
    let place = server.places().clone().try_acquire_owned().ok();
    if place.is_none() {
        let limit = server.limits().connections;
        tracing::warn!(limit, "too many connections: refusing one");
    }
    place
}

pub(crate) async fn pause(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a connection");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// A socket that a former process left behind is in the way; anything else is not ours to remove.
pub(crate) fn remove_stale(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => std::fs::remove_file(path),
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "exists and is not a socket",
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// `PORT[:HOST]`, all IPv4 addresses without a host.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (port, host) = match text.split_once(':') {
        Some((port, host)) => {
            let bare = host
                .strip_prefix('[')
                .and_then(|host| host.strip_suffix(']'))
                .unwrap_or(host);
            (port, bare.parse().ok()?)
        }
        None => (text, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
    };
    Some(SocketAddr::new(host, port.parse().ok()?))
}

fn host_text(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_name_a_port_and_perhaps_a_host() {
        assert_eq!(parse_address("6641"), Some(([0, 0, 0, 0], 6641).into()));
        assert_eq!(
            parse_address("0:127.0.0.1"),
            Some(([127, 0, 0, 1], 0).into())
        );
        assert_eq!(
            parse_address("1:[::1]").map(|a| a.to_string()),
            Some("[::1]:1".to_owned())
        );
        assert_eq!(parse_address("x"), None);
        assert_eq!(parse_address("1:localhost"), None);
    }
}
