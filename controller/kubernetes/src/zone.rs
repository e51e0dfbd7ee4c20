//! The task of the zone half.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use patchbay_engine::client::{
    Client, ClientClosed, CommitOutcome, Config as ClientConfig, OpError, SnapshotChanges,
};
use patchbay_schemas::nb::{
    Acl, AddressSet, LoadBalancerGroup, LogicalRouter, LogicalRouterPolicy, LogicalRouterPort,
    LogicalRouterStaticRoute,
};
use thiserror::Error;
use tokio::sync::watch;
use uuid::Uuid;

use super::config::{Timing, ZoneHalf};
use super::pace::{Backoff, Happening, settle, sleep_or_forever};
use super::reach::Reach;
use super::reports::{ConnectSummary, ZoneReport};
use super::store::WatchEnded;
use super::zone_inputs::{ZoneInputs, ZoneSources};
use super::zone_log::Message;
use patchbay_app::northbound::{BULK_ROWS, DATABASE};
use patchbay_connects::{ConnectPlan, ConnectReport, HeldReason, ZoneController};

/// The zone half. It follows the Kubernetes objects and the Northbound database alike: a network's router that appears
/// there late is connected then.
#[derive(Debug)]
pub(super) struct ZoneTask {
    pub(super) half: ZoneHalf,
    pub(super) sources: ZoneSources,
    /// Where it says what is connected.
    pub(super) says: watch::Sender<ZoneReport>,
    /// Where it says that it cannot reach the database.
    pub(super) reach: Reach,
    pub(super) timing: Timing,
}

/// Something that the zone half depends on has ended.
#[derive(Debug, Error)]
pub(super) enum ZoneEnded {
    #[error(transparent)]
    Watch(#[from] WatchEnded),
    #[error(transparent)]
    Northbound(#[from] ClientClosed),
}

impl ZoneTask {
    /// Works, for ever. Dropping the future leaves at most one transaction under way, as a whole or not at all.
    ///
    /// # Errors
    /// A task that this one depends on has ended.
    pub(super) async fn run(mut self) -> Result<Infallible, ZoneEnded> {
        let client = self.reach.until(self.connect()).await;
        // Without all objects, those that are missing would look deleted.
        self.sources.ready().await?;
        let Self {
            half,
            sources,
            says,
            reach,
            timing,
        } = self;
        let work = Work {
            inputs: ZoneInputs::new(&half),
            zone: half.zone,
            sources,
            says,
            timing,
            controller: ZoneController::default(),
            changes: client.changes(),
            client: client.clone(),
            told: BTreeMap::new(),
            summaries: BTreeMap::new(),
            refused: BTreeMap::new(),
            node: ZoneNode::NotSeen,
        };
        // Work waits for a database that is lost, so somebody else looks after that.
        tokio::select! {
            ended = work.run() => ended,
            ended = reach.follow(&client) => Ok(ended?),
        }
    }

    /// Connects to the database, however long it takes until it is there.
    async fn connect(&self) -> Client {
        let mut backoff = Backoff::new(&self.timing);
        loop {
            match Client::connect(self.replica()).await {
                Ok(client) => return client,
                Err(error) => {
                    tracing::warn!(%error, "waiting for the Northbound database");
                    tokio::time::sleep(backoff.failed()).await;
                }
            }
        }
    }

    /// The part of the database that connects depend on. What is left out is most of it: ports of switches, and what is
    /// behind load balancers.
    fn replica(&self) -> ClientConfig {
        let mut config = ClientConfig::new(self.half.northbound.clone(), DATABASE);
        config.tls.clone_from(&self.half.tls);
        config.bulk_rows = Some(BULK_ROWS);
        config
            .with_table::<LogicalRouter>()
            .with_table::<LogicalRouterPort>()
            .with_table::<LogicalRouterPolicy>()
            .with_table::<LogicalRouterStaticRoute>()
            .with_table::<Acl>()
            .with_table::<AddressSet>()
            .with_table::<LoadBalancerGroup>()
            .with_columns("Load_Balancer", ["name", "external_ids"])
            .with_columns("Copp", ["name"])
            .with_columns(
                "Logical_Switch",
                ["name", "external_ids", "acls", "load_balancer_group"],
            )
    }
}

/// The state of the zone half at work.
struct Work {
    zone: String,
    sources: ZoneSources,
    says: watch::Sender<ZoneReport>,
    timing: Timing,
    inputs: ZoneInputs,
    controller: ZoneController,
    client: Client,
    changes: SnapshotChanges,
    /// What was told last about each connect.
    told: BTreeMap<String, Told>,
    /// What is reported of each connect.
    summaries: BTreeMap<String, ConnectSummary>,
    /// Why the database has refused the last transaction of a connect.
    refused: BTreeMap<String, Refusal>,
    node: ZoneNode,
}

/// Whether there is a node of the zone's name. In a zone without one hardly anything is connected, so before one was seen it is
/// taken for a mistake: that of a zone whose database this is not.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ZoneNode {
    NotSeen,
    /// And that was told.
    Missing,
    Seen,
}

impl Happening for Work {
    type Ended = ZoneEnded;

