//! Decoding of the objects that API servers deliver.

use patchbay_resources::manifests::InventoryKind;
use patchbay_resources::object::{ConfigMap, MetadataOnly, Object, Pod, Service};
use serde_json::Value;

/// A type into which objects of an API server are decoded.
pub(super) trait ApiObject: Object + Sized {
    /// Decodes an object.
    ///
    /// # Errors
    /// A value has the wrong type, or a required field is missing.
    fn from_api(object: Value) -> serde_json::Result<Self>;
}

impl ApiObject for Pod {
    fn from_api(object: Value) -> serde_json::Result<Self> {
        InventoryKind::decode(&object).map(|(object, _)| object)
    }
}

impl ApiObject for Service {
    fn from_api(object: Value) -> serde_json::Result<Self> {
        InventoryKind::decode(&object).map(|(object, _)| object)
    }
}

impl ApiObject for ConfigMap {
    fn from_api(object: Value) -> serde_json::Result<Self> {
        serde_json::from_value(object)
    }
}

impl<T: Object> ApiObject for MetadataOnly<T> {
    fn from_api(object: Value) -> serde_json::Result<Self> {
        serde_json::from_value(object)
    }
}
