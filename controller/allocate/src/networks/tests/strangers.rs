//! Attachment definitions that users have written by hand.

use patchbay_model::NODE_SUBNETS;

use super::{NAMESPACES, SHARED, networks, node, resolved, udn, udn_conditions};
use crate::networks::annotations::annotation;

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
    let layer3 = SHARED.replace("topology: Layer2", "topology: Layer3").replace(
        "layer2: {role: Primary, subnets: [10.20.0.0/16]}",
        "layer3: {role: Primary, subnets: [{cidr: 10.20.0.0/16}]}",
    );
    let inventory = resolved(&(NAMESPACES.to_owned() + stranger + &layer3 + &node("n1")));
    let meta = &inventory.nodes.named("n1").unwrap().metadata;
    assert_eq!(annotation(meta, NODE_SUBNETS), Some(r#"{"cluster_udn_shared":["10.20.0.0/24"]}"#));
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

/// Recorded: `full-definition-refused-l3`.
#[test]
fn a_refused_definition_keeps_its_id_its_keys_and_the_subnets_of_nodes() {
    let node = r#"
---
apiVersion: v1
kind: Node
metadata: {name: n1, annotations: {k8s.ovn.org/node-subnets: '{"plain_x":["10.9.0.0/24"]}'}}
"#;
    for config in [
        "{",
        r#"{"name":"plain_x","netAttachDefName":"plain/x","type":"ovn-k8s-cni-overlay","topology":"layer9"}"#,
        r#"{"name":"plain_x","netAttachDefName":"plain/x","type":"ovn-k8s-cni-overlay","topology":"layer3",
           "role":"secondary","subnets":"10.9.0.0/16/24","allowPersistentIPs":true}"#,
    ] {
        let refused = format!(
            r"
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  name: x
  namespace: plain
  annotations: {{k8s.ovn.org/network-name: plain_x, k8s.ovn.org/network-id: '1', k8s.ovn.org/tunnel-keys: '[16711684,16715779]'}}
spec: {{config: '{config}'}}
"
        );
        let inventory = resolved(&(NAMESPACES.to_owned() + &refused + SHARED + node));
        assert_eq!(
            networks(&inventory),
            [
                "blue/shared cluster_udn_shared 2 [16711685,16715780]",
                "cyan/shared cluster_udn_shared 2 [16711685,16715780]",
                "plain/x plain_x 1 [16711684,16715779]",
            ],
            "{config}"
        );
        let meta = &inventory.nodes.named("n1").unwrap().metadata;
        let subnets = annotation(meta, NODE_SUBNETS);
        assert_eq!(subnets, Some(r#"{"plain_x":["10.9.0.0/24"]}"#), "{config}");
    }
}

#[test]
fn a_primary_network_waits_while_a_definition_in_its_namespace_cannot_be_read() {
    let beside = |spec: &str| {
        let stranger = format!(
            "---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {{name: x, namespace: \
             blue}}\nspec: {spec}\n"
        );
        let yaml = NAMESPACES.to_owned() + &stranger + &udn("blue", "l3", "Primary", "10.1.0.0/16");
        udn_conditions(&resolved(&yaml), "blue", "l3")[0].clone()
    };
    let waits = "NetworkCreated=False SyncError: failed to validate no primary network exist: unmarshal failed \
                 [blue/x]: ";
    let missing = format!("{waits}unexpected end of JSON input");
    assert_eq!(beside("{}"), missing);
    assert_eq!(beside("{config: ''}"), missing);
    let broken = beside("{config: '{'}");
    assert!(broken.starts_with(waits), "{broken}");
    let other = beside(r#"{config: '{"type":"bridge"}'}"#);
    assert!(other.starts_with("NetworkCreated=True"), "{other}");
}

#[test]
fn definitions_of_one_network_may_be_written_differently() {
    let nad = |namespace: &str, fields: &str| {
        format!(
            "---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {{name: net, namespace: \
             {namespace}}}\nspec: {{config: '{{\"name\":\"tenant\",\"netAttachDefName\":\"{namespace}/net\",\"type\":\
             \"ovn-k8s-cni-overlay\",\"topology\":\"layer2\",{fields}}}'}}\n"
        )
    };
    let subnets = r#""subnets":"10.1.0.0/16,fd01::/64""#;
    let yaml = NAMESPACES.to_owned()
        + &nad("blue", subnets)
        + &nad("cyan", r#""role":"secondary","subnets":"fd01::/64, 10.1.0.0/16""#)
        + &nad("plain", r#""subnets":"10.1.0.0/16,fd01::/64","mtu":1300"#);
    let inventory = resolved(&yaml);
    assert_eq!(
        networks(&inventory),
        ["blue/net tenant 1 []", "cyan/net tenant 1 []", "plain/net - - -"]
    );
    let known = patchbay_resources::conversion::networks_of(&inventory);
    assert_eq!(known.by_name("tenant").unwrap().nads.len(), 2);
}

#[test]
fn a_definition_with_a_field_of_another_type_has_no_network() {
    let nad = |fields: &str| {
        let yaml = format!(
            "{NAMESPACES}---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: \
             {{name: net, namespace: plain}}\nspec: {{config: '{{\"name\":\"tenant\",\"netAttachDefName\":\
             \"plain/net\",\"type\":\"ovn-k8s-cni-overlay\",\"topology\":\"layer2\",{fields}}}'}}\n"
        );
        networks(&resolved(&yaml))
    };
    assert_eq!(nad(r#""mtu":1400"#), ["plain/net tenant 1 []"]);
    for fields in [r#""mtu":"1400""#, r#""excludeSubnets":["10.1.0.0/30"]"#, r#""subnets":7"#] {
        assert_eq!(nad(fields), ["plain/net - - -"], "{fields}");
    }
}
