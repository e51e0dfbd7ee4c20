//! Rules and list types of localnet networks, beyond what attributes of the Rust types express.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{JSON, JSONSchemaProps};
use serde_json::json;

use super::schema_ext::SchemaExt;
use super::shared::{IPAM_DISABLED, UNCHANGED, cidrs, dual_stack_cidrs, ipam};

pub(super) fn add_rules(localnet: &mut JSONSchemaProps) {
    localnet.property("role").enum_ = Some(vec![JSON(json!("Secondary"))]);
    localnet.property("physicalNetworkName").rule(
        "self.matches('^[^,:]*$')",
        "physicalNetworkName cannot contain `,` or `:` characters",
    );
    dual_stack_cidrs(localnet.property("subnets"));
    cidrs(localnet.property("excludeSubnets"));
    ipam(localnet.property("ipam"));
    localnet.property("vlan").rule_at(
        "access",
        "(self.mode == 'Access') == has(self.access)",
        "vlan access config is required when vlan mode is 'Access', and forbidden otherwise",
    );
    localnet
        .rule(UNCHANGED, "Localnet is immutable")
        .rule_at(
            "subnets",
            format!("{IPAM_DISABLED} != has(self.subnets)"),
            "Subnets is required with ipam.mode is Enabled or unset, and forbidden otherwise",
        )
        .rule_at(
            "excludeSubnets",
            "!has(self.excludeSubnets) || has(self.subnets)",
            "excludeSubnets must be unset when subnets is unset",
        )
        .rule_at(
            "mtu",
            "!has(self.mtu) || self.mtu >= 1280 || !has(self.subnets) || !self.subnets.exists_one(s, isCIDR(s) && \
             cidr(s).ip().family() == 6)",
            "MTU should be greater than or equal to 1280 when an IPv6 subnet is used",
        );
}
