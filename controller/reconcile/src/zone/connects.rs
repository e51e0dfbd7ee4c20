//! Commits of the rows of the connects: a plan has transactions of each connect.

use patchbay_connects::{Inputs, ZoneController, ZonePlan};
use patchbay_rows::Counts;

use super::error::CONNECT;
use super::pass::Pass;
use super::rows::{MAX_ATTEMPTS, applied_warning, wait_for_database, wait_for_outcome};
use super::{ZoneError, ZoneOutcome};
use crate::northbound::CommitError;

/// Outcome of the commit of a plan.
#[derive(Default)]
struct PlanEnd {
    /// Errors about the rows of connects.
    errors: Vec<ZoneError>,
    /// `true`: the connection was lost before a transaction was applied, or the changes of a
    /// connect exceed its transaction.
    is_incomplete: bool,
}

/// Commits the rows of the connects, and plans again after rejected transactions and lost
/// connections. Errors about the rows of a connect are kept in the pass.
pub(super) async fn commit_connects(
    controller: &mut ZoneController,
    pass: &mut Pass<'_>,
    inputs: &Inputs,
    outcome: &mut ZoneOutcome,
) -> Result<(), ZoneError> {
    let mut attempt = 1;
    loop {
        let plan = controller.plan(inputs, &pass.northbound.snapshot());
        let PlanEnd {
            errors,
            is_incomplete,
        } = commit_plan(controller, pass, inputs, plan, outcome).await?;
        if is_incomplete {
            continue;
        }
        if attempt == MAX_ATTEMPTS || errors.is_empty() {
            return errors.into_iter().try_for_each(|error| pass.keep(error));
        }
        for error in errors {
            tracing::info!(%error, attempt, "rows not committed, planning again");
        }
        attempt += 1;
    }
}

/// Commits each transaction of a plan, until one is not applied because the connection was
/// lost.
async fn commit_plan(
    controller: &mut ZoneController,
    pass: &mut Pass<'_>,
    inputs: &Inputs,
    plan: ZonePlan,
    outcome: &mut ZoneOutcome,
) -> Result<PlanEnd, ZoneError> {
    let mut end = PlanEnd::default();
    for connect in plan.connects {
        let subject = || format!("{CONNECT}{}", connect.connect);
        let change = match connect.change {
            Ok(change) => change,
            Err(source) => {
                end.errors.push(ZoneError::Plan {
                    subject: subject(),
                    source,
                });
                continue;
            }
        };
        outcome.reports.extend(
            connect
                .report
                .map(|report| (connect.connect.clone(), report)),
        );
        let Some(transaction) = change.transaction else {
            outcome.counts.entry(connect.connect).or_default();
            continue;
        };
        match pass.northbound.commit(transaction).await {
            Ok(()) => {}
            Err(CommitError::Unknown(reason)) => {
                let waited = wait_for_outcome(pass.northbound, subject(), &reason).await;
                waited.or_else(|error| pass.keep(error))?;
                // The next plan completes a partial change, whether it is applied or not.
                if !change.more {
                    let next = controller.plan(inputs, &pass.northbound.snapshot());
                    if !next.is_done(&connect.connect) {
                        end.is_incomplete = true;
                        return Ok(end);
                    }
                    let warning = applied_warning(&subject(), &reason);
                    pass.warnings.push(warning);
                }
            }
            Err(CommitError::NotSent(reason)) => {
                let waited = wait_for_database(pass.northbound, subject(), reason).await;
                waited.or_else(|error| pass.keep(error))?;
                end.is_incomplete = true;
                return Ok(end);
            }
            Err(source) => {
                let error = ZoneError::Commit {
                    subject: subject(),
                    source,
                };
                if error.is_of_rows() {
                    end.errors.push(error);
                } else {
                    pass.keep(error)?;
                }
                continue;
            }
        }
        end.is_incomplete |= change.more;
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
