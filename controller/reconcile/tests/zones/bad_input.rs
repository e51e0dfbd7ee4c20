//! Bad input: the object and the field are named, and everything else goes on.

use patchbay_model::{ClusterSettings, Feature, IpFamily};
use patchbay_networks::{network_rows, remote_rows};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{Embedded, Northbound as _};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_resources::manifests::{LoadError, read_manifests};
use patchbay_resources::object::Time;
use patchbay_schemas::nb::LogicalSwitchPort;
use patchbay_schemas::uuids::UuidSource;

/// Two networks, and a pod that is not concerned by what is bad.
const CLUSTER: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: blue, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: green, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {k8s.ovn.org/node-chassis-id: c1}}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: l3, namespace: blue}
  spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.10.0.0/16, hostSubnet: 24}]}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: l2, namespace: green}
  spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.20.0.0/29]}}
- apiVersion: v1
  kind: Pod
  metadata: {name: good, namespace: blue, labels: {app: good}}
  spec: {nodeName: n1, containers: [{name: c, image: i}]}
";

fn settings() -> ClusterSettings {
    ClusterSettings {
        families: vec![IpFamily::V4],
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        ..ClusterSettings::default()
    }
}

/// The cluster with these objects.
fn complete(objects: &str) -> Result<Cluster, LoadError> {
    complete_with(settings(), objects)
}

fn complete_with(settings: ClusterSettings, objects: &str) -> Result<Cluster, LoadError> {
    let yaml = format!("{CLUSTER}{objects}");
    let inventory = read_manifests(&["-".into()], &mut yaml.as_bytes())?;
    let now = Time(jiff::Timestamp::from_second(0).unwrap());
    Cluster::from_inventory(inventory, settings, now)
}

/// Warnings and errors about objects, once the good pod has its port.
async fn messages(objects: &str) -> Vec<String> {
    let cluster = complete(objects).unwrap();
    let mut zone = ZoneReconciler::new("n1", Embedded::new(0).unwrap(), UuidSource::seeded(1));
    let outcome = zone.reconcile(&cluster).await.unwrap();
    let snapshot = zone.northbound().snapshot();
    let ports = snapshot.typed::<LogicalSwitchPort>();
    let mut ports = ports.iter().map(|port| port.unwrap().1);
    assert!(ports.any(|port| port.name == "blue.l3_blue_good"));
    let skipped = outcome.skipped_networks.iter();
    let skipped = skipped.map(|skipped| format!("{}: {}", skipped.network, skipped.reason));
    let problems = outcome.problems.iter().map(ToString::to_string);
    let warnings = cluster.warnings.iter().cloned();
    warnings.chain(skipped).chain(problems).collect()
}

#[track_caller]
fn assert_named(messages: &[String], expected: &[&str]) {
    for text in expected {
        let mut found = messages.iter();
        assert!(found.any(|one| one.contains(text)), "{text}\n{messages:#?}");
    }
}

#[tokio::test]
async fn a_pod_in_a_namespace_without_its_network() {
    let messages = messages(
        "- {apiVersion: v1, kind: Namespace, metadata: {name: red, labels: \
         {k8s.ovn.org/primary-user-defined-network: ''}}}\n- {apiVersion: v1, kind: Pod, metadata: \
         {name: p, namespace: red}, spec: {nodeName: n1, containers: []}}\n",
    )
    .await;
    let reason = "Pod red/p: metadata.namespace: namespace red has the label \
                  k8s.ovn.org/primary-user-defined-network, but no primary network";
    assert_named(&messages, &[reason]);
}

fn green_pod(name: &str, annotation: &str) -> String {
    format!(
        "- {{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: green, annotations: \
         {{{annotation}}}}}, spec: {{nodeName: n1, containers: []}}}}\n"
    )
}

#[tokio::test]
async fn an_exhausted_subnet() {
    let pods = ["a", "b", "c", "d", "e"].map(|name| green_pod(name, ""));
    let messages = messages(&pods.concat()).await;
    assert_named(&messages, &["Pod green/e: ", "for green_l2: subnet address pool exhausted"]);
    assert!(!messages.iter().any(|one| one.contains("green/d")));
}

#[tokio::test]
async fn a_requested_address_that_is_taken_or_outside() {
    let request = |name: &str, address: &str| {
        let element = format!(
            "v1.multus-cni.io/default-network: '[{{\"namespace\":\"ovn-kubernetes\",\"name\":\
             \"default\",\"ips\":[\"{address}\"]}}]'"
        );
        green_pod(name, &element)
    };
    let pods =
        [request("a", "10.20.0.5/29"), request("b", "10.20.0.5/29"), request("c", "10.99.0.1/29")];
    let messages = messages(&pods.concat()).await;
    assert_named(
        &messages,
        &[
            "green/b: provided IP is already allocated",
            "failed to allocate IP 10.99.0.1 for green_l2: not contained in any known subnet",
        ],
    );
    assert!(!messages.iter().any(|one| one.contains("Pod green/a")));
}

