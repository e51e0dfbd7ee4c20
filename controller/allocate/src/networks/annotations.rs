//! Annotations that the cluster manager reads and writes.

use patchbay_resources::object::ObjectMeta;

/// The value of an annotation; empty counts as missing.
pub(super) fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations
        .as_ref()?
        .get(key)
        .map(String::as_str)
        .filter(|value| !value.is_empty())
}

/// Sets an annotation.
pub(super) fn annotate(meta: &mut ObjectMeta, key: &str, value: impl Into<String>) {
    meta.annotations
        .get_or_insert_default()
        .insert(key.to_owned(), value.into());
}

/// The field path of an annotation.
pub(super) fn annotation_field(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}
