//! The cluster manager's task: decides when to reconcile, and from which objects.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use imbl::OrdMap;
use jiff::Timestamp;
use patchbay_allocate::RouterKeyCursor;
use patchbay_allocate::connects::{
    ACCEPTED, ClusterController, ClusterObjects, CncOutcome, Unconnected, with_condition,
};
use patchbay_model::condition::{ConditionReport, ConditionStatus};
use patchbay_model::{ClusterSettings, Networks, NodeId};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{ConfigMap, Namespace, Node, Object as _, Time};
use tokio::sync::watch;
use tokio::time::Instant;

use super::config::Timing;
use super::connect_requests::{ConnectPlanner, PlannedConnect, ZoneKnowledge};
use super::connect_writer::ConnectWriter;
use super::connect_writes::{ConnectWrites, PassOutcome};
use super::debounce::{ChangeSource, debounce, sleep_or_forever, sleep_until_or_forever};
use super::events::EventSender;
use super::input_digest::NodeDigests;
use super::leader_election::LeaderTerm;
use super::node_subnets::NetworkNumbers;
use super::projections::{WatchedConnect, WatchedNode};
use super::read_failure::describe_undefined;
use super::read_failure_events::KindWatch;
use super::store::{StoreReader, WatchEnded};
use super::zone_lease::WatchedLease;
use super::zone_liveness::{ZoneLiveness, ZoneState};
use super::zone_reports::{WatchedZoneReport, ZoneNode};

/// The objects that both controllers watch.
#[derive(Clone, Debug)]
pub(super) struct CommonSources {
    pub(super) connects: StoreReader<Arc<WatchedConnect>>,
    pub(super) nads: StoreReader<Arc<NetworkAttachmentDefinition>>,
    pub(super) namespaces: StoreReader<Arc<Namespace>>,
}

impl CommonSources {
    pub(super) async fn ready(&mut self) -> Result<(), WatchEnded> {
        self.connects.ready().await?;
        self.nads.ready().await?;
        self.namespaces.ready().await
    }

    /// The watches of the objects.
    pub(super) fn watches(&self) -> Vec<KindWatch> {
        vec![
            KindWatch::new(ClusterNetworkConnect::KIND, &self.connects),
            KindWatch::new(NetworkAttachmentDefinition::KIND, &self.nads),
            KindWatch::new(Namespace::KIND, &self.namespaces),
        ]
    }
}

impl ChangeSource for CommonSources {
    type Error = WatchEnded;

    async fn changed(&mut self) -> Result<(), WatchEnded> {
        tokio::select! {
            changed = self.connects.changed() => changed,
            changed = self.nads.changed() => changed,
            changed = self.namespaces.changed() => changed,
        }
    }
}

/// The objects that the cluster manager watches: also nodes, and the zones' reports and leases.
#[derive(Clone, Debug)]
pub(super) struct ClusterManagerSources {
    pub(super) common: CommonSources,
    pub(super) nodes: StoreReader<Arc<WatchedNode>>,
    pub(super) reports: StoreReader<Option<Arc<WatchedZoneReport>>>,
    /// Times of renewal of the zones' leases.
    pub(super) leases: StoreReader<String>,
}

impl ClusterManagerSources {
    /// The watches of the objects.
    pub(super) fn watches(&self) -> Vec<KindWatch> {
        let mut watches = self.common.watches();
        watches.extend([
            KindWatch::new(Node::KIND, &self.nodes),
            KindWatch::new(ConfigMap::KIND, &self.reports),
            KindWatch::new(WatchedLease::KIND, &self.leases),
        ]);
        watches
    }
}

/// The cluster manager. It is active while this process is the leader.
#[derive(Debug)]
pub(super) struct ClusterManagerTask {
    pub(super) settings: ClusterSettings,
    pub(super) sources: ClusterManagerSources,
    /// The numbers of networks in the nodes' packed subnets.
    pub(super) network_numbers: NetworkNumbers,
    /// Position that is shared with the keys of networks.
    pub(super) router_keys: RouterKeyCursor,
    /// Namespace of the zones' leases.
    pub(super) namespace: String,
    pub(super) writer: ConnectWriter,
    pub(super) events: EventSender,
    pub(super) term: watch::Receiver<Option<LeaderTerm>>,
    pub(super) timing: Timing,
}

