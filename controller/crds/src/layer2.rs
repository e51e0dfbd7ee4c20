//! Rules and list types of layer2 networks, beyond what attributes of the Rust types express.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;

use super::schema_ext::SchemaExt;
use super::shared::{IPAM_DISABLED, UNCHANGED, cidrs, dual_stack_cidrs, dual_stack_ips, ipam};

pub(super) fn add_rules(layer2: &mut JSONSchemaProps) {
    dual_stack_cidrs(layer2.property("subnets"));
    dual_stack_cidrs(layer2.property("joinSubnets"));
    dual_stack_ips(layer2.property("defaultGatewayIPs"));
    ipam(layer2.property("ipam"));
    layer2
        .rule(UNCHANGED, "Layer2 is immutable")
        .rule_at(
            "subnets",
            format!("{IPAM_DISABLED} || has(self.subnets)"),
            "Subnets is required with ipam.mode is Enabled or unset",
        )
        .rule_at(
            "subnets",
            format!("!{IPAM_DISABLED} || !has(self.subnets)"),
            "Subnets must be unset when ipam.mode is Disabled",
        )
        .rule_at(
            "ipam.mode",
            format!("!{IPAM_DISABLED} || self.role == 'Secondary'"),
            "Disabled ipam.mode is only supported for Secondary network",
        )
        .rule_at(
            "joinSubnets",
            "!has(self.joinSubnets) || self.role == 'Primary'",
            "JoinSubnets is only supported for Primary network",
        )
        .rule_at(
            "mtu",
            "!has(self.mtu) || self.mtu >= 1280 || !has(self.subnets) || !self.subnets.exists_one(s, isCIDR(s) && \
             cidr(s).ip().family() == 6)",
            "MTU should be greater than or equal to 1280 when IPv6 subnet is used",
        );
    ranges(layer2, "reservedSubnets");
    ranges(layer2, "infrastructureSubnets");
    layer2.rule_at(
        "infrastructureSubnets",
        "!has(self.infrastructureSubnets) || !has(self.reservedSubnets) || self.infrastructureSubnets.all(i, \
         !isCIDR(i) || self.reservedSubnets.all(r, !isCIDR(r) || !cidr(i).containsCIDR(cidr(r)) && \
         !cidr(r).containsCIDR(cidr(i))))",
        "infrastructureSubnets and reservedSubnets must not overlap",
    );
    gateways(layer2);
}

/// Adds the rules of `reservedSubnets` and `infrastructureSubnets`, which are inside the network's
/// ranges.
fn ranges(layer2: &mut JSONSchemaProps, name: &str) {
    let list = layer2.property(name);
    cidrs(list);
    list.rule(
        "self.all(s, !isCIDR(s) || cidr(s) == cidr(s).masked())",
        &format!("{name} must be a masked network address (no host bits set)"),
    );
    layer2
        .rule_at(
            name,
            format!("!has(self.{name}) || has(self.subnets)"),
            &format!("{name} must be unset when subnets is unset"),
        )
        .rule_at(
            name,
            format!("!has(self.{name}) || self.role == 'Primary'"),
            &format!("{name} is only supported for Primary network"),
        )
        .rule_at(
            name,
            format!(
                "!has(self.{name}) || !has(self.subnets) || self.{name}.all(s, !isCIDR(s) || \
                 self.subnets.exists(n, isCIDR(n) && cidr(n).containsCIDR(cidr(s))))"
            ),
            &format!("{name} must be subnetworks of the networks specified in the subnets field"),
        );
}

fn gateways(layer2: &mut JSONSchemaProps) {
    let field = "defaultGatewayIPs";
    layer2
        .rule_at(
            field,
            "!has(self.defaultGatewayIPs) || self.role == 'Primary'",
            "defaultGatewayIPs is only supported for Primary network",
        )
        .rule_at(
            field,
            "!has(self.defaultGatewayIPs) || self.defaultGatewayIPs.all(g, !isIP(g) || has(self.subnets) && \
             self.subnets.exists(s, isCIDR(s) && cidr(s).containsIP(ip(g))))",
            "defaultGatewayIPs must belong to one of the subnets specified in the subnets field",
        )
        .rule_at(
            field,
            "!has(self.defaultGatewayIPs) || size(self.defaultGatewayIPs) == (has(self.subnets) ? \
             size(self.subnets) : 0)",
            "defaultGatewayIPs must be specified for all IP families",
        )
        .rule_at(
            field,
            "!has(self.defaultGatewayIPs) || !has(self.infrastructureSubnets) || self.defaultGatewayIPs.all(g, \
             !isIP(g) || self.infrastructureSubnets.exists(s, isCIDR(s) && cidr(s).containsIP(ip(g))))",
            "defaultGatewayIPs have to belong to infrastructureSubnets",
        );
}
