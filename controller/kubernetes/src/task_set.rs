//! The tasks that run forever, and their watches.

use std::convert::Infallible;
use std::fmt::{Debug, Display};

use kube::Client;
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
use tokio::task::JoinSet;

use super::api::Api;
use super::api_object::ApiObject;
use super::config::Timing;
use super::etcd_restores::EtcdRestores;
use super::list_watch::KindPresence::{self, Optional, Required};
use super::list_watch::ListWatch;
use super::networks::{self, Decoding, KindSource, ObjectSources};
use super::run::RunError;
use super::store::{StoreReader, projected_store};
use super::watch_backoff::Recovery;

/// The tasks that run forever. Dropping the set stops them.
pub(super) struct TaskSet {
    pub(super) running: JoinSet<RunError>,
    timing: Timing,
    recovery: Recovery,
    pub(super) restores: EtcdRestores,
}

impl TaskSet {
    pub(super) fn new(timing: Timing) -> Self {
        Self {
            running: JoinSet::new(),
            timing,
            recovery: Recovery::default(),
            restores: EtcdRestores::default(),
        }
    }

    pub(super) fn spawn<E: Display>(
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
    pub(super) fn watch<K, V>(
        &mut self,
        client: &Client,
        presence: KindPresence,
        project: impl Fn(K) -> V + Send + 'static,
    ) -> StoreReader<V>
    where
        K: ApiObject,
        V: Clone + PartialEq + Send + Sync + 'static,
    {
        let (watch, reader) = self.list_watch(Api::all::<K>(client.clone()), project);
        self.spawn_watch(watch.with_presence(presence));
        reader
    }

    /// Watches the complete objects that both controllers of networks read.
    pub(super) fn watch_network_objects(&mut self, client: &Client) -> ObjectSources {
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
    /// is on. Networks that do not depend on claims or on a feature do not wait for their objects.
    pub(super) fn watch_definitions(
        &mut self,
        client: &Client,
        objects: ObjectSources,
        settings: &ClusterSettings,
    ) -> ObjectSources {
        let mut objects = objects
            .with(self.watch_complete::<UserDefinedNetwork>(client, Required))
            .with(self.watch_complete::<ClusterUserDefinedNetwork>(client, Required))
            .with(self.watch_complete::<ClusterNetworkConnect>(client, Required))
            .with_separate(self.watch_complete::<IPAMClaim>(client, Optional));
        if settings.has_feature(Feature::RouteAdvertisements) {
            let announcements = self.watch_complete::<RouteAdvertisements>(client, Optional);
            objects = objects.with_separate(announcements);
        }
        if settings.has_feature(Feature::Evpn) {
            objects = objects.with_separate(self.watch_complete::<VTEP>(client, Optional));
        }
        let dynamic = [Feature::DynamicUdnAllocation, Feature::EgressIp];
        if dynamic.iter().all(|feature| settings.has_feature(*feature)) {
            objects = objects.with_separate(self.watch_complete::<EgressIP>(client, Optional));
        }
        objects
    }

    /// Adds the objects that only the zone controller reads. Rows that do not follow from policies,
    /// announcements or EgressIPs do not wait for them.
    pub(super) fn watch_services_and_policies(
        &mut self,
        client: &Client,
        objects: ObjectSources,
    ) -> ObjectSources {
        objects
            .with(self.watch_fields::<Service>(client, networks::keep_all))
            .with_separate(self.watch_complete::<NetworkPolicy>(client, Required))
            .with_separate(self.watch_complete::<MultiNetworkPolicy>(client, Optional))
            .with_separate(self.watch_complete::<EgressFirewall>(client, Optional))
            .with_separate(self.watch_complete::<RouteAdvertisements>(client, Optional))
            .with_separate(self.watch_complete::<EgressIP>(client, Optional))
            .with_separate(self.watch_complete::<AdminNetworkPolicy>(client, Optional))
            .with_separate(self.watch_complete::<BaselineAdminNetworkPolicy>(client, Optional))
    }

    /// Watches all objects of a kind, of which every field has to be decoded.
    fn watch_complete<K>(&mut self, client: &Client, presence: KindPresence) -> KindSource
    where
        K: InventoryKind + Debug + Send + Sync + 'static,
    {
        let project = networks::project::<K>(Decoding::Whole, networks::keep_all);
        KindSource::new::<K>(self.watch(client, presence, project))
    }

    /// Watches all objects of a kind, which are used without the fields that cannot be decoded and
    /// without those that `prune` removes.
    fn watch_fields<K>(&mut self, client: &Client, prune: fn(&mut K)) -> KindSource
    where
        K: InventoryKind + Debug + Send + Sync + 'static,
    {
        let project = networks::project(Decoding::WithoutFields, prune);
        KindSource::new::<K>(self.watch(client, Required, project))
    }

    /// Watches the objects of a kind in one namespace, with the given labels.
    pub(super) fn watch_labelled<K, V>(
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
        (watch.with_restores(self.restores.clone()), reader)
    }

    fn spawn_watch(&mut self, watch: ListWatch) {
        self.spawn::<Infallible>("a watch", async move { Ok(watch.run().await) });
    }

    /// Waits for the first task that ends.
    pub(super) async fn first_error(&mut self) -> RunError {
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
