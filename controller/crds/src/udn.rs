//! What derives cannot say of `UserDefinedNetwork`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;

use super::refine::Refine;
use super::shared::UNCHANGED;
use super::{layer2, layer3};

pub(super) fn refine(spec: &mut JSONSchemaProps) {
    topologies(spec, &["layer3", "layer2"]);
    layer3::refine(spec.property("layer3"));
    layer2::refine(spec.property("layer2"));
}

/// The union of the topologies' members, each named as its topology, but with a small letter.
pub(super) fn topologies(network: &mut JSONSchemaProps, members: &[&str]) {
    network
        .property("topology")
        .rule(UNCHANGED, "Topology is immutable");
    for member in members {
        let topology = member.replacen('l', "L", 1);
        network.rule_at(
            member,
            format!("(self.topology == '{topology}') == has(self.{member})"),
            &format!(
                "spec.{member} is required when topology is {topology} and forbidden otherwise"
            ),
        );
    }
}
