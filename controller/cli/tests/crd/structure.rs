//! Rules of API servers for definitions.

use patchbay_crds as crd;
use serde_json::Value;

use crate::definition::printed;

pub(crate) const KINDS: [&str; 5] = [
    "ClusterNetworkConnect",
    "UserDefinedNetwork",
    "ClusterUserDefinedNetwork",
    "NetworkAttachmentDefinition",
    "IPAMClaim",
];

/// Part of a schema.
pub(crate) struct Part<'a> {
    pub(crate) path: String,
    pub(crate) schema: &'a Value,
    /// Largest number of its values in one object.
    pub(crate) count: u64,
    /// `true` if an API server finds the corresponding value of the old object.
    pub(crate) is_correlatable: bool,
}

/// Calls `visit` for all parts of a schema.
pub(crate) fn walk<'a>(schema: &'a Value, visit: &mut dyn FnMut(&Part<'a>)) {
    fn down<'a>(part: &Part<'a>, visit: &mut dyn FnMut(&Part<'a>)) {
        visit(part);
        let Part { path, schema, count, is_correlatable } = part;
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            down(
                &Part { path, schema: property, count: *count, is_correlatable: *is_correlatable },
                visit,
            );
        }
        for (name, below, keeps) in [
            ("items", &schema["items"], schema["x-kubernetes-list-type"] == "map"),
            ("additionalProperties", &schema["additionalProperties"], true),
        ] {
            if below.is_object() {
                let most = schema["maxItems"].as_u64().unwrap_or(u64::MAX);
                let count = count.saturating_mul(most);
                down(
                    &Part {
                        path: format!("{path}.{name}"),
                        schema: below,
                        count,
                        is_correlatable: *is_correlatable && keeps,
                    },
                    visit,
                );
            }
        }
    }
    down(&Part { path: String::new(), schema, count: 1, is_correlatable: true }, visit);
}

fn schema(kind: &str) -> Value {
    let definition = printed(kind);
    let schema = definition.spec.versions[0].schema.clone().unwrap();
    serde_json::to_value(schema.open_api_v3_schema.unwrap()).unwrap()
}

#[test]
fn schemas_are_structural_without_nullable_and_defaults() {
    for kind in KINDS {
        let schema = schema(kind);
        walk(&schema, &mut |Part { path, schema, .. }| {
            let place = format!("{kind}{path}");
            for word in [
                "$ref",
                "nullable",
                "default",
                "title",
                "allOf",
                "anyOf",
                "oneOf",
                "not",
                "uniqueItems",
                "definitions",
                "x-kubernetes-preserve-unknown-fields",
                "x-kubernetes-int-or-string",
            ] {
                assert!(schema[word].is_null(), "{place}: {word}");
            }
            let one_of = ["object", "array", "string", "integer"];
            assert!(one_of.contains(&schema["type"].as_str().unwrap()), "{place}");
            assert!(
                schema["properties"].is_null() || schema["additionalProperties"].is_null(),
                "{place}"
            );
            assert_eq!(schema["type"] == "array", schema["items"].is_object(), "{place}");
            assert_eq!(
                schema["type"] == "array",
                schema["x-kubernetes-list-type"].is_string(),
                "{place}"
            );
            for name in schema["required"].as_array().into_iter().flatten() {
                assert!(
                    schema["properties"][name.as_str().unwrap()].is_object(),
                    "{place}: {name} is required"
                );
            }
            for key in schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten() {
                let item = &schema["items"];
                assert!(item["required"].as_array().unwrap().contains(key), "{place}: {key}");
                assert_eq!(
                    item["properties"][key.as_str().unwrap()]["type"],
                    "string",
                    "{place}: {key}"
                );
            }
        });
    }
}

#[test]
fn rules_stand_where_api_servers_accept_them() {
    for kind in KINDS {
        let schema = schema(kind);
        walk(&schema, &mut |Part { path, schema, is_correlatable, .. }| {
            for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
                let cel = rule["rule"].as_str().unwrap();
                let place = format!("{kind}{path}: {cel}");
                assert!(
                    *is_correlatable || !cel.contains("oldSelf"),
                    "no old value is known here: {place}"
                );
                let message = rule["message"].as_str().unwrap();
                assert!(
                    !message.is_empty() && !message.contains('\n') && message.len() <= 2048,
                    "{place}"
                );
                if let Some(field) = rule["fieldPath"].as_str() {
                    let mut at = *schema;
                    for name in field.strip_prefix('.').unwrap().split('.') {
                        at = &at["properties"][name];
                        assert!(at.is_object(), "there is no {field}: {place}");
                    }
                }
            }
        });
    }
}

