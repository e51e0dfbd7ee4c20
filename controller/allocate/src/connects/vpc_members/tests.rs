//! Members of connects from manifests.

use jiff::Timestamp;
use patchbay_model::{ClusterSettings, Databases};
use patchbay_resources::manifests::read_manifests;
use patchbay_resources::object::Time;

use super::*;
use crate::connects::{ClusterController, ClusterObjects, refusals};

/// Two VPCs, of which one has two subnets and one a label that the other's definitions lack.
fn manifests(beta_range: &str) -> String {
    let nad = |namespace: &str, name: &str, labels: &str| {
        format!(
            "{{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {{name: {name}, \
             namespace: {namespace}, labels: {{{labels}}}}}, spec: {{config: '{{\"type\": \"kube-ovn\", \
             \"server_socket\": \"/run/s.sock\", \"provider\": \"{name}.{namespace}.ovn\"}}'}}}}\n"
        )
    };
    let vpc = |name: &str, namespace: &str| {
        format!(
            "{{apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {{name: {name}}}, spec: {{namespaces: \
             [{namespace}]}}}}\n"
        )
    };
    let subnet = |name: &str, vpc: &str, range: &str, provider: &str| {
        format!(
            "{{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {{name: {name}}}, spec: {{vpc: {vpc}, \
             cidrBlock: {range}, provider: {provider}.ovn}}}}\n"
        )
    };
    let namespace =
        |name: &str| format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}\n");
    [
        namespace("alpha"),
        namespace("beta"),
        vpc("alpha-vpc", "alpha"),
        vpc("beta-vpc", "beta"),
        vpc("other-vpc", "alpha"),
        nad("alpha", "app", "join: 'yes'"),
        nad("alpha", "db", ""),
        nad("beta", "web", "join: 'yes'"),
        nad("beta", "lost", "join: 'yes'"),
        subnet("app", "alpha-vpc", "10.1.0.0/24", "app.alpha"),
        subnet("db", "alpha-vpc", "10.1.1.0/24", "db.alpha"),
        subnet("web", "beta-vpc", beta_range, "web.beta"),
        "{apiVersion: k8s.ovn.org/v1, kind: ClusterNetworkConnect, metadata: {name: c}, spec: \
         {networkSelectors: [{networkSelectionType: NetworkAttachmentDefinitions, \
         networkAttachmentDefinitionSelector: {namespaceSelector: {}, networkSelector: {matchLabels: {join: \
         'yes'}}}}], connectSubnets: [{cidr: 192.168.0.0/16, networkPrefix: 24}], connectivity: \
         [PodNetwork]}}\n"
            .to_owned(),
    ]
    .join("---\n")
}

fn inventory(text: &str) -> Inventory {
    let mut inventory = read_manifests(&["-".into()], &mut text.as_bytes()).unwrap();
    assign_vpc_ids(&mut inventory, &Networks::default());
    inventory
}

fn settings() -> ClusterSettings {
    ClusterSettings { databases: Databases::Central, ..ClusterSettings::default() }
}

/// Annotations and the message of the condition of the connect.
fn allocated(inventory: &Inventory) -> (BTreeMap<&'static str, String>, String) {
    let members = VpcMembers::of(inventory);
    let networks = Networks::default();
    let connects = inventory.cluster_network_connects.iter().map(|(_, one)| &one.object);
    let objects = ClusterObjects::new(&networks, [], [], connects).with_vpcs(Some(&members));
    let now = Time(Timestamp::UNIX_EPOCH);
    let report = ClusterController::new(settings()).reconcile(&objects, &now);
    let outcome = &report.outcomes[0];
    let annotations = outcome.annotations().into_iter().collect();
    (annotations, outcome.status.conditions[0].message.clone())
}

