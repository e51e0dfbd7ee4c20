//! EgressIPs from files: policies on the routers of both zones after each change.

use std::collections::BTreeSet;
use std::mem;

use patchbay_engine::txn::TxnBuilder;
use patchbay_model::{ClusterSettings, Feature, IpFamily};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{Embedded, Northbound as _};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_schemas::nb::{AddressSet, LogicalRouter, LogicalRouterPolicy};
use patchbay_schemas::uuids::UuidSource;

use crate::cluster_of;

const NAME: &str = "k8s.ovn.org/name";

const CLUSTER: &str = r#"
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Namespace
  metadata: {name: blue, labels: {k8s.ovn.org/primary-user-defined-network: '', egress: 'yes'}}
- apiVersion: v1
  kind: Namespace
  metadata: {name: green, labels: {k8s.ovn.org/primary-user-defined-network: '', egress: 'yes'}}
- apiVersion: v1
  kind: Node
  metadata: {name: n1, annotations: {k8s.ovn.org/node-chassis-id: c1, k8s.ovn.org/node-primary-ifaddr: '{"ipv4":"172.18.0.2/16"}'}}
- apiVersion: v1
  kind: Node
  metadata: {name: n2, annotations: {k8s.ovn.org/node-chassis-id: c2, k8s.ovn.org/node-primary-ifaddr: '{"ipv4":"172.18.0.3/16"}'}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: l3, namespace: blue}
  spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.10.0.0/16, hostSubnet: 24}]}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: l2, namespace: green}
  spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.20.0.0/16]}}
