//! From documents to objects.

use std::sync::Arc;

use crate::object::ObjectMeta;
use crate::object::{Namespace, Node, Service};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Segment, Track};

use super::inventory::{Inventory, Kind, ObjectKey, Origin, Sourced, describe};
use super::raw::Raw;
use super::yaml::{self, Content};
use super::{LoadError, Place, Problem, kinds};
use crate::cnc::ClusterNetworkConnect;
use crate::nad::NetworkAttachmentDefinition;
use crate::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};
use crate::{Violation, selector};

/// Label that every namespace of a cluster has: its own name.
const METADATA_NAME: &str = "kubernetes.io/metadata.name";

/// Fills an inventory from documents and collects what is wrong with them.
pub(super) struct Decoder {
    /// What the objects come from, given the place where they stand.
    origin: fn(Place) -> Origin,
    pub(super) inventory: Inventory,
    pub(super) errors: Vec<Problem>,
    /// How many objects there were: good, bad or of no use.
    pub(super) objects: u64,
}

impl Decoder {
    pub(super) fn new(origin: fn(Place) -> Origin) -> Self {
        Self {
            origin,
            inventory: Inventory::default(),
            errors: Vec::new(),
            objects: 0,
        }
    }

    /// What was read, unless something is wrong with any of it.
    pub(super) fn finish(self) -> Result<Inventory, LoadError> {
        if self.errors.is_empty() {
            Ok(self.inventory)
        } else {
            Err(LoadError {
                problems: self.errors,
            })
        }
    }

    /// Reads all objects of a file's text.
    pub(super) fn read(&mut self, file: &str, text: &str) {
        let file: Arc<str> = file.into();
        for yaml::Document { number, content } in yaml::parse_stream(text) {
            match content {
                Ok(node) => self.read_object(&Raw {
                    node: &node,
                    file: &file,
                    document: number,
                    of_list: None,
                }),
                Err(error) => self.errors.push(Problem {
                    place: Some(Place {
                        file: file.clone(),
                        document: number,
                        line: error.line,
                    }),
                    message: format!("malformed YAML: {}", error.message),
                    ..Problem::default()
                }),
            }
        }
    }

    fn read_object(&mut self, raw: &Raw<'_>) {
        let Some((api_version, kind)) = raw.kind() else {
            self.objects += 1;
            let message = match &raw.node.content {
                Content::Mapping(_) => {
                    "is no Kubernetes object: apiVersion and kind are required texts"
                }
                _ => "is no Kubernetes object: a mapping is required",
            };
            self.errors.push(raw.problem("", message));
            return;
        };
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        if kind.ends_with("List") && raw.node.get("items").is_some()
            || (group, kind) == ("", "List")
        {
            return self.read_list(raw, api_version, kind);
        }
        self.objects += 1;
        match (group, kind) {
            ("", "Namespace") => self.decode::<Namespace>(raw, version),
            ("", "Node") => self.decode::<Node>(raw, version),
            ("", "Service") => self.decode::<Service>(raw, version),
            ("k8s.cni.cncf.io", "NetworkAttachmentDefinition") => {
                self.decode::<NetworkAttachmentDefinition>(raw, version);
            }
            ("k8s.ovn.org", "UserDefinedNetwork") => {
                self.decode::<UserDefinedNetwork>(raw, version);
            }
            ("k8s.ovn.org", "ClusterUserDefinedNetwork") => {
                self.decode::<ClusterUserDefinedNetwork>(raw, version);
            }
            ("k8s.ovn.org", "ClusterNetworkConnect") => {
                self.decode::<ClusterNetworkConnect>(raw, version);
            }
            _ => self.read_other(raw, api_version, group, kind),
        }
    }

    /// Reads a kind that is none of ours, or one of ours that is written wrong.
    fn read_other(&mut self, raw: &Raw<'_>, api_version: &str, group: &str, kind: &str) {
        if let Some((field, message)) = kinds::mistake(group, kind) {
            self.errors.push(raw.problem(field, message));
        } else {
            let message = format!("kind {kind} of {api_version} is not used by patchbay, ignored");
            self.inventory.warnings.push(raw.problem("", message));
        }
    }

