//! Connects that are not accepted any more: their rows stay, and nothing opens.
//!
//! After each pass of a zone, packets of pods arrive in another network only if they did before, or
//! if the connects allow it that are accepted before or after the pass.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use patchbay_connects::{ConnectReport, HeldReason};
use patchbay_model::{ClusterSettings, Network, PRIMARY_NETWORK_LABEL};
use patchbay_reach::{Destination, Northbound, Question, Sender, Verdict};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::Northbound as _;
use patchbay_resources::cnc::{ClusterNetworkConnect, Connectivity};
use patchbay_resources::object::{Namespace, Object as _};
use patchbay_resources::selector;
use patchbay_resources::udn::UserDefinedNetwork;
use patchbay_schemas::nb::LogicalSwitchPort;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::objects::{Template, layer2, layer3, node, of, pod};
use super::{World, ZONES, differences, rows};

/// Namespaces, each with one primary network.
const NAMESPACES: [&str; 3] = ["t1", "t2", "t3"];

/// External id of rows of connects, as text.
const OWNED: &str = "\"k8s.ovn.org/owner-type\"=ClusterNetworkConnect";

/// Pairs of namespaces: packets of pods of the first arrive at pods of the second.
type Pairs = BTreeSet<(String, String)>;

#[derive(Clone, Copy, Debug)]
enum Event {
    Put {
        template: usize,
        version: usize,
    },
    Delete {
        template: usize,
    },
    /// The cluster manager follows networks, and not yet connects.
    Networks,
    Manager,
    ManagerStarts,
    Zone(usize),
    ZoneStarts(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let templates = templates().len();
    prop_oneof![
        12 => (0..templates, 0..6_usize)
            .prop_map(|(template, version)| Event::Put { template, version }),
        3 => (0..templates).prop_map(|template| Event::Delete { template }),
        3 => Just(Event::Networks),
        6 => Just(Event::Manager),
        1 => Just(Event::ManagerStarts),
        6 => (0..ZONES.len()).prop_map(Event::Zone),
        1 => (0..ZONES.len()).prop_map(Event::ZoneStarts),
    ]
}

/// A network of a namespace whose specification may change.
fn network(namespace: &str, specs: &[Value]) -> Template {
    let object =
        |spec: &Value| json!({"metadata": {"namespace": namespace, "name": "net"}, "spec": spec});
    Template {
        put: |api, wanted| api.put_kind::<UserDefinedNetwork>(wanted, &["/spec"]),
        ..of::<UserDefinedNetwork>(specs.iter().map(object).collect())
    }
}

fn connect(name: &str, range: [&str; 2]) -> Template {
    let mut versions = Vec::new();
    for labels in [json!({}), json!({"team": "a"})] {
        for connectivity in [["PodNetwork"], ["ServiceNetwork"]] {
            versions.push(json!({"metadata": {"name": name}, "spec": {
                "networkSelectors": [{
                    "networkSelectionType": "PrimaryUserDefinedNetworks",
                    "primaryUserDefinedNetworkSelector": {"namespaceSelector": {"matchLabels": labels}},
                }],
                "connectSubnets": [
                    {"cidr": range[0], "networkPrefix": 24}, {"cidr": range[1], "networkPrefix": 120},
                ],
                "connectivity": connectivity,
            }}));
        }
    }
    of::<ClusterNetworkConnect>(versions)
}

fn templates() -> Vec<Template> {
    let mut all = Vec::new();
    all.extend(NAMESPACES.map(|name| {
        let object = |team: &str| {
            json!({"metadata": {"name": name, "labels": {"team": team, PRIMARY_NETWORK_LABEL: ""}}})
        };
        of::<Namespace>(vec![object("a"), object("a"), object("b")])
    }));
    all.extend(ZONES.map(node));
    all.push(network(
        "t1",
        &[
            layer3("Primary", &["10.1.0.0/16"]),
            layer3("Primary", &["10.1.0.0/16", "10.2.0.0/16"]),
            layer3("Primary", &["10.1.0.0/16", "fd01::/48"]),
            layer3("Primary", &["10.1.0.0/16", "fd01::/48", "fd02::/48"]),
        ],
    ));
    all.push(network(
        "t2",
        &[
            layer3("Primary", &["10.2.0.0/16"]),
            layer3("Primary", &["10.2.0.0/16", "fd02::/48"]),
            layer3("Primary", &["10.2.0.0/16", "10.3.0.0/16"]),
            layer2("Primary", &["10.1.0.0/16"]),
        ],
    ));
    all.push(network(
        "t3",
        &[
            layer2("Primary", &["10.3.0.0/16"]),
            layer2("Primary", &["10.2.0.0/16"]),
            layer2("Primary", &["10.3.0.0/16", "fd02::/64"]),
            layer2("Primary", &["192.168.0.0/24"]),
        ],
    ));
    all.push(connect("c", ["192.168.0.0/16", "fd99:1::/112"]));
    all.push(connect("d", ["172.20.0.0/16", "fd99:2::/112"]));
    for namespace in NAMESPACES {
        all.push(pod(namespace, "a", "n1", None));
        all.push(pod(namespace, "b", "n2", None));
    }
    all
}

/// Networks that an accepted connect joins, by namespace.
#[derive(Clone, Debug, Default)]
struct Accepted {
    namespaces: BTreeSet<String>,
    reaches_pods: bool,
}

/// Accepted connects by name.
#[derive(Clone, Debug, Default)]
struct State(BTreeMap<String, Accepted>);

impl State {
    /// The state after the cluster manager has seen the objects: a connect that it cannot accept
    /// keeps what it had, but for networks that are gone or not selected any more.
    fn after(&self, world: &World) -> Self {
        let inventory = &world.api.inventory;
        let now = world.api.now();
        let cluster = Cluster::watched(inventory.clone(), world.settings.clone(), now);
        let networks = cluster.networks();
        let mut state = Self::default();
        for (key, connect) in inventory.cluster_network_connects.iter() {
            let spec = &connect.object.spec;
            let labels =
                spec.network_selectors[0].primary_user_defined_network_selector.as_ref().unwrap();
            let selected: BTreeMap<String, &Network> = inventory
                .namespaces
                .iter()
                .filter(|(_, one)| {
                    selector::matches(&labels.namespace_selector, one.object.labels())
                })
                .filter_map(|(key, _)| {
                    let network = networks.by_nad(networks.primary_nad(&key.name)?)?;
                    Some((key.name.clone(), network))
                })
                .collect();
            let mut ranges: Vec<Vec<IpNet>> = selected
                .values()
                .map(|network| network.pod_subnets.iter().map(|net| net.cidr).collect())
                .collect();
            let connect_subnets = spec.connect_subnets.iter();
            ranges.push(connect_subnets.map(|net| net.cidr.parse().unwrap()).collect());
            let accepted = if overlap(&ranges) {
                let mut before = self.0.get(&key.name).cloned().unwrap_or_default();
                before.namespaces.retain(|name| selected.contains_key(name));
                before
            } else {
                Accepted {
                    namespaces: selected.into_keys().collect(),
                    reaches_pods: spec.connectivity.contains(&Connectivity::PodNetwork),
                }
            };
            state.0.insert(key.name.clone(), accepted);
        }
        state
    }

