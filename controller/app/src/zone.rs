//! Reconciliation of one zone's Northbound database with the objects of a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use crate::Cluster;
use crate::northbound::{CommitError, Northbound, ReconnectError};
use patchbay_connects::{ConnectReport, Inputs, ZoneController, ZonePlan};
use patchbay_networks::{NetworkController, SkippedNetwork, ZoneNetworks};
use patchbay_rows::{Counts, PlanError};
use patchbay_schemas::uuids::UuidSource;

/// Maximum number of attempts to commit a plan. After a rejected transaction the rows are planned
/// again, because another client may have changed them concurrently.
const MAX_ATTEMPTS: usize = 4;

/// Subject of errors and warnings about the rows of the networks.
const NETWORKS: &str = "networks";

/// Reconciles the Northbound database of one zone: first the rows of the networks, then the rows of
/// each ClusterNetworkConnect.
///
/// It keeps the controllers between passes, so that a later [`reconcile`](Self::reconcile) plans
/// only what follows from changed objects and rows.
#[derive(Debug)]
pub struct ZoneReconciler<N> {
    zone: String,
    northbound: N,
    networks: NetworkController,
    connects: ZoneController,
}

/// Result of [`ZoneReconciler::reconcile`].
#[derive(Debug, Default)]
pub struct ZoneOutcome {
    /// Numbers of inserted, changed and deleted rows by connect, deleted connects included.
    pub counts: BTreeMap<String, Counts>,
    /// Reports by connect.
    pub reports: BTreeMap<String, Arc<ConnectReport>>,
    /// Networks that have no rows of their own in the zone, each with the reason.
    pub skipped_networks: Vec<SkippedNetwork>,
    /// Transactions that were applied although their reply was lost, one sentence each.
    pub warnings: Vec<String>,
}

/// Failure of [`ZoneReconciler::reconcile`].
///
/// `subject` is the part of the plan that failed: `networks` or the name of a
/// ClusterNetworkConnect.
#[derive(Debug, Error)]
pub enum ZoneError {
    /// The planned rows do not fit the database: for example its schema lacks a column.
    #[error("{subject}: {source}")]
    Plan {
        /// Part of the plan.
        subject: String,
        /// Error of the planner.
        source: PlanError,
    },
    /// The transaction was rejected or not sent; it is not applied.
    #[error("{subject}: {source}")]
    Commit {
        /// Part of the plan.
        subject: String,
        /// Error of the database or the client.
        source: CommitError,
    },
    /// The reply was lost, and the database shows that the transaction is not applied.
    #[error("{subject}: {reason}; the database shows that the transaction is not applied")]
    NotApplied {
        /// Part of the plan.
        subject: String,
        /// Failure of the connection.
        reason: String,
    },
    /// The reply was lost, and the connection was not restored.
    #[error("{subject}: {reason}; the transaction may be applied or not: {source}")]
    Unknown {
        /// Part of the plan.
        subject: String,
        /// Failure of the connection.
        reason: String,
        /// Failure of the reconnect.
        source: ReconnectError,
    },
}

impl<N> ZoneReconciler<N> {
    /// Creates a reconciler for the database of a zone, which is named for its node. `uuids` are
    /// the placeholders of new rows.
    pub fn new(zone: impl Into<String>, northbound: N, mut uuids: UuidSource) -> Self {
        let (seed, _) = uuids.next_uuid().as_u64_pair();
        Self {
            zone: zone.into(),
            northbound,
            networks: NetworkController::new(UuidSource::seeded(seed)),
            connects: ZoneController::new(uuids),
        }
    }

    /// Name of the zone.
    pub fn zone(&self) -> &str {
        &self.zone
    }

    /// The database.
    pub fn northbound(&self) -> &N {
        &self.northbound
    }

    /// The database, to commit or to wait.
    pub fn northbound_mut(&mut self) -> &mut N {
        &mut self.northbound
    }
}

impl<N: Northbound> ZoneReconciler<N> {
    /// Makes the rows of networks and connects what the objects of the cluster define. A rejected
    /// transaction is planned and committed again, at most three times.
    ///
    /// # Errors
    /// A plan does not fit the database, or a transaction is not applied: see [`ZoneError`].
    /// Earlier transactions of the pass stay applied; the next pass completes it.
    pub async fn reconcile(&mut self, cluster: &Cluster) -> Result<ZoneOutcome, ZoneError> {
        let zone_networks = cluster.zone_networks(&self.zone);
        let mut outcome = ZoneOutcome {
            warnings: self.commit_networks(&zone_networks).await?,
            skipped_networks: zone_networks.skipped(),
            ..ZoneOutcome::default()
        };
        self.commit_connects(&cluster.inputs(&self.zone), &mut outcome)
            .await?;
        Ok(outcome)
    }

