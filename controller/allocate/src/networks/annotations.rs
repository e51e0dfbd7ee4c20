//! Annotations of objects: where everything that is allocated is written.

use patchbay_resources::manifests::{InventoryKind, ObjectKey, Objects};
use patchbay_resources::object::ObjectMeta;

/// The value of an annotation; empty counts as missing.
pub(super) fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

/// Writes annotations of an object. `None` removes the annotation. An object that has the values is
/// not copied.
pub(super) fn write_annotations<T: InventoryKind, const N: usize>(
    objects: &mut Objects<T>,
    key: &ObjectKey,
    values: [(&str, Option<String>); N],
) {
    let is_written = |object: &T| {
        let annotations = object.meta().annotations.as_ref();
        let mut values = values.iter();
        values.all(|(key, value)| annotations.and_then(|of| of.get(*key)) == value.as_ref())
    };
    if objects.get(key).is_none_or(|one| is_written(&one.object)) {
        return;
    }
    let Some(sourced) = objects.get_mut(key) else {
        return;
    };
    let annotations = &mut sourced.object.meta_mut().annotations;
    for (key, value) in values {
        match value {
            Some(value) => {
                annotations.get_or_insert_default().insert(key.to_owned(), value);
            }
            None => {
                if let Some(annotations) = annotations {
                    annotations.remove(key);
                }
            }
        }
    }
}