impl ClusterManagerTask {
    /// Waits for a term as the leader and reconciles during it, forever.
    ///
    /// Dropping the future leaves the writes without an answer in progress. They are right or will be
    /// corrected.
    ///
    /// # Errors
    /// A task that this one depends on has ended.
    pub(super) async fn run(self) -> Result<Infallible, WatchEnded> {
        let mut term = self.term.clone();
        loop {
            let begun = term.wait_for(Option::is_some).await;
            begun.map_err(|_| WatchEnded)?;
            let mut leader = LeaderLoop::new(&self);
            tokio::select! {
                ended = leader.run() => return ended,
                lost = term.wait_for(Option::is_none) => { lost.map_err(|_| WatchEnded)?; }
            }
        }
    }
}

/// The state of one term as the leader.
///
/// Allocations are known from annotations alone, so every term starts with an empty state.
struct LeaderLoop<'a> {
    task: &'a ClusterManagerTask,
    sources: CommonSources,
    nodes: StoreReader<Arc<WatchedNode>>,
    /// The nodes of the last reconciliation, by name.
    cluster_nodes: BTreeMap<String, ClusterNode>,
    node_digests: NodeDigests,
    leases: StoreReader<String>,
    liveness: ZoneLiveness,
    /// Time of the next look at the leases.
    next_check: Instant,
    /// States of the zones at the last reconciliation.
    zone_states: Vec<ZoneState>,
    reports: StoreReader<Option<Arc<WatchedZoneReport>>>,
    /// The zones' reports that conditions are computed from. `None`: not known yet.
    ///
    /// They change only once per `Timing::report_interval`, because zones respond to a change one
    /// by one, and each response would cost a write of the status.
    collected_reports: Option<OrdMap<ObjectKey, Option<Arc<WatchedZoneReport>>>>,
    /// Time at which new reports are taken over. `None`: there are none.
    reports_due: Option<Instant>,
    controller: ClusterController,
    writes: ConnectWrites,
    warned: BTreeSet<String>,
}

impl<'a> LeaderLoop<'a> {
    fn new(task: &'a ClusterManagerTask) -> Self {
        Self {
            task,
            sources: task.sources.common.clone(),
            nodes: task.sources.nodes.clone(),
            cluster_nodes: BTreeMap::new(),
            node_digests: NodeDigests::new(task.network_numbers.clone()),
            leases: task.sources.leases.clone(),
            liveness: ZoneLiveness::new(task.namespace.clone(), task.timing.zone_lease.duration),
            next_check: Instant::now(),
            zone_states: Vec::new(),
            reports: task.sources.reports.clone(),
            collected_reports: None,
            reports_due: None,
            controller: ClusterController::new(task.settings.clone())
                .with_router_keys(task.router_keys.clone()),
            writes: ConnectWrites::new(task.writer.clone(), task.events.clone(), task.timing),
            warned: BTreeSet::new(),
        }
    }

    async fn run(&mut self) -> Result<Infallible, WatchEnded> {
        let timing = &self.task.timing;
        // A watch may not have shown yet what a former leader has written. Subnets and keys would
        // be allocated twice then.
        self.sources.connects.list_again().await?;
        self.await_sources().await?;
        let mut backoff = timing.retry_backoff();
        loop {
            let outcome = self.reconcile_all().await;
            let wait = outcome
                .retry_after
                .map(|after| backoff.next_delay().max(after));
            if wait.is_none() {
                backoff.reset();
            }
            tokio::select! {
                happened = self.wait_for_work() => happened?,
                () = sleep_or_forever(wait) => {}
            }
        }
    }

    /// Waits for all objects. Objects that wait with it for the definition of attachment definitions
    /// get a condition.
    async fn await_sources(&mut self) -> Result<(), WatchEnded> {
        let (mut sources, mut nodes) = (self.sources.clone(), self.nodes.clone());
        let mut ready = pin!(async {
            sources.ready().await?;
            nodes.ready().await
        });
        let mut backoff = self.task.timing.retry_backoff();
        loop {
            let outcome = self.note_undefined_definitions().await;
            let wait = outcome.retry_after;
            let wait = wait.map(|after| backoff.next_delay().max(after));
            tokio::select! {
                ready = &mut ready => return ready,
                changed = self.sources.changed() => changed?,
                () = self.writes.wait_for_answers() => {}
                () = sleep_or_forever(wait) => {}
            }
        }
    }

