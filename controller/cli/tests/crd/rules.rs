//! Every rule with an object that it refuses, in the words of the specification.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::corpus::{CLUSTER_NETWORKS, CONNECTS, NETWORKS, spec};
use crate::definition::Definition;
use crate::structure::walk;

/// An object, perhaps in place of another, and all that is told about it: field and message, without `spec` before.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) new: &'static str,
    pub(crate) old: Option<&'static str>,
    pub(crate) told: &'static [&'static str],
}

pub(crate) const fn refused(new: &'static str, told: &'static [&'static str]) -> Case {
    Case {
        new,
        old: None,
        told,
    }
}

pub(crate) const fn change(
    old: &'static str,
    new: &'static str,
    told: &'static [&'static str],
) -> Case {
    Case {
        new,
        old: Some(old),
        told,
    }
}

/// Good objects are accepted, bad ones refused in these words and no others, both by the definition and in Rust; and
/// every rule of the definition is among them.
fn check(definition: &Definition, good: &[&str], cases: &[Case]) {
    for yaml in good {
        let spec = spec(yaml);
        for old in [None, Some(&spec)] {
            assert_eq!(
                definition.judge(&spec, old).found,
                BTreeSet::new(),
                "{yaml}"
            );
            definition.agree(&spec, old).unwrap();
        }
    }
    let mut told = BTreeSet::new();
    for case in cases {
        let (new, old) = (spec(case.new), case.old.map(spec));
        let expected: BTreeSet<_> = case.told.iter().map(|&text| full(text)).collect();
        assert_eq!(
            definition.judge(&new, old.as_ref()).found,
            expected,
            "{}",
            case.new
        );
        definition.agree(&new, old.as_ref()).unwrap();
        told.extend(
            expected
                .iter()
                .map(|text| text.split_once(": ").unwrap().1.to_owned()),
        );
    }
    walk(&definition.schema, &mut |part| {
        for rule in part.schema["x-kubernetes-validations"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let message = rule["message"].as_str().unwrap();
            assert!(
                told.contains(message),
                "no case for {}: {message}",
                part.path
            );
        }
    });
}

/// The path from the root: the cases leave `spec` out, except at rules of `spec` itself.
fn full(text: &str) -> String {
    if text.starts_with(": ") {
        format!("spec{text}")
    } else {
        format!("spec.{text}")
    }
}

#[test]
fn connects() {
    check(
        &Definition::connect(),
        &CONNECTS,
        &crate::refused::connects(),
    );
}

#[test]
fn networks() {
    check(&Definition::network(), &NETWORKS, crate::refused::NETWORKS);
}

#[test]
fn cluster_networks() {
    check(
        &Definition::cluster_network(),
        &CLUSTER_NETWORKS,
        &cluster_network_cases(),
    );
}

/// The rules of layer2 and layer3 are those of the other kind, at other paths.
pub(crate) fn cluster_network_cases() -> Vec<Case> {
    let moved = crate::refused::NETWORKS.iter().map(moved);
    let own = crate::refused::CLUSTER_NETWORKS.iter().copied();
    moved.chain(own).collect()
}

/// A case of a network as one of a network in a cluster-wide one.
fn moved(case: &Case) -> Case {
    let wrap = |yaml: &str| &*format!("{{namespaceSelector: {{}}, network: {yaml}}}").leak();
    let told: Vec<&str> = case
        .told
        .iter()
        .map(|text| &*format!("network.{text}").leak())
        .collect();
    Case {
        new: wrap(case.new),
        old: case.old.map(wrap),
        told: told.leak(),
    }
}

/// Whether a value fits the types but not the limits is told in the words of API servers.
#[test]
fn words_of_the_schema() {
    let definition = Definition::connect();
    let judge = |change: fn(&mut Value)| {
        let mut spec = spec(CONNECTS[0]);
        change(&mut spec);
        definition
            .judge(&spec, None)
            .found
            .into_iter()
            .collect::<Vec<_>>()
            .join("; ")
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
        assert_eq!(judge(change), expected);
    }
}