    /// Pairs that may be open.
    fn pairs(&self) -> Pairs {
        let open = self.0.values().filter(|accepted| accepted.reaches_pods);
        open.flat_map(|accepted| {
            let all = &accepted.namespaces;
            all.iter().flat_map(|one| all.iter().map(|other| (one.clone(), other.clone())))
        })
        .collect()
    }
}

fn overlap(ranges: &[Vec<IpNet>]) -> bool {
    let contains = |one: &IpNet, other: &IpNet| one.contains(other) || other.contains(one);
    ranges.iter().enumerate().any(|(place, one)| {
        let mut others = ranges[place + 1..].iter().flatten();
        others.any(|other| one.iter().any(|one| contains(one, other)))
    })
}

/// A cluster, with what its connects allow.
struct Observed {
    world: World,
    /// State that the cluster manager has seen last.
    accepted: State,
    /// Pairs that may be open in that state and in those since.
    allowed: Pairs,
    /// Open pairs of each zone.
    open: Vec<Pairs>,
}

impl Observed {
    fn new() -> Self {
        Self {
            world: World::with_templates(ClusterSettings::default(), templates()),
            accepted: State::default(),
            allowed: Pairs::new(),
            open: vec![Pairs::new(); ZONES.len()],
        }
    }

    /// A cluster in which these objects are put, and all controllers have settled.
    async fn with_objects(put: &[(usize, usize)]) -> Self {
        let mut cluster = Self::new();
        for (template, version) in put {
            let (template, version) = (*template, *version);
            cluster.happen(Event::Put { template, version }).await.unwrap();
        }
        cluster.settle().await.unwrap();
        cluster
    }

