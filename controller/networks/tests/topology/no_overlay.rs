//! Networks whose packets to other nodes the fabric carries.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_allocate::networks::resolve;
use patchbay_engine::db::Database;
use patchbay_model::{ClusterSettings, Feature, GatewayMode, IpFamily};
use patchbay_networks::{Destinations, NatRows, NetworkController, ZoneNetworks};
use patchbay_resources::conversion::network_objects;
use patchbay_resources::manifests::{Inventory, read_manifests};
use patchbay_resources::object::Time;
use patchbay_schemas::nb::{self, AddressSet, Nat};
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
    annotations: {k8s.ovn.org/node-chassis-id: c1, k8s.ovn.org/host-cidrs: '["172.18.0.2/16", "192.168.5.2/24"]'}
- {apiVersion: v1, kind: Node, metadata: {name: n2, annotations: {k8s.ovn.org/node-chassis-id: c2}}}
- apiVersion: k8s.ovn.org/v1
  kind: ClusterUserDefinedNetwork
  metadata: {name: flat}
  spec:
    namespaceSelector: {}
    network:
      topology: Layer3
      layer3: {role: Primary, subnets: [{cidr: 10.10.0.0/16, hostSubnet: 24}]}
      transport: NoOverlay
      noOverlay: {outboundSNAT: OUTBOUND, routing: Unmanaged}
