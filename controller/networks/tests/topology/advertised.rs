//! Networks that routers outside of the cluster know: rows while RouteAdvertisements come, change and
//! go.

use std::collections::BTreeMap;

use patchbay_allocate::networks::resolve;
use patchbay_engine::db::Database;
use patchbay_model::{ClusterSettings, Feature, IpFamily};
use patchbay_networks::{NetworkController, ZoneNetworks};
use patchbay_resources::conversion::network_objects;
use patchbay_resources::manifests::{Inventory, read_manifests};
use patchbay_resources::object::Time;
use patchbay_schemas::nb::{self, Acl, AddressSet, Nat, PortGroup};
use patchbay_schemas::typed::TableRow;
use patchbay_schemas::uuids::UuidSource;

const CLUSTER: &str = r#"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: blue, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- apiVersion: v1
  kind: Node
  metadata:
    name: n1
    labels: {rack: a}
    annotations: {k8s.ovn.org/node-chassis-id: c1, k8s.ovn.org/host-cidrs: '["172.18.0.2/16"]'}
- apiVersion: v1
  kind: Node
  metadata:
    name: n2
    annotations: {k8s.ovn.org/node-chassis-id: c2, k8s.ovn.org/host-cidrs: '["172.18.0.3/16"]'}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: l3, namespace: blue}
  spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.10.0.0/16, hostSubnet: 24}]}}
"#;

