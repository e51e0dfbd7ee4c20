//! The documentation's example in an API server and in the Northbound databases of its zones.

mod cleanup;
mod example;
mod observation;
mod running;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use patchbay_crds as crd;
use patchbay_kubernetes::Timing;
use patchbay_model::{Feature, GatewayMode};
use patchbay_resources::manifests::Inventory;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

pub(crate) use example::connect;
use example::{example, labelled};
pub(crate) use observation::{
    ConditionWatch, accepted, condition, eventually, subnets, tunnel_key, until_connected,
};
pub(crate) use running::{Running, run_zones};

use crate::apiserver::ApiServer;
use crate::control_plane;
use crate::stored::{
    ClusterNetworkConnect, ClusterUserDefinedNetwork, NetworkAttachmentDefinition, converted,
};
use crate::zone_database::Zone;

/// Name of the example's ClusterNetworkConnect.
pub(crate) const CONNECT: &str = "blue-green-connect";
/// The zone that most tests check.
pub(crate) const ZONE: &str = "ovn-worker";

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
    /// Features of the cluster.
    pub(crate) features: Vec<Feature>,
    pub(crate) gateway_mode: GatewayMode,
    /// Duration of the leader's lease. The default is long enough for renewals on a busy machine.
    pub(crate) lease: Duration,
    /// Shortest and longest delay before a failed operation is retried.
    pub(crate) retry: (Duration, Duration),
    /// Time-out of requests.
    pub(crate) request: Duration,
    /// Time-out of writes. `None`: that of requests.
    pub(crate) write: Option<Duration>,
    /// Longest silence on a watch.
    pub(crate) idle: Duration,
    /// Time after the loss of a watch from which all objects are listed again.
    pub(crate) watch_gap: Duration,
    /// Time for which the objects of a kind stay that the API server has lost.
    pub(crate) missing_kind: Duration,
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
    /// Uses a real server, or the in-process one if there is none.
    pub(crate) async fn new() -> Self {
        let bed = match control_plane::administrator().await {
            None => Self::simulated_server().await,
            Some(kubeconfig) => Self::real(&kubeconfig).await,
        };
        bed.make_example().await;
        bed
    }

    /// A real server, possibly with other objects.
    async fn real(kubeconfig: &Path) -> Self {
        let user = User::new();
        let configuration = control_plane::configuration(kubeconfig).await;
        let bed = Self {
            _alone: Some((user, REAL.lock().await)),
            ..Self::on(patchbay_kubernetes::client(configuration).unwrap())
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
        let client = api.client();
        Self { api: Some(api), ..Self::on(client) }
    }

    /// A test bed on a server, with times that are long enough for a busy machine.
    fn on(client: Client) -> Self {
        Self {
            api: None,
            client,
            inventory: example(),
            dynamic_udn: false,
            networks: false,
            features: Vec::new(),
            gateway_mode: GatewayMode::Shared,
            lease: Duration::from_secs(20),
            retry: (Duration::from_millis(20), Duration::from_millis(200)),
            request: Duration::from_secs(5),
            write: None,
            idle: Timing::default().watch_idle_timeout,
            watch_gap: Timing::default().watch_gap_limit,
            missing_kind: Timing::default().missing_kind_grace_period,
            repeat: Timing::default().report_refresh_interval,
            report: Duration::from_millis(50),
            zone_lease: Duration::from_secs(60),
            join: Duration::ZERO,
            _alone: None,
        }
    }

    pub(crate) fn api(&self) -> &ApiServer {
        self.api.as_ref().expect("the test needs the in-process server")
    }

    /// Creates missing resource definitions, as `patchbay crds` prints them.
    pub(crate) async fn define_resources(&self) {
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
                let created = api.create(&PostParams::default(), &labelled(&definition)).await;
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
            self.await_storage(&definition).await;
        }
    }

    /// Waits until the server lists the objects of a new definition. Until its cache is filled, an
    /// API server answers 429, also when the definition is established.
    async fn await_storage(&self, definition: &CustomResourceDefinition) {
        let spec = &definition.spec;
        let (group, plural) = (&spec.group, &spec.names.plural);
        let version = &spec.versions[0].name;
        let listed = format!("/apis/{group}/{version}/{plural}");
        eventually(&format!("{plural}.{group} can be listed"), async || {
            let request = hyper::Request::get(&listed).body(Vec::new()).unwrap();
            self.client.request_text(request).await.ok()
        })
        .await;
    }

    async fn make_example(&self) {
        for (_, namespace) in self.inventory.namespaces.iter() {
            self.create(&converted::<Namespace>(&namespace.object)).await;
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
        api.create(&PostParams::default(), &labelled(object)).await.unwrap()
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
        api.create(&PostParams::default(), &labelled(object)).await.unwrap()
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
            .map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default()))
            .collect()
    }

    pub(crate) async fn label_nad(&self, namespace: &str, labels: &Value) {
        let nads = self.nads(namespace);
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        for nad in nads.list(&ListParams::default()).await.unwrap() {
            nads.patch(&nad.name_any(), &PatchParams::default(), &patch).await.unwrap();
        }
    }

    /// The Northbound database of a zone, with the routers and switches of all networks.
    pub(crate) async fn zone(&self, name: &str) -> Zone {
        let zone = Zone::without_networks(name).await;
        zone.add_networks(&self.inventory);
        zone
    }
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
        let (nodes, connects, events) =
            (bed.nodes(), bed.connects(), Api::<Event>::namespaced(bed.client.clone(), EVENTS));
        bed.clear().await;
        let all = ListParams::default();
        assert!(nodes.list(&all).await.unwrap().items.is_empty());
        assert!(connects.get_opt(CONNECT).await.unwrap().is_none());
        assert!(events.list(&all).await.unwrap().items.is_empty());
    }
}
