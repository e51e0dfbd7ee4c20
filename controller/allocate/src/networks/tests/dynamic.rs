//! Node subnets with dynamic allocation.

use patchbay_model::{ClusterSettings, Feature, NODE_SUBNETS};
use patchbay_resources::manifests::{Inventory, ObjectKey};

use super::{NAMESPACES, annotation, at, conditions, node, udn};
use crate::networks::testing::inventory;
use crate::networks::*;

const EGRESS_IP: &str = "---
{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: e}, spec: {egressIPs: [172.18.0.100], \
namespaceSelector: {matchLabels: {color: blue}}}, status: {items: [{node: n2, egressIP: 172.18.0.100}]}}
";

/// Node subnets of the nodes `n1` to `n3`, and the warnings.
fn subnets(yaml: &str, features: &[Feature]) -> Vec<String> {
    let nodes: String = ["n1", "n2", "n3"].map(node).concat();
    let mut inventory = inventory(&(NAMESPACES.to_owned() + &nodes + yaml));
    let settings = ClusterSettings {
        features: features.iter().copied().chain([Feature::DynamicUdnAllocation]).collect(),
        ..ClusterSettings::default()
    };
    resolve(&mut inventory, &settings, &at(0)).unwrap();
    let nodes = inventory.nodes.iter();
    let texts = nodes.map(|(_, node)| annotation(&node.object.metadata, NODE_SUBNETS));
    texts.map(|text| text.unwrap_or_default().to_owned()).collect()
}

fn pod(name: &str, namespace: &str, node: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: {namespace}}}, spec: {{nodeName: {node}, \
         containers: []}}}}\n"
    )
}

#[test]
fn nodes_of_egress_ips_have_subnets_of_the_network() {
    let yaml = udn("blue", "l3", "Primary", "10.1.0.0/16") + &pod("a", "blue", "n1") + EGRESS_IP;
    let first = r#"{"blue_l3":["10.1.0.0/24"]}"#;
    let second = r#"{"blue_l3":["10.1.1.0/24"]}"#;
    assert_eq!(subnets(&yaml, &[]), [first, "", ""]);
    assert_eq!(subnets(&yaml, &[Feature::EgressIp]), [first, second, ""]);
}

