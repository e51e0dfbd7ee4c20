//! A zone with pods, a policy and a service, in this process.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use patchbay_benches::stopwatch::Stopwatch;
use patchbay_engine::db::Database;
use patchbay_engine::txn::TxnBuilder;
use patchbay_model::{
    AttachmentDefinition, ClusterSettings, Endpoint, EndpointPort, EndpointSlice, EndpointState,
    NadKey, NetworkObjects, Networks, NodeObject, Pod, Protocol, ServiceKey,
};
use patchbay_pods::{AllocationScope, PodAllocator, Pods};
use patchbay_policies::Policies;
use patchbay_resources::conversion;
use patchbay_rows::{Change, Engine, PlanError};
use patchbay_schemas::nb::{self, LoadBalancerGroup, LogicalRouter, LogicalSwitch};
use patchbay_schemas::uuids::UuidSource;
use patchbay_services::Services;
use patchbay_zone::ZoneObjects;
use serde_json::json;

/// Pods that come one by one.
const SINGLE_PODS: usize = 50;
/// Endpoints of one slice, as Kubernetes cuts them.
const SLICE_ENDPOINTS: usize = 100;
/// Pods for each endpoint of the service.
const ENDPOINT_PODS: usize = 10;
/// Measurements of which the best one counts.
const RUNS: usize = 3;

/// Configuration of the network.
const CONFIG: &str = r#"{"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16","name":"blue_l3","netAttachDefName":"blue/l3","role":"primary","subnets":"10.0.0.0/8/16","topology":"layer3","type":"ovn-k8s-cni-overlay"}"#;

/// Figures of one number of pods.
#[derive(Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) pods_first: Duration,
    pub(crate) pods_commit: Duration,
    pub(crate) pod_added: Duration,
    /// The pass after the transaction, which reads the written rows.
    pub(crate) next_pass: Duration,
    pub(crate) unchanged: Duration,
    pub(crate) policy_first: Duration,
    pub(crate) policy_pod_added: Duration,
    pub(crate) service_first: Duration,
    pub(crate) endpoint_removed: Duration,
}

impl Figures {
    fn best(self, other: Self) -> Self {
        Self {
            pods_first: self.pods_first.min(other.pods_first),
            pods_commit: self.pods_commit.min(other.pods_commit),
            pod_added: self.pod_added.min(other.pod_added),
            next_pass: self.next_pass.min(other.next_pass),
            unchanged: self.unchanged.min(other.unchanged),
            policy_first: self.policy_first.min(other.policy_first),
            policy_pod_added: self.policy_pod_added.min(other.policy_pod_added),
            service_first: self.service_first.min(other.service_first),
            endpoint_removed: self.endpoint_removed.min(other.endpoint_removed),
        }
    }
}

/// Measures a zone with this many pods.
pub(crate) fn measure(count: usize) -> Result<Figures> {
    let first = measure_once(count)?;
    (1..RUNS).try_fold(first, |best, _| Ok(best.best(measure_once(count)?)))
}

fn measure_once(count: usize) -> Result<Figures> {
    let objects: Vec<Arc<Pod>> = (0..count + SINGLE_PODS).map(pod).collect::<Result<_>>()?;
    let (pods, more) = objects.split_at(count);
    let mut zone = Zone::new()?;
    let (pods_first, change) = zone.add_pods(pods)?;
    let pods_commit = zone.commit(change)?;
    let (next_pass, change) = zone.plan_pods()?;
    ensure!(change.transaction.is_none(), "a pass without changes has a transaction");

    let (unchanged, _) = zone.plan_pods()?;

    let watch = Stopwatch::start()?;
    zone.add_policy()?;
    let change = zone.plan_policies()?;
    let policy_first = watch.stop()?;
    ensure!(change.transaction.is_some(), "the policy has no rows");
    zone.commit(change)?;
    zone.plan_policies()?;

    let (mut pod_added, mut policy_pod_added) = (Duration::MAX, Duration::MAX);
    for pod in more {
        let (time, change) = zone.add_pods(std::slice::from_ref(pod))?;
        pod_added = pod_added.min(time);
        zone.commit(change)?;
        zone.plan_pods()?;
        let watch = Stopwatch::start()?;
        let change = zone.plan_policies()?;
        policy_pod_added = policy_pod_added.min(watch.stop()?);
        ensure!(change.transaction.is_some(), "the policy does not select a pod");
        zone.commit(change)?;
        zone.plan_policies()?;
    }

    let endpoints = count / ENDPOINT_PODS;
    let watch = Stopwatch::start()?;
    zone.add_service(endpoints)?;
    let change = zone.plan_services()?;
    let service_first = watch.stop()?;
    ensure!(change.transaction.is_some(), "the service has no rows");
    zone.commit(change)?;
    zone.plan_services()?;
    let watch = Stopwatch::start()?;
    zone.objects.put_slice(slice(0, 0..SLICE_ENDPOINTS - 1));
    let change = zone.plan_services()?;
    let endpoint_removed = watch.stop()?;
    ensure!(change.transaction.is_some(), "the endpoint is still there");
    zone.commit(change)?;

    Ok(Figures {
        pods_first,
        pods_commit,
        pod_added,
        next_pass,
        unchanged,
        policy_first,
        policy_pod_added,
        service_first,
        endpoint_removed,
    })
}

