//! Keys and parameters of one connection: the options' files and columns as they are now.

use std::path::{Path, PathBuf};

use patchbay_engine::tls::{read_certificates, read_private_key};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::remotes::column;
use crate::served_database::set::DatabaseSet;
use crate::tls_options::TlsOptions;

use super::parameters;
use super::{SupportedCipherSuite, SupportedProtocolVersion, TlsError};

/// Keys and parameters of a connection.
#[derive(Debug, PartialEq)]
pub(super) struct Keys {
    pub(super) private_key: PrivateKeyDer<'static>,
    /// The server's certificate, and those that are sent with it.
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) trusted: TrustedPeers,
    pub(super) versions: Vec<&'static SupportedProtocolVersion>,
    pub(super) cipher_suites: Vec<SupportedCipherSuite>,
}

/// Peers that are trusted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TrustedPeers {
    /// Peers whose certificates these authorities have signed.
    Signed(Vec<CertificateDer<'static>>),
    All,
    /// A peer to which the server connects, and which sends the certificate of its authority. It is
    /// written to this file.
    First(PathBuf),
}

impl TrustedPeers {
    /// The file for the first peer's CA certificate.
    pub(super) fn bootstrapped_file(&self) -> Option<PathBuf> {
        match self {
            Self::First(file) => Some(file.clone()),
            Self::Signed(_) | Self::All => None,
        }
    }
}

impl Keys {
    /// Reads the files and columns of the options.
    pub(super) fn read(options: &TlsOptions, databases: &DatabaseSet) -> Result<Self, TlsError> {
        let value = |option: &Option<String>| column::read_option(option.as_deref(), databases);
        let required = |option, name: &'static str| value(option).ok_or(TlsError::Missing(name));
        let private_key = required(&options.private_key, "Private key")?;
        let private_key = read_private_key(Path::new(&private_key))?;
        let mut chain =
            read_certificates(Path::new(&required(&options.certificate, "Certificate")?))?;
        if let Some(file) = value(&options.peer_ca_certificate) {
            chain.extend(read_certificates(Path::new(&file))?);
        }
        let authorities = required(&options.ca_certificate, "CA certificate")?;
        let trusted = match Path::new(&authorities) {
            _ if authorities == "none" => TrustedPeers::All,
            file if options.bootstrap_ca_certificate && !file.exists() => {
                TrustedPeers::First(file.to_owned())
            }
            file => TrustedPeers::Signed(read_certificates(file)?),
        };
        Ok(Self {
            private_key,
            chain,
            trusted,
            versions: parameters::versions(value(&options.protocols).as_deref())?,
            cipher_suites: parameters::cipher_suites(
                value(&options.ciphers).as_deref(),
                value(&options.ciphersuites).as_deref(),
            )?,
        })
    }
}
