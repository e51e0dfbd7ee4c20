//! Rules and list types of `UserDefinedNetwork`, beyond what attributes of the Rust types express.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;

use super::schema_ext::SchemaExt;
use super::shared::UNCHANGED;
use super::{layer2, layer3};

pub(super) fn add_rules(spec: &mut JSONSchemaProps) {
    topologies(spec, &["layer3", "layer2"]);
    layer3::add_rules(spec.property("layer3"));
    layer2::add_rules(spec.property("layer2"));
}

/// Adds the rules of the union of topologies. Each member is named as its topology, in lower case.
pub(super) fn topologies(network: &mut JSONSchemaProps, members: &[&str]) {
    network.property("topology").rule(UNCHANGED, "Topology is immutable");
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
