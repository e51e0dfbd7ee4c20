//! Outcome of the writes of one pass.

use std::collections::BTreeSet;
use std::mem;
use std::time::Duration;

use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::{Object as _, ObjectMeta, Pod};

use super::object_change::Target;
use super::object_problems::{ERROR_ALLOCATING_POD, ObjectProblem};
use super::sources::number;
use crate::config::Timing;
use crate::connect_writer::WriteError;
use crate::write_retries::{WriteFailure, WriteRetries};

/// A write that has succeeded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Written {
    pub(super) kind: &'static str,
    pub(super) key: ObjectKey,
    pub(super) uid: Option<String>,
    /// The resource version after the write. `None`: the object is deleted.
    pub(super) version: Option<u64>,
    /// `true` if the write has created the object.
    pub(super) is_new: bool,
}

/// Writes of one pass.
#[derive(Debug, Default)]
pub(super) struct WriteOutcome {
    pub(super) written: Vec<Written>,
    /// Errors of failed writes, without conflicts, and of rejected rows.
    pub(super) failures: Vec<String>,
    /// Writes to objects that another client had changed.
    pub(super) conflicts: Vec<String>,
    /// Longest time that the API server asks to wait.
    pub(super) retry_after: Duration,
    /// `true` if more writes would fail, too.
    pub(super) is_stopped: bool,
    /// Objects whose writes fail, from pass to pass.
    pub(super) retries: WriteRetries,
    /// UIDs of the owners of objects that could not be written.
    pub(super) failed_owners: BTreeSet<String>,
    /// Writes that the API server refuses, or has failed to do for some time.
    refused: Vec<Refused>,
}

/// Write that the API server refuses, or has failed to do for some time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Refused {
    kind: &'static str,
    pub(super) key: ObjectKey,
    /// Message of the API server.
    pub(super) message: String,
}

impl WriteOutcome {
    /// Starts a pass with the objects whose writes have failed so far.
    pub(super) fn begin(mut retries: WriteRetries) -> Self {
        retries.begin_pass();
        Self {
            retries,
            ..Self::default()
        }
    }

    /// Ends the pass.
    pub(super) fn take_retries(&mut self) -> WriteRetries {
        mem::take(&mut self.retries)
    }

    /// `true` if the object waits for its next attempt. It counts as failed, as in the last pass.
    pub(super) fn is_delayed(&mut self, target: &Target) -> bool {
        let Some(error) = self.retries.delayed(&target.name()).map(str::to_owned) else {
            return false;
        };
        let failure = format!("{}: {error}", target.describe());
        self.failures.push(failure);
        self.fail_owners(&target.meta);
        self.note_lasting_answer(target, &error);
        true
    }

    /// Notes an answer of the API server that a write fails, if it has failed for some time.
    fn note_lasting_answer(&mut self, target: &Target, error: &str) {
        let name = target.name();
        if self.retries.is_lasting(&name) {
            self.refuse(target, error);
        }
    }

    fn refuse(&mut self, target: &Target, message: &str) {
        self.refused.push(Refused {
            kind: target.kind,
            key: ObjectKey::of(&target.meta),
            message: message.to_owned(),
        });
    }

    fn fail_owners(&mut self, meta: &ObjectMeta) {
        let owners = meta.owner_references.iter().flatten();
        let owners = owners.map(|owner| owner.uid.clone());
        self.failed_owners.extend(owners);
    }

    /// Takes the result of a write. Returns `false` if it failed and may succeed later.
    pub(super) fn settle(
        &mut self,
        target: &Target,
        result: Result<(), WriteError>,
        timing: &Timing,
    ) -> bool {
        let Err(error) = result else {
            self.retries.forget(&target.name());
            return true;
        };
        self.fail_owners(&target.meta);
        let is_retried = match &error {
            WriteError::Retry {
                error,
                retry_after,
                is_answer,
                ..
            } => {
                let failure = WriteFailure {
                    error,
                    retry_after: *retry_after,
                    is_answer: *is_answer,
                };
                self.retries.record_failure(target.name(), failure, timing);
                self.note_lasting_answer(target, error);
                true
            }
            WriteError::Rejected(message) => {
                self.retries.forget(&target.name());
                self.refuse(target, message);
                false
            }
            WriteError::Gone | WriteError::Conflict(_) => {
                self.retries.forget(&target.name());
                false
            }
        };
        self.fail(&target.describe(), error);
        !is_retried
    }

    fn fail(&mut self, object: &str, error: WriteError) {
        match error {
            // The watch will show the absence.
            WriteError::Gone => {}
            WriteError::Conflict(error) => self.conflicts.push(format!("{object}: {error}")),
            WriteError::Retry {
                error,
                retry_after,
                blocks_all,
                is_answer: _,
            } => {
                self.failures.push(format!("{object}: {error}"));
                self.retry_after = self.retry_after.max(retry_after.unwrap_or_default());
                self.is_stopped |= blocks_all;
            }
            WriteError::Rejected(error) => self.failures.push(format!("{object}: {error}")),
        }
    }

    /// `true` if all writes have succeeded.
    pub(super) fn is_complete(&self) -> bool {
        self.failures.is_empty() && self.conflicts.is_empty()
    }

    /// Refused writes of a kind.
    pub(super) fn refused_of(&self, kind: &str) -> impl Iterator<Item = &Refused> {
        self.refused.iter().filter(move |one| one.kind == kind)
    }

    /// Refused writes as problems of their objects.
    pub(super) fn refused_problems(&self) -> impl Iterator<Item = ObjectProblem> {
        let refused = self.refused.iter();
        refused.map(|one| {
            let problem = ObjectProblem::new(one.kind, one.key.clone(), &*one.message);
            if one.kind == Pod::KIND {
                problem.with_reason(ERROR_ALLOCATING_POD)
            } else {
                problem
            }
        })
    }

    /// Lets objects of these UIDs be written although objects that they own could not be.
    pub(super) fn permit_owners(&mut self, uids: &[String]) {
        self.failed_owners.retain(|uid| !uids.contains(uid));
    }

    /// Records a write of an object that has this metadata now.
    pub(super) fn record(&mut self, kind: &'static str, meta: &ObjectMeta, is_new: bool) {
        self.written.push(Written {
            kind,
            key: ObjectKey::of(meta),
            uid: meta.uid.clone(),
            version: number(meta.resource_version.as_deref()),
            is_new,
        });
    }
}
