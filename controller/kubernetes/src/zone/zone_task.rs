//! The zone controller's task: passes over the rows of one zone's Northbound database.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use jiff::Timestamp;
use patchbay_engine::client::{ClientClosed, SnapshotChanges};
use patchbay_model::{
    ClusterSettings, FieldProblem, NODE_CHASSIS_ID, ObjectProblem, ObjectRef, POD_NETWORKS,
    unreadable_annotations,
};
use patchbay_networks::SkipReason;
use patchbay_pods::{AllocationScope, PodAllocator};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::Remote;
use patchbay_reconcile::zone::{ZoneError, ZoneOutcome, ZoneReconciler};
use patchbay_resources::manifests::{Inventory, ObjectKey};
use patchbay_resources::object::{Node, Object as _, Pod, Time};
use patchbay_schemas::uuids::UuidSource;
use thiserror::Error;
use tokio::sync::watch;

use crate::config::{Timing, ZoneControllerConfig};
use crate::debounce::{ChangeSource, debounce};
use crate::events::object_problems::{ERROR_ALLOCATING_POD, ProblemEvents, ReportedProblem};
use crate::events::passing_problems::PassingProblems;
use crate::events::problem_log::ProblemLog;
use crate::events::queue::EventSender;
use crate::metrics::controllers::{PassMetrics, PassResult};
use crate::metrics::process_state::PublishedState;
use crate::reports::zone_reports::ZoneReport;
use crate::watch::sources::ObjectSources;
use crate::watch::store::WatchEnded;
use crate::write::object_writes::ObjectWrites;
use crate::write::write_outcome::WriteOutcome;
use crate::write::writer::ObjectWriter;
use crate::zone::northbound_client;
use crate::zone::northbound_reachability::NorthboundReachability;
use crate::zone::readable_nodes::ReadableNodes;
use crate::zone::zone_connects::ZoneConnects;

/// The zone controller. It watches Kubernetes objects and the Northbound database alike, so a
/// network whose router appears late is connected then.
#[derive(Debug)]
pub(crate) struct ZoneTask {
    pub(crate) config: ZoneControllerConfig,
    pub(crate) sources: ObjectSources,
    pub(crate) writer: ObjectWriter,
    pub(crate) events: EventSender,
    /// Receives the state for the admin port. `None`: there is none.
    pub(crate) published: Option<PublishedState>,
    /// Receives the zone's report.
    pub(crate) report_sender: watch::Sender<ZoneReport>,
    /// Receives whether the database is unreachable.
    pub(crate) reachability: NorthboundReachability,
    pub(crate) timing: Timing,
}

