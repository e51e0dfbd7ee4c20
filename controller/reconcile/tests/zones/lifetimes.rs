//! Random lifetimes of objects, with the cluster manager and zones that act and restart in between.
//!
//! Whatever came before, the databases are in the end those of new zones, and new controllers
//! change neither objects nor rows.

mod api_server;
mod objects;
mod refused;
mod replaced;

use patchbay_allocate::RouterKeyCursor;
use patchbay_allocate::connects::{ACCEPTED, ClusterController, ClusterObjects};
use patchbay_allocate::networks::{Layer2Layouts, ManagerSettings, NetworkManager};
use patchbay_engine::db::Snapshot;
use patchbay_model::{ClusterSettings, Feature, GatewayMode, IpFamily, NODE_SUBNETS, POD_NETWORKS};
use patchbay_nbctl_text::northbound;
use patchbay_pods::{AllocationScope, PodAllocator};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{Embedded, Northbound as _};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::manifests::{Inventory, ObjectKey};
use patchbay_resources::object::{Object as _, Time};
use patchbay_schemas::uuids::UuidSource;
use proptest::prelude::*;

use api_server::ApiServer;
use objects::{Template, templates};

/// Zones, which are named for their nodes.
const ZONES: [&str; 2] = ["n1", "n2"];
/// Turns of all controllers after which objects or rows that still change fail the test.
const MAX_TURNS: usize = 12;
/// Seconds of a turn: longer than networks stay without users.
const TURN_SECONDS: i64 = 150;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// Creates the object of a template in a version, or changes it to that version.
    Put {
        template: usize,
        version: usize,
    },
    /// Deletes the object of a template.
    Delete {
        template: usize,
    },
    Manager,
    ManagerStarts,
    Zone(usize),
    ZoneStarts(usize),
    /// All controllers start again with other settings.
    Upgrade,
}

fn event() -> impl Strategy<Value = Event> {
    let templates = templates().len();
    prop_oneof![
        12 => (0..templates, 0..3_usize)
            .prop_map(|(template, version)| Event::Put { template, version }),
        6 => (0..templates).prop_map(|template| Event::Delete { template }),
        6 => Just(Event::Manager),
        1 => Just(Event::ManagerStarts),
        4 => (0..ZONES.len()).prop_map(Event::Zone),
        1 => (0..ZONES.len()).prop_map(Event::ZoneStarts),
        1 => Just(Event::Upgrade),
    ]
}

/// Controllers of the cluster manager.
struct Manager {
    networks: NetworkManager,
    connects: ClusterController,
}

impl Manager {
    fn new(settings: &ClusterSettings) -> Self {
        let keys = RouterKeyCursor::default();
        let networks = NetworkManager::new(ManagerSettings {
            cluster: settings.clone(),
            workloads: Some(Layer2Layouts::TransitRouters),
            ..ManagerSettings::default()
        });
        Self {
            networks: networks.with_router_keys(keys.clone()),
            connects: ClusterController::new(settings.clone()).with_router_keys(keys),
        }
    }

    /// Makes all changes of one pass.
    fn pass(&mut self, inventory: &mut Inventory, settings: &ClusterSettings, now: &Time) {
        self.allocate_networks(inventory, now);
        self.allocate_connects(inventory, settings, now);
    }

    fn allocate_networks(&mut self, inventory: &mut Inventory, now: &Time) {
        self.networks.reconcile(inventory, now);
    }

    fn allocate_connects(
        &mut self,
        inventory: &mut Inventory,
        settings: &ClusterSettings,
        now: &Time,
    ) {
        let cluster = Cluster::watched(inventory.clone(), settings.clone(), now.clone());
        let networks = cluster.networks();
        let objects = ClusterObjects::new(
            &networks,
            inventory.network_attachment_definitions.iter().map(|(_, one)| &one.object),
            inventory.namespaces.iter().map(|(_, one)| &one.object),
            inventory.cluster_network_connects.iter().map(|(_, one)| &one.object),
        );
        let report = self.connects.reconcile(&objects, now);
        for outcome in report.outcomes {
            let key = ObjectKey::cluster(&*outcome.name);
            let connect = inventory.cluster_network_connects.get_mut(&key).unwrap();
            for (name, value) in outcome.annotations() {
                let annotations = connect.object.annotations_mut();
                annotations.insert(name.to_owned(), value);
            }
            connect.object.status = Some(outcome.status);
        }
    }
}

/// Controllers of a zone.
struct Zone {
    rows: ZoneReconciler<Embedded>,
    addresses: PodAllocator,
}

impl Zone {
    fn new(name: &str, northbound: Embedded, seed: u64) -> Self {
        Self {
            rows: ZoneReconciler::new(name, northbound, UuidSource::seeded(seed)),
            addresses: PodAllocator::new(AllocationScope::Zone),
        }
    }

