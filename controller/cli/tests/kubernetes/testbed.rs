//! The documentation's example in an API server and in the Northbound databases of its zones.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Config as ClientConfig, Resource, ResourceExt};
use patchbay_allocate::networks::resolve;
use patchbay_crds as crd;
use patchbay_kubernetes::{
    ClusterManagerConfig, ControllerConfig, LeaseConfig, RunError, Timing, ZoneControllerConfig,
    ZoneLeaseTiming, run,
};
use patchbay_model::{ClusterSettings, IpFamily};
use patchbay_resources::manifests::{Inventory, read_manifests};
use patchbay_resources::object::Time;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, oneshot};
use tokio::task::JoinHandle;

use crate::apiserver::ApiServer;
use crate::stored::{
    ClusterNetworkConnect, ClusterUserDefinedNetwork, NetworkAttachmentDefinition, converted,
};
use crate::zone_database::Zone;

/// Name of the example's ClusterNetworkConnect.
pub(crate) const CONNECT: &str = "blue-green-connect";
/// The zone that most tests check.
pub(crate) const ZONE: &str = "ovn-worker";

const SUBNETS: &str = "k8s.ovn.org/network-connect-subnet";
const TUNNEL_KEY: &str = "k8s.ovn.org/connect-router-tunnel-key";
/// Namespace of the controller's own objects.
pub(crate) const NAMESPACE: &str = "default";
const LEASE: &str = "patchbay-cluster";
/// Namespace of events about `ClusterNetworkConnect`s.
const EVENTS: &str = "default";
/// Label of everything that tests create, for its deletion.
const LABEL: &str = "patchbay-test";

/// Lets one test at a time use the real API server.
static REAL: Mutex<()> = Mutex::const_new(());
/// Number of tests that use the real API server or wait for it.
static USERS: AtomicUsize = AtomicUsize::new(0);

/// Registration of a test that uses the real API server.
struct User;

impl User {
    fn new() -> Self {
        USERS.fetch_add(1, Ordering::SeqCst);
        Self
    }

    /// `true` if no other test needs the shared definitions.
    fn is_last() -> bool {
        USERS.load(Ordering::SeqCst) == 1
    }
}

