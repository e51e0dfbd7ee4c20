//! Rules of layer2 networks.

use ipnet::IpNet;

use super::rule_checker::RuleChecker;
use super::validation::{JOIN_SUBNETS_ROLE, MTU_IPV6, check_ipam, check_mtu, ipam_disabled};
use super::{Layer2Config, NetworkRole};
use crate::address::parse_cidr;

pub(super) fn check(rules: &mut RuleChecker, field: &str, config: &Layer2Config) {
    let primary = config.role == NetworkRole::Primary;
    let subnets_field = format!("{field}.subnets");
    let subnets = rules.dual_stack_cidrs(&subnets_field, config.subnets.as_deref());
    let disabled = ipam_disabled(config.ipam.as_ref());
    rules.check(
        disabled || config.subnets.is_some(),
        &subnets_field,
        "Subnets is required with ipam.mode is Enabled or unset",
    );
    rules.check(
        !disabled || config.subnets.is_none(),
        &subnets_field,
        "Subnets must be unset when ipam.mode is Disabled",
    );
    rules.check(
        !disabled || !primary,
        format!("{field}.ipam.mode"),
        "Disabled ipam.mode is only supported for Secondary network",
    );
    check_ipam(rules, &format!("{field}.ipam"), config.ipam.as_ref());
    let join_subnets = format!("{field}.joinSubnets");
    rules.dual_stack_cidrs(&join_subnets, config.join_subnets.as_deref());
    rules.check(config.join_subnets.is_none() || primary, join_subnets, JOIN_SUBNETS_ROLE);
    check_mtu(rules, field, config.mtu, &subnets, MTU_IPV6);
    let reserved = check_ranges(
        rules,
        field,
        "reservedSubnets",
        config,
        config.reserved_subnets.as_deref(),
        25,
    );
    let infrastructure = check_ranges(
        rules,
        field,
        "infrastructureSubnets",
        config,
        config.infrastructure_subnets.as_deref(),
        4,
    );
    let overlap = infrastructure
        .iter()
        .any(|infra| reserved.iter().any(|other| infra.contains(other) || other.contains(infra)));
    rules.check(
        !overlap,
        format!("{field}.infrastructureSubnets"),
        "infrastructureSubnets and reservedSubnets must not overlap",
    );
    check_gateways(rules, field, config, &subnets, &infrastructure);
}

/// `reservedSubnets` and `infrastructureSubnets`: ranges inside the network's own.
fn check_ranges(
    rules: &mut RuleChecker,
    field: &str,
    name: &str,
    config: &Layer2Config,
    texts: Option<&[String]>,
    most: usize,
) -> Vec<IpNet> {
    let Some(texts) = texts else {
        return Vec::new();
    };
    let field = format!("{field}.{name}");
    rules.items(&field, texts.len(), most);
    rules.check(
        config.subnets.is_some(),
        &field,
        format!("{name} must be unset when subnets is unset"),
    );
    rules.check(
        config.role == NetworkRole::Primary,
        &field,
        format!("{name} is only supported for Primary network"),
    );
    let cidrs: Vec<IpNet> = texts
        .iter()
        .enumerate()
        .filter_map(|(index, text)| rules.cidr(&format!("{field}[{index}]"), text))
        .collect();
    rules.check(
        cidrs.iter().all(|cidr| cidr.trunc() == *cidr),
        &field,
        format!("{name} must be a masked network address (no host bits set)"),
    );
    let subnets: Vec<IpNet> =
        config.subnets.iter().flatten().filter_map(|subnet| parse_cidr(subnet)).collect();
    rules.check(
        config.subnets.is_none()
            || cidrs.iter().all(|cidr| subnets.iter().any(|subnet| subnet.contains(cidr))),
        &field,
        format!("{name} must be subnetworks of the networks specified in the subnets field"),
    );
    cidrs
}

fn check_gateways(
    rules: &mut RuleChecker,
    field: &str,
    config: &Layer2Config,
    subnets: &[IpNet],
    infrastructure: &[IpNet],
) {
    let Some(texts) = &config.default_gateway_ips else {
        return;
    };
    let field = format!("{field}.defaultGatewayIPs");
    let gateways = rules.dual_stack_ips(&field, Some(texts));
    let inside =
        |ranges: &[IpNet]| gateways.iter().all(|ip| ranges.iter().any(|range| range.contains(ip)));
    rules.check(
        config.role == NetworkRole::Primary,
        &field,
        "defaultGatewayIPs is only supported for Primary network",
    );
    rules.check(
        inside(subnets),
        &field,
        "defaultGatewayIPs must belong to one of the subnets specified in the subnets field",
    );
    rules.check(
        texts.len() == config.subnets.as_ref().map_or(0, Vec::len),
        &field,
        "defaultGatewayIPs must be specified for all IP families",
    );
    rules.check(
        config.infrastructure_subnets.is_none() || inside(infrastructure),
        &field,
        "defaultGatewayIPs have to belong to infrastructureSubnets",
    );
}
