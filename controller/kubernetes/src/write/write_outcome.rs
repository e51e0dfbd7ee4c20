//! Outcome of the writes of one pass.

use std::collections::BTreeSet;
use std::time::Duration;

use patchbay_model::{FieldProblem, ObjectProblem, ObjectRef};
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::{Object as _, ObjectMeta, Pod};
use tokio::time::Instant;

use crate::config::Timing;
use crate::events::object_problems::{ERROR_ALLOCATING_POD, ReportedProblem};
use crate::watch::sources::number;
use crate::write::object_change::{ObjectPart, Target};
use crate::write::write_error::WriteError;
use crate::write::write_retries::{WriteFailure, WriteRetries};

/// A write that has succeeded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Written {
    pub(crate) kind: &'static str,
    pub(crate) key: ObjectKey,
    pub(crate) uid: Option<String>,
    /// The resource version after the write. `None`: the object is deleted.
    pub(crate) version: Option<u64>,
    /// `true` if the write has created the object.
    pub(crate) is_new: bool,
}

/// Writes of one pass.
#[derive(Debug, Default)]
pub(crate) struct WriteOutcome {
    /// `true` if a write has succeeded.
    pub(crate) has_written: bool,
    /// Errors of failed writes, without conflicts, and of rejected rows.
    pub(crate) failures: Vec<String>,
    /// Writes to objects that another client had changed.
    pub(crate) conflicts: Vec<String>,
    /// Longest time that the API server asks to wait.
    pub(crate) retry_after: Duration,
    /// `true` if more writes would fail, too.
    pub(crate) is_stopped: bool,
    /// UIDs of the owners of objects that are not written.
    failed_owners: BTreeSet<String>,
    /// Writes that the API server refuses, or has failed to do for some time.
    refused: Vec<Refused>,
}

/// Write that the API server refuses, or has failed to do for some time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Refused {
    kind: &'static str,
    pub(crate) key: ObjectKey,
    /// Message of the API server.
    pub(crate) message: String,
}

impl WriteOutcome {
    /// `true` if the object waits for its next attempt, or for objects that it owns. In the first
    /// case it counts as failed, as in the last pass.
    pub(crate) fn is_delayed(&mut self, target: &Target, retries: &mut WriteRetries) -> bool {
        let uid = target.meta.uid.as_ref();
        if uid.is_some_and(|uid| self.failed_owners.contains(uid)) {
            return true;
        }
        let name = target.name();
        let Some(error) = retries.delayed(&name).map(str::to_owned) else {
            return false;
        };
        let failure = format!("{}: {error}", target.describe());
        self.failures.push(failure);
        self.fail_owners(&target.meta);
        if let Some(answer) = retries.lasting_answer(&name) {
            self.refuse(target, answer);
        }
        true
    }

    /// Notes that the API server refuses a write, or has failed to do it for some time.
    pub(crate) fn refuse(&mut self, target: &Target, message: &str) {
        let key = ObjectKey::of(&target.meta);
        let is_same = |one: &&Refused| one.kind == target.kind && one.key == key;
        if self.refused.iter().find(is_same).is_none() {
            self.refused.push(Refused { kind: target.kind, key, message: message.to_owned() });
        }
    }

    /// Notes that an object is not written, which its owners report as complete otherwise.
    pub(crate) fn fail_owners(&mut self, meta: &ObjectMeta) {
        let owners = meta.owner_references.iter().flatten().map(|owner| owner.uid.clone());
        self.failed_owners.extend(owners);
    }

    /// Takes the result of a write that was begun at this time.
    pub(crate) fn settle(
        &mut self,
        target: &Target,
        result: Result<(), WriteError>,
        begun: Instant,
        retries: &mut WriteRetries,
        timing: &Timing,
    ) {
        let name = target.name();
        if target.part == ObjectPart::RefusedStatus {
            if let Err(error) = result {
                self.fail(&target.describe(), error);
            }
            return;
        }
        let Err(error) = result else {
            retries.forget(&name);
            return;
        };
        self.fail_owners(&target.meta);
        if let WriteError::Retry { error, retry_after, is_answer, .. } = &error {
            let failure =
                WriteFailure { error, begun, retry_after: *retry_after, is_answer: *is_answer };
            retries.record_failure(name.clone(), failure, timing);
            if let Some(answer) = retries.lasting_answer(&name) {
                self.refuse(target, answer);
            }
        } else {
            retries.forget(&name);
        }
        if let WriteError::Rejected(message) = &error {
            self.refuse(target, message);
        }
        self.fail(&target.describe(), error);
    }

    fn fail(&mut self, object: &str, error: WriteError) {
        match error {
            // The watch will show the absence.
            WriteError::Gone => {}
            WriteError::Conflict(error) => self.conflicts.push(format!("{object}: {error}")),
            WriteError::Retry { error, retry_after, blocks_all, is_answer: _ } => {
                self.failures.push(format!("{object}: {error}"));
                self.retry_after = self.retry_after.max(retry_after.unwrap_or_default());
                self.is_stopped |= blocks_all;
            }
            WriteError::Rejected(error) => self.failures.push(format!("{object}: {error}")),
        }
    }

    /// `true` if all writes have succeeded.
    pub(crate) fn is_complete(&self) -> bool {
        self.failures.is_empty() && self.conflicts.is_empty()
    }

    /// Refused writes of a kind.
    pub(crate) fn refused_of(&self, kind: &str) -> impl Iterator<Item = &Refused> {
        self.refused.iter().filter(move |one| one.kind == kind)
    }

    /// Refused writes as problems of their objects.
    pub(crate) fn refused_problems(&self) -> impl Iterator<Item = ReportedProblem> {
        let refused = self.refused.iter();
        refused.map(|one| {
            let object = ObjectRef {
                kind: one.kind.into(),
                namespace: one.key.namespace.as_deref().map(Into::into),
                name: one.key.name.as_str().into(),
            };
            let problem = ObjectProblem::new(object, FieldProblem::of_object(&*one.message));
            let problem = ReportedProblem::from(problem);
            if one.kind == Pod::KIND { problem.with_reason(ERROR_ALLOCATING_POD) } else { problem }
        })
    }

    /// Lets objects of these UIDs be written although objects that they own could not be.
    pub(crate) fn permit_owners(&mut self, uids: &[String]) {
        self.failed_owners.retain(|uid| !uids.contains(uid));
    }
}

impl Written {
    /// The write of an object that has this metadata now.
    pub(crate) fn new(kind: &'static str, meta: &ObjectMeta, is_new: bool) -> Self {
        Self {
            kind,
            key: ObjectKey::of(meta),
            uid: meta.uid.clone(),
            version: number(meta.resource_version.as_deref()),
            is_new,
        }
    }
}
