//! TLS of `ssl:` and `pssl:` remotes.

mod bootstrap;
mod certificate;
mod keys;
mod parameters;
mod trust;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use patchbay_engine::tls::{KeyFileError, server_name};
use rustls::crypto::{self, CryptoProvider};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use crate::connection::{ClientStream, tcp_remote};
use crate::served_database::set::DatabaseSet;
use crate::tls_options::TlsOptions;

use certificate::common_name;
use keys::{Keys, TrustedPeers};

/// Time in which a peer has to complete the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Reason for which a TLS connection is not established.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("{0} must be configured to use SSL")]
    Missing(&'static str),
    #[error(transparent)]
    File(#[from] KeyFileError),
    #[error("{0}: SSL/TLS protocol not recognized")]
    UnknownProtocol(String),
    #[error("{0}: no supported SSL/TLS protocol")]
    NoProtocol(String),
    #[error("{0}: no cipher match")]
    NoCipher(String),
    #[error("private key and certificate: {0}")]
    Identity(rustls::Error),
    #[error("CA certificate: {0}")]
    Authorities(rustls::server::VerifierBuilderError),
    #[error("handshake: {0}")]
    Handshake(io::Error),
    #[error("handshake: no answer within {} s", HANDSHAKE_TIMEOUT.as_secs())]
    Timeout,
    /// The CA certificate was written. The peer has to connect again.
    #[error("successfully bootstrapped CA cert to {}", .0.display())]
    Bootstrapped(PathBuf),
    #[error("could not bootstrap CA cert: {0}")]
    NotBootstrapped(&'static str),
}

/// Establishes TLS connections with the options of a server.
#[derive(Debug)]
pub(crate) struct Tls {
    options: TlsOptions,
    /// Configuration of the last accepted connection, with what it was made of. It remembers
    /// sessions that clients resume.
    last: Mutex<Option<(Keys, Arc<ServerConfig>)>>,
}

impl Tls {
    pub(crate) fn new(options: TlsOptions) -> Self {
        Self { options, last: Mutex::default() }
    }

    /// Logs the reason if the keys cannot be used now. Connections are refused until they can. A
    /// column that is still empty and a CA certificate that is still to be bootstrapped are no
    /// reasons, and for a listener neither are keys that are not named.
    pub(crate) fn log_unusable_keys(&self, databases: &DatabaseSet, is_listener: bool) {
        let keys = Keys::read(&self.options, databases).and_then(|keys| match keys.trusted {
            TrustedPeers::First(_) => client_config(keys).map(|_| ()),
            TrustedPeers::Signed(_) | TrustedPeers::All => self.server_config(keys).map(|_| ()),
        });
        match keys {
            Err(TlsError::Missing(_)) if is_listener || self.options.has_columns() => {}
            Err(error) => tracing::error!(target: "stream_ssl", "{error}"),
            Ok(()) => {}
        }
    }

    /// Accepts a client.
    pub(crate) async fn accept(
        &self,
        databases: &DatabaseSet,
        stream: TcpStream,
    ) -> Result<server::TlsStream<TcpStream>, TlsError> {
        let keys = Keys::read(&self.options, databases)?;
        let acceptor = TlsAcceptor::from(self.server_config(keys)?);
        let accepted = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await;
        let stream = accepted.map_err(|_| TlsError::Timeout)?.map_err(TlsError::Handshake)?;
        if let Some(name) = stream.get_ref().1.server_name() {
            tracing::debug!(target: "stream_ssl", "connection indicated server name {name}");
        }
        Ok(stream)
    }

    /// Establishes TLS with a client that waits at `host`.
    pub(crate) async fn connect(
        &self,
        databases: &DatabaseSet,
        host: &str,
        stream: TcpStream,
    ) -> Result<client::TlsStream<TcpStream>, TlsError> {
        let keys = Keys::read(&self.options, databases)?;
        let bootstrap = keys.trusted.bootstrapped_file();
        let connector = TlsConnector::from(Arc::new(client_config(keys)?));
        let host = self.options.server_name.as_deref().unwrap_or(host);
        let name = server_name(host, &stream).map_err(TlsError::Handshake)?;
        let connected = timeout(HANDSHAKE_TIMEOUT, connector.connect(name, stream)).await;
        let stream = connected.map_err(|_| TlsError::Timeout)?.map_err(TlsError::Handshake)?;
        if let Some(file) = bootstrap {
            return Err(bootstrap_error(file, stream.get_ref().1.peer_certificates()));
        }
        Ok(stream)
    }

    fn server_config(&self, keys: Keys) -> Result<Arc<ServerConfig>, TlsError> {
        // The lock is held while a configuration is made, so that it is made once.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, config)) = last.as_ref().filter(|(made_of, _)| *made_of == keys) {
            return Ok(config.clone());
        }
        let provider = provider(&keys.cipher_suites);
        let verifier = trust::client_verifier(&keys.trusted, &provider)?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&keys.versions)
            .map_err(TlsError::Identity)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(keys.chain.clone(), keys.private_key.clone_key())
            .map_err(TlsError::Identity)?;
        let config = Arc::new(config);
        *last = Some((keys, config.clone()));
        Ok(config)
    }
}

impl ClientStream for server::TlsStream<TcpStream> {
    fn peer_name(&self) -> Option<String> {
        first_name(self.get_ref().1.peer_certificates())
    }

    fn remote(&self) -> Option<String> {
        tcp_remote("ssl", self.get_ref().0)
    }
}

impl ClientStream for client::TlsStream<TcpStream> {
    fn peer_name(&self) -> Option<String> {
        first_name(self.get_ref().1.peer_certificates())
    }

    fn remote(&self) -> Option<String> {
        tcp_remote("ssl", self.get_ref().0)
    }
}

/// The common name in the certificate of a peer, the first one that it sent.
fn first_name(chain: Option<&[CertificateDer<'_>]>) -> Option<String> {
    chain.and_then(<[_]>::first).and_then(|certificate| common_name(certificate))
}

fn client_config(keys: Keys) -> Result<ClientConfig, TlsError> {
    let provider = provider(&keys.cipher_suites);
    let verifier = trust::server_verifier(&keys.trusted, &provider);
    ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&keys.versions)
        .map_err(TlsError::Identity)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_auth_cert(keys.chain, keys.private_key)
        .map_err(TlsError::Identity)
}

fn provider(cipher_suites: &[SupportedCipherSuite]) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: cipher_suites.to_vec(),
        ..crypto::ring::default_provider()
    })
}

/// Writes the CA certificate of a peer that was accepted without being verified. The connection
/// ends in any case, as in Open vSwitch.
fn bootstrap_error(file: PathBuf, chain: Option<&[CertificateDer<'_>]>) -> TlsError {
    match bootstrap::write_authority(&file, chain.unwrap_or_default()) {
        Ok(()) => TlsError::Bootstrapped(file),
        Err(error) => error,
    }
}
