//! Keys and parameters of one connection: the options' files and columns as they are now.

use std::path::{Path, PathBuf};

use patchbay_engine::tls::{read_certificates, read_private_key};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::database_column::{COLUMN_PREFIX, DatabaseColumn};
use crate::database_set::DatabaseSet;
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
        let value = |option: &Option<String>| {
            let option = option.as_ref()?;
            if !option.starts_with(COLUMN_PREFIX) {
                return Some(option.clone());
            }
            first_string(databases, &DatabaseColumn::parse(option)?)
        };
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

/// The first string in a column that is not empty.
fn first_string(databases: &DatabaseSet, column: &DatabaseColumn) -> Option<String> {
    let snapshot = databases.get(&column.database)?.snapshot();
    let (id, table) = snapshot.schema().table_by_name(&column.table)?;
    let place = table.column_id(&column.name)?;
    snapshot.table(id).iter().find_map(|row| {
        let Datum::Set(atoms) = &*row.get(place) else {
            return None;
        };
        atoms.iter().find_map(|atom| match atom {
            Atom::String(text) if !text.is_empty() => Some(text.to_string()),
            _ => None,
        })
    })
}
