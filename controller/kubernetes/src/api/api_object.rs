//! Decoding of the objects that API servers deliver.

use patchbay_model::FieldProblem;
use patchbay_resources::manifests::from_json;
use patchbay_resources::object::{ConfigMap, Object};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A type into which objects of an API server are decoded.
pub(crate) trait ApiObject: Object + Sized {
    /// Decodes an object.
    ///
    /// # Errors
    /// A value has the wrong type, or a required field is missing. The violation names the field.
    fn from_api(object: Value) -> Result<Self, FieldProblem>;
}

impl ApiObject for ConfigMap {
    fn from_api(object: Value) -> Result<Self, FieldProblem> {
        decode(object)
    }
}

/// Decodes an object.
pub(crate) fn decode<T: DeserializeOwned>(object: Value) -> Result<T, FieldProblem> {
    last_violation(from_json(object))
}

/// The object, or the violation for which there is none. Those before the last one are unknown
/// fields.
fn last_violation<T>(
    (object, mut violations): (Option<T>, Vec<FieldProblem>),
) -> Result<T, FieldProblem> {
    object.ok_or_else(|| {
        let last = violations.pop();
        last.unwrap_or_else(|| FieldProblem::new("", "cannot be decoded"))
    })
}