    async fn happen(&mut self, event: Event) -> Result<(), TestCaseError> {
        let world = &mut self.world;
        let happened = match event {
            Event::Put { template, version } => super::Event::Put { template, version },
            Event::Delete { template } => super::Event::Delete { template },
            Event::Networks => {
                let now = world.api.now();
                world.manager.allocate_networks(&mut world.api.inventory, &now);
                world.api.collect_garbage();
                self.observe();
                return Ok(());
            }
            Event::Manager => super::Event::Manager,
            Event::ManagerStarts => super::Event::ManagerStarts,
            Event::Zone(zone) => super::Event::Zone(zone),
            Event::ZoneStarts(zone) => super::Event::ZoneStarts(zone),
        };
        world.happen(happened).await;
        if matches!(event, Event::Manager) {
            self.accepted = self.accepted.after(&self.world);
            self.allowed.clear();
        }
        self.observe();
        if let Event::Zone(zone) = event {
            let open = open_pairs(&self.world, zone);
            let before = self.open[zone].clone();
            let new: Vec<_> = open
                .iter()
                .filter(|pair| !before.contains(*pair) && !self.allowed.contains(*pair))
                .collect();
            prop_assert!(new.is_empty(), "zone {zone} opens {new:?}");
            self.open[zone] = open;
        }
        Ok(())
    }

    fn observe(&mut self) {
        self.allowed.extend(self.accepted.pairs());
        self.allowed.extend(self.accepted.after(&self.world).pairs());
    }

    /// Lets all controllers act until nothing is to be done. What is not accepted is closed then.
    async fn settle(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..4 {
            self.happen(Event::Manager).await?;
            for zone in 0..ZONES.len() {
                self.happen(Event::Zone(zone)).await?;
            }
        }
        let allowed = self.accepted.pairs();
        for (zone, open) in self.open.iter().enumerate() {
            let name = ZONES[zone];
            let mut nodes = self.world.api.inventory.nodes.iter();
            if nodes.any(|(key, _)| key.name == name) {
                let wrong: Vec<_> = open.difference(&allowed).collect();
                prop_assert!(wrong.is_empty(), "zone {name} leaves {wrong:?} open");
            }
        }
        Ok(())
    }

    /// Rows of connects in the first zone.
    fn connect_rows(&self) -> Vec<String> {
        let snapshot = self.world.zones[0].rows.northbound().snapshot();
        let all = rows(&snapshot).into_iter();
        all.filter(|row| row.contains(OWNED)).collect()
    }

    /// Reason why the rows of a connect stay as they are in the first zone.
    async fn held(&mut self, connect: &str) -> Option<HeldReason> {
        let (inventory, settings) = (&self.world.api.inventory, &self.world.settings);
        let now = self.world.api.now();
        let cluster = Cluster::watched(inventory.clone(), settings.clone(), now);
        let outcome = self.world.zones[0].rows.reconcile(&cluster).await.unwrap();
        let report: &ConnectReport = &outcome.reports[connect];
        report.held.clone()
    }
}

/// Pairs of namespaces between which packets arrive in a zone.
fn open_pairs(world: &World, zone: usize) -> Pairs {
    let snapshot = world.zones[zone].rows.northbound().snapshot();
    let ports = snapshot.typed::<LogicalSwitchPort>();
    let pods: BTreeMap<String, (String, Vec<String>)> = ports
        .iter()
        .map(|row| row.unwrap().1)
        .filter_map(|port| {
            let namespace = port.external_ids.get("namespace")?.clone();
            let addresses = port.addresses.iter();
            let ips = addresses.flat_map(|text| text.split(' ').skip(1).map(str::to_owned));
            Some((port.name.clone(), (namespace, ips.collect())))
        })
        .collect();
    let index = Northbound::new(&snapshot, None);
    let mut open = Pairs::new();
    for (sender, (from, _)) in &pods {
        for address in pods.values().flat_map(|(_, addresses)| addresses) {
            let Ok(address) = address.parse() else {
                continue;
            };
            let question = Question {
                sender: Sender::port(sender.as_str()),
                destination: Destination::Address(address),
                protocol: "tcp 80".parse().unwrap(),
            };
            let Ok(answer) = index.answer(&question) else {
                continue;
            };
            let arrived = answer.out.filter(|_| answer.verdict == Verdict::Reaches);
            if let Some((to, _)) = arrived.and_then(|port| pods.get(&port))
                && to != from
            {
                open.insert((from.clone(), to.clone()));
            }
        }
    }
    open
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn nothing_opens_that_is_not_accepted(events in prop::collection::vec(event(), 20..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            // All objects are there in their first versions.
            let first: Vec<_> = (0..templates().len()).map(|template| (template, 0)).collect();
            let mut cluster = Observed::with_objects(&first).await;
            for event in events {
                cluster.happen(event).await?;
            }
            cluster.settle().await
        })?;
    }
}

