//! Virtual address of a load balancer, and its backends.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::Names;
use crate::packet::IpPacket;

/// Address and port of a backend.
pub(crate) type Backend = (IpAddr, u16);

/// Virtual address and its backends.
#[derive(Debug)]
pub(crate) struct Vip {
    pub(crate) address: IpAddr,
    /// `None`: all protocols and ports.
    pub(crate) port: Option<u16>,
    /// Backends that get connections; the port is 0 if the packet's port stays.
    pub(crate) backends: Vec<Backend>,
    /// Backends of the row, with those that health checks leave out.
    pub(crate) row_backends: Vec<Backend>,
    /// Action on packets if there are no backends.
    pub(crate) empty: EmptyVip,
    /// `true` if the VIP came from a template.
    pub(crate) is_template: bool,
    /// `true` if health checks decide which of the backends get connections.
    pub(crate) is_checked: bool,
    /// `false` if the port or a backend of a template is not known: routers track packets for the
    /// address, but no router translates them.
    pub(crate) is_served: bool,
}

/// Action on packets for a VIP without backends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum EmptyVip {
    Drop,
    Reject,
    /// OVN takes the packets of the protocol for an event, before other VIPs with the address.
    Event,
}

impl Vip {
    /// Parses a VIP and its backends. `None`: OVN ignores the VIP.
    pub(super) fn parse(key: &str, value: &str) -> Option<Self> {
        let (address, port) = parse_endpoint(key)?;
        let backends = value
            .split(',')
            .filter(|text| !text.is_empty())
            .map(|text| parse_backend(text, address.is_ipv4(), port != 0));
        let backends = backends.collect::<Option<Vec<_>>>()?;
        Some(Self {
            address,
            port: (port != 0).then_some(port),
            row_backends: backends.clone(),
            backends,
            empty: EmptyVip::Drop,
            is_template: false,
            is_checked: false,
            is_served: true,
        })
    }

    /// Parses a VIP of a template, `ADDRESS[:PORT]` with backends, each of which may be a variable.
    /// `is_ipv4`: address family of the template. `is_mapped`: a distributed load balancer knows
    /// the port of a backend with a key. `None`: OVN ignores the VIP, or its flows.
    pub(super) fn parse_template(
        key: &str,
        value: &str,
        is_ipv4: bool,
        names: &Names,
        is_mapped: Option<&dyn Fn(&str) -> bool>,
    ) -> Option<Self> {
        let parts: Vec<&str> = key.split(':').filter(|part| !part.is_empty()).collect();
        let (address, port) = match parts[..] {
            [address] => (address, None),
            [address, port] => (address, Some(port)),
            _ => return None,
        };
        let mut texts = value.split(',').filter(|text| !text.is_empty());
        let is_valid = texts.all(|text| {
            if text.starts_with('^') {
                text.split(':').filter(|part| !part.is_empty()).count() <= 2
            } else {
                parse_backend(text, is_ipv4, port.is_some()).is_some()
            }
        });
        let own: IpAddr = names.expand_templates(address).parse().ok()?;
        if !is_valid || own.is_ipv4() != is_ipv4 {
            return None;
        }
        let own_port = port.map(|port| names.expand_templates(port).parse::<u16>());
        let row_backends = expand_backends(&names.expand_templates(value), is_ipv4);
        let backends = match is_mapped {
            None => row_backends.clone(),
            Some(is_mapped) => mapped_backends(value, names, is_mapped),
        };
        let is_served = backends.is_some() && own_port.as_ref().is_none_or(Result::is_ok);
        Some(Self {
            address: own,
            // A port that is not known is none that a packet has.
            port: own_port.map(Result::unwrap_or_default),
            backends: backends.unwrap_or_default(),
            row_backends: row_backends.unwrap_or_default(),
            empty: EmptyVip::Drop,
            is_template: address.contains('^'),
            is_checked: false,
            is_served,
        })
    }

