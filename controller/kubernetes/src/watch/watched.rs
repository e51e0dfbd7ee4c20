//! Complete objects as watches have delivered them.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use patchbay_resources::manifests::{Inventory, InventoryKind, ObjectKey, Origin, Sourced};
use patchbay_resources::object::{ObjectMeta, Time};
use serde_json::Value;

use crate::api::tolerant_object::{TolerantObject, UndecodableObject};
use crate::watch::kept_fields::created_second;
use crate::watch::node_subnets::NumberedNetworks;
use crate::write::write_outcome::Written;

/// Annotation in which `kubectl apply` keeps a copy of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Largest number of fields without which an object is used.
const MAX_DROPPED_FIELDS: usize = 64;

/// What connected networks need of packed objects.
#[derive(Debug, Default)]
pub(crate) struct ConnectedParts {
    /// The networks of the subnets that nodes get.
    pub(crate) networks: NumberedNetworks,
    /// Namespaces whose primary network is connected.
    pub(crate) namespaces: BTreeSet<String>,
}

/// An object of any kind of the inventory.
///
/// The stores of all kinds have this one type of values, because the compiler would make the
/// functions of ordered maps once for each type.
pub(crate) trait AnyObject: Any + Debug + Send + Sync {
    /// Metadata. `None`: it is not kept.
    fn meta(&self) -> Option<&ObjectMeta>;

    fn uid(&self) -> Option<&str> {
        self.meta()?.uid.as_deref()
    }

    /// Time of creation.
    fn created(&self) -> Option<&Time> {
        self.meta()?.creation_timestamp.as_ref()
    }

    /// Inserts the object into the objects of its kind. A packed object inserts what connected
    /// networks need.
    fn insert_into(
        self: Arc<Self>,
        key: &ObjectKey,
        inventory: &mut Inventory,
        connected: &ConnectedParts,
    );

    /// The object with the UID and the version that a write has given it.
    fn after(&self, written: &Written) -> Arc<dyn AnyObject>;

    fn is_equal(&self, other: &dyn Any) -> bool;

    fn as_any(&self) -> &dyn Any;
}

impl<K> AnyObject for Sourced<K>
where
    K: InventoryKind + Debug + Send + Sync + 'static,
{
    fn meta(&self) -> Option<&ObjectMeta> {
        Some(self.object.meta())
    }

    fn insert_into(self: Arc<Self>, _: &ObjectKey, inventory: &mut Inventory, _: &ConnectedParts) {
        K::objects_mut(inventory).insert_shared(self);
    }

    fn after(&self, written: &Written) -> Arc<dyn AnyObject> {
        let mut sourced = self.clone();
        let meta = sourced.object.meta_mut();
        meta.uid.clone_from(&written.uid);
        meta.resource_version = written.version.map(|version| version.to_string());
        Arc::new(sourced)
    }

    fn is_equal(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// An object that can be decoded. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct WatchedObject(Arc<dyn AnyObject>);

impl WatchedObject {
    pub(crate) fn new<K>(object: Sourced<K>) -> Self
    where
        K: InventoryKind + Debug + Send + Sync + 'static,
    {
        Self(Arc::new(object))
    }

    /// An object of which only a part is kept.
    pub(crate) fn packed(object: impl AnyObject) -> Self {
        Self(Arc::new(object))
    }

    /// The object with the UID and the version that a write has given it.
    pub(crate) fn after(&self, written: &Written) -> Self {
        Self(self.0.after(written))
    }

    pub(crate) fn meta(&self) -> Option<&ObjectMeta> {
        self.0.meta()
    }

    /// Inserts the object into the objects of its kind.
    pub(crate) fn insert_into(&self, key: &ObjectKey, inventory: &mut Inventory) {
        self.insert_with(key, inventory, &ConnectedParts::default());
    }

    /// Inserts the object into the objects of its kind. A packed object inserts what connected
    /// networks need.
    pub(crate) fn insert_with(
        &self,
        key: &ObjectKey,
        inventory: &mut Inventory,
        connected: &ConnectedParts,
    ) {
        self.0.clone().insert_into(key, inventory, connected);
    }
}

impl PartialEq for WatchedObject {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.is_equal(other.0.as_any())
    }
}

/// An object as a watch has delivered it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Watched {
    Readable(WatchedObject),
    /// The object without the fields that cannot be decoded.
    Partial(Arc<PartialObject>),
    /// The object cannot be decoded.
    Unreadable(Arc<UndecodableObject>),
}