/// Positions of templates.
const NETWORKS: [usize; 3] = [5, 6, 7];
const CONNECTS: [usize; 2] = [8, 9];
/// Versions of a connect of all networks.
const OF_PODS: usize = 0;
const OF_SERVICES: usize = 1;

/// Objects of two or three tenants that `c` joins with a connectivity.
fn tenants(networks: &[(usize, usize)], connectivity: usize) -> Vec<(usize, usize)> {
    let mut put: Vec<_> = (0..5).map(|template| (template, 0)).collect();
    put.extend(networks);
    put.push((CONNECTS[0], connectivity));
    put.extend((10..16).map(|template| (template, 0)));
    put
}

#[tokio::test]
async fn rows_of_a_former_connect_go_if_its_successor_is_not_accepted() {
    let [one, two, three] = NETWORKS;
    let [connect, _] = CONNECTS;
    let put = tenants(&[(one, 0), (two, 0), (three, 0)], OF_PODS);
    let mut cluster = Observed::with_objects(&put).await;
    assert!(!cluster.open[0].is_empty());
    // No zone has a pass between the two connects of one name.
    for event in [
        Event::Delete { template: connect },
        Event::Manager,
        Event::Put { template: one, version: 1 },
        Event::Put { template: connect, version: OF_PODS },
    ] {
        cluster.happen(event).await.unwrap();
    }
    cluster.settle().await.unwrap();
    // Its router stays, without ports.
    let rows = cluster.connect_rows();
    assert!(rows.len() == 1 && rows[0].starts_with("Logical_Router connect_router_c|"), "{rows:?}");
}

#[tokio::test]
async fn a_connect_that_was_restricted_to_services_and_then_refused_is_closed() {
    let [one, two, three] = NETWORKS;
    let [connect, _] = CONNECTS;
    let put = tenants(&[(one, 0), (two, 0), (three, 0)], OF_PODS);
    let mut cluster = Observed::with_objects(&put).await;
    assert!(!cluster.open[0].is_empty());
    // The cluster manager has accepted the restriction while no zone had a pass.
    for event in [
        Event::Put { template: connect, version: OF_SERVICES },
        Event::Manager,
        Event::Put { template: one, version: 1 },
    ] {
        cluster.happen(event).await.unwrap();
    }
    cluster.settle().await.unwrap();
    assert!(cluster.open[0].is_empty(), "{:?}", cluster.open);
}

