//! Pass over the rows of all capabilities: one whose rows are rejected does not stop the others.

use patchbay_engine::db::Snapshot;
use patchbay_rows::{Change, PlanError};

use super::ZoneError;
use super::rows::commit_rows;
use crate::northbound::dynamic::DynNorthbound;

/// Database of a zone, with the warnings and the errors of a pass.
pub(super) struct Pass<'a> {
    pub(super) northbound: &'a mut dyn DynNorthbound,
    /// Warnings about lost replies.
    pub(super) warnings: Vec<String>,
    /// Capabilities and connects whose rows are not committed.
    pub(super) errors: Vec<ZoneError>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(northbound: &'a mut dyn DynNorthbound) -> Self {
        Self {
            northbound,
            warnings: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Commits the rows of a capability. Returns `true` if they are committed.
    ///
    /// # Errors
    /// The database cannot be used. An error about the rows themselves is kept.
    pub(super) async fn commit(
        &mut self,
        subject: &'static str,
        plan: &mut (dyn FnMut(&Snapshot) -> Result<Change, PlanError> + Send),
    ) -> Result<bool, ZoneError> {
        match commit_rows(self.northbound, subject, plan).await {
            Ok(warnings) => {
                self.warnings.extend(warnings);
                Ok(true)
            }
            Err(error) => self.keep(error).map(|()| false),
        }
    }

    /// Keeps an error about the rows of one subject until the end of the pass.
    ///
    /// # Errors
    /// The database cannot be used, so that the pass ends here. The errors that were kept come
    /// first.
    pub(super) fn keep(&mut self, error: ZoneError) -> Result<(), ZoneError> {
        let is_of_rows = error.is_of_rows();
        self.errors.push(error);
        if is_of_rows { Ok(()) } else { self.end() }
    }

    /// Ends the pass.
    ///
    /// # Errors
    /// Rows are not committed.
    pub(super) fn end(&mut self) -> Result<(), ZoneError> {
        let mut errors = std::mem::take(&mut self.errors);
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(ZoneError::Several(errors)),
        }
    }
}
