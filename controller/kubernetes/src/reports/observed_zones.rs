//! Zones as the leader observes them: their reports and the renewals of their leases.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;
use patchbay_model::{NODE_CHASSIS_ID, NODE_ID, NODE_SUBNETS};
use patchbay_resources::manifests::{ObjectKey, Objects};
use patchbay_resources::object::{Node, Object as _, ObjectMeta};
use tokio::time::{Instant, sleep_until};

use crate::config::Timing;
use crate::debounce::sleep_until_or_forever;
use crate::reports::zone_liveness::{ZoneLiveness, ZoneState};
use crate::reports::zone_reports::{CollectedReports, WatchedZoneReport, ZoneNode, reports_about};
use crate::watch::input_digest::InputDigest;
use crate::watch::store::{StoreReader, WatchEnded};

/// Annotations of the nodes that OVN manages.
const OVN_ANNOTATIONS: [&str; 3] = [NODE_ID, NODE_CHASSIS_ID, NODE_SUBNETS];

/// Watched reports and leases of the zones.
#[derive(Clone, Debug)]
pub(crate) struct ZoneSources {
    pub(crate) reports: StoreReader<Option<Arc<WatchedZoneReport>>>,
    /// Times of renewal of the zones' leases.
    pub(crate) leases: StoreReader<String>,
}

/// The zones of all nodes, during one term of the leader.
#[derive(Debug)]
pub(crate) struct ObservedZones {
    sources: ZoneSources,
    timing: Timing,
    /// The zones' reports that conditions are computed from. `None`: not known yet.
    ///
    /// They change only once per `Timing::report_interval`, because zones respond to a change one
    /// by one, and each response would cost a write of the status.
    collected: Option<OrdMap<ObjectKey, Option<Arc<WatchedZoneReport>>>>,
    /// Time at which new reports are taken over. `None`: there are none.
    reports_due: Option<Instant>,
    liveness: ZoneLiveness,
    /// Time of the next look at the leases.
    next_check: Instant,
    /// The nodes of the last pass; `true`: OVN does not manage the node.
    nodes: BTreeMap<String, bool>,
    /// States of the nodes' zones, in the order of the names.
    states: Vec<ZoneState>,
}

/// Zones at one moment.
#[derive(Debug)]
pub(crate) struct ZoneKnowledge<'a> {
    nodes: Vec<ZoneNode<'a>>,
    /// The zones' reports by zone. `None`: not known yet.
    reports: Option<BTreeMap<&'a str, &'a WatchedZoneReport>>,
}

impl ObservedZones {
    /// Begins to observe the zones, whose leases are in a namespace.
    pub(crate) fn new(sources: ZoneSources, namespace: String, timing: Timing) -> Self {
        Self {
            sources,
            collected: None,
            reports_due: None,
            liveness: ZoneLiveness::new(namespace, timing.zone_lease.duration),
            next_check: Instant::now(),
            nodes: BTreeMap::new(),
            states: Vec::new(),
            timing,
        }
    }

    /// Takes the nodes of a pass.
    pub(crate) fn update(&mut self, nodes: &Objects<Node>) {
        let is_unmanaged = |node: &Node| {
            let annotations = node.annotations();
            let mut values = OVN_ANNOTATIONS.iter().filter_map(|key| annotations.get(*key));
            values.all(String::is_empty)
        };
        self.nodes = nodes
            .iter()
            .map(|(key, node)| (key.name.clone(), is_unmanaged(&node.object)))
            .collect();
        self.update_states();
        if self.collected.is_none() && self.sources.reports.is_ready() {
            self.collected = Some(self.sources.reports.objects());
        }
    }

    /// Waits until new reports are due, or a zone stops or starts.
    ///
    /// # Errors
    /// A watch has ended.
    pub(crate) async fn changed(&mut self) -> Result<(), WatchEnded> {
        loop {
            tokio::select! {
                () = sleep_until(self.next_check) => {
                    if self.update_states() {
                        return Ok(());
                    }
                }
                changed = self.sources.reports.changed() => {
                    changed?;
                    // Marks the reports as seen; they are taken over below once they are due.
                    self.sources.reports.objects();
                    let due = || Instant::now() + self.timing.report_interval;
                    self.reports_due.get_or_insert_with(due);
                }
                () = sleep_until_or_forever(self.reports_due) => {
                    self.reports_due = None;
                    // A failed list is a change of the store, too.
                    if self.sources.reports.is_ready() {
                        self.collected = Some(self.sources.reports.objects());
                        return Ok(());
                    }
                }
            }
        }
    }

    /// The zones at this moment.
    pub(crate) fn knowledge(&self) -> ZoneKnowledge<'_> {
        let nodes = self.nodes.iter().zip(&self.states);
        ZoneKnowledge {
            nodes: nodes
                .map(|((name, is_unmanaged), state)| ZoneNode {
                    name,
                    is_unmanaged: *is_unmanaged,
                    state: *state,
                })
                .collect(),
            reports: self.collected.as_ref().map(|reports| {
                let listed = reports.values().flatten();
                listed.map(|report| (&*report.zone, &**report)).collect()
            }),
        }
    }

    /// Numbers of zones by state.
    pub(crate) fn counts(&self) -> [(&'static str, usize); 3] {
        let count = |state| self.states.iter().filter(|one| **one == state).count();
        [
            ("running", count(ZoneState::Running)),
            ("unobserved", count(ZoneState::Unobserved)),
            ("not_running", count(ZoneState::NotRunning)),
        ]
    }

    /// Updates the states of all nodes' zones. Returns `true` if one differs.
    fn update_states(&mut self) -> bool {
        self.next_check = Instant::now() + self.timing.zone_lease.check_interval;
        if self.sources.leases.is_ready() {
            self.liveness.observe(&self.sources.leases.objects());
        }
        let nodes = self.nodes.keys();
        let states = nodes.map(|node| self.liveness.state_of(node)).collect();
        let is_changed = self.states != states;
        self.states = states;
        is_changed
    }
}

impl ZoneKnowledge<'_> {
    /// The reports of all zones about one ClusterNetworkConnect. `None`: not known yet. `inputs`:
    /// digest of the nodes and networks that its rows follow from.
    pub(crate) fn reports_about(
        &self,
        connect: &ObjectMeta,
        inputs: &InputDigest,
    ) -> Option<CollectedReports<'_>> {
        let nodes = self.nodes.iter().copied();
        let reports = self.reports.as_ref()?;
        Some(reports_about(connect, inputs, nodes, reports))
    }
}
