//! The collector of violations, and the rules for single values and lists of them.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::api::Violation;

/// Violations found so far in one object.
#[derive(Default)]
pub(super) struct Rules {
    pub(super) found: Vec<Violation>,
}

impl Rules {
    /// Notes the message unless the rule holds.
    pub(super) fn check(
        &mut self,
        holds: bool,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        if !holds {
            self.found.push(Violation::new(field, message));
        }
    }

    pub(super) fn range(&mut self, field: &str, value: Option<i32>, least: i32, most: i32) {
        let Some(value) = value else { return };
        self.check(
            value >= least,
            field,
            format!("should be greater than or equal to {least}"),
        );
        self.check(
            value <= most,
            field,
            format!("should be less than or equal to {most}"),
        );
    }

    /// The number of items of a list.
    pub(super) fn items(&mut self, field: &str, count: usize, most: usize) {
        self.check(count > 0, field, "should have at least 1 items");
        self.check(
            count <= most,
            field,
            format!("Too many: {count}: must have at most {most} items"),
        );
    }

    /// The number of characters of a text.
    pub(super) fn length(&mut self, field: &str, text: &str, most: usize) {
        self.check(!text.is_empty(), field, "should be at least 1 chars long");
        self.check(
            text.chars().count() <= most,
            field,
            format!("should be at most {most} chars long"),
        );
    }

    /// A network address. Its consumers drop host bits silently, so that two people would read two networks
    /// into one text; here host bits are refused, which an API server does not do.
    pub(super) fn cidr(&mut self, field: &str, text: &str) -> Option<IpNet> {
        let cidr = self.any_cidr(field, text)?;
        let masked = cidr.trunc() == cidr;
        self.check(
            masked,
            field,
            "CIDR must be a masked network address (no host bits set)",
        );
        masked.then_some(cidr)
    }

    /// A CIDR with or without host bits.
    pub(super) fn any_cidr(&mut self, field: &str, text: &str) -> Option<IpNet> {
        let cidr = (text.len() <= 43).then(|| parse_cidr(text)).flatten();
        self.check(cidr.is_some(), field, "CIDR is invalid");
        cidr
    }

    /// One network address per family.
    pub(super) fn dual_stack_cidrs(&mut self, field: &str, texts: Option<&[String]>) -> Vec<IpNet> {
        let Some(texts) = texts else {
            return Vec::new();
        };
        self.items(field, texts.len(), 2);
        let cidrs: Vec<IpNet> = texts
            .iter()
            .enumerate()
            .filter_map(|(index, text)| self.cidr(&format!("{field}[{index}]"), text))
            .collect();
        if let ([_, _], [first, second]) = (texts, &cidrs[..]) {
            self.check(
                is_v4(first) != is_v4(second),
                field,
                "When 2 CIDRs are set, they must be from different IP families",
            );
        }
        cidrs
    }

    /// One address per family.
    pub(super) fn dual_stack_ips(&mut self, field: &str, texts: Option<&[String]>) -> Vec<IpAddr> {
        let Some(texts) = texts else {
            return Vec::new();
        };
        self.items(field, texts.len(), 2);
        let mut ips = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let ip = parse_ip(text);
            self.check(ip.is_some(), format!("{field}[{index}]"), "IP is invalid");
            ips.extend(ip);
        }
        if let ([_, _], [first, second]) = (texts, &ips[..]) {
            self.check(
                first.is_ipv4() != second.is_ipv4(),
                field,
                "When 2 IPs are set, they must be from different IP families",
            );
        }
        ips
    }
}

/// An address as Kubernetes accepts it: no IPv4 inside IPv6.
fn parse_ip(text: &str) -> Option<IpAddr> {
    text.parse().ok().filter(|ip| match ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => ip.to_ipv4_mapped().is_none(),
    })
}

/// A CIDR as Kubernetes accepts it: no IPv4 inside IPv6, and the length without leading zeros.
fn parse_cidr(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    let plain = length == "0" || !length.starts_with(['0', '+']);
    plain
        .then(|| IpNet::new(parse_ip(address)?, length.parse().ok()?).ok())
        .flatten()
}

pub(super) fn is_v4(cidr: &IpNet) -> bool {
    cidr.addr().is_ipv4()
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
