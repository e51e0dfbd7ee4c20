//! Protocols and cipher suites in the notations of Open vSwitch and OpenSSL.

use rustls::crypto::ring;
use rustls::{CipherSuite, ProtocolVersion, version};

use super::{SupportedCipherSuite, SupportedProtocolVersion, TlsError};

/// Protocols that Open vSwitch knows, oldest first. `None`: not supported.
const PROTOCOLS: [(&str, Option<&SupportedProtocolVersion>); 4] = [
    ("TLSv1", None),
    ("TLSv1.1", None),
    ("TLSv1.2", Some(&version::TLS12)),
    ("TLSv1.3", Some(&version::TLS13)),
];

/// OpenSSL's names of the cipher suites of TLS 1.2, and of TLS 1.3.
const CIPHER_SUITES: [(CipherSuite, &str); 9] = [
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "ECDHE-ECDSA-AES128-GCM-SHA256"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-ECDSA-CHACHA20-POLY1305"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "ECDHE-RSA-AES256-GCM-SHA384"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "ECDHE-RSA-AES128-GCM-SHA256"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-RSA-CHACHA20-POLY1305"),
    (CipherSuite::TLS13_AES_256_GCM_SHA384, "TLS_AES_256_GCM_SHA384"),
    (CipherSuite::TLS13_AES_128_GCM_SHA256, "TLS_AES_128_GCM_SHA256"),
    (CipherSuite::TLS13_CHACHA20_POLY1305_SHA256, "TLS_CHACHA20_POLY1305_SHA256"),
];

/// The protocols of a list such as `TLSv1.2,TLSv1.3`, or from one on, such as `TLSv1.2+`.
pub(super) fn versions(
    list: Option<&str>,
) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
    let Some(list) = list else {
        return Ok(rustls::ALL_VERSIONS.to_vec());
    };
    let mut versions = Vec::new();
    let words = list.split([',', ' ', '\t']).filter(|word| !word.is_empty());
    for word in words {
        let (name, from_here_on) =
            word.strip_suffix('+').map_or((word, false), |name| (name, true));
        let place = PROTOCOLS
            .iter()
            .position(|(known, _)| known.eq_ignore_ascii_case(name))
            .ok_or_else(|| TlsError::UnknownProtocol(word.to_owned()))?;
        let end = if from_here_on { PROTOCOLS.len() } else { place + 1 };
        versions.extend(PROTOCOLS[place..end].iter().filter_map(|(_, version)| *version));
    }
    if versions.is_empty() {
        return Err(TlsError::NoProtocol(list.to_owned()));
    }
    Ok(versions)
}

/// The cipher suites of TLS 1.2 in the first list, and those of TLS 1.3 in the second.
pub(super) fn cipher_suites(
    ciphers: Option<&str>,
    ciphersuites: Option<&str>,
) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    let is_tls13 =
        |suite: &SupportedCipherSuite| suite.version().version == ProtocolVersion::TLSv1_3;
    let (tls13, tls12): (Vec<_>, Vec<_>) =
        ring::ALL_CIPHER_SUITES.iter().copied().partition(is_tls13);
    let mut selected = match ciphersuites {
        Some(list) => select(tls13, list)?,
        None => tls13,
    };
    selected.extend(match ciphers {
        Some(list) => select(tls12, list)?,
        None => tls12,
    });
    Ok(selected)
}

/// The suites of a list of names in OpenSSL's notation (openssl-ciphers(1)): suites, `!` and `-`
/// before those that are excluded, and names of groups, such as `HIGH` or `DEFAULT`. All suites are
/// in the groups, because none of them is weak.
fn select(
    suites: Vec<SupportedCipherSuite>,
    list: &str,
) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    let name_of = |suite: &SupportedCipherSuite| {
        let found = CIPHER_SUITES.iter().find(|(known, _)| *known == suite.suite());
        found.map_or("", |(_, name)| *name)
    };
    let words: Vec<&str> = list.split([':', ',', ' ']).filter(|word| !word.is_empty()).collect();
    let includes = |word: &&str, name: &str| {
        let groups =
            ["DEFAULT", "ALL", "HIGH", "TLSv1.2", "ECDHE", "EECDH", "kEECDH", "kECDHE", "AEAD"];
        // A conjunction, such as `ECDHE+AESGCM`.
        word.split('+').all(|part| {
            part == name
                || groups.contains(&part)
                || match part {
                    "AESGCM" | "AES" => name.contains("AES"),
                    "AES128" | "AES256" | "CHACHA20" => name.contains(part),
                    "aRSA" | "RSA" => name.contains("-RSA-"),
                    "aECDSA" | "ECDSA" => name.contains("-ECDSA-"),
                    _ => false,
                }
        })
    };
    let selected: Vec<_> = suites
        .into_iter()
        .filter(|suite| {
            let name = name_of(suite);
            let is_excluded = words.iter().any(|word| {
                word.strip_prefix(['!', '-']).is_some_and(|word| includes(&word, name))
            });
            !is_excluded && words.iter().any(|word| includes(word, name))
        })
        .collect();
    if selected.is_empty() {
        return Err(TlsError::NoCipher(list.to_owned()));
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_a_list_or_a_range() {
        let numbers = |list| -> Vec<ProtocolVersion> {
            versions(list).unwrap().iter().map(|version| version.version).collect()
        };
        let (v2, v3) = (ProtocolVersion::TLSv1_2, ProtocolVersion::TLSv1_3);
        assert_eq!(numbers(Some("TLSv1.3")), [v3]);
        assert_eq!(numbers(Some("TLSv1,TLSv1.1,TLSv1.2")), [v2]);
        assert_eq!(numbers(Some("TLSv1.2+")), [v2, v3]);
        assert_eq!(numbers(None).len(), 2);
        for wrong in ["SSLv3", "TLSv1.1", ""] {
            assert!(versions(Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ciphers_are_names_groups_and_exclusions() {
        let count = |list| cipher_suites(Some(list), None).map(|suites| suites.len() - 3).ok();
        assert_eq!(count("HIGH:!aNULL:!MD5"), Some(6));
        assert_eq!(count("DEFAULT:@SECLEVEL=2"), Some(6));
        assert_eq!(count("ECDHE-RSA-AES256-GCM-SHA384"), Some(1));
        assert_eq!(count("HIGH:-ECDHE-RSA-AES256-GCM-SHA384"), Some(5));
        assert_eq!(count("ECDHE+AESGCM"), Some(4));
        assert_eq!(count("foo"), None);
        let suites = cipher_suites(None, Some("TLS_AES_128_GCM_SHA256")).unwrap();
        assert_eq!(suites.len(), 7);
    }
}
