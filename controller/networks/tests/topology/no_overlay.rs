//! Networks whose packets to other nodes the fabric carries.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::{ClusterSettings, Feature, GatewayMode, IpFamily};
use patchbay_networks::{Destinations, NatRows, network_rows};
use patchbay_schemas::nb::{AddressSet, Nat};
use patchbay_zone::ZoneObjects;

use crate::support::{BY_RA, TWO_NODES, Zone, ipv4_settings, route_advertisements, zone_networks};

const NETWORK: &str = "
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
";

fn networks(outbound: &str, mode: GatewayMode, is_advertised: bool) -> ZoneObjects {
    let settings =
        ClusterSettings { gateway_mode: mode, ..ipv4_settings(&[Feature::RouteAdvertisements]) };
    let network = NETWORK.trim_start().replace("OUTBOUND", outbound);
    let mut yaml = TWO_NODES.to_owned() + &network;
    if is_advertised {
        yaml += &route_advertisements("advertisements: [PodNetwork]", "True");
    }
    zone_networks(&yaml, &settings, BY_RA.filter(|_| is_advertised))
}

/// NAT of the pods on cluster router and gateway router: subnet, match and exempted set.
fn nats(outbound: &str, mode: GatewayMode, is_advertised: bool) -> Vec<(String, String, bool)> {
    let networks = networks(outbound, mode, is_advertised);
    let rows = network_rows(&networks, "cluster_udn_flat").unwrap().unwrap();
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
    let mut zone = Zone::new();
    zone.settle(&networks("Enabled", GatewayMode::Shared, false));
    let snapshot = zone.database.snapshot();
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

#[test]
fn the_address_set_goes_after_the_rows_that_refer_to_it() {
    for mode in [GatewayMode::Shared, GatewayMode::Local] {
        let mut zone = Zone::new();
        let sets_and_nats = |zone: &Zone| {
            let (sets, nats) = (zone.rows::<AddressSet>(), zone.rows::<Nat>());
            let is_exempting = |set: &&AddressSet| {
                set.external_ids["k8s.ovn.org/name"] == "no-overlay-snat-exemption"
            };
            (
                sets.iter().filter(is_exempting).count(),
                nats.iter().filter(|nat| nat.exempted_ext_ips.is_some()).count(),
            )
        };
        for step in [Some("Enabled"), Some("Disabled"), Some("Enabled"), None] {
            let networks = step.map_or_else(
                || zone_networks(TWO_NODES, &ipv4_settings(&[]), None),
                |outbound| networks(outbound, mode, false),
            );
            zone.settle(&networks);
            let expected = usize::from(step == Some("Enabled"));
            assert_eq!(sets_and_nats(&zone), (expected, expected), "{step:?}");
        }
    }
}

#[test]
fn the_address_sets_have_the_families_of_the_network() {
    let settings = ClusterSettings {
        families: IpFamily::BOTH.to_vec(),
        ..ipv4_settings(&[Feature::RouteAdvertisements])
    };
    let network = NETWORK.trim_start().replace("OUTBOUND", "Enabled");
    let networks = zone_networks(&(TWO_NODES.to_owned() + &network), &settings, None);
    let rows = network_rows(&networks, "cluster_udn_flat").unwrap().unwrap();
    let sets = rows.address_sets.iter();
    let families: Vec<&str> = sets.map(|set| &*set.external_ids["ip-family"]).collect();
    assert_eq!(families, ["v4"]);
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    pairs.collect()
}
