//! Matches of the rules of policies, and ports that are isolated.

use std::collections::BTreeMap;

use patchbay_engine::db::Snapshot;
use patchbay_model::{ClusterSettings, Feature, IpFamily};
use patchbay_reconcile::northbound::{Embedded, Northbound as _};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_schemas::nb::{Acl, AddressSet, LogicalSwitchPort, PortGroup};
use patchbay_schemas::uuids::UuidSource;

use crate::cluster_of;

/// A layer2 network with a pod on each node.
const CLUSTER: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: green, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {k8s.ovn.org/node-chassis-id: c1}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2, annotations: {k8s.ovn.org/node-chassis-id: c2}}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: l2, namespace: green}
  spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.20.0.0/16]}}
- apiVersion: v1
  kind: Pod
  metadata: {name: q1, namespace: green}
  spec: {nodeName: n1, containers: [{name: c, ports: [{name: http, containerPort: 8080}]}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: q2, namespace: green}
  spec: {nodeName: n2, containers: [{name: c, ports: [{name: http, containerPort: 8080}]}]}
";

/// The rows of node n1 with a policy about all pods of the namespace.
async fn rows(spec: &str, features: &[Feature]) -> Snapshot {
    let policy = format!(
        "- apiVersion: networking.k8s.io/v1\n  kind: NetworkPolicy\n  \
         metadata: {{name: np, namespace: green}}\n  spec: {{podSelector: {{}}, {spec}}}\n"
    );
    let settings = ClusterSettings {
        families: vec![IpFamily::V4],
        features: features.iter().copied().collect(),
        ..ClusterSettings::default()
    };
    let cluster = cluster_of(&[CLUSTER, &policy].concat(), settings);
    let mut zone = ZoneReconciler::new("n1", Embedded::new(0).unwrap(), UuidSource::seeded(0));
    zone.reconcile(&cluster).await.unwrap();
    assert!(zone.is_reconciled(&cluster), "{spec}");
    zone.northbound().snapshot()
}

/// Matches of the ACLs of rules without the port group, by the end of their identities. Names of
/// address sets are shortened.
async fn matches(spec: &str) -> BTreeMap<String, String> {
    let snapshot = rows(spec, &[]).await;
    let acls = snapshot.typed::<Acl>();
    let acls = acls.iter().map(|row| row.unwrap().1);
    let matches = acls.filter_map(|acl| {
        let id = acl.external_ids.get("k8s.ovn.org/id")?;
        let (_, id) = id.split_once(":NetworkPolicy:green:np:")?;
        let (text, _) = acl.r#match.rsplit_once(" && ").unwrap();
        let mut words = text.split_inclusive(['{', ' ', ',', '}']);
        let shorten = |word: &str| match word.strip_prefix('$') {
            Some(name) => {
                format!("${}", name.trim_matches(|of: char| of == 'a' || of.is_numeric()))
            }
            None => word.to_owned(),
        };
        Some((id.to_owned(), words.by_ref().map(shorten).collect()))
    });
    matches.collect()
}

fn expected<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(id, text)| (id.to_owned(), text.to_owned())).into()
}

#[tokio::test]
async fn blocks_are_matched_without_their_exceptions() {
    let spec = "policyTypes: [Ingress], ingress: [{from: [\
                {ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}, \
                {ipBlock: {cidr: 192.168.0.0/16, except: [192.168.1.0/24, 192.168.2.0/24]}}]}]";
    let text = "((ip4.src == 10.0.0.0/8 && ip4.src != {10.1.0.0/16}) || \
                (ip4.src == 192.168.0.0/16 && ip4.src != {192.168.1.0/24, 192.168.2.0/24}))";
    assert_eq!(matches(spec).await, expected([("Ingress:0:None:-2", text)]));
}

#[tokio::test]
async fn peers_that_are_named_twice_are_matched_once() {
    let spec = "policyTypes: [Ingress], ingress: [{from: [{podSelector: {}}, {podSelector: {}}]}]";
    let set = "ip4.src == {$}";
    assert_eq!(matches(spec).await, expected([("Ingress:0:None:-1", set)]));
}

