//! Listening sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::Weak;
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use nix::sys::stat::{Mode, fchmod};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

use crate::server::Server;
use crate::target::PassiveTarget;
use crate::unix_path::SocketPath;

/// Pause after a failed `accept`, whose usual reason is a lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Connection that another server has made.
pub(crate) trait PeerStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> PeerStream for S {}

/// Socket that listens at a [`PassiveTarget`].
#[derive(Debug)]
pub(crate) enum ListeningSocket {
    Unix(UnixListener),
    Tcp(TcpListener),
    #[cfg(feature = "tls")]
    Tls(TcpListener),
}

impl ListeningSocket {
    pub(crate) async fn bind(target: &PassiveTarget) -> io::Result<Self> {
        let socket = match target {
            PassiveTarget::Unix(path) => {
                remove_stale_socket(path)?;
                Self::Unix(bind_unix(path)?)
            }
            PassiveTarget::Tcp(address) => {
                Self::Tcp(TcpListener::bind(address.as_host_and_port()).await?)
            }
            #[cfg(feature = "tls")]
            PassiveTarget::Tls(address) => {
                Self::Tls(TcpListener::bind(address.as_host_and_port()).await?)
            }
            #[cfg(not(feature = "tls"))]
            PassiveTarget::Tls(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        if target.port() == Some(0)
            && let Some(address) = socket.address()?
        {
            // ovsdb-server's message, from which test suites learn the port.
            tracing::info!(
                target: "socket_util",
                "0:{}: listening on port {}", address.ip(), address.port()
            );
        }
        Ok(socket)
    }

    /// Accepts the connection of a server, and does the handshake.
    #[cfg_attr(
        not(feature = "tls"),
        expect(unused_variables, reason = "only TLS needs the server")
    )]
    pub(crate) async fn accept_peer(
        &self,
        server: &Weak<Server>,
    ) -> io::Result<Box<dyn PeerStream>> {
        match self {
            Self::Unix(listener) => Ok(Box::new(listener.accept().await?.0)),
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
            #[cfg(feature = "tls")]
            Self::Tls(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let server = server.upgrade().ok_or(io::ErrorKind::ConnectionAborted)?;
                let accepted = server.tls().accept(server.databases(), stream).await;
                Ok(Box::new(accepted.map_err(io::Error::other)?))
            }
        }
    }

    /// The address of a port, which the system has chosen if port 0 was given. `None`: unix socket.
    pub(super) fn address(&self) -> io::Result<Option<SocketAddr>> {
        match self {
            Self::Unix(_) => Ok(None),
            Self::Tcp(listener) => listener.local_addr().map(Some),
            #[cfg(feature = "tls")]
            Self::Tls(listener) => listener.local_addr().map(Some),
        }
    }
}

/// Binds a unix socket whose file has the mode of ovsdb-server's sockets: 0770 less the umask.
pub(crate) fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let socket = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        None,
    )?;
    // Before the file exists, so that it has no other mode at any time: on Linux, the file gets the
    // mode of the socket.
    fchmod(&socket, Mode::S_IRWXU | Mode::S_IRWXG)?;
    let path = SocketPath::new(path)?;
    bind(socket.as_raw_fd(), &UnixAddr::new(path.as_path())?)?;
    listen(&socket, Backlog::MAXCONN)?;
    UnixListener::from_std(socket.into())
}

/// Logs the error of an `accept` and pauses.
pub(crate) async fn pause_after_accept_error(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a connection");
    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
}

/// Removes the socket that a former process left at a path.
///
/// # Errors
/// There is a file of another kind, which stays.
pub(crate) fn remove_stale_socket(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => std::fs::remove_file(path),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "exists and is not a socket")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
