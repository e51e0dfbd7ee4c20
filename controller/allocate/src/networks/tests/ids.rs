//! Ids and tunnel keys that annotations have.

use super::{NAMESPACES, SHARED, at, networks, resolved};
use crate::networks::resolve;
use crate::networks::testing::inventory;
use patchbay_model::ClusterSettings;

#[test]
fn ids_that_contradict_each_other_are_errors() {
    let nad = |name: &str, network: &str, annotations: &str| {
        format!(
            "---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {{name: {name}, namespace: \
             plain, annotations: {{{annotations}}}}}\nspec: {{config: '{{\"name\":\"{network}\",\"topology\":\"layer3\",\
             \"netAttachDefName\":\"plain/{name}\",\"type\":\"ovn-k8s-cni-overlay\"}}'}}\n"
        )
    };
    let mut inventory = inventory(
        &(nad("a", "n", "k8s.ovn.org/network-id: '1'")
            + &nad("b", "n", "k8s.ovn.org/network-id: '2'")
            + &nad("c", "m", "k8s.ovn.org/network-id: '2'")
            + &nad("d", "o", "k8s.ovn.org/network-id: '0'")
            + &nad("e", "p", "k8s.ovn.org/network-id: x")
            + &nad("f", "q", "k8s.ovn.org/tunnel-keys: '[0]'")),
    );
    let error = resolve(&mut inventory, &ClusterSettings::default(), &at(0)).unwrap_err();
    let field = "metadata.annotations[k8s.ovn.org/network-id]";
    let texts: Vec<_> = error
        .problems
        .iter()
        .map(|problem| {
            problem
                .to_string()
                .split_once("NetworkAttachmentDefinition ")
                .unwrap()
                .1
                .to_owned()
        })
        .collect();
    assert_eq!(
        texts,
        [
            format!("plain/b: {field}: network n has id 1 elsewhere, here it is 2"),
            format!("plain/d: {field}: network id 0 is that of the default network"),
            format!("plain/e: {field}: network id \"x\" is not a number"),
            "plain/f: metadata.annotations[k8s.ovn.org/tunnel-keys]: datapath tunnel key 0 is not in 1..=16777215".into(),
            format!("plain/c: {field}: network m has id 2, which is that of network n"),
        ]
    );
}

#[test]
fn keys_of_connect_routers_are_not_allocated_again() {
    let cnc = "
---
apiVersion: k8s.ovn.org/v1
kind: ClusterNetworkConnect
metadata: {name: c, annotations: {k8s.ovn.org/connect-router-tunnel-key: '16715779'}}
spec:
  networkSelectors:
  - networkSelectionType: ClusterUserDefinedNetworks
    clusterUserDefinedNetworkSelector: {networkSelector: {}}
  connectSubnets: [{cidr: 192.168.0.0/16, networkPrefix: 24}]
  connectivity: [PodNetwork]
";
    let inventory = resolved(&(NAMESPACES.to_owned() + SHARED + cnc));
    assert!(networks(&inventory)[0].ends_with("[16711684,16715780]"));
}

#[test]
fn tunnel_keys_are_those_of_the_id_and_of_a_router() {
    let nad = |name: &str, config: &str, annotations: &str| {
        format!(
            "---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {{name: {name}, namespace: \
             plain, annotations: {{{annotations}}}}}\nspec: {{config: '{{\"name\":\"{name}\",\"type\":\"ovn-k8s-cni-overlay\",\
             \"netAttachDefName\":\"plain/{name}\",{config}}}'}}\n"
        )
    };
    let layer2 = r#""topology":"layer2","role":"primary","subnets":"10.1.0.0/16""#;
    for keys in [
        "[16711684,16715779]",
        "[16711688,16711684]",
        "[16711688]",
        "[16711688,16715779,16715780]",
    ] {
        let annotations = format!("k8s.ovn.org/network-id: '5', k8s.ovn.org/tunnel-keys: '{keys}'");
        let mut inventory = inventory(&nad("a", layer2, &annotations));
        let error = resolve(&mut inventory, &ClusterSettings::default(), &at(0)).unwrap_err();
        assert!(
            error.problems[0].to_string().ends_with(
                "NetworkAttachmentDefinition plain/a: metadata.annotations[k8s.ovn.org/tunnel-keys]: network a has id 5, \
                 so its tunnel keys are 16711688 and one of 16715779..=16777215"
            ),
            "{keys}: {error}"
        );
    }
    // What it was handed out as a layer2 network is not that of a layer3 network any more.
    let layer3 = r#""topology":"layer3","subnets":"10.1.0.0/16""#;
    let yaml = nad(
        "a",
        layer3,
        "k8s.ovn.org/tunnel-keys: '[16711684,16715779]'",
    ) + &nad("b", layer2, "");
    assert_eq!(
        networks(&resolved(&yaml)),
        ["plain/a a 1 []", "plain/b b 2 [16711685,16715779]"]
    );
}