pub(crate) fn pod(number: usize) -> Result<Arc<Pod>> {
    let object = serde_json::from_value(json!({
        "metadata": {
            "namespace": "blue", "name": format!("web-{number:05}"),
            "uid": format!("5f6c3c1e-0000-4000-8000-{number:012}"), "labels": {"app": "web"},
        },
        "spec": {"nodeName": "n1", "containers": []},
    }))?;
    Ok(Arc::new(conversion::pod(&object)))
}

/// A mirrored slice with ready endpoints.
fn slice(number: usize, endpoints: std::ops::Range<usize>) -> EndpointSlice {
    let endpoints = endpoints.map(|endpoint| {
        let place = number * SLICE_ENDPOINTS + endpoint + 256;
        let [_, _, third, fourth] = u32::try_from(place).unwrap_or_default().to_be_bytes();
        Endpoint {
            addresses: vec![IpAddr::V4(Ipv4Addr::new(10, 0, third, fourth))],
            node: Some("n1".into()),
            state: EndpointState::Ready,
        }
    });
    EndpointSlice {
        service: service_key(),
        name: format!("web-{number}").into(),
        network: Some("blue_l3".to_owned()),
        endpoints: endpoints.collect(),
        ports: vec![EndpointPort { name: String::new(), protocol: Protocol::Tcp, port: 8080 }],
    }
}

fn service_key() -> ServiceKey {
    ServiceKey { namespace: "blue".into(), name: "web".into() }
}

/// A zone with its database and controllers.
pub(crate) struct Zone {
    pub(crate) objects: ZoneObjects,
    pub(crate) allocator: PodAllocator,
    pub(crate) pod_controller: Engine<Pods>,
    pub(crate) policy_controller: Engine<Policies>,
    pub(crate) service_controller: Engine<Services>,
    pub(crate) database: Database,
}

