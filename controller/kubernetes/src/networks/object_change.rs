//! The change of an object, as the requests that make it.

use kube::Client;
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::{Object, ObjectMeta};
use serde::Serialize;
use serde_json::{Value, json};

use super::difference::difference;
use crate::api::Api;

/// Change of one object.
pub(super) struct ObjectChange {
    pub(super) target: Target,
    pub(super) write: Write,
}

/// Object of a change.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) kind: &'static str,
    pub(super) part: ObjectPart,
    pub(super) api: Api,
    /// Metadata after the change, or before the deletion.
    pub(super) meta: ObjectMeta,
}

/// Part of an object that a change is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ObjectPart {
    Whole,
    /// The status, which reports that the rest is refused.
    RefusedStatus,
}

/// Write of a change.
pub(super) enum Write {
    Create(Value),
    Delete,
    Patch {
        /// UID and resource version of the object before the change.
        uid: Option<String>,
        version: Option<String>,
        patch: Value,
    },
}

impl ObjectChange {
    /// Change of an object from `old` to `new`. `None`: it is absent in both.
    pub(super) fn new<K: Object + Serialize>(
        client: &Client,
        part: ObjectPart,
        old: Option<&K>,
        new: Option<&K>,
    ) -> Option<Self> {
        let object = new.or(old)?;
        Some(Self {
            target: Target {
                kind: K::KIND,
                part,
                api: Api::of(client.clone(), object),
                meta: object.meta().clone(),
            },
            write: match (old, new) {
                (None, Some(new)) => Write::Create(json!(new)),
                (Some(old), Some(new)) => Write::Patch {
                    uid: old.uid(),
                    version: old.resource_version(),
                    patch: difference(&json!(old), &json!(new)),
                },
                (_, None) => Write::Delete,
            },
        })
    }
}

impl Target {
    /// Kind and key of the object.
    pub(super) fn name(&self) -> (&'static str, ObjectKey) {
        (self.kind, ObjectKey::of(&self.meta))
    }

    /// Kind and key of the object, for messages.
    pub(super) fn describe(&self) -> String {
        format!("{} {}", self.kind, ObjectKey::of(&self.meta))
    }
}