    /// Makes all changes of one pass.
    async fn pass(&mut self, inventory: &mut Inventory, settings: &ClusterSettings, now: &Time) {
        let cluster = Cluster::watched(inventory.clone(), settings.clone(), now.clone());
        let pods = self.rows.pods(&cluster).unwrap();
        for (pod, networks) in self.addresses.allocate(pods) {
            let key = ObjectKey::namespaced(&*pod.namespace, &*pod.name);
            let annotations = inventory.pods.get_mut(&key).unwrap().object.annotations_mut();
            annotations.insert(POD_NETWORKS.to_owned(), networks.to_json());
        }
        let cluster = Cluster::watched(inventory.clone(), settings.clone(), now.clone());
        self.rows.reconcile(&cluster).await.unwrap();
    }
}

/// A cluster.
struct World {
    settings: ClusterSettings,
    /// Settings of upgrades that are still to come.
    later: Vec<ClusterSettings>,
    templates: Vec<Template>,
    api: ApiServer,
    manager: Manager,
    zones: Vec<Zone>,
    /// Number of zones that have started.
    started: u64,
}

impl World {
    fn new(settings: ClusterSettings) -> Self {
        Self::with_templates(settings, templates())
    }

    fn with_templates(settings: ClusterSettings, templates: Vec<Template>) -> Self {
        let mut world = Self {
            templates,
            api: ApiServer::default(),
            manager: Manager::new(&settings),
            zones: Vec::new(),
            settings,
            later: Vec::new(),
            started: 0,
        };
        for zone in ZONES {
            let northbound = Embedded::new(0).unwrap();
            let zone = world.new_zone(zone, northbound);
            world.zones.push(zone);
        }
        world
    }

    fn new_zone(&mut self, name: &str, northbound: Embedded) -> Zone {
        self.started += 1;
        Zone::new(name, northbound, self.started)
    }

    /// Adds settings of an upgrade, in which dynamic allocation may go on or off. What follows from
    /// multicast and the gateway mode alone stays, and so do networks of a family that the cluster
    /// has no more.
    fn upgrade_to(&mut self, later: &ClusterSettings) {
        let mut settings = self.settings.clone();
        let feature = Feature::DynamicUdnAllocation;
        settings.features.remove(&feature);
        if later.has_feature(feature) {
            settings.features.insert(feature);
        }
        self.later.push(settings);
    }

    fn start_zone(&mut self, zone: usize) {
        let northbound = self.zones[zone].rows.northbound().clone();
        self.zones[zone] = self.new_zone(ZONES[zone], northbound);
    }

    async fn happen(&mut self, event: Event) {
        self.api.seconds += 1;
        match event {
            Event::Put { template, version } => self.api.put(&self.templates[template], version),
            Event::Delete { template } => self.api.delete(&self.templates[template]),
            Event::Manager => self.manage(),
            Event::ManagerStarts => self.manager = Manager::new(&self.settings),
            Event::Zone(zone) => self.pass(zone).await,
            Event::ZoneStarts(zone) => self.start_zone(zone),
            Event::Upgrade => {
                if let Some(settings) = self.later.pop() {
                    self.settings = settings;
                    self.manager = Manager::new(&self.settings);
                    for zone in 0..ZONES.len() {
                        self.start_zone(zone);
                    }
                }
            }
        }
        self.api.collect_garbage();
    }

    fn manage(&mut self) {
        let now = self.api.now();
        self.manager.pass(&mut self.api.inventory, &self.settings, &now);
        self.api.collect_garbage();
    }

    async fn pass(&mut self, zone: usize) {
        let now = self.api.now();
        self.zones[zone].pass(&mut self.api.inventory, &self.settings, &now).await;
    }

    /// Lets all controllers take turns until nothing changes.
    async fn settle(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..MAX_TURNS {
            let before = (self.api.inventory.clone(), self.rows());
            self.api.seconds += TURN_SECONDS;
            self.manage();
            for zone in 0..ZONES.len() {
                self.pass(zone).await;
            }
            if before == (self.api.inventory.clone(), self.rows()) {
                return Ok(());
            }
        }
        Err(TestCaseError::fail("changes do not end"))
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let zones = self.zones.iter();
        zones.map(|zone| rows(&zone.rows.northbound().snapshot())).collect()
    }

