//! Policies from files: groups and ACLs of each direction, and networks that a policy does not
//! apply to.

use std::collections::BTreeMap;

use patchbay_engine::db::Snapshot;
use patchbay_model::ClusterSettings;
use patchbay_reconcile::northbound::{Embedded, Northbound as _};
use patchbay_reconcile::zone::{ZoneOutcome, ZoneReconciler};
use patchbay_schemas::nb::{Acl, PortGroup};
use patchbay_schemas::uuids::UuidSource;

use crate::cluster_of;

/// A pod in a primary network, and in a network of the physical network without addresses.
const CLUSTER: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: blue, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {k8s.ovn.org/node-chassis-id: c1}}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: l3, namespace: blue}
  spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.10.0.0/16}]}}
- apiVersion: k8s.ovn.org/v1
  kind: ClusterUserDefinedNetwork
  metadata: {name: lan}
  spec:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: blue}}
    network:
      topology: Localnet
      localnet: {role: Secondary, physicalNetworkName: phys1, ipam: {mode: Disabled}}
- apiVersion: v1
  kind: Pod
  metadata: {name: p, namespace: blue, labels: {app: web}, annotations: {k8s.v1.cni.cncf.io/networks: lan}}
  spec: {nodeName: n1, containers: [{name: c}]}
";

/// The outcome of the cluster with a policy, and its rows.
async fn reconcile(zone: &mut ZoneReconciler<Embedded>, policy: &str) -> (ZoneOutcome, Snapshot) {
    let cluster = cluster_of(&[CLUSTER, policy].concat(), ClusterSettings::default());
    let outcome = zone.reconcile(&cluster).await.unwrap();
    assert!(zone.is_reconciled(&cluster), "{policy}");
    (outcome, zone.northbound().snapshot())
}

/// Text after `owner` in the identities of the ACLs, and of the groups with their number of ports.
fn rows(snapshot: &Snapshot, owner: &str) -> (Vec<String>, Vec<(String, usize)>) {
    let id = |ids: &BTreeMap<String, String>| {
        let id = ids.get("k8s.ovn.org/id")?;
        Some(id.split_once(owner)?.1.to_owned())
    };
    let mut acls: Vec<String> = snapshot
        .typed::<Acl>()
        .iter()
        .map(|row| row.unwrap().1)
        .filter_map(|acl| id(&acl.external_ids))
        .collect();
    acls.sort();
    let mut groups: Vec<(String, usize)> = snapshot
        .typed::<PortGroup>()
        .iter()
        .map(|row| row.unwrap().1)
        .filter_map(|row| Some((id(&row.external_ids)?, row.ports.len())))
        .collect();
    groups.sort();
    (acls, groups)
}

#[tokio::test]
async fn rules_of_a_direction_outside_of_the_policy_types_are_reported() {
    let mut zone = ZoneReconciler::new("n1", Embedded::new(0).unwrap(), UuidSource::seeded(0));
    let policy = "
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata: {name: np, namespace: blue}
  spec:
    podSelector: {}
    policyTypes: [Ingress]
    egress: [{to: [{podSelector: {}}], ports: [{port: 80}]}, {to: [{ipBlock: {cidr: 10.0.0.0/8}}]}]
";
    let (outcome, snapshot) = reconcile(&mut zone, policy).await;
    let problems = outcome.problems.iter().map(ToString::to_string);
    let ignored = "NetworkPolicy blue/np: spec.egress: ignored, because spec.policyTypes does not \
                   have Egress";
    assert_eq!(problems.collect::<Vec<_>>(), [ignored]);
    let (acls, groups) = rows(&snapshot, ":NetworkPolicy:");
    assert!(acls.is_empty(), "{acls:?}");
    assert_eq!(groups, [("blue:np".to_owned(), 1)]);
    let (_, isolated) = rows(&snapshot, ":NetpolNamespace:");
    let isolated: Vec<(&str, usize)> = isolated.iter().map(|(id, n)| (&**id, *n)).collect();
    assert_eq!(isolated, [("blue:Egress", 0), ("blue:Ingress", 1)]);
}

#[tokio::test]
async fn a_policy_with_peers_by_labels_does_not_apply_without_addresses() {
    let mut zone = ZoneReconciler::new("n1", Embedded::new(0).unwrap(), UuidSource::seeded(0));
    let policy = |peer: &str| {
        format!(
            "
- apiVersion: k8s.cni.cncf.io/v1beta1
  kind: MultiNetworkPolicy
  metadata: {{name: mp, namespace: blue, annotations: {{k8s.v1.cni.cncf.io/policy-for: lan}}}}
  spec:
    podSelector: {{}}
    policyTypes: [Ingress]
    ingress: [{{from: [{{ipBlock: {{cidr: 192.168.0.0/16}}}}{peer}]}}]
"
        )
    };
    let none = (Vec::new(), Vec::new());
    for (peer, applies) in [("", true), (", {podSelector: {}}", false), ("", true)] {
        let (outcome, snapshot) = reconcile(&mut zone, &policy(peer)).await;
        let expected = "MultiNetworkPolicy blue/mp: spec: network cluster_udn_lan does not manage \
                        addresses, so peers are selected by ipBlock only; the policy does not apply \
                        there";
        let problems = outcome.problems.iter().map(ToString::to_string);
        let expected = [expected].into_iter().filter(|_| !applies);
        assert!(problems.eq(expected), "{:?}", outcome.problems);
        for owner in [":NetworkPolicy:", ":NetpolNamespace:"] {
            assert_eq!(rows(&snapshot, owner) != none, applies, "{owner} {peer}");
        }
    }
}

#[tokio::test]
async fn a_multi_network_policy_is_about_secondary_networks_only() {
    let mut zone = ZoneReconciler::new("n1", Embedded::new(0).unwrap(), UuidSource::seeded(0));
    let policy = "
- apiVersion: k8s.cni.cncf.io/v1beta1
  kind: MultiNetworkPolicy
  metadata: {name: mp, namespace: blue, annotations: {k8s.v1.cni.cncf.io/policy-for: l3}}
  spec: {podSelector: {}, policyTypes: [Ingress]}
";
    let (outcome, snapshot) = reconcile(&mut zone, policy).await;
    let problems: Vec<String> = outcome.problems.iter().map(ToString::to_string).collect();
    assert!(problems.len() == 1 && problems[0].contains("blue/l3"), "{problems:?}");
    for owner in [":NetworkPolicy:", ":NetpolNamespace:"] {
        assert_eq!(rows(&snapshot, owner), (Vec::new(), Vec::new()), "{owner}");
    }
}