    /// `true` if a packet of the VIP's protocol comes from a backend, as answers do.
    pub(super) fn is_answer(&self, packet: &IpPacket) -> bool {
        let port = packet.transport.source_port();
        let mut backends = self.row_backends.iter();
        backends
            .any(|backend| backend.0 == packet.source && (self.port.is_none() || backend.1 == port))
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

/// Parses a backend of a VIP of this family and kind. `None`: OVN ignores the VIP.
fn parse_backend(text: &str, is_ipv4: bool, has_port: bool) -> Option<(IpAddr, u16)> {
    let (address, port) = parse_endpoint(text)?;
    let is_same_kind = address.is_ipv4() == is_ipv4 && (port != 0) == has_port;
    is_same_kind.then_some((address, port))
}

/// The backends of a template with the values of its variables. `None`: one of them is not known,
/// or of the other family.
fn expand_backends(text: &str, is_ipv4: bool) -> Option<Vec<(IpAddr, u16)>> {
    let texts = text.split(',').filter(|text| !text.is_empty());
    let backends = texts.map(|text| {
        parse_endpoint(text.trim()).filter(|(address, _)| address.is_ipv4() == is_ipv4)
    });
    backends.collect()
}

/// The backends of a template whose ports are known. The family of a template's VIP is not, so that
/// all keys have brackets, and so do values of variables, with the port 0 behind them. `None`: OVN
/// cannot read one of them.
fn mapped_backends(
    value: &str,
    names: &Names,
    is_mapped: &dyn Fn(&str) -> bool,
) -> Option<Vec<(IpAddr, u16)>> {
    let mut backends = Vec::new();
    for text in value.split(',').filter(|text| !text.is_empty()) {
        let (key, backend) = if text.starts_with('^') {
            let variable = text.split(':').next().unwrap_or_default();
            let address = names.expand_templates(variable).parse::<Ipv6Addr>().ok();
            (format!("[{variable}]"), address.map(|address| (address.into(), 0)))
        } else {
            let backend = parse_endpoint(text.trim());
            let address = backend.map(|(address, _)| address.to_string());
            (format!("[{}]", address.unwrap_or_default()), backend)
        };
        if is_mapped(&key) {
            backends.push(backend?);
        }
    }
    Some(backends)
}

/// Parses `ADDRESS` or `ADDRESS:PORT`, with brackets around an IPv6 address. The port is 0 if there
/// is none.
fn parse_endpoint(text: &str) -> Option<(IpAddr, u16)> {
    if let Ok(endpoint) = text.parse::<SocketAddr>() {
        return Some((endpoint.ip(), endpoint.port()));
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse().ok()?;
    Some((address, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vip_and_its_backends_are_of_one_kind() {
        let vip = Vip::parse("10.96.0.1:80", "10.0.0.1:8080,10.0.0.2:81").unwrap();
        assert_eq!((vip.port, vip.backends.len()), (Some(80), 2));
        let vip = Vip::parse("[fd00::1]:80", "[fd01::1]:8080").unwrap();
        assert_eq!(vip.backends, [("fd01::1".parse().unwrap(), 8080)]);
        let vip = Vip::parse("10.96.0.1", "").unwrap();
        assert_eq!((vip.port, vip.backends.len()), (None, 0));
        for (key, value) in [
            ("?", ""),
            ("10.96.0.1:80", "10.0.0.1"),
            ("10.96.0.1", "10.0.0.1:80"),
            ("10.96.0.1:80", "[fd00::1]:80"),
            ("10.96.0.1:80", "10.0.0.1:80,?"),
            ("10.96.0.1:80", "10.0.0.1:8080, 10.0.0.2:81"),
            ("10.96.0.1:99999", ""),
        ] {
            assert!(Vip::parse(key, value).is_none(), "{key} {value}");
        }
    }

    #[test]
    fn a_template_has_an_address_and_at_most_one_port() {
        let mut names = Names::default();
        let variables = [("V4", "10.96.0.1"), ("V6", "fd00::1"), ("B", "10.0.0.1:81,10.0.0.2:81")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        names.set_variables(variables.into(), false);
        let parse = |key, value, is_ipv4| Vip::parse_template(key, value, is_ipv4, &names, None);
        let known = |key, value, is_ipv4| {
            let vip = parse(key, value, is_ipv4).unwrap();
            (vip.address.to_string(), vip.port, vip.backends.len())
        };
        assert_eq!(known("^V4:80", "^B", true), ("10.96.0.1".into(), Some(80), 2));
        let vip = known("^V6:80", "[fd00::2]:80", false);
        assert_eq!(vip, ("fd00::1".into(), Some(80), 1));
        for (key, value) in [("^V4:^NONE", "^B"), ("^V4:80", "^NONE")] {
            assert!(!parse(key, value, true).unwrap().is_served, "{key} {value}");
        }
        for (key, value, is_ipv4) in [
            ("^V4:80", "^B", false),
            ("^V6", "", true),
            ("^NONE", "", true),
            ("fd00::1:^PORT", "", false),
            ("^V4:80:80", "", true),
            ("^V4:80", "10.0.0.1", true),
            ("^V4", "10.0.0.1:80", true),
            ("^V4:80", "^B:80:80", true),
        ] {
            assert!(parse(key, value, is_ipv4).is_none(), "{key} {value}");
        }
    }

    #[test]
    fn keys_of_backends_in_distributed_templates_have_brackets() {
        let mut names = Names::default();
        let variables = [("V6", "fd00::1"), ("B6", "fd00::2"), ("B4", "10.0.0.1")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        names.set_variables(variables.into(), false);
        let parse = |value, known: &str| {
            let is_mapped = |key: &str| key == known;
            Vip::parse_template("^V6", value, false, &names, Some(&is_mapped)).unwrap()
        };
        for (value, known) in [("fd00::2", "[fd00::2]"), ("^B6", "[^B6]")] {
            let backends = [("fd00::2".parse().unwrap(), 0)];
            assert_eq!(parse(value, known).backends, backends, "{value}");
            let other = parse(value, "[fd00::3]");
            assert!(other.backends.is_empty() && other.is_served, "{value}");
        }
        assert!(!parse("^B4", "[^B4]").is_served);
    }
}
