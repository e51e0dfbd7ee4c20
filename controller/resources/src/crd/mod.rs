//! Definitions of the resources, as an API server takes them.
//!
//! What a type can say of itself is derived from it: fields, types, enums, lengths and ranges. The modules here add
//! the rest: rules in CEL with their messages, what may change, how lists merge. The same rules stand in Rust as
//! `violations` and `transition_violations` of the types; tests hold the two against each other. Why there are two
//! is told in `docs/design/crd.md`.

mod cnc;
mod cudn;
mod layer2;
mod layer3;
mod localnet;
mod policy;
mod refine;
mod shared;
mod text;
mod udn;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::CustomResourceExt;

pub use policy::{AdmissionPolicy, CLUSTER_MANAGER, policies};
pub use text::{UnknownDefinition, manifests};

use super::cnc::ClusterNetworkConnect;
use super::ipam_claim::IPAMClaim;
use super::nad::NetworkAttachmentDefinition;
use super::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};
use refine::Refine;

/// The definition of `ClusterNetworkConnect`.
pub fn cluster_network_connect() -> CustomResourceDefinition {
    definition::<ClusterNetworkConnect>(
        "Connects the networks that its selectors choose.",
        |root| {
            cnc::refine(root.property("spec"));
            shared::conditions(root.property("status").property("conditions"));
        },
    )
}

/// The definition of `UserDefinedNetwork`.
pub fn user_defined_network() -> CustomResourceDefinition {
    definition::<UserDefinedNetwork>("A network of one namespace.", |root| {
        udn::refine(root.property("spec"));
        shared::conditions(root.property("status").property("conditions"));
    })
}

/// The definition of `ClusterUserDefinedNetwork`.
pub fn cluster_user_defined_network() -> CustomResourceDefinition {
    definition::<ClusterUserDefinedNetwork>("A network of many namespaces.", |root| {
        cudn::refine(root.property("spec"));
        shared::conditions(root.property("status").property("conditions"));
    })
}

/// A definition of `NetworkAttachmentDefinition`, for clusters without Multus, such as those of tests.
pub fn network_attachment_definition() -> CustomResourceDefinition {
    definition::<NetworkAttachmentDefinition>(
        "How a network is present in one namespace.",
        |root| {
            root.required = None;
        },
    )
}

/// A definition of `IPAMClaim`, for clusters without it, such as those of tests.
pub fn ipam_claim() -> CustomResourceDefinition {
    definition::<IPAMClaim>("Addresses that outlive the pods that use them.", |root| {
        root.property("status").property("ips").atomic();
        shared::conditions(root.property("status").property("conditions"));
    })
}

/// The derived definition of `T`, made structural and refined.
fn definition<T: CustomResourceExt>(
    description: &str,
    refine: impl FnOnce(&mut JSONSchemaProps),
) -> CustomResourceDefinition {
    let mut definition = T::crd();
    for version in &mut definition.spec.versions {
        // kube prints empty lists for what is not set.
        let columns = &mut version.additional_printer_columns;
        *columns = columns.take().filter(|columns| !columns.is_empty());
    }
    let names = &mut definition.spec.names;
    names.list_kind = Some(format!("{}List", names.kind));
    for unused in [&mut names.short_names, &mut names.categories] {
        *unused = unused.take().filter(|names| !names.is_empty());
    }
    let [version] = &mut definition.spec.versions[..] else {
        unreachable!("a derived definition has one version");
    };
    let schema = version.schema.as_mut();
    let root = schema.and_then(|schema| schema.open_api_v3_schema.as_mut());
    let root = root.expect("a derived definition has a schema");
    root.plain();
    root.title = None;
    root.description = Some(description.to_owned());
    refine(root);
    definition
}
