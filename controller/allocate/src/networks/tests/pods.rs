//! Pods in networks whose addresses are given for the whole cluster.

use patchbay_model::{POD_NETWORKS, PodNetworks};
use patchbay_resources::manifests::{Inventory, ObjectKey};
use patchbay_resources::object::Object;

use super::{NAMESPACES, at};
use crate::networks::testing::inventory;
use crate::networks::{Layer2Layouts, ManagerSettings, NetworkManager};

/// A secondary network of namespace `plain`.
pub(super) fn network(name: &str, config: &str) -> String {
    format!(
        "---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {{name: {name}, namespace: plain}}\n\
         spec: {{config: '{{\"name\":\"{name}\",\"netAttachDefName\":\"plain/{name}\",\"type\":\"ovn-k8s-cni-overlay\",{config}}}'}}\n"
    )
}

/// A pod with these annotations.
pub(super) fn pod(namespace: &str, name: &str, annotations: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: {namespace}, annotations: {{{annotations}}}}}, \
         spec: {{nodeName: n1, containers: []}}}}\n"
    )
}

pub(super) fn selects(network: &str) -> String {
    format!("k8s.v1.cni.cncf.io/networks: {network}")
}

pub(super) fn manager() -> NetworkManager {
    NetworkManager::new(ManagerSettings {
        workloads: Some(Layer2Layouts::TransitRouters),
        ..ManagerSettings::default()
    })
}

/// The entry of a pod in the network `definition`, as JSON.
pub(super) fn entry(inventory: &Inventory, pod: &str, definition: &str) -> Option<String> {
    let (namespace, name) = pod.split_once('/').unwrap();
    let pod = inventory.pods.get(&ObjectKey::namespaced(namespace, name));
    let text = pod.unwrap().object.annotations().get(POD_NETWORKS)?;
    let networks = PodNetworks::parse(text).unwrap();
    let entry = networks.get(definition)?;
    Some(serde_json::to_string(entry).unwrap())
}

pub(super) fn warnings(inventory: &mut Inventory) -> Vec<String> {
    let warnings = std::mem::take(&mut inventory.warnings).into_iter();
    warnings
        .filter(|warning| warning.object.as_deref().is_some_and(|one| one.starts_with("Pod ")))
        .map(|warning| warning.message)
        .collect()
}

#[test]
fn localnet_pods_get_addresses_and_no_tunnel_id() {
    let yaml = NAMESPACES.to_owned()
        + &network(
            "lan",
            r#""topology":"localnet","subnets":"10.9.0.0/24","excludeSubnets":"10.9.0.0/30""#,
        )
        + &pod("plain", "a", &selects("lan"));
    let mut inventory = inventory(&yaml);
    assert!(manager().reconcile(&mut inventory, &at(0)).is_empty());
    assert_eq!(
        entry(&inventory, "plain/a", "plain/lan").unwrap(),
        r#"{"ip_addresses":["10.9.0.4/24"],"mac_address":"0a:58:0a:09:00:04","ip_address":"10.9.0.4/24","role":"secondary"}"#
    );
}