#[tokio::test]
async fn a_definition_that_somebody_changed() {
    let messages = messages(
        "- {apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: l2, \
         namespace: green}, spec: {config: '{}'}}\n",
    )
    .await;
    assert_named(
        &messages,
        &[
            "UserDefinedNetwork green/l2",
            "foreign NetworkAttachmentDefinition with the desired name already exist [green/l2]",
        ],
    );
}

#[tokio::test]
async fn a_service_whose_endpoints_are_outside_of_the_network() {
    let messages = messages(
        "- {apiVersion: v1, kind: Service, metadata: {name: web, namespace: blue}, spec: {clusterIP: \
         10.96.7.7, clusterIPs: [10.96.7.7], ports: [{port: 80, protocol: TCP}]}}\n\
         - {apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: web-1, namespace: \
         blue, labels: {k8s.ovn.org/service-name: web, endpointslice.kubernetes.io/managed-by: \
         endpointslice-mirror-controller.k8s.ovn.org}, annotations: \
         {k8s.ovn.org/endpointslice-network: blue_l3}}, addressType: IPv4, endpoints: [{addresses: \
         [203.0.113.5]}], ports: [{port: 8080, protocol: TCP}]}\n",
    )
    .await;
    assert_named(&messages, &["Service blue/web: ", "203.0.113.5"]);
}

fn node(name: &str, subnet: &str) -> String {
    format!(
        "- {{apiVersion: v1, kind: Node, metadata: {{name: {name}, annotations: \
         {{k8s.ovn.org/node-subnets: '{{\"blue_l3\":[\"{subnet}\"]}}'}}}}}}\n"
    )
}

#[tokio::test]
async fn a_node_subnet_that_is_outside_of_the_network() {
    let messages = messages(&node("n2", "10.99.0.0/24")).await;
    let reason = "Node n2: metadata.annotations[k8s.ovn.org/node-subnets]: 10.99.0.0/24 is no node \
                  subnet of network blue_l3 and gets replaced";
    assert_named(&messages, &[reason]);
}

#[tokio::test]
async fn a_node_subnet_that_another_node_has() {
    let nodes = [node("n4", "10.10.7.0/24"), node("n3", "10.10.7.0/24")].concat();
    let reason = "Node n4: metadata.annotations[k8s.ovn.org/node-subnets]: 10.10.7.0/24 of network \
                  blue_l3 is already that of node n3 and gets replaced";
    assert_named(&messages(&nodes).await, &[reason]);
    // The younger node gets another subnet, the others lead to the older one.
    let cluster = complete(&nodes).unwrap();
    let rows = network_rows(&cluster.zone_objects("n4"), "blue_l3");
    assert!(rows.unwrap().is_ok());
    let routes = |node| {
        let remote = remote_rows(&cluster.zone_objects("n1"), "blue_l3", node);
        let routes = remote.unwrap().static_routes.into_iter();
        routes.map(|route| route.ip_prefix).collect::<Vec<_>>()
    };
    assert!(routes("n3").iter().any(|prefix| prefix == "10.10.7.0/24"));
    assert!(!routes("n4").iter().any(|prefix| prefix == "10.10.7.0/24"));
}

#[tokio::test]
async fn node_subnets_that_cannot_be_read() {
    let annotation = "metadata: {name: n5, annotations: {k8s.ovn.org/node-subnets: '[]'}}";
    let node = format!("- {{apiVersion: v1, kind: Node, {annotation}}}\n");
    let reason = "Node n5: metadata.annotations[k8s.ovn.org/node-subnets]: not a JSON object";
    assert_named(&messages(&node).await, &[reason]);
}

#[tokio::test]
async fn a_network_with_the_names_of_anothers_rows() {
    let network = |name: &str| {
        format!(
            "- {{apiVersion: k8s.ovn.org/v1, kind: UserDefinedNetwork, metadata: {{name: {name}, \
             namespace: blue}}, spec: {{topology: Layer2, layer2: {{role: Secondary, subnets: \
             [10.30.0.0/24]}}}}}}\n"
        )
    };
    let messages = messages(&[network("a-b"), network("a.b")].concat()).await;
    let reason = "network blue_a.b conflicts with network blue_a-b in OVN: routers and switches of \
                  both have names that start with";
    assert_named(&messages, &[reason]);
}

#[tokio::test]
async fn a_policy_peer_that_cannot_be_used() {
    let messages = messages(
        "- {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: \
         green}, spec: {podSelector: {}, ingress: [{from: [{}]}]}}\n",
    )
    .await;
    let reason = "NetworkPolicy green/p: spec.ingress[0].from[0]: a peer has either ipBlock, or \
                  podSelector and namespaceSelector";
    assert_named(&messages, &[reason]);
}

