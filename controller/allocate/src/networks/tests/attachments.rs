//! Attachments of pods: to definitions of other namespaces, in lists of plugins, and after changes
//! of the pods' annotations.

use patchbay_model::POD_NETWORKS;
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::Object;

use super::pods::{entry, manager, network, pod, selects, warnings};
use super::{NAMESPACES, at};
use crate::networks::testing::inventory;

#[test]
fn a_claim_is_in_the_namespace_of_the_definition() {
    let claim = |namespace: &str| {
        format!(
            "---\n{{apiVersion: k8s.cni.cncf.io/v1alpha1, kind: IPAMClaim, metadata: {{name: c, namespace: {namespace}}}, \
             spec: {{network: keep, interface: net1}}}}\n"
        )
    };
    let selection = r#"k8s.v1.cni.cncf.io/networks: '[{"name":"keep","namespace":"plain","ipam-claim-reference":"c"}]'"#;
    let other = "---\n{apiVersion: v1, kind: Namespace, metadata: {name: other}}\n";
    let yaml = NAMESPACES.to_owned()
        + other
        + &network(
            "keep",
            r#""topology":"layer2","subnets":"10.9.0.0/24","allowPersistentIPs":true"#,
        )
        + &claim("plain")
        + &claim("other")
        + &pod("other", "a", selection);
    let mut inventory = inventory(&yaml);
    assert!(manager().reconcile(&mut inventory, &at(0)).is_empty());
    assert!(entry(&inventory, "other/a", "plain/keep").is_some());
    let addresses = |namespace: &str| {
        let claim = inventory.ipam_claims.get(&ObjectKey::namespaced(namespace, "c"));
        let status = claim.unwrap().object.status.as_ref();
        status.map(|status| status.ips.clone()).unwrap_or_default()
    };
    assert_eq!(addresses("plain"), ["10.9.0.1/24"]);
    assert!(addresses("other").is_empty());
}

#[test]
fn a_claim_whose_addresses_cannot_be_read_has_no_pod() {
    let claim = "---\n{apiVersion: k8s.cni.cncf.io/v1alpha1, kind: IPAMClaim, metadata: {name: c, namespace: plain}, \
                 spec: {network: keep, interface: net1}, status: {ips: [10.9.0.9]}}\n";
    let selection = r#"k8s.v1.cni.cncf.io/networks: '[{"name":"keep","namespace":"plain","ipam-claim-reference":"c"}]'"#;
    let yaml = NAMESPACES.to_owned()
        + &network(
            "keep",
            r#""topology":"layer2","subnets":"10.9.0.0/24","allowPersistentIPs":true"#,
        )
        + claim
        + &pod("plain", "a", selection);
    let mut inventory = inventory(&yaml);
    assert!(manager().reconcile(&mut inventory, &at(0)).is_empty());
    assert!(entry(&inventory, "plain/a", "plain/keep").is_none());
    assert_eq!(
        warnings(&mut inventory),
        [
            "failed to update pod plain/a: IPAMClaim \"c\": status.ips: invalid CIDR address: 10.9.0.9"
        ]
    );
}

#[test]
fn a_pod_that_waits_for_its_primary_network_has_addresses_in_others() {
    let yaml = NAMESPACES.to_owned()
        + &network("own", r#""topology":"layer2","subnets":"10.9.0.0/24""#)
        + &pod("blue", "a", &selects("plain/own"));
    let mut inventory = inventory(&yaml);
    assert!(manager().reconcile(&mut inventory, &at(0)).is_empty());
    let entry = entry(&inventory, "blue/a", "plain/own").unwrap();
    assert!(entry.contains(r#""ip_address":"10.9.0.1/24""#), "{entry}");
    assert_eq!(
        warnings(&mut inventory),
        [
            "metadata.namespace: namespace blue has the label k8s.ovn.org/primary-user-defined-network, but no primary \
          network"
        ]
    );
}

#[test]
fn a_pod_that_loses_its_annotation_gets_its_tunnel_id_back() {
    let yaml = NAMESPACES.to_owned()
        + &network("own", r#""topology":"layer2","subnets":"10.9.0.0/24""#)
        + &pod("plain", "a", &selects("own"))
        + &pod("plain", "b", &selects("own"));
    let mut inventory = inventory(&yaml);
    let mut manager = manager();
    assert!(manager.reconcile(&mut inventory, &at(0)).is_empty());
    let key = ObjectKey::namespaced("plain", "a");
    let pod = &mut inventory.pods.get_mut(&key).unwrap().object;
    pod.annotations_mut().remove(POD_NETWORKS);
    assert!(manager.reconcile(&mut inventory, &at(1)).is_empty());
    let given = entry(&inventory, "plain/a", "plain/own").unwrap();
    assert!(given.contains(r#""tunnel_id":1,"#), "{given}");
    assert!(given.contains(r#""ip_address":"10.9.0.3/24""#), "{given}");
}

#[test]
fn a_list_with_one_plugin_has_all_its_fields() {
    let list = |name: &str, config: &str| {
        format!(
            "---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {{name: {name}, namespace: \
             plain}}\nspec: {{config: '{{\"cniVersion\":\"1.0.0\",\"name\":\"{name}\",\"plugins\":[\
             {{\"netAttachDefName\":\"plain/{name}\",\"type\":\"ovn-k8s-cni-overlay\",{config}}}]}}'}}\n"
        )
    };
    let ranges = r#""subnets":"10.9.0.0/24","excludeSubnets":"10.9.0.0/30""#;
    let yaml = NAMESPACES.to_owned()
        + &list("lan", &format!(r#""topology":"localnet",{ranges}"#))
        + &list("own", &format!(r#""topology":"layer2",{ranges}"#))
        + &pod("plain", "a", &selects("lan"))
        + &pod("plain", "b", &selects("own"));
    let mut inventory = inventory(&yaml);
    assert!(manager().reconcile(&mut inventory, &at(0)).is_empty());
    for (pod, definition) in [("plain/a", "plain/lan"), ("plain/b", "plain/own")] {
        let given = entry(&inventory, pod, definition).unwrap();
        assert!(given.contains(r#""ip_address":"10.9.0.4/24""#), "{given}");
    }
}

#[test]
fn a_pod_with_one_address_has_one_gateway() {
    let selection = |gateways: &str| {
        format!(r#"k8s.v1.cni.cncf.io/networks: '[{{"name":"own","default-route":[{gateways}]}}]'"#)
    };
    let yaml = NAMESPACES.to_owned()
        + &network("own", r#""topology":"layer2","subnets":"10.9.0.0/24""#)
        + &pod("plain", "two", &selection(r#""10.9.0.254","10.9.0.253""#))
        + &pod("plain", "one", &selection(r#""10.9.0.254""#));
    let mut inventory = inventory(&yaml);
    assert!(manager().reconcile(&mut inventory, &at(0)).is_empty());
    assert_eq!(
        warnings(&mut inventory),
        [
            "failed to update pod plain/two: bad podNetwork data: single-stack network can only have a single gateway"
        ]
    );
    assert_eq!(entry(&inventory, "plain/two", "plain/own"), None);
    let one = entry(&inventory, "plain/one", "plain/own").unwrap();
    assert!(one.contains(r#""gateway_ip":"10.9.0.254""#), "{one}");
}
