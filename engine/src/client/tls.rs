//! TLS, for `ssl:` remotes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{self, CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The keys of a client of `ssl:` remotes, as OVSDB's own clients are given them: files in PEM format.
///
/// A server is trusted when the authority has signed its certificate, whatever name stands in it, and it is not told the
/// name that it was looked up by (SNI): so do Open vSwitch and OVN, whose servers often have no name. The files are read
/// for each connection, so that keys may be renewed while a client runs.
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
    /// The client's private key.
    pub private_key: PathBuf,
    /// The client's certificate; those that lead from it to the authority may follow.
    pub certificate: PathBuf,
    /// The certificates of the authorities that sign those of servers.
    pub ca_certificate: PathBuf,
    /// Whether the server is told the name that it was looked up by. Off by default.
    pub send_server_name: bool,
}

/// Why no TLS connection came to be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The remote is an `ssl:` one, and no keys were given.
    #[error(
        "an ssl: remote needs a private key, a certificate and a CA certificate, and none were given"
    )]
    NoKeys,
    /// A file cannot be used.
    #[error("{}: {problem}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Certificate and private key do not go together, or the key is of no known kind.
    #[error("certificate {} with private key {}: {source}", .certificate.display(), .private_key.display())]
    Identity {
        /// The file with the certificate.
        certificate: PathBuf,
        /// The file with the key.
        private_key: PathBuf,
        /// What is wrong.
        source: Error,
    },
    /// The two sides do not agree, or one does not trust the other.
    #[error("TLS handshake: {0}")]
    Handshake(io::Error),
}

impl Tls {
    /// The three files, in the order of the options `-p`, `-c` and `-C` of OVSDB's tools.
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
        }
    }

    /// Makes a TLS connection of a TCP one to `host`.
    pub(super) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, TlsError> {
        let config = self.client_config()?;
        // Without SNI the name is neither sent nor compared with the certificate's.
        let name = ServerName::try_from(host.to_owned())
            .or_else(|_| stream.peer_addr().map(|address| address.ip().into()))
            .map_err(TlsError::Handshake)?;
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .map_err(TlsError::Handshake)
    }

    fn client_config(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(crypto::ring::default_provider());
        let verifier = SignedByAuthority::new(&provider, &self.ca_certificate)?;
        let chain = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.private_key)
            .map_err(|error| bad_file(&self.private_key, &error, "private key"))?;
        let identity = |source| TlsError::Identity {
            certificate: self.certificate.clone(),
            private_key: self.private_key.clone(),
            source,
        };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(identity)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_auth_cert(chain, key)
            .map_err(identity)?;
        config.enable_sni = self.send_server_name;
        Ok(config)
    }
}

/// Trusts the servers whose certificates an authority has signed, whatever they are called.
#[derive(Debug)]
struct SignedByAuthority {
    authorities: RootCertStore,
    algorithms: WebPkiSupportedAlgorithms,
}

impl SignedByAuthority {
    fn new(provider: &CryptoProvider, ca_certificate: &Path) -> Result<Self, TlsError> {
        let mut authorities = RootCertStore::empty();
        for certificate in certificates(ca_certificate)? {
            authorities
                .add(certificate)
                .map_err(|error| TlsError::File {
                    file: ca_certificate.to_owned(),
                    problem: error.to_string(),
                })?;
        }
        Ok(Self {
            authorities,
            algorithms: provider.signature_verification_algorithms,
        })
    }
}

impl ServerCertVerifier for SignedByAuthority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(end_entity)?,
            &self.authorities,
            intermediates,
            now,
            self.algorithms.all,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The certificates in a file; there is at least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = read.map_err(|error| bad_file(file, &error, "certificate"))?;
    if certificates.is_empty() {
        return Err(bad_file(file, &pem::Error::NoItemsFound, "certificate"));
    }
    Ok(certificates)
}

fn bad_file(file: &Path, error: &pem::Error, wanted: &str) -> TlsError {
    let problem = match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => format!("no {wanted} in PEM format is in it"),
        other => other.to_string(),
    };
    TlsError::File {
        file: file.to_owned(),
        problem,
    }
}
