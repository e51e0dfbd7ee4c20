//! Commits of the rows of the connects: a plan has transactions of each connect.

use patchbay_connects::{Inputs, ZoneController, ZonePlan};
use patchbay_rows::Counts;

use super::rows::{MAX_ATTEMPTS, applied_warning, wait_for_database, wait_for_outcome};
use super::{ZoneError, ZoneOutcome};
use crate::northbound::CommitError;
use crate::northbound::dynamic::DynNorthbound;

/// Commits the rows of the connects, and plans again after rejected transactions and lost
/// connections.
pub(super) async fn commit_connects(
    controller: &mut ZoneController,
    northbound: &mut dyn DynNorthbound,
    inputs: &Inputs,
    outcome: &mut ZoneOutcome,
) -> Result<(), ZoneError> {
    let mut attempt = 1;
    loop {
        let plan = controller.plan(inputs, &northbound.snapshot());
        let has_more = plan.has_more();
        match commit_plan(controller, northbound, inputs, plan, outcome).await? {
            PlanEnd::Committed if !has_more => return Ok(()),
            PlanEnd::Committed | PlanEnd::Interrupted => {}
            PlanEnd::Rejected(error) if attempt == MAX_ATTEMPTS => return Err(error),
            PlanEnd::Rejected(error) => {
                tracing::info!(%error, attempt, "transaction rejected, planning again");
                attempt += 1;
            }
        }
    }
}

/// Commits each transaction of a plan, until one is not applied because the connection was
/// lost.
async fn commit_plan(
    controller: &mut ZoneController,
    northbound: &mut dyn DynNorthbound,
    inputs: &Inputs,
    plan: ZonePlan,
    outcome: &mut ZoneOutcome,
) -> Result<PlanEnd, ZoneError> {
    let mut end = PlanEnd::Committed;
    for connect in plan.connects {
        let subject = || format!("ClusterNetworkConnect {}", connect.connect);
        let change = connect.change.map_err(|source| ZoneError::Plan {
            subject: subject(),
            source,
        })?;
        outcome.reports.extend(
            connect
                .report
                .map(|report| (connect.connect.clone(), report)),
        );
        let Some(transaction) = change.transaction else {
            outcome.counts.entry(connect.connect).or_default();
            continue;
        };
        match northbound.commit(transaction).await {
            Ok(()) => {}
            Err(source @ CommitError::Rejected(_)) => {
                end = PlanEnd::Rejected(ZoneError::Commit {
                    subject: subject(),
                    source,
                });
                continue;
            }
            Err(CommitError::Unknown(reason)) => {
                wait_for_outcome(northbound, subject(), &reason).await?;
                // The next plan completes a partial change, whether it is applied or not.
                if !change.more {
                    let next = controller.plan(inputs, &northbound.snapshot());
                    if !next.is_done(&connect.connect) {
                        return Ok(PlanEnd::Interrupted);
                    }
                    let warning = applied_warning(&subject(), &reason);
                    outcome.warnings.push(warning);
                }
            }
            Err(CommitError::NotSent(reason)) => {
                wait_for_database(northbound, subject(), reason).await?;
                return Ok(PlanEnd::Interrupted);
            }
            Err(source) => {
                return Err(ZoneError::Commit {
                    subject: subject(),
                    source,
                });
            }
        }
        let Counts {
            inserted,
            changed,
            deleted,
        } = change.counts;
        tracing::info!(
            connect = connect.connect,
            inserted,
            changed,
            deleted,
            "committed"
        );
        *outcome.counts.entry(connect.connect).or_default() += change.counts;
    }
    Ok(end)
}

/// Outcome of the commit of a plan.
enum PlanEnd {
    /// All transactions are committed.
    Committed,
    /// A transaction is not applied, because the connection was lost.
    Interrupted,
    /// Error of the last rejected transaction.
    Rejected(ZoneError),
}
