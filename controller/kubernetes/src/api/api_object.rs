//! Decoding of the objects that API servers deliver.

use patchbay_model::FieldProblem;
use patchbay_resources::manifests::from_json;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Decodes an object.
///
/// # Errors
/// A value has the wrong type, or a required field is missing. The problem names the field.
pub(crate) fn decode<T: DeserializeOwned>(object: Value) -> Result<T, FieldProblem> {
    let (decoded, mut problems) = from_json(object);
    // Those before the last one are unknown fields.
    decoded.ok_or_else(|| {
        let last = problems.pop();
        last.unwrap_or_else(|| FieldProblem::new("", "cannot be decoded"))
    })
}
