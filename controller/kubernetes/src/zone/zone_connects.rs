//! Connects of a zone: what the zone reports of them, in its `ConfigMap` and in the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_connects::{ConnectReport, HeldReason};
use patchbay_engine::client::OpError;
use patchbay_reconcile::zone::ZoneOutcome;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::manifests::{Inventory, Objects};
use patchbay_resources::object::Object;
use tokio::sync::watch;
use uuid::Uuid;

use crate::reports::zone_reports::{ConnectSummary, ZoneReport};
use crate::watch::connected_networks::ConnectedNetworks;
use crate::zone::connect_log::ConnectLogFields;

/// Reports of the last passes about the connects.
#[derive(Debug)]
pub(crate) struct ZoneConnects {
    /// Receives the zone's report.
    sender: watch::Sender<ZoneReport>,
    /// The last report about each ClusterNetworkConnect.
    last_reported: BTreeMap<String, LastReported>,
    /// The last summary of each ClusterNetworkConnect, for the zone's `ConfigMap`.
    summaries: BTreeMap<String, ConnectSummary>,
    /// Errors of the last transactions for each ClusterNetworkConnect.
    rejections: BTreeMap<String, DatabaseRejections>,
}

/// The last report about a ClusterNetworkConnect.
#[derive(Debug)]
struct LastReported {
    report: Arc<ConnectReport>,
    log: ConnectLogFields,
}

/// Reasons for which the database has rejected the rows of a ClusterNetworkConnect.
#[derive(Debug, Default)]
struct DatabaseRejections {
    last: Option<String>,
    reported: Option<String>,
}

/// The objects of a pass.
#[derive(Clone, Copy, Debug)]
struct Seen<'a> {
    zone: &'a str,
    connects: &'a Objects<ClusterNetworkConnect>,
    connected: &'a ConnectedNetworks,
}

impl ZoneConnects {
    /// No reports yet. `sender` receives the zone's report.
    pub(crate) fn new(sender: watch::Sender<ZoneReport>) -> Self {
        Self {
            sender,
            last_reported: BTreeMap::new(),
            summaries: BTreeMap::new(),
            rejections: BTreeMap::new(),
        }
    }

    /// Takes the outcome of a pass in the zone of a node, and publishes the zone's report.
    pub(crate) fn update(
        &mut self,
        zone: &str,
        outcome: &ZoneOutcome,
        inventory: &Inventory,
        connected: &ConnectedNetworks,
    ) {
        let connects = &inventory.cluster_network_connects;
        let is_there = |connect: &String| connects.named(connect).is_some();
        self.last_reported.retain(|connect, _| is_there(connect));
        self.summaries.retain(|connect, _| is_there(connect));
        self.rejections.retain(|connect, _| is_there(connect));
        let seen = Seen { zone, connects, connected };
        let rejected: BTreeMap<&str, &OpError> =
            outcome.rejections.iter().filter_map(|one| one.rejected_connect()).collect();
        for (connect, error) in &rejected {
            self.record_rejection(connect, error, seen);
        }
        for (connect, report) in &outcome.reports {
            if !rejected.contains_key(connect.as_str()) {
                self.rejections.remove(connect);
                self.record_report(connect, report, seen);
            }
        }
        self.publish(zone, inventory);
    }

    /// Publishes the zone's report. A node that has never had an id is joining, and has none.
    fn publish(&self, zone: &str, inventory: &Inventory) {
        let is_first = self.sender.borrow().node_uid.is_none();
        let node = inventory.nodes.named(zone);
        let has_id =
            node.is_some_and(|node| patchbay_resources::conversion::node(node).0.id.is_some());
        if is_first && !has_id {
            return;
        }
        let report =
            ZoneReport { node_uid: node.and_then(Object::uid), connects: self.summaries.clone() };
        self.sender.send_if_modified(|current| {
            let is_new = *current != report;
            *current = report;
            is_new
        });
    }

    /// Reports that the database rejects the rows of a ClusterNetworkConnect, from the second pass
    /// with a rejection on.
    ///
    /// A single rejection is not reported, because it may come from a concurrent change. Another
    /// reason is reported when it occurs twice in a row, because a server names any of several rows
    /// that it rejects.
    fn record_rejection(&mut self, connect: &str, error: &OpError, seen: Seen<'_>) {
        // New rows have another UUID in each attempt.
        let error = error.to_string();
        let reason = without_uuids(&error);
        let rejections = self.rejections.entry(connect.to_owned()).or_default();
        let last = rejections.last.replace(reason.clone());
        let is_unreported = match &rejections.reported {
            None => last.is_some(),
            Some(reported) => *reported != reason && last.as_ref() == Some(&reason),
        };
        if is_unreported && seen.connects.named(connect).is_some() {
            rejections.reported = Some(reason);
            let last_report = self.last_reported.get(connect).map(|last| &*last.report);
            let report = ConnectReport::refused(error, last_report);
            self.record_report(connect, &Arc::new(report), seen);
        } else if rejections.reported.as_ref() == Some(&reason) {
            self.renew_summary(connect, seen);
        }
    }

    /// Declares that the last summary also holds for the current version of the object.
    fn renew_summary(&mut self, connect: &str, seen: Seen<'_>) {
        let summary = self.summaries.get_mut(connect);
        if let (Some(summary), Some(object)) = (summary, seen.connects.named(connect)) {
            summary.renew(object.meta(), &seen.connected.digest_of(object.meta()));
        }
    }

    /// Records a report, and logs it if its text differs from the last one.
    fn record_report(&mut self, connect: &str, report: &Arc<ConnectReport>, seen: Seen<'_>) {
        let last = self.last_reported.get(connect);
        if last.is_some_and(|last| Arc::ptr_eq(&last.report, report)) {
            self.renew_summary(connect, seen);
            return;
        }
        if let Some(object) = seen.connects.named(connect) {
            let inputs = seen.connected.digest_of(object.meta());
            let summary = ConnectSummary::new(object.meta(), &inputs, report);
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
                tracing::info!(zone = seen.zone, connect, networks, problems, "connected");
            }
            log
        };
        let report = Arc::clone(report);
        self.last_reported.insert(connect.to_owned(), LastReported { report, log });
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_in_uuids_only_are_equal() {
        let text = |uuid| format!("deadbeef-row {uuid}, and {uuid}");
        let [one, other] =
            ["65a2a3a5-5c12-4a8c-b9a0-0d5a7c3f2f11", "00000000-0000-4000-8000-000000000000"];
        assert_eq!(without_uuids(&text(one)), without_uuids(&text(other)));
        assert_eq!(without_uuids("deadbeef-row x"), "deadbeef-row x");
    }
}
