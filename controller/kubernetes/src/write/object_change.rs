//! The change of an object, as the requests that make it.

use kube::Client;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::{Object, ObjectMeta};
use serde::Serialize;
use serde_json::{Value, json};

use crate::api::requests::Api;
use crate::write::applied_parts::{AppliedPart, applied_parts};
use crate::write::difference::difference;

/// Change of one object.
pub(crate) struct ObjectChange {
    pub(crate) target: Target,
    pub(crate) write: Write,
}

/// Object of a change.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) kind: &'static str,
    pub(crate) part: ObjectPart,
    pub(crate) api: Api,
    /// Metadata after the change, or before the deletion.
    pub(crate) meta: ObjectMeta,
}

/// Part of an object that a change is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ObjectPart {
    Whole,
    /// The status, which reports that the rest is refused.
    RefusedStatus,
}

/// Write of a change.
pub(crate) enum Write {
    Create(Value),
    Delete,
    Patch {
        /// UID and resource version of the object before the change.
        uid: Option<String>,
        version: Option<String>,
        patch: Value,
    },
    /// Parts that are applied one after another.
    Apply {
        /// Resource version of the object before the change.
        version: Option<String>,
        parts: Vec<AppliedPart>,
    },
}

impl ObjectChange {
    /// Change of an object from `old` to `new`. `None`: it is absent in both.
    pub(crate) fn new<K: Object + Serialize>(
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
                (Some(old), Some(new)) => {
                    let new = json!(new);
                    let patch = difference(&json!(old), &new);
                    let version = old.resource_version();
                    if K::KIND == ClusterNetworkConnect::KIND {
                        let parts = applied_parts(&patch, &new);
                        Write::Apply { version, parts }
                    } else {
                        let uid = old.uid();
                        Write::Patch { uid, version, patch }
                    }
                }
                (_, None) => Write::Delete,
            },
        })
    }
}

impl Target {
    /// Kind and key of the object.
    pub(crate) fn name(&self) -> (&'static str, ObjectKey) {
        (self.kind, ObjectKey::of(&self.meta))
    }

    /// Kind and key of the object, for messages.
    pub(crate) fn describe(&self) -> String {
        format!("{} {}", self.kind, ObjectKey::of(&self.meta))
    }
}