#[test]
fn identities() {
    for (kind, scope, name, singular, short) in [
        (
            "ClusterNetworkConnect",
            "Cluster",
            "clusternetworkconnects.k8s.ovn.org",
            "clusternetworkconnect",
            "cnc",
        ),
        (
            "UserDefinedNetwork",
            "Namespaced",
            "userdefinednetworks.k8s.ovn.org",
            "userdefinednetwork",
            "udn",
        ),
        (
            "ClusterUserDefinedNetwork",
            "Cluster",
            "clusteruserdefinednetworks.k8s.ovn.org",
            "clusteruserdefinednetwork",
            "cudn",
        ),
        (
            "NetworkAttachmentDefinition",
            "Namespaced",
            "network-attachment-definitions.k8s.cni.cncf.io",
            "network-attachment-definition",
            "net-attach-def",
        ),
        ("IPAMClaim", "Namespaced", "ipamclaims.k8s.cni.cncf.io", "ipamclaim", ""),
    ] {
        let definition = printed(kind);
        let names = &definition.spec.names;
        assert_eq!(definition.metadata.name.as_deref(), Some(name));
        assert_eq!(format!("{}.{}", names.plural, definition.spec.group), name);
        assert_eq!(
            (definition.spec.scope.as_str(), names.singular.as_deref()),
            (scope, Some(singular))
        );
        assert_eq!(names.list_kind.as_deref(), Some(format!("{kind}List").as_str()));
        assert_eq!(names.short_names.clone().unwrap_or_default().concat(), short);
        let [version] = &definition.spec.versions[..] else { panic!("{kind} has one version") };
        assert!(version.served && version.storage);
        let own_status =
            version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some());
        assert_eq!(own_status, kind != "NetworkAttachmentDefinition", "{kind}");
        let columns: Vec<_> = version
            .additional_printer_columns
            .iter()
            .flatten()
            .map(|column| column.name.as_str())
            .collect();
        assert_eq!(
            columns,
            if kind == "ClusterNetworkConnect" {
                &["Accepted", "Connected", "Age", "Message"][..]
            } else {
                &[]
            }
        );
    }
}

#[test]
fn conditions_have_the_limits_of_kubernetes() {
    let schema = schema("ClusterNetworkConnect");
    let status = &schema["properties"]["status"];
    assert_eq!(status["properties"]["status"]["enum"], serde_json::json!(["Success", "Failure"]));
    let conditions = &status["properties"]["conditions"];
    assert_eq!(conditions["x-kubernetes-list-map-keys"], serde_json::json!(["type"]));
    let condition = &conditions["items"];
    let required = serde_json::json!(["lastTransitionTime", "message", "reason", "status", "type"]);
    assert_eq!(condition["required"], required);
    let limits = |name: &str, limit: &str| condition["properties"][name][limit].as_f64();
    assert_eq!(limits("type", "maxLength"), Some(316.0));
    assert_eq!(
        (limits("reason", "minLength"), limits("reason", "maxLength")),
        (Some(1.0), Some(1024.0))
    );
    assert_eq!(limits("message", "maxLength"), Some(32768.0));
    assert_eq!(limits("observedGeneration", "minimum"), Some(0.0));
}

#[test]
fn definitions_go_by_all_their_names() {
    let text = |names: &[&str]| {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        crd::manifests(&names, &[])
    };
    let one = text(&["ClusterNetworkConnect"]).unwrap();
    for name in [
        "cnc",
        "clusternetworkconnect",
        "clusternetworkconnects",
        "clusternetworkconnects.k8s.ovn.org",
    ] {
        assert_eq!(text(&[name]).unwrap(), one);
    }
    let all = text(&[]).unwrap();
    assert_eq!(all, text(&["cnc", "udn", "cudn"]).unwrap());
    assert_eq!(all.matches("\nkind: CustomResourceDefinition\n").count(), 3);
    assert!(!all.contains(".0\n"), "bounds are whole numbers");
    assert_eq!(
        text(&["cnc", "pods"]).unwrap_err().to_string(),
        "unknown definition \"pods\", expected one of: ClusterNetworkConnect, UserDefinedNetwork, \
         ClusterUserDefinedNetwork, NetworkAttachmentDefinition, IPAMClaim"
    );
}