#[tokio::test]
async fn a_range_of_one_port_is_a_port() {
    let spec = "policyTypes: [Ingress], ingress: [{ports: [{port: 80, endPort: 80}, \
                {port: 90, endPort: 92}, {protocol: UDP, port: 53, endPort: 53}]}]";
    let tcp = "ip4 && tcp && (tcp.dst==80 || 90<=tcp.dst<=92)";
    assert_eq!(
        matches(spec).await,
        expected([("Ingress:0:tcp:-1", tcp), ("Ingress:0:udp:-1", "ip4 && udp && udp.dst==53"),])
    );
}

#[tokio::test]
async fn destinations_by_address_give_no_numbers_to_named_ports() {
    let spec = "policyTypes: [Egress], egress: [{to: [{podSelector: {}}, \
                {ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: http}]}]";
    let pods = "ip4.dst == {$} && tcp && tcp.dst==8080";
    assert_eq!(matches(spec).await, expected([("Egress:0:tcp:-1", pods)]));
}

#[tokio::test]
async fn only_ports_of_the_zone_are_isolated() {
    // With the feature, the port group of the namespace has the ports of other zones, too.
    for features in [&[][..], &[Feature::EgressFirewall]] {
        let snapshot = rows("policyTypes: [Ingress]", features).await;
        let ports = snapshot.typed::<LogicalSwitchPort>();
        let names: BTreeMap<_, String> =
            ports.iter().map(Result::unwrap).map(|(port, row)| (port, row.name)).collect();
        let groups = snapshot.typed::<PortGroup>();
        let groups = groups.iter().map(|row| row.unwrap().1);
        let members = groups.filter_map(|group| {
            let id = group.external_ids.get("k8s.ovn.org/id")?;
            let (_, id) = id.split_once("-network-controller:")?;
            let isolates = id.starts_with("Netpol") || id.starts_with("NetworkPolicy");
            let ports = group.ports.iter().map(|port| names[port].as_str());
            isolates.then(|| (id.to_owned(), ports.collect::<Vec<_>>()))
        });
        let members: BTreeMap<String, Vec<&str>> = members.collect();
        let local = vec!["green.l2_green_q1"];
        let expected = [
            ("NetpolNamespace:green:Egress", Vec::new()),
            ("NetpolNamespace:green:Ingress", local.clone()),
            ("NetworkPolicy:green:np", local),
        ]
        .map(|(id, ports)| (id.to_owned(), ports));
        assert_eq!(members, expected.into(), "{features:?}");
    }
}

/// Kubernetes' documentation decides: a policy is about the directions of its types.
#[tokio::test]
async fn rules_of_a_direction_that_the_types_leave_out_are_ignored() {
    let (ingress, egress) = ("ingress: [{from: [{podSelector: {}}]}]", "egress: [{}]");
    let spec = |types: &str| format!("policyTypes: [{types}], {ingress}, {egress}");
    let allowed = |id| expected([id]);
    let peers = ("Ingress:0:None:-1", "ip4.src == {$}");
    assert_eq!(matches(&spec("Ingress")).await, allowed(peers));
    let all = ("Egress:0:None:-1", "ip4");
    assert_eq!(matches(&spec("Egress")).await, allowed(all));
    let both = matches(&spec("Ingress, Egress")).await;
    assert_eq!(both, expected([peers, all]));
    // The peers of ignored rules have no address sets.
    let snapshot = rows(&spec("Egress"), &[]).await;
    let sets = snapshot.typed::<AddressSet>();
    let mut sets = sets.iter().map(|row| row.unwrap().1.external_ids);
    assert!(!sets.any(|ids| ids["k8s.ovn.org/owner-type"] == "PodSelector"));
}

/// The pods of the network that have the port receive packets, and other destinations do not.
#[tokio::test]
async fn named_ports_of_egress_rules_without_peers_are_those_of_all_pods_of_the_network() {
    let spec = "policyTypes: [Egress], egress: [{ports: [{port: http}, {port: none}, \
                {port: 53, protocol: UDP}]}]";
    let http = "ip4 && tcp && (tcp.dst==8080 && ip4.dst == {10.20.0.3, 10.20.0.4})";
    assert_eq!(
        matches(spec).await,
        expected([("Egress:0:tcp:-1", http), ("Egress:0:udp:-1", "ip4 && udp && udp.dst==53"),])
    );
}
