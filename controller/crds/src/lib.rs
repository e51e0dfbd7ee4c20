//! Definitions of the custom resources, for an API server.
//!
//! Fields, types, enums, lengths and ranges are derived from the types of `patchbay-resources`. The
//! modules here add rules in CEL with their messages, immutable fields, and the merge strategies of
//! lists. The same rules are in Rust as `violations` and `transition_violations` of the types;
//! tests compare the two. `docs/design/crd.md` gives the reason for both.
//!
//! ```
//! let yaml = patchbay_crds::manifests(&["cnc".to_owned()], &[])?;
//! assert!(yaml.contains("name: clusternetworkconnects.k8s.ovn.org"));
//! # Ok::<(), patchbay_crds::UnknownDefinition>(())
//! ```

mod account_policies;
mod cnc;
mod cudn;
mod layer2;
mod layer3;
mod localnet;
mod manifests;
mod policy;
mod schema_ext;
mod shared;
mod udn;

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresourceStatus,
    CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use patchbay_resources::object::Object;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

pub use account_policies::cluster_manager_in;
pub use manifests::{UnknownDefinition, manifests};
pub use policy::{AdmissionPolicy, CLUSTER_MANAGER, NAMESPACE, policies};

use patchbay_resources::cnc::{
    ClusterNetworkConnect, ClusterNetworkConnectSpec, ClusterNetworkConnectStatus,
};
use patchbay_resources::ipam_claim::{IPAMClaim, IpamClaimSpec, IpamClaimStatus};
use patchbay_resources::nad::{NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec};
use patchbay_resources::udn::{
    ClusterUserDefinedNetwork, ClusterUserDefinedNetworkSpec, NetworkStatus, UserDefinedNetwork,
    UserDefinedNetworkSpec,
};
use schema_ext::SchemaExt;

/// The definition of `ClusterNetworkConnect`.
pub fn cluster_network_connect() -> CustomResourceDefinition {
    definition::<ClusterNetworkConnect, ClusterNetworkConnectSpec, ClusterNetworkConnectStatus>(
        &Kind {
            singular: "clusternetworkconnect",
            short_name: Some("cnc"),
            has_status: true,
            columns: &[
                ("Accepted", "string", r#".status.conditions[?(@.type=="Accepted")].status"#),
                ("Connected", "string", r#".status.conditions[?(@.type=="Connected")].status"#),
                ("Age", "date", ".metadata.creationTimestamp"),
            ],
            wide_columns: &[(
                "Message",
                "string",
                r#".status.conditions[?(@.type=="Connected")].message"#,
            )],
        },
        "Connects the networks that its selectors match.",
        |root| {
            cnc::add_rules(root.property("spec"));
            shared::conditions(root.property("status").property("conditions"));
        },
    )
}

/// The definition of `UserDefinedNetwork`.
pub fn user_defined_network() -> CustomResourceDefinition {
    definition::<UserDefinedNetwork, UserDefinedNetworkSpec, NetworkStatus>(
        &Kind {
            singular: "userdefinednetwork",
            short_name: Some("udn"),
            has_status: true,
            columns: &[],
            wide_columns: &[],
        },
        "A network of one namespace.",
        |root| {
            udn::add_rules(root.property("spec"));
            shared::conditions(root.property("status").property("conditions"));
        },
    )
}

/// The definition of `ClusterUserDefinedNetwork`.
pub fn cluster_user_defined_network() -> CustomResourceDefinition {
    definition::<ClusterUserDefinedNetwork, ClusterUserDefinedNetworkSpec, NetworkStatus>(
        &Kind {
            singular: "clusteruserdefinednetwork",
            short_name: Some("cudn"),
            has_status: true,
            columns: &[],
            wide_columns: &[],
        },
        "A network of the namespaces that its selector matches.",
        |root| {
            cudn::add_rules(root.property("spec"));
            shared::conditions(root.property("status").property("conditions"));
        },
    )
}

/// The definition of `NetworkAttachmentDefinition`, for clusters without Multus, such as test
/// clusters.
pub fn network_attachment_definition() -> CustomResourceDefinition {
    definition::<NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec, ()>(
        &Kind {
            singular: "network-attachment-definition",
            short_name: Some("net-attach-def"),
            has_status: false,
            columns: &[],
            wide_columns: &[],
        },
        "CNI configuration of a network in one namespace.",
        |root| {
            root.required = None;
        },
    )
}

/// The definition of `IPAMClaim`, for clusters that lack it, such as test clusters.
pub fn ipam_claim() -> CustomResourceDefinition {
    definition::<IPAMClaim, IpamClaimSpec, IpamClaimStatus>(
        &Kind {
            singular: "ipamclaim",
            short_name: None,
            has_status: true,
            columns: &[],
            wide_columns: &[],
        },
        "Addresses that exist longer than the pods that use them.",
        |root| {
            root.property("status").property("ips").atomic();
            shared::conditions(root.property("status").property("conditions"));
        },
    )
}

/// Names, columns and subresources of a definition.
struct Kind {
    singular: &'static str,
    short_name: Option<&'static str>,
    has_status: bool,
    columns: &'static [(&'static str, &'static str, &'static str)],
    /// Columns of `kubectl get -o wide` only.
    wide_columns: &'static [(&'static str, &'static str, &'static str)],
}

