//! API server of a scenario: objects as JSON, finalizers, and the writes of the cluster manager.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use patchbay_allocate::networks::NetworkManager;
use patchbay_resources::ipam_claim::IPAMClaim;
use patchbay_resources::manifests::{Inventory, InventoryKind, ObjectKey, Origin, Sourced};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{
    EndpointSlice, Namespace, Node, Object, Pod, RouteAdvertisements, Time, VTEP,
};
use patchbay_resources::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Kind, namespace and name.
type Key = (String, String, String);

/// Objects by kind, namespace and name.
#[derive(Clone, Debug, Default)]
pub(crate) struct ApiServer {
    objects: BTreeMap<Key, Stored>,
    /// Number of requests so far: the clock of the server.
    requests: i64,
}

#[derive(Clone, Debug)]
struct Stored {
    object: Value,
    created: i64,
}

impl ApiServer {
    pub(super) fn create(&mut self, object: Value) -> Result<(), String> {
        self.requests += 1;
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let kind = text("/kind").ok_or("an object without kind")?.to_owned();
        let name = text("/metadata/name").ok_or("an object without name")?;
        let namespace = text("/metadata/namespace").unwrap_or_default();
        let key = (kind, namespace.to_owned(), name.to_owned());
        if self.objects.contains_key(&key) {
            return Err(format!("{key:?} exists"));
        }
        let created = self.requests;
        self.objects.insert(key, Stored { object, created });
        Ok(())
    }

    /// Applies a JSON merge patch (RFC 7386).
    pub(crate) fn patch(
        &mut self,
        kind: &str,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<(), String> {
        self.requests += 1;
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        let stored = self.objects.get_mut(&key).ok_or_else(|| format!("no {key:?}"))?;
        merge(&mut stored.object, patch);
        self.finish_deletion(&key);
        Ok(())
    }

    /// Deletes an object. One with finalizers is marked, and goes with the last of them.
    pub(super) fn delete(&mut self, kind: &str, namespace: &str, name: &str) -> Result<(), String> {
        self.requests += 1;
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        let time = Time(Timestamp::from_second(self.requests).map_err(|error| error.to_string())?);
        let stored = self.objects.get_mut(&key).ok_or_else(|| format!("no {key:?}"))?;
        stored.object["metadata"]["deletionTimestamp"] = json!(time);
        self.finish_deletion(&key);
        Ok(())
    }

    fn finish_deletion(&mut self, key: &Key) {
        let metadata = |stored: &Stored| stored.object["metadata"].clone();
        let Some(metadata) = self.objects.get(key).map(metadata) else {
            return;
        };
        let finalizers = metadata["finalizers"].as_array();
        if !metadata["deletionTimestamp"].is_null() && finalizers.is_none_or(Vec::is_empty) {
            self.objects.remove(key);
        }
    }

    /// All objects.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Value> {
        self.objects.values().map(|stored| &stored.object)
    }

