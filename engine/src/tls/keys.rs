//! Private keys and certificates in PEM files.

use std::path::{Path, PathBuf};

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Error of a PEM file: it is missing, unreadable or malformed, or has no certificate or key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", .file.display())]
pub struct KeyFileError {
    /// Path of the file.
    pub file: PathBuf,
    /// Reason.
    pub problem: String,
}

/// Reads the certificates in a file, of which there is at least one.
///
/// # Errors
/// The file cannot be read, or contains no certificate.
pub fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, KeyFileError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = read.map_err(|error| file_error(file, &error, "certificate"))?;
    if certificates.is_empty() {
        return Err(file_error(file, &pem::Error::NoItemsFound, "certificate"));
    }
    Ok(certificates)
}

/// Reads the first private key in a file.
///
/// # Errors
/// The file cannot be read, or contains no private key.
pub fn read_private_key(file: &Path) -> Result<PrivateKeyDer<'static>, KeyFileError> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| file_error(file, &error, "private key"))
}

fn file_error(file: &Path, error: &pem::Error, wanted: &str) -> KeyFileError {
    let problem = match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => format!("it contains no {wanted} in PEM format"),
        other => other.to_string(),
    };
    KeyFileError { file: file.to_owned(), problem }
}