#[tokio::test]
async fn warnings_come_in_the_order_of_the_files() {
    let network = "- {apiVersion: k8s.ovn.org/v1, kind: UserDefinedNetwork, metadata: {name: second, \
                   namespace: blue}, spec: {topology: Layer2, layer2: {role: Primary, subnets: \
                   [10.30.0.0/16]}}}\n";
    let definition = "- {apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: \
                      {name: bad, namespace: green}, spec: {config: '{'}}\n";
    for objects in [[network, definition], [definition, network]] {
        let cluster = complete(&objects.concat()).unwrap();
        let warnings = cluster.warnings.iter();
        let named: Vec<bool> = warnings
            .filter_map(|text| {
                let is_network = text.contains("UserDefinedNetwork blue/second");
                let is_definition = text.contains("NetworkAttachmentDefinition green/bad");
                (is_network || is_definition).then_some(is_network)
            })
            .collect();
        let network_first = objects[0] == network;
        assert_eq!(named, [network_first, !network_first], "{:?}", cluster.warnings);
    }
}

#[test]
fn a_policy_that_would_leave_its_pods_open_is_refused() {
    for (spec, reason) in [
        (
            "podSelector: {}, policyTypes: [Ingress, egress]",
            r#"spec.policyTypes[1]: Unsupported value: "egress""#,
        ),
        (
            "podSelector: {matchExpressions: [{key: app, operator: in, values: [x]}]}",
            "spec.podSelector.matchExpressions[0].operator",
        ),
    ] {
        let cluster = complete(&format!(
            "- {{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: p, namespace: \
             green}}, spec: {{{spec}}}}}\n"
        ));
        let errors = cluster.unwrap().errors;
        assert_named(&errors, &["NetworkPolicy green/p", reason]);
    }
}

#[test]
fn objects_in_a_namespace_that_does_not_exist() {
    let cluster = complete(
        "- {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: typo}, spec: {nodeName: n1, containers: []}}\n\
         - {apiVersion: v1, kind: Pod, metadata: {name: dns, namespace: kube-system}, spec: {nodeName: n1, containers: []}}\n\
         - {apiVersion: v1, kind: Service, metadata: {name: s, namespace: typo}, spec: {ports: [{port: 80}]}}\n",
    );
    let warnings = cluster.unwrap().warnings;
    let reasons = ["Pod typo/p", "Service typo/s"]
        .map(|object| format!("{object}: metadata.namespace: there is no namespace typo"));
    assert_named(&warnings, &reasons.each_ref().map(String::as_str));
    let is_named = |text: &&String| text.contains("metadata.namespace: there is no namespace");
    assert_eq!(warnings.iter().filter(is_named).count(), 2, "{warnings:?}");
}

#[test]
fn a_network_with_an_uplink_has_the_addresses_of_the_nodes_own_bridge() {
    let objects = "- {apiVersion: v1, kind: Namespace, metadata: {name: red, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- apiVersion: k8s.ovn.org/v1
  kind: ClusterUserDefinedNetwork
  metadata: {name: net}
  spec:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: red}}
    uplinks: [eth1]
    network: {topology: Layer2, layer2: {role: Primary, subnets: [10.30.0.0/16]}}
";
    let on = ClusterSettings { features: [Feature::Uplink].into(), ..settings() };
    let named = "ClusterUserDefinedNetwork net: spec.uplinks: UplinkStates are not read";
    assert_named(&complete_with(on, objects).unwrap().warnings, &[named]);
    // Without the feature there is no network.
    let off = "ClusterUserDefinedNetwork net: NetworkCreated is False: spec.uplinks is set";
    let warnings = complete(objects).unwrap().warnings;
    assert_named(&warnings, &[off]);
    assert!(!warnings.iter().any(|text| text.contains(named)));
}

#[test]
fn ranges_without_an_address_for_a_node_or_a_network() {
    let node = "- {apiVersion: v1, kind: Node, metadata: {name: n9, annotations: {k8s.ovn.org/node-id: '9'}}}\n";
    let network = "- {apiVersion: v1, kind: Namespace, metadata: {name: red, labels: \
                   {k8s.ovn.org/primary-user-defined-network: ''}}}\n- {apiVersion: k8s.ovn.org/v1, kind: \
                   UserDefinedNetwork, metadata: {name: net, namespace: red}, spec: {topology: Layer3, layer3: {role: \
                   Primary, subnets: [{cidr: 10.40.0.0/16, hostSubnet: 24}], joinSubnets: [100.70.0.0/29]}}}\n";
    let objects = format!("{node}{network}");
    let expected = [
        "the transit range 100.88.0.0/29 has no address for node n9, whose id is 9",
        "network red_net: the join subnet 100.70.0.0/29 has no address for node n9, whose id is 9",
        "the masquerade range 169.254.0.0/29 has no addresses for network ",
    ];
    let small = ClusterSettings {
        transit_subnets: vec!["100.88.0.0/29".parse().unwrap()],
        masquerade_subnets: vec!["169.254.0.0/29".parse().unwrap()],
        ..settings()
    };
    assert_named(&complete_with(small, &objects).unwrap().warnings, &expected);
    let warnings = complete(node).unwrap().warnings;
    let is_small = |text: &String| text.contains("has no address");
    assert!(!warnings.iter().any(is_small), "{warnings:?}");
}
