//! Rules and list types of layer3 networks, beyond what attributes of the Rust types express.
//!
//! Lists of up to 400 subnets are compared item by item with themselves. An API server estimates
//! the highest cost of a rule, and refuses definitions with a rule above ten million. That leaves
//! about 60 units for one pair.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;

use super::schema_ext::SchemaExt;
use super::shared::{UNCHANGED, cidr, dual_stack_cidrs};

pub(super) fn add_rules(layer3: &mut JSONSchemaProps) {
    layer3.property("role").rule(UNCHANGED, "role is immutable");
    layer3.property("mtu").rule(UNCHANGED, "mtu is immutable");
    let join_subnets = layer3.property("joinSubnets");
    dual_stack_cidrs(join_subnets);
    join_subnets.rule(UNCHANGED, "joinSubnets is immutable");
    subnets(layer3.property("subnets"));
    layer3
        .rule_at(
            "joinSubnets",
            "!has(self.joinSubnets) || self.role == 'Primary'",
            "JoinSubnets is only supported for Primary network",
        )
        .rule_at(
            "mtu",
            "!has(self.mtu) || self.mtu >= 1280 || !self.subnets.exists_one(s, isCIDR(s.cidr) && \
             cidr(s.cidr).ip().family() == 6)",
            "MTU should be greater than or equal to 1280 when IPv6 subnet is used",
        )
        .rule_at(
            "subnets",
            "self.role != 'Secondary' || self.subnets == oldSelf.subnets",
            "Subnets is immutable for Secondary role",
        )
        .rule_at(
            "subnets",
            "self.role != 'Secondary' || size(self.subnets) <= 2",
            "Secondary networks may define at most 2 subnets",
        )
        .rule_at(
            "subnets",
            "self.role != 'Secondary' || size(self.subnets) != 2 || !isCIDR(self.subnets[0].cidr) || \
             !isCIDR(self.subnets[1].cidr) || cidr(self.subnets[0].cidr).ip().family() != \
             cidr(self.subnets[1].cidr).ip().family()",
            "When 2 CIDRs are set for Secondary networks, they must be from different IP families",
        );
}

fn subnets(list: &mut JSONSchemaProps) {
    let host_subnet = |item: &str| format!("(has({item}.hostSubnet) ? {item}.hostSubnet : -1)");
    list.atomic()
        .rule(
            "oldSelf.all(o, self.exists(s, s.cidr == o.cidr))",
            "Removing existing subnets is not allowed",
        )
        .rule(
            format!(
                "oldSelf.all(o, self.all(s, s.cidr != o.cidr || {} == {}))",
                host_subnet("s"),
                host_subnet("o")
            ),
            "hostSubnet is immutable",
        )
        .rule(
            // A list of one, so that this subnet is read once and not for each of the others. What
            // decides most pairs comes first.
            "!self.all(s, isCIDR(s.cidr)) || self.all(a, [cidr(a.cidr)].all(range, self.all(b, \
             !range.containsCIDR(b.cidr) || a.cidr == b.cidr)))",
            "Subnets must not overlap or contain each other",
        )
        .rule("self.all(a, !isCIDR(a.cidr) || self.exists_one(b, b.cidr == a.cidr))", "Subnets with same CIDR are not allowed")
        .rule(
            format!(
                "self.all(a, !isCIDR(a.cidr) || [cidr(a.cidr).ip().family()].all(family, self.all(b, {} == {} || \
                 !isCIDR(b.cidr) || cidr(b.cidr).ip().family() != family)))",
                host_subnet("a"),
                host_subnet("b")
            ),
            "Subnets from the same IP family must use the same hostSubnet value",
        );
    let item = list.item();
    item.rule_at(
        "hostSubnet",
        "!has(self.hostSubnet) || !isCIDR(self.cidr) || self.hostSubnet > cidr(self.cidr).prefixLength()",
        "HostSubnet must be smaller than CIDR subnet",
    );
    item.rule_at(
        "hostSubnet",
        "!has(self.hostSubnet) || !isCIDR(self.cidr) || cidr(self.cidr).ip().family() != 4 || self.hostSubnet < 32",
        "HostSubnet must < 32 for ipv4 CIDR",
    );
    cidr(item.property("cidr"));
}
