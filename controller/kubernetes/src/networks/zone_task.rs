//! The zone controller's part of the networks.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt::Display;
use std::time::Duration;

use jiff::Timestamp;
use patchbay_engine::client::ClientClosed;
use patchbay_model::{
    ClusterSettings, EGRESS_FIREWALL, NODE_CHASSIS_ID, POD_NETWORKS, PodKey, unreadable_annotations,
};
use patchbay_networks::SkipReason;
use patchbay_pods::{AllocationScope, PodAllocator};
use patchbay_policies::PolicySubject;
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::Remote;
use patchbay_reconcile::zone::{ZoneError, ZoneOutcome, ZoneReconciler};
use patchbay_resources::manifests::{Inventory, ObjectKey};
use patchbay_resources::object::{
    EgressFirewall, EgressIP, Namespace, Node, Object as _, Pod, Service, Time,
};
use patchbay_schemas::uuids::UuidSource;
use thiserror::Error;

use super::object_problems::{ERROR_ALLOCATING_POD, ObjectProblem, ProblemEvents};
use super::object_writes::ObjectWrites;
use super::passing_problems::PassingProblems;
use super::problem_log::ProblemLog;
use super::sources::ObjectSources;
use super::write_outcome::WriteOutcome;
use super::writer::ObjectWriter;
use crate::config::Timing;
use crate::events::EventSender;
use crate::northbound_client::NorthboundClient;
use crate::store::WatchEnded;

/// The zone controller of networks.
#[derive(Debug)]
pub(crate) struct NetworkZoneTask {
    pub(crate) zone: String,
    pub(crate) settings: ClusterSettings,
    pub(crate) northbound: NorthboundClient,
    pub(crate) sources: ObjectSources,
    pub(crate) writer: ObjectWriter,
    pub(crate) events: EventSender,
    pub(crate) timing: Timing,
}

