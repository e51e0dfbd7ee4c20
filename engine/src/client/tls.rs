//! Keys and errors of `ssl:` remotes.

#[cfg(feature = "tls")]
mod handshake;

use std::io;
use std::path::PathBuf;

#[cfg(feature = "tls")]
use tokio::net::TcpStream;
#[cfg(feature = "tls")]
use tokio_rustls::client::TlsStream;

#[cfg(feature = "tls")]
use crate::tls::KeyFileError;

/// Keys of a client of `ssl:` remotes: PEM files, as for OVSDB's own clients.
///
/// A server is trusted if an authority has signed its certificate, whatever name the certificate
/// holds. The client does not send the server's name (SNI). Open vSwitch and OVN do the same,
/// because their servers often have no name. The files are read for each connection, so that keys
/// can be renewed while the client runs.
///
/// `ssl:` remotes need the Cargo feature `tls`, which is enabled by default.
///
/// ```
/// use patchbay_engine::client::{Config, Tls};
///
/// let mut config = Config::new("ssl:10.0.0.1:6641,ssl:10.0.0.2:6641".parse()?, "OVN_Northbound");
/// // As `ovn-nbctl -p key.pem -c cert.pem -C ca.pem`.
/// config.tls = Some(Tls::new("key.pem", "cert.pem", "ca.pem"));
/// # Ok::<(), patchbay_engine::client::RemoteError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tls {
    /// Private key of the client.
    pub private_key: PathBuf,
    /// Certificate of the client, optionally followed by intermediate certificates.
    pub certificate: PathBuf,
    /// Certificates of the authorities that sign server certificates.
    pub ca_certificate: PathBuf,
    /// `true` to send the server's name (SNI). Default: `false`.
    pub send_server_name: bool,
    /// Name to send instead of the host of the remote. `None`: the host, unless it is an address.
    pub server_name: Option<String>,
}

/// Reason for which a TLS connection could not be established.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// [`Config::tls`](super::Config::tls) is `None`.
    #[error("an ssl: remote needs a private key, a certificate and a CA certificate")]
    NoKeys,
    /// The crate was built without the feature `tls`.
    #[error(
        "this program was built without TLS: ssl: remotes need the Cargo feature `tls` of patchbay-engine"
    )]
    NotSupported,
    /// A file is missing or malformed.
    #[cfg(feature = "tls")]
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// Certificate and private key do not match, or the key has an unknown type.
    #[cfg(feature = "tls")]
    #[error("certificate {} with private key {}: {source}", .certificate.display(), .private_key.display())]
    Identity {
        /// Path of the certificate.
        certificate: PathBuf,
        /// Path of the private key.
        private_key: PathBuf,
        /// Error of the TLS library.
        source: rustls::Error,
    },
    /// The handshake failed, for example because one side does not trust the other.
    #[error("TLS handshake: {0}")]
    Handshake(io::Error),
}

impl Tls {
    /// Names the three files, in the order of the options `-p`, `-c` and `-C` of OVSDB's tools.
    pub fn new(
        private_key: impl Into<PathBuf>,
        certificate: impl Into<PathBuf>,
        ca_certificate: impl Into<PathBuf>,
    ) -> Self {
        Self {
            private_key: private_key.into(),
            certificate: certificate.into(),
            ca_certificate: ca_certificate.into(),
            send_server_name: false,
            server_name: None,
        }
    }

    /// Establishes TLS on a TCP connection to `host`.
    #[cfg(feature = "tls")]
    pub(super) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, TlsError> {
        handshake::connect(self, host, stream).await
    }
}
