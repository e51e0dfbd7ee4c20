//! Rules and list types of `ClusterNetworkConnect`, beyond what attributes of the Rust types
//! express.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;

use super::schema_ext::SchemaExt;
use super::shared::{UNCHANGED, label_selector};

/// Types of selectors that have a member, with that member and the label selectors in it.
const SELECTORS: [(&str, &str, &[&str]); 4] = [
    ("ClusterUserDefinedNetworks", "clusterUserDefinedNetworkSelector", &["networkSelector"]),
    ("PrimaryUserDefinedNetworks", "primaryUserDefinedNetworkSelector", &["namespaceSelector"]),
    (
        "SecondaryUserDefinedNetworks",
        "secondaryUserDefinedNetworkSelector",
        &["namespaceSelector", "networkSelector"],
    ),
    (
        "NetworkAttachmentDefinitions",
        "networkAttachmentDefinitionSelector",
        &["namespaceSelector", "networkSelector"],
    ),
];

pub(super) fn add_rules(spec: &mut JSONSchemaProps) {
    spec.rule(
        "self.networkSelectors.all(s, s.networkSelectionType in ['ClusterUserDefinedNetworks', \
         'PrimaryUserDefinedNetworks', 'NetworkAttachmentDefinitions'])",
        "Only ClusterUserDefinedNetworks, PrimaryUserDefinedNetworks \
         or NetworkAttachmentDefinitions of Kube-OVN can be selected",
    );
    let selector = spec.property("networkSelectors").keyed_by("networkSelectionType").item();
    for (kind, member, labels) in SELECTORS {
        selector.rule(
            format!("(self.networkSelectionType == '{kind}') == has(self.{member})"),
            &format!(
                "Inconsistent selector: both networkSelectionType {kind} and {member} have to be set or neither"
            ),
        );
        for name in labels {
            label_selector(selector.property(member).property(name));
        }
    }
    connect_subnets(spec.property("connectSubnets"));
    spec.property("connectivity").atomic().rule(
        "self.all(c, self.exists_one(other, other == c))",
        "connectivity cannot contain duplicate values",
    );
}

fn connect_subnets(list: &mut JSONSchemaProps) {
    let host_bits = |item: &str| {
        format!(
            "(cidr(self[{item}].cidr).ip().family() == 4 ? 32 : 128) - self[{item}].networkPrefix"
        )
    };
    let skipped = "size(self) != 2 || !isCIDR(self[0].cidr) || !isCIDR(self[1].cidr)";
    let family = |item: &str| format!("cidr(self[{item}].cidr).ip().family()");
    list.atomic()
        .rule(UNCHANGED, "connectSubnets is immutable")
        .rule(
            format!("{skipped} || {} != {}", family("0"), family("1")),
            "When 2 CIDRs are set, they must be from different IP families",
        )
        .rule(
            format!(
                "{skipped} || {} == {} || {} == {}",
                family("0"),
                family("1"),
                host_bits("0"),
                host_bits("1")
            ),
            "For dual-stack, networkPrefix must have matching host bits: (32 - ipv4NetworkPrefix) must equal (128 - \
             ipv6NetworkPrefix)",
        );
    let item = list.item();
    item.rule(
        "!isCIDR(self.cidr) || self.networkPrefix > cidr(self.cidr).prefixLength()",
        "NetworkPrefix must be longer than the CIDR prefix length",
    );
    item.rule(
        "!isCIDR(self.cidr) || cidr(self.cidr).ip().family() != 4 || self.networkPrefix < 32",
        "NetworkPrefix must < 32 for ipv4 CIDR",
    );
    item.property("cidr").rule(
        "isCIDR(self) && cidr(self) == cidr(self).masked()",
        "CIDR must be a valid network address",
    );
}
