//! Fields of JSON objects that their types do not have, and values of wrong types.

use patchbay_model::FieldProblem;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::located::{self, PlaceError, Segment};
use super::words::{in_words, unknown_field};

/// Maximum number of attempts to decode an object, each of which finds an unknown field.
const MAX_DECODE_ATTEMPTS: usize = 20;

/// Decodes a JSON object, and returns a violation for each unknown field and for the first value
/// of a wrong type. `None`: the object cannot be decoded, because of the last violation.
///
/// ```
/// use patchbay_resources::manifests::from_json;
/// use patchbay_resources::object::LabelSelector;
///
/// let json = serde_json::json!({"matchLabel": {"network": "blue"}});
/// let (selector, violations) = from_json::<LabelSelector>(json);
/// assert_eq!(selector, Some(LabelSelector::default()));
/// assert_eq!(violations[0].to_string(), "matchLabel: unknown field, did you mean matchLabels?");
/// ```
pub fn from_json<T: DeserializeOwned>(mut json: Value) -> (Option<T>, Vec<FieldProblem>) {
    let mut violations = Vec::new();
    loop {
        match located::decode(&json) {
            Ok((object, ignored)) => {
                violations.extend(ignored_violations(&ignored));
                return (Some(object), violations);
            }
            Err(error) => {
                violations.push(error_violation(&error));
                // Decode again without the unknown member, to find further violations. Each attempt
                // costs as much as the object is large.
                if violations.len() >= MAX_DECODE_ATTEMPTS || !remove_unknown(&mut json, &error) {
                    return (None, violations);
                }
            }
        }
    }
}

/// Fields of an object that its type does not have.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UnknownFields(Vec<Vec<Segment>>);

impl UnknownFields {
    pub(super) fn new(fields: Vec<Vec<Segment>>) -> Self {
        Self(fields)
    }

    /// The first field that is a selector or inside one, as a violation. Fields of the status are
    /// left out.
    pub fn in_selectors(&self) -> Option<FieldProblem> {
        let mut fields = self.0.iter();
        let field = fields.find(|field| is_in_selector(field))?;
        Some(unknown(field))
    }
}

fn is_in_selector(field: &[Segment]) -> bool {
    let mut names = field.iter().filter_map(|segment| match segment {
        Segment::Member(name) => Some(name),
        Segment::Item(_) => None,
    });
    let is_selector = |name: &String| name.to_ascii_lowercase().contains("selector");
    names.next().is_some_and(|first| first != "status") && names.any(is_selector)
}

/// A violation for a field that the type of the object does not have.
fn unknown(path: &[Segment]) -> FieldProblem {
    let name = path.iter().rev().find_map(|segment| match segment {
        Segment::Member(name) => Some(name.as_str()),
        Segment::Item(_) => None,
    });
    FieldProblem::new(format_path(path), unknown_field(name.unwrap_or_default(), &[]))
}

/// Violations for ignored members. The type determines `apiVersion` and `kind`. Newer clusters have
/// more fields in the status, which is not used.
pub(super) fn ignored_violations(ignored: &[Vec<Segment>]) -> impl Iterator<Item = FieldProblem> {
    let violations = ignored.iter().map(|path| unknown(path));
    violations.filter(|violation| {
        let field = violation.field.as_str();
        field != "apiVersion" && field != "kind" && !field.starts_with("status.")
    })
}

pub(super) fn error_violation(error: &PlaceError) -> FieldProblem {
    let mut message = error.message();
    let is_plain_scalar = ["boolean", "integer", "floating point"]
        .iter()
        .any(|kind| message.starts_with(&format!("invalid type: {kind}")));
    if is_plain_scalar && message.ends_with("expected a string") {
        message = format!("{}; quote the value", in_words(&message));
    } else {
        message = in_words(&message);
    }
    FieldProblem::new(format_path(error.path()), message)
}

fn format_path(path: &[Segment]) -> String {
    path.iter().fold(String::new(), |parent, segment| match segment {
        Segment::Member(key) => join_member(parent, key),
        Segment::Item(index) => format!("{parent}[{index}]"),
    })
}

/// Path of a member. Keys that are not identifiers, such as label keys, are in brackets.
fn join_member(parent: String, key: &str) -> String {
    if !key.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        format!("{parent}[{key}]")
    } else if parent.is_empty() {
        key.to_owned()
    } else {
        parent + "." + key
    }
}

/// Removes the member whose field is unknown. Returns `false` if the error is another one.
pub(super) fn remove_unknown(json: &mut Value, error: &PlaceError) -> bool {
    let Some((Segment::Member(key), parents)) = error.path().split_last() else {
        return false;
    };
    let mut parents = parents.iter();
    let parent = parents.try_fold(json, |value, segment| match segment {
        Segment::Member(key) => value.get_mut(key),
        Segment::Item(index) => value.get_mut(index),
    });
    error.message().starts_with("unknown field")
        && parent
            .and_then(Value::as_object_mut)
            .is_some_and(|members| members.remove(key).is_some())
}