    async fn changed(&mut self) -> Result<(), ZoneEnded> {
        tokio::select! {
            changed = self.sources.changed() => Ok(changed?),
            changed = self.changes.next() => {
                changed?;
                Ok(())
            }
        }
    }
}

impl Work {
    async fn run(mut self) -> Result<Infallible, ZoneEnded> {
        let timing = self.timing;
        let mut backoff = Backoff::new(&timing);
        loop {
            let wait = if self.pass().await? {
                backoff.reset();
                None
            } else {
                Some(backoff.failed())
            };
            tokio::select! {
                changed = self.changed() => {
                    changed?;
                    settle(&timing, &mut self).await?;
                }
                () = sleep_or_forever(wait) => {}
            }
        }
    }

    /// Makes the database right. Returns whether all of it is.
    async fn pass(&mut self) -> Result<bool, ClientClosed> {
        let inputs = self.inputs.update(&mut self.sources);
        if self.node != ZoneNode::Seen {
            if !inputs.nodes.contains_key(&self.zone) {
                if self.node == ZoneNode::NotSeen {
                    let zone = &self.zone;
                    tracing::warn!(
                        zone,
                        "there is no node of this name: nothing is touched until there is"
                    );
                }
                self.node = ZoneNode::Missing;
                return Ok(true);
            }
            self.node = ZoneNode::Seen;
        }
        let plan = self.controller.plan(inputs, &self.client.snapshot());
        self.told
            .retain(|connect, _| inputs.connects.contains_key(connect));
        self.summaries
            .retain(|connect, _| inputs.connects.contains_key(connect));
        self.refused
            .retain(|connect, _| inputs.connects.contains_key(connect));
        let mut complete = true;
        for connect in plan.connects {
            complete &= self.serve(connect).await?;
        }
        self.say();
        Ok(complete)
    }

    /// Says what is connected now.
    fn say(&self) {
        let report = ZoneReport {
            node: self.inputs.node_uid(&self.zone),
            connects: self.summaries.clone(),
        };
        self.says.send_if_modified(|said| {
            let is_new = *said != report;
            *said = report;
            is_new
        });
    }

