//! Requests that write objects.

use std::fmt::Debug;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use patchbay_allocate::networks::FINALIZER;
use patchbay_resources::manifests::ObjectKey;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::api::requests;
use crate::config::Timing;
use crate::election::leader_election::LeaderTerm;
use crate::write::applied_parts::AppliedPart;
use crate::write::object_change::{ObjectChange, Target, Write};
use crate::write::write_error::WriteError;
use crate::write::write_outcome::Written;

/// Field manager of all writes: that of OVN-Kubernetes, so that either controller can take over
/// from the other.
const FIELD_MANAGER: &str = "user-defined-network-controller";

/// Writes objects. Each write names the UID and the resource version that it is based on, so an
/// object that somebody has changed or replaced meanwhile stays as it is.
#[derive(Clone)]
pub(crate) struct ObjectWriter {
    pub(crate) client: kube::Client,
    pub(crate) timing: Timing,
    /// The controller that writes.
    pub(crate) controller: &'static str,
    /// The term during which it writes. `None`: always.
    pub(crate) term: Option<watch::Receiver<Option<LeaderTerm>>>,
}

/// Answer to the requests that write an object.
pub(crate) struct WriteAnswer {
    pub(crate) target: Target,
    /// Requests that have succeeded.
    pub(crate) written: Vec<Written>,
    /// Result of all requests.
    pub(crate) result: Result<(), WriteError>,
}

impl Debug for ObjectWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectWriter").finish_non_exhaustive()
    }
}

impl ObjectWriter {
    /// Writes one object.
    pub(crate) async fn write(&self, change: ObjectChange) -> WriteAnswer {
        let mut written = Vec::new();
        let ObjectChange { target, write } = change;
        let result = match write {
            Write::Create(object) => self.create(&target, &object, &mut written).await,
            Write::Delete => self.delete(&target, &mut written).await,
            Write::Patch { uid, version, patch } => {
                let base = (uid.as_deref(), version);
                self.patch(&target, base, patch, &mut written).await
            }
            Write::Apply { version, parts } => {
                self.apply(&target, version, &parts, &mut written).await
            }
        };
        WriteAnswer { target, written, result }
    }

    async fn create(
        &self,
        target: &Target,
        object: &Value,
        written: &mut Vec<Written>,
    ) -> Result<(), WriteError> {
        let parameters =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let created = self.send(target.api.create(&parameters, object)).await?;
        written.push(Written::new(target.kind, &requests::identity_of(&created), true));
        Ok(())
    }

    /// Deletes an object, after the finalizer of networks. Finalizers of other programs stay.
    async fn delete(&self, target: &Target, written: &mut Vec<Written>) -> Result<(), WriteError> {
        let Target { kind, api, meta, .. } = target;
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
            let patched = requests::identity_of(&patched);
            if meta.deletion_timestamp.is_some() {
                written.push(Written::new(kind, &patched, false));
                return Ok(());
            }
            version = patched.resource_version;
        }
        let parameters = DeleteParams {
            preconditions: Some(Preconditions { uid: meta.uid.clone(), resource_version: version }),
            ..DeleteParams::default()
        };
        self.send(api.delete(name, &parameters)).await?;
        if finalizers.is_empty() {
            written.push(Written {
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
        written: &mut Vec<Written>,
    ) -> Result<(), WriteError> {
        let status = patch.as_object_mut().and_then(|patch| patch.remove("status"));
        let Target { kind, api, meta, .. } = target;
        let name = meta.name.as_deref().unwrap_or_default();
        let parameters = parameters();
        if patch.as_object().is_some_and(|patch| !patch.is_empty()) {
            base_on(&mut patch, uid, version.as_deref());
            let patch = Patch::Merge(patch);
            let patched = self.send(api.patch(name, &parameters, &patch)).await?;
            let patched = requests::identity_of(&patched);
            written.push(Written::new(kind, &patched, false));
            version = patched.resource_version;
        }
        if let Some(status) = status {
            let mut patch = json!({"status": status});
            base_on(&mut patch, uid, version.as_deref());
            let patch = Patch::Merge(patch);
            let patched = self.send(api.patch_status(name, &parameters, &patch));
            written.push(Written::new(kind, &requests::identity_of(&patched.await?), false));
        }
        Ok(())
    }

    /// Applies parts of the object with this resource version, until one cannot be written.
    async fn apply(
        &self,
        target: &Target,
        mut version: Option<String>,
        parts: &[AppliedPart],
        written: &mut Vec<Written>,
    ) -> Result<(), WriteError> {
        let name = target.meta.name.as_deref().unwrap_or_default();
        for part in parts {
            let patch = Patch::Apply(part.object(&target.meta, version.as_deref()));
            let parameters = PatchParams::apply(part.field_manager).force();
            let applied = if part.is_status {
                let request = target.api.patch_status(name, &parameters, &patch);
                self.send(request).await
            } else {
                self.send(target.api.patch(name, &parameters, &patch)).await
            };
            let applied = applied.map_err(|error| match &part.failure {
                Some(failure) => error.about(failure),
                None => error,
            })?;
            let applied = requests::identity_of(&applied);
            written.push(Written::new(target.kind, &applied, false));
            version = applied.resource_version;
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
        match timeout(self.timing.write_timeout, request).await {
            Ok(answer) => answer.map_err(WriteError::from),
            Err(_) => Err(WriteError::no_answer(self.timing.write_timeout)),
        }
    }
}

fn parameters() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

/// Names the object and the version that a patch is based on.
fn base_on(patch: &mut Value, uid: Option<&str>, version: Option<&str>) {
    patch["metadata"]["uid"] = json!(uid);
    patch["metadata"]["resourceVersion"] = json!(version);
}
