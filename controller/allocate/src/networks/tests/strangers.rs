//! Attachment definitions that users have written by hand.

use super::{NAMESPACES, SHARED, networks, node, resolved};
use crate::networks::annotations::annotation;
use patchbay_model::NODE_SUBNETS;

#[test]
fn a_foreign_definition_does_not_take_the_name_of_a_network() {
    let stranger = r#"
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: x, namespace: blue, annotations: {k8s.ovn.org/tunnel-keys: '[]'}}
spec: {config: '{"name":"cluster_udn_shared","netAttachDefName":"blue/x","type":"ovn-k8s-cni-overlay",
  "topology":"layer3","role":"secondary","subnets":"10.9.0.0/16"}'}
"#;
    let yaml = NAMESPACES.to_owned() + stranger + SHARED + &node("n1");
    let inventory = resolved(&yaml);
    assert!(
        networks(&inventory)
            .contains(&"cyan/shared cluster_udn_shared 1 [16711684,16715779]".to_owned())
    );
    let meta = &inventory.nodes.named("n1").unwrap().metadata;
    assert_eq!(annotation(meta, NODE_SUBNETS), None);
    let layer3 = SHARED
        .replace("topology: Layer2", "topology: Layer3")
        .replace(
            "layer2: {role: Primary, subnets: [10.20.0.0/16]}",
            "layer3: {role: Primary, subnets: [{cidr: 10.20.0.0/16}]}",
        );
    let inventory = resolved(&(NAMESPACES.to_owned() + stranger + &layer3 + &node("n1")));
    let meta = &inventory.nodes.named("n1").unwrap().metadata;
    assert_eq!(
        annotation(meta, NODE_SUBNETS),
        Some(r#"{"cluster_udn_shared":["10.20.0.0/24"]}"#)
    );
}

#[test]
fn a_foreign_definition_has_no_influence_on_id_and_keys() {
    let stranger = r#"
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: x, namespace: plain, annotations: {k8s.ovn.org/network-id: '7', k8s.ovn.org/tunnel-keys: '[5]'}}
spec: {config: '{"name":"cluster_udn_shared","netAttachDefName":"plain/x","type":"ovn-k8s-cni-overlay",
  "topology":"layer2","role":"primary","subnets":"10.9.0.0/16"}'}
"#;
    let inventory = resolved(&(NAMESPACES.to_owned() + stranger + SHARED));
    assert!(
        networks(&inventory)
            .contains(&"cyan/shared cluster_udn_shared 1 [16711684,16715779]".to_owned())
    );
}
