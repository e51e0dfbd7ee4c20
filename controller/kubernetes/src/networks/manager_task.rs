//! The cluster manager's part of the networks.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use jiff::Timestamp;
use patchbay_allocate::RouterKeyCursor;
use patchbay_allocate::networks::{
    Layer2Layouts, ManagerSettings, NetworkManager, RefusedWrite, note_held_pods,
    note_refused_definitions, note_refused_finalizers, note_undefined_definitions,
};
use patchbay_model::ClusterSettings;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::ipam_claim::IPAMClaim;
use patchbay_resources::manifests::{Inventory, ObjectKey, Problem};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{EndpointSlice, Node, Object as _, Pod, Time};
use patchbay_resources::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};
use tokio::sync::watch;

use super::object_problems::{ERROR_ALLOCATING_POD, ObjectProblem, ProblemEvents, lease_reference};
use super::object_writes::ObjectWrites;
use super::passing_problems::PassingProblems;
use super::problem_log::ProblemLog;
use super::sources::ObjectSources;
use super::write_outcome::WriteOutcome;
use super::writer::ObjectWriter;
use crate::config::Timing;
use crate::debounce::{ChangeSource as _, sleep_or_forever};
use crate::events::EventSender;
use crate::leader_election::{LeaderTerm, lease_uid};
use crate::read_failure::describe_undefined;
use crate::store::WatchEnded;

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

/// The cluster manager of networks. It is active while this process is the leader.
#[derive(Debug)]
pub(crate) struct NetworkManagerTask {
    pub(crate) settings: ClusterSettings,
    /// The lease of the leader, which events about watches are about.
    pub(crate) lease: ObjectKey,
    /// Position that is shared with the keys of connect routers.
    pub(crate) router_keys: RouterKeyCursor,
    pub(crate) sources: ObjectSources,
    pub(crate) writer: ObjectWriter,
    pub(crate) events: EventSender,
    pub(crate) term: watch::Receiver<Option<LeaderTerm>>,
    pub(crate) timing: Timing,
}

impl NetworkManagerTask {
    /// Waits for a term as the leader and reconciles during it, forever.
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
        }
    }
}

/// The state of one term as the leader. What was allocated is in the objects.
struct ManagerTerm {
    lease: ObjectKey,
    term: watch::Receiver<Option<LeaderTerm>>,
    sources: ObjectSources,
    manager: NetworkManager,
    writes: ObjectWrites,
    passing: PassingProblems,
    problems: ProblemLog,
    events: ProblemEvents,
    timing: Timing,
}

impl ManagerTerm {
    fn new(task: &NetworkManagerTask) -> Self {
        let settings = &task.settings;
        Self {
            lease: task.lease.clone(),
            term: task.term.clone(),
            sources: task.sources.clone(),
            manager: NetworkManager::new(ManagerSettings {
                cluster: settings.clone(),
                workloads: Some(Layer2Layouts::TransitRouters),
                ..ManagerSettings::default()
            })
            .with_router_keys(task.router_keys.clone()),
            writes: ObjectWrites::new(task.writer.clone()),
            passing: PassingProblems::default(),
            problems: ProblemLog::default(),
            events: ProblemEvents::new(task.events.clone()),
            timing: task.timing,
        }
    }

    async fn run(&mut self) -> Result<Infallible, WatchEnded> {
        self.await_sources().await?;
        let mut backoff = self.timing.retry_backoff();
        let mut passes_with_writes = 0;
        loop {
            let outcome = self.reconcile().await;
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
            let deadline = self.manager.next_deadline().map(until);
            let times = retry.into_iter().chain(deadline);
            let times = times.chain(self.writes.time_to_expiry());
            let retry = times.chain(self.passing.time_to_report()).min();
            tokio::select! {
                ready = self.sources.wait_for_work(&self.timing, retry) => ready?,
                () = self.writes.wait_for_answers() => {}
            }
        }
    }

    /// Waits for all objects. Networks that wait with it for the definition of attachment definitions
    /// get a condition.
    async fn await_sources(&mut self) -> Result<(), WatchEnded> {
        let mut sources = self.sources.clone();
        let mut backoff = self.timing.retry_backoff();
        {
            let mut listed = pin!(async {
                // A watch may not have shown yet what a former leader has written. Ids and addresses
                // would be allocated twice then.
                sources.list_again(&ALLOCATED_KINDS).await?;
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
                    () = sleep_or_forever(retry) => {}
                }
            }
        }
        self.sources = sources;
        Ok(())
    }

