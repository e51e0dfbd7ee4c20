//! A zone with its networks from manifests, for tests that follow changes in a database.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_allocate::networks::resolve;
use patchbay_engine::db::Database;
use patchbay_model::{ClusterSettings, Feature, IpFamily, NetworkObjects, Networks};
use patchbay_networks::Topologies;
use patchbay_resources::conversion::network_objects;
use patchbay_resources::object::Time;
use patchbay_rows::Engine;
use patchbay_schemas::nb;
use patchbay_schemas::typed::TableRow;
use patchbay_schemas::uuids::UuidSource;
use patchbay_zone::ZoneObjects;

use crate::inventory;

/// Passes after which a test that still changes rows fails.
const MAX_PASSES: usize = 4;

/// A namespace and two nodes, to which further objects are added. The first node has two addresses.
pub(crate) const TWO_NODES: &str = r#"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: blue, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- apiVersion: v1
  kind: Node
  metadata:
    name: n1
    labels: {rack: a}
    annotations: {k8s.ovn.org/node-chassis-id: c1, k8s.ovn.org/host-cidrs: '["172.18.0.2/16", "192.168.5.2/24"]'}
- apiVersion: v1
  kind: Node
  metadata:
    name: n2
    annotations: {k8s.ovn.org/node-chassis-id: c2, k8s.ovn.org/host-cidrs: '["172.18.0.3/16"]'}
"#;

/// An attachment definition of a primary network in namespace `green`, with more fields of its
/// configuration.
pub(crate) fn definition(name: &str, topology: &str, more: &str) -> String {
    format!(
        r#"
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {{name: {name}, namespace: green}}
spec:
  config: '{{"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","name":"{name}","netAttachDefName":"green/{name}","role":"primary","topology":"{topology}","type":"ovn-k8s-cni-overlay",{more}}}'
"#
    )
}

/// Annotation of definitions that names the object of [`route_advertisements`].
pub(crate) const BY_RA: Option<&str> = Some(r#"["ra"]"#);

/// An item of a list: RouteAdvertisements of this specification and status.
pub(crate) fn route_advertisements(spec: &str, accepted: &str) -> String {
    let time = "lastTransitionTime: '2026-01-01T00:00:00Z'";
    format!(
        "- apiVersion: k8s.ovn.org/v1\n  kind: RouteAdvertisements\n  metadata: {{name: ra}}\n  \
         spec: {{{spec}}}\n  \
         status: {{conditions: [{{type: Accepted, status: '{accepted}', {time}}}]}}\n"
    )
}

/// Settings of an IPv4 cluster with these features.
pub(crate) fn ipv4_settings(features: &[Feature]) -> ClusterSettings {
    ClusterSettings {
        families: vec![IpFamily::V4],
        features: features.iter().copied().collect(),
        ..ClusterSettings::default()
    }
}

/// The networks of manifests in the zone of `n1`. `advertisements`: annotation of all definitions.
pub(crate) fn zone_networks(
    yaml: &str,
    settings: &ClusterSettings,
    advertisements: Option<&str>,
) -> ZoneObjects {
    let mut inventory = inventory(yaml);
    let now = Time(jiff::Timestamp::from_second(0).unwrap());
    resolve(&mut inventory, settings, &now).unwrap();
    let mut objects = network_objects(&inventory, settings);
    for definition in objects.definitions.values_mut() {
        definition.advertisements = advertisements;
    }
    read_zone(&objects, "n1", settings)
}

/// The objects of the networks in a zone.
pub(crate) fn read_zone(
    objects: &NetworkObjects<'_>,
    zone: &str,
    settings: &ClusterSettings,
) -> ZoneObjects {
    let mut networks = ZoneObjects::new(zone, settings);
    networks.set_objects(objects, &BTreeSet::new());
    networks
}

/// Removes all networks, while a controller runs.
pub(crate) fn remove_networks(networks: &mut ZoneObjects) {
    let earlier = networks.clone();
    networks.set_networks(&Networks::default(), &BTreeMap::new(), &BTreeSet::new());
    networks.follow_networks(&earlier);
}

/// A database and a controller that follows it.
pub(crate) struct Zone {
    pub(crate) database: Database,
    controller: Engine<Topologies>,
}

impl Zone {
    pub(crate) fn new() -> Self {
        Self {
            database: Database::with_uuids(nb::schema(), UuidSource::seeded(1)),
            controller: Engine::new(UuidSource::seeded(2)),
        }
    }

    /// Plans and commits until nothing is left. A new controller has to agree.
    pub(crate) fn settle(&mut self, networks: &ZoneObjects) {
        for _ in 0..MAX_PASSES {
            let snapshot = self.database.snapshot();
            let change = self.controller.plan(networks, &snapshot).into_change().unwrap();
            let Some(transaction) = change.transaction else {
                let mut fresh = Engine::<Topologies>::new(UuidSource::seeded(3));
                let again = fresh.plan(networks, &snapshot).into_change().unwrap().transaction;
                assert!(again.is_none(), "{again:?}");
                return;
            };
            self.database.transact(transaction.operations()).unwrap();
        }
        panic!("no rest after {MAX_PASSES} passes");
    }

    pub(crate) fn rows<T: TableRow>(&self) -> Vec<T> {
        let snapshot = self.database.snapshot();
        let rows = snapshot.typed::<T>();
        rows.iter().map(|row| row.unwrap().1).collect()
    }
}
