//! Runs the controllers' tasks.

use std::future::Future;
use std::pin::{Pin, pin};

use futures_util::future::BoxFuture;
use kube::Client;
use patchbay_allocate::RouterKeyCursor;
use patchbay_model::Feature;
use patchbay_resources::manifests::ObjectKey;
use thiserror::Error;
use tokio::sync::watch as channel;
use tokio::task::JoinSet;

use super::cluster_manager::{ClusterManagerSources, ClusterManagerTask, CommonSources};
use super::config::ControllerConfig;
use super::connect_writer::ConnectWriter;
use super::egress_ips::project_egress_ip;
use super::events::event_channel;
use super::leader_election::LeaderElector;
use super::list_watch::KindPresence::{Optional, Required};
use super::networks::{NetworkManagerTask, NetworkZoneTask, ObjectWriter};
use super::node_subnets::NetworkNumbers;
use super::northbound_client::NorthboundClient;
use super::northbound_reachability::NorthboundReachability;
use super::projections;
use super::read_failure_events::{ReadFailureEvents, WatchingController};
use super::report_publisher::{ReportPublisher, ReportSource};
use super::task_set::TaskSet;
use super::zone_controller::ZoneControllerTask;
use super::zone_inputs::{ActivitySources, ZoneSources};
use super::zone_lease::{self, ZoneLeaseRenewer};
use super::zone_reports::{self, ZoneReport};

/// Name of the task that emits events about watches.
const WATCH_EVENTS: &str = "the writer of events about watches";