    /// Makes only the rows of the networks what the objects of the cluster define. Returns the
    /// networks that have no rows of their own in the zone.
    ///
    /// # Errors
    /// As for [`reconcile`](Self::reconcile).
    pub async fn reconcile_networks(
        &mut self,
        cluster: &Cluster,
    ) -> Result<Vec<SkippedNetwork>, ZoneError> {
        let zone_networks = cluster.zone_networks(&self.zone);
        self.commit_networks(&zone_networks).await?;
        Ok(zone_networks.skipped())
    }

    /// Plans the rows of the connects for the present snapshot, and commits nothing.
    pub fn plan_connects(&mut self, inputs: &Inputs) -> ZonePlan {
        self.connects.plan(inputs, &self.northbound.snapshot())
    }

    /// `true` if [`reconcile`](Self::reconcile) would commit nothing.
    pub fn is_reconciled(&mut self, cluster: &Cluster) -> bool {
        let snapshot = self.northbound.snapshot();
        self.networks
            .plan(&cluster.zone_networks(&self.zone), &snapshot)
            .is_ok_and(|change| change.transaction.is_none())
            && self
                .connects
                .plan(&cluster.inputs(&self.zone), &snapshot)
                .is_empty()
    }

    /// Commits the rows of the networks. Returns warnings about lost replies.
    async fn commit_networks(
        &mut self,
        zone_networks: &ZoneNetworks,
    ) -> Result<Vec<String>, ZoneError> {
        let subject = || NETWORKS.to_owned();
        let mut warnings = Vec::new();
        let mut attempt = 1;
        loop {
            let change = self
                .networks
                .plan(zone_networks, &self.northbound.snapshot())
                .map_err(|source| ZoneError::Plan {
                    subject: subject(),
                    source,
                })?;
            let Some(transaction) = change.transaction else {
                break;
            };
            match self.northbound.commit(transaction).await {
                Ok(()) if change.more => {}
                Ok(()) => break,
                Err(CommitError::Rejected(_)) if attempt < MAX_ATTEMPTS => attempt += 1,
                Err(CommitError::Unknown(reason)) => {
                    self.wait_for_outcome(subject(), &reason).await?;
                    // The next plan shows how much of a partial change is applied.
                    if change.more {
                        continue;
                    }
                    let next = self
                        .networks
                        .plan(zone_networks, &self.northbound.snapshot());
                    let is_applied = next.is_ok_and(|change| change.transaction.is_none());
                    warnings.push(check_outcome(is_applied, subject(), reason)?);
                    break;
                }
                Err(source) => {
                    return Err(ZoneError::Commit {
                        subject: subject(),
                        source,
                    });
                }
            }
        }
        Ok(warnings)
    }

    /// Commits the rows of the connects, and plans again after rejected transactions.
    async fn commit_connects(
        &mut self,
        inputs: &Inputs,
        outcome: &mut ZoneOutcome,
    ) -> Result<(), ZoneError> {
        let mut attempt = 1;
        loop {
            let plan = self.plan_connects(inputs);
            let has_more = plan.has_more();
            match self.commit_plan(inputs, plan, outcome).await? {
                None if has_more => {}
                None => return Ok(()),
                Some(error) if attempt == MAX_ATTEMPTS => return Err(error),
                Some(error) => {
                    tracing::info!(%error, attempt, "transaction rejected, planning again");
                    attempt += 1;
                }
            }
        }
    }

