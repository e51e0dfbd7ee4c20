//! Validation of objects by a printed definition, and by the types in Rust.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_cel::{CompiledSchema, ErrorKind, ValidationErrors, Validator, compile_schema};
use patchbay_crds as crd;
use patchbay_model::FieldProblem;
use patchbay_resources::cnc::ClusterNetworkConnectSpec;
use patchbay_resources::manifests::from_json;
use patchbay_resources::udn::{ClusterUserDefinedNetworkSpec, UserDefinedNetworkSpec};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::schema::{Findings, check};

/// Validation of a `spec`, or of a change from an old `spec`, by the type of a kind. `None`: the
/// `spec` does not fit the type.
type RustValidation = fn(&Value, Option<&Value>) -> Option<Vec<FieldProblem>>;

/// Definition of a kind as printed, and the rules of its type.
pub(crate) struct Definition {
    /// Schema of the whole object.
    pub(crate) schema: Value,
    rules: CompiledSchema,
    in_rust: RustValidation,
}

impl Definition {
    fn new(kind: &str, in_rust: RustValidation) -> Self {
        let definition = printed(kind);
        let schema = serde_json::to_value(
            definition.spec.versions[0]
                .schema
                .as_ref()
                .unwrap()
                .open_api_v3_schema
                .as_ref()
                .unwrap(),
        )
        .unwrap();
        let rules = compile_schema(&schema);
        assert!(!rules.has_errors(), "{:?}", rules.compilation_errors());
        Self { schema, rules, in_rust }
    }

    pub(crate) fn connect() -> Self {
        Self::new("ClusterNetworkConnect", |new, old| {
            validate(
                new,
                old,
                ClusterNetworkConnectSpec::violations,
                ClusterNetworkConnectSpec::transition_violations,
            )
        })
    }

    pub(crate) fn network() -> Self {
        Self::new("UserDefinedNetwork", |new, old| {
            validate(
                new,
                old,
                UserDefinedNetworkSpec::violations,
                UserDefinedNetworkSpec::transition_violations,
            )
        })
    }

    pub(crate) fn cluster_network() -> Self {
        Self::new("ClusterUserDefinedNetwork", |new, old| {
            validate(
                new,
                old,
                ClusterUserDefinedNetworkSpec::violations,
                ClusterUserDefinedNetworkSpec::transition_violations,
            )
        })
    }

    /// Schema of `spec`.
    pub(crate) fn spec(&self) -> &Value {
        &self.schema["properties"]["spec"]
    }

    /// Validates a `spec`, or a change from an old `spec`, as an API server does.
    pub(crate) fn validate(&self, spec: &Value, old: Option<&Value>) -> Findings {
        let object = |spec: &Value| json!({"spec": spec});
        let mut findings = Findings::default();
        check(&self.schema, &object(spec), "", &mut findings);
        if findings.ends_validation {
            return findings;
        }
        let validator = Validator::new();
        let old = old.map(object);
        let result = validator.validate_compiled(&self.rules, &object(spec), old.as_ref());
        for error in result.err().map(ValidationErrors::into_vec).into_iter().flatten() {
            assert_eq!(
                error.kind,
                ErrorKind::ValidationFailure,
                "{error}: {}\n{spec:#}",
                error.rule
            );
            findings.found.insert(error.to_string());
        }
        findings
    }

    /// Validates a `spec`, or a change from an old `spec`, by its type. `None`: it does not fit the
    /// type.
    pub(crate) fn validate_in_rust(
        &self,
        spec: &Value,
        old: Option<&Value>,
    ) -> Option<BTreeSet<String>> {
        let violations = (self.in_rust)(spec, old)?;
        Some(violations.iter().map(ToString::to_string).collect())
    }

    /// Compares the messages of the definition and of the type.
    ///
    /// # Errors
    /// The messages differ.
    pub(crate) fn compare(&self, spec: &Value, old: Option<&Value>) -> Result<(), String> {
        let printed = self.validate(spec, old);
        let description = || format!("{spec:#}\nin place of {old:?}\nprinted: {printed:#?}");
        let Some(in_rust) = self.validate_in_rust(spec, old) else {
            return printed
                .is_misfit
                .then_some(())
                .ok_or_else(|| format!("does not fit the type: {}", description()));
        };
        let agreed = if printed.is_misfit {
            // Label selectors without required fields fit the type. Their rules reject them.
            !in_rust.is_empty()
        } else if in_rust.iter().any(|message| is_stricter(message)) {
            // Further rules of the definition may reject the object, or not.
            true
        } else if printed.ends_validation {
            printed.found.is_subset(&in_rust)
        } else {
            printed.found == in_rust
        };
        agreed.then_some(()).ok_or_else(|| format!("in Rust: {in_rust:#?}\n{}", description()))
    }
}

/// Returns `true` for messages of rules that only Patchbay has: label selectors that select nothing
/// in any cluster. `docs/design/crd.md` lists them.
pub(crate) fn is_stricter(message: &str) -> bool {
    message.contains(".matchLabels[") || message.contains(".matchExpressions[")
}

fn validate<T: DeserializeOwned>(
    new: &Value,
    old: Option<&Value>,
    violations: fn(&T) -> Vec<FieldProblem>,
    transition: fn(&T, &T) -> Vec<FieldProblem>,
) -> Option<Vec<FieldProblem>> {
    let read = |spec: &Value| {
        let (spec, unknown) = from_json::<T>(spec.clone());
        spec.filter(|_| unknown.is_empty())
    };
    let new = read(new)?;
    let mut found = violations(&new);
    if let Some(old) = old {
        found.extend(transition(&new, &read(old).unwrap()));
    }
    Some(found)
}

/// Reads the definition of a kind from its manifest.
pub(crate) fn printed(kind: &str) -> CustomResourceDefinition {
    let text = crd::manifests(&[kind.to_owned()], &[]).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}
