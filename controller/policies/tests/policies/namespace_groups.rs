//! Port groups of namespaces, which multicast and EgressFirewalls need.

use std::collections::BTreeMap;

use patchbay_engine::db::Snapshot;
use patchbay_model::{ClusterSettings, Feature, IpFamily};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{Embedded, Northbound as _};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_schemas::nb::{LogicalSwitchPort, PortGroup};
use patchbay_schemas::uuids::UuidSource;

use crate::cluster_of;

const CLUSTER: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: green, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: red}}
- {apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {k8s.ovn.org/node-chassis-id: c1}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2, annotations: {k8s.ovn.org/node-chassis-id: c2}}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: l2, namespace: green}
  spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.20.0.0/16]}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: s3, namespace: red}
  spec: {topology: Layer3, layer3: {role: Secondary, subnets: [{cidr: 10.30.0.0/16}]}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: bare, namespace: red}
  spec: {topology: Layer2, layer2: {role: Secondary, ipam: {mode: Disabled}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: q1, namespace: green, annotations: {k8s.v1.cni.cncf.io/networks: 'red/s3, red/bare'}}
  spec: {nodeName: n1, containers: [{name: c}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: q2, namespace: green, annotations: {k8s.v1.cni.cncf.io/networks: 'red/s3, red/bare'}}
  spec: {nodeName: n2, containers: [{name: c}]}
";

fn cluster(features: &[Feature]) -> Cluster {
    let settings = ClusterSettings {
        families: vec![IpFamily::V4],
        features: features.iter().copied().collect(),
        ..ClusterSettings::default()
    };
    cluster_of(CLUSTER, settings)
}

/// Names of the ports of the groups, by network and namespace.
fn groups(snapshot: &Snapshot) -> BTreeMap<String, Vec<String>> {
    let ports = snapshot.typed::<LogicalSwitchPort>();
    let names: BTreeMap<_, String> =
        ports.iter().map(Result::unwrap).map(|(port, row)| (port, row.name)).collect();
    let groups = snapshot.typed::<PortGroup>();
    let groups = groups.iter().map(|row| row.unwrap().1);
    let groups = groups.filter(|group| group.external_ids["k8s.ovn.org/owner-type"] == "Namespace");
    groups
        .map(|group| {
            let mut ports: Vec<String> =
                group.ports.iter().map(|port| names[port].clone()).collect();
            ports.sort();
            let id = &group.external_ids["k8s.ovn.org/id"];
            (id.replace("-network-controller:Namespace", ""), ports)
        })
        .collect()
}

#[tokio::test]
async fn namespaces_have_groups_in_their_networks_while_a_feature_needs_them() {
    let mut zone = ZoneReconciler::new("n1", Embedded::new(0).unwrap(), UuidSource::seeded(0));
    // A layer2 network has the ports of other zones, too.
    let primary = ("green_l2:green", &["green.l2_green_q1", "green.l2_green_q2"][..]);
    // A network without addresses has empty groups.
    let secondary = [
        ("red_bare:green", &[][..]),
        ("red_bare:red", &[][..]),
        ("red_s3:green", &["red.s3_green_q1"][..]),
        ("red_s3:red", &[][..]),
    ];
    let all: Vec<_> = [primary].into_iter().chain(secondary).collect();
    let cases = [
        (&[][..], Vec::new()),
        (&[Feature::Multicast][..], vec![primary]),
        (&[Feature::EgressFirewall][..], all.clone()),
        (&[Feature::EgressFirewall, Feature::Multicast][..], all),
        (&[][..], Vec::new()),
    ];
    for (features, expected) in cases {
        let cluster = cluster(features);
        let outcome = zone.reconcile(&cluster).await.unwrap();
        assert_eq!(outcome.problems, [], "{features:?}");
        assert!(zone.is_reconciled(&cluster), "{features:?}");
        let found = groups(&zone.northbound().snapshot());
        let found: Vec<(&str, Vec<&str>)> = found
            .iter()
            .map(|(group, ports)| (group.as_str(), ports.iter().map(String::as_str).collect()))
            .collect();
        let expected: Vec<(&str, Vec<&str>)> =
            expected.iter().map(|(group, ports)| (*group, ports.to_vec())).collect();
        assert_eq!(found, expected, "{features:?}");
    }
}
