//! The collector of violations, and the rules for single values and lists of them.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::address::{parse_cidr, parse_ip};
use patchbay_model::FieldProblem;

/// Violations found so far in one object.
#[derive(Default)]
pub(super) struct RuleChecker {
    pub(super) found: Vec<FieldProblem>,
}

impl RuleChecker {
    /// Notes the message unless the rule holds.
    pub(super) fn check(
        &mut self,
        holds: bool,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        if !holds {
            self.found.push(FieldProblem::new(field, message));
        }
    }

    pub(super) fn range(&mut self, field: &str, value: Option<i32>, least: i32, most: i32) {
        let Some(value) = value else { return };
        self.check(value >= least, field, format!("should be greater than or equal to {least}"));
        self.check(value <= most, field, format!("should be less than or equal to {most}"));
    }

    /// The number of items of a list.
    pub(super) fn items(&mut self, field: &str, count: usize, most: usize) {
        self.check(count > 0, field, "should have at least 1 items");
        let noun = if most == 1 { "item" } else { "items" };
        self.check(
            count <= most,
            field,
            format!("Too many: {count}: must have at most {most} {noun}"),
        );
    }

    /// The number of characters of a text that may not be empty.
    pub(super) fn length(&mut self, field: &str, text: &str, most: usize) -> bool {
        self.check(!text.is_empty(), field, "should be at least 1 chars long");
        self.at_most(field, text, most) && !text.is_empty()
    }

    /// The number of characters of a text. API servers count characters and name them bytes in
    /// errors.
    pub(super) fn at_most(&mut self, field: &str, text: &str, most: usize) -> bool {
        let fits = text.chars().count() <= most;
        self.check(fits, field, format!("Too long: may not be more than {most} bytes"));
        fits
    }

    /// A CIDR with or without host bits.
    pub(super) fn cidr(&mut self, field: &str, text: &str) -> Option<IpNet> {
        if !self.at_most(field, text, 43) {
            return None;
        }
        let cidr = parse_cidr(text);
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

pub(super) fn is_v4(cidr: &IpNet) -> bool {
    cidr.addr().is_ipv4()
}
