//! Verification of peers.
//!
//! A peer is trusted if an authority has signed its certificate, whatever name the certificate
//! holds, as in Open vSwitch.

use std::sync::Arc;

use patchbay_engine::tls::SignedServers;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{self, CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

use super::TlsError;
use super::keys::TrustedPeers;

/// The verifier of clients.
pub(super) fn client_verifier(
    trusted: &TrustedPeers,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let authorities = match trusted {
        TrustedPeers::Signed(certificates) => root_store(certificates),
        TrustedPeers::All => return Ok(Unverified::new(provider, false)),
        // As in Open vSwitch, only peers to which the server connects are trusted before their
        // authority is known.
        TrustedPeers::First(_) => return Err(TlsError::Missing("CA certificate")),
    };
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider.clone());
    let verifier = verifier.build().map(|verifier| verifier as Arc<dyn ClientCertVerifier>);
    verifier.map_err(TlsError::Authorities)
}

/// The verifier of a peer to which this server connects.
pub(super) fn server_verifier(
    trusted: &TrustedPeers,
    provider: &Arc<CryptoProvider>,
) -> Arc<dyn ServerCertVerifier> {
    match trusted {
        TrustedPeers::Signed(certificates) => {
            Arc::new(SignedServers::new(root_store(certificates), provider))
        }
        TrustedPeers::All | TrustedPeers::First(_) => Unverified::new(provider, true),
    }
}

/// The certificates that can be used; those that cannot are as good as missing.
fn root_store(certificates: &[CertificateDer<'static>]) -> RootCertStore {
    let mut authorities = RootCertStore::empty();
    authorities.add_parsable_certificates(certificates.iter().cloned());
    authorities
}

/// Accepts every certificate, with a signature that proves its key.
#[derive(Debug)]
struct Unverified {
    algorithms: WebPkiSupportedAlgorithms,
    /// `true` if a client must have a certificate.
    is_mandatory: bool,
}

impl Unverified {
    fn new(provider: &CryptoProvider, is_mandatory: bool) -> Arc<Self> {
        Arc::new(Self { algorithms: provider.signature_verification_algorithms, is_mandatory })
    }
}

impl ClientCertVerifier for Unverified {
    fn client_auth_mandatory(&self) -> bool {
        self.is_mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
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

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
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
