//! Connections within the process, without a socket.

use std::future::ready;
use std::io;
use std::sync::Arc;

use tokio::io::DuplexStream;
use tokio::sync::watch;

use crate::connection;
use crate::peers::Peer;
use crate::remotes::options::RemoteOptions;
use crate::server::Server;

/// Buffer of each direction of an in-process stream, in bytes: that of a unix socket.
const STREAM_BUFFER_BYTES: usize = 208 << 10;

/// Opens a connection and returns the client's end.
pub(crate) fn connect(server: &Arc<Server>) -> io::Result<DuplexStream> {
    let (server_end, client_end) = tokio::io::duplex(STREAM_BUFFER_BYTES);
    let options = watch::Sender::new(RemoteOptions::default()).subscribe();
    if connection::spawn(server, Peer::Owner, ready(Some(server_end)), options, |_| Some(())) {
        Ok(client_end)
    } else {
        Err(io::ErrorKind::ConnectionRefused.into())
    }
}
