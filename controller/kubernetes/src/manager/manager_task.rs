//! The cluster manager's task: decides when to reconcile, and writes what differs.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use jiff::Timestamp;
use patchbay_allocate::RouterKeyCursor;
use patchbay_allocate::networks::{
    Layer2Layouts, ManagerSettings, NetworkManager, RefusedWrite, note_held_pods,
    note_refused_definitions, note_refused_finalizers, note_undefined_definitions,
};
use patchbay_model::{ClusterSettings, FieldProblem, ObjectProblem, ObjectRef};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::ipam_claim::IPAMClaim;
use patchbay_resources::manifests::{Inventory, Problem};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{EndpointSlice, Node, Object as _, Pod, Time};
use patchbay_resources::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};
use tokio::sync::watch;

use crate::config::Timing;
use crate::debounce::ChangeSource as _;
use crate::debounce::{sleep_or_forever, sleep_until_or_forever};
use crate::election::leader_election::LeaderTerm;
use crate::events::condition_events::ConditionEvents;
use crate::events::object_problems::{ERROR_ALLOCATING_POD, ProblemEvents, ReportedProblem};
use crate::events::passing_problems::PassingProblems;
use crate::events::problem_log::ProblemLog;
use crate::events::queue::EventSender;
use crate::manager::manager_connects::{self, ManagerConnects, Observed};
use crate::metrics::controllers::{PassMetrics, PassResult};
use crate::metrics::manager_state::ManagerState;
use crate::metrics::process_state::PublishedState;
use crate::reports::observed_zones::{ObservedZones, ZoneSources};
use crate::watch::read_failure::describe_undefined;
use crate::watch::sources::ObjectSources;
use crate::watch::store::WatchEnded;
use crate::write::object_writes::ObjectWrites;
use crate::write::write_outcome::WriteOutcome;
use crate::write::writer::ObjectWriter;

/// Number of successive passes with writes from which on passes are delayed. More are not needed
/// unless another program changes the same objects.
const PROMPT_PASSES: u32 = 3;

/// Kinds of the objects that hold what was allocated.
const ALLOCATED_KINDS: [&str; 5] = [
    ClusterNetworkConnect::KIND,
    NetworkAttachmentDefinition::KIND,
    Node::KIND,
    Pod::KIND,
    IPAMClaim::KIND,
];

/// Starts of texts of OVN-Kubernetes about a whole object.
const COMPLETE_TEXTS: [&str; 2] = ["failed to update pod ", "Failed to parse network config: "];

/// Why a pass is made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Cause {
    /// Objects, or writes that are due.
    Objects,
    /// Zones or events, from which no network follows.
    Zones,
}

/// The cluster manager. It is active while this process is the leader.
#[derive(Debug)]
pub(crate) struct ManagerTask {
    pub(crate) settings: ClusterSettings,
    /// `true` if it manages networks, and not only connects.
    pub(crate) manages_networks: bool,
    /// Namespace of the zones' leases.
    pub(crate) namespace: String,
    pub(crate) sources: ObjectSources,
    pub(crate) zones: ZoneSources,
    pub(crate) writer: ObjectWriter,
    pub(crate) events: EventSender,
    /// Receives the state for the admin port. `None`: there is none.
    pub(crate) published: Option<PublishedState>,
    pub(crate) term: watch::Receiver<Option<LeaderTerm>>,
    pub(crate) timing: Timing,
}

impl ManagerTask {
    /// Waits for a term as the leader and reconciles during it, forever.
    ///
    /// Dropping the future leaves the writes without an answer in progress. They are right or will be
    /// corrected.
    ///
    /// # Errors
    /// A task that this one depends on has ended.
    pub(crate) async fn run(self) -> Result<Infallible, WatchEnded> {
        let mut term = self.term.clone();
        loop {
            let begun = term.wait_for(Option::is_some).await;
            begun.map_err(|_| WatchEnded)?;
            let mut leader = ManagerTerm::new(&self);
            tokio::select! {
                ended = leader.run() => return ended,
                lost = term.wait_for(Option::is_none) => { lost.map_err(|_| WatchEnded)?; }
            }
            if let Some(published) = &self.published {
                published.set_manager(None);
            }
        }
    }
}

