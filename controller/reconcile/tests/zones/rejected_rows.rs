//! Transactions that the database always rejects: the rows of everything else are made.

use patchbay_engine::db::{DatabaseError, Snapshot};
use patchbay_engine::txn::Transaction;
use patchbay_model::{ClusterSettings, IpFamily};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{CommitError, Embedded, Northbound, ReconnectError};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::nb::{Acl, LoadBalancer, LogicalRouter, LogicalSwitchPort};
use patchbay_schemas::typed::TableRow;
use patchbay_schemas::uuids::UuidSource;

use super::cluster_of;

/// Two connected networks with a pod, a policy and a service.
const MANIFESTS: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: blue, labels: {net: a, k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: green, labels: {net: a, k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {k8s.ovn.org/node-chassis-id: c1}}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: net, namespace: blue}
  spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.10.0.0/16, hostSubnet: 24}]}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: net, namespace: green}
  spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.20.0.0/16, hostSubnet: 24}]}}
- apiVersion: v1
  kind: Pod
  metadata: {name: web, namespace: blue}
  spec: {nodeName: n1, containers: [{name: c, image: i}]}
- apiVersion: v1
  kind: Service
  metadata: {name: web, namespace: blue}
  spec: {clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7], ports: [{protocol: TCP, port: 80}]}
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata: {name: closed, namespace: blue}
  spec: {podSelector: {}}
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata: {name: wrong, namespace: green}
  spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/99}}]}]}
- apiVersion: k8s.ovn.org/v1
  kind: ClusterNetworkConnect
  metadata: {name: both}
  spec:
    networkSelectors:
    - networkSelectionType: PrimaryUserDefinedNetworks
      primaryUserDefinedNetworkSelector: {namespaceSelector: {matchLabels: {net: a}}}
    connectSubnets: [{cidr: 192.168.0.0/16, networkPrefix: 24}]
    connectivity: [PodNetwork]
";

/// Tag of the server's error.
const TAG: &str = "constraint violation";

/// A database that rejects transactions that contain one of these texts.
struct Rejecting {
    database: Embedded,
    texts: &'static [&'static str],
}

impl Northbound for Rejecting {
    fn snapshot(&self) -> Snapshot {
        self.database.snapshot()
    }

    async fn commit(&mut self, transaction: Transaction) -> Result<(), CommitError> {
        let mut params = Vec::new();
        transaction.write_params(&mut params);
        let params = String::from_utf8(params).unwrap();
        if self.texts.iter().any(|text| params.contains(text)) {
            return Err(DatabaseError::Commit(OvsdbError::new(TAG, "refused")).into());
        }
        self.database.commit(transaction).await
    }

    async fn wait_for_outcome(&mut self) -> Result<(), ReconnectError> {
        Ok(())
    }
}

fn cluster() -> Cluster {
    let settings = ClusterSettings {
        families: vec![IpFamily::V4],
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        ..ClusterSettings::default()
    };
    cluster_of(MANIFESTS, settings)
}

fn zone_without(texts: &'static [&'static str]) -> ZoneReconciler<Rejecting> {
    let database = Embedded::new(0).unwrap();
    ZoneReconciler::new("n1", Rejecting { database, texts }, UuidSource::seeded(1))
}

/// Returns the numbers of policy ACLs, load balancers, enabled ports of pods and connect routers, and the
/// error of the pass.
async fn rows_without(texts: &'static [&'static str]) -> ([usize; 4], Option<String>) {
    let (cluster, mut zone) = (cluster(), zone_without(texts));
    let error = zone.reconcile(&cluster).await.err();
    let snapshot = zone.northbound().snapshot();
    let policy = |acl: &Acl| acl.external_ids.values().any(|id| id == "NetpolNamespace");
    let counts = [
        count::<Acl>(&snapshot, policy),
        count::<LoadBalancer>(&snapshot, |row| row.name.contains("blue/web")),
        count::<LogicalSwitchPort>(&snapshot, |row| {
            row.name.ends_with("blue_web") && row.enabled.is_none()
        }),
        count::<LogicalRouter>(&snapshot, |row| row.name == "connect_router_both"),
    ];
    (counts, error.map(|error| error.to_string()))
}

fn count<T: TableRow>(snapshot: &Snapshot, is_counted: impl Fn(&T) -> bool) -> usize {
    let rows = snapshot.typed::<T>();
    rows.iter().filter(|row| is_counted(&row.as_ref().unwrap().1)).count()
}

#[tokio::test]
async fn a_rejected_capability_is_named_and_the_others_have_their_rows() {
    let ([acls, balancers, ports, routers], error) = rows_without(&[]).await;
    assert!(acls > 0 && balancers > 0, "{acls} {balancers}");
    assert_eq!((ports, routers, error), (1, 1, None));
    let all = |acls, balancers, ports, routers| [acls, balancers, ports, routers];
    for (texts, left, error) in [
        (
            &[r#""table":"Load_Balancer""#][..],
            all(acls, 0, 1, 1),
            "services: the server refused the transaction: constraint violation: refused",
        ),
        (
            &["connect_router_both"],
            all(acls, balancers, 1, 0),
            "ClusterNetworkConnect both: the server refused the transaction: constraint violation: refused",
        ),
        (
            &[r#""table":"Load_Balancer""#, "NetpolNamespace"],
            all(0, 0, 0, 1),
            "policies: the server refused the transaction: constraint violation: refused; \
             services: the server refused the transaction: constraint violation: refused",
        ),
    ] {
        let (found, reason) = rows_without(texts).await;
        assert_eq!(found, left, "{texts:?}");
        assert_eq!(reason.as_deref(), Some(error), "{texts:?}");
    }
}

#[tokio::test]
async fn problems_of_objects_are_returned_with_rejections() {
    for (texts, expected) in [
        (&[][..], &[][..]),
        (
            &[r#""table":"Load_Balancer""#][..],
            &["services: the server refused the transaction: constraint violation: refused"][..],
        ),
    ] {
        let outcome = zone_without(texts).reconcile_watched(&cluster()).await.unwrap();
        let rejections = outcome.rejections.iter().map(ToString::to_string);
        assert!(rejections.eq(expected.iter().copied()), "{:?}", outcome.rejections);
        assert_eq!(outcome.problems.len(), 1, "{:?}", outcome.problems);
    }
}