    async fn serve(&mut self, plan: ConnectPlan) -> Result<bool, ClientClosed> {
        let connect = &plan.connect;
        let change = match plan.change {
            Ok(change) => change,
            Err(error) => {
                tracing::error!(connect, %error, "cannot plan");
                return Ok(false);
            }
        };
        if let Some(transaction) = change.transaction {
            match self.client.transact(transaction).await {
                CommitOutcome::Committed(_) => {
                    tracing::info!(connect, counts = ?change.counts, "committed");
                }
                CommitOutcome::Rejected(error) => {
                    tracing::warn!(connect, %error, "rejected");
                    self.note_refusal(connect, &error);
                    return Ok(false);
                }
                CommitOutcome::NotSent(error) => {
                    tracing::warn!(connect, %error, "not sent");
                    return Ok(false);
                }
                CommitOutcome::Unknown(unknown) => {
                    tracing::warn!(connect, %unknown, "waiting for the database to come back");
                    self.client.wait_for_resync(&unknown).await?;
                    return Ok(false);
                }
            }
        }
        self.refused.remove(connect);
        match plan.report {
            // What is connected after that is said when all of it has been done.
            Some(report) if !change.more => self.tell(connect, &report),
            _ => {}
        }
        Ok(true)
    }

    /// Tells that the database refuses what a connect should have, when it does so a second time: once, because something
    /// has changed meanwhile, is not worth telling. Another reason is told when it comes twice in a row: of several rows
    /// that it refuses, a server names any.
    fn note_refusal(&mut self, connect: &str, error: &OpError) {
        let error = error.to_string();
        // New rows have another UUID in each attempt.
        let reason = without_uuids(&error);
        let refusal = self.refused.entry(connect.to_owned()).or_default();
        let last = refusal.last.replace(reason.clone());
        let is_news = match &refusal.told {
            None => last.is_some(),
            Some(told) => *told != reason && last.as_ref() == Some(&reason),
        };
        if is_news && self.inputs.connect(connect).is_some() {
            refusal.told = Some(reason);
            let told = self.told.get(connect).map(|told| &*told.report);
            let report = ConnectReport::refused(error, told);
            self.tell(connect, &Arc::new(report));
        } else if refusal.told.as_ref() == Some(&reason) {
            self.renew(connect);
        }
    }

    /// Reports the same as before, but of the connect as it is now.
    fn renew(&mut self, connect: &str) {
        let summary = self.summaries.get_mut(connect);
        if let (Some(summary), Some(seen)) = (summary, self.inputs.connect(connect)) {
            summary.renew(seen);
        }
    }

    /// Notes what is connected, and logs it when it is something else than before.
    fn tell(&mut self, connect: &str, report: &Arc<ConnectReport>) {
        let known = self.told.get(connect);
        if known.is_some_and(|told| Arc::ptr_eq(&told.report, report)) {
            self.renew(connect);
            return;
        }
        if let Some(seen) = self.inputs.connect(connect) {
            let summary = ConnectSummary::new(seen, report);
            self.summaries.insert(connect.to_owned(), summary);
        }
        let before = known.map(|told| told.message.clone()).unwrap_or_default();
        // The cluster-wide half comes first: nothing is wrong as long as there is nothing to do.
        let message = if matches!(report.held, Some(HeldReason::NoTunnelKey)) {
            before
        } else {
            let message = Message::of(report);
            if message != before {
                let Message { networks, problems } = &message;
                tracing::info!(connect, networks, problems, "connected");
            }
            message
        };
        let report = Arc::clone(report);
        self.told
            .insert(connect.to_owned(), Told { report, message });
    }
}

/// Reasons for which the database has refused something.
#[derive(Debug, Default)]
struct Refusal {
    last: Option<String>,
    told: Option<String>,
}

/// The text with all UUIDs taken for the same.
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

/// What was told about a connect.
struct Told {
    report: Arc<ConnectReport>,
    message: Message,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_in_uuids_only_is_the_same() {
        let text = |uuid| format!("deadbeef-row {uuid}, and {uuid}");
        let [one, other] = [
            "65a2a3a5-5c12-4a8c-b9a0-0d5a7c3f2f11",
            "00000000-0000-4000-8000-000000000000",
        ];
        assert_eq!(without_uuids(&text(one)), without_uuids(&text(other)));
        assert_eq!(without_uuids("deadbeef-row x"), "deadbeef-row x");
    }
}
