//! Pass over the rows of all capabilities, and the loop that commits them: rows that are rejected do
//! not stop those of other subjects.

use std::collections::BTreeMap;

use metrics::counter;
use patchbay_engine::db::Snapshot;
use patchbay_rows::{Change, Counts};
use patchbay_zone::SubjectChange;

use super::ZoneError;
use crate::northbound::CommitError;
use crate::northbound::dynamic::DynNorthbound;

/// Maximum number of attempts to commit a plan. After a rejected transaction the rows are planned
/// again, because another client may have changed them concurrently.
pub(super) const MAX_ATTEMPTS: usize = 4;

/// Database of a zone, with the outcome of a pass.
pub(super) struct Pass<'a> {
    pub(super) northbound: &'a mut dyn DynNorthbound,
    /// Name of the zone, for the log.
    zone: String,
    /// Numbers of changed rows by subject.
    pub(super) counts: BTreeMap<String, Counts>,
    /// Warnings about lost replies.
    pub(super) warnings: Vec<String>,
    /// Errors about the rows of subjects, which are not committed.
    pub(super) errors: Vec<ZoneError>,
}

/// Outcome of the commit of one plan.
#[derive(Default)]
struct Round {
    /// `true`: the connection was lost before a transaction was applied, or a change exceeds its
    /// transaction.
    is_incomplete: bool,
    /// `true`: a transaction was applied.
    is_changed: bool,
    /// Errors about the rows of subjects.
    errors: Vec<ZoneError>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(northbound: &'a mut dyn DynNorthbound, zone: &str) -> Self {
        Self {
            northbound,
            zone: zone.to_owned(),
            counts: BTreeMap::new(),
            warnings: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Commits what `plan` finds to do, and plans again after rejected transactions and lost
    /// connections. With `is_waiting`, rows may wait for rows of the same plan, and are planned
    /// until nothing is left to do. Returns `true` if all rows are committed.
    ///
    /// # Errors
    /// The database cannot be used. Errors about the rows of subjects are kept.
    pub(super) async fn commit(
        &mut self,
        is_waiting: bool,
        plan: &mut (dyn FnMut(&Snapshot) -> Vec<SubjectChange> + Send),
    ) -> Result<bool, ZoneError> {
        let mut attempt = 1;
        loop {
            let round = self.commit_plan(plan).await?;
            if round.is_incomplete || (is_waiting && round.is_changed) {
                continue;
            }
            let is_committed = round.errors.is_empty();
            if is_committed || attempt == MAX_ATTEMPTS {
                self.errors.extend(round.errors);
                return Ok(is_committed);
            }
            for error in round.errors {
                let zone = &self.zone;
                tracing::info!(zone, %error, attempt, "rows not committed, planning again");
            }
            attempt += 1;
        }
    }

    /// Commits each transaction of a plan, until one is not applied because the connection was
    /// lost.
    async fn commit_plan(
        &mut self,
        plan: &mut (dyn FnMut(&Snapshot) -> Vec<SubjectChange> + Send),
    ) -> Result<Round, ZoneError> {
        let mut round = Round::default();
        for SubjectChange { subject, change } in plan(&self.northbound.snapshot()) {
            let Change { transaction, counts, more } = match change {
                Ok(change) => change,
                Err(source) => {
                    round.errors.push(ZoneError::Plan { subject, source });
                    continue;
                }
            };
            let Some(transaction) = transaction else {
                continue;
            };
            let lost = match self.northbound.commit(transaction).await {
                Ok(()) => {
                    round.is_incomplete |= more;
                    round.is_changed = true;
                    self.count(subject, counts);
                    continue;
                }
                Err(source @ CommitError::Rejected(_)) => {
                    round.errors.push(ZoneError::Commit { subject, source });
                    continue;
                }
                Err(lost @ (CommitError::Unknown(_) | CommitError::NotSent(_))) => lost,
                Err(source) => return Err(self.end_with(ZoneError::Commit { subject, source })),
            };
            if let Err(source) = self.northbound.wait_for_outcome().await {
                return Err(self.end_with(ZoneError::Lost { subject, lost, source }));
            }
            // The next plan shows how much of a partial change is applied.
            if matches!(lost, CommitError::Unknown(_)) && !more {
                let next = plan(&self.northbound.snapshot());
                let mut next = next.iter().filter(|next| next.subject == subject);
                if next.all(SubjectChange::is_empty) {
                    self.warnings.push(format!(
                        "{subject}: {lost}; the database shows that the transaction is applied"
                    ));
                    self.count(subject, counts);
                }
            }
            round.is_incomplete = true;
            return Ok(round);
        }
        Ok(round)
    }

    fn count(&mut self, subject: String, counts: Counts) {
        let Counts { inserted, changed, deleted } = counts;
        tracing::info!(zone = self.zone, subject, inserted, changed, deleted, "committed");
        for (operation, rows) in [("insert", inserted), ("update", changed), ("delete", deleted)] {
            counter!("patchbay_northbound_rows_total", "operation" => operation)
                .increment(rows as u64);
        }
        *self.counts.entry(subject).or_default() += counts;
    }

    /// The error that ends the pass. Errors that were kept come first.
    fn end_with(&mut self, error: ZoneError) -> ZoneError {
        let mut errors = std::mem::take(&mut self.errors);
        if errors.is_empty() {
            return error;
        }
        errors.push(error);
        ZoneError::Several(errors)
    }

    /// Ends the pass.
    ///
    /// # Errors
    /// Rows are not committed.
    pub(super) fn end(&mut self) -> Result<(), ZoneError> {
        match self.errors.pop() {
            None => Ok(()),
            Some(last) => Err(self.end_with(last)),
        }
    }
}
