//! Names in certificates (RFC 5280, section 4.1).

/// Object identifier of the attribute `commonName`, in DER.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// `true` if issuer and subject of a certificate are the same (RFC 5280, section 4.1).
pub(super) fn is_self_issued(certificate: &[u8]) -> bool {
    names(certificate).is_some_and(|(issuer, subject)| issuer == subject)
}

/// The first common name of a certificate's subject, up to a NUL, as in Open vSwitch. `None`: it
/// has none.
pub(super) fn common_name(certificate: &[u8]) -> Option<String> {
    let (_, mut subject) = names(certificate)?;
    while let Some((_, mut attributes, rest)) = element(subject) {
        subject = rest;
        while let Some((_, attribute, rest)) = element(attributes) {
            attributes = rest;
            let (_, kind, attribute) = element(attribute)?;
            if kind == COMMON_NAME {
                let (_, text, _) = element(attribute)?;
                let text = text.split(|byte| *byte == 0).next()?;
                return Some(String::from_utf8_lossy(text).into_owned());
            }
        }
    }
    None
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
            let len = bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
            (len, text)
        }
        _ => return None,
    };
    let (content, rest) = text.split_at_checked(len)?;
    Some((tag, content, rest))
}
