//! Brings the database of one zone to what the objects say.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use crate::northbound::{CommitError, Northbound};
use patchbay_connects::{ConnectReport, Inputs, ZoneController, ZonePlan};
use patchbay_networks::{NetworkController, ZoneNetworks};
use patchbay_rows::{Counts, PlanError};
use patchbay_schemas::uuids::UuidSource;

/// How often another writer may be faster before nobody tries again.
const ATTEMPTS: usize = 4;

/// Controllers of one zone's database.
#[derive(Debug, Default)]
pub struct ZoneControllers {
    /// Plans the networks' own rows.
    pub networks: NetworkController,
    /// Plans the rows of connects.
    pub connects: ZoneController,
}

impl ZoneControllers {
    /// Controllers that take the placeholders of new rows from `uuids`.
    pub fn new(mut uuids: UuidSource) -> Self {
        let (seed, _) = uuids.next_uuid().as_u64_pair();
        Self {
            networks: NetworkController::new(UuidSource::seeded(seed)),
            connects: ZoneController::new(uuids),
        }
    }
}

/// What happened in a zone.
#[derive(Debug, Default)]
pub struct ZoneOutcome {
    /// How much changed, by connect; those that are gone are among them.
    pub counts: BTreeMap<String, Counts>,
    /// What is connected, by connect.
    pub reports: BTreeMap<String, Arc<ConnectReport>>,
    /// What went well in the end, but not at once.
    pub warnings: Vec<String>,
}

/// Why a zone's database is not what it should be.
#[derive(Debug, Error)]
pub enum ZoneError {
    /// The database cannot hold the planned rows.
    #[error("{what}: {source}")]
    Plan {
        /// The networks, or the ClusterNetworkConnect.
        what: String,
        /// The reason.
        source: PlanError,
    },
    /// The database has refused a transaction, or cannot be reached; the transaction is not applied.
    #[error("{what}: {source}")]
    Commit {
        /// The networks, or the ClusterNetworkConnect.
        what: String,
        /// The reason.
        source: CommitError,
    },
    /// The connection was lost, and the database shows that the transaction is not applied.
    #[error("{what}: {reason}; the database shows that the transaction is not applied")]
    NotApplied {
        /// The networks, or the ClusterNetworkConnect.
        what: String,
        /// Why the connection was lost.
        reason: String,
    },
    /// The connection was lost, and the database cannot be read.
    #[error("{what}: {reason}; the transaction may be applied or not: {obstacle}")]
    Unknown {
        /// The networks, or the ClusterNetworkConnect.
        what: String,
        /// Why the connection was lost.
        reason: String,
        /// Why the database cannot be read.
        obstacle: String,
    },
}

/// Commits the rows of the networks themselves, then the rows of each connect.
pub async fn bring(
    northbound: &mut impl Northbound,
    controllers: &mut ZoneControllers,
    inputs: &Inputs,
    zone_networks: &ZoneNetworks,
) -> Result<ZoneOutcome, ZoneError> {
    let mut outcome = ZoneOutcome {
        warnings: networks(northbound, &mut controllers.networks, zone_networks).await?,
        ..ZoneOutcome::default()
    };
    let controller = &mut controllers.connects;
    let mut attempt = 1;
    loop {
        let plan = controller.plan(inputs, &northbound.snapshot());
        let has_more = plan.has_more();
        let rejected = connects(northbound, controller, inputs, plan, &mut outcome).await?;
        match rejected {
            None if has_more => {}
            None => return Ok(outcome),
            Some(error) if attempt == ATTEMPTS => return Err(error),
            Some(error) => {
                tracing::info!(%error, attempt, "planning again");
                attempt += 1;
            }
        }
    }
}

/// Commits the rows of the networks themselves. Returns what went well, but not at once.
pub async fn networks(
    northbound: &mut impl Northbound,
    controller: &mut NetworkController,
    zone_networks: &ZoneNetworks,
) -> Result<Vec<String>, ZoneError> {
    let what = || "networks".to_owned();
    let mut warnings = Vec::new();
    let mut attempt = 1;
    loop {
        let change = controller.plan(zone_networks, &northbound.snapshot());
        let change = change.map_err(|source| ZoneError::Plan {
            what: what(),
            source,
        })?;
        let Some(transaction) = change.transaction else {
            break;
        };
        match northbound.commit(transaction).await {
            Ok(()) if change.more => {}
            Ok(()) => break,
            Err(CommitError::Rejected(_)) if attempt < ATTEMPTS => attempt += 1,
            // How much of a part of the work is applied, the next plan finds out.
            Err(CommitError::Unknown(reason)) if change.more => {
                look_again(northbound, what(), &reason).await?;
            }
            Err(CommitError::Unknown(reason)) => {
                look_again(northbound, what(), &reason).await?;
                let again = controller.plan(zone_networks, &northbound.snapshot());
                let is_applied = again.is_ok_and(|change| change.transaction.is_none());
                applied(is_applied, what(), reason, &mut warnings)?;
                break;
            }
            Err(source) => {
                return Err(ZoneError::Commit {
                    what: what(),
                    source,
                });
            }
        }
    }
    Ok(warnings)
}

