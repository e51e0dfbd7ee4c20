//! Runs the controllers' tasks.

use std::convert::Infallible;
use std::fmt::Debug;
use std::future::Future;
use std::pin::{Pin, pin};

use futures_util::future::BoxFuture;
use kube::Client;
use patchbay_allocate::RouterKeyCursor;
use patchbay_model::{ClusterSettings, Feature};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::ipam_claim::IPAMClaim;
use patchbay_resources::manifests::InventoryKind;
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{
    AdminNetworkPolicy, BaselineAdminNetworkPolicy, EgressFirewall, EgressIP, EndpointSlice,
    MultiNetworkPolicy, Namespace, NetworkPolicy, Node, Pod, RouteAdvertisements, Service, VTEP,
};
use patchbay_resources::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};
use thiserror::Error;
use tokio::sync::watch as channel;
use tokio::task::JoinSet;

use super::api::Api;
use super::api_object::ApiObject;
use super::cluster_manager::{ClusterManagerSources, ClusterManagerTask, CommonSources};
use super::config::{ControllerConfig, Timing};
use super::connect_writer::ConnectWriter;
use super::egress_ips::project_egress_ip;
use super::events::event_channel;
use super::leader_election::LeaderElector;
use super::list_watch::ListWatch;
use super::networks::{
    self, Decoding, KindSource, NetworkManagerTask, NetworkZoneTask, ObjectSources, ObjectWriter,
};
use super::node_subnets::NetworkNumbers;
use super::northbound_client::NorthboundClient;
use super::northbound_reachability::NorthboundReachability;
use super::projections;
use super::report_publisher::{ReportPublisher, ReportSource};
use super::store::{StoreReader, projected_store};
use super::watch_backoff::Recovery;
use super::zone_controller::ZoneControllerTask;
use super::zone_inputs::{ActivitySources, ZoneSources};
use super::zone_lease::{self, ZoneLeaseRenewer};
use super::zone_reports::{self, ZoneReport};

/// A task has ended that should run forever.
#[derive(Debug, Error)]
#[error("{task} has ended: {reason}")]
pub struct RunError {
    task: &'static str,
    reason: String,
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
        connects: tasks.watch(&client, projections::project_connect),
        nads: tasks.watch(&client, projections::project_attachment_definition),
        namespaces: tasks.watch(&client, projections::project_namespace),
    };
    let network_numbers = NetworkNumbers::default();
    let numbers = network_numbers.clone();
    let nodes = tasks.watch(&client, move |object| {
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
        let (elector, term) = LeaderElector::new(client.clone(), settings.lease, identity.clone());
        elector_tasks.spawn(elector.run(stopped));
        let router_keys = RouterKeyCursor::default();
        if let Some(objects) = network_objects
            .clone()
            .filter(|_| settings.manages_networks)
        {
            let task = NetworkManagerTask {
                settings: settings.settings.clone(),
                router_keys: router_keys.clone(),
                sources: tasks.watch_definitions(&client, objects, &settings.settings),
                writer: ObjectWriter {
                    client: client.clone(),
                    request_timeout: timing.request_timeout,
                    term: Some(term.clone()),
                },
                events: events.clone(),
                term: term.clone(),
                timing,
            };
            tasks.spawn("the cluster manager of networks", task.run());
        }
        let task = ClusterManagerTask {
            settings: settings.settings,
            sources: ClusterManagerSources {
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
            },
            network_numbers: network_numbers.clone(),
            router_keys,
            namespace: namespace.clone(),
            writer: ConnectWriter::new(client.clone(), timing.request_timeout, term.clone()),
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
                    request_timeout: timing.request_timeout,
                    term: None,
                },
                events: events.clone(),
                timing,
            };
            tasks.spawn("the zone controller of networks", task.run());
        }
        let activity = settings.dynamic_udn.then(|| ActivitySources {
            pods: tasks.watch(&client, projections::project_pod),
            egress_ips: tasks.watch_optional_kind(&client, project_egress_ip),
        });
        let task = ZoneControllerTask {
            config: settings,
            northbound,
            sources: ZoneSources {
                activity,
                common: sources,
                nodes,
                services: tasks.watch(&client, projections::project_service),
                network_numbers,
            },
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
        () = stop => Ok(()),
    };
    // All writers end before the lease is released.
    tasks.running.shutdown().await;
    stopping.send_replace(true);
    if tokio::time::timeout(timing.request_timeout, elector_tasks.join_next())
        .await
        .is_err()
    {
        tracing::warn!("cannot release the lease; the next leader has to wait for its expiry");
    }
    outcome
}

/// The tasks that run forever. Dropping the set stops them.
struct TaskSet {
    running: JoinSet<RunError>,
    timing: Timing,
    recovery: Recovery,
}

impl TaskSet {
    fn new(timing: Timing) -> Self {
        Self {
            running: JoinSet::new(),
            timing,
            recovery: Recovery::default(),
        }
    }

    fn spawn<E: std::fmt::Display>(
        &mut self,
        task: &'static str,
        work: impl Future<Output = Result<Infallible, E>> + Send + 'static,
    ) {
        self.running.spawn(async move {
            let Err(error) = work.await;
            RunError {
                task,
                reason: error.to_string(),
            }
        });
    }

    /// Watches all objects of a kind.
    fn watch<K, V>(
        &mut self,
        client: &Client,
        project: impl Fn(K) -> V + Send + 'static,
    ) -> StoreReader<V>
    where
        K: ApiObject,
        V: Clone + PartialEq + Send + Sync + 'static,
    {
        let (watch, reader) = self.list_watch(Api::all::<K>(client.clone()), project);
        self.spawn_watch(watch);
        reader
    }