    /// Objects of a kind, with namespace and name.
    pub(super) fn of_kind<'a>(
        &'a self,
        kind: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str, &'a Value)> {
        let objects = self.objects.iter().filter(move |((of, ..), _)| of == kind);
        objects.map(|((_, namespace, name), stored)| {
            (namespace.as_str(), name.as_str(), &stored.object)
        })
    }

    /// Lets the manager reconcile, and makes its writes. Returns the objects that it changed.
    pub(super) fn reconcile(
        &mut self,
        manager: &mut NetworkManager,
    ) -> Result<Vec<String>, String> {
        let mut inventory = Inventory::default();
        self.read_into::<Namespace>(&mut inventory)?;
        self.read_into::<Node>(&mut inventory)?;
        self.read_into::<NetworkAttachmentDefinition>(&mut inventory)?;
        self.read_into::<UserDefinedNetwork>(&mut inventory)?;
        self.read_into::<ClusterUserDefinedNetwork>(&mut inventory)?;
        self.read_into::<Pod>(&mut inventory)?;
        self.read_into::<IPAMClaim>(&mut inventory)?;
        self.read_into::<EndpointSlice>(&mut inventory)?;
        self.read_into::<RouteAdvertisements>(&mut inventory)?;
        self.read_into::<VTEP>(&mut inventory)?;
        let before = inventory.clone();
        self.requests += 1;
        let now = Timestamp::from_second(self.requests).map_err(|error| error.to_string())?;
        let problems = manager.reconcile(&mut inventory, &Time(now));
        if let Some(problem) = problems.first() {
            return Err(problem.to_string());
        }
        let mut changes = Vec::new();
        self.write_changes::<Node>(&before, &inventory, &mut changes)?;
        self.write_changes::<NetworkAttachmentDefinition>(&before, &inventory, &mut changes)?;
        self.write_changes::<UserDefinedNetwork>(&before, &inventory, &mut changes)?;
        self.write_changes::<ClusterUserDefinedNetwork>(&before, &inventory, &mut changes)?;
        self.write_changes::<Pod>(&before, &inventory, &mut changes)?;
        self.write_changes::<IPAMClaim>(&before, &inventory, &mut changes)?;
        self.write_changes::<EndpointSlice>(&before, &inventory, &mut changes)?;
        Ok(changes)
    }

    fn read<T: Object + DeserializeOwned>(&self) -> Result<BTreeMap<ObjectKey, T>, String> {
        let objects = self.of_kind(T::KIND).map(|(.., object)| {
            let object: Result<T, _> = serde_json::from_value(object.clone());
            let object = object.map_err(|error| format!("{}: {error}", T::KIND))?;
            Ok((ObjectKey::of(object.meta()), object))
        });
        objects.collect()
    }

    fn read_into<T: InventoryKind>(&self, inventory: &mut Inventory) -> Result<(), String> {
        for (key, object) in self.read::<T>()? {
            let created = self.objects[&stored_key::<T>(&key)].created;
            T::objects_mut(inventory).insert(Sourced {
                object,
                origin: Origin::Cluster,
                position: created as u64,
            });
        }
        Ok(())
    }

    fn write_changes<T: InventoryKind + Clone + PartialEq + Serialize>(
        &mut self,
        before: &Inventory,
        after: &Inventory,
        changes: &mut Vec<String>,
    ) -> Result<(), String> {
        let objects = |inventory: &Inventory| -> BTreeMap<ObjectKey, T> {
            let all = T::objects(inventory).iter();
            all.map(|(key, sourced)| (key.clone(), sourced.object.clone())).collect()
        };
        self.write_all(&objects(before), &objects(after), changes)
    }

    fn write_all<T: Object + PartialEq + Serialize>(
        &mut self,
        before: &BTreeMap<ObjectKey, T>,
        after: &BTreeMap<ObjectKey, T>,
        changes: &mut Vec<String>,
    ) -> Result<(), String> {
        let keys: BTreeSet<&ObjectKey> = before.keys().chain(after.keys()).collect();
        for key in keys {
            let (old, new) = (before.get(key), after.get(key));
            if old == new {
                continue;
            }
            changes.push(format!("{} {key}", T::KIND));
            let (kind, namespace, name) = stored_key::<T>(key);
            match (old, new) {
                (None, Some(new)) => self.create(to_json(new)?)?,
                (Some(_), None) => {
                    let no_finalizers = json!({"metadata": {"finalizers": null}});
                    self.patch(&kind, &namespace, &name, &no_finalizers)?;
                    if self.objects.contains_key(&(kind.clone(), namespace.clone(), name.clone())) {
                        self.delete(&kind, &namespace, &name)?;
                    }
                }
                (Some(old), Some(new)) => {
                    let patch = difference(&to_json(old)?, &to_json(new)?);
                    self.patch(&kind, &namespace, &name, &patch)?;
                }
                (None, None) => {}
            }
        }
        Ok(())
    }
}

fn stored_key<T: Object>(key: &ObjectKey) -> Key {
    let namespace = key.namespace.clone().unwrap_or_default();
    (T::KIND.to_owned(), namespace, key.name.clone())
}

fn to_json<T: Object + Serialize>(object: &T) -> Result<Value, String> {
    let mut json = serde_json::to_value(object).map_err(|error| error.to_string())?;
    json["kind"] = T::KIND.into();
    json["apiVersion"] = T::api_version().into();
    Ok(json)
}

/// The JSON merge patch that makes the second object of the first one.
fn difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return new.clone();
    };
    let removed = old.keys().filter(|key| !new.contains_key(*key));
    let mut patch: Map<String, Value> = removed.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in new {
        match old.get(key) {
            Some(before) if before == value => {}
            Some(before) => {
                patch.insert(key.clone(), difference(before, value));
            }
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(patch)
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(target) = target.as_object_mut() else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}
