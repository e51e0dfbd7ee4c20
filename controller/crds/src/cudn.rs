//! Rules and list types of `ClusterUserDefinedNetwork`, beyond what attributes of the Rust types
//! express.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;

use super::schema_ext::SchemaExt;
use super::shared::{UNCHANGED, label_selector};
use super::{layer2, layer3, localnet, udn};

/// CEL of a network: its transport is `NoOverlay`.
const NO_OVERLAY: &str = "(has(self.transport) && self.transport == 'NoOverlay')";
/// CEL of a network: its transport is `EVPN`.
const EVPN: &str = "(has(self.transport) && self.transport == 'EVPN')";

pub(super) fn add_rules(spec: &mut JSONSchemaProps) {
    label_selector(spec.property("namespaceSelector"));
    let network = spec.property("network");
    udn::topologies(network, &["layer3", "layer2", "localnet"]);
    layer3::add_rules(network.property("layer3"));
    layer2::add_rules(network.property("layer2"));
    localnet::add_rules(network.property("localnet"));
    transport(network);
    evpn(network);
    uplinks(spec);
}

/// Expression in CEL: `true` if the network at this path has role `Primary`.
fn primary(network: &str, topologies: &[(&str, &str)]) -> String {
    let each = topologies.iter().map(|(topology, member)| {
        format!(
            "({network}.topology == '{topology}' && has({network}.{member}) && {network}.{member}.role == 'Primary')"
        )
    });
    each.collect::<Vec<_>>().join(" || ")
}

/// CEL of a transition: an optional member has not changed.
fn kept(member: &str) -> String {
    format!(
        "has(self.{member}) == has(oldSelf.{member}) && (!has(self.{member}) || self.{member} == oldSelf.{member})"
    )
}

fn transport(network: &mut JSONSchemaProps) {
    network.property("noOverlay").rule(UNCHANGED, "NoOverlay is immutable");
    network
        .rule_at("transport", kept("transport"), "Transport is immutable")
        .rule_at(
            "transport",
            format!("!{NO_OVERLAY} || {}", primary("self", &[("Layer3", "layer3")])),
            "transport 'NoOverlay' is only supported for Layer3 primary networks",
        )
        .rule_at(
            "transport",
            format!(
                "!{EVPN} || {}",
                primary("self", &[("Layer3", "layer3"), ("Layer2", "layer2")])
            ),
            "transport 'EVPN' is only supported for Layer2 or Layer3 primary networks",
        )
        .rule_at(
            "noOverlay",
            format!("!{NO_OVERLAY} || has(self.noOverlay)"),
            "spec.noOverlay is required when type transport is 'NoOverlay'",
        )
        .rule_at(
            "noOverlay",
            format!("{NO_OVERLAY} || !has(self.noOverlay)"),
            "spec.noOverlay is forbidden when transport type is not 'NoOverlay'",
        );
}

fn evpn(network: &mut JSONSchemaProps) {
    network
        .rule_at(
            "evpn",
            format!("!{EVPN} || has(self.evpn)"),
            "spec.evpn field is required when transport is 'EVPN'",
        )
        .rule_at(
            "evpn",
            format!("{EVPN} || !has(self.evpn)"),
            "spec.evpn field is forbidden when transport is not 'EVPN'",
        )
        .rule_at(
            "evpn",
            format!(
                "!{EVPN} || !has(self.evpn) || self.topology != 'Layer2' || has(self.evpn.macVRF)"
            ),
            "spec.evpn.macVRF field is required for Layer2 topology when transport is 'EVPN'",
        )
        .rule_at(
            "evpn",
            format!(
                "!{EVPN} || !has(self.evpn) || self.topology != 'Layer3' || has(self.evpn.ipVRF)"
            ),
            "spec.evpn.ipVRF field is required for Layer3 topology when transport is 'EVPN'",
        )
        .rule_at(
            "evpn",
            format!(
                "!{EVPN} || !has(self.evpn) || self.topology != 'Layer3' || !has(self.evpn.macVRF)"
            ),
            "spec.evpn.macVRF field is forbidden for Layer3 topology when transport is 'EVPN'",
        );
    let evpn = network.property("evpn");
    evpn.rule(
        "has(self.macVRF) || has(self.ipVRF)",
        "at least one of macVRF or ipVRF must be specified",
    )
    .rule(
        "!has(self.macVRF) || !has(self.ipVRF) || self.macVRF.vni != self.ipVRF.vni",
        "macVRF and ipVRF must use different VNIs",
    );
    for vrf in ["macVRF", "ipVRF"] {
        route_target(evpn.property(vrf).property("routeTarget"));
    }
}

/// Adds the rules of a route target. Patterns check both numbers before `int` reads them, because
/// `int` fails on other text. The patterns match the whole text, because an API server has no
/// length limit for the parts of a split text and would estimate too high a cost.
fn route_target(target: &mut JSONSchemaProps) {
    let [global, local] = ["int(self.split(':')[0])", "int(self.split(':')[1])"];
    target
        .rule("self.matches('^[^:]*:[^:]*$')", "RT must contain exactly one colon")
        .rule(
            "!self.matches('^[^:]*:[^:]*$') || self.matches('^([*]|[0-9]+):') || isIP(self.split(':')[0])",
            "RT global administrator must be either '*', an IPv4 address, or a number",
        )
        .rule(
            "!self.matches('^[^:]*:[^:]*$') || self.matches(':[0-9]+$')",
            "RT local administrator must be a number",
        )
        .rule(
            format!("!self.matches('^[*]:[0-9]+$') || self.matches(':0*[0-9]{{1,10}}$') && {local} <= 4294967295"),
            "RT with wildcard global administrator must have format *:OPQR where OPQR <= 4294967295",
        )
        .rule(
            format!(
                "!self.matches('^[0-9.]+:[0-9]+$') || !isIP(self.split(':')[0]) || \
                 self.matches(':0*[0-9]{{1,5}}$') && {local} <= 65535"
            ),
            "RT with IPv4 global administrator must have format A.B.C.D:MN where MN <= 65535",
        )
        .rule(
            format!(
                "!self.matches('^[0-9]+:[0-9]+$') || self.matches('^0*[0-9]{{1,5}}:') && {global} <= 65535 || \
                 self.matches('^0*[0-9]{{1,10}}:0*[0-9]{{1,5}}$') && {global} <= 4294967295 && {local} <= 65535"
            ),
            "RT with 4-byte ASN global administrator must have format GHJK:MN where GHJK <= 4294967295 and MN <= 65535",
        )
        .rule(
            format!(
                "!self.matches('^0*[0-9]{{1,5}}:[0-9]+$') || {global} > 65535 || \
                 self.matches(':0*[0-9]{{1,10}}$') && {local} <= 4294967295"
            ),
            "RT with 2-byte ASN global administrator must have format EF:OPQR where EF <= 65535 and OPQR <= 4294967295",
        );
}

fn uplinks(spec: &mut JSONSchemaProps) {
    spec.property("uplinks").atomic();
    let primary = primary("self.network", &[("Layer3", "layer3"), ("Layer2", "layer2")]);
    spec.rule_at("uplinks", kept("uplinks"), "uplinks is immutable")
        .rule_at(
            "uplinks",
            format!("!has(self.uplinks) || {primary}"),
            "spec.uplinks is supported only for primary Layer2 and Layer3 networks",
        )
        .rule_at(
            "uplinks",
            "!has(self.uplinks) || !has(self.network.transport) || self.network.transport != 'EVPN'",
            "spec.uplinks is not supported with EVPN transport",
        );
}
