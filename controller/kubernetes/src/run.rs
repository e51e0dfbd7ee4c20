//! Runs the controllers' tasks.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use kube::Client;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::platform::Lease;
use patchbay_resources::object::{ConfigMap, Node, Object as _};
use thiserror::Error;
use tokio::sync::watch as channel;
use tokio::task::JoinSet;

use crate::admin::{AdminContents, AdminPort, AdminServer, Check, Health, Heartbeat};
use crate::api::api_object::decode;
use crate::config::{ClusterManagerConfig, ControllerConfig, Timing, ZoneControllerConfig};
use crate::election::leader_election::{LeaderElector, LeaderTerm};
use crate::events::queue::{EventSender, event_channel};
use crate::events::read_failure_events::{KindWatch, ReadFailureEvents, WatchingController};
use crate::manager::manager_task::ManagerTask;
use crate::metrics::process_state::{NorthboundState, ProcessState, PublishedState};
use crate::reports::observed_zones::ZoneSources;
use crate::reports::report_publisher::{ReportPublisher, ReportSource};
use crate::reports::zone_lease::{self, ZoneLeaseRenewer};
use crate::reports::zone_reports::{self, ZoneReport};
use crate::watch::sources::ObjectSources;
use crate::watch::task_set::TaskSet;
use crate::watch::watched_kinds::{Role, Roles, WatchedKinds};
use crate::write::writer::ObjectWriter;
use crate::zone::northbound_reachability::NorthboundReachability;
use crate::zone::zone_task::ZoneTask;

/// A task has ended that should run forever.
#[derive(Debug, Error)]
#[error("{task} has ended: {reason}")]
pub struct RunError {
    pub(crate) task: &'static str,
    pub(crate) reason: String,
}

/// Runs the configured controllers until `stop` completes, then releases the lease.
///
/// # Errors
/// A task has ended that should run forever. The process has to be restarted.
///
/// # Cancel safety
/// Dropping the future stops all tasks. The lease is not released then, so another process waits
/// for its expiry.
pub async fn run(
    client: Client,
    config: ControllerConfig,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), RunError> {
    boxed_run(client, config, pin!(stop)).await
}

/// [`run`] in a box, so that the code of all tasks is compiled in this crate.
fn boxed_run<'a>(
    client: Client,
    config: ControllerConfig,
    stop: Pin<&'a mut (dyn Future<Output = ()> + Send + 'a)>,
) -> BoxFuture<'a, Result<(), RunError>> {
    Box::pin(run_until(client, config, stop))
}

