//! The zone controller's task: passes over the rows of one zone's Northbound database.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use patchbay_connects::{ConnectPlan, ConnectReport, HeldReason, ZoneController};
use patchbay_engine::client::{Client, ClientClosed, CommitOutcome, OpError, SnapshotChanges};
use thiserror::Error;
use tokio::sync::watch;
use uuid::Uuid;

use super::config::{Timing, ZoneControllerConfig};
use super::debounce::{ChangeSource, debounce, sleep_or_forever};
use super::northbound_client::NorthboundClient;
use super::northbound_reachability::NorthboundReachability;
use super::store::WatchEnded;
use super::zone_inputs::{ZoneInputs, ZoneSources};
use super::zone_log::ConnectLogFields;
use super::zone_reports::{ConnectSummary, ZoneReport};

/// The zone controller. It watches Kubernetes objects and the Northbound database alike, so a
/// network whose router appears late is connected then.
#[derive(Debug)]
pub(super) struct ZoneControllerTask {
    pub(super) config: ZoneControllerConfig,
    pub(super) northbound: NorthboundClient,
    pub(super) sources: ZoneSources,
    /// Receives the zone's report.
    pub(super) report_sender: watch::Sender<ZoneReport>,
    /// Receives whether the database is unreachable.
    pub(super) reachability: NorthboundReachability,
    pub(super) timing: Timing,
}

