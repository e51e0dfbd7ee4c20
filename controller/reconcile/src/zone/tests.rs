//! Lost connections and rejected transactions, one by one.

use std::time::Duration;

use jiff::Timestamp;
use patchbay_engine::client::{NotSent, UnknownOutcome};
use patchbay_engine::db::{DatabaseError, Snapshot};
use patchbay_engine::txn::Transaction;
use patchbay_model::ClusterSettings;
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::Time;
use patchbay_schemas::error::OvsdbError;

use super::pass::MAX_ATTEMPTS;
use super::*;
use crate::northbound::{CommitError, Embedded, ReconnectError};

/// Fate of one transaction.
#[derive(Clone, Copy)]
enum Fate {
    Committed,
    Rejected,
    /// The transaction is committed and its reply is lost.
    ReplyLost,
    /// The transaction is lost before it is committed.
    RequestLost,
    /// There is no connection.
    NotSent,
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
        let lost = Err(CommitError::Unknown(unknown_outcome()));
        match self.fates.pop().unwrap_or(Fate::Committed) {
            Fate::Committed => self.database.commit(transaction).await,
            Fate::Rejected => Err(rejected()),
            Fate::RequestLost => lost,
            Fate::NotSent => Err(NotSent { cause: None }.into()),
            Fate::ReplyLost => self.database.commit(transaction).await.and(lost),
        }
    }

    async fn wait_for_outcome(&mut self) -> Result<(), ReconnectError> {
        self.reconnects.then_some(()).ok_or(ReconnectError::Timeout(Duration::from_secs(1)))
    }
}

fn unknown_outcome() -> UnknownOutcome {
    UnknownOutcome { cause: None, session: 0 }
}

fn rejected() -> CommitError {
    DatabaseError::Commit(OvsdbError::new("constraint violation", "refused")).into()
}

/// Reconciles an empty database with an empty cluster, which has only the rows that all routers
/// share. Returns the warnings.
async fn reconcile_shared_rows(fates: &[Fate], reconnects: bool) -> Result<Vec<String>, String> {
    let northbound =
        Unreliable { database: Embedded::new(1).unwrap(), fates: fates.to_vec(), reconnects };
    let cluster = Cluster::from_inventory(
        Inventory::default(),
        ClusterSettings::default(),
        Time(Timestamp::UNIX_EPOCH),
    )
    .unwrap();
    let mut zone = ZoneReconciler::new("n", northbound, UuidSource::seeded(1));
    let outcome = zone.reconcile(&cluster).await.map_err(|error| error.to_string())?;
    // The Copp row, ten meters with two bands, two address sets.
    assert_eq!(zone.northbound().snapshot().row_count(), 15);
    assert!(zone.is_reconciled(&cluster));
    Ok(outcome.warnings)
}

#[tokio::test]
async fn a_rejected_transaction_is_planned_again() {
    let warnings = reconcile_shared_rows(&[Fate::Rejected; MAX_ATTEMPTS - 1], true).await;
    assert_eq!(warnings, Ok(Vec::new()));
    let error = reconcile_shared_rows(&[Fate::Rejected; MAX_ATTEMPTS], true).await;
    assert_eq!(error, Err(format!("networks: {}", rejected())));
}

#[tokio::test]
async fn after_a_lost_connection_the_database_shows_the_outcome() {
    assert_eq!(
        reconcile_shared_rows(&[Fate::ReplyLost], true).await,
        Ok(vec![format!(
            "networks: {}; the database shows that the transaction is applied",
            unknown_outcome()
        )])
    );
    for lost in [Fate::RequestLost, Fate::NotSent] {
        let outcome = reconcile_shared_rows(&[lost; 2 * MAX_ATTEMPTS], true).await;
        assert_eq!(outcome, Ok(Vec::new()));
    }
    let gone = "the database did not come back within 1 s";
    assert_eq!(
        reconcile_shared_rows(&[Fate::RequestLost], false).await,
        Err(format!("networks: {}; {gone}", unknown_outcome()))
    );
    assert_eq!(
        reconcile_shared_rows(&[Fate::NotSent], false).await,
        Err(format!("networks: {}; {gone}", NotSent { cause: None }))
    );
}
