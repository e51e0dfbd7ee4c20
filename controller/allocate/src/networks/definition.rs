//! Attachment definitions of custom resources: their metadata and their owner.

use patchbay_resources::manifests::{Inventory, InventoryKind, ObjectKey};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{Object, ObjectMeta, OwnerReference};

/// Label of every attachment definition that was made for a custom resource.
const USER_DEFINED_LABEL: &str = "k8s.ovn.org/user-defined-network";
/// Finalizer of a network that pods may still use, on the custom resource and on its definitions.
pub const FINALIZER: &str = "k8s.ovn.org/user-defined-network-protection";
/// Start of the annotations that are not copied from the custom resource.
pub(super) const MANAGED_ANNOTATIONS: &str = "k8s.ovn.org";

/// Metadata of the definition `key` of a custom resource.
pub(super) fn rendered_meta<T: InventoryKind>(owner: &T, key: &ObjectKey) -> ObjectMeta {
    let copied =
        owner.annotations().iter().filter(|(key, _)| !key.starts_with(MANAGED_ANNOTATIONS));
    let annotations: std::collections::BTreeMap<String, String> =
        copied.map(|(key, value)| (key.clone(), value.clone())).collect();
    let mut labels = owner.labels().clone();
    labels.entry(USER_DEFINED_LABEL.into()).or_default();
    ObjectMeta {
        namespace: key.namespace.clone(),
        name: Some(key.name.clone()),
        labels: Some(labels),
        annotations: (!annotations.is_empty()).then_some(annotations),
        finalizers: Some(vec![FINALIZER.into()]),
        owner_references: Some(vec![OwnerReference {
            api_version: T::api_version(),
            kind: T::KIND.to_owned(),
            name: owner.name_any(),
            // Manifests have no uid: only a cluster hands them out.
            uid: owner.uid().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]),
        ..ObjectMeta::default()
    }
}

/// Adds the finalizer, unless the object has it.
pub(super) fn add_finalizer(meta: &mut ObjectMeta) {
    let finalizers = meta.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
}

/// The owner that controls the definition.
pub(super) fn controller(nad: &NetworkAttachmentDefinition) -> Option<&OwnerReference> {
    nad.owner_references().iter().find(|owner| owner.controller == Some(true))
}

/// Returns `true` if the definition belongs to this object. If only one side has a uid, it is from
/// a cluster and the other side from a manifest: then the names decide.
pub(super) fn is_controlled_by<T: InventoryKind>(
    nad: &NetworkAttachmentDefinition,
    object: &T,
) -> bool {
    controller(nad).is_some_and(|owner| {
        let uid = object.uid().unwrap_or_default();
        owner.api_version == T::api_version()
            && owner.kind == T::KIND
            && owner.name == object.name_any()
            && (owner.uid == uid || owner.uid.is_empty() || uid.is_empty())
    })
}

/// Namespaces and names of the definitions of a custom resource.
pub(super) fn own_definitions<T: InventoryKind>(
    object: &T,
    inventory: &Inventory,
) -> Vec<ObjectKey> {
    let nads = &inventory.network_attachment_definitions;
    let key = ObjectKey::of(object.meta());
    if key.namespace.is_some() {
        let own = nads.get(&key);
        let is_own = own.is_some_and(|nad| is_controlled_by(&nad.object, object));
        return is_own.then_some(key).into_iter().collect();
    }
    let own = nads.iter();
    own.filter(|(_, nad)| is_controlled_by(&nad.object, object))
        .map(|(key, _)| key.clone())
        .collect()
}

/// Returns `true` if the object has the finalizer.
pub(super) fn has_finalizer(meta: &ObjectMeta) -> bool {
    let mut finalizers = meta.finalizers.iter().flatten();
    finalizers.any(|finalizer| finalizer == FINALIZER)
}

/// Removes the finalizer.
pub(super) fn remove_finalizer(meta: &mut ObjectMeta) {
    if let Some(finalizers) = &mut meta.finalizers {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    meta.finalizers = meta.finalizers.take().filter(|left| !left.is_empty());
}
