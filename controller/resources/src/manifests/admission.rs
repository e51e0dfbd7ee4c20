//! Changes and checks of an API server when an object is created: defaults, pruning, metadata.

use patchbay_model::FieldProblem;
use serde_json::Value;

use super::inventory::InventoryKind;
use crate::object::kube_ovn::{IP, KUBE_OVN_GROUP};
use crate::object::{Object as _, ObjectMeta};
use crate::selector;

/// Label of every namespace in a cluster; the value is the name of the namespace.
const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// `true` when `status` is a subresource. An API server drops the status of a new object then.
pub(super) fn has_status_subresource<T: InventoryKind>() -> bool {
    T::GROUP == "k8s.ovn.org" || T::GROUP == KUBE_OVN_GROUP && T::KIND != IP::KIND
}

/// A custom resource of Kube-OVN without its members that are `null`. An API server drops them,
/// because no field of the definitions is nullable.
pub(super) fn pruned<T: InventoryKind>(mut json: Value) -> Value {
    if T::GROUP == KUBE_OVN_GROUP {
        drop_nulls(&mut json);
    }
    json
}

fn drop_nulls(json: &mut Value) {
    match json {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Sets the fields that an API server sets in a new object: default namespace, and name label of
/// a namespace.
pub(super) fn fill_in_defaults<T: InventoryKind>(object: &mut T) {
    let meta = object.meta_mut();
    if T::NAMESPACED {
        meta.namespace.get_or_insert_with(|| "default".into());
    }
    if let (true, Some(name)) = (T::KIND == "Namespace", &meta.name) {
        meta.labels.get_or_insert_default().insert(NAMESPACE_NAME_LABEL.into(), name.clone());
    }
}

/// Error of an object name as an API server words it. `None`: the name is valid. Names of
/// namespaces are DNS labels, other names are DNS subdomains.
pub(super) fn name_problem(name: &str, is_label: bool) -> Option<String> {
    let (is_valid, limit, rule) = if is_label {
        (selector::is_dns_label(name), 63, selector::DNS_LABEL_RULE)
    } else {
        let is_valid = selector::is_dns_subdomain(name);
        (is_valid, 253, selector::DNS_SUBDOMAIN_RULE)
    };
    let problem = if name.len() > limit {
        format!("must be no more than {limit} characters")
    } else {
        rule.to_owned()
    };
    (!is_valid).then(|| format!("Invalid value: \"{name}\": {problem}"))
}

/// Violations in the metadata: name, namespace, and keys of labels and annotations.
pub(super) fn meta_violations<T: InventoryKind>(meta: &ObjectMeta) -> Vec<FieldProblem> {
    let mut found = Vec::new();
    match meta.name.as_deref() {
        None | Some("") => found.push(FieldProblem::new("metadata.name", "Required value")),
        Some(name) => {
            let is_label = T::KIND == "Namespace";
            let problem = name_problem(name, is_label);
            found.extend(problem.map(|problem| FieldProblem::new("metadata.name", problem)));
        }
    }
    match meta.namespace.as_deref() {
        Some(_) if !T::NAMESPACED => {
            found.push(FieldProblem::new(
                "metadata.namespace",
                "Forbidden: not allowed on this kind",
            ));
        }
        Some(namespace) => {
            let problem = name_problem(namespace, true);
            found.extend(problem.map(|problem| FieldProblem::new("metadata.namespace", problem)));
        }
        None => {}
    }
    for (key, value) in meta.labels.iter().flatten() {
        let field = format!("metadata.labels[{key}]");
        let problems = selector::key_problem(key).into_iter().chain(selector::value_problem(value));
        found.extend(problems.map(|problem| FieldProblem::new(&field, problem)));
    }
    for key in meta.annotations.iter().flatten().map(|(key, _)| key) {
        let problem = selector::key_problem(key);
        found.extend(
            problem
                .map(|problem| FieldProblem::new(format!("metadata.annotations[{key}]"), problem)),
        );
    }
    found
}
