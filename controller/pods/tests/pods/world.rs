//! Objects around the allocator and the controller of pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_engine::db::Database;
use patchbay_engine::txn::TxnBuilder;
use patchbay_model::{
    AttachmentDefinition, ClusterSettings, NadKey, NetworkObjects, Networks, NodeObject, PodKey,
};
use patchbay_pods::{AllocationScope, PodAllocator, Pods};
use patchbay_resources::conversion;
use patchbay_rows::Engine;
use patchbay_schemas::nb::{self, LogicalSwitch, LogicalSwitchPort};
use patchbay_schemas::uuids::UuidSource;
use patchbay_zone::ZoneObjects;
use serde_json::{Value, json};

pub(crate) const LAYER3: &str = r#"{"cniVersion":"1.1.0","name":"blue_l3","netAttachDefName":"blue/l3","role":"primary","subnets":"10.10.0.0/16/29","topology":"layer3","type":"ovn-k8s-cni-overlay"}"#;
pub(crate) const LAYER2: &str = r#"{"allowPersistentIPs":true,"cniVersion":"1.1.0","name":"green_l2","netAttachDefName":"green/l2","role":"primary","subnets":"10.20.0.0/16,fd20::/64","topology":"layer2","type":"ovn-k8s-cni-overlay"}"#;

pub(crate) const SECONDARY: &str = r#"{"cniVersion":"1.1.0","name":"blue_s2","netAttachDefName":"blue/s2","role":"secondary","subnets":"10.80.0.0/24","topology":"layer2","type":"ovn-k8s-cni-overlay"}"#;

/// Inputs of the zone n1: networks `blue_l3`, `green_l2` and `blue_s2`, nodes n1 and n2.
pub(crate) fn zone() -> ZoneObjects {
    zone_of(LAYER3, r#"["10.10.0.0/29"]"#)
}

/// The same with another configuration of `blue_l3`, and other subnets of n1 there.
pub(crate) fn zone_of(layer3: &'static str, subnets: &str) -> ZoneObjects {
    let mut zone = empty_zone();
    put_objects(&mut zone, layer3, subnets);
    zone
}

/// Inputs of the zone n1 without objects.
pub(crate) fn empty_zone() -> ZoneObjects {
    let settings = ClusterSettings {
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        ..ClusterSettings::default()
    };
    ZoneObjects::new("n1", &settings)
}

/// Puts the objects of [`zone_of`].
pub(crate) fn put_objects(zone: &mut ZoneObjects, layer3: &'static str, subnets: &str) {
    let definition = |namespace: &str, name: &str, config: &'static str, id: &'static str| {
        AttachmentDefinition {
            key: NadKey { namespace: namespace.to_owned(), name: name.to_owned() },
            config: Some(config),
            network_id: Some(id),
            network_name: None,
            tunnel_keys: None,
            advertisements: None,
            owner_network: None,
        }
    };
    let definitions = [
        definition("blue", "l3", layer3, "1"),
        definition("green", "l2", LAYER2, "2"),
        definition("blue", "s2", SECONDARY, "3"),
    ];
    let labelled = BTreeSet::from(["blue", "green", "red"].map(str::to_owned));
    let annotations = |subnets: &str, chassis: &str| {
        BTreeMap::from([
            ("k8s.ovn.org/node-subnets".to_owned(), format!(r#"{{"blue_l3":{subnets}}}"#)),
            ("k8s.ovn.org/node-chassis-id".to_owned(), chassis.to_owned()),
        ])
    };
    let (n1, n2) = (annotations(subnets, "c1"), annotations(r#"["10.10.0.8/29"]"#, "c2"));
    let node = |name, annotations| NodeObject {
        name,
        created: None,
        labels: None,
        annotations: Some(annotations),
    };
    let objects = NetworkObjects {
        networks: Networks::from_definitions(definitions.clone(), &labelled),
        definitions: definitions.into_iter().map(|one| (one.key.clone(), one)).collect(),
        nodes: vec![node("n1", &n1), node("n2", &n2)],
        services: Vec::new(),
        advertisements: Vec::new(),
    };
    zone.set_objects(&objects, &labelled);
}

/// A pod as JSON.
pub(crate) fn pod(namespace: &str, name: &str, node: &str) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": name, "uid": format!("uid-{name}"),
            "annotations": {}, "labels": {}},
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": "Running"},
    })
}

pub(crate) fn put(zone: &mut ZoneObjects, pod: &Value) {
    let object = serde_json::from_value(pod.clone()).unwrap();
    zone.put_pod(Arc::new(conversion::pod(&object)));
}

/// Allocates, and writes the annotations into the inputs as a controller does. Returns the first
/// address of each pod that got some.
pub(crate) fn allocate(allocator: &mut PodAllocator, zone: &mut ZoneObjects) -> Vec<String> {
    let written = allocator.allocate(zone).clone();
    let mut addresses = Vec::new();
    for (key, networks) in written {
        for (_, network) in networks.iter() {
            let first = network.addresses.first().map(ToString::to_string);
            addresses.push(format!("{key} {}", first.unwrap_or_default()));
        }
        let mut pod = (**zone.pod(&key).unwrap()).clone();
        pod.networks = networks;
        zone.put_pod(Arc::new(pod));
    }
    assert_eq!(allocator.allocate(zone).len(), 0, "written annotations are seen");
    addresses
}

pub(crate) fn problems(allocator: &PodAllocator) -> Vec<String> {
    let problems = allocator.problems();
    problems.map(|problem| problem.to_string()).collect()
}

pub(crate) fn of_all_zones() -> PodAllocator {
    PodAllocator::new(AllocationScope::AllZones)
}

pub(crate) fn of_zone() -> PodAllocator {
    PodAllocator::new(AllocationScope::Zone)
}

pub(crate) fn key(namespace: &str, name: &str) -> PodKey {
    PodKey::new(namespace, name)
}

/// A database with the switches of the networks, and a controller.
pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) controller: Engine<Pods>,
}

impl World {
    pub(crate) fn new() -> Self {
        let mut database = Database::with_uuids(nb::schema(), UuidSource::seeded(1));
        let mut txn = TxnBuilder::new(&database.snapshot());
        let switches = ["blue_l3_n1", "green_l2_ovn_layer2_switch", "blue_s2_ovn_layer2_switch"];
        for name in switches {
            let switch = LogicalSwitch { name: name.to_owned(), ..LogicalSwitch::default() };
            txn.insert(&switch).unwrap();
        }
        database.transact(txn.finish().operations()).unwrap();
        Self { database, controller: Engine::new(UuidSource::seeded(2)) }
    }

    /// Plans and commits until nothing is to be done. A new controller has to agree.
    pub(crate) fn settle(&mut self, zone: &ZoneObjects) {
        for _ in 0..4 {
            let snapshot = self.database.snapshot();
            let change = self.controller.plan(zone, &snapshot).into_change().unwrap();
            let Some(transaction) = change.transaction else {
                let again =
                    Engine::<Pods>::new(UuidSource::seeded(3)).plan(zone, &snapshot).into_change();
                assert!(again.unwrap().transaction.is_none());
                return;
            };
            self.database.transact(transaction.operations()).unwrap();
        }
        panic!("the controller does not come to rest");
    }

    /// The port of this name.
    pub(crate) fn port(&self, name: &str) -> Option<LogicalSwitchPort> {
        let snapshot = self.database.snapshot();
        let ports = snapshot.typed::<LogicalSwitchPort>();
        let mut ports = ports.iter().map(|port| port.unwrap().1);
        ports.find(|port| port.name == name)
    }
}
