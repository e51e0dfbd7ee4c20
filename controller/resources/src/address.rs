//! Parsing of addresses and CIDRs as strict as that of API servers.

use std::net::IpAddr;

use ipnet::IpNet;

/// Parses an address. `None`: invalid, or an IPv4-mapped IPv6 address, which Kubernetes refuses.
pub(super) fn parse_ip(text: &str) -> Option<IpAddr> {
    text.parse().ok().filter(|ip| match ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => ip.to_ipv4_mapped().is_none(),
    })
}

/// Parses a CIDR. `None`: invalid, or refused by Kubernetes, such as an IPv4-mapped IPv6 address
/// or a prefix length with leading zeros.
pub(super) fn parse_cidr(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    let is_canonical = length == "0" || !length.starts_with(['0', '+']);
    is_canonical.then(|| IpNet::new(parse_ip(address)?, length.parse().ok()?).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cidrs_are_those_an_api_server_accepts() {
        for valid in ["10.0.0.0/8", "0.0.0.0/0", "fd00::/64", "10.1.2.3/32"] {
            assert!(parse_cidr(valid).is_some(), "{valid}");
        }
        for invalid in [
            "10.0.0.0",
            "10.0.0/8",
            "10.0.0.0/33",
            "10.0.0.0/08",
            "10.0.0.0/+8",
            "010.0.0.0/8",
            "::ffff:10.0.0.0/104",
            "fe80::%eth0/64",
            "",
            "/",
        ] {
            assert!(parse_cidr(invalid).is_none(), "{invalid}");
        }
    }
}
