//! Rules about nodes whose addresses cannot be read: the former rules stay.

use patchbay_model::{ClusterSettings, Feature, IpFamily};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{Embedded, Northbound as _};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_schemas::nb::{Acl, AddressSet, PortGroup};
use patchbay_schemas::uuids::UuidSource;

use super::cluster_of;

const OBJECTS: &str = "
- {apiVersion: v1, kind: Namespace, metadata: {name: blue, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: net, namespace: blue}
  spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.10.0.0/16, hostSubnet: 24}]}}
- apiVersion: v1
  kind: Pod
  metadata: {name: web, namespace: blue}
  spec: {nodeName: n1, containers: [{name: c}]}
  status: {phase: Running, podIPs: [{ip: 10.244.0.3}]}
- apiVersion: k8s.ovn.org/v1
  kind: EgressFirewall
  metadata: {name: default, namespace: blue}
  spec: {egress: [{type: Allow, to: {nodeSelector: {matchLabels: {rack: a}}}}, {type: Deny, to: {cidrSelector: 0.0.0.0/0}}]}
- apiVersion: policy.networking.k8s.io/v1alpha1
  kind: AdminNetworkPolicy
  metadata: {name: racks}
  spec:
    priority: 34
    subject: {namespaces: {}}
    egress: [{action: Deny, to: [{nodes: {matchLabels: {rack: a}}}]}]
";

/// The objects, with a node in this rack and with these addresses.
fn cluster(rack: &str, host_cidrs: &str) -> Cluster {
    let node = format!(
        "apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {{name: n1, labels: {{rack: {rack}}}, annotations: {{k8s.ovn.org/node-chassis-id: c1, k8s.ovn.org/host-cidrs: '{host_cidrs}'}}}}
"
    );
    let settings = ClusterSettings {
        families: vec![IpFamily::V4],
        features: [Feature::AdminNetworkPolicy, Feature::EgressFirewall].into(),
        ..ClusterSettings::default()
    };
    cluster_of(&[&node, OBJECTS].concat(), settings)
}

struct World {
    zone: ZoneReconciler<Embedded>,
}

impl World {
    fn new() -> Self {
        Self { zone: ZoneReconciler::new("n1", Embedded::new(0).unwrap(), UuidSource::seeded(1)) }
    }

    /// Returns the rows of the firewall and of the policy, and the problems.
    async fn apply(&mut self, cluster: &Cluster) -> (Vec<String>, Vec<String>) {
        let outcome = self.zone.reconcile(cluster).await.unwrap();
        assert!(self.zone.is_reconciled(cluster));
        let snapshot = self.zone.northbound().snapshot();
        let kinds = ["EgressFirewall", "AdminNetworkPolicy"];
        let is_of_rules = |kind: Option<&String>| kind.is_some_and(|kind| kinds.contains(&&**kind));
        let owner_type = "k8s.ovn.org/owner-type";
        let acls = snapshot.typed::<Acl>();
        let acls = acls.iter().map(|row| row.unwrap().1);
        let acls = acls.filter(|acl| is_of_rules(acl.external_ids.get(owner_type)));
        let sets = snapshot.typed::<AddressSet>();
        let sets = sets.iter().map(|row| row.unwrap().1);
        let sets = sets.filter(|set| is_of_rules(set.external_ids.get(owner_type)));
        let groups = snapshot.typed::<PortGroup>();
        let groups = groups.iter().map(|row| row.unwrap().1);
        let groups = groups.filter(|group| is_of_rules(group.external_ids.get(owner_type)));
        let mut rows: Vec<String> = acls
            .map(|acl| format!("{} {}", acl.priority, acl.r#match))
            .chain(sets.map(|set| format!("{:?}", set.addresses)))
            .chain(groups.map(|group| group.name))
            .collect();
        rows.sort();
        let problems = outcome.problems.iter();
        (rows, problems.map(ToString::to_string).collect())
    }
}

#[tokio::test]
async fn rules_about_a_node_with_unreadable_addresses_stay_as_they_are() {
    let good = cluster("a", r#"["172.18.0.2/16"]"#);
    let mut world = World::new();
    let (rows, problems) = world.apply(&good).await;
    assert_eq!(problems, [] as [&str; 0]);
    assert_eq!(rows.len(), 5, "{rows:?}");
    for bad in [r#"["172.18.0.2"]"#, "172.18.0.3/16", "{}"] {
        let unreadable = cluster("a", bad);
        assert!(
            unreadable.warnings.iter().any(|warning| warning.contains(
                "Node n1: metadata.annotations[k8s.ovn.org/host-cidrs]: not a list of addresses"
            )),
            "{:?}",
            unreadable.warnings
        );
        let unknown = "selects node n1, whose annotation k8s.ovn.org/host-cidrs cannot be read; \
                       rows stay as they are";
        let expected = [
            format!("EgressFirewall blue/default: spec.egress[0].to.nodeSelector: {unknown}"),
            format!("AdminNetworkPolicy racks: spec.egress[0].to: {unknown}"),
        ];
        let (found, problems) = world.apply(&unreadable).await;
        assert_eq!((&found, &problems[..]), (&rows, &expected[..]), "{bad}");
        // There are no former rules of new objects.
        let (found, _) = World::new().apply(&unreadable).await;
        assert_eq!(found, [] as [&str; 0], "{bad}");
        // The rules are about other nodes.
        let (_, problems) = World::new().apply(&cluster("b", bad)).await;
        assert_eq!(problems, [] as [&str; 0], "{bad}");
    }
    let other = cluster("a", r#"["172.18.0.7/16"]"#);
    let (followed, problems) = world.apply(&other).await;
    let (read, _) = World::new().apply(&other).await;
    assert_eq!((&followed, problems.len()), (&read, 0));
    assert!(followed.concat().contains("172.18.0.7"), "{followed:?}");
}