#[test]
fn a_vpc_has_an_id_if_a_connect_selects_it_and_its_selected_subnets_only() {
    let inventory = inventory(&manifests("10.2.0.0/24"));
    let id = |name: &str| inventory.vpcs.named(name).and_then(annotated_id).map(NetworkId::get);
    assert_eq!([id("alpha-vpc"), id("beta-vpc"), id("other-vpc")], [Some(1), Some(2), None]);
    let members = VpcMembers::of(&inventory);
    let vpcs: Vec<&Arc<ConnectedVpc>> = members.vpcs("c").unwrap().values().collect();
    let subnets = |vpc: &ConnectedVpc| {
        let names = vpc.subnets.iter().map(|subnet| subnet.name.clone());
        names.collect::<Vec<String>>()
    };
    assert_eq!(subnets(vpcs[0]), ["app"]);
    assert_eq!(vpcs[0].others[0].name, "db");
    assert_eq!(vpcs[0].network.owner_key().to_string(), "vpc_1");
    assert_eq!(subnets(vpcs[1]), ["web"]);
    let (annotations, message) = allocated(&inventory);
    let subnets = &annotations["k8s.ovn.org/network-connect-subnet"];
    let expected = r#"{"vpc_1":{"ipv4":"192.168.0.0/31"},"vpc_2":{"ipv4":"192.168.0.2/31"}}"#;
    assert_eq!(subnets, expected);
    // The definition without a subnet does not stop the others.
    let lost = "NetworkAttachmentDefinition beta/lost: no Subnet has its provider";
    assert!(message.contains(lost), "{message}");
}

#[test]
fn an_id_stays_and_is_not_given_twice() {
    let text = manifests("10.2.0.0/24")
        .replace("{name: beta-vpc}", "{name: beta-vpc, annotations: {k8s.ovn.org/network-id: '7'}}")
        .replace(
            "{name: alpha-vpc}",
            "{name: alpha-vpc, annotations: {k8s.ovn.org/network-id: '7'}}",
        );
    let inventory = inventory(&text);
    let id = |name: &str| inventory.vpcs.named(name).and_then(annotated_id).map(NetworkId::get);
    assert_eq!([id("alpha-vpc"), id("beta-vpc")], [Some(7), Some(1)]);
    let again: Vec<u16> = vpc_ids(&inventory).map(NetworkId::get).collect();
    assert_eq!(again, [7, 1]);
}

#[test]
fn equal_ranges_are_refused_by_name_and_so_are_those_of_subnets_that_are_not_selected() {
    for (range, expected) in [
        (
            "10.1.0.0/24",
            "selected networks have overlapping subnets: network alpha-vpc with subnets [10.1.0.0/24] and \
             network beta-vpc with subnets [10.1.0.0/24]",
        ),
        (
            "10.1.1.128/25",
            "network beta-vpc with subnets [10.1.1.128/25] overlaps with 10.1.1.0/24 of Subnet db, which Vpc \
             alpha-vpc uses",
        ),
    ] {
        let inventory = inventory(&manifests(range));
        let (annotations, message) = allocated(&inventory);
        assert!(message.contains(expected), "{message}");
        assert_eq!(annotations.get("k8s.ovn.org/network-connect-subnet"), None);
        let members = VpcMembers::of(&inventory);
        let networks = Networks::default();
        let connects = inventory.cluster_network_connects.iter().map(|(_, one)| &one.object);
        let objects = ClusterObjects::new(&networks, [], [], connects).with_vpcs(Some(&members));
        let refused = refusals(&settings(), &objects);
        assert!(refused["c"].contains(expected), "{refused:?}");
    }
}

#[test]
fn a_zone_has_no_vpcs_to_connect() {
    let inventory = inventory(&manifests("10.2.0.0/24"));
    let networks = Networks::default();
    let connects = inventory.cluster_network_connects.iter().map(|(_, one)| &one.object);
    let objects = ClusterObjects::new(&networks, [], [], connects);
    let now = Time(Timestamp::UNIX_EPOCH);
    let report = ClusterController::new(ClusterSettings::default()).reconcile(&objects, &now);
    let message = &report.outcomes[0].status.conditions[0].message;
    assert!(message.contains("unsupported network selection type"), "{message}");
}