#[test]
fn a_network_without_addresses_gives_a_mac_address_that_stays() {
    let yaml = NAMESPACES.to_owned()
        + &network("bare", r#""topology":"layer2""#)
        + &pod("plain", "a", &selects("bare"));
    let given = |yaml: &str| {
        let mut inventory = inventory(yaml);
        assert!(manager().reconcile(&mut inventory, &at(0)).is_empty());
        entry(&inventory, "plain/a", "plain/bare").unwrap()
    };
    let first = given(&yaml);
    assert!(first.starts_with(r#"{"ip_addresses":null,"mac_address":"0a:58:"#), "{first}");
    assert!(first.ends_with(r#","tunnel_id":1,"role":"secondary"}"#), "{first}");
    assert_eq!(given(&yaml), first);
}

#[test]
fn pods_that_come_after_their_network_leave_the_first_tunnel_ids_alone() {
    let yaml = NAMESPACES.to_owned()
        + &network("own", r#""topology":"layer2""#)
        + &pod("plain", "early", &selects("own"));
    let with_late = yaml.clone() + &pod("plain", "late", &selects("own"));
    let mut manager = manager();
    let mut given = |yaml: &str, pod: &str| {
        let mut inventory = inventory(yaml);
        assert!(manager.reconcile(&mut inventory, &at(0)).is_empty());
        entry(&inventory, pod, "plain/own").unwrap()
    };
    let early = given(&yaml, "plain/early");
    assert!(early.contains(r#""tunnel_id":1,"#), "{early}");
    let late = given(&with_late, "plain/late");
    assert!(late.contains(r#""tunnel_id":10,"#), "{late}");
}

#[test]
fn a_first_tunnel_id_that_a_pod_had_at_the_start_is_free_after_it() {
    let yaml = NAMESPACES.to_owned()
        + &network("own", r#""topology":"layer2""#)
        + &pod("plain", "early", &selects("own"))
        + &pod("plain", "late", &selects("own"))
        + &pod("plain", "last", &selects("own"));
    let mut inventory = inventory(&yaml);
    let key = |name| ObjectKey::namespaced("plain", name);
    let later = ["late", "last"].map(|name| inventory.pods.get(&key(name)).unwrap().clone());
    for pod in ["late", "last"] {
        inventory.pods.remove(&key(pod));
    }
    assert!(manager().reconcile(&mut inventory, &at(0)).is_empty());
    let early = entry(&inventory, "plain/early", "plain/own").unwrap();
    assert!(early.contains(r#""tunnel_id":1,"#), "{early}");
    // A manager that starts now has not given any tunnel id yet.
    let mut manager = manager();
    assert!(manager.reconcile(&mut inventory, &at(1)).is_empty());
    inventory.pods.remove(&key("early"));
    for ((name, id), pod) in [("late", 1), ("last", 10)].into_iter().zip(later) {
        inventory.pods.insert(pod);
        assert!(manager.reconcile(&mut inventory, &at(2)).is_empty());
        let given = entry(&inventory, &format!("plain/{name}"), "plain/own").unwrap();
        assert!(given.contains(&format!(r#""tunnel_id":{id},"#)), "{given}");
    }
}

#[test]
fn an_address_outside_of_the_network_is_refused_in_each_pass_alike() {
    let udn = "---\n{apiVersion: k8s.ovn.org/v1, kind: UserDefinedNetwork, metadata: {name: net, namespace: blue}, \
               spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.1.0.0/24]}}}\n";
    let request = |address: &str| {
        format!(
            r#"v1.multus-cni.io/default-network: '[{{"namespace":"ovn-kubernetes","name":"default","ips":["{address}/24"]}}]'"#
        )
    };
    let yaml = NAMESPACES.to_owned()
        + udn
        + &pod("blue", "outside", &request("10.2.0.9"))
        + &pod("blue", "gateway", &request("10.1.0.1"))
        + &pod("blue", "free", "");
    let mut inventory = inventory(&yaml);
    let mut manager = manager();
    assert!(manager.reconcile(&mut inventory, &at(0)).is_empty());
    let refused = [
        "failed to update pod blue/outside: failed to ensure requested or annotated IPs [10.2.0.9/24] for \
         blue/net/blue/outside: failed to allocate IP 10.2.0.9 for blue_net: not contained in any known subnet",
        "failed to update pod blue/gateway: failed to ensure requested or annotated IPs [10.1.0.1/24] for \
         blue/net/blue/gateway: provided IP is already allocated",
    ];
    assert_eq!(warnings(&mut inventory), refused);
    assert!(entry(&inventory, "blue/outside", "blue/net").is_none());
    let free = entry(&inventory, "blue/free", "blue/net").unwrap();
    assert!(free.contains(r#""ip_address":"10.1.0.3/24""#), "{free}");
    let before = inventory.clone();
    assert!(manager.reconcile(&mut inventory, &at(1)).is_empty());
    assert_eq!(warnings(&mut inventory), refused);
    assert_eq!(inventory, before);
}

#[test]
fn annotations_that_cannot_be_read_are_not_overwritten() {
    let broken = format!("{}, {POD_NETWORKS}: '{{'", selects("bare"));
    let yaml = NAMESPACES.to_owned()
        + &network("bare", r#""topology":"layer2""#)
        + &pod("plain", "a", &broken);
    let mut inventory = inventory(&yaml);
    assert!(manager().reconcile(&mut inventory, &at(0)).is_empty());
    let pod = inventory.pods.get(&ObjectKey::namespaced("plain", "a"));
    assert_eq!(pod.unwrap().object.annotations()[POD_NETWORKS], "{");
}

fn layer2(spec: &str) -> String {
    format!(
        "---\n{{apiVersion: k8s.ovn.org/v1, kind: UserDefinedNetwork, metadata: {{name: net, namespace: blue}}, \
         spec: {{topology: Layer2, layer2: {{role: Primary, {spec}}}}}}}\n"
    )
}

fn requests(addresses: &str) -> String {
    format!(
        r#"v1.multus-cni.io/default-network: '[{{"namespace":"ovn-kubernetes","name":"default","ips":[{addresses}]}}]'"#
    )
}

#[test]
fn requests_have_one_address_of_each_family_in_the_range() {
    let yaml = NAMESPACES.to_owned()
        + &layer2("subnets: [10.1.0.0/24, 'fd10::/64'], reservedSubnets: [10.1.0.128/25]")
        + &pod("blue", "one", &requests(r#""10.1.0.9/24""#))
        + &pod("blue", "twice", &requests(r#""10.1.0.9/24","10.1.0.8/24""#))
        + &pod("blue", "three", &requests(r#""10.1.0.9/24","fd10::9/64","10.1.0.8/24""#))
        + &pod("blue", "base", &requests(r#""10.1.0.0/24","fd10::9/64""#))
        + &pod("blue", "last", &requests(r#""10.1.0.255/24","fd10::9/64""#))
        + &pod("blue", "both", &requests(r#""10.1.0.200/24","fd10::9/64""#));
    let mut inventory = inventory(&yaml);
    assert!(manager().reconcile(&mut inventory, &at(0)).is_empty());
    let families = "requested IPs family types must match network's IP family configuration";
    let ensure = "failed to ensure requested or annotated IPs";
    assert_eq!(
        warnings(&mut inventory),
        [
            format!(
                "failed to update pod blue/one: layer2 network expects 2 IP(s), got 1: {families}"
            ),
            format!(
                "failed to update pod blue/twice: layer2 network IP family mismatch: network supports \
                 IPv4=true IPv6=true, but requested types IPv4=true IPv6=false: {families}"
            ),
            format!(
                "failed to update pod blue/three: layer2 network expects at most 2 IPs, got 3: {families}"
            ),
            format!(
                "failed to update pod blue/base: {ensure} [10.1.0.0/24 fd10::9/64] for blue/net/blue/base: \
                 provided IP is not in the valid range. The range of valid IPs is 10.1.0.0/24"
            ),
            format!(
                "failed to update pod blue/last: {ensure} [10.1.0.255/24 fd10::9/64] for \
                 blue/net/blue/last: provided IP is already allocated"
            ),
        ]
    );
    // Each attempt has used up a tunnel id.
    let both = entry(&inventory, "blue/both", "blue/net").unwrap();
    assert!(both.contains(r#"["10.1.0.200/24","fd10::9/64"]"#), "{both}");
    assert!(both.contains(r#""tunnel_id":6,"#), "{both}");
}

#[test]
fn infrastructure_subnets_have_the_gateway_and_the_management_address() {
    let own = |fields: &str| {
        let yaml = NAMESPACES.to_owned()
            + &layer2(&format!("subnets: [10.1.0.0/24], {fields}"))
            + &pod("blue", "a", "");
        let mut inventory = inventory(&yaml);
        assert!(manager().reconcile(&mut inventory, &at(0)).is_empty());
        let entry = entry(&inventory, "blue/a", "blue/net").unwrap();
        let entry: serde_json::Value = serde_json::from_str(&entry).unwrap();
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        (text("ip_address"), text("gateway_ip"))
    };
    let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
    assert_eq!(own("infrastructureSubnets: [10.1.0.0/29]"), pair("10.1.0.8/24", "10.1.0.1"));
    assert_eq!(own("infrastructureSubnets: [10.1.0.16/30]"), pair("10.1.0.1/24", "10.1.0.16"));
    assert_eq!(
        own("infrastructureSubnets: [10.1.0.16/30], defaultGatewayIPs: [10.1.0.18]"),
        pair("10.1.0.1/24", "10.1.0.18")
    );
}

#[test]
fn addresses_of_the_network_itself_follow_the_order_of_its_subnets_but_for_the_gateways_port() {
    let with = |annotations: &str| {
        let yaml = NAMESPACES.to_owned()
            + &layer2("subnets: ['fd10::/64', 10.1.0.0/24]")
            + &pod("blue", "a", annotations);
        let mut inventory = inventory(&yaml);
        assert!(manager().reconcile(&mut inventory, &at(0)).is_empty());
        let entry = entry(&inventory, "blue/a", "blue/net");
        (entry, warnings(&mut inventory))
    };
    let (entry, _) = with("");
    let entry: serde_json::Value = serde_json::from_str(&entry.unwrap()).unwrap();
    assert_eq!(entry["ip_addresses"], serde_json::json!(["fd10::3/64", "10.1.0.3/24"]));
    // The router's port has the MAC address of IPv4, 0a:58:0a:01:00:01.
    assert_eq!(entry["ipv6_lla_gateway_ip"], "fe80::858:aff:fe01:1");
    for taken in ["10.1.0.1", "10.1.0.2", "fd10::1", "fd10::2"] {
        let mac = patchbay_model::mac_address(taken.parse().unwrap());
        let request = format!(
            r#"v1.multus-cni.io/default-network: '[{{"namespace":"ovn-kubernetes","name":"default","mac":"{mac}"}}]'"#
        );
        let (entry, warnings) = with(&request);
        assert_eq!((entry, warnings.len()), (None, 1), "{taken}");
    }
}

#[test]
fn an_exhausted_subnet_is_named_with_its_network() {
    let yaml = NAMESPACES.to_owned() + &layer2("subnets: [10.1.0.0/30]") + &pod("blue", "a", "");
    let mut inventory = inventory(&yaml);
    assert!(manager().reconcile(&mut inventory, &at(0)).is_empty());
    assert_eq!(
        warnings(&mut inventory),
        [
            "failed to update pod blue/a: failed to assign pod addresses for blue/net/blue/a: failed to allocate new \
          IPs for blue_net: subnet address pool exhausted"
        ]
    );
}

#[test]
fn a_pod_gets_the_addresses_of_its_claim_alone() {
    let claim = |name: &str, address: &str| {
        format!(
            "---\n{{apiVersion: k8s.cni.cncf.io/v1alpha1, kind: IPAMClaim, metadata: {{name: {name}, namespace: blue}}, \
             spec: {{network: blue_net, interface: ovn-udn1}}, status: {{ips: [{address}]}}}}\n"
        )
    };
    let names = |claim: &str, addresses: &str| {
        format!(
            r#"v1.multus-cni.io/default-network: '[{{"namespace":"ovn-kubernetes","name":"default","ipam-claim-reference":"{claim}","ips":[{addresses}]}}]'"#
        )
    };
    let yaml = NAMESPACES.to_owned()
        + &layer2("subnets: [10.1.0.0/24], ipam: {lifecycle: Persistent}")
        + &claim("kept", "10.1.0.9/24")
        + &claim("outside", "10.2.0.9/24")
        + &pod("blue", "other", &names("kept", r#""10.1.0.8/24""#))
        + &pod("blue", "outside", &names("outside", ""))
        + &pod("blue", "missing", &names("none", ""))
        + &pod("blue", "same", &names("kept", r#""10.1.0.9/24""#))
        + &pod("blue", "second", &names("kept", ""));
    let mut inventory = inventory(&yaml);
    assert!(manager().reconcile(&mut inventory, &at(0)).is_empty());
    assert_eq!(
        warnings(&mut inventory),
        [
            "failed to update pod blue/other: cannot allocate a static IP request with IPAM for pod \
             \"blue/net/blue/other\": the pod references an ipam claim with IPs not containing the requested IP \
             \"10.1.0.8/24\"",
            "failed to update pod blue/outside: failed to ensure requested or annotated IPs [10.2.0.9/24] for \
         blue/net/blue/outside: failed to allocate IP 10.2.0.9 for blue_net: not contained in any known subnet",
            "failed to update pod blue/missing: error retrieving IPAMClaim for pod blue/missing: failed to get \
             IPAMClaim \"none\": ipamclaim.k8s.cni.cncf.io \"none\" not found",
            "failed to update pod blue/second: failed to reserve MAC address \"0a:58:0a:01:00:09\" for owner \
             \"blue/second\" on NAD key \"blue/net\": MAC address already in use",
        ]
    );
    let same = entry(&inventory, "blue/same", "blue/net").unwrap();
    assert!(same.contains(r#""ip_address":"10.1.0.9/24""#), "{same}");
    assert!(same.contains(r#""tunnel_id":4,"#), "{same}");
}

#[test]
fn pods_get_no_addresses_of_definitions_that_are_refused() {
    let yaml = NAMESPACES.to_owned()
        + &network("own", r#""topology":"layer2","subnets":"10.9.0.0/24""#)
        + &network("join", r#""topology":"layer2","subnets":"100.64.0.0/24""#)
        + &network(
            "lan",
            r#""topology":"localnet","subnets":"10.8.0.0/24","excludeSubnets":"10.7.0.0/24""#,
        )
        + &pod("plain", "a", &selects("own"))
        + &pod("plain", "b", &selects("join"))
        + &pod("plain", "c", &selects("lan"));
    let mut inventory = inventory(&yaml);
    assert!(manager().reconcile(&mut inventory, &at(0)).is_empty());
    assert!(entry(&inventory, "plain/a", "plain/own").is_some());
    assert_eq!(entry(&inventory, "plain/b", "plain/join"), None);
    assert_eq!(entry(&inventory, "plain/c", "plain/lan"), None);
}

#[test]
fn the_definition_of_the_default_network_is_in_its_namespace() {
    let key = ObjectKey::namespaced("ovn-kubernetes", "default");
    let defined = |namespace: &str| {
        let mut inventory = inventory(&(NAMESPACES.to_owned() + namespace));
        assert!(manager().reconcile(&mut inventory, &at(0)).is_empty());
        let nad = inventory.network_attachment_definitions.get(&key);
        nad.and_then(|nad| nad.object.spec.config.clone())
    };
    assert_eq!(defined(""), None);
    let namespace = "---\n{apiVersion: v1, kind: Namespace, metadata: {name: ovn-kubernetes}}\n";
    assert_eq!(
        defined(namespace).as_deref(),
        Some(r#"{"cniVersion": "1.1.0", "name": "ovn-kubernetes", "type": "ovn-k8s-cni-overlay"}"#)
    );
}

#[test]
fn the_condition_of_a_claim_names_the_generation_that_it_is_about() {
    let claim = "---\n{apiVersion: k8s.cni.cncf.io/v1alpha1, kind: IPAMClaim, metadata: {name: c, namespace: blue, \
                 generation: 3}, spec: {network: blue_net, interface: ovn-udn1}}\n";
    let yaml = NAMESPACES.to_owned()
        + &layer2("subnets: [10.1.0.0/24], ipam: {lifecycle: Persistent}")
        + claim
        + &pod("blue", "a", "k8s.ovn.org/primary-udn-ipamclaim: c");
    let mut inventory = inventory(&yaml);
    assert!(manager().reconcile(&mut inventory, &at(0)).is_empty());
    let claim = inventory.ipam_claims.get(&ObjectKey::namespaced("blue", "c"));
    let status = claim.unwrap().object.status.as_ref().unwrap();
    assert_eq!(status.ips, ["10.1.0.3/24"]);
    let condition = &status.conditions[0];
    assert_eq!(condition.reason, "SuccessfulAllocation");
    assert_eq!(condition.observed_generation, Some(3));
}
