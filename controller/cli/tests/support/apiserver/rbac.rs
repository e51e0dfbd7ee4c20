//! Permissions, from the roles in `deploy/rbac.yaml`. Requests without a user are always allowed.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::Request;
use super::requests::Call;
use super::resources::Target;

/// The namespace of the manifests, which tests replace by another one.
const DEPLOYED: &str = "ovn-kubernetes";
const TESTED: &str = "default";

/// All rules with their service accounts.
#[derive(Debug, Default)]
pub(super) struct Rules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    accounts: Vec<String>,
    /// The namespace of the role. `None`: all namespaces.
    namespace: Option<String>,
    groups: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    verbs: Vec<String>,
}

impl Rules {
    /// The rules of the manifests. Those that `run --networks` needs are of accounts whose names
    /// end in `/networks`.
    pub(super) fn deployed() -> Self {
        let Self(mut rules) = Self::of_file("rbac.yaml", "");
        rules.extend(Self::of_file("networks.yaml", "/networks").0);
        Self(rules)
    }

    fn of_file(name: &str, suffix: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
        let file = folder.join(name);
        let text = std::fs::read_to_string(&file).unwrap();
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        let of_kind = |kind: &str| {
            let objects = objects.iter().filter(move |object| object["kind"] == kind);
            objects.collect::<Vec<_>>()
        };
        let mut rules = Vec::new();
        for (bindings, roles) in [
            (of_kind("ClusterRoleBinding"), of_kind("ClusterRole")),
            (of_kind("RoleBinding"), of_kind("Role")),
        ] {
            for binding in bindings {
                let role = roles.iter().find(|role| {
                    let (role, bound) = (&role["metadata"], &binding["metadata"]);
                    role["name"] == binding["roleRef"]["name"]
                        && role["namespace"] == bound["namespace"]
                });
                let role = role.unwrap_or_else(|| panic!("no role for {binding}"));
                let namespace = binding["metadata"]["namespace"]
                    .as_str()
                    .map(|name| name.replace(DEPLOYED, TESTED));
                let subjects = binding["subjects"].as_array().unwrap().iter();
                let accounts: Vec<String> = subjects
                    .map(|subject| format!("{}{suffix}", subject["name"].as_str().unwrap()))
                    .collect();
                for rule in role["rules"].as_array().unwrap() {
                    rules.push(Rule {
                        accounts: accounts.clone(),
                        namespace: namespace.clone(),
                        groups: texts(&rule["apiGroups"]),
                        resources: texts(&rule["resources"]),
                        names: texts(&rule["resourceNames"]),
                        verbs: texts(&rule["verbs"]),
                    });
                }
            }
        }
        Self(rules)
    }

    /// `true` if an account is allowed to do this.
    pub(super) fn allow(&self, account: &str, call: &Call, target: &Target) -> bool {
        let verb = verb(call, target);
        let resource = if target.status {
            format!("{}/status", target.resource.plural)
        } else {
            target.resource.plural.to_owned()
        };
        let has = |list: &[String], wanted: &str| list.iter().any(|one| one == wanted);
        self.0.iter().any(|rule| {
            let of_name = |name: &String| rule.names.contains(name);
            has(&rule.accounts, account)
                && (rule.namespace.is_none() || rule.namespace == target.namespace)
                && has(&rule.groups, target.resource.group)
                && has(&rule.resources, &resource)
                && (rule.names.is_empty() || target.name.as_ref().is_some_and(of_name))
                && has(&rule.verbs, verb)
        })
    }
}

impl Rules {
    /// `true` if an account has a right, of the attributes of a review.
    pub(super) fn grant(&self, account: &str, attributes: &Value) -> bool {
        let text = |field: &str| attributes[field].as_str().unwrap_or_default().to_owned();
        let resource = match &*text("subresource") {
            "" => text("resource"),
            part => format!("{}/{part}", text("resource")),
        };
        self.0.iter().any(|rule| {
            let in_namespace = |namespace: &String| *namespace == text("namespace");
            rule.accounts.iter().any(|one| one == account)
                && rule.namespace.as_ref().is_none_or(in_namespace)
                && rule.groups.contains(&text("group"))
                && rule.resources.contains(&resource)
                && (rule.names.is_empty() || rule.names.contains(&text("name")))
                && rule.verbs.contains(&text("verb"))
        })
    }

    /// Permissions of an account that no request has used, as `<verb> <resource>`.
    pub(super) fn unused(&self, account: &str, requests: &[Request]) -> Vec<String> {
        let calls = requests.iter().filter_map(|request| {
            let watches = request.watches.then(|| ("watch".to_owned(), "true".to_owned()));
            let call = Call {
                method: request.method.clone(),
                query: watches.into_iter().collect(),
                ..Call::default()
            };
            let target = Target::parse(&request.path)?;
            let status = if target.status { "/status" } else { "" };
            let resource = format!("{}{status}", target.resource.plural);
            Some(format!("{} {resource}", verb(&call, &target)))
        });
        let used: BTreeSet<String> = calls.collect();
        let rules = self.0.iter().filter(|rule| rule.accounts.iter().any(|one| one == account));
        let permissions = rules.flat_map(|rule| {
            let resources = rule.resources.iter();
            resources.flat_map(|resource| {
                rule.verbs.iter().map(move |verb| format!("{verb} {resource}"))
            })
        });
        permissions.filter(|permission| !used.contains(permission)).collect()
    }
}

fn verb(call: &Call, target: &Target) -> &'static str {
    match (call.method.as_str(), &target.name) {
        ("GET", None) if call.flag("watch") => "watch",
        ("GET", None) => "list",
        ("GET", Some(_)) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", None) => "deletecollection",
        _ => "delete",
    }
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts.map(|text| text.as_str().unwrap().to_owned()).collect()
}
