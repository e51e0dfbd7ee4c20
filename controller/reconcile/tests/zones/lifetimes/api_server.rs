//! An API server: namespaces, finalizers and deletion.

use jiff::Timestamp;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::ipam_claim::IPAMClaim;
use patchbay_resources::manifests::{
    Inventory, InventoryKind, ObjectKey, Objects, Origin, Sourced,
};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{EndpointSlice, NetworkPolicy, Node, Pod, Service, Time};
use patchbay_resources::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};
use serde::Serialize;
use serde_json::{Value, json};

use super::objects::Template;

#[derive(Default)]
pub(super) struct ApiServer {
    pub(super) inventory: Inventory,
    /// The clock of the cluster.
    pub(super) seconds: i64,
    created: u64,
}

impl ApiServer {
    pub(super) fn now(&self) -> Time {
        Time(Timestamp::from_second(self.seconds).unwrap())
    }

    /// Creates an object, or changes what can be changed of one.
    pub(super) fn put(&mut self, template: &Template, version: usize) {
        let wanted = &template.versions[version % template.versions.len()];
        (template.put)(self, wanted);
    }

    /// Deletes an object.
    pub(super) fn delete(&mut self, template: &Template) {
        (template.delete)(self, &key_of(&template.versions[0]));
    }

    /// Puts an object of a kind. `fields`: fields that a patch changes.
    pub(super) fn put_kind<T: InventoryKind + Serialize>(
        &mut self,
        wanted: &Value,
        fields: &[&str],
    ) {
        let key = key_of(wanted);
        if let Some(namespace) = &key.namespace {
            let namespace = self.inventory.namespaces.named(namespace);
            if namespace.is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some()) {
                return;
            }
        }
        let existing = T::objects(&self.inventory).get(&key);
        let (object, position) = if let Some(existing) = existing {
            let mut object = serde_json::to_value(&existing.object).unwrap();
            if !object["metadata"]["deletionTimestamp"].is_null() {
                return;
            }
            for field in fields {
                change_field(&mut object, field, wanted.pointer(field).unwrap_or(&Value::Null));
            }
            (object, existing.position)
        } else {
            self.created += 1;
            let mut object = wanted.clone();
            object["metadata"]["uid"] = json!(format!("uid-{}", self.created));
            object["metadata"]["creationTimestamp"] = json!(self.now());
            (object, self.created)
        };
        T::objects_mut(&mut self.inventory).insert(Sourced {
            object: serde_json::from_value(object).unwrap(),
            origin: Origin::Cluster,
            position,
        });
    }

    /// Deletes an object of a kind, or marks it until it has no finalizers.
    pub(super) fn delete_kind<T: InventoryKind>(&mut self, key: &ObjectKey) {
        let now = self.now();
        if let Some(existing) = T::objects_mut(&mut self.inventory).get_mut(key) {
            let meta = existing.object.meta_mut();
            meta.deletion_timestamp.get_or_insert(now);
        }
    }

    /// Removes what is being deleted and has no finalizers. Of a namespace, all objects go first.
    pub(super) fn collect_garbage(&mut self) {
        let ending: Vec<String> = self
            .inventory
            .namespaces
            .iter()
            .filter(|(_, namespace)| namespace.object.metadata.deletion_timestamp.is_some())
            .map(|(key, _)| key.name.clone())
            .collect();
        for namespace in &ending {
            self.end::<Pod>(namespace);
            self.end::<Service>(namespace);
            self.end::<EndpointSlice>(namespace);
            self.end::<NetworkPolicy>(namespace);
            self.end::<IPAMClaim>(namespace);
            self.end::<NetworkAttachmentDefinition>(namespace);
            self.end::<UserDefinedNetwork>(namespace);
        }
        self.remove::<Node>();
        self.remove::<Pod>();
        self.remove::<Service>();
        self.remove::<EndpointSlice>();
        self.remove::<NetworkPolicy>();
        self.remove::<IPAMClaim>();
        self.remove::<NetworkAttachmentDefinition>();
        self.remove::<UserDefinedNetwork>();
        self.remove::<ClusterUserDefinedNetwork>();
        self.remove::<ClusterNetworkConnect>();
        for namespace in ending {
            let inventory = &self.inventory;
            let is_empty = inventory.pods.in_namespace(&namespace).next().is_none()
                && inventory.ipam_claims.in_namespace(&namespace).next().is_none()
                && inventory
                    .network_attachment_definitions
                    .in_namespace(&namespace)
                    .next()
                    .is_none()
                && inventory.user_defined_networks.in_namespace(&namespace).next().is_none();
            if is_empty {
                self.inventory.namespaces.remove(&ObjectKey::cluster(namespace));
            }
        }
        self.inventory.warnings.clear();
    }

    fn end<T: InventoryKind>(&mut self, namespace: &str) {
        let objects = T::objects(&self.inventory).in_namespace(namespace);
        let keys: Vec<ObjectKey> = objects.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.delete_kind::<T>(&key);
        }
    }

    fn remove<T: InventoryKind>(&mut self) {
        let objects = T::objects(&self.inventory).iter();
        let gone: Vec<ObjectKey> = objects
            .filter(|(_, one)| {
                let meta = one.object.meta();
                let finalizers = meta.finalizers.as_deref().unwrap_or_default();
                meta.deletion_timestamp.is_some() && finalizers.is_empty()
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            T::objects_mut(&mut self.inventory).remove(&key);
        }
    }
}

/// Replaces a field. Annotations of controllers stay.
fn change_field(object: &mut Value, field: &str, wanted: &Value) {
    let (parent, name) = field.rsplit_once('/').unwrap();
    let had = &mut object.pointer_mut(parent).unwrap()[name];
    match (had, wanted) {
        (Value::Object(had), Value::Object(wanted)) if name == "annotations" => {
            had.extend(wanted.clone());
        }
        (had, wanted) => *had = wanted.clone(),
    }
}

fn key_of(object: &Value) -> ObjectKey {
    let text = |key: &str| object["metadata"][key].as_str().map(ToOwned::to_owned);
    ObjectKey { namespace: text("namespace"), name: text("name").unwrap() }
}

/// All objects that controllers write.
pub(super) fn texts(inventory: &Inventory) -> Vec<String> {
    let mut texts = Vec::new();
    add(&mut texts, &inventory.nodes);
    add(&mut texts, &inventory.pods);
    add(&mut texts, &inventory.endpoint_slices);
    add(&mut texts, &inventory.ipam_claims);
    add(&mut texts, &inventory.network_attachment_definitions);
    add(&mut texts, &inventory.user_defined_networks);
    add(&mut texts, &inventory.cluster_user_defined_networks);
    add(&mut texts, &inventory.cluster_network_connects);
    texts
}

fn add<T: InventoryKind + Serialize>(texts: &mut Vec<String>, objects: &Objects<T>) {
    texts.extend(objects.iter().map(|(key, one)| {
        let object = serde_json::to_string(&one.object).unwrap();
        format!("{} {key}: {object}", T::KIND)
    }));
}
