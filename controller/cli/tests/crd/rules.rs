//! An object for each rule that rejects it, and the message.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::corpus::{CLUSTER_NETWORKS, CONNECTS, NETWORKS, spec};
use crate::definition::Definition;
use crate::structure::walk;

/// Rejected object or change of an object, and the messages: the path of the field without `spec`,
/// and the text.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) new: &'static str,
    pub(crate) old: Option<&'static str>,
    pub(crate) messages: &'static [&'static str],
}

pub(crate) const fn refused(new: &'static str, messages: &'static [&'static str]) -> Case {
    Case { new, old: None, messages }
}

pub(crate) const fn change(
    old: &'static str,
    new: &'static str,
    messages: &'static [&'static str],
) -> Case {
    Case { new, old: Some(old), messages }
}

/// Checks that definition and type accept valid objects and reject the cases with exactly their
/// messages, and that each rule of the definition has a case.
fn check(definition: &Definition, valid: &[&str], cases: &[Case]) {
    for yaml in valid {
        let spec = spec(yaml);
        for old in [None, Some(&spec)] {
            assert_eq!(definition.validate(&spec, old).found, BTreeSet::new(), "{yaml}");
            definition.compare(&spec, old).unwrap();
        }
    }
    let mut messages = BTreeSet::new();
    for case in cases {
        let (new, old) = (spec(case.new), case.old.map(spec));
        let expected: BTreeSet<_> = case.messages.iter().map(|&text| full(text)).collect();
        assert_eq!(definition.validate(&new, old.as_ref()).found, expected, "{}", case.new);
        definition.compare(&new, old.as_ref()).unwrap();
        messages.extend(expected.iter().map(|text| text.split_once(": ").unwrap().1.to_owned()));
    }
    walk(&definition.schema, &mut |part| {
        for rule in part.schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            let message = rule["message"].as_str().unwrap();
            assert!(messages.contains(message), "no case for {}: {message}", part.path);
        }
    });
}

/// Adds `spec` to the path of a message.
fn full(text: &str) -> String {
    if text.starts_with(": ") { format!("spec{text}") } else { format!("spec.{text}") }
}

#[test]
fn connects() {
    check(&Definition::connect(), &CONNECTS, &crate::refused::connects());
}

#[test]
fn networks() {
    check(&Definition::network(), &NETWORKS, crate::refused::NETWORKS);
}

#[test]
fn cluster_networks() {
    check(&Definition::cluster_network(), &CLUSTER_NETWORKS, &cluster_network_cases());
}

/// Cases of cluster-wide networks. The rules of layer2 and layer3 are those of
/// `UserDefinedNetwork`, at other paths.
pub(crate) fn cluster_network_cases() -> Vec<Case> {
    let moved = crate::refused::NETWORKS.iter().map(moved);
    let own = crate::refused::CLUSTER_NETWORKS.iter().copied();
    moved.chain(own).collect()
}

/// Converts a case of a `UserDefinedNetwork` into one of a `ClusterUserDefinedNetwork`.
fn moved(case: &Case) -> Case {
    let wrap = |yaml: &str| &*format!("{{namespaceSelector: {{}}, network: {yaml}}}").leak();
    let messages: Vec<&str> =
        case.messages.iter().map(|text| &*format!("network.{text}").leak()).collect();
    Case { new: wrap(case.new), old: case.old.map(wrap), messages: messages.leak() }
}

#[test]
fn messages_of_the_schema_are_those_of_api_servers() {
    let definition = Definition::connect();
    let validate = |change: fn(&mut Value)| {
        let mut spec = spec(CONNECTS[0]);
        change(&mut spec);
        definition.validate(&spec, None).found.into_iter().collect::<Vec<_>>().join("; ")
    };
    for (change, expected) in [
        (
            (|spec| spec["connectivity"][0] = "Nodes".into()) as fn(&mut Value),
            r#"spec.connectivity[0]: Unsupported value: "Nodes": supported values: "PodNetwork", "ServiceNetwork""#,
        ),
        (
            |spec| drop(spec.as_object_mut().unwrap().remove("networkSelectors")),
            "spec.networkSelectors: Required value",
        ),
        (
            |spec| spec["connectivity"] = "PodNetwork".into(),
            "spec.connectivity: must be of type array",
        ),
        (|spec| spec["color"] = 1.into(), "spec.color: unknown field"),
    ] {
        assert_eq!(validate(change), expected);
    }
}