/// Annotation that names these objects.
const BY_RA: Option<&str> = Some(r#"["ra"]"#);

/// The network with RouteAdvertisements of this specification and status, which the annotation of its
/// definition names.
fn networks(annotation: Option<&str>, advertisements: &str, features: &[Feature]) -> ZoneNetworks {
    let settings = ClusterSettings {
        families: vec![IpFamily::V4],
        features: features.iter().copied().collect(),
        ..ClusterSettings::default()
    };
    let yaml = format!("{CLUSTER}{advertisements}");
    let mut inventory: Inventory = read_manifests(&["-".into()], &mut yaml.as_bytes()).unwrap();
    let now = Time(jiff::Timestamp::from_second(0).unwrap());
    resolve(&mut inventory, &settings, &now).unwrap();
    let mut objects = network_objects(&inventory);
    for definition in objects.definitions.values_mut() {
        definition.advertisements = annotation;
    }
    ZoneNetworks::read(&objects, "n1", &settings)
}

fn advertisements(spec: &str, accepted: &str) -> String {
    let time = "lastTransitionTime: '2026-01-01T00:00:00Z'";
    format!(
        "- apiVersion: k8s.ovn.org/v1\n  kind: RouteAdvertisements\n  metadata: {{name: ra}}\n  \
         spec: {{{spec}}}\n  \
         status: {{conditions: [{{type: Accepted, status: '{accepted}', {time}}}]}}\n"
    )
}

struct World {
    database: Database,
    controller: NetworkController,
}

impl World {
    fn new() -> Self {
        Self {
            database: Database::with_uuids(nb::schema(), UuidSource::seeded(1)),
            controller: NetworkController::new(UuidSource::seeded(2)),
        }
    }

    /// Plans and commits until nothing is left. A new controller has to agree.
    fn settle(&mut self, networks: &ZoneNetworks) {
        for _ in 0..4 {
            let snapshot = self.database.snapshot();
            let change = self.controller.plan(networks, &snapshot).unwrap();
            let Some(transaction) = change.transaction else {
                let mut fresh = NetworkController::new(UuidSource::seeded(3));
                let again = fresh.plan(networks, &snapshot).unwrap().transaction;
                assert!(again.is_none(), "{again:?}");
                return;
            };
            self.database.transact(transaction.operations()).unwrap();
        }
        panic!("no rest after four passes");
    }

    fn rows<T: TableRow>(&self) -> Vec<T> {
        let snapshot = self.database.snapshot();
        let rows = snapshot.typed::<T>();
        rows.iter().map(|row| row.unwrap().1).collect()
    }

    /// Number of NAT rows for some destinations only, and of those for all.
    fn nats(&self) -> (usize, usize) {
        let nats = self.rows::<Nat>();
        let is_limited =
            |nat: &&Nat| nat.allowed_ext_ips.is_some() || nat.r#match.contains("ip4.dst == $");
        let limited = nats.iter().filter(is_limited).count();
        (limited, nats.len() - limited)
    }

    /// Addresses of the sets whose name begins like this.
    fn set(&self, name: &str) -> Vec<String> {
        let sets = self.rows::<AddressSet>().into_iter();
        let sets = sets.filter(|set| set.external_ids["k8s.ovn.org/name"] == name);
        sets.flat_map(|set| set.addresses).collect()
    }

    fn isolated_ports(&self) -> BTreeMap<String, usize> {
        let groups = self.rows::<PortGroup>().into_iter();
        let groups = groups
            .filter(|group| group.external_ids["k8s.ovn.org/owner-type"] == "AdvertisedNetwork");
        groups
            .map(|group| (group.name, group.ports.len()))
            .collect()
    }

    fn pass_acls(&self) -> usize {
        let acls = self.rows::<Acl>();
        acls.iter().filter(|acl| acl.priority == 1100).count()
    }
}

#[test]
fn rows_follow_what_is_advertised_on_the_node() {
    let mut world = World::new();
    let features = [Feature::RouteAdvertisements];
    let on_rack = |rack: &str, accepted| {
        let spec = format!(
            "advertisements: [PodNetwork], nodeSelector: {{matchLabels: {{rack: {rack}}}}}"
        );
        networks(BY_RA, &advertisements(&spec, accepted), &features)
    };
    let without = networks(None, "", &features);
    let only_egress = advertisements("advertisements: [EgressIP]", "True");
    // Those that are not accepted, not known or not readable change nothing.
    let steps = [
        ("none", without.clone(), false),
        ("not accepted yet", on_rack("a", "False"), false),
        ("on another node", on_rack("b", "True"), false),
        ("accepted", on_rack("a", "True"), true),
        ("not accepted any more", on_rack("a", "False"), true),
        ("not known", networks(BY_RA, "", &features), true),
        ("not readable", networks(Some("ra"), "", &features), true),
        (
            "egress IPs only",
            networks(BY_RA, &only_egress, &features),
            false,
        ),
        ("accepted again", on_rack("a", "True"), true),
        ("none again", without, false),
    ];
    for (step, inputs, is_advertised) in steps {
        world.settle(&inputs);
        let (nats, acls) = if is_advertised {
            ((3, 1), 1)
        } else {
            ((0, 3), 0)
        };
        assert_eq!(world.nats(), nats, "{step}");
        assert_eq!(world.pass_acls(), acls, "{step}");
        let ports: Vec<usize> = world.isolated_ports().into_values().collect();
        assert_eq!(ports, [acls], "{step}");
        let subnets: &[&str] = if is_advertised {
            &["10.10.0.0/16"]
        } else {
            &[]
        };
        assert_eq!(world.set("advertised-network-subnets"), subnets, "{step}");
    }
    assert_eq!(world.set("node-ips"), ["172.18.0.2", "172.18.0.3"]);
}

#[test]
fn without_the_feature_nothing_is_advertised() {
    let mut world = World::new();
    let accepted = advertisements("advertisements: [PodNetwork]", "True");
    world.settle(&networks(BY_RA, &accepted, &[]));
    let none = (world.nats(), world.pass_acls(), world.isolated_ports());
    assert_eq!(none, ((0, 3), 0, BTreeMap::new()));
    let is_on = networks(BY_RA, &accepted, &[Feature::RouteAdvertisements]);
    world.settle(&is_on);
    assert_eq!(world.nats(), (3, 1));
    world.settle(&networks(BY_RA, &accepted, &[]));
    let off = (world.nats(), world.pass_acls(), world.isolated_ports());
    assert_eq!(off, none);
}
