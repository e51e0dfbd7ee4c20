//! Decoding of the objects that API servers deliver.

use patchbay_resources::Violation;
use patchbay_resources::manifests::{InventoryKind, from_json};
use patchbay_resources::object::{ConfigMap, MetadataOnly, Object, Pod, Service};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A type into which objects of an API server are decoded.
pub(super) trait ApiObject: Object + Sized {
    /// Decodes an object.
    ///
    /// # Errors
    /// A value has the wrong type, or a required field is missing. The violation names the field.
    fn from_api(object: Value) -> Result<Self, Violation>;
}

impl ApiObject for Pod {
    fn from_api(object: Value) -> Result<Self, Violation> {
        decode_kind(object)
    }
}

impl ApiObject for Service {
    fn from_api(object: Value) -> Result<Self, Violation> {
        decode_kind(object)
    }
}

impl ApiObject for ConfigMap {
    fn from_api(object: Value) -> Result<Self, Violation> {
        decode(object)
    }
}

impl<T: Object> ApiObject for MetadataOnly<T> {
    fn from_api(object: Value) -> Result<Self, Violation> {
        decode(object)
    }
}

/// Decodes an object of a kind of the inventory.
fn decode_kind<K: InventoryKind>(object: Value) -> Result<K, Violation> {
    match K::decode(&object) {
        Ok((object, _)) => Ok(object),
        Err(_) => last_violation(K::decode_strictly(object)),
    }
}

/// Decodes an object of another type.
pub(super) fn decode<T: DeserializeOwned>(object: Value) -> Result<T, Violation> {
    last_violation(from_json(object))
}

/// The object, or the violation for which there is none. Those before the last one are unknown
/// fields.
fn last_violation<T>(
    (object, mut violations): (Option<T>, Vec<Violation>),
) -> Result<T, Violation> {
    object.ok_or_else(|| {
        let last = violations.pop();
        last.unwrap_or_else(|| Violation::new("", "cannot be decoded"))
    })
}
