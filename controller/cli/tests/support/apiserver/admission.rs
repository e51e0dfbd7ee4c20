//! Admission policies about the users of requests, as `patchbay crds --policies` prints them.

use std::sync::LazyLock;

use kube_cel::cel::{Context, Program, Value as CelValue};
use patchbay_crds::{AdmissionPolicy, cluster_manager_in, policies};
use serde_json::{Value, json};

use super::requests::{Call, Failure};
use super::resources::Target;

/// Namespace of the controllers in tests.
const NAMESPACE: &str = "default";

static POLICIES: LazyLock<Vec<Policy>> = LazyLock::new(|| {
    let policies = policies(&cluster_manager_in(NAMESPACE), NAMESPACE);
    policies.iter().map(Policy::compile).collect()
});

/// A policy whose expressions are parsed.
struct Policy {
    /// Group, resource and operation of requests.
    requests: Vec<(String, String, String)>,
    conditions: Vec<Program>,
    /// Conditions that a request has to meet, each with its message.
    rules: Vec<(Program, String)>,
}

impl Policy {
    fn compile(policy: &AdmissionPolicy) -> Self {
        let spec = policy.policy.spec.as_ref().unwrap();
        let compile = |text: &String| Program::compile(text).unwrap();
        let constraints = spec.match_constraints.iter();
        let mut requests = Vec::new();
        for rule in constraints.flat_map(|one| one.resource_rules.iter().flatten()) {
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    let operations = rule.operations.iter().flatten();
                    requests.extend(
                        operations
                            .map(|operation| (group.clone(), resource.clone(), operation.clone())),
                    );
                }
            }
        }
        let conditions = spec.match_conditions.iter().flatten();
        let rules = spec.validations.iter().flatten().map(|rule| {
            let message = rule.message.clone().unwrap_or_default();
            (compile(&rule.expression), message)
        });
        Self {
            requests,
            conditions: conditions.map(|one| compile(&one.expression)).collect(),
            rules: rules.collect(),
        }
    }
}

/// The user of a request, and what it writes.
pub(super) struct Admission<'a> {
    pub(super) call: &'a Call,
    pub(super) target: &'a Target,
    /// The service account. `None`: the test itself, which may do everything.
    pub(super) account: Option<&'a str>,
}

impl Admission<'_> {
    /// Checks a change of an object.
    ///
    /// # Errors
    /// 403 with the message of the first rule that the change breaks.
    pub(super) fn check(&self, old: Option<&Value>, new: Option<&Value>) -> Result<(), Failure> {
        let Some(account) = self.account.filter(|_| !self.target.status) else {
            return Ok(());
        };
        let resource = self.target.resource;
        let operation = match (old, new) {
            (None, _) => "CREATE",
            (Some(_), Some(_)) => "UPDATE",
            (Some(_), None) => "DELETE",
        };
        let request = json!({
            "operation": operation,
            "namespace": self.target.namespace.clone().unwrap_or_default(),
            "resource": {
                "group": resource.group, "version": resource.version, "resource": resource.plural,
            },
            "userInfo": {
                "username": format!("system:serviceaccount:{NAMESPACE}:{account}"),
                "extra": self.call.claims,
            },
        });
        let mut context = Context::default();
        for (name, value) in [
            ("request", request),
            ("oldObject", old.cloned().unwrap_or_default()),
            ("object", new.cloned().unwrap_or_default()),
        ] {
            context.add_variable(name, value).unwrap();
        }
        let holds = |program: &Program| {
            let value = program.execute(&context);
            matches!(value, Ok(CelValue::Bool(true)))
        };
        let is_about = |policy: &&Policy| {
            let mut requests = policy.requests.iter();
            requests.any(|(group, plural, of)| {
                (&**group, &**plural, &**of) == (resource.group, resource.plural, operation)
            }) && policy.conditions.iter().all(holds)
        };
        let mut rules = POLICIES.iter().filter(is_about).flat_map(|one| &one.rules);
        match rules.find(|(rule, _)| !holds(rule)) {
            Some((_, message)) => Err(Failure::new(403, "Forbidden", message.as_str())),
            None => Ok(()),
        }
    }
}
