//! Commits of rows that a capability keeps with the row engine.

use patchbay_engine::db::Snapshot;
use patchbay_rows::{Change, PlanError};

use super::ZoneError;
use crate::northbound::CommitError;
use crate::northbound::dynamic::DynNorthbound;

/// Maximum number of attempts to commit a plan. After a rejected transaction the rows are planned
/// again, because another client may have changed them concurrently.
pub(super) const MAX_ATTEMPTS: usize = 4;

/// Commits what `plan` finds to do, until that is nothing. `subject` names the rows in errors and
/// warnings. Returns warnings about lost replies.
pub(super) async fn commit_rows(
    northbound: &mut dyn DynNorthbound,
    subject: &'static str,
    plan: &mut (dyn FnMut(&Snapshot) -> Result<Change, PlanError> + Send),
) -> Result<Vec<String>, ZoneError> {
    let mut warnings = Vec::new();
    let mut attempt = 1;
    loop {
        let change = plan(&northbound.snapshot()).map_err(|source| ZoneError::Plan {
            subject: subject.to_owned(),
            source,
        })?;
        let Some(transaction) = change.transaction else {
            break;
        };
        match northbound.commit(transaction).await {
            Ok(()) if change.more => {}
            Ok(()) => break,
            Err(CommitError::Rejected(_)) if attempt < MAX_ATTEMPTS => attempt += 1,
            Err(CommitError::Unknown(reason)) => {
                wait_for_outcome(northbound, subject.to_owned(), &reason).await?;
                // The next plan shows how much of a partial change is applied.
                if change.more {
                    continue;
                }
                let next = plan(&northbound.snapshot());
                if next.is_ok_and(|change| change.transaction.is_none()) {
                    warnings.push(applied_warning(subject, &reason));
                    break;
                }
            }
            Err(CommitError::NotSent(reason)) => {
                wait_for_database(northbound, subject.to_owned(), reason).await?;
            }
            Err(source) => {
                return Err(ZoneError::Commit {
                    subject: subject.to_owned(),
                    source,
                });
            }
        }
    }
    Ok(warnings)
}

/// Waits until the snapshot follows the database, after a transaction that was not sent.
pub(super) async fn wait_for_database(
    northbound: &mut dyn DynNorthbound,
    subject: String,
    reason: String,
) -> Result<(), ZoneError> {
    let waited = northbound.wait_for_outcome().await;
    waited.map_err(|source| ZoneError::NotSent {
        subject,
        reason,
        source,
    })
}

/// Waits until the snapshot shows the outcome of a transaction whose reply was lost.
pub(super) async fn wait_for_outcome(
    northbound: &mut dyn DynNorthbound,
    subject: String,
    reason: &str,
) -> Result<(), ZoneError> {
    let waited = northbound.wait_for_outcome().await;
    waited.map_err(|source| ZoneError::Unknown {
        subject,
        reason: reason.to_owned(),
        source,
    })
}

/// Returns the warning about a transaction whose reply was lost, and which is applied.
pub(super) fn applied_warning(subject: &str, reason: &str) -> String {
    format!("{subject}: {reason}; the database shows that the transaction is applied")
}
