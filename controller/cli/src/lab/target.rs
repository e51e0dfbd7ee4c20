//! Targets of questions at the prompt of a lab.

use patchbay_lab::Protocol;

/// Beginnings of services among the targets. `reach` has both, too.
const SERVICES: [&str; 2] = ["svc/", "service/"];

/// Target of a question.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Target<'a> {
    /// Service, as `NAMESPACE/NAME` or `NAME`.
    Service(&'a str),
    /// Pod or address.
    Other(&'a str),
}

/// Reads a target without a port, to which echo requests go.
pub(super) fn read_echo_target(target: &str) -> Result<&str, String> {
    match as_service(target) {
        None => Ok(target),
        Some(service) => {
            Err(format!("a service answers at its ports only: tcp POD svc/{service}:PORT, or udp"))
        }
    }
}

/// Reads `POD:PORT`, `svc/SERVICE:PORT` or `ADDRESS:PORT`. IPv6 addresses may have brackets.
pub(super) fn read_target<'a>(
    protocol: &str,
    target: &'a str,
) -> Result<(Target<'a>, Protocol), String> {
    let parts = target.rsplit_once(':').and_then(|(name, port)| {
        let protocol = format!("{protocol} {port}").parse().ok()?;
        Some((name, protocol))
    });
    let (name, protocol) = parts.ok_or_else(|| {
        format!(
            "{target:?} is not POD:PORT, svc/SERVICE:PORT or ADDRESS:PORT with a port from 1 to 49151"
        )
    })?;
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let name = inner.unwrap_or(name);
    let target = as_service(name).map_or(Target::Other(name), Target::Service);
    Ok((target, protocol))
}

/// The service of a target. `None`: it is another one.
pub(super) fn as_service(target: &str) -> Option<&str> {
    let mut services = SERVICES.iter();
    services.find_map(|beginning| target.strip_prefix(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_services_and_addresses_are_distinguished() {
        let (web, dns) = (Protocol::Tcp(80), Protocol::Udp(53));
        for (protocol, target, expected) in [
            ("tcp", "web:80", (Target::Other("web"), web)),
            ("tcp", "shop/web:80", (Target::Other("shop/web"), web)),
            ("tcp", "svc/shop/web:80", (Target::Service("shop/web"), web)),
            ("udp", "service/dns:53", (Target::Service("dns"), dns)),
            ("tcp", "[fd00::3]:80", (Target::Other("fd00::3"), web)),
            ("udp", "10.0.0.3:53", (Target::Other("10.0.0.3"), dns)),
        ] {
            assert_eq!(read_target(protocol, target), Ok(expected));
        }
        for target in ["web", "svc/web", "web:0", "web:http", "web:50000"] {
            assert!(read_target("tcp", target).is_err(), "{target}");
        }
    }

    #[test]
    fn a_service_has_no_echo() {
        assert_eq!(read_echo_target("shop/web"), Ok("shop/web"));
        let error = read_echo_target("svc/shop/web").unwrap_err();
        let expected = "a service answers at its ports only: tcp POD svc/shop/web:PORT, or udp";
        assert_eq!(error, expected);
    }
}