#[test]
fn nodes_of_connected_networks_have_subnets_of_both() {
    let connect = "---
apiVersion: k8s.ovn.org/v1
kind: ClusterNetworkConnect
metadata:
  name: c
  annotations: {k8s.ovn.org/network-connect-subnet: '{\"layer3_1\":{\"ipv4\":\"192.168.0.0/24\"},\"layer3_2\":{\"ipv4\":\"192.168.1.0/24\"}}'}
spec:
  networkSelectors:
  - {networkSelectionType: PrimaryUserDefinedNetworks, primaryUserDefinedNetworkSelector: {namespaceSelector: {}}}
  connectSubnets: [{cidr: 192.168.0.0/16, networkPrefix: 24}]
  connectivity: [PodNetwork]
";
    let yaml = udn("blue", "l3", "Primary", "10.1.0.0/16")
        + &udn("cyan", "l3", "Primary", "10.2.0.0/16")
        + &pod("a", "blue", "n1")
        + &pod("b", "cyan", "n3");
    let blue = |subnet: &str| format!(r#"{{"blue_l3":["{subnet}"]}}"#);
    assert_eq!(
        subnets(&yaml, &[]),
        [blue("10.1.0.0/24").as_str(), "", r#"{"cyan_l3":["10.2.0.0/24"]}"#]
    );
    let both = |number: u8| {
        format!(r#"{{"blue_l3":["10.1.{number}.0/24"],"cyan_l3":["10.2.{number}.0/24"]}}"#)
    };
    assert_eq!(subnets(&(yaml + connect), &[]), [both(0), String::new(), both(1)]);
}

#[test]
fn a_network_that_a_user_defines_is_on_all_nodes() {
    let bare = r#"---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: own, namespace: plain}
spec: {config: '{"name":"own","netAttachDefName":"plain/own","type":"ovn-k8s-cni-overlay","topology":"layer3","subnets":"10.1.0.0/16"}'}
"#;
    let own = |subnet: &str| format!(r#"{{"own":["{subnet}"]}}"#);
    assert_eq!(subnets(bare, &[]), [own("10.1.0.0/24"), own("10.1.1.0/24"), own("10.1.2.0/24")]);
}

#[test]
fn a_localnet_network_with_subnets_counts_the_nodes_of_its_users() {
    let conditions = localnet_conditions("subnets: [10.1.0.0/16]");
    let expected = "NodesSelected=True DynamicAllocation: 1 node(s) rendered with network";
    assert!(conditions.contains(&expected.to_owned()), "{conditions:?}");
}

#[test]
fn a_localnet_network_without_subnets_counts_no_nodes() {
    let conditions = localnet_conditions("ipam: {mode: Disabled}");
    let created = conditions.iter().any(|one| one.starts_with("NetworkCreated=True"));
    let counted = conditions.iter().any(|one| one.starts_with("NodesSelected"));
    assert!(created && !counted, "{conditions:?}");
}

/// Conditions of a localnet network that a pod uses. `addresses`: fields of its specification.
fn localnet_conditions(addresses: &str) -> Vec<String> {
    let network = format!(
        "---
{{apiVersion: k8s.ovn.org/v1, kind: ClusterUserDefinedNetwork, metadata: {{name: lan}}, spec: {{namespaceSelector: \
{{matchLabels: {{color: red}}}}, network: {{topology: Localnet, localnet: {{role: Secondary, \
physicalNetworkName: phys, {addresses}}}}}}}}}
"
    );
    let metadata = "name: a, namespace: plain, annotations: {k8s.v1.cni.cncf.io/networks: lan}";
    let user = pod("a", "plain", "n1").replace("name: a, namespace: plain", metadata);
    let yaml = NAMESPACES.to_owned() + &node("n1") + &network + &user;
    let settings = ClusterSettings {
        features: [Feature::DynamicUdnAllocation].into(),
        ..ClusterSettings::default()
    };
    let mut inventory = inventory(&yaml);
    resolve(&mut inventory, &settings, &at(0)).unwrap();
    let networks = &inventory.cluster_user_defined_networks;
    conditions(networks.named("lan").unwrap().status.as_ref())
}

#[test]
fn a_pod_that_waits_for_its_primary_network_uses_no_network() {
    let selecting = |namespace: &str| {
        let metadata = format!(
            "name: a, namespace: {namespace}, annotations: {{k8s.v1.cni.cncf.io/networks: plain/own}}"
        );
        pod("a", namespace, "n1").replace(&format!("name: a, namespace: {namespace}"), &metadata)
    };
    let network = udn("plain", "own", "Secondary", "10.1.0.0/16");
    assert_eq!(subnets(&(network.clone() + &selecting("blue")), &[]), [""; 3]);
    let own = r#"{"plain_own":["10.1.0.0/24"]}"#;
    assert_eq!(subnets(&(network + &selecting("plain")), &[]), [own, "", ""]);
}

#[test]
fn a_pod_whose_primary_network_is_gone_uses_the_others() {
    let attached = pod("a", "blue", "n1").replace(
        "namespace: blue",
        "namespace: blue, annotations: {k8s.v1.cni.cncf.io/networks: plain/own, k8s.ovn.org/pod-networks: \
         '{\"blue/l3\":{\"ip_addresses\":[\"10.2.0.3/24\"],\"mac_address\":\"0a:58:0a:02:00:03\",\"role\":\"primary\"}}'}",
    );
    let network = udn("plain", "own", "Secondary", "10.1.0.0/16");
    let own = r#"{"plain_own":["10.1.0.0/24"]}"#;
    assert_eq!(subnets(&(network + &attached), &[]), [own, "", ""]);
}

#[test]
fn a_node_without_users_loses_its_subnet_after_the_grace_period() {
    let mut manager = NetworkManager::new(ManagerSettings {
        cluster: ClusterSettings {
            features: [Feature::DynamicUdnAllocation].into(),
            ..ClusterSettings::default()
        },
        ..ManagerSettings::default()
    });
    let yaml = udn("blue", "l3", "Primary", "10.1.0.0/16") + &pod("a", "blue", "n1") + &node("n1");
    let mut inventory = inventory(&(NAMESPACES.to_owned() + &yaml));
    let mut subnets = |inventory: &mut Inventory, second: i64| {
        manager.reconcile(inventory, &at(second));
        let node = inventory.nodes.named("n1").unwrap();
        let text = annotation(&node.metadata, NODE_SUBNETS).map(str::to_owned);
        (text, manager.next_deadline().map(jiff::Timestamp::as_second))
    };
    let annotated = Some(r#"{"blue_l3":["10.1.0.0/24"]}"#.to_owned());
    assert_eq!(subnets(&mut inventory, 0), (annotated.clone(), None));
    let key = ObjectKey::namespaced("blue", "a");
    let pod = inventory.pods.get(&key).unwrap().clone();
    inventory.pods.remove(&key);
    assert_eq!(subnets(&mut inventory, 10), (annotated.clone(), Some(130)));
    assert_eq!(subnets(&mut inventory, 129), (annotated.clone(), Some(130)));
    // A user that comes in time keeps it.
    inventory.pods.insert(pod);
    assert_eq!(subnets(&mut inventory, 129), (annotated.clone(), None));
    inventory.pods.remove(&key);
    assert_eq!(subnets(&mut inventory, 130), (annotated, Some(250)));
    assert_eq!(subnets(&mut inventory, 250), (None, None));
}