/// The state of one term as the leader. What was allocated is in the objects.
struct ManagerTerm {
    sources: ObjectSources,
    /// Allocator of networks. `None`: another program manages them.
    networks: Option<NetworkManager>,
    /// Problems of networks in the last pass over them.
    network_problems: Vec<Problem>,
    connects: ManagerConnects,
    zones: ObservedZones,
    condition_events: ConditionEvents,
    writes: ObjectWrites,
    passing: PassingProblems,
    problems: ProblemLog,
    events: ProblemEvents,
    metrics: PassMetrics,
    published: Option<PublishedState>,
    timing: Timing,
}

impl ManagerTerm {
    fn new(task: &ManagerTask) -> Self {
        let router_keys = RouterKeyCursor::default();
        let networks = task.manages_networks.then(|| {
            NetworkManager::new(ManagerSettings {
                cluster: task.settings.clone(),
                workloads: Some(Layer2Layouts::TransitRouters),
                ..ManagerSettings::default()
            })
            .with_router_keys(router_keys.clone())
        });
        Self {
            sources: task.sources.clone(),
            networks,
            network_problems: Vec::new(),
            connects: ManagerConnects::new(task.settings.clone(), router_keys),
            zones: ObservedZones::new(task.zones.clone(), task.namespace.clone(), task.timing),
            condition_events: ConditionEvents::new(task.events.clone()),
            writes: ObjectWrites::new(task.writer.clone()),
            passing: PassingProblems::default(),
            problems: ProblemLog::default(),
            events: ProblemEvents::new(task.events.clone()),
            metrics: PassMetrics::new("cluster-manager"),
            published: task.published.clone(),
            timing: task.timing,
        }
    }

    async fn run(&mut self) -> Result<Infallible, WatchEnded> {
        self.await_sources().await?;
        let mut backoff = self.timing.retry_backoff();
        let mut passes_with_writes = 0;
        let mut cause = Cause::Objects;
        loop {
            let pass = self.metrics.begin();
            let outcome = self.reconcile(cause).await;
            let has_failed = !outcome.is_complete();
            let mut retry = None;
            if outcome.has_written {
                passes_with_writes += 1;
            } else {
                passes_with_writes = 0;
            }
            if has_failed || passes_with_writes > PROMPT_PASSES {
                retry = Some(backoff.next_delay().max(outcome.retry_after));
            } else {
                backoff.reset();
            }
            let networks = self.networks.as_ref();
            let deadline = networks.and_then(NetworkManager::next_deadline).map(until);
            let result = match (retry, deadline) {
                _ if has_failed => PassResult::Error,
                (None, None) => PassResult::Success,
                _ => PassResult::RequeueAfter,
            };
            self.metrics.end(&pass, result);
            drop(pass);
            let times = retry.into_iter().chain(deadline).chain(self.writes.time_to_expiry());
            let retry = times.chain(self.passing.time_to_report()).min();
            let event_due = self.condition_events.next_due();
            cause = tokio::select! {
                ready = self.sources.wait_for_work(&self.timing, retry) => {
                    ready?;
                    Cause::Objects
                }
                () = self.writes.wait_for_answers() => Cause::Objects,
                changed = self.zones.changed() => {
                    changed?;
                    Cause::Zones
                }
                () = sleep_until_or_forever(event_due) => {
                    self.condition_events.clear_due();
                    Cause::Zones
                }
            };
            if has_failed || outcome.has_written {
                cause = Cause::Objects;
            }
        }
    }

