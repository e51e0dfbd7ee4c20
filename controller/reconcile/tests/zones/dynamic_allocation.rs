//! Dynamic allocation: networks on nodes with users only, from manifests.

use patchbay_model::{ClusterSettings, Feature, IpFamily};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{Embedded, Northbound as _};
use patchbay_reconcile::zone::{ZoneOutcome, ZoneReconciler};
use patchbay_resources::manifests::read_manifests;
use patchbay_resources::object::Time;
use patchbay_schemas::nb::{
    AddressSet, LoadBalancerGroup, LogicalRouter, LogicalRouterPort, LogicalSwitch,
    LogicalSwitchPort, PortGroup,
};
use patchbay_schemas::typed::TableRow;
use patchbay_schemas::uuids::UuidSource;

const CLUSTER: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: blue, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: green, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: other}}
- {apiVersion: v1, kind: Namespace, metadata: {name: red, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {k8s.ovn.org/node-chassis-id: c1}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2, annotations: {k8s.ovn.org/node-chassis-id: c2}}}
- {apiVersion: v1, kind: Node, metadata: {name: n3, annotations: {k8s.ovn.org/node-chassis-id: c3}}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: l3, namespace: blue}
  spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.10.0.0/16, hostSubnet: 24}]}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: l2, namespace: green}
  spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.20.0.0/16]}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: extra, namespace: other}
  spec: {topology: Layer2, layer2: {role: Secondary, subnets: [10.30.0.0/16]}}
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata: {name: none, namespace: green}
  spec: {podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}
";

const CONNECT: &str = "- apiVersion: k8s.ovn.org/v1
  kind: ClusterNetworkConnect
  metadata: {name: c}
  spec:
    networkSelectors:
    - networkSelectionType: PrimaryUserDefinedNetworks
      primaryUserDefinedNetworkSelector: {namespaceSelector: {}}
    connectSubnets: [{cidr: 192.168.0.0/16, networkPrefix: 24}]
    connectivity: [PodNetwork]
";

fn pod(namespace: &str, name: &str, node: &str) -> String {
    format!(
        "- apiVersion: v1\n  kind: Pod\n  metadata: {{name: {name}, namespace: {namespace}}}\n  \
         spec: {{nodeName: {node}, containers: [{{name: c, image: i}}]}}\n"
    )
}

struct World(ZoneReconciler<Embedded>);

impl World {
    fn new() -> Self {
        let northbound = Embedded::new(0).unwrap();
        let zone = ZoneReconciler::new("n1", northbound, UuidSource::seeded(1));
        Self(zone)
    }

    /// Applies pods at a time in seconds.
    async fn apply(&mut self, pods: &[String], second: i64) -> ZoneOutcome {
        let yaml = format!("{CLUSTER}{}", pods.concat());
        let inventory = read_manifests(&["-".into()], &mut yaml.as_bytes()).unwrap();
        let settings = ClusterSettings {
            families: vec![IpFamily::V4],
            features: [Feature::DynamicUdnAllocation].into(),
            ..ClusterSettings::default()
        };
        let now = Time(jiff::Timestamp::from_second(second).unwrap());
        let cluster = Cluster::from_inventory(inventory, settings, now).unwrap();
        let outcome = self.0.reconcile(&cluster).await.unwrap();
        assert!(self.0.is_reconciled(&cluster));
        outcome
    }

    fn names<T: TableRow>(&self, name: impl Fn(T) -> String, start: &str) -> Vec<String> {
        let snapshot = self.0.northbound().snapshot();
        let rows = snapshot.typed::<T>();
        let mut names: Vec<String> = rows
            .iter()
            .map(|row| name(row.unwrap().1))
            .filter(|name| name.contains(start))
            .collect();
        names.sort();
        names
    }

    fn routers(&self) -> Vec<String> {
        self.names(|router: LogicalRouter| router.name, "")
    }

    fn switches(&self) -> Vec<String> {
        self.names(|switch: LogicalSwitch| switch.name, "")
    }

    /// Ports that lead to other nodes.
    fn remote_ports(&self) -> Vec<String> {
        let mut ports = self.names(|port: LogicalSwitchPort| port.name, "_tstor-n");
        ports.extend(self.names(|port: LogicalRouterPort| port.name, "trtor-GR_"));
        let own = |port: &String| !port.ends_with("n1");
        ports.into_iter().filter(own).collect()
    }
}