    /// Watches all objects of a kind that the cluster may lack.
    fn watch_optional_kind<K, V>(
        &mut self,
        client: &Client,
        project: impl Fn(K) -> V + Send + 'static,
    ) -> StoreReader<V>
    where
        K: ApiObject,
        V: Clone + PartialEq + Send + Sync + 'static,
    {
        let (watch, reader) = self.list_watch(Api::all::<K>(client.clone()), project);
        self.spawn_watch(watch.optional());
        reader
    }

    /// Watches the complete objects that both controllers of networks read.
    fn watch_network_objects(&mut self, client: &Client) -> ObjectSources {
        let prune_node = networks::without_node_details;
        let prune_pod = networks::without_containers;
        ObjectSources::default()
            .with(self.watch_fields::<Namespace>(client, networks::keep_all))
            .with(self.watch_fields::<Node>(client, prune_node))
            .with(self.watch_fields::<NetworkAttachmentDefinition>(client, networks::keep_all))
            .with(self.watch_fields::<Pod>(client, prune_pod))
            .with(self.watch_fields::<EndpointSlice>(client, networks::keep_all))
    }

    /// Adds the objects that only the cluster manager reads. Those of a feature are watched if it
    /// is on.
    fn watch_definitions(
        &mut self,
        client: &Client,
        objects: ObjectSources,
        settings: &ClusterSettings,
    ) -> ObjectSources {
        let mut objects = objects
            .with(self.watch_complete::<UserDefinedNetwork>(client))
            .with(self.watch_complete::<ClusterUserDefinedNetwork>(client))
            .with(self.watch_optional::<IPAMClaim>(client));
        if settings.has_feature(Feature::RouteAdvertisements) {
            objects = objects.with(self.watch_optional::<RouteAdvertisements>(client));
        }
        if settings.has_feature(Feature::Evpn) {
            objects = objects.with(self.watch_optional::<VTEP>(client));
        }
        if settings.has_feature(Feature::DynamicUdnAllocation) {
            objects = objects.with(self.watch_complete::<ClusterNetworkConnect>(client));
            if settings.has_feature(Feature::EgressIp) {
                objects = objects.with(self.watch_optional::<EgressIP>(client));
            }
        }
        objects
    }

    /// Adds the objects that only the zone controller reads.
    fn watch_services_and_policies(
        &mut self,
        client: &Client,
        objects: ObjectSources,
    ) -> ObjectSources {
        objects
            .with(self.watch_fields::<Service>(client, networks::keep_all))
            .with(self.watch_complete::<NetworkPolicy>(client))
            .with(self.watch_optional::<MultiNetworkPolicy>(client))
            .with(self.watch_optional::<EgressFirewall>(client))
            .with(self.watch_optional::<RouteAdvertisements>(client))
            .with(self.watch_optional::<EgressIP>(client))
            .with(self.watch_optional::<AdminNetworkPolicy>(client))
            .with(self.watch_optional::<BaselineAdminNetworkPolicy>(client))
    }

    /// Watches all objects of a kind, of which every field has to be decoded.
    fn watch_complete<K>(&mut self, client: &Client) -> KindSource
    where
        K: InventoryKind + Debug + Send + Sync + 'static,
    {
        let project = networks::project::<K>(Decoding::Whole, networks::keep_all);
        KindSource::new::<K>(self.watch(client, project))
    }

    /// Watches all objects of a kind that the cluster may lack. Every field has to be decoded.
    fn watch_optional<K>(&mut self, client: &Client) -> KindSource
    where
        K: InventoryKind + Debug + Send + Sync + 'static,
    {
        let project = networks::project::<K>(Decoding::Whole, networks::keep_all);
        KindSource::new::<K>(self.watch_optional_kind(client, project))
    }

    /// Watches all objects of a kind, which are used without the fields that cannot be decoded and
    /// without those that `prune` removes.
    fn watch_fields<K>(&mut self, client: &Client, prune: fn(&mut K)) -> KindSource
    where
        K: InventoryKind + Debug + Send + Sync + 'static,
    {
        let project = networks::project(Decoding::WithoutFields, prune);
        KindSource::new::<K>(self.watch(client, project))
    }

    /// Watches the objects of a kind in one namespace, with the given labels.
    fn watch_labelled<K, V>(
        &mut self,
        client: &Client,
        namespace: &str,
        labels: &'static str,
        project: impl Fn(K) -> V + Send + 'static,
    ) -> StoreReader<V>
    where
        K: ApiObject,
        V: Clone + PartialEq + Send + Sync + 'static,
    {
        let api = Api::namespaced::<K>(client.clone(), namespace);
        let (watch, reader) = self.list_watch(api, project);
        self.spawn_watch(watch.labelled(labels));
        reader
    }

    /// Makes a watch with the store of its objects.
    fn list_watch<K, V>(
        &self,
        api: Api,
        project: impl Fn(K) -> V + Send + 'static,
    ) -> (ListWatch, StoreReader<V>)
    where
        K: ApiObject,
        V: Clone + PartialEq + Send + Sync + 'static,
    {
        let (sink, reader) = projected_store(move |object| K::from_api(object).map(&project));
        let recovery = self.recovery.clone();
        let watch = ListWatch::new(api, K::KIND, self.timing, sink, recovery);
        (watch, reader)
    }

    fn spawn_watch(&mut self, watch: ListWatch) {
        self.spawn::<Infallible>("a watch", async move { Ok(watch.run().await) });
    }

    /// Waits for the first task that ends.
    async fn first_error(&mut self) -> RunError {
        let failed = |reason: String| RunError {
            task: "a task",
            reason,
        };
        match self.running.join_next().await {
            Some(Ok(error)) => error,
            Some(Err(error)) => failed(error.to_string()),
            None => failed("no task is running".to_owned()),
        }
    }
}