/// Reason why the zone controller ended.
#[derive(Debug, Error)]
pub(crate) enum ZoneTaskError {
    #[error(transparent)]
    Watch(#[from] WatchEnded),
    #[error(transparent)]
    Northbound(#[from] ClientClosed),
}

impl ZoneTask {
    /// Reconciles forever. Dropping the future leaves at most one transaction and the writes without
    /// an answer in progress, each of which is executed completely or not at all.
    ///
    /// # Errors
    /// A task that this one depends on has ended.
    pub(crate) async fn run(mut self) -> Result<Infallible, ZoneTaskError> {
        let client =
            self.reachability.wait_for(northbound_client::connect(&self.config, self.timing)).await;
        // An incomplete set of objects would look like deletions.
        tokio::select! {
            ready = self.sources.ready() => ready?,
            ended = self.reachability.follow_connection(&client) => return Ok(ended?),
        }
        let northbound = Remote::of_client(client.clone(), self.timing.request_timeout)?;
        let changes = northbound.changes();
        let writes_networks = self.config.writes_networks;
        let rows = ZoneReconciler::new(&*self.config.zone, northbound, UuidSource::random());
        let work = ZoneWork {
            allocator: PodAllocator::new(AllocationScope::Zone),
            rows: if writes_networks { rows } else { rows.with_only_connects() },
            writes_networks,
            node: NodePresence::NotSeen,
            nodes: ReadableNodes::default(),
            connects: ZoneConnects::new(self.report_sender),
            writes: ObjectWrites::new(self.writer),
            sources: self.sources,
            settings: self.config.settings,
            passing: PassingProblems::default(),
            problems: ProblemLog::default(),
            events: ProblemEvents::new(self.events),
            metrics: PassMetrics::new("zone-controller"),
            published: self.published,
            next_removal: None,
        };
        // A pass waits while the database is unreachable, so a second future reports that.
        tokio::select! {
            ended = work.run(self.timing, changes) => ended,
            ended = self.reachability.follow_connection(&client) => Ok(ended?),
        }
    }
}

/// The state of the zone controller.
struct ZoneWork {
    sources: ObjectSources,
    settings: ClusterSettings,
    allocator: PodAllocator,
    rows: ZoneReconciler<Remote>,
    /// `true` if it writes all rows, and the addresses of pods; `false`: only the rows of connects.
    writes_networks: bool,
    node: NodePresence,
    nodes: ReadableNodes,
    connects: ZoneConnects,
    writes: ObjectWrites,
    passing: PassingProblems,
    problems: ProblemLog,
    events: ProblemEvents,
    metrics: PassMetrics,
    published: Option<PublishedState>,
    /// Time at which the next network without users is to be removed. `None`: there is none.
    next_removal: Option<Timestamp>,
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

impl ZoneWork {
    async fn run(
        mut self,
        timing: Timing,
        mut changes: SnapshotChanges,
    ) -> Result<Infallible, ZoneTaskError> {
        let mut backoff = timing.retry_backoff();
        loop {
            let pass = self.metrics.begin();
            let reconciled = self.reconcile().await;
            let is_complete = reconciled.as_ref().is_ok_and(WriteOutcome::is_complete);
            let result = match self.next_removal {
                _ if !is_complete => PassResult::Error,
                Some(_) => PassResult::RequeueAfter,
                None => PassResult::Success,
            };
            self.metrics.end(&pass, result);
            drop(pass);
            let retry = match reconciled {
                Ok(_) if is_complete => {
                    backoff.reset();
                    None
                }
                Ok(outcome) => Some(backoff.next_delay().max(outcome.retry_after)),
                Err(error) => {
                    tracing::warn!(%error, "the rows of the zone are incomplete");
                    Some(backoff.next_delay())
                }
            };
            let times =
                retry.into_iter().chain(self.time_to_removal()).chain(self.writes.time_to_expiry());
            let retry = times.chain(self.passing.time_to_report()).min();
            tokio::select! {
                ready = self.sources.wait_for_work(&timing, retry) => ready?,
                () = self.writes.wait_for_answers() => {}
                changed = changes.next() => {
                    changed?;
                    debounce(&timing, &mut DatabaseChanges(&mut changes)).await?;
                }
            }
        }
    }

    /// Time until the next network without users is to be removed. `None`: there is none.
    fn time_to_removal(&self) -> Option<Duration> {
        let wait = Timestamp::now().duration_until(self.next_removal?);
        Some(wait.try_into().unwrap_or_default())
    }

    /// `true` if the zone's node exists, or has existed.
    fn has_node(&mut self, inventory: &Inventory) -> bool {
        let zone = self.rows.zone();
        if inventory.nodes.named(zone).is_some() {
            self.node = NodePresence::Seen;
        } else if self.node == NodePresence::NotSeen {
            self.node = NodePresence::Missing;
            tracing::warn!(
                zone,
                "no node has the name of the zone; no row is changed until one has"
            );
        }
        self.node == NodePresence::Seen
    }

    /// Gives the zone's pods their addresses, and makes the rows what the objects define.
    async fn reconcile(&mut self) -> Result<WriteOutcome, ZoneError> {
        let mut outcome = self.writes.begin_pass(&self.sources);
        let (mut inventory, undecoded) = self.sources.inventory();
        if !self.has_node(&inventory) {
            return Ok(outcome);
        }
        self.writes.add_written(&mut inventory);
        let watched_nodes = inventory.nodes.clone();
        let unreadable = self.sources.connected().unreadable();
        self.nodes.update(&mut inventory.nodes, unreadable);
        let settings = self.settings.clone();
        let mut cluster = Cluster::watched(inventory, settings, Time(Timestamp::now()));
        if self.writes_networks {
            self.write_addresses(&mut cluster, &mut outcome).await;
        }
        let rows = self.writes.go_on_during(self.rows.reconcile_watched(&cluster)).await?;
        let (zone, connected) = (self.rows.zone(), self.sources.connected());
        self.connects.update(zone, &rows, &cluster.inventory, connected);
        let rejections =
            rows.rejections.iter().map(|error| format!("rows are not committed: {error}"));
        outcome.failures.extend(rejections);
        self.next_removal = rows.next_removal;
        let node = watched_nodes.named(self.rows.zone());
        let lasting = self.report_problems(&rows, &cluster.inventory, node, &outcome);
        let failures = outcome.failures.iter().cloned();
        let others = failures
            .chain(undecoded)
            .chain(rows.warnings)
            .chain(self.sources.connected().problems());
        let count = self.problems.update(lasting.into_iter().chain(others), &outcome.conflicts);
        if let Some(published) = &self.published {
            published.set_problems("zone-controller", count);
        }
        Ok(outcome)
    }

    /// Emits events about the problems of objects. `node`: the zone's node as it is watched. Returns the problems that last, one line each.
    fn report_problems(
        &mut self,
        rows: &ZoneOutcome,
        inventory: &Inventory,
        node: Option<&Node>,
        outcome: &WriteOutcome,
    ) -> BTreeSet<String> {
        let allocation = self
            .allocator
            .problems()
            .map(|problem| ReportedProblem::from(problem).with_reason(ERROR_ALLOCATING_POD));
        let mut of_pods: BTreeSet<ReportedProblem> = allocation.collect();
        let mut of_objects = BTreeSet::new();
        for problem in &rows.problems {
            let problems = match &*problem.object.kind {
                Pod::KIND => &mut of_pods,
                _ => &mut of_objects,
            };
            problems.insert(ReportedProblem::from(problem.clone()));
        }
        let mut of_node = if self.writes_networks {
            node_problems(self.rows.zone(), node, rows)
        } else {
            BTreeSet::new()
        };
        let lines = of_pods
            .iter()
            .chain(&of_objects)
            .chain(&of_node)
            .map(ToString::to_string)
            .chain(network_problems(rows));
        let lasting = self.passing.lasting(lines.collect());
        for problems in [&mut of_pods, &mut of_objects, &mut of_node] {
            problems.retain(|problem| lasting.contains(&problem.to_string()));
        }
        of_pods.extend(outcome.refused_problems());
        self.emit_events([of_pods, of_objects, of_node], inventory);
        lasting
    }

    /// Emits events about new problems. Of those that all zones have, the zone of the first node
    /// does.
    fn emit_events(
        &mut self,
        [of_pods, of_objects, of_node]: [BTreeSet<ReportedProblem>; 3],
        inventory: &Inventory,
    ) {
        let zone = self.rows.zone();
        let first_node = inventory.nodes.iter().next();
        let is_first = first_node.is_some_and(|(key, _)| key.name == zone);
        let is_own = |problem: &ReportedProblem| {
            let pod = inventory.pods.get(&problem.key());
            let spec = pod.and_then(|pod| pod.object.spec.as_ref());
            spec.is_some_and(|spec| spec.node_name.as_deref() == Some(zone))
        };
        let own_pods = of_pods.into_iter().filter(is_own);
        let of_objects = of_objects.into_iter().filter(|_| is_first);
        let problems = own_pods.chain(of_objects).chain(of_node).collect();
        self.events.update(problems, inventory);
    }

    /// Writes the addresses of pods, and keeps in the inventory those that are written.
    async fn write_addresses(&mut self, cluster: &mut Cluster, outcome: &mut WriteOutcome) {
        let Some(pods) = self.rows.pods(cluster) else {
            return;
        };
        let inventory = &mut cluster.inventory;
        let mut desired = inventory.clone();
        for (pod, networks) in self.allocator.allocate(pods) {
            let key = ObjectKey::namespaced(&*pod.namespace, &*pod.name);
            if let Some(changed) = desired.pods.get_mut(&key) {
                let annotations = changed.object.annotations_mut();
                annotations.insert(POD_NETWORKS.to_owned(), networks.to_json());
            }
        }
        self.writes.write_kind::<Pod>(inventory, &desired, outcome).await;
        self.writes.add_written(inventory);
    }
}

/// Changes of the database.
struct DatabaseChanges<'a>(&'a mut SnapshotChanges);

impl ChangeSource for DatabaseChanges<'_> {
    type Error = ClientClosed;

    async fn changed(&mut self) -> Result<(), ClientClosed> {
        self.0.next().await.map(drop)
    }
}

/// Problems of the zone's node: a missing chassis id, which holds back networks and ports, and
/// annotations that cannot be read.
fn node_problems(
    zone: &str,
    node: Option<&Node>,
    outcome: &ZoneOutcome,
) -> BTreeSet<ReportedProblem> {
    let node_object = ObjectRef::cluster(Node::KIND, zone);
    let mut skipped = outcome.skipped_networks.iter();
    let is_held = skipped.any(|skipped| skipped.reason == SkipReason::NoChassisId);
    let held = is_held.then(|| {
        let reason = "is missing, so layer3 and primary networks are incomplete in the zone, and pods of \
                      the node get no ports in them, until it has the system-id of the node's Open vSwitch";
        FieldProblem::of_annotation(NODE_CHASSIS_ID, reason)
    });
    let annotations = node.and_then(|node| node.metadata.annotations.as_ref());
    let unreadable = unreadable_annotations(annotations).into_iter().map(|(annotation, reason)| {
        FieldProblem::of_annotation(annotation, format!("cannot be read: {reason}"))
    });
    let problems = held.into_iter().chain(unreadable);
    problems.map(|problem| ObjectProblem::new(node_object.clone(), problem).into()).collect()
}

/// Networks without rows in the zone. A node without a chassis id is a problem of its own.
fn network_problems(outcome: &ZoneOutcome) -> impl Iterator<Item = String> {
    let networks =
        outcome.skipped_networks.iter().filter(|skipped| skipped.reason != SkipReason::NoChassisId);
    networks.map(|skipped| format!("network {}: {}", skipped.network, skipped.reason))
}
