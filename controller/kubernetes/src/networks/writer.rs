//! Writes the differences between observed and desired objects.

use std::fmt::Debug;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use patchbay_allocate::networks::FINALIZER;
use patchbay_resources::manifests::{Inventory, InventoryKind, ObjectKey};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use super::object_change::{ObjectChange, Target, Write};
use super::write_outcome::{WriteOutcome, Written};
use crate::api;
use crate::config::Timing;
use crate::connect_writer::WriteError;
use crate::leader_election::LeaderTerm;
use crate::write_retries::{SLOW_FAILURE, timed};

/// Field manager of all writes: that of OVN-Kubernetes, so that either controller can take over
/// from the other.
const FIELD_MANAGER: &str = "user-defined-network-controller";

/// Maximum number of writes that wait for their answers at a time. More would be queued by the API
/// server's priority levels, which have some tens of seats for all clients.
const CONCURRENT_WRITES: usize = 8;

/// Number of successive slow failures after which the other writes of a kind wait for the next
/// pass. One may take as long as the time-out of requests.
const MAX_SLOW_FAILURES: usize = 2 * CONCURRENT_WRITES;

/// Writes objects. Each write names the UID and the resource version that it is based on, so an
/// object that somebody has changed or replaced meanwhile stays as it is.
#[derive(Clone)]
pub(crate) struct ObjectWriter {
    pub(crate) client: kube::Client,
    pub(crate) timing: Timing,
    /// The term during which it writes. `None`: always.
    pub(crate) term: Option<watch::Receiver<Option<LeaderTerm>>>,
}

impl Debug for ObjectWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectWriter").finish_non_exhaustive()
    }
}

impl ObjectWriter {
    /// Writes the differences between two inventories in the objects of a kind, several at a time:
    /// first objects that are new or differ, then those that are gone.
    pub(super) async fn write_kind<K>(
        &self,
        before: &Inventory,
        after: &Inventory,
        outcome: &mut WriteOutcome,
    ) where
        K: InventoryKind + Debug + Serialize + Sync,
    {
        let changes = K::objects(after).changes_since(K::objects(before));
        let changes = changes
            .map(|change| {
                let former = change.former.map(|one| &one.object);
                (former, change.current.map(|one| &one.object))
            })
            .filter(|(old, new)| old != new);
        let (gone, kept): (Vec<_>, Vec<_>) = changes.partition(|(_, new)| new.is_none());
        for mut changes in [kept, gone] {
            // The last ones are those that failed, so that they do not hold up the others.
            changes.sort_by_cached_key(|(old, new)| {
                let meta = new.or(*old).map(K::meta);
                let key = meta.map(|meta| (K::KIND, ObjectKey::of(meta)));
                key.is_some_and(|key| outcome.retries.contains(&key))
            });
            let changes = changes.into_iter();
            let mut changes =
                changes.filter_map(|(old, new)| ObjectChange::new(&self.client, old, new));
            self.write_objects(&mut changes, outcome).await;
        }
    }

    async fn write_objects(
        &self,
        changes: &mut (dyn Iterator<Item = ObjectChange> + Send),
        outcome: &mut WriteOutcome,
    ) {
        let mut writes = FuturesUnordered::new();
        let mut slow_failures = 0;
        loop {
            while writes.len() < CONCURRENT_WRITES
                && slow_failures < MAX_SLOW_FAILURES
                && !outcome.is_stopped
            {
                let Some(change) = changes.next() else {
                    break;
                };
                let uid = change.target.meta.uid.as_ref();
                let has_failed = uid.is_some_and(|uid| outcome.failed_owners.contains(uid));
                if !has_failed && !outcome.is_delayed(&change.target) {
                    writes.push(timed(self.write_change(change)));
                }
            }
            let Some(((target, written, result), elapsed)) = writes.next().await else {
                return;
            };
            outcome.written.extend(written);
            if outcome.settle(&target, result, &self.timing) {
                slow_failures = 0;
            } else if elapsed >= SLOW_FAILURE {
                slow_failures += 1;
            }
        }
    }

