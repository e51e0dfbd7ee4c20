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

/// Length of a line of a PEM file (RFC 7468, section 2).
const PEM_LINE_BYTES: usize = 64;

/// Writes the last certificate that a peer has sent, that of its authority, to a new file.
///
/// # Errors
/// The peer has sent none that is signed by itself, or the file cannot be written.
pub(super) fn write_authority(file: &Path, chain: &[CertificateDer<'_>]) -> Result<(), TlsError> {
    let authority = chain.last().ok_or(TlsError::NotBootstrapped(
        "no certificate presented by peer",
    ))?;
    if !is_self_issued(authority) {
        let problem = "self-signed CA certificate required";
        return Err(TlsError::NotBootstrapped(problem));
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o444);
    let written = options
        .open(file)
        .and_then(|mut file| file.write_all(to_pem(authority).as_bytes()));
    Ok(written.map_err(|error| KeyFileError {
        file: file.to_owned(),
        problem: error.to_string(),
    })?)
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

/// `true` if issuer and subject of a certificate are the same (RFC 5280, section 4.1).
fn is_self_issued(certificate: &[u8]) -> bool {
    names(certificate).is_some_and(|(issuer, subject)| issuer == subject)
}

/// The issuer and the subject of a certificate, in DER.
fn names(certificate: &[u8]) -> Option<(&[u8], &[u8])> {
    /// Tag of the version, which comes first if there is one.
    const VERSION: u8 = 0xa0;
    let (_, certificate, _) = element(certificate)?;
    let (_, mut fields, _) = element(certificate)?;
    if fields.first() == Some(&VERSION) {
        fields = element(fields)?.2;
    }
    let (_, _, fields) = element(fields)?; // serial number
    let (_, _, fields) = element(fields)?; // signature algorithm
    let (_, issuer, fields) = element(fields)?;
    let (_, _, fields) = element(fields)?; // validity
    let (_, subject, _) = element(fields)?;
    Some((issuer, subject))
}

/// The tag and the content of the first element of a DER text, and the rest.
fn element(text: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, text) = text.split_first()?;
    let (&len, text) = text.split_first()?;
    let (len, text) = match len {
        0..=0x7f => (usize::from(len), text),
        // The length has up to four bytes of its own.
        0x81..=0x84 => {
            let (bytes, text) = text.split_at_checked(usize::from(len - 0x80))?;
            let len = bytes
                .iter()
                .fold(0, |len, byte| len << 8 | usize::from(*byte));
            (len, text)
        }
        _ => return None,
    };
    let (content, rest) = text.split_at_checked(len)?;
    Some((tag, content, rest))
}