/// Reason why the zone controller of networks ended.
#[derive(Debug, Error)]
pub(crate) enum NetworkZoneError {
    #[error(transparent)]
    Watch(#[from] WatchEnded),
    #[error(transparent)]
    Northbound(#[from] ClientClosed),
}

impl NetworkZoneTask {
    /// Reconciles forever. Dropping the future leaves at most one transaction and the writes without
    /// an answer in progress, each of which is executed completely or not at all.
    ///
    /// # Errors
    /// A task that this one depends on has ended.
    pub(crate) async fn run(mut self) -> Result<Infallible, NetworkZoneError> {
        // An incomplete set of objects would look like deletions.
        self.sources.ready().await?;
        let client = self.northbound.connect().await;
        let northbound = Remote::of_client(client, self.timing.request_timeout)?;
        let mut changes = northbound.changes();
        let mut work = ZoneWork {
            allocator: PodAllocator::new(AllocationScope::Zone),
            rows: ZoneReconciler::new(&*self.zone, northbound, UuidSource::random()),
            writes: ObjectWrites::new(self.writer),
            sources: self.sources,
            settings: self.settings,
            passing: PassingProblems::default(),
            problems: ProblemLog::default(),
            events: ProblemEvents::new(self.events),
            next_removal: None,
        };
        let mut backoff = self.timing.retry_backoff();
        loop {
            let retry = match work.reconcile().await {
                Ok(outcome) => {
                    let retry_after = outcome.retry_after;
                    let is_complete = outcome.is_complete();
                    if is_complete {
                        backoff.reset();
                    }
                    let retry = (!is_complete).then(|| backoff.next_delay().max(retry_after));
                    let expiry = work.writes.time_to_expiry();
                    let times = retry.into_iter().chain(work.time_to_removal());
                    times
                        .chain(expiry)
                        .chain(work.passing.time_to_report())
                        .min()
                }
                Err(error) => {
                    tracing::warn!(%error, "the rows of networks are incomplete");
                    Some(backoff.next_delay())
                }
            };
            tokio::select! {
                ready = work.sources.wait_for_work(&self.timing, retry) => ready?,
                () = work.writes.wait_for_answers() => {}
                changed = changes.next() => { changed?; }
            }
        }
    }
}

/// The state of the zone controller of networks.
struct ZoneWork {
    sources: ObjectSources,
    settings: ClusterSettings,
    allocator: PodAllocator,
    rows: ZoneReconciler<Remote>,
    writes: ObjectWrites,
    passing: PassingProblems,
    problems: ProblemLog,
    events: ProblemEvents,
    /// Time at which the next network without users is to be removed. `None`: there is none.
    next_removal: Option<Timestamp>,
}

impl ZoneWork {
    /// Time until the next network without users is to be removed. `None`: there is none.
    fn time_to_removal(&self) -> Option<Duration> {
        let wait = Timestamp::now().duration_until(self.next_removal?);
        Some(wait.try_into().unwrap_or_default())
    }

    /// Gives the zone's pods their addresses, and makes the rows what the objects define.
    async fn reconcile(&mut self) -> Result<WriteOutcome, ZoneError> {
        let mut outcome = self.writes.begin_pass(&self.sources);
        let (mut inventory, undecoded) = self.sources.inventory();
        self.writes.add_written(&mut inventory);
        let settings = self.settings.clone();
        let mut cluster = Cluster::watched(inventory, settings, Time(Timestamp::now()));
        self.write_addresses(&mut cluster, &mut outcome).await;
        let rows = self.rows.reconcile_without_connects(&cluster);
        let rows = self.writes.go_on_during(rows).await?;
        let rejections = rows.rejections.iter();
        let rejections = rejections.map(|error| format!("rows are not committed: {error}"));
        outcome.failures.extend(rejections);
        self.next_removal = rows.next_removal;
        let allocation = self.allocator.problems();
        let allocation = allocation
            .map(|(pod, problem)| pod_problem(pod, problem).with_reason(ERROR_ALLOCATING_POD));
        let of_pods = rows.pod_problems.iter();
        let of_pods = of_pods.map(|(pod, problem)| pod_problem(pod, problem));
        let mut of_pods: BTreeSet<ObjectProblem> = allocation.chain(of_pods).collect();
        let mut of_objects: BTreeSet<ObjectProblem> = object_problems(&rows).collect();
        let mut of_node = node_problems(self.rows.zone(), &cluster.inventory, &rows);
        let read_problems = self.sources.read_problems();
        let lines = of_pods.iter().chain(&of_objects).chain(&of_node);
        let lines = lines.map(ToString::to_string);
        let lines = lines.chain(network_problems(&rows));
        let lines = lines.chain(read_problems.iter().cloned());
        let lasting = self.passing.lasting(lines.collect());
        let zone = self.rows.zone();
        let of_watches = read_problems
            .iter()
            .filter(|problem| lasting.contains(*problem))
            .map(|problem| ObjectProblem::of_zone_watch(zone, problem.as_str()));
        of_node.retain(|problem| lasting.contains(&problem.to_string()));
        let of_node: BTreeSet<ObjectProblem> = of_watches.chain(of_node).collect();
        of_pods.retain(|problem| lasting.contains(&problem.to_string()));
        of_objects.retain(|problem| lasting.contains(&problem.to_string()));
        let failures = outcome.failures.iter().cloned();
        let others = failures.chain(undecoded).chain(read_problems);
        let others = others.chain(rows.warnings);
        self.problems
            .update(lasting.into_iter().chain(others), &outcome.conflicts);
        let of_pods = of_pods.into_iter().chain(outcome.refused_problems());
        let problems = [of_pods.collect(), of_objects, of_node];
        self.emit_events(problems, &cluster.inventory);
        Ok(outcome)
    }

    /// Emits events about new problems. Of those that all zones have, the zone of the first node
    /// does.
    fn emit_events(
        &mut self,
        [of_pods, of_objects, of_node]: [BTreeSet<ObjectProblem>; 3],
        inventory: &Inventory,
    ) {
        let zone = self.rows.zone();
        let first_node = inventory.nodes.iter().next();
        let is_first = first_node.is_some_and(|(key, _)| key.name == zone);
        let is_own = |problem: &ObjectProblem| {
            let pod = inventory.pods.get(problem.key());
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
        self.writes
            .write_kind::<Pod>(inventory, &desired, outcome)
            .await;
        self.writes.add_written(inventory);
    }
}

fn pod_problem(pod: &PodKey, problem: &dyn Display) -> ObjectProblem {
    let key = ObjectKey::namespaced(&*pod.namespace, &*pod.name);
    ObjectProblem::new(Pod::KIND, key, problem.to_string())
}

/// Reasons why policies, services and EgressIPs do not apply as their objects specify.
fn object_problems(outcome: &ZoneOutcome) -> impl Iterator<Item = ObjectProblem> {
    let policies = outcome.policy_problems.iter().map(|problem| {
        let (kind, key) = match &problem.subject {
            PolicySubject::Policy(policy) => (
                policy.kind.to_string(),
                ObjectKey::namespaced(&*policy.namespace, &*policy.name),
            ),
            PolicySubject::Admin(policy) => {
                (policy.kind.to_string(), ObjectKey::cluster(&*policy.name))
            }
            PolicySubject::Namespace(name) => {
                (Namespace::KIND.to_owned(), ObjectKey::cluster(&**name))
            }
            PolicySubject::Firewall(namespace) => (
                EgressFirewall::KIND.to_owned(),
                ObjectKey::namespaced(&**namespace, EGRESS_FIREWALL),
            ),
        };
        ObjectProblem::new(&kind, key, problem.reason.to_string())
    });
    let services = outcome.service_problems.iter().map(|(service, problem)| {
        let key = ObjectKey::namespaced(&*service.namespace, &*service.name);
        ObjectProblem::new(Service::KIND, key, problem.to_string())
    });
    let egress = outcome.egress_problems.iter().map(|problem| {
        let key = ObjectKey::cluster(&*problem.egress_ip);
        ObjectProblem::new(EgressIP::KIND, key, problem.reason.to_string())
    });
    policies.chain(services).chain(egress)
}

/// Problems of the zone's node: a missing chassis id, which holds back networks and ports, and
/// annotations that cannot be read.
fn node_problems(
    zone: &str,
    inventory: &Inventory,
    outcome: &ZoneOutcome,
) -> BTreeSet<ObjectProblem> {
    let key = ObjectKey::cluster(zone);
    let mut skipped = outcome.skipped_networks.iter();
    let is_held = skipped.any(|skipped| skipped.reason == SkipReason::NoChassisId);
    let held = is_held.then(|| {
        format!(
            "metadata.annotations[{NODE_CHASSIS_ID}]: is missing, so layer3 and primary networks are incomplete in \
             the zone, and pods of the node get no ports in them, until it has the system-id of the node's Open vSwitch"
        )
    });
    let node = inventory.nodes.get(&key);
    let annotations = node.and_then(|node| node.object.metadata.annotations.as_ref());
    let unreadable = unreadable_annotations(annotations).into_iter();
    let unreadable = unreadable.map(|(annotation, reason)| {
        format!("metadata.annotations[{annotation}]: cannot be read: {reason}")
    });
    let texts = held.into_iter().chain(unreadable);
    texts
        .map(|text| ObjectProblem::new(Node::KIND, key.clone(), text))
        .collect()
}

/// Networks without rows in the zone. A node without a chassis id is a problem of its own.
fn network_problems(outcome: &ZoneOutcome) -> impl Iterator<Item = String> {
    let networks = outcome.skipped_networks.iter();
    let networks = networks.filter(|skipped| skipped.reason != SkipReason::NoChassisId);
    networks.map(|skipped| format!("network {}: {}", skipped.network, skipped.reason))
}