impl Zone {
    /// A zone with the rows of a layer3 network that other capabilities write.
    pub(crate) fn new() -> Result<Self> {
        let mut database = Database::with_uuids(nb::schema(), UuidSource::seeded(1));
        let mut txn = TxnBuilder::new(&database.snapshot());
        txn.insert(&LogicalSwitch { name: "blue_l3_n1".to_owned(), ..LogicalSwitch::default() })?;
        txn.insert(&LogicalRouter {
            name: "GR_blue_l3_n1".to_owned(),
            ..LogicalRouter::default()
        })?;
        txn.insert(&LoadBalancerGroup {
            name: "blue_l3_clusterLBGroup".to_owned(),
            ..LoadBalancerGroup::default()
        })?;
        database.transact(txn.finish().operations())?;

        let key = NadKey { namespace: "blue".to_owned(), name: "l3".to_owned() };
        let definition = AttachmentDefinition {
            key: key.clone(),
            config: Some(CONFIG),
            network_id: Some("1"),
            network_name: None,
            tunnel_keys: None,
            advertisements: None,
            owner_network: None,
        };
        let labelled = BTreeSet::from(["blue".to_owned()]);
        let annotations: BTreeMap<String, String> = [
            ("k8s.ovn.org/node-id", "2"),
            ("k8s.ovn.org/node-subnets", r#"{"blue_l3":["10.0.0.0/16"]}"#),
            ("k8s.ovn.org/node-chassis-id", "c1"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        let node =
            NodeObject { name: "n1", created: None, labels: None, annotations: Some(&annotations) };
        let objects = NetworkObjects {
            networks: Networks::from_definitions([definition.clone()], &labelled),
            definitions: [(key, definition)].into(),
            nodes: vec![node],
            services: Vec::new(),
            advertisements: Vec::new(),
        };
        let settings = ClusterSettings::default();
        let mut zone_objects = ZoneObjects::new("n1", &settings);
        zone_objects.set_objects(&objects, &labelled);
        zone_objects.put_namespace("blue", &BTreeMap::new(), &BTreeMap::new());
        Ok(Self {
            objects: zone_objects,
            allocator: PodAllocator::new(AllocationScope::Zone),
            pod_controller: Engine::new(UuidSource::seeded(2)),
            policy_controller: Engine::new(UuidSource::seeded(3)),
            service_controller: Engine::new(UuidSource::seeded(4)),
            database,
        })
    }

    /// Adds pods, allocates their addresses and plans their rows.
    pub(crate) fn add_pods(&mut self, pods: &[Arc<Pod>]) -> Result<(Duration, Change)> {
        let watch = Stopwatch::start()?;
        for pod in pods {
            self.objects.put_pod(pod.clone());
        }
        for (key, networks) in self.allocator.allocate(&self.objects).clone() {
            let pod = self.objects.pod(&key).map(|pod| (**pod).clone());
            if let Some(mut pod) = pod {
                pod.networks = networks;
                self.objects.put_pod(Arc::new(pod));
            }
        }
        let allocation = watch.stop()?;
        let (planning, change) = self.plan_pods()?;
        ensure!(change.transaction.is_some(), "the pods have no rows");
        Ok((allocation + planning, change))
    }

    pub(crate) fn plan_pods(&mut self) -> Result<(Duration, Change)> {
        let watch = Stopwatch::start()?;
        ensure!(self.allocator.allocate(&self.objects).is_empty(), "pods without addresses");
        let snapshot = self.database.snapshot();
        let change = self.pod_controller.plan(&self.objects, &snapshot).into_change()?;
        Ok((watch.stop()?, change))
    }

    /// Adds a policy that lets all pods of the namespace in.
    fn add_policy(&mut self) -> Result<()> {
        let policy = serde_json::from_value(json!({
            "metadata": {"namespace": "blue", "name": "web"},
            "spec": {
                "podSelector": {"matchLabels": {"app": "web"}},
                "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}]}],
            },
        }))?;
        self.objects.put_policy(conversion::network_policy(&policy));
        Ok(())
    }

    fn plan_policies(&mut self) -> Result<Change, PlanError> {
        let snapshot = self.database.snapshot();
        self.policy_controller.plan(&self.objects, &snapshot).into_change()
    }

    fn add_service(&mut self, endpoints: usize) -> Result<()> {
        let service = serde_json::from_value(json!({
            "metadata": {"namespace": "blue", "name": "web"},
            "spec": {
                "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"], "type": "ClusterIP",
                "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}],
            },
        }))?;
        self.objects.put_service(conversion::network_service(&service));
        for number in 0..endpoints.div_ceil(SLICE_ENDPOINTS) {
            self.objects.put_slice(slice(number, 0..SLICE_ENDPOINTS));
        }
        Ok(())
    }

    fn plan_services(&mut self) -> Result<Change, PlanError> {
        let snapshot = self.database.snapshot();
        self.service_controller.plan(&self.objects, &snapshot).into_change()
    }

    /// Commits a change. Returns the time of the transaction.
    pub(crate) fn commit(&mut self, change: Change) -> Result<Duration> {
        ensure!(!change.more, "the change does not fit one transaction");
        let watch = Stopwatch::start()?;
        if let Some(transaction) = change.transaction {
            let done = self.database.transact(transaction.operations());
            done.context("the transaction is refused")?;
        }
        watch.stop()
    }
}