impl Watched {
    /// Metadata of the object. `None`: it is not kept.
    pub(crate) fn meta(&self) -> Option<&ObjectMeta> {
        match self {
            Self::Readable(object) => object.meta(),
            Self::Partial(partial) => partial.object.meta(),
            Self::Unreadable(object) => Some(&object.metadata),
        }
    }

    /// The object. `None`: it cannot be decoded.
    pub(crate) fn object(&self) -> Option<&WatchedObject> {
        match self {
            Self::Readable(object) => Some(object),
            Self::Partial(partial) => Some(&partial.object),
            Self::Unreadable(_) => None,
        }
    }

    /// UID of the object.
    pub(crate) fn uid(&self) -> Option<&str> {
        match self.object() {
            Some(object) => object.0.uid(),
            None => self.meta()?.uid.as_deref(),
        }
    }

    /// Time of creation of the object.
    pub(crate) fn created(&self) -> Option<&Time> {
        match self.object() {
            Some(object) => object.0.created(),
            None => self.meta()?.creation_timestamp.as_ref(),
        }
    }
}

/// An object without the fields that cannot be decoded.
#[derive(Debug, PartialEq)]
pub(crate) struct PartialObject {
    pub(crate) object: WatchedObject,
    /// Why the fields cannot be decoded.
    pub(crate) reasons: Vec<String>,
}

/// Projects an object to itself without managed fields and the copy of `kubectl apply`, and without
/// what `prune` removes. `wrap` makes the value of the store.
pub(crate) fn project<K>(
    decoding: Decoding,
    prune: impl Fn(&mut K),
    wrap: impl Fn(Sourced<K>) -> WatchedObject,
) -> impl Fn(TolerantObject<K>) -> Watched
where
    K: InventoryKind + Debug + Send + Sync + 'static,
{
    let keep = move |mut object: K| {
        let meta = object.meta_mut();
        meta.managed_fields = None;
        if let Some(annotations) = &mut meta.annotations {
            annotations.remove(LAST_APPLIED);
        }
        meta.owner_references.iter_mut().for_each(Vec::shrink_to_fit);
        prune(&mut object);
        wrap(Sourced { position: created_second(object.meta()), object, origin: Origin::Cluster })
    };
    move |object| match object.0 {
        Ok(object) => Watched::Readable(keep(object)),
        Err(unreadable) => {
            let partial = match decoding {
                Decoding::Whole => None,
                Decoding::WithoutFields => without_undecodable_fields(unreadable.raw.clone()),
            };
            match partial {
                Some((object, reasons)) => {
                    Watched::Partial(Arc::new(PartialObject { object: keep(object), reasons }))
                }
                None => Watched::Unreadable(Arc::new(unreadable)),
            }
        }
    }
}

/// Use of an object with fields that cannot be decoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Decoding {
    /// None: without a field, such as a selector, the object would allow or select too much.
    Whole,
    /// The object without the fields.
    WithoutFields,
}

/// Decodes an object without the fields that cannot be, and returns the reasons. `None`: nothing is
/// left that can be.
fn without_undecodable_fields<K: InventoryKind>(mut raw: Value) -> Option<(K, Vec<String>)> {
    let mut reasons = Vec::new();
    for _ in 0..MAX_DROPPED_FIELDS {
        let (object, violations) = K::decode_strictly(raw.clone());
        if let Some(object) = object {
            return Some((object, reasons));
        }
        // Those before the last one are unknown fields.
        let violation = violations.last()?;
        remove_field(&mut raw, &violation.field)?;
        reasons.push(violation.to_string());
    }
    None
}

