//! Problems of objects, from which warnings, log lines, events and conditions are made.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use super::admin_policy::AdminPolicyKey;
use super::object_kind;
use super::pod::PodKey;
use super::policy::PolicyKey;
use super::printable::printable;
use super::service::ServiceKey;
use super::settings::Feature;

/// Limit of a text of a user in messages, in bytes.
const MAX_TEXT_BYTES: usize = 128;

/// Field of an object that cannot be used or has no effect, with the reason. `Display` prints
/// `<field>: <reason>`.
#[derive(Clone, Debug, Eq, Error, Hash, Ord, PartialEq, PartialOrd)]
pub struct FieldProblem {
    /// Path of the field, such as `spec.policyRoutes[0].priority`. Empty: the whole object.
    pub field: String,
    /// The reason.
    pub reason: String,
}

impl FieldProblem {
    /// A problem of the field with this path.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }

    /// A problem of the whole object.
    pub fn of_object(reason: impl Into<String>) -> Self {
        Self::new("", reason)
    }

    /// A problem of the annotation with this key.
    pub fn of_annotation(key: &str, reason: impl Into<String>) -> Self {
        Self::new(annotation_field(key), reason)
    }

    /// A problem of an object whose feature is off.
    pub fn of_feature(feature: Feature) -> Self {
        Self::of_object(format!(
            "feature {feature} is off, so the object has no effect; see --enable"
        ))
    }

    /// A problem with a text of a user, which is quoted and escaped.
    pub fn of_text(field: impl Into<String>, text: &str, reason: &str) -> Self {
        let text = printable(text, MAX_TEXT_BYTES);
        Self::new(field, format!("\"{text}\" {reason}"))
    }

    /// `true` if the problem is that of the annotation with this key.
    pub fn is_of_annotation(&self, key: &str) -> bool {
        self.field == annotation_field(key)
    }
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.reason)
    }
}

fn annotation_field(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}

/// Kind and name of an object. `Display` prints `<kind> <namespace>/<name>`, or `<kind> <name>`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ObjectRef {
    /// The kind.
    pub kind: Cow<'static, str>,
    /// Namespace. `None`: the kind has no namespaces.
    pub namespace: Option<Arc<str>>,
    /// Name.
    pub name: Arc<str>,
}

impl ObjectRef {
    /// An object of a kind without namespaces.
    pub fn cluster(kind: impl Into<Cow<'static, str>>, name: impl Into<Arc<str>>) -> Self {
        Self { kind: kind.into(), namespace: None, name: name.into() }
    }

    /// An object in a namespace.
    pub fn namespaced(
        kind: impl Into<Cow<'static, str>>,
        namespace: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
    ) -> Self {
        Self { kind: kind.into(), namespace: Some(namespace.into()), name: name.into() }
    }

    /// The object that [`Display`](fmt::Display) prints as this text. `None`: it is that of none.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once(' ')?;
        Some(match name.split_once('/') {
            Some((namespace, name)) => Self::namespaced(kind.to_owned(), namespace, name),
            None => Self::cluster(kind.to_owned(), name),
        })
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

impl From<&PodKey> for ObjectRef {
    fn from(key: &PodKey) -> Self {
        Self::namespaced(object_kind::POD, key.namespace.clone(), key.name.clone())
    }
}

impl From<&ServiceKey> for ObjectRef {
    fn from(key: &ServiceKey) -> Self {
        Self::namespaced(object_kind::SERVICE, key.namespace.clone(), key.name.clone())
    }
}

impl From<&PolicyKey> for ObjectRef {
    fn from(key: &PolicyKey) -> Self {
        Self::namespaced(key.kind.as_str(), key.namespace.clone(), key.name.clone())
    }
}

impl From<&AdminPolicyKey> for ObjectRef {
    fn from(key: &AdminPolicyKey) -> Self {
        Self::cluster(key.kind.as_str(), key.name.clone())
    }
}

/// A problem of one object. `Display` prints `<object>: <field>: <reason>`.
#[derive(Clone, Debug, Eq, Error, Hash, Ord, PartialEq, PartialOrd)]
#[error("{object}: {problem}")]
pub struct ObjectProblem {
    /// The object.
    pub object: ObjectRef,
    /// Field and reason.
    pub problem: FieldProblem,
}

impl ObjectProblem {
    /// A problem of this object.
    pub fn new(object: impl Into<ObjectRef>, problem: FieldProblem) -> Self {
        Self { object: object.into(), problem }
    }
}
