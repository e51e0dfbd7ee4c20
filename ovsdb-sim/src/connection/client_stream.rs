//! Streams to clients.

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpStream, UnixStream};

/// Established connection to a client.
pub(crate) trait ClientStream: AsyncRead + AsyncWrite + Send + 'static {
    /// The common name in the client's certificate. `None`: the client has none.
    fn peer_name(&self) -> Option<String> {
        None
    }
}

impl ClientStream for DuplexStream {}

impl ClientStream for TcpStream {}

impl ClientStream for UnixStream {}