    fn read_list(&mut self, raw: &Raw<'_>, api_version: &str, kind: &str) {
        // Items of a typed list, as an API server gives one, do not say once more what they are.
        let of_item = kind.strip_suffix("List").filter(|kind| !kind.is_empty());
        let of_list = of_item.map(|kind| (api_version, kind));
        match raw.node.get("items").map(|items| &items.content) {
            Some(Content::Sequence(items)) => {
                for node in items {
                    self.read_object(&Raw {
                        node,
                        of_list,
                        ..*raw
                    });
                }
            }
            _ => self.errors.push(raw.problem("items", "a list is required")),
        }
    }

    fn decode<T: Kind>(&mut self, raw: &Raw<'_>, version: &str) {
        if T::VERSION != version {
            let message = format!("version {version:?} is not known, {:?} is", T::VERSION);
            self.errors.push(raw.problem("apiVersion", message));
            return;
        }
        let origin = (self.origin)(raw.place(""));
        let (mut object, mut violations) = from_json::<T>(raw.to_json());
        let of_status = |violation: &Violation| {
            let rest = violation.field.strip_prefix("status");
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        if object.is_none()
            && violations.last().is_some_and(of_status)
            && has_own_status::<T>()
            && matches!(origin, Origin::Manifest(_))
        {
            (object, violations) = from_json::<T>(raw.without_status());
        }
        let Some(mut object) = object else {
            self.errors
                .extend(violations.iter().map(|violation| raw.violation(violation)));
            return;
        };
        complete(&mut object);
        violations.extend(meta_violations::<T>(object.meta()));
        violations.extend(object.violations());
        self.errors
            .extend(violations.iter().map(|violation| raw.violation(violation)));
        let key = ObjectKey::of(object.meta());
        if let Some(first) = T::of(&self.inventory).get(&key) {
            let message = format!("there is already one of this name at {}", first.origin);
            self.errors.push(Problem {
                object: Some(describe(&object)),
                ..raw.problem("", message)
            });
        } else {
            // Objects with violations stay, so that a second one of their name is told as well.
            T::of_mut(&mut self.inventory).insert(Sourced {
                object,
                origin,
                position: self.objects,
            });
        }
    }
}

/// The object, if it can be made, and every field that is unknown or of a wrong type.
pub fn from_json<T: DeserializeOwned>(mut json: Value) -> (Option<T>, Vec<Violation>) {
    let mut violations = Vec::new();
    loop {
        let mut track = Track::new();
        let mut ignored = Vec::new();
        let attempt = serde_ignored::deserialize(
            serde_path_to_error::Deserializer::new(&json, &mut track),
            |path: serde_ignored::Path<'_>| ignored.push(ignored_field(&path)),
        );
        let error: serde_json::Error = match attempt {
            Ok(object) => {
                // The type itself says what it is. And clusters newer than these types report more; nobody reads
                // the status of a manifest.
                let told = |field: &String| {
                    !(field == "apiVersion" || field == "kind" || field.starts_with("status."))
                };
                ignored.retain(told);
                violations.extend(
                    ignored
                        .into_iter()
                        .map(|field| Violation::new(field, "unknown field")),
                );
                return (Some(object), violations);
            }
            Err(error) => error,
        };
        let path: Vec<_> = track.path().iter().cloned().collect();
        let mut message = error.to_string();
        let unknown = message.starts_with("unknown field");
        let is_word = ["boolean", "integer", "floating point"]
            .iter()
            .any(|kind| message.starts_with(&format!("invalid type: {kind}")));
        if is_word && message.ends_with("expected a string") {
            message += "; in quotes it is one";
        }
        violations.push(Violation::new(field(&path), message));
        // Without the unknown member the rest can be looked at.
        if !(unknown && remove(&mut json, &path)) {
            return (None, violations);
        }
    }
}

fn field(path: &[Segment]) -> String {
    path.iter()
        .fold(String::new(), |parent, segment| match segment {
            Segment::Map { key } => member(parent, key),
            Segment::Seq { index } => format!("{parent}[{index}]"),
            Segment::Enum { .. } | Segment::Unknown => parent,
        })
}

fn ignored_field(path: &serde_ignored::Path<'_>) -> String {
    use serde_ignored::Path;
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}[{index}]", ignored_field(parent)),
        Path::Map { parent, key } => member(ignored_field(parent), key),
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => ignored_field(parent),
    }
}

