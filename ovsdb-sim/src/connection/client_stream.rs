//! Streams to clients.

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpStream, UnixStream};

/// Established connection to a client.
pub(crate) trait ClientStream: AsyncRead + AsyncWrite + Send + 'static {
    /// The common name in the client's certificate. `None`: the client has none.
    fn peer_name(&self) -> Option<String> {
        None
    }

    /// The remote of the client, as the log names it. `None`: it has no address.
    fn remote(&self) -> Option<String> {
        None
    }
}

/// The remote of the client at the other end of a TCP connection.
pub(crate) fn tcp_remote(kind: &str, stream: &TcpStream) -> Option<String> {
    let address = stream.peer_addr().ok()?;
    Some(format!("{kind}:{address}"))
}

impl ClientStream for DuplexStream {}

impl ClientStream for TcpStream {
    fn remote(&self) -> Option<String> {
        tcp_remote("tcp", self)
    }
}

impl ClientStream for UnixStream {}
