//! Objects, their versions, and their history.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::resources::Resource;

/// Namespace and name.
pub(super) type Key = (String, String);

/// A change of an object.
pub(super) struct Change {
    pub(super) version: u64,
    pub(super) resource: &'static Resource,
    pub(super) before: Option<Value>,
    /// The object; for a deletion its last state with the version of the deletion.
    pub(super) after: Value,
    pub(super) deleted: bool,
}

/// Objects at a version, as in a copy of etcd.
pub(crate) struct Backup {
    version: u64,
    objects: BTreeMap<&'static Resource, BTreeMap<Key, Value>>,
}

#[derive(Default)]
pub(super) struct Storage {
    version: u64,
    objects: BTreeMap<&'static Resource, BTreeMap<Key, Value>>,
    history: Vec<Change>,
    /// Changes up to this version are forgotten.
    forgotten: u64,
    uids: u64,
}

impl Storage {
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    pub(super) fn forget_history(&mut self) {
        // A version without an event, as changes of other kinds cause in real clusters.
        self.version += 1;
        self.forgotten = self.version;
        self.history.clear();
    }

    pub(super) fn back_up(&self) -> Backup {
        Backup { version: self.version, objects: self.objects.clone() }
    }

    /// Goes back to the objects and the version of a backup.
    pub(super) fn restore(&mut self, backup: Backup) {
        self.objects = backup.objects;
        self.version = backup.version;
        self.forgotten = backup.version;
        self.history.clear();
    }

    pub(super) fn get(&self, resource: &'static Resource, key: &Key) -> Option<&Value> {
        self.objects.get(resource)?.get(key)
    }

    /// All objects of a kind, in the order of their keys.
    pub(super) fn list(&self, resource: &'static Resource) -> impl Iterator<Item = (&Key, &Value)> {
        self.objects.get(resource).into_iter().flatten()
    }

    /// The changes of a kind since a version.
    pub(super) fn since(
        &self,
        resource: &'static Resource,
        version: u64,
    ) -> impl Iterator<Item = &Change> {
        let at = self.history.partition_point(|change| change.version <= version);
        self.history[at..].iter().filter(move |change| change.resource == resource)
    }

    /// Stores a new object, with the fields that an API server adds.
    pub(super) fn create(
        &mut self,
        resource: &'static Resource,
        key: Key,
        mut object: Value,
    ) -> Value {
        self.uids += 1;
        object["apiVersion"] = resource.api_version().into();
        object["kind"] = resource.kind.into();
        let meta = &mut object["metadata"];
        meta["uid"] = format!("00000000-0000-4000-8000-{:012}", self.uids).into();
        let created = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
        meta["creationTimestamp"] = created.to_string().into();
        meta["generation"] = 1.into();
        meta["name"] = key.1.clone().into();
        if resource.namespaced {
            meta["namespace"] = key.0.clone().into();
        }
        if resource.plural == "namespaces" {
            let name = key.1.clone();
            merge_into(meta, "labels", json!({"kubernetes.io/metadata.name": name}));
        }
        self.put(resource, key, None, object)
    }

    /// Stores a new state of an object. A state that differs in the times of managed fields only is
    /// not stored.
    pub(super) fn update(
        &mut self,
        resource: &'static Resource,
        key: Key,
        mut object: Value,
    ) -> Value {
        let before = self.objects[resource][&key].clone();
        for field in
            ["uid", "creationTimestamp", "deletionTimestamp", "resourceVersion", "generation"]
        {
            match before["metadata"].get(field) {
                Some(value) => object["metadata"][field] = value.clone(),
                None => drop(object["metadata"].as_object_mut().map(|meta| meta.remove(field))),
            }
        }
        if object == before {
            return before;
        }
        if object.get("spec") != before.get("spec") {
            let generation = before["metadata"]["generation"].as_i64().unwrap_or(0);
            object["metadata"]["generation"] = (generation + 1).into();
        }
        if is_over(&object["metadata"]) {
            return self.remove(resource, &key).unwrap_or(object);
        }
        self.put(resource, key, Some(before), object)
    }

    /// Deletes an object, or marks it as deleted while it has finalizers.
    pub(super) fn delete(&mut self, resource: &'static Resource, key: &Key) -> Option<Value> {
        let before = self.get(resource, key)?.clone();
        let mut object = before.clone();
        let meta = &mut object["metadata"];
        if meta["deletionTimestamp"].is_null() {
            meta["deletionTimestamp"] = "2026-01-02T00:00:00Z".into();
        }
        if is_over(meta) {
            return self.remove(resource, key);
        }
        if object == before {
            return Some(before);
        }
        Some(self.put(resource, key.clone(), Some(before), object))
    }

    fn remove(&mut self, resource: &'static Resource, key: &Key) -> Option<Value> {
        let mut object = self.objects.get_mut(resource)?.remove(key)?;
        let before = Some(object.clone());
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.history.push(Change {
            version: self.version,
            resource,
            before,
            after: object.clone(),
            deleted: true,
        });
        Some(object)
    }

    fn put(
        &mut self,
        resource: &'static Resource,
        key: Key,
        before: Option<Value>,
        mut object: Value,
    ) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.objects.entry(resource).or_default().insert(key, object.clone());
        self.history.push(Change {
            version: self.version,
            resource,
            before,
            after: object.clone(),
            deleted: false,
        });
        object
    }
}

/// `true` if a deleted object has no finalizers.
fn is_over(meta: &Value) -> bool {
    let finalizers = meta["finalizers"].as_array();
    !meta["deletionTimestamp"].is_null() && finalizers.is_none_or(Vec::is_empty)
}

fn merge_into(meta: &mut Value, field: &str, entries: Value) {
    if meta[field].is_null() {
        meta[field] = json!({});
    }
    if let (Some(have), Value::Object(entries)) = (meta[field].as_object_mut(), entries) {
        have.extend(entries);
    }
}
