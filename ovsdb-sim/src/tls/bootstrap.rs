//! Bootstrap of the CA certificate: trust on first use (`--bootstrap-ca-cert`).

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use patchbay_engine::tls::KeyFileError;
use rustls::pki_types::CertificateDer;

use super::TlsError;
use super::certificate::is_self_issued;

/// Length of a line of a PEM file (RFC 7468, section 2).
const PEM_LINE_BYTES: usize = 64;

/// Writes the last certificate that a peer has sent, that of its authority, to a new file.
///
/// # Errors
/// The peer has sent none that is signed by itself, or the file cannot be written.
pub(super) fn write_authority(file: &Path, chain: &[CertificateDer<'_>]) -> Result<(), TlsError> {
    let authority =
        chain.last().ok_or(TlsError::NotBootstrapped("no certificate presented by peer"))?;
    if !is_self_issued(authority) {
        let problem = "self-signed CA certificate required";
        return Err(TlsError::NotBootstrapped(problem));
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o444);
    let written =
        options.open(file).and_then(|mut file| file.write_all(to_pem(authority).as_bytes()));
    Ok(written
        .map_err(|error| KeyFileError { file: file.to_owned(), problem: error.to_string() })?)
}

fn to_pem(certificate: &[u8]) -> String {
    let text = STANDARD.encode(certificate);
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(rest.len().min(PEM_LINE_BYTES));
        pem.push_str(line);
        pem.push('\n');
        rest = tail;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}