    /// Waits for all objects. Objects that wait with it for the definition of attachment definitions
    /// get a condition.
    async fn await_sources(&mut self) -> Result<(), WatchEnded> {
        let mut sources = self.sources.clone();
        let mut backoff = self.timing.retry_backoff();
        {
            let allocated: &[&str] = if self.networks.is_some() {
                &ALLOCATED_KINDS
            } else {
                &[ClusterNetworkConnect::KIND]
            };
            let mut listed = pin!(async {
                // A watch may not have shown yet what a former leader has written. Ids and addresses
                // would be allocated twice then.
                sources.list_again(allocated).await?;
                sources.ready().await
            });
            loop {
                let is_noted = self.note_undefined_definitions().await;
                let retry = (!is_noted).then(|| backoff.next_delay());
                tokio::select! {
                    listed = &mut listed => {
                        listed?;
                        break;
                    }
                    changed = self.sources.changed() => changed?,
                    () = self.writes.wait_for_answers() => {}
                    () = sleep_or_forever(retry) => {}
                }
            }
        }
        self.sources = sources;
        Ok(())
    }

    /// Notes in conditions of networks and connects that the cluster has no definition of attachment
    /// definitions, if it has none. Returns `false` if a write has failed.
    async fn note_undefined_definitions(&mut self) -> bool {
        let kind = NetworkAttachmentDefinition::KIND;
        if !self.sources.is_undefined(kind) {
            return true;
        }
        let mut outcome = self.writes.begin_pass(&self.sources);
        let (mut before, _) = self.sources.inventory();
        self.writes.add_written(&mut before);
        let mut after = before.clone();
        let now = Time(Timestamp::now());
        manager_connects::note_undefined_definitions(&mut after, &now);
        let (writes, out) = (&mut self.writes, &mut outcome);
        if self.networks.is_some() {
            note_undefined_definitions(&mut after, &describe_undefined(kind), &now);
            writes.write_kind::<UserDefinedNetwork>(&before, &after, out).await;
            writes.write_kind::<ClusterUserDefinedNetwork>(&before, &after, out).await;
        }
        writes.write_kind::<ClusterNetworkConnect>(&before, &after, out).await;
        self.emit_condition_events(&before, &after);
        outcome.is_complete()
    }

    /// Computes all objects, and writes those that differ: first networks, then connects.
    async fn reconcile(&mut self, cause: Cause) -> WriteOutcome {
        let has_changed = self.sources.have_changed();
        let mut outcome = self.writes.begin_pass(&self.sources);
        let (watched, undecoded) = self.sources.inventory();
        let mut stored = watched.clone();
        self.writes.add_written(&mut stored);
        let mut before = stored.clone();
        self.writes.add_running(&mut before);
        let mut after = before.clone();
        let now = Time(Timestamp::now());
        if let Some(networks) = &mut self.networks
            && (has_changed || cause == Cause::Objects)
        {
            self.network_problems = networks.reconcile(&mut after, &now);
            self.network_problems.append(&mut after.warnings);
            note_held_pods(&mut after, &now);
            self.write_networks((&watched, &before), &mut after, &now, &mut outcome).await;
        }
        let warnings = self.write_connects(&before, &mut after, &now, &mut outcome).await;
        self.emit_condition_events(&stored, &after);
        let lines = self.network_problems.iter().map(ToString::to_string);
        let lasting = self.passing.lasting(lines.collect());
        let of_objects = self
            .network_problems
            .iter()
            .filter(|one| lasting.contains(&one.to_string()))
            .filter_map(object_problem)
            .chain(outcome.refused_problems());
        self.events.update(of_objects.collect(), &before);
        let problems = lasting
            .into_iter()
            .chain(undecoded)
            .chain(warnings)
            .chain(outcome.failures.iter().cloned());
        let count = self.problems.update(problems, &outcome.conflicts);
        if let Some(published) = &self.published {
            published.set_problems("cluster-manager", count);
            published.set_manager(Some(ManagerState {
                inventory: after,
                zones_behind: self.connects.zones_behind().clone(),
                zones: self.zones.counts(),
            }));
        }
        outcome
    }