- apiVersion: v1
  kind: Pod
  metadata: {name: p1, namespace: blue, labels: {app: web}}
  spec: {nodeName: n1, containers: [{name: c}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: q1, namespace: green, labels: {app: web}}
  spec: {nodeName: n1, containers: [{name: c}]}
"#;

/// An EgressIP with this mark that a node has.
fn egress_ip(name: &str, mark: &str, node: &str, address: &str) -> String {
    format!(
        "- apiVersion: k8s.ovn.org/v1\n  kind: EgressIP\n  metadata: {{name: {name}, annotations: \
         {{k8s.ovn.org/egressip-mark: '{mark}'}}}}\n  spec: {{egressIPs: [{address}], \
         namespaceSelector: {{matchLabels: {{egress: 'yes'}}}}, podSelector: {{matchLabels: {{app: \
         web}}}}}}\n  status: {{items: [{{node: {node}, egressIP: {address}}}]}}\n"
    )
}

fn cluster(egress_ips: &str, features: &[Feature]) -> Cluster {
    cluster_with(&format!("{CLUSTER}{egress_ips}"), features)
}

fn cluster_with(manifests: &str, features: &[Feature]) -> Cluster {
    let settings = ClusterSettings {
        families: vec![IpFamily::V4],
        features: features.iter().copied().collect(),
        ..ClusterSettings::default()
    };
    cluster_of(manifests, settings)
}

struct Zone(ZoneReconciler<Embedded>);

impl Zone {
    fn new(name: &str) -> Self {
        let database = Embedded::new(0).unwrap();
        Self(ZoneReconciler::new(name, database, UuidSource::seeded(0)))
    }

    /// Reconciles, and returns the messages about EgressIPs.
    async fn pass(&mut self, cluster: &Cluster) -> Vec<String> {
        let outcome = self.0.reconcile(cluster).await.unwrap();
        assert!(self.0.is_reconciled(cluster));
        let problems = outcome.problems.iter().map(ToString::to_string);
        problems.collect()
    }

    /// Policies of EgressIPs of at most this priority, as `<router> <priority> <match> <next
    /// hops>`.
    fn policies(&self, limit: i64) -> Vec<String> {
        let snapshot = self.0.northbound().snapshot();
        let mut found = Vec::new();
        for row in snapshot.typed::<LogicalRouter>().iter() {
            let router = row.unwrap().1;
            for policy in router.policies {
                let policies = snapshot.typed::<LogicalRouterPolicy>();
                let policy = policies.get(policy.uuid).unwrap().unwrap();
                let owner = policy.external_ids.get("k8s.ovn.org/owner-type");
                if owner.is_none_or(|owner| owner != "EgressIP") || policy.priority > limit {
                    continue;
                }
                let hops: Vec<String> = policy.nexthops.into_iter().collect();
                found.push(format!(
                    "{} {} {} {}",
                    router.name,
                    policy.priority,
                    policy.r#match,
                    hops.join(",")
                ));
            }
        }
        found.sort();
        found
    }

    /// Addresses of the sets of served pods.
    fn served(&self) -> Vec<String> {
        let sets = self.served_sets().into_iter();
        let mut addresses: Vec<String> = sets.flat_map(|set| set.addresses).collect();
        addresses.sort();
        addresses
    }

    fn served_sets(&self) -> Vec<AddressSet> {
        let snapshot = self.0.northbound().snapshot();
        let sets = snapshot.typed::<AddressSet>();
        let sets = sets.iter().map(|row| row.unwrap().1);
        sets.filter(|set| set.external_ids[NAME] == "egressip-served-pods").collect()
    }

    /// Names of the EgressIPs that have policies of pods.
    fn serving(&self) -> BTreeSet<String> {
        let snapshot = self.0.northbound().snapshot();
        let policies = snapshot.typed::<LogicalRouterPolicy>();
        let policies = policies.iter().map(|row| row.unwrap().1);
        let names = policies.filter_map(|policy| {
            let name = policy.external_ids.get(NAME)?;
            Some(name.split_once('_')?.0.to_owned())
        });
        names.collect()
    }
}

#[tokio::test]
async fn packets_are_led_to_the_egress_node_and_marked_there() {
    let on_second = cluster(&egress_ip("eip", "50000", "n2", "172.18.0.100"), &[Feature::EgressIp]);
    let (mut first, mut second) = (Zone::new("n1"), Zone::new("n2"));
    assert_eq!(first.pass(&on_second).await, [] as [String; 0]);
    assert_eq!(second.pass(&on_second).await, [] as [String; 0]);
    assert_eq!(
        first.policies(100),
        [
            "blue_l3_ovn_cluster_router 100 ip4.src == 10.10.0.3 100.88.0.3",
            "green_l2_transit_router 100 ip4.src == 10.20.0.3 100.88.0.7",
        ]
    );
    assert_eq!(
        second.policies(100),
        [
            "GR_blue_l3_n2 95 ip4.src == 10.10.0.3 && pkt.mark == 0 ",
            "GR_green_l2_n2 95 ip4.src == 10.20.0.3 && pkt.mark == 0 ",
            "green_l2_transit_router 100 ip4.src == 10.20.0.3 100.88.0.7",
        ]
    );
    // Replies of served pods are marked on their own node.
    assert_eq!(first.served(), ["10.10.0.3", "10.20.0.3"]);
    assert_eq!(second.served(), [] as [&str; 0]);
    let on_first = cluster(&egress_ip("eip", "50000", "n1", "172.18.0.100"), &[Feature::EgressIp]);
    first.pass(&on_first).await;
    second.pass(&on_first).await;
    assert_eq!(
        first.policies(100),
        [
            "GR_blue_l3_n1 95 ip4.src == 10.10.0.3 && pkt.mark == 0 ",
            "GR_green_l2_n1 95 ip4.src == 10.20.0.3 && pkt.mark == 0 ",
            "blue_l3_ovn_cluster_router 100 ip4.src == 10.10.0.3 100.65.0.2",
            "green_l2_transit_router 100 ip4.src == 10.20.0.3 100.88.0.5",
        ]
    );
    assert_eq!(second.policies(100), [] as [&str; 0]);
    let none = cluster("", &[Feature::EgressIp]);
    first.pass(&none).await;
    assert_eq!(first.policies(100), [] as [&str; 0]);
    assert_eq!(first.policies(102).len(), 10);
    first.pass(&cluster("", &[])).await;
    assert_eq!(first.policies(102), [] as [&str; 0]);
}

#[tokio::test]
async fn a_layer2_pod_without_an_address_of_the_egress_ips_family_is_not_served() {
    let manifests = CLUSTER.replace(
        r#"'{"ipv4":"172.18.0.2/16"}'"#,
        r#"'{"ipv4":"172.18.0.2/16","ipv6":"fd18::2/64"}'"#,
    );
    let settings = || ClusterSettings {
        families: IpFamily::BOTH.to_vec(),
        features: [Feature::EgressIp].into(),
        ..ClusterSettings::default()
    };
    let mut zone = Zone::new("n1");
    for (address, served, policies) in
        [("172.18.0.100", &["10.10.0.3", "10.20.0.3"][..], 4), ("fd18::100", &["10.10.0.3"], 0)]
    {
        let manifests = format!("{manifests}{}", egress_ip("eip", "1", "n1", address));
        let cluster = cluster_of(&manifests, settings());
        assert_eq!(zone.pass(&cluster).await, [] as [String; 0], "{address}");
        assert_eq!(zone.served(), served);
        assert_eq!(zone.policies(100).len(), policies);
    }
}

#[tokio::test]
async fn the_address_set_of_served_pods_goes_with_its_network() {
    let mut zone = Zone::new("n1");
    let features = [Feature::EgressIp];
    zone.pass(&cluster("", &features)).await;
    assert_eq!(zone.served_sets().len(), 2);
    let (networks, _) = CLUSTER.split_once("- apiVersion: k8s.ovn.org/v1").unwrap();
    zone.pass(&cluster_with(networks, &features)).await;
    assert_eq!(zone.served_sets().len(), 0);
}

#[tokio::test]
async fn packets_for_a_node_in_the_older_layout_are_led_to_its_gateway_router() {
    let egress_ip = egress_ip("eip", "50000", "n2", "172.18.0.100");
    let keys = "k8s.ovn.org/udn-layer2-node-gateway-router-lrp-tunnel-ids: '{\"green_l2\":\"4\"}'";
    let version = ", k8s.ovn.org/layer2-topology-version: '2.0'";
    let node = "{k8s.ovn.org/node-chassis-id: c2, ";
    // The zone's own node is always in the present layout.
    for (zone, version, hop) in
        [("n1", "", "100.65.0.3"), ("n1", version, "100.88.0.7"), ("n2", "", "100.88.0.7")]
    {
        let older = CLUSTER.replace(node, &format!("{node}{keys}{version}, "));
        assert_ne!(older, CLUSTER);
        let cluster = cluster_with(&format!("{older}{egress_ip}"), &[Feature::EgressIp]);
        let mut zone = Zone::new(zone);
        assert_eq!(zone.pass(&cluster).await, [] as [String; 0]);
        let led = format!("green_l2_transit_router 100 ip4.src == 10.20.0.3 {hop}");
        assert_eq!(zone.policies(100).last(), Some(&led));
    }
}

#[tokio::test]
async fn what_cannot_be_served_is_named() {
    let features = [Feature::EgressIp];
    let served = egress_ip("a", "50000", "n1", "172.18.0.100");
    let taken = format!("{served}{}", egress_ip("b", "50001", "n1", "172.18.0.101"));
    let cases = [
        (
            egress_ip("a", "0", "n1", "172.18.0.100"),
            &features[..],
            "EgressIP a: metadata.annotations[k8s.ovn.org/egressip-mark]: no mark in \
             1..=4294967295, so pods of networks are not served",
        ),
        (
            egress_ip("a", "50000", "n1", "192.0.2.1"),
            &features[..],
            "EgressIP a: status.items: 192.0.2.1 is not in a subnet of node n1's primary interface, \
             so pods of networks are not served with it",
        ),
        (taken, &features[..], "EgressIP b: pod blue/p1 is served by EgressIP a"),
        (
            served,
            &[][..],
            "EgressIP a: feature egress-ip is off, so the object has no effect; see --enable",
        ),
    ];
    for (egress_ips, features, message) in cases {
        let mut zone = Zone::new("n1");
        let found = zone.pass(&cluster(&egress_ips, features)).await;
        assert_eq!(found.first().map(String::as_str), Some(message));
        let is_served = message.contains("served by");
        assert_eq!(zone.policies(100).is_empty(), !is_served, "{message}");
    }
}

#[tokio::test]
async fn the_egress_ip_that_serves_a_pod_keeps_it() {
    let features = [Feature::EgressIp];
    let first = egress_ip("a", "50000", "n1", "172.18.0.100");
    let second = egress_ip("b", "50001", "n1", "172.18.0.101");
    let both = format!("{first}{second}");
    let taken = |by: &str, name: &str| {
        ["blue/p1", "green/q1"]
            .map(|pod| format!("EgressIP {name}: pod {pod} is served by EgressIP {by}"))
    };
    let mut zone = Zone::new("n1");
    let steps = [
        (&second, "b", vec![]),
        (&both, "b", taken("b", "a").to_vec()),
        (&first, "a", vec![]),
        (&both, "a", taken("a", "b").to_vec()),
    ];
    for (egress_ips, serving, problems) in steps {
        let cluster = cluster(egress_ips, &features);
        assert_eq!(zone.pass(&cluster).await, problems);
        assert_eq!(zone.serving(), [serving.to_owned()].into());
        // A new controller finds the same in the rows.
        let database = mem::replace(zone.0.northbound_mut(), Embedded::new(0).unwrap());
        zone = Zone(ZoneReconciler::new("n1", database, UuidSource::seeded(1)));
        assert_eq!(zone.pass(&cluster).await, problems);
        assert_eq!(zone.serving(), [serving.to_owned()].into());
    }
}

#[tokio::test]
async fn each_pair_of_ranges_of_a_network_has_a_policy() {
    let subnets = "subnets: [{cidr: 10.10.0.0/16, hostSubnet: 24}";
    let more = format!("{subnets}, {{cidr: 10.11.0.0/16, hostSubnet: 24}}");
    let manifests = CLUSTER.replace(subnets, &more);
    assert_ne!(manifests, CLUSTER);
    let mut zone = Zone::new("n1");
    for _ in 0..2 {
        let cluster = cluster_with(&manifests, &[Feature::EgressIp]);
        assert_eq!(zone.pass(&cluster).await, [] as [String; 0]);
        let found = zone.policies(102);
        let found = found.iter().filter(|policy| policy.contains(" == 10.1"));
        let found: Vec<&str> = found.map(|policy| policy.trim_end()).collect();
        let router = "blue_l3_ovn_cluster_router 102";
        let expected = [
            ("10.10", "10.10"),
            ("10.10", "10.11"),
            ("10.10", "100.64"),
            ("10.11", "10.10"),
            ("10.11", "10.11"),
            ("10.11", "100.64"),
        ]
        .map(|(from, to)| format!("{router} ip4.src == {from}.0.0/16 && ip4.dst == {to}.0.0/16"));
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn nodes_of_files_have_the_addresses_of_their_derived_uplinks() {
    let annotation = r#", k8s.ovn.org/node-primary-ifaddr: '{"ipv4":"172.18.0.2/16"}'"#;
    assert!(CLUSTER.contains(annotation));
    let manifests = CLUSTER.replace(annotation, "") + &egress_ip("eip", "1", "n1", "172.18.0.9");
    let mut zone = Zone::new("n1");
    let found = zone.pass(&cluster_with(&manifests, &[Feature::EgressIp])).await;
    assert_eq!(found, [] as [String; 0]);
    assert_eq!(zone.policies(100).len(), 4);
}

#[tokio::test]
async fn an_egress_ip_without_a_known_node_keeps_no_other_from_serving() {
    let lost = egress_ip("a", "50000", "n9", "172.18.0.100");
    let both = format!("{lost}{}", egress_ip("b", "50001", "n1", "172.18.0.101"));
    let mut zone = Zone::new("n1");
    let found = zone.pass(&cluster(&both, &[Feature::EgressIp])).await;
    assert_eq!(found, [] as [String; 0]);
    assert_eq!(zone.serving(), ["b".to_owned()].into());
}

#[tokio::test]
async fn rows_about_the_default_network_stay() {
    let mut zone = Zone::new("n1");
    let ids = [
        ("k8s.ovn.org/owner-controller", "default-network-controller"),
        ("k8s.ovn.org/owner-type", "EgressIP"),
        (NAME, "egressip-served-pods"),
        ("network", "default"),
    ];
    let set = AddressSet {
        name: "a1".to_owned(),
        addresses: ["10.244.0.3".to_owned()].into(),
        external_ids: ids.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        ..AddressSet::default()
    };
    let mut txn = TxnBuilder::new(&zone.0.northbound().snapshot());
    txn.insert(&set).unwrap();
    let northbound = zone.0.northbound_mut();
    northbound.commit(txn.finish()).await.unwrap();
    for features in [&[Feature::EgressIp][..], &[]] {
        zone.pass(&cluster("", features)).await;
        assert_eq!(zone.served(), ["10.244.0.3"]);
    }
}
