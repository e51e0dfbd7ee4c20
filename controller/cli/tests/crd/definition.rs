//! A printed definition, ready to judge objects, and the same judgement in Rust.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_cel::{CompiledSchema, ErrorKind, ValidationErrors, Validator, compile_schema};
use patchbay_crds as crd;
use patchbay_resources::Violation;
use patchbay_resources::cnc::ClusterNetworkConnectSpec;
use patchbay_resources::udn::{ClusterUserDefinedNetworkSpec, UserDefinedNetworkSpec};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::schema::{Findings, check};

/// What the type of a kind says of a `spec`, and of one that is to take the place of another: nothing, if it cannot
/// even be read.
type InRust = fn(&Value, Option<&Value>) -> Option<Vec<Violation>>;

/// One kind: its definition as printed, and the rules of its type.
pub(crate) struct Definition {
    /// The schema of the whole object.
    pub(crate) schema: Value,
    rules: CompiledSchema,
    in_rust: InRust,
}

impl Definition {
    fn new(kind: &str, in_rust: InRust) -> Self {
        let definition = printed(kind);
        let schema = definition.spec.versions[0].schema.as_ref().unwrap();
        let schema = serde_json::to_value(schema.open_api_v3_schema.as_ref().unwrap()).unwrap();
        let rules = compile_schema(&schema);
        assert!(!rules.has_errors(), "{:?}", rules.compilation_errors());
        Self {
            schema,
            rules,
            in_rust,
        }
    }

    pub(crate) fn connect() -> Self {
        Self::new("ClusterNetworkConnect", |new, old| {
            judge(
                new,
                old,
                ClusterNetworkConnectSpec::violations,
                ClusterNetworkConnectSpec::transition_violations,
            )
        })
    }

    pub(crate) fn network() -> Self {
        Self::new("UserDefinedNetwork", |new, old| {
            judge(
                new,
                old,
                UserDefinedNetworkSpec::violations,
                UserDefinedNetworkSpec::transition_violations,
            )
        })
    }

    pub(crate) fn cluster_network() -> Self {
        Self::new("ClusterUserDefinedNetwork", |new, old| {
            judge(
                new,
                old,
                ClusterUserDefinedNetworkSpec::violations,
                ClusterUserDefinedNetworkSpec::transition_violations,
            )
        })
    }

    /// The schema of `spec`.
    pub(crate) fn spec(&self) -> &Value {
        &self.schema["properties"]["spec"]
    }

    /// What an API server says of this `spec`, perhaps in place of an old one.
    pub(crate) fn judge(&self, spec: &Value, old: Option<&Value>) -> Findings {
        let object = |spec: &Value| json!({"spec": spec});
        let mut findings = Findings::default();
        check(&self.schema, &object(spec), "", &mut findings);
        if findings.blocked {
            return findings;
        }
        let validator = Validator::new();
        let old = old.map(object);
        let result = validator.validate_compiled(&self.rules, &object(spec), old.as_ref());
        for error in result
            .err()
            .map(ValidationErrors::into_vec)
            .into_iter()
            .flatten()
        {
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

    /// What the type says of it: nothing, if it does not fit the type.
    pub(crate) fn judge_in_rust(
        &self,
        spec: &Value,
        old: Option<&Value>,
    ) -> Option<BTreeSet<String>> {
        let violations = (self.in_rust)(spec, old)?;
        Some(violations.iter().map(ToString::to_string).collect())
    }

    /// Fails unless both judge this `spec` alike: the same messages at the same fields.
    ///
    /// # Errors
    /// What differs.
    pub(crate) fn agree(&self, spec: &Value, old: Option<&Value>) -> Result<(), String> {
        let printed = self.judge(spec, old);
        let told = || format!("{spec:#}\nin place of {old:?}\nprinted: {printed:#?}");
        let Some(in_rust) = self.judge_in_rust(spec, old) else {
            let explained = printed.misfit;
            return explained
                .then_some(())
                .ok_or_else(|| format!("does not fit the type: {}", told()));
        };
        let agreed = if printed.misfit {
            // Label selectors are read with parts missing, and then refused.
            !in_rust.is_empty()
        } else if in_rust.iter().any(|message| is_stricter(message)) {
            // What is refused by more than the definition may have further reasons, told or not.
            true
        } else if printed.blocked {
            printed.found.is_subset(&in_rust)
        } else {
            printed.found == in_rust
        };
        agreed
            .then_some(())
            .ok_or_else(|| format!("in Rust: {in_rust:#?}\n{}", told()))
    }
}

/// Whether Patchbay is stricter here than the definition, as `docs/design/crd.md` lists: label selectors that select
/// nothing in any cluster, and host bits that are dropped in silence.
pub(crate) fn is_stricter(message: &str) -> bool {
    message.contains(".matchLabels[")
        || message.contains(".matchExpressions[")
        || message.ends_with("CIDR must be a masked network address (no host bits set)")
}

fn judge<T: DeserializeOwned>(
    new: &Value,
    old: Option<&Value>,
    violations: fn(&T) -> Vec<Violation>,
    transition: fn(&T, &T) -> Vec<Violation>,
) -> Option<Vec<Violation>> {
    let read = |spec: &Value| {
        let mut unknown = false;
        let spec = serde_ignored::deserialize::<_, _, T>(spec, |_| unknown = true);
        spec.ok().filter(|_| !unknown)
    };
    let new = read(new)?;
    let mut found = violations(&new);
    if let Some(old) = old {
        found.extend(transition(&new, &read(old).unwrap()));
    }
    Some(found)
}

/// A definition as it is read back from its manifest.
pub(crate) fn printed(kind: &str) -> CustomResourceDefinition {
    let text = crd::manifests(&[kind.to_owned()], &[]).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}
