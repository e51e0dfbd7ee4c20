//! Rules of layer3 networks.

use ipnet::IpNet;

use super::rule_checker::{RuleChecker, is_v4};
use super::validation::{JOIN_SUBNETS_ROLE, MTU_IPV6, check_mtu};
use super::{Layer3Config, Layer3Subnet, NetworkRole};

pub(super) fn check(rules: &mut RuleChecker, field: &str, config: &Layer3Config) {
    let subnets_field = format!("{field}.subnets");
    rules.items(&subnets_field, config.subnets.len(), 400);
    let mut cidrs = Vec::new();
    for (index, subnet) in config.subnets.iter().enumerate() {
        let item = format!("{subnets_field}[{index}]");
        rules.range(&format!("{item}.hostSubnet"), subnet.host_subnet, 1, 127);
        if let Some(cidr) = rules.cidr(&format!("{item}.cidr"), &subnet.cidr) {
            check_host_subnet(rules, &format!("{item}.hostSubnet"), cidr, subnet.host_subnet);
            cidrs.push((cidr, subnet));
        }
    }
    if config.role == NetworkRole::Secondary {
        rules.check(
            config.subnets.len() <= 2,
            &subnets_field,
            "Secondary networks may define at most 2 subnets",
        );
        if let ([_, _], [(first, _), (second, _)]) = (&config.subnets[..], &cidrs[..]) {
            rules.check(
                is_v4(first) != is_v4(second),
                &subnets_field,
                "When 2 CIDRs are set for Secondary networks, they must be from different IP families",
            );
        }
    }
    // An API server cannot afford to look at each pair whether both are readable.
    let all_readable = cidrs.len() == config.subnets.len();
    check_subnets_together(rules, &subnets_field, &cidrs, all_readable);
    let join_subnets = format!("{field}.joinSubnets");
    rules.dual_stack_cidrs(&join_subnets, config.join_subnets.as_deref());
    rules.check(
        config.join_subnets.is_none() || config.role == NetworkRole::Primary,
        join_subnets,
        JOIN_SUBNETS_ROLE,
    );
    let cidrs: Vec<_> = cidrs.into_iter().map(|(cidr, _)| cidr).collect();
    check_mtu(rules, field, config.mtu, &cidrs, MTU_IPV6);
}

fn check_host_subnet(rules: &mut RuleChecker, field: &str, cidr: IpNet, host_subnet: Option<i32>) {
    let Some(host_subnet) = host_subnet else {
        return;
    };
    rules.check(
        host_subnet > i32::from(cidr.prefix_len()),
        field,
        "HostSubnet must be smaller than CIDR subnet",
    );
    rules.check(!is_v4(&cidr) || host_subnet < 32, field, "HostSubnet must < 32 for ipv4 CIDR");
}

fn check_subnets_together(
    rules: &mut RuleChecker,
    field: &str,
    cidrs: &[(IpNet, &Layer3Subnet)],
    all_readable: bool,
) {
    let pairs = || {
        let later = |index: usize| cidrs[index + 1..].iter();
        let each = cidrs.iter().enumerate();
        each.flat_map(move |(index, one)| later(index).map(move |other| (one, other)))
    };
    rules.check(
        !all_readable
            || !pairs().any(|((a, _), (b, _))| a != b && (a.contains(b) || b.contains(a))),
        field,
        "Subnets must not overlap or contain each other",
    );
    rules.check(
        !pairs().any(|((a, _), (b, _))| a == b),
        field,
        "Subnets with same CIDR are not allowed",
    );
    rules.check(
        !pairs().any(|((a, one), (b, other))| {
            is_v4(a) == is_v4(b) && one.host_subnet != other.host_subnet
        }),
        field,
        "Subnets from the same IP family must use the same hostSubnet value",
    );
}
