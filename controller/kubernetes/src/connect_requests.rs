//! The next request that makes a ClusterNetworkConnect what a reconciliation has computed:
//! annotations, then the status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_allocate::connects::{ACCEPTED, CncOutcome, with_condition};
use patchbay_connects::CONNECTED;
use patchbay_model::Networks;
use patchbay_model::condition::{ConditionReport, ConditionStatus};
use patchbay_resources::cnc::{ClusterNetworkConnect, ClusterNetworkConnectStatus};
use patchbay_resources::object::{Condition, Object, Time};

use super::connect_writer::{ConnectWriter, ManagedAnnotation, WriteError, managed_part};
use super::input_digest::NodeDigests;
use super::projections::WatchedConnect;
use super::zone_reports::{self, CollectedReports, WatchedZoneReport, ZoneNode};

/// A ClusterNetworkConnect, and what a reconciliation has computed for it.
pub(super) struct PlannedConnect {
    pub(super) seen: Arc<WatchedConnect>,
    pub(super) outcome: CncOutcome,
}

/// Planner of the requests of one reconciliation.
pub(super) struct ConnectPlanner<'a> {
    pub(super) zones: ZoneKnowledge<'a>,
    /// The time of the reconciliation.
    pub(super) now: &'a Time,
}

/// A request about a ClusterNetworkConnect.
#[derive(Debug)]
pub(super) enum ConnectRequest {
    Annotation {
        seen: Arc<WatchedConnect>,
        annotation: ManagedAnnotation,
        value: String,
    },
    Status(StatusRequest),
}

/// Write of a status.
#[derive(Debug)]
pub(super) struct StatusRequest {
    seen: Arc<WatchedConnect>,
    status: ClusterNetworkConnectStatus,
    /// Obstacles that the zones report. `None`: their reports are not known yet.
    pub(super) obstacles: Option<BTreeSet<String>>,
    /// `true` if the status reports that an annotation could not be written.
    pub(super) is_refusal: bool,
}

impl ConnectRequest {
    /// Sends the request. Returns the object after the write.
    pub(super) async fn send(
        &self,
        writer: &ConnectWriter,
    ) -> Result<Arc<WatchedConnect>, WriteError> {
        match self {
            Self::Annotation {
                seen,
                annotation,
                value,
            } => {
                let object = &seen.object;
                writer.apply_annotation(object, *annotation, value).await
            }
            Self::Status(StatusRequest { seen, status, .. }) => {
                writer.apply_status(&seen.object, status).await
            }
        }
    }
}

impl StatusRequest {
    /// The object before the write.
    pub(super) fn object(&self) -> &ClusterNetworkConnect {
        &self.seen.object
    }

    /// `true` if the object has the status already.
    pub(super) fn is_done(&self) -> bool {
        let before = self.object().status.clone().unwrap_or_default();
        managed_part(&before) == managed_part(&self.status)
    }

    /// A condition before the write and after it.
    pub(super) fn condition(&self, type_: &str) -> (Option<&Condition>, Option<&Condition>) {
        let before = self.object().status.as_ref();
        let before = before.and_then(|before| condition(before, type_));
        (before, condition(&self.status, type_))
    }
}

/// Zones as the leader knows them.
pub(super) struct ZoneKnowledge<'a> {
    pub(super) nodes: Vec<ZoneNode<'a>>,
    /// The zones' reports by zone. `None`: not known yet.
    pub(super) reports: Option<&'a BTreeMap<&'a str, &'a WatchedZoneReport>>,
    pub(super) node_digests: &'a NodeDigests,
    pub(super) networks: &'a Networks,
}

impl<'a> ZoneKnowledge<'a> {
    /// The reports of all zones about one ClusterNetworkConnect. `None`: not known yet.
    fn reports_about(&self, connect: &WatchedConnect) -> Option<CollectedReports<'a>> {
        let reports = self.reports?;
        let inputs = self.node_digests.digest_of(&connect.owners, self.networks);
        let nodes = self.nodes.iter().copied();
        Some(zone_reports::reports_about(
            connect, &inputs, nodes, reports,
        ))
    }
}

impl ConnectPlanner<'_> {
    /// The next request about an object: an annotation that differs, or the status. `refusal`: the
    /// status reports instead that an annotation could not be written.
    pub(super) fn next_request(
        &self,
        planned: &PlannedConnect,
        refusal: Option<String>,
    ) -> ConnectRequest {
        let PlannedConnect { seen, outcome } = planned;
        let is_refusal = refusal.is_some();
        if !is_refusal && seen.spec_error.is_none() {
            let annotations = seen.object.annotations();
            for (key, value) in outcome.annotations() {
                let annotation = ManagedAnnotation::of(key);
                let annotation = annotation.filter(|_| annotations.get(key) != Some(&value));
                if let Some(annotation) = annotation {
                    return ConnectRequest::Annotation {
                        seen: seen.clone(),
                        annotation,
                        value,
                    };
                }
            }
        }
        let object = &seen.object;
        let spec_error = seen
            .spec_error
            .as_ref()
            .map(|error| format!("failed to read CNC {}: {error}", outcome.name));
        let status = match spec_error.or(refusal) {
            // The outcome's own status is not used, because the time of its condition would change
            // with each attempt.
            Some(message) => with_condition(
                object.status.as_ref(),
                ConditionReport {
                    type_: ACCEPTED,
                    status: ConditionStatus::False,
                    reason: "ResourceAllocationFailed",
                    message,
                },
                object.metadata.generation,
                self.now,
            ),
            None => outcome.status.clone(),
        };
        let mut reports = self.zones.reports_about(seen);
        // A spec that cannot be read selects nothing that is known.
        if let Some(collected) = &mut reports
            && seen.spec_error.is_none()
        {
            collected.reports.no_networks = &outcome.unconnected.no_networks;
            collected.reports.without_subnets = &outcome.unconnected.without_subnets;
        }
        let status = self.with_connected_condition(object, status, reports.as_ref());
        let obstacles = reports.map(|reports| {
            let obstacles = reports.reports.obstacles().into_iter();
            obstacles.map(str::to_owned).collect()
        });
        ConnectRequest::Status(StatusRequest {
            seen: seen.clone(),
            status,
            obstacles,
            is_refusal,
        })
    }

    /// Adds the condition `Connected` to a status.
    ///
    /// Without any report so far there is no condition, unless no network is selected. While the
    /// reports are not known, the condition stays as it is. It does not become true while it is not
    /// known whether all zones run, because a former leader may have seen that one does not.
    fn with_connected_condition(
        &self,
        object: &ClusterNetworkConnect,
        status: ClusterNetworkConnectStatus,
        collected: Option<&CollectedReports<'_>>,
    ) -> ClusterNetworkConnectStatus {
        let Some(collected) = collected else {
            return status;
        };
        let reports = &collected.reports;
        let before = condition(&status, CONNECTED);
        if reports.is_empty() && before.is_none() && reports.no_networks.is_empty() {
            return status;
        }
        let report = reports.condition();
        let becomes_true = report.status == ConditionStatus::True
            && before.is_none_or(|before| before.status != report.status.as_str());
        if becomes_true && collected.is_unobserved {
            return status;
        }
        let generation = object.metadata.generation;
        with_condition(Some(&status), report, generation, self.now)
    }
}

fn condition<'s>(status: &'s ClusterNetworkConnectStatus, type_: &str) -> Option<&'s Condition> {
    let mut conditions = status.conditions.iter();
    conditions.find(|condition| condition.type_ == type_)
}