    /// Writes one object. Returns it with the requests that have succeeded.
    async fn write_change(
        &self,
        change: ObjectChange,
    ) -> (Target, Vec<Written>, Result<(), WriteError>) {
        let mut outcome = WriteOutcome::default();
        let ObjectChange { target, write } = change;
        let result = match write {
            Write::Create(object) => self.create(&target, &object, &mut outcome).await,
            Write::Delete => self.delete(&target, &mut outcome).await,
            Write::Patch {
                uid,
                version,
                patch,
            } => {
                let base = (uid.as_deref(), version);
                self.patch(&target, base, patch, &mut outcome).await
            }
        };
        (target, outcome.written, result)
    }

    async fn create(
        &self,
        target: &Target,
        object: &Value,
        outcome: &mut WriteOutcome,
    ) -> Result<(), WriteError> {
        let parameters = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let created = self.send(target.api.create(&parameters, object)).await?;
        outcome.record(target.kind, &api::identity_of(&created), true);
        Ok(())
    }

    /// Deletes an object, after the finalizer of networks. Finalizers of other programs stay.
    async fn delete(&self, target: &Target, outcome: &mut WriteOutcome) -> Result<(), WriteError> {
        let Target { kind, api, meta } = target;
        let name = meta.name.as_deref().unwrap_or_default();
        let mut version = meta.resource_version.clone();
        let mut finalizers = meta.finalizers.clone().unwrap_or_default();
        let count = finalizers.len();
        finalizers.retain(|finalizer| finalizer != FINALIZER);
        if finalizers.len() < count {
            let patch = json!({"metadata": {
                "uid": meta.uid, "resourceVersion": version, "finalizers": finalizers,
            }});
            let (parameters, patch) = (parameters(), Patch::Merge(patch));
            let patched = self.send(api.patch(name, &parameters, &patch)).await?;
            let patched = api::identity_of(&patched);
            if meta.deletion_timestamp.is_some() {
                outcome.record(kind, &patched, false);
                return Ok(());
            }
            version = patched.resource_version;
        }
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: meta.uid.clone(),
                resource_version: version,
            }),
            ..DeleteParams::default()
        };
        self.send(api.delete(name, &parameters)).await?;
        if finalizers.is_empty() {
            outcome.written.push(Written {
                kind,
                key: ObjectKey::of(meta),
                uid: meta.uid.clone(),
                version: None,
                is_new: false,
            });
        }
        Ok(())
    }

    /// Patches what differs from the object with this UID and resource version: the object, then
    /// its status.
    async fn patch(
        &self,
        target: &Target,
        (uid, mut version): (Option<&str>, Option<String>),
        mut patch: Value,
        outcome: &mut WriteOutcome,
    ) -> Result<(), WriteError> {
        let status = patch
            .as_object_mut()
            .and_then(|patch| patch.remove("status"));
        let Target { kind, api, meta } = target;
        let name = meta.name.as_deref().unwrap_or_default();
        let parameters = parameters();
        if patch.as_object().is_some_and(|patch| !patch.is_empty()) {
            base_on(&mut patch, uid, version.as_deref());
            let patch = Patch::Merge(patch);
            let patched = self.send(api.patch(name, &parameters, &patch)).await?;
            let patched = api::identity_of(&patched);
            outcome.record(kind, &patched, false);
            version = patched.resource_version;
        }
        if let Some(status) = status {
            let mut patch = json!({"status": status});
            base_on(&mut patch, uid, version.as_deref());
            let patch = Patch::Merge(patch);
            let patched = self.send(api.patch_status(name, &parameters, &patch));
            outcome.record(kind, &api::identity_of(&patched.await?), false);
        }
        Ok(())
    }

    /// Sends a request, unless the term has ended.
    async fn send<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, WriteError> {
        let has_ended = |term: &watch::Receiver<Option<LeaderTerm>>| {
            let term = *term.borrow();
            term.is_none_or(LeaderTerm::has_ended)
        };
        if self.term.as_ref().is_some_and(has_ended) {
            return Err(WriteError::lease_expired());
        }
        match timeout(self.timing.request_timeout, request).await {
            Ok(answer) => answer.map_err(WriteError::from),
            Err(_) => Err(WriteError::no_answer()),
        }
    }
}

fn parameters() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// Names the object and the version that a patch is based on.
fn base_on(patch: &mut Value, uid: Option<&str>, version: Option<&str>) {
    patch["metadata"]["uid"] = json!(uid);
    patch["metadata"]["resourceVersion"] = json!(version);
}