"#;
const ADVERTISED: &str = r"
- apiVersion: k8s.ovn.org/v1
  kind: RouteAdvertisements
  metadata: {name: ra}
  spec: {advertisements: [PodNetwork]}
  status: {conditions: [{type: Accepted, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z'}]}
";

fn networks(outbound: &str, mode: GatewayMode, is_advertised: bool) -> ZoneNetworks {
    let settings = ClusterSettings {
        families: vec![IpFamily::V4],
        features: [Feature::RouteAdvertisements].into(),
        gateway_mode: mode,
        ..ClusterSettings::default()
    };
    let mut yaml = CLUSTER.replace("OUTBOUND", outbound);
    if is_advertised {
        yaml.push_str(ADVERTISED.trim_start());
    }
    let mut inventory: Inventory = read_manifests(&["-".into()], &mut yaml.as_bytes()).unwrap();
    let now = Time(jiff::Timestamp::from_second(0).unwrap());
    resolve(&mut inventory, &settings, &now).unwrap();
    let mut objects = network_objects(&inventory);
    for definition in objects.definitions.values_mut() {
        definition.advertisements = is_advertised.then_some(r#"["ra"]"#);
    }
    ZoneNetworks::read(&objects, "n1", &settings)
}

/// NAT of the pods on cluster router and gateway router: subnet, match and exempted set.
fn nats(outbound: &str, mode: GatewayMode, is_advertised: bool) -> Vec<(String, String, bool)> {
    let networks = networks(outbound, mode, is_advertised);
    let rows = networks.network_rows("cluster_udn_flat").unwrap().unwrap();
    let nats = rows.routers.into_iter().flat_map(|router| router.nats);
    let shown = nats.filter_map(|NatRows { nat, destinations }| {
        let is_exempting = match destinations {
            Destinations::All => false,
            Destinations::Of(_) => return None,
            Destinations::AllBut(_) => true,
        };
        let is_of_pods = nat.logical_ip.contains('/');
        is_of_pods.then_some((nat.logical_ip, nat.r#match, is_exempting))
    });
    shown.collect()
}

fn nat(subnet: &str, matched: &str, is_exempting: bool) -> (String, String, bool) {
    (subnet.to_owned(), matched.to_owned(), is_exempting)
}

const TO_HOST: &str = "eth.dst == 0a:58:0a:0a:00:02";
const TO_NODES: &str = "ip4.dst == $a1042611113178530741";

#[test]
fn packets_that_leave_the_cluster_are_translated_where_they_leave_it() {
    let (shared, local) = (GatewayMode::Shared, GatewayMode::Local);
    for is_advertised in [false, true] {
        let at_gateway = nat("10.10.0.0/16", "", true);
        let found = nats("Enabled", shared, is_advertised);
        assert_eq!(found.last(), Some(&at_gateway), "{is_advertised}");
        let at_router = nat("10.10.0.0/24", "", true);
        let found = nats("Enabled", local, is_advertised);
        assert_eq!(found.first(), Some(&at_router), "{is_advertised}");
    }
}

#[test]
fn without_translation_only_packets_to_nodes_are_translated() {
    let shared = GatewayMode::Shared;
    let found = nats("Disabled", shared, false);
    assert_eq!(found, [nat("10.10.0.0/24", TO_HOST, false)]);
    let found = nats("Disabled", shared, true);
    assert_eq!(found, [nat("10.10.0.0/16", TO_NODES, false)]);
}

#[test]
fn the_address_set_has_the_pods_and_the_node_itself() {
    let mut database = Database::with_uuids(nb::schema(), UuidSource::seeded(1));
    let mut controller = NetworkController::new(UuidSource::seeded(2));
    let inputs = networks("Enabled", GatewayMode::Shared, false);
    for _ in 0..3 {
        let change = controller.plan(&inputs, &database.snapshot()).unwrap();
        if let Some(transaction) = change.transaction {
            database.transact(transaction.operations()).unwrap();
        }
    }
    let snapshot = database.snapshot();
    let change = controller.plan(&inputs, &snapshot).unwrap();
    assert!(change.transaction.is_none());
    let sets = snapshot.typed::<AddressSet>();
    let sets = sets.iter().map(Result::unwrap);
    let mut sets =
        sets.filter(|(_, set)| set.external_ids["k8s.ovn.org/name"] == "no-overlay-snat-exemption");
    let (uuid, set) = sets.next().unwrap();
    let id =
        "cluster_udn_flat-network-controller:Cluster:no-overlay-snat-exemption:v4:cluster_udn_flat";
    let controller = "cluster_udn_flat-network-controller";
    let ids = [
        ("ip-family", "v4"),
        ("k8s.ovn.org/id", id),
        ("k8s.ovn.org/name", "no-overlay-snat-exemption"),
        ("k8s.ovn.org/owner-controller", controller),
        ("k8s.ovn.org/owner-type", "Cluster"),
        ("network", "cluster_udn_flat"),
    ];
    assert_eq!(set.external_ids, texts(&ids));
    let addresses = ["10.10.0.0/16", "172.18.0.2", "192.168.5.2"];
    let addresses: BTreeSet<String> = addresses.map(str::to_owned).into();
    assert_eq!(set.addresses, addresses);
    assert!(sets.next().is_none());
    let nats = snapshot.typed::<Nat>();
    let nats = nats.iter().map(|row| row.unwrap().1);
    let exempting: Vec<Nat> = nats.filter(|nat| nat.exempted_ext_ips.is_some()).collect();
    let [exempting] = &exempting[..] else {
        panic!("{exempting:?}");
    };
    assert_eq!(exempting.exempted_ext_ips, Some(uuid));
    let id =
        format!("{controller}:NoOverlayClusterSubnetSNAT:n1:10.10.0.0/16:ip4:cluster_udn_flat");
    let ids = [
        ("ip-family", "ip4"),
        ("k8s.ovn.org/cidr", "10.10.0.0/16"),
        ("k8s.ovn.org/id", &id),
        ("k8s.ovn.org/name", "n1"),
        ("k8s.ovn.org/network", "cluster_udn_flat"),
        ("k8s.ovn.org/owner-controller", controller),
        ("k8s.ovn.org/owner-type", "NoOverlayClusterSubnetSNAT"),
        ("k8s.ovn.org/topology", "layer3"),
        ("network", "cluster_udn_flat"),
    ];
    assert_eq!(exempting.external_ids, texts(&ids));
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    let pairs = pairs.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    pairs.collect()
}
