//! What an installation needs, from the manifests that `patchbay deploy` prints.

use clap::{Args as _, Command, FromArgMatches as _};
use patchbay_crds as crd;
use patchbay_kubernetes::{Definition, Right};
use serde_json::Value;

use super::args::Check;
use crate::cluster_args::Deploy;
use crate::console::Console;
use crate::deploy::manifests;
use crate::failure::Failure;

/// Verbs of `kubectl apply`.
const APPLY: [&str; 3] = ["get", "create", "patch"];
/// Kinds of the manifests with their plurals.
const PLURALS: [(&str, &str); 11] = [
    ("ClusterRole", "clusterroles"),
    ("ClusterRoleBinding", "clusterrolebindings"),
    ("CustomResourceDefinition", "customresourcedefinitions"),
    ("DaemonSet", "daemonsets"),
    ("Deployment", "deployments"),
    ("Namespace", "namespaces"),
    ("Role", "roles"),
    ("RoleBinding", "rolebindings"),
    ("ServiceAccount", "serviceaccounts"),
    ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
];

/// Rights that an installation needs: for its objects, and those that it grants, because nobody may
/// grant rights that they lack.
///
/// # Errors
/// The manifests cannot be made.
pub(super) fn rights(arguments: &Check, console: &mut Console<'_>) -> Result<Vec<Right>, Failure> {
    let namespace = format!("--namespace={}", arguments.namespace);
    let networks = arguments.networks.then(|| "--networks".to_owned());
    let flags: Vec<String> = [namespace].into_iter().chain(networks).collect();
    let objects = objects(&flags, console)?;
    let mut rights: Vec<Right> = objects.iter().flat_map(rights_of).collect();
    rights.sort();
    rights.dedup();
    Ok(rights)
}

/// The objects that `patchbay deploy` prints with these flags.
fn objects(flags: &[String], console: &mut Console<'_>) -> Result<Vec<Value>, Failure> {
    let command = Deploy::augment_args(Command::new("deploy").no_binary_name(true));
    let failed = |error: &dyn std::fmt::Display| Failure::Arguments(error.to_string());
    let matches = command.try_get_matches_from(flags);
    let deploy = Deploy::from_arg_matches(&matches.map_err(|error| failed(&error))?);
    let text = manifests(&deploy.map_err(|error| failed(&error))?, console)?;
    serde_saphyr::from_multiple::<Value>(&text).map_err(|error| failed(&error))
}

/// Rights that are needed to apply an object.
fn rights_of(object: &Value) -> Vec<Right> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, _) = object["apiVersion"].as_str().and_then(|one| one.split_once('/')).unzip();
    let plural = PLURALS.iter().find(|(kind, _)| object["kind"] == *kind);
    let namespace = text(&object["metadata"]["namespace"]);
    let mut rights = Vec::new();
    if let Some((_, plural)) = plural {
        rights.extend(APPLY.map(|verb| Right {
            verb: verb.to_owned(),
            group: group.unwrap_or_default().to_owned(),
            resource: (*plural).to_owned(),
            subresource: String::new(),
            name: String::new(),
            namespace: namespace.clone(),
            is_granted: false,
        }));
    }
    for rule in object["rules"].as_array().into_iter().flatten() {
        let list = |field: &str| -> Vec<String> {
            rule[field].as_array().into_iter().flatten().map(text).collect()
        };
        let names = if rule["resourceNames"].is_array() {
            list("resourceNames")
        } else {
            vec![String::new()]
        };
        for ((verb, group), (resource, name)) in
            pairs(&list("verbs"), &list("apiGroups")).into_iter().flat_map(|first| {
                let seconds = pairs(&list("resources"), &names);
                seconds.into_iter().map(move |second| (first.clone(), second))
            })
        {
            let (resource, subresource) = resource
                .split_once('/')
                .map_or((resource.clone(), String::new()), |(resource, part)| {
                    (resource.to_owned(), part.to_owned())
                });
            let (is_granted, namespace) = (true, namespace.clone());
            rights.push(Right { verb, group, resource, subresource, name, namespace, is_granted });
        }
    }
    rights
}

/// Each element of the first list with each of the second one.
fn pairs(first: &[String], second: &[String]) -> Vec<(String, String)> {
    let all = first.iter().flat_map(|one| second.iter().map(move |other| (one, other)));
    all.map(|(one, other)| (one.clone(), other.clone())).collect()
}

/// Definitions that the controllers cannot do without.
pub(super) fn definitions() -> Vec<Definition> {
    let all = [
        (crd::cluster_network_connect(), true),
        (crd::user_defined_network(), false),
        (crd::cluster_user_defined_network(), false),
        (crd::network_attachment_definition(), false),
    ];
    let all = all.into_iter().filter_map(|(definition, is_installed)| {
        let version = definition.spec.versions.into_iter().next()?;
        let schema = version.schema.and_then(|schema| schema.open_api_v3_schema);
        Some(Definition {
            name: definition.metadata.name?,
            version: version.name,
            schema: schema.filter(|_| is_installed),
            is_installed,
        })
    });
    all.collect()
}

/// Names of the admission policies of an installation.
pub(super) fn policies(arguments: &Check) -> Vec<String> {
    let manager = crd::cluster_manager_in(&arguments.namespace);
    let policies = crd::policies(&manager, &arguments.namespace);
    policies.into_iter().filter_map(|one| one.policy.metadata.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rights_for_all_objects_of_an_installation_are_asked() {
        let flags = ["--networks", "--definitions", "--create-namespace"].map(str::to_owned);
        let (mut input, mut output, mut errors) = (std::io::empty(), Vec::new(), Vec::new());
        let mut console = Console::new(&mut input, &mut output, &mut errors);
        let all = objects(&flags, &mut console).unwrap();
        assert!(all.len() > 20, "{}", all.len());
        for object in &all {
            let rights = rights_of(object);
            let applied = rights.iter().filter(|right| !right.is_granted).count();
            assert_eq!(applied, APPLY.len(), "{} {}", object["kind"], object["metadata"]);
            let is_role = object["rules"].is_array();
            assert_eq!(rights.len() > APPLY.len(), is_role, "{}", object["metadata"]);
        }
    }
}