/// The path of a member. Keys that are no identifiers, such as those of labels, stand in brackets.
fn member(parent: String, key: &str) -> String {
    if !key.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        format!("{parent}[{key}]")
    } else if parent.is_empty() {
        key.to_owned()
    } else {
        parent + "." + key
    }
}

/// Takes the member at this path out; whether there was one.
fn remove(json: &mut Value, path: &[Segment]) -> bool {
    let Some((Segment::Map { key }, parents)) = path.split_last() else {
        return false;
    };
    let parent = parents
        .iter()
        .try_fold(json, |value, segment| match segment {
            Segment::Map { key } => value.get_mut(key),
            Segment::Seq { index } => value.get_mut(index),
            Segment::Enum { .. } | Segment::Unknown => None,
        });
    parent
        .and_then(Value::as_object_mut)
        .is_some_and(|members| members.remove(key).is_some())
}

/// Whether an API server drops the status of a new object: that is written apart from the rest.
fn has_own_status<T: Kind>() -> bool {
    T::GROUP == "k8s.ovn.org"
}

/// Fills in what an API server fills in.
fn complete<T: Kind>(object: &mut T) {
    let meta = object.meta_mut();
    if T::NAMESPACED {
        meta.namespace.get_or_insert_with(|| "default".into());
    }
    if let (true, Some(name)) = (T::KIND == "Namespace", &meta.name) {
        meta.labels
            .get_or_insert_default()
            .insert(METADATA_NAME.into(), name.clone());
    }
}

/// What is wrong with a name, in the API server's words; names of namespaces are labels.
fn name_problem(name: &str, is_label: bool) -> Option<String> {
    let (is_good, limit, rule) = if is_label {
        (selector::is_dns_label(name), 63, selector::DNS_LABEL_RULE)
    } else {
        let is_good = selector::is_dns_subdomain(name);
        (is_good, 253, selector::DNS_SUBDOMAIN_RULE)
    };
    let problem = if name.len() > limit {
        format!("must be no more than {limit} characters")
    } else {
        rule.to_owned()
    };
    (!is_good).then(|| format!("Invalid value: \"{name}\": {problem}"))
}

fn meta_violations<T: Kind>(meta: &ObjectMeta) -> Vec<Violation> {
    let mut found = Vec::new();
    match meta.name.as_deref() {
        None | Some("") => found.push(Violation::new("metadata.name", "Required value")),
        Some(name) => {
            let is_label = T::KIND == "Namespace";
            let problem = name_problem(name, is_label);
            found.extend(problem.map(|problem| Violation::new("metadata.name", problem)));
        }
    }
    match meta.namespace.as_deref() {
        Some(_) if !T::NAMESPACED => {
            found.push(Violation::new(
                "metadata.namespace",
                "Forbidden: not allowed on this kind",
            ));
        }
        Some(namespace) => {
            let problem = name_problem(namespace, true);
            found.extend(problem.map(|problem| Violation::new("metadata.namespace", problem)));
        }
        None => {}
    }
    for (key, value) in meta.labels.iter().flatten() {
        let field = format!("metadata.labels[{key}]");
        let problems = selector::key_problem(key)
            .into_iter()
            .chain(selector::value_problem(value));
        found.extend(problems.map(|problem| Violation::new(&field, problem)));
    }
    for key in meta.annotations.iter().flatten().map(|(key, _)| key) {
        let problem = selector::key_problem(key);
        found.extend(
            problem.map(|problem| Violation::new(format!("metadata.annotations[{key}]"), problem)),
        );
    }
    found
}