/// Definition of `T`: the structural schemas of its specification and status, with rules.
fn definition<T: Object, Spec: JsonSchema, Status: JsonSchema>(
    kind: &Kind,
    description: &str,
    add_rules: impl FnOnce(&mut JSONSchemaProps),
) -> CustomResourceDefinition {
    let mut properties = BTreeMap::from([("spec".to_owned(), schema_of::<Spec>())]);
    if kind.has_status {
        properties.insert("status".to_owned(), schema_of::<Status>());
    }
    let mut root = JSONSchemaProps {
        type_: Some("object".to_owned()),
        properties: Some(properties),
        required: Some(vec!["spec".to_owned()]),
        ..JSONSchemaProps::default()
    };
    root.remove_nullable_and_links();
    root.description = Some(description.to_owned());
    add_rules(&mut root);
    let columns = kind.columns.iter().map(|column| (column, None));
    let wide = kind.wide_columns.iter().map(|column| (column, Some(1)));
    let columns =
        columns.chain(wide).map(|((name, type_, path), priority)| CustomResourceColumnDefinition {
            name: (*name).to_owned(),
            type_: (*type_).to_owned(),
            json_path: (*path).to_owned(),
            priority,
            ..CustomResourceColumnDefinition::default()
        });
    CustomResourceDefinition {
        metadata: ObjectMeta {
            name: Some(format!("{}.{}", T::PLURAL, T::GROUP)),
            ..ObjectMeta::default()
        },
        spec: CustomResourceDefinitionSpec {
            group: T::GROUP.to_owned(),
            names: CustomResourceDefinitionNames {
                kind: T::KIND.to_owned(),
                list_kind: Some(format!("{}List", T::KIND)),
                plural: T::PLURAL.to_owned(),
                short_names: kind.short_name.map(|name| vec![name.to_owned()]),
                singular: Some(kind.singular.to_owned()),
                ..CustomResourceDefinitionNames::default()
            },
            scope: if T::NAMESPACED { "Namespaced" } else { "Cluster" }.to_owned(),
            versions: vec![CustomResourceDefinitionVersion {
                name: T::VERSION.to_owned(),
                served: true,
                storage: true,
                schema: Some(CustomResourceValidation { open_api_v3_schema: Some(root) }),
                subresources: kind.has_status.then(|| CustomResourceSubresources {
                    status: Some(CustomResourceSubresourceStatus(json!({}))),
                    ..CustomResourceSubresources::default()
                }),
                additional_printer_columns: Some(columns.collect())
                    .filter(|columns: &Vec<_>| !columns.is_empty()),
                ..CustomResourceDefinitionVersion::default()
            }],
            ..CustomResourceDefinitionSpec::default()
        },
        status: None,
    }
}

/// The structural schema of a type.
fn schema_of<T: JsonSchema>() -> JSONSchemaProps {
    let mut schema = structural::<T>();
    with_kubernetes_types(&mut schema);
    serde_json::from_value(schema).expect("a structural schema is one of an API server")
}

fn structural<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::openapi3();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings
        .with_transform(schemars::transform::AddNullable::default())
        .with_transform(kube::core::schema::StructuralSchemaRewriter)
        .with_transform(kube::core::schema::OptionalEnum)
        .with_transform(kube::core::schema::OptionalIntOrString)
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    if let Some(members) = schema.as_object_mut() {
        members.remove("title");
    }
    schema
}

/// Replaces the names of Kubernetes' own types by their schemas.
fn with_kubernetes_types(schema: &mut Value) {
    if let Some(name) = schema.get("x-kubernetes-type").and_then(Value::as_str) {
        let known = match name {
            "Condition" => {
                structural::<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>()
            }
            "LabelSelector" => {
                structural::<k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector>()
            }
            other => unreachable!("{other} is not a type of Kubernetes"),
        };
        let mut known = known;
        if let (Some(place), Some(known)) = (schema.as_object_mut(), known.as_object_mut()) {
            place.remove("x-kubernetes-type");
            for (key, value) in std::mem::take(place) {
                known.insert(key, value);
            }
            *place = std::mem::take(known);
        }
        return;
    }
    match schema {
        Value::Object(members) => members.values_mut().for_each(with_kubernetes_types),
        Value::Array(items) => items.iter_mut().for_each(with_kubernetes_types),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_of_the_resource() {
        let crd = cluster_network_connect();
        assert_eq!(crd.metadata.name.as_deref(), Some("clusternetworkconnects.k8s.ovn.org"));
        assert_eq!(crd.spec.scope, "Cluster");
        assert_eq!(crd.spec.names.kind, "ClusterNetworkConnect");
        assert_eq!(crd.spec.names.short_names, Some(vec!["cnc".to_owned()]));
        let version = &crd.spec.versions[0];
        let columns = version.additional_printer_columns.as_ref().unwrap();
        let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["Accepted", "Connected", "Age", "Message"]);
        // `kubectl get` shows columns of another priority with `-o wide` only.
        let priorities: Vec<_> = columns.iter().map(|column| column.priority).collect();
        assert_eq!(priorities, [None, None, None, Some(1)]);
        assert!(version.subresources.as_ref().unwrap().status.is_some());
        assert_eq!(ClusterNetworkConnect::api_version(), "k8s.ovn.org/v1");
    }
}
