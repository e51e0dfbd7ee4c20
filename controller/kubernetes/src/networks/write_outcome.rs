//! Outcome of the writes of one pass.

use std::collections::BTreeSet;
use std::mem;
use std::time::Duration;

use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::ObjectMeta;

use super::object_change::Target;
use super::sources::number;
use crate::config::Timing;
use crate::connect_writer::WriteError;
use crate::write_retries::WriteRetries;

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
    /// Writes that the API server refuses.
    refused: Vec<Refused>,
}

/// Write that the API server refuses.
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
        let Some(error) = self.retries.delayed(&target.name()) else {
            return false;
        };
        let failure = format!("{}: {error}", target.describe());
        self.failures.push(failure);
        self.fail_owners(&target.meta);
        true
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
        let mut is_retried = false;
        if let Err(WriteError::Retry {
            error, retry_after, ..
        }) = &result
        {
            is_retried = true;
            self.retries
                .record_failure(target.name(), error, *retry_after, timing);
        } else {
            self.retries.forget(&target.name());
        }
        if let Err(error) = result {
            self.fail_owners(&target.meta);
            if let WriteError::Rejected(message) = &error {
                self.refused.push(Refused {
                    kind: target.kind,
                    key: ObjectKey::of(&target.meta),
                    message: message.clone(),
                });
            }
            self.fail(&target.describe(), error);
        }
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

    /// Writes of a kind that the API server refuses.
    pub(super) fn refused_of(&self, kind: &str) -> impl Iterator<Item = &Refused> {
        self.refused.iter().filter(move |one| one.kind == kind)
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