impl Drop for User {
    fn drop(&mut self) {
        USERS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An API server with the nodes, namespaces and networks of the example.
pub(crate) struct Testbed {
    /// The in-process server. `None`: a real server.
    pub(crate) api: Option<ApiServer>,
    pub(crate) client: Client,
    pub(crate) inventory: Inventory,
    /// `true` if networks are rendered only on nodes with pods or egress IPs.
    pub(crate) dynamic_udn: bool,
    /// `true` if the controllers write the networks themselves.
    pub(crate) networks: bool,
    /// Time-out of requests.
    pub(crate) request: Duration,
    /// Longest silence on a watch.
    pub(crate) idle: Duration,
    /// Interval of unchanged reports.
    pub(crate) repeat: Duration,
    /// Time for which reports are collected.
    pub(crate) report: Duration,
    /// Time without renewals from which a zone counts as not running.
    pub(crate) zone_lease: Duration,
    /// Time that the zone of a new node has for its first report.
    pub(crate) join: Duration,
    _alone: Option<(User, MutexGuard<'static, ()>)>,
}

impl Testbed {
    /// Uses the in-process server, or the real one that the environment names.
    pub(crate) async fn new() -> Self {
        let bed = match std::env::var_os("PATCHBAY_TEST_KUBECONFIG") {
            None => Self::simulated_server().await,
            Some(path) => Self::real(&PathBuf::from(path)).await,
        };
        bed.make_example().await;
        bed
    }

    /// A real server, possibly with other objects.
    async fn real(kubeconfig: &Path) -> Self {
        let user = User::new();
        let file = Kubeconfig::read_from(kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        let config = ClientConfig::from_custom_kubeconfig(file, &options).await;
        let bed = Self {
            api: None,
            client: patchbay_kubernetes::client(config.unwrap()).unwrap(),
            inventory: example(),
            dynamic_udn: false,
            networks: false,
            request: Duration::from_secs(5),
            idle: Timing::default().watch_idle_timeout,
            repeat: Timing::default().report_refresh_interval,
            report: Duration::from_millis(50),
            zone_lease: Duration::from_secs(60),
            join: Duration::ZERO,
            _alone: Some((user, REAL.lock().await)),
        };
        bed.define_resources().await;
        bed.delete_all().await;
        bed
    }

    /// The in-process server, with fault injection.
    pub(crate) async fn simulated() -> Self {
        let bed = Self::simulated_server().await;
        bed.make_example().await;
        bed
    }

    async fn simulated_server() -> Self {
        let api = ApiServer::start().await;
        Self {
            client: api.client(),
            api: Some(api),
            inventory: example(),
            dynamic_udn: false,
            networks: false,
            request: Duration::from_secs(5),
            idle: Timing::default().watch_idle_timeout,
            repeat: Timing::default().report_refresh_interval,
            report: Duration::from_millis(50),
            zone_lease: Duration::from_secs(60),
            join: Duration::ZERO,
            _alone: None,
        }
    }

    pub(crate) fn api(&self) -> &ApiServer {
        self.api
            .as_ref()
            .expect("the test needs the in-process server")
    }

    /// Creates missing resource definitions, as `patchbay crds` prints them.
    async fn define_resources(&self) {
        let api = Api::<CustomResourceDefinition>::all(self.client.clone());
        let definitions = [
            crd::cluster_network_connect(),
            crd::user_defined_network(),
            crd::cluster_user_defined_network(),
            crd::network_attachment_definition(),
        ];
        for definition in definitions {
            let name = definition.name_any();
            if api.get_opt(&name).await.unwrap().is_none() {
                let created = api
                    .create(&PostParams::default(), &labelled(&definition))
                    .await;
                created.unwrap();
            }
            let established = format!("{name} is established");
            eventually(&established, async || {
                let definition = api.get(&name).await.unwrap();
                let conditions = definition.status?.conditions?;
                let holds = |type_| {
                    let mut all = conditions.iter();
                    all.any(|one| one.type_ == type_ && one.status == "True")
                };
                holds("Established").then_some(())
            })
            .await;
        }
    }

    /// Deletes the definitions that tests have created.
    async fn remove_definitions(&self) {
        let api = Api::<CustomResourceDefinition>::all(self.client.clone());
        let labelled = ListParams::default().labels(LABEL);
        api.delete_collection(&DeleteParams::default(), &labelled)
            .await
            .unwrap();
        eventually("the definitions are gone", async || {
            let left = api.list(&labelled).await.unwrap();
            left.items.is_empty().then_some(())
        })
        .await;
    }

    async fn make_example(&self) {
        for (_, namespace) in self.inventory.namespaces.iter() {
            self.create(&converted::<Namespace>(&namespace.object))
                .await;
        }
        for (_, node) in self.inventory.nodes.iter() {
            self.create(&converted::<Node>(&node.object)).await;
        }
        // Owners come first, because objects without their owner are garbage-collected.
        let mut owners = BTreeMap::new();
        for (key, network) in self.inventory.cluster_user_defined_networks.iter() {
            let mut network: ClusterUserDefinedNetwork = converted(&network.object);
            network.status = None;
            owners.insert(key.name.clone(), self.create(&network).await.uid());
        }
        for (_, nad) in self.inventory.network_attachment_definitions.iter() {
            let mut nad: NetworkAttachmentDefinition = converted(&nad.object);
            for owner in nad.owner_references_mut() {
                if let Some(Some(uid)) = owners.get(&owner.name) {
                    owner.uid.clone_from(uid);
                }
            }
            self.create_in(&nad).await;
        }
    }

    pub(crate) async fn create<K>(&self, object: &K) -> K
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
    {
        let api = Api::<K>::all(self.client.clone());
        api.create(&PostParams::default(), &labelled(object))
            .await
            .unwrap()
    }

    pub(crate) async fn create_in<K>(&self, object: &K) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        let namespace = object.namespace().unwrap();
        let api = Api::<K>::namespaced(self.client.clone(), &namespace);
        api.create(&PostParams::default(), &labelled(object))
            .await
            .unwrap()
    }

    pub(crate) fn connects(&self) -> Api<ClusterNetworkConnect> {
        Api::all(self.client.clone())
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub(crate) fn nads(&self, namespace: &str) -> Api<NetworkAttachmentDefinition> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Creates the example's ClusterNetworkConnect.
    pub(crate) async fn connect(&self) -> ClusterNetworkConnect {
        self.create(&connect()).await
    }

    /// The current ClusterNetworkConnect.
    pub(crate) async fn connected(&self) -> ClusterNetworkConnect {
        self.connects().get(CONNECT).await.unwrap()
    }

    /// Waits until the ClusterNetworkConnect is accepted and has subnets for `networks` networks.
    pub(crate) async fn until_allocated(&self, networks: usize) -> ClusterNetworkConnect {
        let described = format!("subnets for {networks} networks");
        eventually(&described, async || {
            let connect = self.connects().get_opt(CONNECT).await.unwrap()?;
            let is_done = subnets(&connect).len() == networks && accepted(&connect)?.0 == "True";
            is_done.then_some(connect)
        })
        .await
    }

    /// Reason and note of all events about the ClusterNetworkConnect.
    pub(crate) async fn events(&self) -> Vec<(String, String)> {
        let connect = self.connects().get_opt(CONNECT).await.unwrap();
        let Some(uid) = connect.and_then(|connect| connect.uid()) else {
            return Vec::new();
        };
        let api = Api::<Event>::namespaced(self.client.clone(), EVENTS);
        let events = api.list(&ListParams::default()).await.unwrap();
        events
            .into_iter()
            .filter(|event| {
                let regarding = event.regarding.as_ref();
                regarding.is_some_and(|regarding| regarding.uid.as_ref() == Some(&uid))
            })
            .map(|event| {
                (
                    event.reason.unwrap_or_default(),
                    event.note.unwrap_or_default(),
                )
            })
            .collect()
    }

    pub(crate) async fn label_nad(&self, namespace: &str, labels: &Value) {
        let nads = self.nads(namespace);
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        for nad in nads.list(&ListParams::default()).await.unwrap() {
            nads.patch(&nad.name_any(), &PatchParams::default(), &patch)
                .await
                .unwrap();
        }
    }

    /// The Northbound database of a zone, with the routers and switches of all networks.
    pub(crate) async fn zone(&self, name: &str) -> Zone {
        let zone = Zone::without_networks(name).await;
        zone.add_networks(&self.inventory);
        zone
    }

    /// Runs a cluster manager.
    pub(crate) fn run_cluster(&self, identity: &str) -> Running {
        self.run(identity, true, None)
    }

    /// Runs a zone controller.
    pub(crate) fn run_zone(&self, zone: &Zone) -> Running {
        self.run(&zone.name, false, Some(zone))
    }

    pub(crate) fn run(&self, identity: &str, cluster: bool, zone: Option<&Zone>) -> Running {
        let zone = zone.map(|zone| (&*zone.name, zone.remote()));
        self.run_on(identity, cluster, zone)
    }

    /// Runs a cluster manager, a zone controller for a name and a remote, or both.
    pub(crate) fn run_on(
        &self,
        identity: &str,
        cluster: bool,
        zone: Option<(&str, &str)>,
    ) -> Running {
        let lease = LeaseConfig {
            duration: Duration::from_secs(1),
            renew_deadline: Duration::from_millis(700),
            retry: Duration::from_millis(100),
            ..LeaseConfig::new(NAMESPACE, LEASE)
        };
        let settings = ClusterSettings {
            families: vec![IpFamily::V4],
            service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
            ..ClusterSettings::default()
        };
        let config = ControllerConfig {
            cluster: cluster.then(|| ClusterManagerConfig {
                settings: settings.clone(),
                manages_networks: self.networks,
                lease,
            }),
            zone: zone.map(|(name, remote)| ZoneControllerConfig {
                zone: name.to_owned(),
                families: vec![IpFamily::V4],
                service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
                dynamic_udn: self.dynamic_udn,
                networks: self.networks.then(|| settings.clone()),
                northbound: remote.parse().unwrap(),
                tls: None,
            }),
            namespace: NAMESPACE.to_owned(),
            identity: identity.to_owned(),
            timing: Timing {
                debounce_quiet: Duration::from_millis(5),
                debounce_max: Duration::from_millis(50),
                retry: (Duration::from_millis(20), Duration::from_millis(200)),
                request_timeout: self.request,
                watch_idle_timeout: self.idle,
                report_interval: self.report,
                report_refresh_interval: self.repeat,
                zone_lease: ZoneLeaseTiming {
                    renew_interval: Duration::from_millis(100),
                    duration: self.zone_lease,
                    check_interval: Duration::from_millis(20),
                },
                join_grace_period: self.join,
            },
        };
        // A client of its own, like another process, with the rights of the service accounts.
        let accounts = [
            cluster.then_some("patchbay-cluster"),
            zone.map(|_| "patchbay-zone"),
            (cluster && self.networks).then_some("patchbay-cluster/networks"),
            zone.filter(|_| self.networks)
                .map(|_| "patchbay-zone/networks"),
        ];
        let accounts: Vec<&str> = accounts.into_iter().flatten().collect();
        let client = self.api.as_ref();
        let client = client.map_or_else(|| self.client.clone(), |api| api.client_of(&accounts));
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let stopped = async {
                stopped.await.unwrap_or_default();
            };
            run(client, config, stopped).await
        });
        Running { stop, task }
    }

    /// Deletes everything that the test has created, and after the last test the shared
    /// definitions.
    pub(crate) async fn clear(self) {
        self.delete_all().await;
        if self.api.is_none() && User::is_last() {
            self.remove_definitions().await;
        }
    }

    async fn delete_all(&self) {
        if self.api.is_none() {
            let (all, delete) = (ListParams::default().labels(LABEL), DeleteParams::default());
            self.connects()
                .delete_collection(&delete, &all)
                .await
                .unwrap();
            self.nodes().delete_collection(&delete, &all).await.unwrap();
            let networks = Api::<ClusterUserDefinedNetwork>::all(self.client.clone());
            networks.delete_collection(&delete, &all).await.unwrap();
            let reports = Api::<ConfigMap>::namespaced(self.client.clone(), NAMESPACE);
            let of_zones =
                ListParams::default().labels("app.kubernetes.io/component=patchbay-zone");
            reports.delete_collection(&delete, &of_zones).await.unwrap();
            let leases = Api::<LeaseObject>::namespaced(self.client.clone(), NAMESPACE);
            leases.delete_collection(&delete, &of_zones).await.unwrap();
            if leases.get_opt(LEASE).await.unwrap().is_some() {
                leases.delete(LEASE, &delete).await.unwrap();
            }
            let namespaces = Api::<Namespace>::all(self.client.clone());
            for namespace in namespaces.list(&all).await.unwrap() {
                let name = namespace.name_any();
                self.nads(&name)
                    .delete_collection(&delete, &all)
                    .await
                    .unwrap();
                namespaces.delete(&name, &delete).await.unwrap();
                if !self.has_controllers().await {
                    finalize(&self.client, &name).await;
                }
            }
            let gone = "the namespaces are gone";
            eventually(gone, async || {
                let left = namespaces.list(&all).await.unwrap();
                left.items.is_empty().then_some(())
            })
            .await;
            let events = Api::<Event>::namespaced(self.client.clone(), EVENTS);
            let all = events.list(&ListParams::default()).await.unwrap();
            let is_own = |event: &Event| event.reporting_controller.as_deref() == Some("patchbay");
            for event in all.into_iter().filter(is_own) {
                events.delete(&event.name_any(), &delete).await.unwrap();
            }
        }
    }
}

impl Testbed {
    /// `true` if a controller manager runs, which empties deleted namespaces.
    async fn has_controllers(&self) -> bool {
        let leases = Api::<LeaseObject>::namespaced(self.client.clone(), "kube-system");
        let lease = leases.get_opt("kube-controller-manager").await.unwrap();
        lease.is_some()
    }
}

/// Finalizes a namespace on a server without a controller manager.
async fn finalize(client: &Client, name: &str) {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
        "spec": {"finalizers": []},
    });
    let namespaces = Api::<Namespace>::all(client.clone());
    let params = PostParams::default();
    let finalized = namespaces.replace_subresource("finalize", name, &params, &namespace);
    match finalized.await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => panic!("{name}: {error}"),
    }
}

