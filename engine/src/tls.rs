//! TLS as programs of OVSDB use it: keys in PEM files, and trust in authorities without names.
//!
//! The client and servers of OVSDB have these parts in common.

mod keys;
mod trust;

use std::io;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;

pub use keys::{KeyFileError, read_certificates, read_private_key};
pub use trust::SignedServers;

/// Returns the name of a server for the handshake: `host`, or the address of the peer if `host` is
/// no valid name. Only SNI uses it, because [`SignedServers`] checks no names.
///
/// # Errors
/// The connection has ended.
pub fn server_name(host: &str, stream: &TcpStream) -> io::Result<ServerName<'static>> {
    ServerName::try_from(host.to_owned())
        .or_else(|_| stream.peer_addr().map(|address| address.ip().into()))
}
