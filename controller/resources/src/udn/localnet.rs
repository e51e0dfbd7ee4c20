//! Rules of localnet networks.

use super::rule_checker::RuleChecker;
use super::validation::{check_ipam, check_mtu, ipam_disabled};
use super::{LocalnetConfig, NetworkRole, VlanConfig, VlanMode};

pub(super) fn check(rules: &mut RuleChecker, field: &str, config: &LocalnetConfig) {
    rules.check(
        config.role == NetworkRole::Secondary,
        format!("{field}.role"),
        "Unsupported value: \"Primary\": supported values: \"Secondary\"",
    );
    let name_field = format!("{field}.physicalNetworkName");
    rules.length(&name_field, &config.physical_network_name, 253);
    rules.check(
        !config.physical_network_name.contains([',', ':']),
        name_field,
        "physicalNetworkName cannot contain `,` or `:` characters",
    );
    let subnets_field = format!("{field}.subnets");
    let subnets = rules.dual_stack_cidrs(&subnets_field, config.subnets.as_deref());
    rules.check(
        ipam_disabled(config.ipam.as_ref()) == config.subnets.is_none(),
        subnets_field,
        "Subnets is required with ipam.mode is Enabled or unset, and forbidden otherwise",
    );
    if let Some(excluded) = &config.exclude_subnets {
        let field = format!("{field}.excludeSubnets");
        rules.items(&field, excluded.len(), 25);
        rules.check(
            config.subnets.is_some(),
            &field,
            "excludeSubnets must be unset when subnets is unset",
        );
        for (index, text) in excluded.iter().enumerate() {
            rules.cidr(&format!("{field}[{index}]"), text);
        }
    }
    check_ipam(rules, &format!("{field}.ipam"), config.ipam.as_ref());
    let mtu_message = "MTU should be greater than or equal to 1280 when an IPv6 subnet is used";
    check_mtu(rules, field, config.mtu, &subnets, mtu_message);
    if let Some(VlanConfig { mode: VlanMode::Access, access }) = &config.vlan {
        let field = format!("{field}.vlan.access");
        rules.check(
            access.is_some(),
            &field,
            "vlan access config is required when vlan mode is 'Access', and forbidden otherwise",
        );
        rules.range(&format!("{field}.id"), access.as_ref().map(|access| access.id), 1, 4094);
    }
}