    /// Notes in conditions that the cluster has no definition of attachment definitions, if it has
    /// none. An object that has been accepted stays as it is.
    async fn note_undefined_definitions(&mut self) -> PassOutcome {
        let mut outcome = self.writes.begin_pass();
        if !self.sources.nads.is_undefined() {
            return outcome;
        }
        let now = Time(Timestamp::now());
        let connects = self.sources.connects.objects();
        let lists = self.sources.connects.lists();
        let connects = self.writes.overlay.newest_versions(connects, lists);
        let kind = NetworkAttachmentDefinition::KIND;
        let message = format!("waiting for {kind}s: {}", describe_undefined(kind));
        let waiting = connects.values().filter(|seen| !is_accepted(&seen.object));
        let planned = waiting.map(|seen| {
            let report = ConditionReport {
                type_: ACCEPTED,
                status: ConditionStatus::False,
                reason: "DefinitionMissing",
                message: message.clone(),
            };
            let meta = &seen.object.metadata;
            let status = with_condition(seen.object.status.as_ref(), report, meta.generation, &now);
            PlannedConnect {
                seen: seen.clone(),
                outcome: CncOutcome {
                    name: seen.object.name_any(),
                    tunnel_key: None,
                    subnets: None,
                    status,
                    unconnected: Unconnected::default(),
                },
            }
        });
        let planned = planned.collect();
        let planner = ConnectPlanner {
            zones: ZoneKnowledge {
                nodes: Vec::new(),
                reports: None,
                node_digests: &self.node_digests,
                networks: &Networks::default(),
            },
            now: &now,
        };
        self.writes.write(planned, &planner, &mut outcome).await;
        outcome
    }