    /// Commits each transaction of a plan. Returns the error of the last rejected transaction.
    async fn commit_plan(
        &mut self,
        inputs: &Inputs,
        plan: ZonePlan,
        outcome: &mut ZoneOutcome,
    ) -> Result<Option<ZoneError>, ZoneError> {
        let mut rejected = None;
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
            match self.northbound.commit(transaction).await {
                Ok(()) => {}
                Err(source @ CommitError::Rejected(_)) => {
                    rejected = Some(ZoneError::Commit {
                        subject: subject(),
                        source,
                    });
                    continue;
                }
                Err(CommitError::Unknown(reason)) => {
                    self.wait_for_outcome(subject(), &reason).await?;
                    let next = self.plan_connects(inputs);
                    // The next plan completes a partial change, whether it is applied or not.
                    if !change.more {
                        let is_applied = next.is_done(&connect.connect);
                        let warning = check_outcome(is_applied, subject(), reason)?;
                        outcome.warnings.push(warning);
                    }
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
        Ok(rejected)
    }

    /// Waits until the snapshot shows the outcome of a transaction whose reply was lost.
    async fn wait_for_outcome(&mut self, subject: String, reason: &str) -> Result<(), ZoneError> {
        self.northbound
            .wait_for_outcome()
            .await
            .map_err(|source| ZoneError::Unknown {
                subject,
                reason: reason.to_owned(),
                source,
            })
    }
}

/// Returns a warning if the transaction whose reply was lost is applied, otherwise an error.
fn check_outcome(is_applied: bool, subject: String, reason: String) -> Result<String, ZoneError> {
    if is_applied {
        Ok(format!(
            "{subject}: {reason}; the database shows that the transaction is applied"
        ))
    } else {
        Err(ZoneError::NotApplied { subject, reason })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use patchbay_engine::db::Snapshot;
    use patchbay_engine::txn::Transaction;
    use patchbay_model::ClusterSettings;
    use patchbay_resources::manifests::Inventory;
    use patchbay_resources::object::Time;

    use super::*;
    use crate::northbound::Embedded;

    /// Fate of one transaction.
    #[derive(Clone, Copy)]
    enum Fate {
        Committed,
        Rejected,
        /// The transaction is committed and its reply is lost.
        ReplyLost,
        /// The transaction is lost before it is committed.
        RequestLost,
    }

    /// A database behind a connection that fails as the test requests, transaction by transaction.
    struct Unreliable {
        database: Embedded,
        fates: Vec<Fate>,
        reconnects: bool,
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
                Fate::RequestLost => lost,
                Fate::ReplyLost => self.database.commit(transaction).await.and(lost),
            }
        }

        async fn wait_for_outcome(&mut self) -> Result<(), ReconnectError> {
            self.reconnects
                .then_some(())
                .ok_or(ReconnectError::Timeout(Duration::from_secs(1)))
        }
    }

    /// Reconciles an empty database with an empty cluster, which has only the rows that all routers
    /// share. Returns the warnings.
    async fn reconcile_shared_rows(
        fates: &[Fate],
        reconnects: bool,
    ) -> Result<Vec<String>, String> {
        let northbound = Unreliable {
            database: Embedded::new(1).unwrap(),
            fates: fates.to_vec(),
            reconnects,
        };
        let cluster = Cluster::from_inventory(
            Inventory::default(),
            ClusterSettings::default(),
            Time(Timestamp::UNIX_EPOCH),
        )
        .unwrap();
        let mut zone = ZoneReconciler::new("n", northbound, UuidSource::seeded(1));
        let outcome = zone.reconcile(&cluster).await;
        let outcome = outcome.map_err(|error| error.to_string())?;
        // The Copp row, and nine meters with a band each.
        assert_eq!(zone.northbound().snapshot().row_count(), 19);
        assert!(zone.is_reconciled(&cluster));
        Ok(outcome.warnings)
    }

    #[tokio::test]
    async fn a_rejected_transaction_is_planned_again() {
        let warnings = reconcile_shared_rows(&[Fate::Rejected; MAX_ATTEMPTS - 1], true).await;
        assert_eq!(warnings, Ok(Vec::new()));
        let error = reconcile_shared_rows(&[Fate::Rejected; MAX_ATTEMPTS], true).await;
        assert_eq!(error, Err("networks: refused".to_owned()));
    }

    #[tokio::test]
    async fn after_a_lost_connection_the_database_shows_the_outcome() {
        assert_eq!(
            reconcile_shared_rows(&[Fate::ReplyLost], true).await,
            Ok(vec![
                "networks: lost; the database shows that the transaction is applied".to_owned()
            ])
        );
        assert_eq!(
            reconcile_shared_rows(&[Fate::RequestLost], true).await,
            Err(
                "networks: lost; the database shows that the transaction is not applied".to_owned()
            )
        );
        assert_eq!(
            reconcile_shared_rows(&[Fate::RequestLost], false).await,
            Err("networks: lost; the transaction may be applied or not: \
                 the database did not come back within 1 s"
                .to_owned())
        );
    }
}
