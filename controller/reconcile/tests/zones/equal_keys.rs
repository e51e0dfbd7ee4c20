//! Pods whose annotations give them one tunnel id, address or MAC address in a network.

use patchbay_model::{ClusterSettings, IpFamily};

use crate::cluster_of;

/// A node, and a layer2 network of the namespace `blue`.
const CLUSTER: &str = "
{apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {k8s.ovn.org/node-chassis-id: c1}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: blue, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
---
{apiVersion: k8s.ovn.org/v1, kind: UserDefinedNetwork, metadata: {name: net, namespace: blue}, spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.10.0.0/16]}}}
";

/// Pod with an annotation of its address, MAC address and tunnel id, and further metadata.
fn pod(name: &str, address: &str, mac: &str, id: u16, further: &str) -> String {
    format!(
        r#"
---
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: blue
  labels: {{kubevirt.io: virt-launcher}}
  annotations:
    k8s.ovn.org/pod-networks: '{{"blue/net":{{"ip_addresses":["{address}/16"],"mac_address":"{mac}","gateway_ips":["10.10.0.1"],"tunnel_id":{id},"role":"primary"}}}}'
    {further}
spec: {{nodeName: n1, containers: [{{name: c, image: i}}]}}
"#
    )
}

/// Warnings about pods of [`CLUSTER`] that share something.
fn warnings(pods: &[String]) -> Vec<String> {
    let settings = ClusterSettings {
        families: vec![IpFamily::V4],
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        ..ClusterSettings::default()
    };
    let cluster = cluster_of(&(CLUSTER.to_owned() + &pods.concat()), settings);
    let warnings = cluster.warnings.into_iter();
    warnings.filter(|warning| warning.contains(" and blue/")).collect()
}

#[test]
fn a_tunnel_id_of_two_pods() {
    let one = pod("one", "10.10.0.3", "0a:58:0a:0a:00:03", 10, "");
    let two = pod("two", "10.10.0.4", "0a:58:0a:0a:00:04", 10, "");
    let three = pod("three", "10.10.0.5", "0a:58:0a:0a:00:05", 10, "");
    let other = pod("other", "10.10.0.6", "0a:58:0a:0a:00:06", 11, "");
    let expected = "network blue_net: pods blue/one and blue/two have tunnel id 10: nodes may give them \
                    different tunnel keys, and packets between nodes are lost";
    assert_eq!(warnings(&[one.clone(), two.clone()]), [expected]);
    assert_eq!(warnings(&[one.clone(), two, three]), [format!("{expected}; and 1 more")]);
    assert!(warnings(&[one, other]).is_empty());
}

#[test]
fn an_address_of_two_pods() {
    let one = pod("one", "10.10.0.3", "0a:58:0a:0a:00:03", 10, "");
    let two = pod("two", "10.10.0.3", "0a:58:0a:0a:00:04", 11, "");
    let three = pod("three", "10.10.0.5", "0A:58:0A:0A:00:03", 12, "");
    assert_eq!(
        warnings(&[one.clone(), two]),
        ["network blue_net: pods blue/one and blue/two have 10.10.0.3: packets reach one of them"]
    );
    assert_eq!(
        warnings(&[one, three]),
        [
            "network blue_net: pods blue/one and blue/three have MAC address 0a:58:0a:0a:00:03: packets \
          reach one of them"
        ]
    );
}

#[test]
fn pods_of_a_machine_share_addresses_but_no_tunnel_id() {
    let launcher = |name, id, machine| {
        let domain = format!("kubevirt.io/domain: {machine}");
        pod(name, "10.10.0.3", "0a:58:0a:0a:00:03", id, &domain)
    };
    let source = launcher("source", 10, "vm");
    assert!(warnings(&[source.clone(), launcher("target", 11, "vm")]).is_empty());
    assert!(
        warnings(&[source.clone(), launcher("target", 10, "vm")])[0].contains("have tunnel id 10")
    );
    assert!(warnings(&[source, launcher("target", 11, "other")])[0].contains("reach one of them"));
}
