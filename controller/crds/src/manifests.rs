//! Definitions and policies as manifests.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde_json::Value;

use super::AdmissionPolicy;

/// Error for a name that no definition has.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("unknown definition {name:?}, expected one of: {known}")]
pub struct UnknownDefinition {
    /// The name.
    pub name: String,
    /// Kinds of all definitions, separated by commas.
    pub known: String,
}

/// Prints manifests in YAML for `kubectl apply -f -`: the definitions with these names, then the
/// policies.
///
/// A definition is found by kind, plural, singular, short name or full name. An empty list stands
/// for all definitions of group `k8s.ovn.org`.
///
/// # Errors
/// [`UnknownDefinition`] for the first name that no definition has.
pub fn manifests(
    names: &[String],
    policies: &[AdmissionPolicy],
) -> Result<String, UnknownDefinition> {
    let known = [
        super::cluster_network_connect(),
        super::user_defined_network(),
        super::cluster_user_defined_network(),
        super::network_attachment_definition(),
        super::ipam_claim(),
    ];
    let mut documents = String::new();
    if names.is_empty() {
        for definition in known.iter().filter(|definition| definition.spec.group == "k8s.ovn.org") {
            add(&mut documents, definition);
        }
    }
    for name in names {
        let named = known.iter().find(|definition| has_name(definition, name));
        add(&mut documents, named.ok_or_else(|| unknown(name, &known))?);
    }
    for AdmissionPolicy { policy, binding } in policies {
        add(&mut documents, policy);
        add(&mut documents, binding);
    }
    Ok(documents)
}

fn has_name(definition: &CustomResourceDefinition, name: &str) -> bool {
    let names = &definition.spec.names;
    let short = names.short_names.iter().flatten();
    [&names.kind, &names.plural]
        .into_iter()
        .chain(&names.singular)
        .chain(short)
        .chain(&definition.metadata.name)
        .any(|known| known.eq_ignore_ascii_case(name))
}

fn unknown(name: &str, known: &[CustomResourceDefinition]) -> UnknownDefinition {
    let kinds: Vec<_> =
        known.iter().map(|definition| definition.spec.names.kind.as_str()).collect();
    UnknownDefinition { name: name.to_owned(), known: kinds.join(", ") }
}

fn add(documents: &mut String, object: &impl Serialize) {
    let mut json = serde_json::to_value(object).expect("Kubernetes types serialize to JSON");
    whole_numbers(&mut json);
    let text = serde_saphyr::to_string(&json).expect("JSON serializes to YAML");
    documents.push_str("---\n");
    documents.push_str(&text);
    if !text.ends_with('\n') {
        documents.push('\n');
    }
}

/// Writes whole numbers without a fraction, because bounds of schemas are floating point numbers in
/// Rust.
fn whole_numbers(json: &mut Value) {
    match json {
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(members) => members.values_mut().for_each(whole_numbers),
        Value::Number(number) => {
            if let Some(float) =
                number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0)
            {
                *number = (float as i64).into();
            }
        }
        _ => {}
    }
}
