//! Runs the controllers' tasks.

use std::future::Future;
use std::pin::{Pin, pin};

use futures_util::future::BoxFuture;
use kube::Client;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::platform::Lease;
use patchbay_resources::object::{ConfigMap, Node, Object as _};
use thiserror::Error;
use tokio::sync::watch as channel;
use tokio::task::JoinSet;

use crate::api::api_object::decode;
use crate::config::{ClusterManagerConfig, ControllerConfig, Timing, ZoneControllerConfig};
use crate::election::leader_election::{LeaderElector, LeaderTerm};
use crate::events::queue::{EventSender, event_channel};
use crate::events::read_failure_events::{KindWatch, ReadFailureEvents, WatchingController};
use crate::manager::manager_task::ManagerTask;
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
    publishers.spawn(publisher);
    let process =
        Process { client, namespace: config.namespace, identity: config.identity, events, timing };
    if let Some(settings) = config.cluster {
        let elector = process.start_manager(&mut tasks, settings, watched.manager);
        elector_tasks.spawn(elector.run(stopped));
    }
    if let Some(settings) = config.zone {
        process.start_zone(&mut tasks, &mut publishers, settings, watched.zone);
    }
    drop(process);
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

/// What the controllers of this process share.
struct Process {
    client: Client,
    /// Namespace of the zones' reports and leases.
    namespace: String,
    identity: String,
    events: EventSender,
    timing: Timing,
}

impl Process {
    /// Starts the cluster manager. Returns its elector.
    fn start_manager(
        &self,
        tasks: &mut TaskSet,
        config: ClusterManagerConfig,
        sources: ObjectSources,
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
        let mut watches = sources.watches();
        watches.extend([
            KindWatch::new(ConfigMap::KIND, true, &zones.reports),
            KindWatch::new(Lease::KIND, true, &zones.leases),
        ]);
        let controller = WatchingController::ClusterManager { lease, term: term.clone() };
        self.start_watch_events(tasks, controller, watches);
        let task = ManagerTask {
            settings: config.settings,
            manages_networks: config.manages_networks,
            namespace: namespace.clone(),
            sources,
            zones,
            writer: self.writer(Some(term.clone())),
            events: self.events.clone(),
            term,
            timing: self.timing,
        };
        tasks.spawn("the cluster manager", task.run());
        elector
    }

    /// Starts the zone controller, and the writers of the zone's report and lease.
    fn start_zone(
        &self,
        tasks: &mut TaskSet,
        publishers: &mut JoinSet<()>,
        config: ZoneControllerConfig,
        sources: ObjectSources,
    ) {
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
        publishers.spawn(renewer.run());
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
        publishers.spawn(publisher.run());
        let zone = config.zone.clone();
        let controller = WatchingController::Zone { zone, nodes };
        self.start_watch_events(tasks, controller, sources.watches());
        let task = ZoneTask {
            config,
            sources,
            writer: self.writer(None),
            events: self.events.clone(),
            report_sender,
            reachability: NorthboundReachability {
                is_unreachable,
                grace_period: self.timing.report_interval,
            },
            timing: self.timing,
        };
        tasks.spawn("the zone controller", task.run());
    }

    /// Starts the task that emits events about watches that fail.
    fn start_watch_events(
        &self,
        tasks: &mut TaskSet,
        controller: WatchingController,
        watches: Vec<KindWatch>,
    ) {
        let failures = ReadFailureEvents { controller, watches, events: self.events.clone() };
        tasks.spawn("the writer of events about watches", failures.run());
    }

    fn writer(&self, term: Option<channel::Receiver<Option<LeaderTerm>>>) -> ObjectWriter {
        ObjectWriter { client: self.client.clone(), timing: self.timing, term }
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
