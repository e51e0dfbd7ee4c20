//! The task that writes a zone's report.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{Patch, PatchParams};
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::ConfigMap;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::api::api_error;
use crate::api::requests::Api;
use crate::config::Timing;
use crate::reports::zone_reports::{
    ConnectSummary, ZoneReport, report_config_map, zone_object_name,
};
use crate::watch::etcd_restores::EtcdRestores;
use crate::watch::store::{StoreReader, WatchEnded};
use crate::watch::watched::Watched;

/// Age of a node up to which it counts as new. Images are loaded and pods started meanwhile.
const NEW_NODE_AGE: Duration = Duration::from_secs(600);

/// Field manager of the zones' `ConfigMap`s.
const FIELD_MANAGER: &str = "patchbay-zone";

/// The source of a zone's report: the zone controller, or the bare fact that the database is
/// unreachable. The zone controller itself waits for the database then.
pub(crate) struct ReportSource {
    pub(crate) zone: String,
    /// The report of the zone controller.
    pub(crate) reports: watch::Receiver<ZoneReport>,
    /// `true` while the database is unreachable.
    pub(crate) is_unreachable: watch::Receiver<bool>,
    pub(crate) connects: StoreReader<Watched>,
    pub(crate) nodes: StoreReader<Watched>,
}

impl ReportSource {
    /// Waits until the report may have changed.
    ///
    /// # Errors
    /// The zone controller has ended.
    async fn changed(&mut self) -> Result<(), WatchEnded> {
        let is_unreachable = *self.is_unreachable.borrow();
        tokio::select! {
            changed = self.reports.changed() => changed.map_err(|_| WatchEnded),
            changed = self.is_unreachable.changed() => changed.map_err(|_| WatchEnded),
            // The report names all objects.
            changed = self.connects.changed(), if is_unreachable => changed,
            changed = self.nodes.changed(), if is_unreachable => changed,
        }
    }

    /// Returns the current report.
    fn current_report(&mut self) -> ZoneReport {
        let last_report = self.reports.borrow_and_update().clone();
        if !*self.is_unreachable.borrow_and_update() {
            return last_report;
        }
        let nodes = self.nodes.objects();
        let node = nodes.get(&ObjectKey::cluster(&self.zone));
        let connects = self.connects.objects();
        let summaries: BTreeMap<String, ConnectSummary> = connects
            .iter()
            .filter_map(|(key, seen)| {
                let before = last_report.connects.get(&key.name);
                let summary = ConnectSummary::unreachable(seen.meta()?, before);
                Some((key.name.clone(), summary))
            })
            .collect();
        ZoneReport { node_uid: node.and_then(Watched::uid).map(str::to_owned), connects: summaries }
    }
}

/// Writes a zone's report whenever it changes, after a restore of etcd, and at
/// `Timing::report_refresh_interval` although it is unchanged. Zones do not watch `ConfigMap`s, so
/// this restores one that was deleted or replaced by an older one.
pub(crate) struct ReportPublisher {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) source: ReportSource,
    pub(crate) restores: EtcdRestores,
    pub(crate) timing: Timing,
}

impl ReportPublisher {
    /// Writes reports until the zone controller has ended.
    pub(crate) async fn run(mut self) {
        let api = Api::namespaced::<ConfigMap>(self.client.clone(), &self.namespace);
        let mut written = ZoneReport::default();
        let mut backoff = self.timing.retry_backoff();
        let join_end = Instant::now() + self.timing.join_grace_period;
        let mut has_joined = false;
        loop {
            let rest = join_end.duration_since(Instant::now());
            let limit = if has_joined || rest.is_zero() {
                self.timing.report_refresh_interval
            } else {
                rest
            };
            let is_outdated = tokio::select! {
                changed = tokio::time::timeout(limit, self.source.changed()) => match changed {
                    Ok(Ok(())) => false,
                    Ok(Err(_)) => return,
                    Err(_) => true,
                },
                () = self.restores.wait() => true,
            };
            if is_outdated {
                self.restores.mark_seen();
                written = ZoneReport::default();
            }
            // More changes follow soon, and all zones have something to report at the same time.
            tokio::time::sleep(self.publish_delay()).await;
            loop {
                let report = self.source.current_report();
                if report == written || report.node_uid.is_none() {
                    break;
                }
                if !has_joined && !report.is_complete() && self.is_joining(join_end) {
                    break;
                }
                has_joined = true;
                match self.write(&api, &report).await {
                    Ok(()) => {
                        backoff.reset();
                        written = report;
                        break;
                    }
                    Err((error, retry_after)) => {
                        tracing::warn!(error, "cannot write the zone's report");
                        let wait = backoff.next_delay().max(retry_after.unwrap_or_default());
                        tokio::time::sleep(wait).await;
                    }
                }
            }
        }
    }

    /// `true` until `join_end` if the zone's node is new. Its first report waits for what
    /// OVN-Kubernetes has not created yet, so that a joining node is not reported as a failure.
    fn is_joining(&mut self, join_end: Instant) -> bool {
        let nodes = self.source.nodes.objects();
        let node = nodes.get(&ObjectKey::cluster(&self.source.zone));
        let created = node.and_then(Watched::created);
        let is_new = created.is_some_and(|created| {
            let age = Timestamp::now().duration_since(created.0);
            age < SignedDuration::try_from(NEW_NODE_AGE).unwrap_or(SignedDuration::MAX)
        });
        is_new && Instant::now() < join_end
    }

    /// Delay before a report is written: between 50 % and 100 % of the interval, by a hash of the
    /// zone's name, so that zones do not write at the same time.
    fn publish_delay(&self) -> Duration {
        let mut hasher = DefaultHasher::new();
        self.source.zone.hash(&mut hasher);
        let part = f64::from((hasher.finish() & 0xffff) as u16) / f64::from(u16::MAX);
        self.timing.report_interval.mul_f64(0.5 + part / 2.0)
    }

    /// Writes the report.
    ///
    /// # Errors
    /// Why the write failed, and the time that the API server asks to wait.
    async fn write(
        &self,
        api: &Api,
        report: &ZoneReport,
    ) -> Result<(), (String, Option<Duration>)> {
        let zone = &self.source.zone;
        let object = report_config_map(zone, &self.namespace, report);
        let (name, params) = (zone_object_name(zone), PatchParams::apply(FIELD_MANAGER).force());
        let patch = Patch::Apply(json!(object));
        let limit = self.timing.write_timeout;
        let written = tokio::time::timeout(limit, api.patch(&name, &params, &patch));
        match written.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err((api_error::describe(&error), api_error::retry_after(&error))),
            Err(_) => Err((api_error::describe_unanswered(limit), None)),
        }
    }
}
