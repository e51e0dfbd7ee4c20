//! Virtual address of a load balancer, and its backends.

use std::net::{IpAddr, SocketAddr};

/// Virtual address and its backends.
#[derive(Debug)]
pub(crate) struct Vip {
    pub(crate) address: IpAddr,
    /// `None`: all protocols and ports.
    pub(crate) port: Option<u16>,
    /// Backends that get connections; the port is 0 if the packet's port stays.
    pub(crate) backends: Vec<(IpAddr, u16)>,
    /// What happens to packets if there are no backends.
    pub(crate) empty: EmptyVip,
    /// `true` if the VIP came from a template.
    pub(crate) is_template: bool,
    /// `true` if health checks decide which of the backends get connections.
    pub(crate) is_checked: bool,
}

/// What happens to packets for a VIP without backends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum EmptyVip {
    Drop,
    Reject,
    /// OVN takes the packets of the protocol for an event, before other VIPs with the address.
    Event,
}

impl Vip {
    /// Parses a VIP and its backends. `None`: OVN ignores the VIP.
    pub(super) fn parse(key: &str, value: &str, is_template: bool) -> Option<Self> {
        let (address, port) = parse_endpoint(key)?;
        let mut backends = Vec::new();
        for text in value.split(',').filter(|text| !text.is_empty()) {
            let (backend, backend_port) = parse_endpoint(text.trim())?;
            let is_same_kind = backend.is_ipv4() == address.is_ipv4()
                && (is_template || (backend_port != 0) == (port != 0));
            backends.push(is_same_kind.then_some((backend, backend_port))?);
        }
        Some(Self {
            address,
            port: (port != 0).then_some(port),
            backends,
            empty: EmptyVip::Drop,
            is_template: false,
            is_checked: false,
        })
    }
}

impl EmptyVip {
    /// Verb of what the load balancer does.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Drop | Self::Event => "drops",
            Self::Reject => "rejects",
        }
    }
}

/// Parses `ADDRESS` or `ADDRESS:PORT`, with brackets around an IPv6 address. The port is 0 if there
/// is none.
fn parse_endpoint(text: &str) -> Option<(IpAddr, u16)> {
    if let Ok(endpoint) = text.parse::<SocketAddr>() {
        return Some((endpoint.ip(), endpoint.port()));
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse().ok()?;
    Some((address, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vip_and_its_backends_are_of_one_kind() {
        let vip = Vip::parse("10.96.0.1:80", "10.0.0.1:8080, 10.0.0.2:81", false).unwrap();
        assert_eq!((vip.port, vip.backends.len()), (Some(80), 2));
        let vip = Vip::parse("[fd00::1]:80", "[fd01::1]:8080", false).unwrap();
        assert_eq!(vip.backends, [("fd01::1".parse().unwrap(), 8080)]);
        let vip = Vip::parse("10.96.0.1", "", false).unwrap();
        assert_eq!((vip.port, vip.backends.len()), (None, 0));
        for (key, value) in [
            ("?", ""),
            ("10.96.0.1:80", "10.0.0.1"),
            ("10.96.0.1", "10.0.0.1:80"),
            ("10.96.0.1:80", "[fd00::1]:80"),
            ("10.96.0.1:80", "10.0.0.1:80,?"),
            ("10.96.0.1:99999", ""),
        ] {
            assert!(Vip::parse(key, value, false).is_none(), "{key} {value}");
        }
    }
}
