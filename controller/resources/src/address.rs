//! Addresses and CIDRs as API servers read them, which is stricter than other readers.

use std::net::IpAddr;

use ipnet::IpNet;

/// An address as Kubernetes accepts it: no IPv4 inside IPv6.
pub(super) fn parse_ip(text: &str) -> Option<IpAddr> {
    text.parse().ok().filter(|ip| match ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => ip.to_ipv4_mapped().is_none(),
    })
}

/// A CIDR as Kubernetes accepts it: no IPv4 inside IPv6, and the length without leading zeros.
pub(super) fn parse_cidr(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    let plain = length == "0" || !length.starts_with(['0', '+']);
    plain
        .then(|| IpNet::new(parse_ip(address)?, length.parse().ok()?).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cidrs_are_those_an_api_server_accepts() {
        for good in ["10.0.0.0/8", "0.0.0.0/0", "fd00::/64", "10.1.2.3/32"] {
            assert!(parse_cidr(good).is_some(), "{good}");
        }
        for bad in [
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
            assert!(parse_cidr(bad).is_none(), "{bad}");
        }
    }
}