/// A task has ended that should run forever.
#[derive(Debug, Error)]
#[error("{task} has ended: {reason}")]
pub struct RunError {
    pub(super) task: &'static str,
    pub(super) reason: String,
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
    let ControllerConfig {
        cluster,
        zone,
        namespace,
        identity,
        timing,
    } = config;
    let mut tasks = TaskSet::new(timing);
    let sources = CommonSources {
        connects: tasks.watch(&client, Required, projections::project_connect),
        nads: tasks.watch(
            &client,
            Required,
            projections::project_attachment_definition,
        ),
        namespaces: tasks.watch(&client, Required, projections::project_namespace),
    };
    let network_numbers = NetworkNumbers::default();
    let numbers = network_numbers.clone();
    let nodes = tasks.watch(&client, Required, move |object| {
        projections::project_node(object, &numbers)
    });
    let manages_networks = cluster.as_ref().is_some_and(|one| one.manages_networks);
    let writes_networks = zone.as_ref().is_some_and(|zone| zone.networks.is_some());
    let network_objects =
        (manages_networks || writes_networks).then(|| tasks.watch_network_objects(&client));
    let (stopping, stopped) = channel::channel(false);
    let mut elector_tasks = JoinSet::new();
    let mut publishers = JoinSet::new();
    let (events, publisher) = event_channel(client.clone(), identity.clone(), timing);
    publishers.spawn(publisher);
    if let Some(settings) = cluster {
        let lease = ObjectKey::namespaced(&*settings.lease.namespace, &*settings.lease.name);
        let (elector, term) = LeaderElector::new(client.clone(), settings.lease, identity.clone());
        elector_tasks.spawn(elector.run(stopped));
        let router_keys = RouterKeyCursor::default();
        if let Some(objects) = network_objects
            .clone()
            .filter(|_| settings.manages_networks)
        {
            let task = NetworkManagerTask {
                settings: settings.settings.clone(),
                lease: lease.clone(),
                router_keys: router_keys.clone(),
                sources: tasks.watch_definitions(&client, objects, &settings.settings),
                writer: ObjectWriter {
                    client: client.clone(),
                    timing,
                    term: Some(term.clone()),
                },
                events: events.clone(),
                term: term.clone(),
                timing,
            };
            tasks.spawn("the cluster manager of networks", task.run());
        }
        let manager_sources = ClusterManagerSources {
            common: sources.clone(),
            nodes: nodes.clone(),
            reports: tasks.watch_labelled(
                &client,
                &namespace,
                zone_reports::SELECTOR,
                zone_reports::project_report,
            ),
            leases: tasks.watch_labelled(
                &client,
                &namespace,
                zone_reports::SELECTOR,
                zone_lease::project_lease,
            ),
        };
        let failures = ReadFailureEvents {
            controller: WatchingController::ClusterManager {
                lease,
                term: term.clone(),
            },
            watches: manager_sources.watches(),
            events: events.clone(),
        };
        tasks.spawn(WATCH_EVENTS, failures.run());
        let task = ClusterManagerTask {
            settings: settings.settings,
            sources: manager_sources,
            network_numbers: network_numbers.clone(),
            router_keys,
            namespace: namespace.clone(),
            writer: ConnectWriter::new(client.clone(), timing.write_timeout, term.clone()),
            events: events.clone(),
            term,
            timing,
        };
        tasks.spawn("the cluster manager", task.run());
    }
    if let Some(settings) = zone {
        let (report_sender, report_receiver) = channel::channel(ZoneReport::default());
        let (is_unreachable, unreachable) = channel::channel(false);
        let renewer = ZoneLeaseRenewer {
            client: client.clone(),
            namespace: namespace.clone(),
            zone: settings.zone.clone(),
            identity,
            nodes: nodes.clone(),
            restores: tasks.restores.clone(),
            timing,
        };
        publishers.spawn(renewer.run());
        let publisher = ReportPublisher {
            client: client.clone(),
            namespace,
            source: ReportSource {
                zone: settings.zone.clone(),
                reports: report_receiver,
                is_unreachable: unreachable,
                connects: sources.connects.clone(),
                nodes: nodes.clone(),
            },
            restores: tasks.restores.clone(),
            timing,
        };
        publishers.spawn(publisher.run());
        let northbound = NorthboundClient::new(&settings, timing);
        if let Some((objects, cluster)) = network_objects.zip(settings.networks.clone()) {
            let task = NetworkZoneTask {
                zone: settings.zone.clone(),
                settings: cluster,
                northbound: northbound.clone(),
                sources: tasks.watch_services_and_policies(&client, objects),
                writer: ObjectWriter {
                    client: client.clone(),
                    timing,
                    term: None,
                },
                events: events.clone(),
                timing,
            };
            tasks.spawn("the zone controller of networks", task.run());
        }
        let is_dynamic = (settings.settings).has_feature(Feature::DynamicUdnAllocation);
        let activity = is_dynamic.then(|| ActivitySources {
            pods: tasks.watch(&client, Required, projections::project_pod),
            egress_ips: tasks.watch(&client, Optional, project_egress_ip),
        });
        let zone_sources = ZoneSources {
            activity,
            common: sources,
            nodes: nodes.clone(),
            services: tasks.watch(&client, Required, projections::project_service),
            network_numbers,
        };
        let failures = ReadFailureEvents {
            controller: WatchingController::Zone {
                zone: settings.zone.clone(),
                nodes,
            },
            watches: zone_sources.watches(),
            events,
        };
        tasks.spawn(WATCH_EVENTS, failures.run());
        let task = ZoneControllerTask {
            config: settings,
            northbound,
            sources: zone_sources,
            report_sender,
            reachability: NorthboundReachability {
                is_unreachable,
                grace_period: timing.report_interval,
            },
            timing,
        };
        tasks.spawn("the zone controller", task.run());
    }
    let outcome = tokio::select! {
        error = tasks.first_error() => Err(error),
        error = first_panic(&mut publishers) => Err(error),
        () = stop => Ok(()),
    };
    // All writers end before the lease is released.
    tasks.running.shutdown().await;
    publishers.shutdown().await;
    stopping.send_replace(true);
    if tokio::time::timeout(timing.request_timeout, elector_tasks.join_next())
        .await
        .is_err()
    {
        tracing::warn!("cannot release the lease; the next leader has to wait for its expiry");
    }
    outcome
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
