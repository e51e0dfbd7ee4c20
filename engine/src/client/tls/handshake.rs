//! The TLS handshake of a client.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::tls::{KeyFileError, SignedServers, read_certificates, read_private_key, server_name};

use super::{Tls, TlsError};

/// Establishes TLS on a TCP connection to `host`.
pub(super) async fn connect(
    tls: &Tls,
    host: &str,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, TlsError> {
    let config = client_config(tls)?;
    let host = tls.server_name.as_deref().unwrap_or(host);
    let name = server_name(host, &stream).map_err(TlsError::Handshake)?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(TlsError::Handshake)
}

fn client_config(tls: &Tls) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(crypto::ring::default_provider());
    let verifier = SignedServers::new(authorities(&tls.ca_certificate)?, &provider);
    let chain = read_certificates(&tls.certificate)?;
    let key = read_private_key(&tls.private_key)?;
    let identity = |source| TlsError::Identity {
        certificate: tls.certificate.clone(),
        private_key: tls.private_key.clone(),
        source,
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(identity)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_auth_cert(chain, key)
        .map_err(identity)?;
    config.enable_sni = tls.send_server_name;
    Ok(config)
}

/// Reads the certificates of authorities.
fn authorities(file: &Path) -> Result<RootCertStore, TlsError> {
    let mut authorities = RootCertStore::empty();
    for certificate in read_certificates(file)? {
        authorities
            .add(certificate)
            .map_err(|error| KeyFileError { file: file.to_owned(), problem: error.to_string() })?;
    }
    Ok(authorities)
}