    fn emit_condition_events(&mut self, stored: &Inventory, desired: &Inventory) {
        self.condition_events.update(
            &stored.cluster_network_connects,
            &desired.cluster_network_connects,
            self.connects.obstacles(),
        );
    }

    /// Writes annotations and status of connects. An annotation that the API server refuses is in a
    /// condition. Returns warnings, one line each.
    async fn write_connects(
        &mut self,
        before: &Inventory,
        after: &mut Inventory,
        now: &Time,
        out: &mut WriteOutcome,
    ) -> Vec<String> {
        self.zones.update(&after.nodes);
        let observed =
            Observed { zones: &self.zones.knowledge(), connected: self.sources.connected(), now };
        let warnings = self.connects.reconcile(after, observed);
        let writes = &mut self.writes;
        writes.write_kind::<ClusterNetworkConnect>(before, after, out).await;
        let refused = refused_writes(out, ClusterNetworkConnect::KIND);
        self.connects.note_refused(before, after, &refused, observed);
        writes.write_refused_status::<ClusterNetworkConnect>(before, after, out).await;
        warnings
    }

    /// Writes definitions before the conditions that report them. A definition or a finalizer that
    /// the API server refuses is in a condition.
    async fn write_networks(
        &mut self,
        (watched, before): (&Inventory, &Inventory),
        after: &mut Inventory,
        now: &Time,
        out: &mut WriteOutcome,
    ) {
        let writes = &mut self.writes;
        writes.write_kind::<Node>(before, after, out).await;
        writes.write_kind::<NetworkAttachmentDefinition>(before, after, out).await;
        let refused = refused_writes(out, NetworkAttachmentDefinition::KIND);
        out.permit_owners(&note_refused_definitions(watched, after, &refused, now));
        writes.write_kind::<UserDefinedNetwork>(before, after, out).await;
        writes.write_kind::<ClusterUserDefinedNetwork>(before, after, out).await;
        let udns = refused_writes(out, UserDefinedNetwork::KIND);
        let cudns = refused_writes(out, ClusterUserDefinedNetwork::KIND);
        note_refused_finalizers(before, after, &udns, &cudns, now);
        writes.write_refused_status::<UserDefinedNetwork>(before, after, out).await;
        writes.write_refused_status::<ClusterUserDefinedNetwork>(before, after, out).await;
        writes.write_kind::<Pod>(before, after, out).await;
        writes.write_kind::<IPAMClaim>(before, after, out).await;
        writes.write_kind::<EndpointSlice>(before, after, out).await;
    }
}

/// Refused writes of a kind, in the order of the objects.
fn refused_writes(outcome: &WriteOutcome, kind: &str) -> Vec<RefusedWrite> {
    let mut refused: Vec<_> = outcome
        .refused_of(kind)
        .map(|one| RefusedWrite { key: one.key.clone(), message: one.message.clone() })
        .collect();
    refused.sort_by(|one, other| one.key.cmp(&other.key));
    refused
}

/// Time until a deadline; zero if it is over.
fn until(deadline: Timestamp) -> Duration {
    let left = deadline.duration_since(Timestamp::now());
    Duration::try_from(left).unwrap_or_default()
}

/// The problem of an object, for an event. `None`: it is not that of one object.
///
/// The texts of OVN-Kubernetes name what they are about, so they stay as they are.
fn object_problem(problem: &Problem) -> Option<ReportedProblem> {
    let object = ObjectRef::parse(problem.object.as_deref()?)?;
    let is_complete = |start: &&str| problem.message.starts_with(*start);
    let is_whole = COMPLETE_TEXTS.iter().any(is_complete);
    let field = problem.field.as_deref().filter(|_| !is_whole);
    let is_pod = object.kind == Pod::KIND;
    let text = FieldProblem::new(field.unwrap_or_default(), &*problem.message);
    let found = ReportedProblem::from(ObjectProblem::new(object, text));
    Some(if is_pod { found.with_reason(ERROR_ALLOCATING_POD) } else { found })
}