async fn run_until(
    client: Client,
    config: ControllerConfig,
    stop: Pin<&mut (dyn Future<Output = ()> + Send + '_)>,
) -> Result<(), RunError> {
    let timing = config.timing;
    let mut tasks = TaskSet::new(timing);
    let roles = Roles {
        manager: config.cluster.as_ref().map(|manager| Role {
            settings: &manager.settings,
            writes_networks: manager.manages_networks,
        }),
        zone: config
            .zone
            .as_ref()
            .map(|zone| Role { settings: &zone.settings, writes_networks: zone.writes_networks }),
    };
    let watched = WatchedKinds::start(&mut tasks, &client, roles);
    let (stopping, stopped) = channel::channel(false);
    let mut elector_tasks = JoinSet::new();
    let mut publishers = JoinSet::new();
    let (events, publisher) = event_channel(client.clone(), config.identity.clone(), timing);
    let heartbeat = tasks.heartbeats.add("events");
    publishers.spawn(heartbeat.during(publisher));
    let published = config.admin.is_some().then(PublishedState::default);
    let process = Process {
        client,
        namespace: config.namespace,
        identity: config.identity,
        events,
        published,
        timing,
    };
    let mut observed = ObservedProcess::new(stopped.clone());
    if let Some(settings) = config.cluster {
        let lease = settings.lease.duration;
        let elector = process.start_manager(&mut tasks, settings, watched.manager, &mut observed);
        observed.check_lease(elector.answered(), lease);
        let heartbeat = tasks.heartbeats.add("leader-election");
        elector_tasks.spawn(heartbeat.during(elector.run(stopped)));
    }
    if let Some(settings) = config.zone {
        process.start_zone(&mut tasks, &mut publishers, settings, watched.zone, &mut observed);
    }
    let published = process.published.clone().unwrap_or_default();
    drop(process);
    let heartbeats = std::mem::take(&mut tasks.heartbeats);
    let _server = match config.admin {
        Some(port) => Some(observed.serve(port, heartbeats.into_tasks(), published)?),
        None => None,
    };
    let outcome = tokio::select! {
        error = tasks.first_error() => Err(error),
        error = first_panic(&mut publishers) => Err(error),
        () = stop => Ok(()),
    };
    // All writers end before the lease is released.
    tasks.running.shutdown().await;
    publishers.shutdown().await;
    stopping.send_replace(true);
    if tokio::time::timeout(timing.request_timeout, elector_tasks.join_next()).await.is_err() {
        tracing::warn!("cannot release the lease; the next leader has to wait for its expiry");
    }
    outcome
}

/// What the admin port shows of this process.
struct ObservedProcess {
    readiness: Vec<Check>,
    watches: BTreeMap<&'static str, KindWatch>,
    northbound: Option<NorthboundState>,
}

impl ObservedProcess {
    /// A process that is ready until it stops.
    fn new(stopped: channel::Receiver<bool>) -> Self {
        let is_stopping = move || if *stopped.borrow() { Err("the process stops") } else { Ok(()) };
        Self {
            readiness: vec![Check::new("shutdown", is_stopping)],
            watches: BTreeMap::new(),
            northbound: None,
        }
    }

    /// Adds watches. Both controllers share that of a kind.
    fn add_watches(&mut self, watches: Vec<KindWatch>) {
        self.watches.extend(watches.into_iter().map(|watch| (watch.kind(), watch)));
    }

    /// Adds the check that attempts to get or renew the lease are answered. Who waits for the lease
    /// is ready to take it.
    fn check_lease(&mut self, answered: Heartbeat, limit: Duration) {
        self.readiness.push(Check::new("leader-election", move || match answered.age() {
            Some(age) if age > limit => Err("the API server does not answer about the lease"),
            _ => Ok(()),
        }));
    }

    /// Adds the check that the replica follows the database.
    fn check_northbound(&mut self, state: &NorthboundState) {
        let checked = state.clone();
        self.readiness.push(Check::new("northbound", move || match checked.lag() {
            Some(_) => Err("the Northbound database cannot be reached"),
            None => Ok(()),
        }));
        self.northbound = Some(state.clone());
    }

    /// Serves the admin port.
    fn serve(
        self,
        port: AdminPort,
        tasks: Vec<(String, Heartbeat)>,
        published: PublishedState,
    ) -> Result<AdminServer, RunError> {
        let Self { mut readiness, watches, northbound } = self;
        let watches = Arc::new(watches.into_values().collect::<Vec<_>>());
        for (index, watch) in watches.iter().enumerate() {
            let all = watches.clone();
            readiness.push(Check::new(format!("watch/{}", watch.kind()), move || {
                let is_ready = all.get(index).is_some_and(KindWatch::is_ready);
                if is_ready { Ok(()) } else { Err("the objects are not listed yet") }
            }));
        }
        let of_tasks = tasks.iter().map(|(task, beat)| Check::of_task(task, beat.clone()));
        let contents = AdminContents {
            health: Health {
                liveness: [Check::new("ping", || Ok(()))].into_iter().chain(of_tasks).collect(),
                readiness,
            },
            state: ProcessState { tasks, watches, published, northbound },
        };
        AdminServer::start(port, contents)
            .map_err(|error| RunError { task: "the admin port", reason: error.to_string() })
    }
}

/// What the controllers of this process share.
struct Process {
    client: Client,
    /// Namespace of the zones' reports and leases.
    namespace: String,
    identity: String,
    events: EventSender,
    /// Receives the state for the admin port. `None`: there is none.
    published: Option<PublishedState>,
    timing: Timing,
}

impl Process {
    /// Starts the cluster manager. Returns its elector.
    fn start_manager(
        &self,
        tasks: &mut TaskSet,
        config: ClusterManagerConfig,
        sources: ObjectSources,
        observed: &mut ObservedProcess,
    ) -> LeaderElector {
        let (client, namespace) = (&self.client, &self.namespace);
        let lease = ObjectKey::namespaced(&*config.lease.namespace, &*config.lease.name);
        let (elector, term) =
            LeaderElector::new(client.clone(), config.lease, self.identity.clone());
        let labels = zone_reports::SELECTOR;
        let zones = ZoneSources {
            reports: tasks.watch_labelled::<ConfigMap, _>(client, namespace, labels, |object| {
                decode(object).map(zone_reports::project_report)
            }),
            leases: tasks.watch_labelled::<Lease, _>(client, namespace, labels, |object| {
                decode(object).map(zone_lease::project_lease)
            }),
        };
        let watches = || {
            let mut watches = sources.watches();
            watches.extend([
                KindWatch::new(ConfigMap::KIND, true, &zones.reports),
                KindWatch::new(Lease::KIND, true, &zones.leases),
            ]);
            watches
        };
        observed.add_watches(watches());
        let watches = watches();
        let controller = WatchingController::ClusterManager { lease, term: term.clone() };
        self.start_watch_events(tasks, controller, watches);
        let task = ManagerTask {
            settings: config.settings,
            manages_networks: config.manages_networks,
            namespace: namespace.clone(),
            sources,
            zones,
            writer: self.writer("cluster-manager", Some(term.clone())),
            published: self.published.clone(),
            events: self.events.clone(),
            term,
            timing: self.timing,
        };
        tasks.spawn("the cluster manager", "cluster-manager", task.run());
        elector
    }

    /// Starts the zone controller, and the writers of the zone's report and lease.
    fn start_zone(
        &self,
        tasks: &mut TaskSet,
        publishers: &mut JoinSet<()>,
        config: ZoneControllerConfig,
        sources: ObjectSources,
        observed: &mut ObservedProcess,
    ) {
        let state = NorthboundState::new();
        observed.check_northbound(&state);
        observed.add_watches(sources.watches());
        let (report_sender, reports) = channel::channel(ZoneReport::default());
        let (is_unreachable, unreachable) = channel::channel(false);
        let (connects, nodes) =
            (sources.store(ClusterNetworkConnect::KIND), sources.store(Node::KIND));
        let renewer = ZoneLeaseRenewer {
            client: self.client.clone(),
            namespace: self.namespace.clone(),
            zone: config.zone.clone(),
            identity: self.identity.clone(),
            nodes: nodes.clone(),
            restores: tasks.restores.clone(),
            timing: self.timing,
        };
        let heartbeat = tasks.heartbeats.add("zone-lease");
        publishers.spawn(heartbeat.during(renewer.run()));
        let publisher = ReportPublisher {
            client: self.client.clone(),
            namespace: self.namespace.clone(),
            source: ReportSource {
                zone: config.zone.clone(),
                reports,
                is_unreachable: unreachable,
                connects,
                nodes: nodes.clone(),
            },
            restores: tasks.restores.clone(),
            timing: self.timing,
        };
        let heartbeat = tasks.heartbeats.add("zone-report");
        publishers.spawn(heartbeat.during(publisher.run()));
        let zone = config.zone.clone();
        let controller = WatchingController::Zone { zone, nodes };
        self.start_watch_events(tasks, controller, sources.watches());
        let task = ZoneTask {
            config,
            sources,
            writer: self.writer("zone-controller", None),
            events: self.events.clone(),
            published: self.published.clone(),
            report_sender,
            reachability: NorthboundReachability {
                is_unreachable,
                state,
                grace_period: self.timing.report_interval,
            },
            timing: self.timing,
        };
        tasks.spawn("the zone controller", "zone-controller", task.run());
    }

    /// Starts the task that emits events about watches that fail.
    fn start_watch_events(
        &self,
        tasks: &mut TaskSet,
        controller: WatchingController,
        watches: Vec<KindWatch>,
    ) {
        let name = match &controller {
            WatchingController::ClusterManager { .. } => "cluster-manager",
            WatchingController::Zone { .. } => "zone-controller",
        };
        let failures = ReadFailureEvents { controller, watches, events: self.events.clone() };
        let loop_name = format!("watch-failures-{name}");
        tasks.spawn("the writer of events about watches", &loop_name, failures.run());
    }

    fn writer(
        &self,
        controller: &'static str,
        term: Option<channel::Receiver<Option<LeaderTerm>>>,
    ) -> ObjectWriter {
        ObjectWriter { client: self.client.clone(), timing: self.timing, controller, term }
    }
}

/// Waits for the first panic of a publisher. A publisher that ends without one has lost its
/// controller, whose end is the error.
async fn first_panic(publishers: &mut JoinSet<()>) -> RunError {
    loop {
        match publishers.join_next().await {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                return RunError {
                    task: "a writer of events, reports or leases",
                    reason: error.to_string(),
                };
            }
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_publisher_that_panics_ends_the_process() {
        let mut publishers = JoinSet::new();
        publishers.spawn(async {});
        publishers.spawn(async { panic!("a wrong state") });
        let error = first_panic(&mut publishers).await.to_string();
        assert!(error.contains("a wrong state"), "{error}");
    }
}