/// Reason why the zone controller ended.
#[derive(Debug, Error)]
pub(super) enum ZoneControllerError {
    #[error(transparent)]
    Watch(#[from] WatchEnded),
    #[error(transparent)]
    Northbound(#[from] ClientClosed),
}

impl ZoneControllerTask {
    /// Reconciles forever. Dropping the future leaves at most one transaction in progress, which is
    /// executed completely or not at all.
    ///
    /// # Errors
    /// A task that this one depends on has ended.
    pub(super) async fn run(mut self) -> Result<Infallible, ZoneControllerError> {
        let client = self.northbound.connect();
        let client = self.reachability.wait_for(client).await;
        // An incomplete set of objects would look like deletions.
        self.sources.ready().await?;
        let Self {
            config,
            sources,
            report_sender,
            reachability,
            timing,
            ..
        } = self;
        let work = ZoneReconciler {
            inputs: ZoneInputs::new(&config, sources.network_numbers.clone()),
            zone: config.zone,
            sources,
            report_sender,
            timing,
            controller: ZoneController::default(),
            changes: client.changes(),
            client: client.clone(),
            last_reported: BTreeMap::new(),
            summaries: BTreeMap::new(),
            rejections: BTreeMap::new(),
            node: NodePresence::NotSeen,
        };
        // The reconciler waits while the database is unreachable, so a second future reports that.
        tokio::select! {
            ended = work.run() => ended,
            ended = reachability.follow_connection(&client) => Ok(ended?),
        }
    }
}

/// The state of the zone controller.
struct ZoneReconciler {
    zone: String,
    sources: ZoneSources,
    report_sender: watch::Sender<ZoneReport>,
    timing: Timing,
    inputs: ZoneInputs,
    controller: ZoneController,
    client: Client,
    changes: SnapshotChanges,
    /// The last report about each ClusterNetworkConnect.
    last_reported: BTreeMap<String, LastReported>,
    /// The last summary of each ClusterNetworkConnect, for the zone's `ConfigMap`.
    summaries: BTreeMap<String, ConnectSummary>,
    /// Errors of the last transactions for each ClusterNetworkConnect.
    rejections: BTreeMap<String, DatabaseRejections>,
    node: NodePresence,
}

/// Existence of a node of the zone's name. Until one has been seen, its absence counts as a wrong
/// `--zone`, because almost nothing is connected in a zone without a node.
#[derive(Clone, Copy, Debug, PartialEq)]
enum NodePresence {
    NotSeen,
    /// Not seen, and that has been logged.
    Missing,
    Seen,
}

impl ChangeSource for ZoneReconciler {
    type Error = ZoneControllerError;

    async fn changed(&mut self) -> Result<(), ZoneControllerError> {
        tokio::select! {
            changed = self.sources.changed() => Ok(changed?),
            changed = self.changes.next() => {
                changed?;
                Ok(())
            }
        }
    }
}

impl ZoneReconciler {
    async fn run(mut self) -> Result<Infallible, ZoneControllerError> {
        let timing = self.timing;
        let mut backoff = timing.retry_backoff();
        loop {
            let wait = if self.reconcile().await? {
                backoff.reset();
                None
            } else {
                Some(backoff.next_delay())
            };
            tokio::select! {
                changed = self.changed() => {
                    changed?;
                    debounce(&timing, &mut self).await?;
                }
                () = sleep_or_forever(wait) => {}
            }
        }
    }

    /// Reconciles all `ClusterNetworkConnect`s with the database. Returns `true` if everything has
    /// succeeded.
    async fn reconcile(&mut self) -> Result<bool, ClientClosed> {
        let inputs = self.inputs.update(&mut self.sources);
        if self.node != NodePresence::Seen {
            if !inputs.nodes.contains_key(&self.zone) {
                if self.node == NodePresence::NotSeen {
                    let zone = &self.zone;
                    tracing::warn!(
                        zone,
                        "no node has the name of the zone; no row is changed until one has"
                    );
                }
                self.node = NodePresence::Missing;
                return Ok(true);
            }
            self.node = NodePresence::Seen;
        }
        let plan = self.controller.plan(inputs, &self.client.snapshot());
        self.last_reported
            .retain(|connect, _| inputs.connects.contains_key(connect));
        self.summaries
            .retain(|connect, _| inputs.connects.contains_key(connect));
        self.rejections
            .retain(|connect, _| inputs.connects.contains_key(connect));
        let mut complete = true;
        for connect in plan.connects {
            complete &= self.commit_plan(connect).await?;
        }
        self.publish_report();
        Ok(complete)
    }

    /// Publishes the zone's report. A node that has never had an id is joining, and has none.
    fn publish_report(&self) {
        let is_first = self.report_sender.borrow().node_uid.is_none();
        if is_first && !self.inputs.has_id(&self.zone) {
            return;
        }
        let report = ZoneReport {
            node_uid: self.inputs.node_uid(&self.zone),
            connects: self.summaries.clone(),
        };
        self.report_sender.send_if_modified(|current| {
            let is_new = *current != report;
            *current = report;
            is_new
        });
    }

    async fn commit_plan(&mut self, plan: ConnectPlan) -> Result<bool, ClientClosed> {
        let connect = &plan.connect;
        let change = match plan.change {
            Ok(change) => change,
            Err(error) => {
                tracing::error!(connect, %error, "cannot plan the changes");
                return Ok(false);
            }
        };
        if let Some(transaction) = change.transaction {
            match self.client.transact(transaction).await {
                CommitOutcome::Committed(_) => {
                    tracing::info!(connect, counts = ?change.counts, "committed");
                }
                CommitOutcome::Rejected(error) => {
                    tracing::warn!(connect, %error, "the database rejected the transaction");
                    self.record_rejection(connect, &error);
                    return Ok(false);
                }
                CommitOutcome::NotSent(error) => {
                    tracing::warn!(connect, %error, "the transaction was not sent");
                    return Ok(false);
                }
                CommitOutcome::Unknown(unknown) => {
                    tracing::warn!(connect, %unknown, "transaction with unknown outcome; waiting for the database");
                    self.client.wait_for_resync(&unknown).await?;
                    return Ok(false);
                }
            }
        }
        self.rejections.remove(connect);
        match plan.report {
            // The report describes the state after the last of several transactions.
            Some(report) if !change.more => self.record_report(connect, &report),
            _ => {}
        }
        Ok(true)
    }

    /// Reports that the database rejects the rows of a ClusterNetworkConnect, from the second
    /// rejection on.
    ///
    /// A single rejection is not reported, because it may come from a concurrent change. Another
    /// reason is reported when it occurs twice in a row, because a server names any of several rows
    /// that it rejects.
    fn record_rejection(&mut self, connect: &str, error: &OpError) {
        let error = error.to_string();
        // New rows have another UUID in each attempt.
        let reason = without_uuids(&error);
        let rejections = self.rejections.entry(connect.to_owned()).or_default();
        let last = rejections.last.replace(reason.clone());
        let is_unreported = match &rejections.reported {
            None => last.is_some(),
            Some(reported) => *reported != reason && last.as_ref() == Some(&reason),
        };
        if is_unreported && self.inputs.connect(connect).is_some() {
            rejections.reported = Some(reason);
            let last_report = self.last_reported.get(connect).map(|last| &*last.report);
            let report = ConnectReport::refused(error, last_report);
            self.record_report(connect, &Arc::new(report));
        } else if rejections.reported.as_ref() == Some(&reason) {
            self.renew_summary(connect);
        }
    }

    /// Declares that the last summary also holds for the current version of the object.
    fn renew_summary(&mut self, connect: &str) {
        let summary = self.summaries.get_mut(connect);
        if let (Some(summary), Some((seen, inputs))) = (summary, self.inputs.connect(connect)) {
            summary.renew(seen, inputs);
        }
    }

    /// Records a report, and logs it if its text differs from the last one.
    fn record_report(&mut self, connect: &str, report: &Arc<ConnectReport>) {
        let last = self.last_reported.get(connect);
        if last.is_some_and(|last| Arc::ptr_eq(&last.report, report)) {
            self.renew_summary(connect);
            return;
        }
        if let Some((seen, inputs)) = self.inputs.connect(connect) {
            let summary = ConnectSummary::new(seen, inputs, report);
            self.summaries.insert(connect.to_owned(), summary);
        }
        let before = last.map(|last| last.log.clone()).unwrap_or_default();
        // Without a tunnel key the cluster manager has to act first, so there is no problem to log.
        let log = if matches!(report.held, Some(HeldReason::NoTunnelKey)) {
            before
        } else {
            let log = ConnectLogFields::of(report);
            if log != before {
                let ConnectLogFields { networks, problems } = &log;
                tracing::info!(connect, networks, problems, "connected");
            }
            log
        };
        let report = Arc::clone(report);
        self.last_reported
            .insert(connect.to_owned(), LastReported { report, log });
    }
}

/// Reasons for which the database has rejected the rows of a ClusterNetworkConnect.
#[derive(Debug, Default)]
struct DatabaseRejections {
    last: Option<String>,
    reported: Option<String>,
}

/// The text without UUIDs.
fn without_uuids(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == '-';
    let words = text.split_inclusive(|c| !is_part(c)).map(|word| {
        let uuid = word.trim_end_matches(|c| !is_part(c));
        match Uuid::try_parse(uuid) {
            Ok(_) => &word[uuid.len()..],
            Err(_) => word,
        }
    });
    words.collect()
}

/// The last report about a ClusterNetworkConnect.
struct LastReported {
    report: Arc<ConnectReport>,
    log: ConnectLogFields,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_in_uuids_only_are_equal() {
        let text = |uuid| format!("deadbeef-row {uuid}, and {uuid}");
        let [one, other] = [
            "65a2a3a5-5c12-4a8c-b9a0-0d5a7c3f2f11",
            "00000000-0000-4000-8000-000000000000",
        ];
        assert_eq!(without_uuids(&text(one)), without_uuids(&text(other)));
        assert_eq!(without_uuids("deadbeef-row x"), "deadbeef-row x");
    }
}