    /// Compares the settled cluster with what new controllers make of the same objects.
    async fn compare(&mut self) -> Result<(), TestCaseError> {
        self.api.seconds += TURN_SECONDS;
        let now = self.api.now();
        let mut inventory = self.api.inventory.clone();
        Manager::new(&self.settings).pass(&mut inventory, &self.settings, &now);
        inventory.warnings.clear();
        let before = api_server::texts(&self.api.inventory);
        let after = api_server::texts(&inventory);
        prop_assert_eq!(differences(&before, &after), Vec::<String>::new());
        let cluster = Cluster::watched(inventory.clone(), self.settings.clone(), now.clone());
        for (zone, name) in ZONES.into_iter().enumerate() {
            if !inventory.nodes.iter().any(|(key, _)| key.name == *name) {
                // The rows of a zone without a node stay.
                continue;
            }
            let settled = rows(&self.zones[zone].rows.northbound().snapshot());
            let northbound = self.zones[zone].rows.northbound().clone();
            let mut again = self.new_zone(name, northbound);
            prop_assert!(again.rows.is_reconciled(&cluster), "zone {}", name);
            again.pass(&mut inventory, &self.settings, &now).await;
            let snapshot = again.rows.northbound().snapshot();
            prop_assert_eq!(
                differences(&settled, &rows(&snapshot)),
                Vec::<String>::new(),
                "restarted {}",
                name
            );
            let connects = &inventory.cluster_network_connects;
            if !connects.iter().all(|(_, connect)| is_accepted(&connect.object)) {
                // Rows stay as they were, which a new zone does not know.
                continue;
            }
            let mut fresh = self.new_zone(name, Embedded::new(1).unwrap());
            fresh.pass(&mut inventory, &self.settings, &now).await;
            let snapshot = fresh.rows.northbound().snapshot();
            let settled = without_former_routes(&settled, &inventory);
            prop_assert_eq!(
                differences(&settled, &rows(&snapshot)),
                Vec::<String>::new(),
                "zone {}",
                name
            );
        }
        Ok(())
    }
}

fn is_accepted(connect: &ClusterNetworkConnect) -> bool {
    let mut conditions = connect
        .status
        .iter()
        .flat_map(|status| &status.conditions)
        .filter(|condition| condition.type_ == ACCEPTED);
    conditions.all(|condition| condition.status == "True")
}

/// The rows of a database, each with names in the place of UUIDs.
fn rows(snapshot: &Snapshot) -> Vec<String> {
    let text = northbound(snapshot).replace("\n    ", "|");
    text.lines().map(str::to_owned).collect()
}

/// The rows without routes to subnets that no node has any more. As in OVN-Kubernetes, the routes
/// of a node that is replaced while a zone does not look stay until another node has the subnet.
fn without_former_routes(rows: &[String], inventory: &Inventory) -> Vec<String> {
    let subnets = inventory.nodes.iter().filter_map(|(_, node)| {
        let annotations = node.object.annotations();
        annotations.get(NODE_SUBNETS)
    });
    let subnets: Vec<&String> = subnets.collect();
    let routes = rows.iter().filter(|row| row.contains("|external_ids: {ic-node="));
    let names = routes
        .filter_map(|row| row.strip_prefix("Logical_Router_Static_Route ")?.split('|').next());
    let is_former = |route: &&str| {
        let prefix = route.split('"').nth(1).unwrap_or_default();
        let is_of_pods = prefix.ends_with("/24") || prefix.ends_with("/64");
        is_of_pods && !subnets.iter().any(|of| of.contains(&format!("\"{prefix}\"")))
    };
    let former: Vec<&str> = names.filter(is_former).collect();
    let is_kept =
        |row: &&String| !former.iter().any(|route| row.contains(&format!("Route {route}")));
    let without_route = |row: String, route: &&str| {
        row.replace(&format!("{route}, "), "").replace(&format!(", {route}"), "")
    };
    let kept = rows.iter().filter(is_kept);
    kept.map(|row| former.iter().fold(row.clone(), without_route)).collect()
}

/// Lines of one text that the other one lacks.
fn differences(left: &[String], right: &[String]) -> Vec<String> {
    let missing = left.iter().filter(|line| !right.contains(line));
    let extra = right.iter().filter(|line| !left.contains(line));
    missing.map(|line| format!("- {line}")).chain(extra.map(|line| format!("+ {line}"))).collect()
}

fn settings() -> impl Strategy<Value = ClusterSettings> {
    let features =
        prop::sample::subsequence(vec![Feature::DynamicUdnAllocation, Feature::Multicast], 0..=2);
    (features, any::<bool>(), any::<bool>()).prop_map(|(features, is_dual_stack, is_local)| {
        ClusterSettings {
            gateway_mode: if is_local { GatewayMode::Local } else { GatewayMode::Shared },
            families: if is_dual_stack {
                vec![IpFamily::V4, IpFamily::V6]
            } else {
                vec![IpFamily::V4]
            },
            features: features.into_iter().collect(),
            ..ClusterSettings::default()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn history_does_not_matter(
        settings in settings(),
        later in prop::collection::vec(settings(), 2),
        events in prop::collection::vec(event(), 10..70),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new(settings);
            for settings in &later {
                world.upgrade_to(settings);
            }
            for event in events {
                world.happen(event).await;
            }
            world.settle().await?;
            Box::pin(world.compare()).await
        })?;
    }
}
