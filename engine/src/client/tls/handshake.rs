//! The TLS handshake of a client.

use std::path::Path;
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

use super::{Tls, TlsError};

/// Establishes TLS on a TCP connection to `host`.
pub(super) async fn connect(
    tls: &Tls,
    host: &str,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, TlsError> {
    let config = client_config(tls)?;
    // The name is only used for SNI: certificates are checked without it.
    let name = ServerName::try_from(host.to_owned())
        .or_else(|_| stream.peer_addr().map(|address| address.ip().into()))
        .map_err(TlsError::Handshake)?;
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .map_err(TlsError::Handshake)
}

fn client_config(tls: &Tls) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(crypto::ring::default_provider());
    let verifier = AuthorityVerifier::new(&provider, &tls.ca_certificate)?;
    let chain = certificates(&tls.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&tls.private_key)
        .map_err(|error| bad_file(&tls.private_key, &error, "private key"))?;
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

/// Accepts every server certificate that an authority has signed, whatever its name.
#[derive(Debug)]
struct AuthorityVerifier {
    authorities: RootCertStore,
    algorithms: WebPkiSupportedAlgorithms,
}

impl AuthorityVerifier {
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

impl ServerCertVerifier for AuthorityVerifier {
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

/// Reads the certificates in a file, of which there is at least one.
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
        pem::Error::NoItemsFound => format!("it contains no {wanted} in PEM format"),
        other => other.to_string(),
    };
    TlsError::File {
        file: file.to_owned(),
        problem,
    }
}