    /// Notes in conditions of networks that the cluster has no definition of attachment definitions,
    /// if it has none. Returns `false` if a write has failed.
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
        note_undefined_definitions(&mut after, &describe_undefined(kind), &now);
        let writes = &mut self.writes;
        writes
            .write_kind::<UserDefinedNetwork>(&before, &after, &mut outcome)
            .await;
        writes
            .write_kind::<ClusterUserDefinedNetwork>(&before, &after, &mut outcome)
            .await;
        outcome.is_complete()
    }

    /// Computes all objects, and writes those that differ.
    async fn reconcile(&mut self) -> WriteOutcome {
        let mut outcome = self.writes.begin_pass(&self.sources);
        let (watched, undecoded) = self.sources.inventory();
        let mut before = watched.clone();
        self.writes.add_written(&mut before);
        self.writes.add_running(&mut before);
        let mut after = before.clone();
        let now = Time(Timestamp::now());
        let problems = self.manager.reconcile(&mut after, &now);
        note_held_pods(&mut after, &now);
        self.write((&watched, &before), &mut after, &now, &mut outcome)
            .await;
        let problems: Vec<_> = problems.iter().chain(&after.warnings).collect();
        let lines = problems.iter().map(ToString::to_string);
        let read_problems = self.sources.read_problems();
        let passing = lines.chain(read_problems.iter().cloned());
        let lasting = self.passing.lasting(passing.collect());
        let of_watches = read_problems
            .iter()
            .filter(|problem| lasting.contains(*problem))
            .map(|problem| ObjectProblem::of_manager_watch(self.lease.clone(), problem.as_str()));
        let of_objects = problems
            .into_iter()
            .filter(|one| lasting.contains(&one.to_string()))
            .filter_map(object_problem);
        let of_objects = of_objects
            .chain(outcome.refused_problems())
            .chain(of_watches);
        let uid = lease_uid(&self.term);
        self.events.update_with(of_objects.collect(), |problem| {
            if problem.is_of_lease() {
                Some(lease_reference(&self.lease, uid))
            } else {
                problem.reference(&before)
            }
        });
        let problems = lasting.into_iter().chain(undecoded).chain(read_problems);
        let problems = problems.chain(outcome.failures.iter().cloned());
        self.problems.update(problems, &outcome.conflicts);
        outcome
    }

    /// Writes definitions before the conditions that report them. A definition or a finalizer that
    /// the API server refuses is in a condition.
    async fn write(
        &mut self,
        (watched, before): (&Inventory, &Inventory),
        after: &mut Inventory,
        now: &Time,
        out: &mut WriteOutcome,
    ) {
        let writes = &mut self.writes;
        writes.write_kind::<Node>(before, after, out).await;
        writes
            .write_kind::<NetworkAttachmentDefinition>(before, after, out)
            .await;
        let refused = refused_writes(out, NetworkAttachmentDefinition::KIND);
        out.permit_owners(&note_refused_definitions(watched, after, &refused, now));
        writes
            .write_kind::<UserDefinedNetwork>(before, after, out)
            .await;
        writes
            .write_kind::<ClusterUserDefinedNetwork>(before, after, out)
            .await;
        let udns = refused_writes(out, UserDefinedNetwork::KIND);
        let cudns = refused_writes(out, ClusterUserDefinedNetwork::KIND);
        note_refused_finalizers(before, after, &udns, &cudns, now);
        writes
            .write_refused_status::<UserDefinedNetwork>(before, after, out)
            .await;
        writes
            .write_refused_status::<ClusterUserDefinedNetwork>(before, after, out)
            .await;
        writes.write_kind::<Pod>(before, after, out).await;
        writes.write_kind::<IPAMClaim>(before, after, out).await;
        writes.write_kind::<EndpointSlice>(before, after, out).await;
    }
}

/// Refused writes of a kind, in the order of the objects.
fn refused_writes(outcome: &WriteOutcome, kind: &str) -> Vec<RefusedWrite> {
    let refused = outcome.refused_of(kind).map(|one| RefusedWrite {
        key: one.key.clone(),
        message: one.message.clone(),
    });
    let mut refused: Vec<_> = refused.collect();
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
fn object_problem(problem: &Problem) -> Option<ObjectProblem> {
    let object = problem.object.as_deref()?;
    let is_complete = |start: &str| problem.message.starts_with(start);
    let text = match &problem.field {
        Some(field) if !COMPLETE_TEXTS.iter().any(|start| is_complete(start)) => {
            format!("{field}: {}", problem.message)
        }
        _ => problem.message.clone(),
    };
    let found = ObjectProblem::described(object, text)?;
    let is_pod = object.starts_with(Pod::KIND) && object[Pod::KIND.len()..].starts_with(' ');
    Some(if is_pod {
        found.with_reason(ERROR_ALLOCATING_POD)
    } else {
        found
    })
}