    /// Waits for a reason to reconcile: a change of the common sources, a change of nodes from
    /// which rows follow, new reports that are due, a zone that stops or starts, the answer to a slow
    /// write, or a suppressed event that is due.
    async fn wait_for_work(&mut self) -> Result<(), WatchEnded> {
        let task = self.task;
        let timing = &task.timing;
        loop {
            let (due, event_due) = (self.reports_due, self.writes.event_throttle.next_due());
            tokio::select! {
                changed = self.sources.changed() => {
                    changed?;
                    return debounce(timing, self).await;
                }
                changed = self.nodes.changed() => {
                    changed?;
                    if self.update_nodes() {
                        return debounce(timing, self).await;
                    }
                }
                () = tokio::time::sleep_until(self.next_check) => {
                    if self.update_zone_states() {
                        return Ok(());
                    }
                }
                changed = self.reports.changed() => {
                    changed?;
                    // Marks the reports as seen; they are taken over below once they are due.
                    self.reports.objects();
                    let due = || Instant::now() + timing.report_interval;
                    self.reports_due.get_or_insert_with(due);
                }
                () = self.writes.wait_for_answers() => return Ok(()),
                () = sleep_until_or_forever(event_due) => {
                    self.writes.event_throttle.clear_due(Instant::now());
                    return Ok(());
                }
                () = sleep_until_or_forever(due) => {
                    self.reports_due = None;
                    // A failed list is a change of the store, too.
                    if self.reports.is_ready() {
                        self.collected_reports = Some(self.reports.objects());
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Updates the nodes. Returns `true` if rows or conditions follow from the difference.
    fn update_nodes(&mut self) -> bool {
        let nodes = self.nodes.objects();
        let listed = nodes.values().map(|seen| {
            let node = ClusterNode {
                id: seen.node.id,
                is_unmanaged: seen.node.is_unmanaged,
            };
            (seen.node.name.clone(), node)
        });
        let listed = listed.collect();
        let is_changed = self.node_digests.update(&nodes) || self.cluster_nodes != listed;
        self.cluster_nodes = listed;
        is_changed
    }

    /// Updates the states of all nodes' zones. Returns `true` if one differs.
    fn update_zone_states(&mut self) -> bool {
        self.next_check = Instant::now() + self.task.timing.zone_lease.check_interval;
        if self.leases.is_ready() {
            self.liveness.observe(&self.leases.objects());
        }
        let nodes = self.cluster_nodes.keys();
        let states = nodes.map(|node| self.liveness.state_of(node)).collect();
        let is_changed = self.zone_states != states;
        self.zone_states = states;
        is_changed
    }

    /// Reconciles all `ClusterNetworkConnect`s: computes their annotations and status, and writes
    /// what differs.
    async fn reconcile_all(&mut self) -> PassOutcome {
        let mut outcome = self.writes.begin_pass();
        let now = Time(Timestamp::now());
        let connects = self.sources.connects.objects();
        let lists = self.sources.connects.lists();
        let connects = self.writes.overlay.newest_versions(connects, lists);
        let (nads, namespaces) = (
            self.sources.nads.objects(),
            self.sources.namespaces.objects(),
        );
        let networks = patchbay_resources::conversion::networks(values(&nads), values(&namespaces));
        self.update_nodes();
        self.update_zone_states();
        let owners = connects.values().flat_map(|seen| &seen.owners);
        let connected = owners.filter_map(|owner| networks.by_id(owner.network_id));
        let connected = connected.map(|network| network.name.clone());
        self.node_digests.set_connected(connected.collect());
        let report = {
            let readable: Vec<_> = connects
                .values()
                .map(|seen| self.writes.overlay.with_last_valid_spec(seen))
                .collect();
            let ids = self.cluster_nodes.iter();
            let objects = ClusterObjects::new(
                &networks,
                values(&nads),
                values(&namespaces),
                readable.iter().map(AsRef::as_ref),
            )
            .with_nodes(ids.filter_map(|(name, node)| Some((name.as_str(), node.id?))));
            self.controller.reconcile(&objects, &now)
        };
        let warnings = report.warnings.iter().map(ToString::to_string).collect();
        for warning in BTreeSet::difference(&warnings, &self.warned) {
            tracing::warn!("{warning}");
        }
        self.warned = warnings;
        if self.collected_reports.is_none() && self.reports.is_ready() {
            self.collected_reports = Some(self.reports.objects());
        }
        let zones: Option<BTreeMap<&str, &WatchedZoneReport>> =
            self.collected_reports.as_ref().map(|reports| {
                let listed = reports.values().flatten();
                listed.map(|report| (&*report.zone, &**report)).collect()
            });
        self.writes
            .event_throttle
            .retain(|connect| connects.contains_key(connect));
        let zone_nodes = self.cluster_nodes.iter().zip(&self.zone_states);
        let zone_nodes = zone_nodes.map(|((name, node), state)| ZoneNode {
            name,
            is_unmanaged: node.is_unmanaged,
            state: *state,
        });
        let planner = ConnectPlanner {
            zones: ZoneKnowledge {
                nodes: zone_nodes.collect(),
                reports: zones.as_ref(),
                node_digests: &self.node_digests,
                networks: &networks,
            },
            now: &now,
        };
        let planned = report.outcomes.into_iter();
        let planned = planned.map(|outcome| PlannedConnect {
            seen: connects[&outcome.name].clone(),
            outcome,
        });
        let planned = planned.collect();
        self.writes.write(planned, &planner, &mut outcome).await;
        outcome
    }
}

/// A node, as far as the cluster manager uses it.
#[derive(Debug, PartialEq)]
struct ClusterNode {
    id: Option<NodeId>,
    is_unmanaged: bool,
}

impl ChangeSource for LeaderLoop<'_> {
    type Error = WatchEnded;

    async fn changed(&mut self) -> Result<(), WatchEnded> {
        tokio::select! {
            changed = self.sources.changed() => changed,
            changed = self.nodes.changed() => changed,
        }
    }
}

fn is_accepted(connect: &ClusterNetworkConnect) -> bool {
    let conditions = connect.status.iter().flat_map(|status| &status.conditions);
    let mut accepted = conditions.filter(|one| one.type_ == ACCEPTED);
    accepted.any(|one| one.status == "True")
}

fn values<V>(objects: &OrdMap<ObjectKey, Arc<V>>) -> impl Iterator<Item = &V> {
    objects.values().map(AsRef::as_ref)
}