/// A running controller. Dropping the handle stops it.
pub(crate) struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), RunError>>,
}

impl Running {
    /// Stops the controller, and waits for its end.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }

    /// Aborts the controller, as SIGKILL would.
    pub(crate) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

/// Waits until `found` returns a value, for at most two minutes, because a busy machine is slow.
pub(crate) async fn eventually<T>(what: &str, mut found: impl AsyncFnMut() -> Option<T>) -> T {
    let attempts = async {
        loop {
            if let Some(found) = found().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(120), attempts).await;
    found.unwrap_or_else(|_| panic!("timed out waiting: {what}"))
}

/// Runs the zone controllers of all nodes.
pub(crate) async fn run_zones(bed: &Testbed) -> Vec<(Running, Zone)> {
    let mut zones = Vec::new();
    for (key, _) in bed.inventory.nodes.iter() {
        if bed.nodes().get_opt(&key.name).await.unwrap().is_some() {
            let zone = bed.zone(&key.name).await;
            zones.push((bed.run_zone(&zone), zone));
        }
    }
    zones
}

/// Waits until the condition has this status, contains `text`, and is about the current generation.
pub(crate) async fn until_connected(bed: &Testbed, status: &str, text: &str) {
    let what = format!("Connected is {status}: {text}");
    let attempts = async {
        let mut last = None;
        loop {
            let connect = bed.connected().await;
            let condition = condition(&connect, "Connected");
            if let Some((found, message)) = &condition
                && *found == status
                && message.contains(text)
                && observes(&connect)
            {
                return;
            }
            if condition != last {
                println!("Connected: {condition:?}");
                last = condition;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(120), attempts).await;
    found.unwrap_or_else(|_| panic!("timed out waiting: {what}"));
}

/// `true` if the condition is about the current generation.
fn observes(connect: &ClusterNetworkConnect) -> bool {
    let conditions = &connect.status.as_ref().unwrap().conditions;
    let condition = conditions.iter().find(|one| one.type_ == "Connected");
    condition.unwrap().observed_generation == connect.metadata.generation
}

/// Records the statuses of the condition `Connected`.
pub(crate) struct ConditionWatch {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Vec<String>>,
}

impl ConditionWatch {
    pub(crate) async fn begin(bed: &Testbed) -> Self {
        let status = |connect: &ClusterNetworkConnect| {
            condition(connect, "Connected").map(|(status, _)| status)
        };
        let first = bed.connected().await;
        let version = first.resource_version().unwrap();
        let mut seen: Vec<String> = status(&first).into_iter().collect();
        let (stop, mut stopped) = oneshot::channel();
        let connects = bed.connects();
        let task = tokio::spawn(async move {
            let params = WatchParams::default();
            let mut events = std::pin::pin!(connects.watch(&params, &version).await.unwrap());
            loop {
                let event = tokio::select! {
                    event = events.next() => event,
                    _ = &mut stopped => return seen,
                };
                if let Some(Ok(WatchEvent::Modified(connect))) = event
                    && let Some(status) = status(&connect)
                    && seen.last() != Some(&status)
                {
                    seen.push(status);
                }
            }
        });
        Self { stop, task }
    }

    /// The statuses that differ from the one before.
    pub(crate) async fn end(self) -> Vec<String> {
        self.stop.send(()).unwrap();
        self.task.await.unwrap()
    }
}

/// The example's ClusterNetworkConnect.
pub(crate) fn connect() -> ClusterNetworkConnect {
    let mut stdin: &[u8] = &[];
    let inventory = read_manifests(&[example_file("3-connect.yaml")], &mut stdin).unwrap();
    converted(inventory.cluster_network_connects.named(CONNECT).unwrap())
}

fn example() -> Inventory {
    let files = ["1-cluster.yaml", "2-networks.yaml"].map(example_file);
    let mut stdin: &[u8] = &[];
    let mut inventory = read_manifests(&files, &mut stdin).unwrap();
    let now = Time(Timestamp::UNIX_EPOCH);
    resolve(&mut inventory, &ClusterSettings::default(), &now).unwrap();
    inventory
}

fn example_file(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.join("../../examples/blue-green").join(name)
}

/// The object as a test creates it.
fn labelled<K: Resource + Clone>(object: &K) -> K {
    let mut object = object.clone();
    object.labels_mut().insert(LABEL.to_owned(), String::new());
    let meta = object.meta_mut();
    meta.uid = None;
    meta.resource_version = None;
    // The controllers that would remove finalizers do not run.
    meta.finalizers = None;
    object
}

/// The connect subnets by owner.
pub(crate) fn subnets(connect: &ClusterNetworkConnect) -> BTreeMap<String, Value> {
    let text = connect.annotations().get(SUBNETS);
    text.map_or_else(BTreeMap::new, |text| serde_json::from_str(text).unwrap())
}

/// The tunnel key of the connect router.
pub(crate) fn tunnel_key(connect: &ClusterNetworkConnect) -> Option<&str> {
    connect.annotations().get(TUNNEL_KEY).map(String::as_str)
}

/// Status and message of the condition `Accepted`.
pub(crate) fn accepted(connect: &ClusterNetworkConnect) -> Option<(String, String)> {
    condition(connect, "Accepted")
}

/// Status and message of a condition.
pub(crate) fn condition(connect: &ClusterNetworkConnect, type_: &str) -> Option<(String, String)> {
    let conditions = &connect.status.as_ref()?.conditions;
    let condition = conditions
        .iter()
        .find(|condition| condition.type_ == type_)?;
    Some((condition.status.clone(), condition.message.clone()))
}

/// Code for real servers, run on the in-process one: creates the definitions and deletes
/// everything, twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_server_is_left_unchanged() {
    let server = ApiServer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = crate::command::kubeconfig(folder.path(), &server.url());
    for _ in 0..2 {
        let bed = Testbed::real(&file).await;
        bed.make_example().await;
        let cluster = bed.run_cluster("one");
        bed.connect().await;
        bed.until_allocated(2).await;
        cluster.stop().await;
        let (nodes, connects, events) = (
            bed.nodes(),
            bed.connects(),
            Api::<Event>::namespaced(bed.client.clone(), EVENTS),
        );
        bed.clear().await;
        let all = ListParams::default();
        assert!(nodes.list(&all).await.unwrap().items.is_empty());
        assert!(connects.get_opt(CONNECT).await.unwrap().is_none());
        assert!(events.list(&all).await.unwrap().items.is_empty());
    }
}
