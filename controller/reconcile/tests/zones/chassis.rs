//! Nodes that get another chassis id: ports of other zones that lead to them, and to their pods.

use patchbay_model::{ClusterSettings, IpFamily};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{Embedded, Northbound as _};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_resources::object::Time;
use patchbay_schemas::nb::LogicalSwitchPort;
use patchbay_schemas::uuids::UuidSource;

use crate::cluster_of;

/// Ports that lead to node `n2`: that of the transit switch, and that of a pod.
const PORTS: [&str; 2] = ["blue_l3_tstor-n2", "green.l2_green_there"];

/// A layer3 and a layer2 network on two nodes, and a pod on the second one. With `more`, another
/// network.
fn manifests(chassis: &str, created: u8, more: bool) -> String {
    let more = if more {
        "
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: s2, namespace: blue}
  spec: {topology: Layer2, layer2: {role: Secondary, subnets: [10.30.0.0/16]}}"
    } else {
        ""
    };
    format!(
        "
apiVersion: v1
kind: List
items:
- {{apiVersion: v1, kind: Namespace, metadata: {{name: blue, labels: {{k8s.ovn.org/primary-user-defined-network: ''}}}}}}
- {{apiVersion: v1, kind: Namespace, metadata: {{name: green, labels: {{k8s.ovn.org/primary-user-defined-network: ''}}}}}}
- {{apiVersion: v1, kind: Node, metadata: {{name: n1, annotations: {{k8s.ovn.org/node-chassis-id: c1}}}}}}
- apiVersion: v1
  kind: Node
  metadata:
    name: n2
    creationTimestamp: '2026-01-01T00:00:{created:02}Z'
    annotations: {{k8s.ovn.org/node-chassis-id: {chassis}}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {{name: l3, namespace: blue}}
  spec: {{topology: Layer3, layer3: {{role: Primary, subnets: [{{cidr: 10.10.0.0/16, hostSubnet: 24}}]}}}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {{name: l2, namespace: green}}
  spec: {{topology: Layer2, layer2: {{role: Primary, subnets: [10.20.0.0/16]}}}}
- apiVersion: v1
  kind: Pod
  metadata: {{name: there, namespace: green, uid: u1}}
  spec: {{nodeName: n2, containers: [{{name: c, image: i}}]}}{more}
"
    )
}

/// The objects of manifests, or the same as watched in a running cluster.
fn cluster(manifests: &str, is_watched: bool) -> Cluster {
    let settings = ClusterSettings { families: vec![IpFamily::V4], ..ClusterSettings::default() };
    let cluster = cluster_of(manifests, settings.clone());
    if !is_watched {
        return cluster;
    }
    let now = Time(jiff::Timestamp::from_second(0).unwrap());
    Cluster::watched(cluster.inventory, settings, now)
}

/// Reconciles, and returns the chassis to which the ports are bound.
async fn bound(zone: &mut ZoneReconciler<Embedded>, cluster: &Cluster) -> [String; 2] {
    zone.reconcile(cluster).await.unwrap();
    assert!(zone.is_reconciled(cluster));
    let snapshot = zone.northbound().snapshot();
    let ports: Vec<_> =
        snapshot.typed::<LogicalSwitchPort>().iter().map(|port| port.unwrap().1).collect();
    PORTS.map(|name| {
        let port = ports.iter().find(|port| port.name == name).unwrap();
        port.options["requested-chassis"].clone()
    })
}

fn reconciler(northbound: Embedded) -> ZoneReconciler<Embedded> {
    ZoneReconciler::new("n1", northbound, UuidSource::seeded(1))
}

#[tokio::test]
async fn another_chassis_id_reaches_ports_of_other_zones_at_the_next_start() {
    for is_watched in [false, true] {
        let mut zone = reconciler(Embedded::new(0).unwrap());
        let first = cluster(&manifests("c2", 1, false), is_watched);
        assert_eq!(bound(&mut zone, &first).await, ["c2", "c2"]);
        let changed = cluster(&manifests("c3", 1, false), is_watched);
        assert_eq!(bound(&mut zone, &changed).await, ["c2", "c2"]);
        // Networks are read from nothing.
        let changed = cluster(&manifests("c3", 1, true), is_watched);
        assert_eq!(bound(&mut zone, &changed).await, ["c2", "c2"]);

        let northbound = std::mem::replace(zone.northbound_mut(), Embedded::new(0).unwrap());
        let mut zone = reconciler(northbound);
        assert_eq!(bound(&mut zone, &changed).await, ["c3", "c3"]);
    }
}

#[tokio::test]
async fn ports_of_other_zones_are_bound_to_a_node_that_is_created_again() {
    for is_watched in [false, true] {
        let mut zone = reconciler(Embedded::new(0).unwrap());
        let first = cluster(&manifests("c2", 1, false), is_watched);
        assert_eq!(bound(&mut zone, &first).await, ["c2", "c2"]);
        let again = cluster(&manifests("c3", 2, false), is_watched);
        assert_eq!(bound(&mut zone, &again).await, ["c3", "c3"]);
    }
}