#[tokio::test]
async fn rows_of_a_connect_that_is_not_accepted_any_more_stay() {
    let [one, two, three] = NETWORKS;
    for connectivity in [OF_PODS, OF_SERVICES] {
        for (networks, changed) in [
            // A range is appended that is another network's, also of one family alone.
            ([(one, 0), (two, 0)], (one, 1)),
            ([(one, 2), (two, 1)], (one, 3)),
            // A layer2 network has the range of another one.
            ([(two, 0), (three, 0)], (three, 1)),
            ([(two, 1), (three, 0)], (three, 2)),
            // A range is one of the connect subnets.
            ([(two, 0), (three, 0)], (three, 3)),
        ] {
            let put = tenants(&networks, connectivity);
            let mut cluster = Observed::with_objects(&put).await;
            assert_eq!(cluster.held("c").await, None);
            let pairs = if connectivity == OF_PODS { 2 } else { 0 };
            assert_eq!(cluster.open[0].len(), pairs, "{networks:?}");
            let before = cluster.connect_rows();
            assert!(!before.is_empty());
            let (template, version) = changed;
            for event in [
                Event::Put { template, version },
                // Zones see the networks before the cluster manager sees the connects, and may
                // have started since.
                Event::Networks,
                Event::ZoneStarts(0),
                Event::Zone(0),
            ] {
                cluster.happen(event).await.unwrap();
            }
            assert_eq!(
                differences(&before, &cluster.connect_rows()),
                Vec::<String>::new(),
                "{changed:?}"
            );
            cluster.settle().await.unwrap();
            assert_eq!(
                differences(&before, &cluster.connect_rows()),
                Vec::<String>::new(),
                "{changed:?}"
            );
            let held = cluster.held("c").await;
            assert!(
                matches!(&held, Some(HeldReason::NotAccepted(reason)) if reason.contains("overlap")),
                "{changed:?}: {held:?}"
            );
            // Neither another connectivity nor a restart opens anything.
            for event in [
                Event::Put { template: CONNECTS[0], version: 1 - connectivity },
                Event::ManagerStarts,
                Event::ZoneStarts(0),
            ] {
                cluster.happen(event).await.unwrap();
            }
            cluster.settle().await.unwrap();
            // A restriction to services closes the pods, although it is not accepted.
            let restricts = |row: &String| {
                connectivity == OF_PODS && row.starts_with("- Logical_Router_Policy ")
            };
            let mut changes = differences(&before, &cluster.connect_rows());
            changes.retain(|row| !restricts(row));
            assert_eq!(changes, Vec::<String>::new(), "{changed:?}");
        }
    }
}

#[tokio::test]
async fn a_network_that_leaves_a_connect_is_closed_although_that_is_not_accepted() {
    let [one, two, three] = NETWORKS;
    let put = tenants(&[(one, 0), (two, 0), (three, 0)], OF_PODS);
    let deleted = [14, 15, three].map(|template| Event::Delete { template });
    let deselected = [Event::Put { template: 2, version: 2 }];
    for last in [&deselected[..], &deleted] {
        let mut cluster = Observed::with_objects(&put).await;
        assert_eq!(cluster.open[0].len(), 6);
        // Of the networks t1 and t2 that now overlap, both stay connected; t3 leaves.
        for event in [
            Event::Put { template: CONNECTS[0], version: 2 },
            Event::Put { template: one, version: 1 },
        ] {
            cluster.happen(event).await.unwrap();
        }
        cluster.settle().await.unwrap();
        assert_eq!(cluster.open[0].len(), 6);
        for event in last {
            cluster.happen(*event).await.unwrap();
        }
        cluster.settle().await.unwrap();
        let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        assert_eq!(cluster.open[0], Pairs::from([pair("t1", "t2"), pair("t2", "t1")]), "{last:?}");
        let mut links = cluster.connect_rows().into_iter();
        assert!(!links.any(|row| row.contains("_t3_net")), "{last:?}");
    }
}

#[tokio::test]
async fn another_connect_of_overlapping_networks_opens_nothing() {
    let [one, two, three] = NETWORKS;
    // `c` joins all three networks, `d` those of team a: t1 and t3. Both isolate pods.
    let mut put = tenants(&[(one, 0), (two, 0), (three, 0)], OF_SERVICES);
    put.extend([(1, 2), (CONNECTS[1], 3)]);
    let mut cluster = Observed::with_objects(&put).await;
    let before = cluster.connect_rows();
    let template = one;
    cluster.happen(Event::Put { template, version: 1 }).await.unwrap();
    cluster.settle().await.unwrap();
    assert_eq!(differences(&before, &cluster.connect_rows()), Vec::<String>::new());
    let held = cluster.held("d").await;
    assert!(matches!(held, Some(HeldReason::NotAccepted(_))), "{held:?}");
}

#[tokio::test]
async fn a_connect_that_was_never_accepted_has_no_rows() {
    let [one, two, _] = NETWORKS;
    let cluster = Observed::with_objects(&tenants(&[(one, 1), (two, 0)], OF_PODS)).await;
    assert_eq!(cluster.connect_rows(), Vec::<String>::new());
}