/// Whether there is nothing to do.
pub fn is_done(
    northbound: &impl Northbound,
    controllers: &mut ZoneControllers,
    inputs: &Inputs,
    zone_networks: &ZoneNetworks,
) -> bool {
    let snapshot = northbound.snapshot();
    let networks = controllers.networks.plan(zone_networks, &snapshot);
    networks.is_ok_and(|change| change.transaction.is_none())
        && controllers.connects.plan(inputs, &snapshot).is_empty()
}

/// Commits the plan. Returns an error that may go away with another plan.
async fn connects(
    northbound: &mut impl Northbound,
    controller: &mut ZoneController,
    inputs: &Inputs,
    plan: ZonePlan,
    outcome: &mut ZoneOutcome,
) -> Result<Option<ZoneError>, ZoneError> {
    let mut rejected = None;
    for connect in plan.connects {
        let what = || format!("ClusterNetworkConnect {}", connect.connect);
        let change = connect.change.map_err(|source| ZoneError::Plan {
            what: what(),
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
                rejected = Some(ZoneError::Commit {
                    what: what(),
                    source,
                });
                continue;
            }
            Err(CommitError::Unknown(reason)) => {
                look_again(northbound, what(), &reason).await?;
                let again = controller.plan(inputs, &northbound.snapshot());
                // Of a part of the work nobody can tell; the next plan goes on with what is there.
                if !change.more {
                    let is_applied = again.is_done(&connect.connect);
                    applied(is_applied, what(), reason, &mut outcome.warnings)?;
                }
            }
            Err(source) => {
                return Err(ZoneError::Commit {
                    what: what(),
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
    Ok(rejected)
}

async fn look_again(
    northbound: &mut impl Northbound,
    what: String,
    reason: &str,
) -> Result<(), ZoneError> {
    let looked = northbound.look_again().await;
    looked.map_err(|obstacle| ZoneError::Unknown {
        what,
        reason: reason.to_owned(),
        obstacle,
    })
}

fn applied(
    is_applied: bool,
    what: String,
    reason: String,
    warnings: &mut Vec<String>,
) -> Result<(), ZoneError> {
    if !is_applied {
        return Err(ZoneError::NotApplied { what, reason });
    }
    warnings.push(format!(
        "{what}: {reason}; the database shows that the transaction is applied"
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use patchbay_engine::db::Snapshot;
    use patchbay_engine::txn::Transaction;

    use super::*;
    use crate::northbound::Embedded;

    /// What happens to a transaction on its way.
    #[derive(Clone, Copy)]
    enum Fate {
        Committed,
        Rejected,
        LostAfterwards,
        LostBefore,
    }

    /// A database behind a connection that fails as told, transaction by transaction.
    struct Unreliable {
        database: Embedded,
        fates: Vec<Fate>,
        comes_back: bool,
    }

    impl Northbound for Unreliable {
        fn snapshot(&self) -> Snapshot {
            self.database.snapshot()
        }

        async fn commit(&mut self, transaction: Transaction) -> Result<(), CommitError> {
            let lost = Err(CommitError::Unknown("lost".to_owned()));
            match self.fates.pop().unwrap_or(Fate::Committed) {
                Fate::Committed => self.database.commit(transaction).await,
                Fate::Rejected => Err(CommitError::Rejected("refused".to_owned())),
                Fate::LostBefore => lost,
                Fate::LostAfterwards => self.database.commit(transaction).await.and(lost),
            }
        }

        async fn look_again(&mut self) -> Result<(), String> {
            let back = self.comes_back.then_some(());
            back.ok_or_else(|| "it is gone".to_owned())
        }
    }

    /// Brings an empty database to no connects at all, but with the rows that all routers share.
    async fn bring_shared_rows(fates: &[Fate], comes_back: bool) -> Result<Vec<String>, String> {
        let mut northbound = Unreliable {
            database: Embedded::new(1).unwrap(),
            fates: fates.to_vec(),
            comes_back,
        };
        let mut controllers = ZoneControllers::default();
        let (inputs, networks) = (Inputs::default(), ZoneNetworks::default());
        let outcome = bring(&mut northbound, &mut controllers, &inputs, &networks).await;
        let outcome = outcome.map_err(|error| error.to_string())?;
        // The control plane protection, and nine meters with a band each.
        assert_eq!(northbound.snapshot().row_count(), 19);
        Ok(outcome.warnings)
    }

    #[tokio::test]
    async fn a_faster_writer_is_planned_around() {
        let warnings = bring_shared_rows(&[Fate::Rejected; ATTEMPTS - 1], true).await;
        assert_eq!(warnings, Ok(Vec::new()));
        let error = bring_shared_rows(&[Fate::Rejected; ATTEMPTS], true).await;
        assert_eq!(error, Err("networks: refused".to_owned()));
    }

    #[tokio::test]
    async fn after_a_lost_connection_the_database_says_what_happened() {
        assert_eq!(
            bring_shared_rows(&[Fate::LostAfterwards], true).await,
            Ok(vec![
                "networks: lost; the database shows that the transaction is applied".to_owned()
            ])
        );
        assert_eq!(
            bring_shared_rows(&[Fate::LostBefore], true).await,
            Err(
                "networks: lost; the database shows that the transaction is not applied".to_owned()
            )
        );
        assert_eq!(
            bring_shared_rows(&[Fate::LostBefore], false).await,
            Err("networks: lost; the transaction may be applied or not: it is gone".to_owned())
        );
    }
}
