//! Networks of which one cannot be had: the others are.

use patchbay_ovn_programs::testing::{RealServer, ScratchDir, nbctl};

use crate::command::{Run, nb_schema, run_on, without_summary};

/// Two nodes, three namespaces, and a connect of everything in them.
const CLUSTER: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}}
- {apiVersion: v1, kind: Node, metadata: {name: n2}}
- {apiVersion: v1, kind: Namespace, metadata: {name: one, labels: {net: a, k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: two, labels: {net: b, k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: six, labels: {net: c, k8s.ovn.org/primary-user-defined-network: ''}}}
- apiVersion: k8s.ovn.org/v1
  kind: ClusterNetworkConnect
  metadata: {name: all}
  spec:
    networkSelectors:
    - networkSelectionType: PrimaryUserDefinedNetworks
      primaryUserDefinedNetworkSelector: {namespaceSelector: {}}
    connectSubnets: [{cidr: 192.168.0.0/16, networkPrefix: 24}]
    connectivity: [PodNetwork]
";

fn network(name: &str, label: &str, network: &str) -> String {
    format!(
        "---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {{name: {name}}}
spec:
  namespaceSelector: {{matchLabels: {{net: {label}}}}}
  network: {{{network}}}
"
    )
}

fn layer3(name: &str, label: &str, cidr: &str) -> String {
    let layer3 = format!("{{role: Primary, subnets: [{{cidr: {cidr}, hostSubnet: 24}}]}}");
    network(name, label, &format!("topology: Layer3, layer3: {layer3}"))
}

/// Applies to a real server and to an embedded database, which must not be of another opinion.
fn apply(manifests: &str) -> (Run, String) {
    let server = RealServer::start([nb_schema()]);
    let real = run_on(&format!("apply --zone n1 --nb {}", server.remote()), manifests);
    let embedded = run_on("apply --zone n1", manifests);
    assert_eq!((real.code, &real.stderr), (embedded.code, &embedded.stderr));
    let routers = nbctl(&server.remote()).arg("lr-list").output().unwrap();
    (real, String::from_utf8(routers.stdout).unwrap())
}

#[test]
fn of_two_networks_with_equal_row_names_one_has_rows() {
    let manifests = CLUSTER.to_owned()
        + &layer3("a-b", "a", "10.1.0.0/16")
        + &layer3("a.b", "b", "10.2.0.0/16")
        + &layer3("c", "c", "10.3.0.0/16");
    let (run, routers) = apply(&manifests);
    assert_eq!(run.code, Some(0));
    assert!(
        run.stderr.contains(
            "cluster_udn_a.b: its routers and switches would have the names of those of network cluster_udn_a-b"
        ),
        "{}",
        run.stderr
    );
    assert!(run.stdout.contains("connected: 2 networks with 4 ports"));
    assert!(!run.stdout.contains("10.2.0.0/16"), "{}", run.stdout);
    // A router and a gateway router of each network, and the connect router.
    assert_eq!(routers.lines().count(), 5, "{routers}");
}

#[test]
fn a_subnet_that_is_too_small_is_no_matter_of_other_networks() {
    let manifests = CLUSTER.to_owned()
        + &network("a", "a", "topology: Layer2, layer2: {role: Primary, subnets: [10.1.0.0/32]}")
        + &layer3("b", "b", "10.2.0.0/16");
    let (run, routers) = apply(&manifests);
    assert_eq!(run.code, Some(0));
    assert!(
        run.stderr.contains(
            "cluster_udn_a: subnet 10.1.0.0/32 is too small for the addresses of the router and of the node itself"
        ),
        "{}",
        run.stderr
    );
    assert!(routers.contains("cluster_udn_b_ovn_cluster_router"));
    assert!(!routers.contains("cluster_udn_a"), "{routers}");
}

#[test]
fn a_foreign_definition_with_the_name_of_a_network_changes_nothing() {
    let stranger = r#"---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: x, namespace: six}
spec: {config: '{"type":"ovn-k8s-cni-overlay","name":"cluster_udn_two","netAttachDefName":"six/x","role":"primary",
  "topology":"layer3","subnets":"10.9.0.0/16/24"}'}
"#;
    let manifests = CLUSTER.to_owned()
        + stranger
        + &layer3("one", "a", "10.1.0.0/16")
        + &layer3("two", "b", "10.2.0.0/16");
    let (run, _) = apply(&manifests);
    assert_eq!(run.code, Some(1));
    assert!(
        run.stderr.contains("NAD six/x CNI config does not match that of network cluster_udn_two"),
        "{}",
        run.stderr
    );
    assert!(run.stdout.contains("ip4.dst == 10.2.0.0/16"));
    assert!(!run.stdout.contains("10.9."), "{}", run.stdout);
}

#[test]
fn networks_exchange_their_namespaces_in_one_run() {
    let folder = ScratchDir::new();
    let manifests = CLUSTER.to_owned()
        + &layer3("one", "a", "10.1.0.0/16")
        + &layer3("two", "b", "10.2.0.0/16");
    let exchanged = manifests
        .replace("name: one, labels: {net: a", "name: one, labels: {net: b")
        .replace("name: two, labels: {net: b", "name: two, labels: {net: a");
    let apply = format!("apply --zone n1 --state {}", folder.path().display());
    let before = run_on(&apply, &manifests).succeeded();
    let after = run_on(&apply, &exchanged).succeeded();
    assert!(after.contains("connected: 2 networks with 4 ports"));
    assert_eq!(without_summary(&before), without_summary(&after));
    let again = run_on(&apply, &exchanged).succeeded();
    assert_eq!(without_summary(&again), without_summary(&after));
}

#[test]
fn routers_and_switches_are_listed_where_there_are_no_connects() {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: one, labels: {net: one, k8s.ovn.org/primary-user-defined-network: ''}}\n";
    let manifests = format!("{node}{}", layer3("a", "one", "10.1.0.0/16"));
    let listed = run_on("apply --zone n1", &manifests).succeeded();
    let (_, lists) = listed.split_once("# zone n1\n\n$ ovn-nbctl lr-list\n").unwrap();
    let (routers, switches) = without_summary(lists).split_once("\n$ ovn-nbctl ls-list\n").unwrap();
    let names = |list: &str| -> Vec<String> {
        let names = list.lines().filter_map(|line| line.split_once(' '));
        names.map(|(_, name)| name.to_owned()).collect()
    };
    assert_eq!(names(routers), ["(GR_cluster_udn_a_n1)", "(cluster_udn_a_ovn_cluster_router)"]);
    assert_eq!(names(switches).len(), 4, "{switches}");
}