/// Removes the field or element at a path such as `spec.ports[0].port`. `None`: there is none.
fn remove_field(value: &mut Value, path: &str) -> Option<Value> {
    let (parent, last) = match path.rfind(['.', '[']) {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => ("", path),
    };
    let parts = parent.split(['.', '[']).filter(|part| !part.is_empty());
    let pointer: String = parts.flat_map(|part| ["/", part.trim_end_matches(']')]).collect();
    match value.pointer_mut(&pointer)? {
        Value::Object(fields) => fields.remove(last),
        Value::Array(elements) => {
            let index: usize = last.trim_end_matches(']').parse().ok()?;
            (index < elements.len()).then(|| elements.remove(index))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use patchbay_resources::object::{NetworkPolicy, Pod};
    use serde_json::json;

    use super::*;

    fn watched<K>(decoding: Decoding, object: Value) -> Watched
    where
        K: InventoryKind + Debug + Send + Sync + 'static,
    {
        project::<K>(decoding, |_| {}, WatchedObject::new)(TolerantObject::of(object))
    }

    #[test]
    fn a_pod_is_used_without_the_fields_that_cannot_be_decoded() {
        let pod = watched::<Pod>(
            Decoding::WithoutFields,
            json!({
                "metadata": {"name": "a", "namespace": "blue", "labels": {"app": "web"}},
                "spec": {"nodeName": "n1", "hostNetwork": "no", "containers": [
                    {"name": "c", "ports": [{"containerPort": "http"}, {"containerPort": 80}]},
                ]},
            }),
        );
        let Watched::Partial(partial) = pod else {
            panic!("{pod:?}");
        };
        let PartialObject { object: pod, reasons } = &*partial;
        let mut inventory = Inventory::default();
        pod.insert_into(&ObjectKey::namespaced("blue", "a"), &mut inventory);
        let (_, pod) = inventory.pods.iter().next().unwrap();
        let spec = pod.object.spec.as_ref().unwrap();
        assert_eq!(spec.node_name.as_deref(), Some("n1"));
        assert_eq!(spec.host_network, None);
        let ports = spec.containers[0].ports.as_ref().unwrap();
        assert_eq!(ports.last().unwrap().container_port, 80);
        let fields: BTreeSet<&str> = reasons
            .iter()
            .filter_map(|reason| reason.split_once(": "))
            .map(|(field, _)| field)
            .collect();
        let port = "spec.containers[0].ports[0].containerPort";
        assert_eq!(fields, BTreeSet::from(["spec.hostNetwork", port]));
    }

    #[test]
    fn a_policy_is_not_used_without_a_field() {
        let policy = watched::<NetworkPolicy>(
            Decoding::Whole,
            json!({
                "metadata": {"name": "a", "namespace": "blue"},
                "spec": {"podSelector": {"matchLabels": ["app"]}},
            }),
        );
        let Watched::Unreadable(policy) = policy else {
            panic!("{policy:?}");
        };
        let reason = &policy.error;
        assert!(reason.starts_with("spec.podSelector.matchLabels: "), "{reason}");
    }

    #[test]
    fn fields_and_elements_are_removed_by_their_path() {
        let mut value = json!({"a": {"b": [{"c": 1}, 2]}});
        assert_eq!(remove_field(&mut value, "a.b[0].c"), Some(json!(1)));
        assert_eq!(remove_field(&mut value, "a.b[0]"), Some(json!({})));
        assert_eq!(remove_field(&mut value, "a.b[7]"), None);
        assert_eq!(remove_field(&mut value, "a.x.c"), None);
        assert_eq!(remove_field(&mut value, "a"), Some(json!({"b": [2]})));
        assert_eq!(value, json!({}));
    }
}
