//! EgressFirewalls and multicast from files: rows after each change, and packets through them.

use std::fs;
use std::path::Path;

use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::TxnBuilder;
use patchbay_model::{ClusterSettings, Feature};
use patchbay_reach::{Destination, Northbound, Question, Sender, Verdict};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{Embedded, Northbound as _};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_resources::object::Time;
use patchbay_schemas::nb::{
    Acl, AclAction, AclDirection, LogicalRouter, LogicalSwitchPort, PortGroup,
};
use patchbay_schemas::uuids::UuidSource;

use crate::cluster_of;

const ZONE: &str = "ovn-worker";

/// A pod in each network of the example.
const PODS: &str = "
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: client, namespace: blue}
  spec: {nodeName: ovn-worker, containers: [{name: c}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: server, namespace: green}
  spec: {nodeName: ovn-worker, containers: [{name: c}]}
";

/// The networks of the example, connected, with a firewall of these rules.
fn cluster(rules: Option<&str>, features: &[Feature]) -> Cluster {
    let settings = ClusterSettings {
        features: features.iter().copied().collect(),
        ..ClusterSettings::default()
    };
    cluster_of(&manifests(rules, ""), settings)
}

/// The same as watched in a running cluster, with a firewall of one resource version.
fn watched(rules: &str) -> Cluster {
    let settings = ClusterSettings {
        features: [Feature::EgressFirewall].into(),
        ..ClusterSettings::default()
    };
    let manifests = manifests(Some(rules), ", resourceVersion: '1'");
    let now = Time(jiff::Timestamp::from_second(0).unwrap());
    let inventory = cluster_of(&manifests, settings.clone()).inventory;
    Cluster::watched(inventory, settings, now)
}

fn manifests(rules: Option<&str>, version: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/blue-green");
    let mut manifests = PODS.to_owned();
    for file in ["1-cluster.yaml", "2-networks.yaml", "3-connect.yaml"] {
        manifests += "---\n";
        manifests += &fs::read_to_string(folder.join(file)).unwrap();
    }
    if let Some(rules) = rules {
        manifests += "---\napiVersion: k8s.ovn.org/v1\nkind: EgressFirewall\n";
        manifests += &["metadata: {name: default, namespace: blue", version, "}\n"].concat();
        manifests += &["spec: {egress: [", rules, "]}\n"].concat();
    }
    manifests
}

/// Match and action of the firewall's ACLs, by priority.
fn acls(snapshot: &Snapshot) -> Vec<String> {
    let acls = snapshot.typed::<Acl>();
    let acls = acls.iter().map(|row| row.unwrap().1);
    let of_type = |acl: &Acl| acl.external_ids.get("k8s.ovn.org/owner-type").cloned();
    let mut acls: Vec<Acl> =
        acls.filter(|acl| of_type(acl).as_deref() == Some("EgressFirewall")).collect();
    acls.sort_by_key(|acl| -acl.priority);
    let texts = acls.iter().map(|acl| {
        let (destination, _) = acl.r#match.split_once(" && inport == @").unwrap();
        format!("{} {:?} {destination}", acl.priority, acl.action)
    });
    texts.collect()
}

/// Verdict of a packet from the pod in blue to the pod in green.
fn crosses(snapshot: &Snapshot) -> Verdict {
    let ports = snapshot.typed::<LogicalSwitchPort>();
    let mut ports = ports.iter().map(|row| row.unwrap().1);
    let server = ports.find(|port| port.name.ends_with("_green_server"));
    let addresses = server.unwrap().addresses;
    let address = addresses.first().unwrap().split(' ').nth(1).unwrap();
    let question = Question {
        sender: Sender::pod("blue/client"),
        destination: Destination::Address(address.parse().unwrap()),
        protocol: "tcp 80".parse().unwrap(),
    };
    let answer = Northbound::new(snapshot, None).answer(&question);
    answer.unwrap().verdict
}

#[tokio::test]
async fn a_firewall_decides_by_its_first_rule_that_matches() {
    let mut zone = ZoneReconciler::new(ZONE, Embedded::new(0).unwrap(), UuidSource::seeded(0));
    let features = [Feature::EgressFirewall];
    let allow = "{type: Allow, to: {cidrSelector: 10.0.0.0/8}}";
    let allow_all = "{type: Allow, to: {cidrSelector: 0.0.0.0/0}}";
    let deny = "{type: Deny, to: {cidrSelector: 0.0.0.0/0}}";
    let cases = [
        (None, 0, Verdict::Reaches),
        (Some(deny.to_owned()), 1, Verdict::Dropped),
        (Some(format!("{allow}, {deny}")), 2, Verdict::Dropped),
        (Some(format!("{allow}, {allow_all}, {deny}")), 3, Verdict::Reaches),
        (Some(deny.to_owned()), 1, Verdict::Dropped),
        (None, 0, Verdict::Reaches),
    ];
    for (rules, count, verdict) in cases {
        let cluster = cluster(rules.as_deref(), &features);
        let outcome = zone.reconcile(&cluster).await.unwrap();
        assert_eq!(outcome.problems, [], "{rules:?}");
        assert!(zone.is_reconciled(&cluster), "{rules:?}");
        let snapshot = zone.northbound().snapshot();
        assert_eq!(acls(&snapshot).len(), count, "{rules:?}");
        assert_eq!(crosses(&snapshot), verdict, "{rules:?}");
    }
}

#[tokio::test]
async fn a_firewall_that_cannot_be_used_leaves_the_former_rules() {
    let mut zone = ZoneReconciler::new(ZONE, Embedded::new(0).unwrap(), UuidSource::seeded(0));
    let features = [Feature::EgressFirewall];
    let deny = "{type: Deny, to: {cidrSelector: 0.0.0.0/0}}";
    zone.reconcile(&cluster(Some(deny), &features)).await.unwrap();
    let former = acls(&zone.northbound().snapshot());
    assert_eq!(former.len(), 1, "{former:?}");
    let cases = [
        (
            "{type: Allow, to: {cidrSelector: everywhere}}",
            "EgressFirewall blue/default: spec.egress[0].to.cidrSelector: \"everywhere\" is not a \
             CIDR; no rule applies",
            true,
        ),
        (
            "{type: Allow, to: {dnsName: example.com}}",
            "EgressFirewall blue/default: spec.egress[0].to.dnsName: \"example.com\" is not \
             resolved, so the rule does not apply; use cidrSelector",
            false,
        ),
    ];
    for (rule, problem, stays) in cases {
        let outcome = zone.reconcile(&cluster(Some(rule), &features)).await.unwrap();
        let problems = outcome.problems.iter().map(ToString::to_string);
        assert_eq!(problems.collect::<Vec<_>>(), [problem]);
        let found = acls(&zone.northbound().snapshot());
        assert_eq!(found == former, stays, "{found:?}");
    }
    let outcome = zone.reconcile(&cluster(Some(deny), &[])).await.unwrap();
    let problems = outcome.problems.iter().map(ToString::to_string);
    assert_eq!(
        problems.collect::<Vec<_>>(),
        ["EgressFirewall blue/default: feature egress-firewall is off, so the object has no \
             effect; see --enable"]
    );
    assert_eq!(acls(&zone.northbound().snapshot()), [] as [&str; 0]);
}

#[tokio::test]
async fn a_firewall_of_the_known_version_is_read_again_if_it_chooses_nodes_or_cannot_be_used() {
    let deny = "{type: Deny, to: {cidrSelector: 0.0.0.0/0}}";
    let all = "10000 Drop (ip4.dst == 0.0.0.0/0 && ip4.dst != 103.103.0.0/16)";
    let one = "10000 Drop (ip4.dst == 192.0.2.1/32)";
    let nodes = "{type: Deny, to: {nodeSelector: {matchLabels: {no: node}}}}";
    let unusable = "{type: Deny, to: {cidrSelector: everywhere}}";
    let other = "{type: Deny, to: {cidrSelector: 192.0.2.1/32}}";
    for (first, then, second, found) in
        [(deny, all, other, all), (nodes, "", other, one), (unusable, "", other, one)]
    {
        let mut zone = ZoneReconciler::new(ZONE, Embedded::new(0).unwrap(), UuidSource::seeded(0));
        for (rule, expected) in [(first, then), (second, found), (deny, found)] {
            zone.reconcile(&watched(rule)).await.unwrap();
            let expected: Vec<&str> =
                [expected].into_iter().filter(|acl| !acl.is_empty()).collect();
            assert_eq!(acls(&zone.northbound().snapshot()), expected, "{first} {rule}");
        }
    }
}

#[tokio::test]
async fn a_firewall_has_as_many_rules_as_there_are_priorities() {
    let mut zone = ZoneReconciler::new(ZONE, Embedded::new(0).unwrap(), UuidSource::seeded(0));
    let rule = "{type: Deny, to: {cidrSelector: 192.0.2.1/32}}, ";
    for (count, problems) in [(8001, 0), (8002, 1)] {
        let cluster = cluster(Some(&rule.repeat(count)), &[Feature::EgressFirewall]);
        let outcome = zone.reconcile(&cluster).await.unwrap();
        let found = outcome.problems;
        assert_eq!(found.len(), problems, "{found:?}");
        let acls = acls(&zone.northbound().snapshot());
        assert_eq!(acls.len(), 8001);
        assert!(acls[8000].starts_with("2000 "), "{}", acls[8000]);
    }
}

#[tokio::test]
async fn ports_are_in_the_group_of_their_namespace_while_a_feature_needs_it() {
    let mut zone = ZoneReconciler::new(ZONE, Embedded::new(0).unwrap(), UuidSource::seeded(0));
    let cases = [
        (&[][..], 0),
        (&[Feature::Multicast][..], 2),
        (&[Feature::EgressFirewall][..], 2),
        (&[][..], 0),
    ];
    for (features, count) in cases {
        let cluster = cluster(None, features);
        zone.reconcile(&cluster).await.unwrap();
        assert!(zone.is_reconciled(&cluster), "{features:?}");
        let snapshot = zone.northbound().snapshot();
        let groups = snapshot.typed::<PortGroup>();
        let groups = groups.iter().map(|row| row.unwrap().1);
        let members: Vec<usize> = groups
            .filter(|group| group.external_ids["k8s.ovn.org/owner-type"] == "Namespace")
            .map(|group| group.ports.len())
            .collect();
        assert_eq!(members, vec![1; count], "{features:?}");
    }
}

/// A database with the ACL of a firewall of namespace `plain`, which is not in a network. `shared`:
/// with the default network of OVN-Kubernetes.
async fn database_with_foreign_firewall(shared: bool) -> Embedded {
    let mut northbound = Embedded::new(0).unwrap();
    let mut txn = TxnBuilder::new(&northbound.snapshot());
    let owned = |owner_type: &str, values: &[(&str, &str)]| {
        let ids = [
            ("k8s.ovn.org/owner-controller", "default-network-controller"),
            ("k8s.ovn.org/owner-type", owner_type),
            ("k8s.ovn.org/name", "plain"),
        ];
        let ids = ids.iter().chain(values);
        ids.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let id = "default-network-controller:EgressFirewall:plain:0";
    let acl = Acl {
        priority: 10_000,
        action: AclAction::Drop,
        direction: AclDirection::ToLport,
        r#match: "(ip4.dst == 0.0.0.0/0) && inport == @pods".to_owned(),
        external_ids: owned("EgressFirewall", &[("rule-index", "0"), ("k8s.ovn.org/id", id)]),
        ..Acl::default()
    };
    let acl = txn.insert(&acl).unwrap();
    let group = PortGroup {
        name: "pods".to_owned(),
        acls: [acl].into(),
        external_ids: owned("Namespace", &[]),
        ..PortGroup::default()
    };
    txn.insert(&group).unwrap();
    if shared {
        let router =
            LogicalRouter { name: "ovn_cluster_router".to_owned(), ..LogicalRouter::default() };
        txn.insert(&router).unwrap();
    }
    northbound.commit(txn.finish()).await.unwrap();
    northbound
}

#[tokio::test]
async fn a_firewall_of_a_namespace_without_network_is_not_ours() {
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: plain}\n";
    let firewall = "---\napiVersion: k8s.ovn.org/v1\nkind: EgressFirewall\nmetadata: {name: default, \
                    namespace: plain}\nspec: {egress: [{type: Allow, to: {cidrSelector: 10.0.0.0/8}}]}\n";
    let settings = ClusterSettings {
        features: [Feature::EgressFirewall].into(),
        ..ClusterSettings::default()
    };
    for (shared, with_firewall, stays) in [
        (false, true, true),
        (false, false, false),
        (true, true, true),
        // OVN-Kubernetes removes its own rows.
        (true, false, true),
    ] {
        let northbound = database_with_foreign_firewall(shared).await;
        let mut zone = ZoneReconciler::new(ZONE, northbound, UuidSource::seeded(0));
        let firewall = if with_firewall { firewall } else { "" };
        let cluster = cluster_of(&[namespace, firewall].concat(), settings.clone());
        let outcome = zone.reconcile(&cluster).await.unwrap();
        assert_eq!(outcome.problems, []);
        assert!(zone.is_reconciled(&cluster));
        let found = acls(&zone.northbound().snapshot());
        let expected: &[&str] = if stays { &["10000 Drop (ip4.dst == 0.0.0.0/0)"] } else { &[] };
        assert_eq!(found, expected, "{shared} {with_firewall}");
    }
}