#[tokio::test]
async fn a_zone_has_the_networks_of_its_pods() {
    let mut world = World::new();
    world.apply(&[pod("blue", "a", "n2")], 0).await;
    assert_eq!(world.routers(), [""; 0]);
    assert_eq!(world.switches(), [""; 0]);

    let pods = [pod("blue", "a", "n2"), pod("blue", "b", "n1"), pod("green", "c", "n3")];
    world.apply(&pods, 1).await;
    assert_eq!(world.routers(), ["GR_blue_l3_n1", "blue_l3_ovn_cluster_router"]);
    // The node without pods is not reached, and has no subnet.
    assert_eq!(world.remote_ports(), ["blue_l3_tstor-n2"]);

    let pods = [pod("blue", "b", "n1"), pod("green", "c", "n3"), pod("green", "d", "n1")];
    world.apply(&pods, 2).await;
    assert_eq!(world.remote_ports(), ["trtor-GR_green_l2_n3"]);
    assert!(world.switches().contains(&"green_l2_ovn_layer2_switch".to_owned()));
}

#[tokio::test]
async fn a_connect_makes_its_networks_active_on_nodes_of_each_other() {
    let mut world = World::new();
    let mut pods = vec![pod("blue", "a", "n1"), pod("green", "b", "n3")];
    world.apply(&pods, 0).await;
    assert_eq!(world.remote_ports(), [""; 0]);
    pods.push(CONNECT.to_owned());
    world.apply(&pods, 1).await;
    assert_eq!(world.remote_ports(), ["blue_l3_tstor-n3", "trtor-GR_green_l2_n3"]);
}

#[tokio::test]
async fn links_of_connects_go_before_the_networks_without_users() {
    let mut world = World::new();
    let there = [pod("green", "b", "n3"), CONNECT.to_owned()];
    let mut both = vec![pod("blue", "a", "n1")];
    both.extend(there.clone());
    world.apply(&both, 0).await;
    let links = |world: &World| world.names(|port: LogicalRouterPort| port.name, "rtocr-");
    assert_eq!(links(&world), ["rtocr-blue_l3_n1_c", "rtocr-green_l2_c"]);
    let routers = world.routers();

    world.apply(&there, 10).await;
    assert_eq!(links(&world), [""; 0]);
    assert_eq!(world.routers(), routers);

    world.apply(&both, 20).await;
    assert_eq!(links(&world).len(), 2);
}

#[tokio::test]
async fn a_secondary_network_is_where_its_pods_are() {
    let mut world = World::new();
    let attached = |node: &str| {
        pod("other", "a", node).replace(
            "namespace: other",
            "namespace: other, annotations: {k8s.v1.cni.cncf.io/networks: extra}",
        )
    };
    world.apply(&[attached("n2")], 0).await;
    assert_eq!(world.switches(), [""; 0]);
    // A pod that waits for its primary network uses none yet.
    let waiting = pod("red", "b", "n1").replace(
        "namespace: red",
        "namespace: red, annotations: {k8s.v1.cni.cncf.io/networks: other/extra}",
    );
    world.apply(std::slice::from_ref(&waiting), 0).await;
    assert_eq!(world.switches(), [""; 0]);
    // One whose primary network is gone uses its other networks.
    let attached_before = waiting.replace(
        "other/extra}",
        r#"other/extra, k8s.ovn.org/pod-networks: '{"red/gone":{"ip_addresses":["10.2.0.3/24"],"role":"primary"}}'}"#,
    );
    let mut other_world = World::new();
    other_world.apply(&[attached_before], 0).await;
    assert_eq!(other_world.switches(), ["other_extra_ovn_layer2_switch"]);
    // A pod on the network of its node has no port in others.
    let on_host = attached("n1").replace("spec: {", "spec: {hostNetwork: true, ");
    world.apply(&[on_host], 0).await;
    assert_eq!(world.switches(), [""; 0]);
    world.apply(&[attached("n1")], 1).await;
    assert_eq!(world.switches(), ["other_extra_ovn_layer2_switch"]);
}

#[tokio::test]
async fn a_network_without_users_goes_after_the_grace_period_with_all_its_rows() {
    let mut world = World::new();
    let there = pod("green", "there", "n2");
    world.apply(&[there.clone(), pod("green", "here", "n1")], 0).await;
    let rows = |world: &World| {
        let sets = world.names(|set: AddressSet| set.external_ids["k8s.ovn.org/id"].clone(), "");
        let groups = world
            .names(|group: PortGroup| group.external_ids["k8s.ovn.org/id"].clone(), "green_l2");
        let sets = sets.into_iter().filter(|set| set.contains("green_l2"));
        let balancers = world.names(|group: LoadBalancerGroup| group.name, "green_l2");
        sets.count() + groups.len() + balancers.len() + world.switches().len()
    };
    let before = rows(&world);
    let outcome = world.apply(std::slice::from_ref(&there), 10).await;
    let removal = outcome.next_removal.unwrap();
    assert_eq!(removal.as_second(), 130);
    let outcome = world.apply(std::slice::from_ref(&there), 129).await;
    assert_eq!((outcome.next_removal, rows(&world)), (Some(removal), before));

    let outcome = world.apply(std::slice::from_ref(&there), 130).await;
    assert_eq!((outcome.next_removal, rows(&world)), (None, 0));
    assert_eq!(world.routers(), [""; 0]);
}
