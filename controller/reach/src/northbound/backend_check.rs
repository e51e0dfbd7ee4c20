//! Switch ports of backends, by which health checks are sent.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// The key of a backend in `ip_port_mappings`.
pub(super) fn mapping_key(backend: IpAddr) -> String {
    match backend {
        IpAddr::V4(_) => backend.to_string(),
        IpAddr::V6(_) => format!("[{backend}]"),
    }
}

/// The switch port of a backend with a key in `ip_port_mappings`, whose values are
/// `PORT:SOURCE[:ZONE]`, and also `PORT` if the source is optional.
pub(super) fn mapped_port<'a>(
    mappings: &'a BTreeMap<String, String>,
    key: &str,
    is_source_optional: bool,
) -> Option<&'a str> {
    let (port, source) = split(mappings.get(key)?)?;
    let is_valid = source.map_or(is_source_optional, |source| check_source(source).is_some());
    (is_valid && !port.is_empty()).then_some(port)
}

/// The switch port of a backend with a key in `ip_port_mappings`, and the address from which its
/// health checks come.
pub(super) fn mapped_check<'a>(
    mappings: &'a BTreeMap<String, String>,
    key: &str,
) -> Option<(&'a str, IpAddr)> {
    let (port, source) = split(mappings.get(key)?)?;
    Some((port, check_source(source?)?))
}

/// Splits a value of `ip_port_mappings` into the port, which may have quotation marks, and the
/// rest.
fn split(value: &str) -> Option<(&str, Option<&str>)> {
    let parts = match value.strip_prefix('"') {
        Some(quoted) => {
            let (port, source) = quoted.split_once('"')?;
            (port, source.strip_prefix(':'))
        }
        None => match value.split_once(':') {
            Some((port, source)) => (port, Some(source)),
            None => (value, None),
        },
    };
    Some(parts)
}

/// The address in a text `SOURCE[:ZONE]`, with brackets around an IPv6 address. `None`: another
/// text.
fn check_source(text: &str) -> Option<IpAddr> {
    let (address, zone) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, zone)) => (address, zone.strip_prefix(':')),
            None => return None,
        },
        None => match text.split_once(':') {
            Some((address, zone)) => (address, Some(zone)),
            None => (text, None),
        },
    };
    address.parse().ok().filter(|_| zone != Some(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_a_backend_is_before_the_source_of_its_checks() {
        let mappings = [
            ("10.0.0.1".to_owned(), "vm1:10.0.0.254".to_owned()),
            ("[fd00::1]".to_owned(), "\"vm:2\":[fd00::fe]".to_owned()),
            ("fd00::2".to_owned(), "vm3:[fd00::fe]".to_owned()),
            ("[fd00::3]".to_owned(), "vm3:fd00::fe".to_owned()),
            ("10.0.0.4".to_owned(), "vm4".to_owned()),
            ("10.0.0.5".to_owned(), "vm5:10.0.0.254:".to_owned()),
        ]
        .into();
        let key = |backend: &str| mapping_key(backend.parse().unwrap());
        let port = |backend: &str| mapped_port(&mappings, &key(backend), false);
        assert_eq!(port("10.0.0.1"), Some("vm1"));
        assert_eq!(port("fd00::1"), Some("vm:2"));
        for bad in ["10.0.0.2", "fd00::2", "fd00::3", "10.0.0.4", "10.0.0.5"] {
            assert_eq!(port(bad), None, "{bad}");
        }
        let optional = mapped_port(&mappings, "10.0.0.4", true);
        assert_eq!(optional, Some("vm4"));
    }
}
