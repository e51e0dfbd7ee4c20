//! New pods behind policies: no transaction lets a packet pass that the policies drop.

use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::Transaction;
use patchbay_model::{ClusterSettings, Feature, IpFamily};
use patchbay_reach::{Destination, Northbound as Rows, Question, Sender, Verdict};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{CommitError, Embedded, Northbound, ReconnectError};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_schemas::nb::LogicalSwitchPort;
use patchbay_schemas::uuids::UuidSource;

use crate::cluster_of;

const CLUSTER: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: blue, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {k8s.ovn.org/node-chassis-id: c1}}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: l3, namespace: blue}
  spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.10.0.0/16, hostSubnet: 24}]}}
- apiVersion: v1
  kind: Pod
  metadata: {name: client, namespace: blue}
  spec: {nodeName: n1, containers: [{name: c}]}
";

const SERVER: &str = "
- apiVersion: v1
  kind: Pod
  metadata: {name: server, namespace: blue, labels: {app: server}}
  spec: {nodeName: n1, containers: [{name: c}]}
";

/// Drops packets to the server.
const POLICY: &str = "
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata: {name: closed, namespace: blue}
  spec: {podSelector: {matchLabels: {app: server}}, policyTypes: [Ingress]}
";

/// Has no rules, and no ACLs.
const FIREWALL: &str = "
- apiVersion: k8s.ovn.org/v1
  kind: EgressFirewall
  metadata: {name: default, namespace: blue}
  spec: {egress: []}
";

fn cluster(objects: &[&str]) -> Cluster {
    let manifests = [&[CLUSTER], objects].concat().concat();
    let settings = ClusterSettings {
        families: vec![IpFamily::V4],
        features: [Feature::EgressFirewall].into(),
        ..ClusterSettings::default()
    };
    cluster_of(&manifests, settings)
}

/// A database that asks after each transaction whether the client reaches the server.
struct Watched {
    database: Embedded,
    verdicts: Vec<Verdict>,
}

impl Watched {
    fn ask(&self) -> Option<Verdict> {
        let snapshot = self.database.snapshot();
        let ports = snapshot.typed::<LogicalSwitchPort>();
        let mut ports = ports.iter().map(|row| row.unwrap().1);
        let server = ports.find(|port| port.name.ends_with("_blue_server"))?;
        let address = server.addresses.first().unwrap().split(' ').nth(1).unwrap();
        let question = Question {
            sender: Sender::pod("blue/client"),
            destination: Destination::Address(address.parse().unwrap()),
            protocol: "tcp 80".parse().unwrap(),
        };
        Some(Rows::new(&snapshot, None).answer(&question).unwrap().verdict)
    }
}

impl Northbound for Watched {
    fn snapshot(&self) -> Snapshot {
        self.database.snapshot()
    }

    async fn commit(&mut self, transaction: Transaction) -> Result<(), CommitError> {
        self.database.commit(transaction).await?;
        self.verdicts.extend(self.ask());
        Ok(())
    }

    async fn wait_for_outcome(&mut self) -> Result<(), ReconnectError> {
        self.database.wait_for_outcome().await
    }
}

/// Verdicts after each transaction that adds these objects to a network with a client.
async fn verdicts(objects: &[&str]) -> Vec<Verdict> {
    let watched = Watched { database: Embedded::new(0).unwrap(), verdicts: Vec::new() };
    let mut zone = ZoneReconciler::new("n1", watched, UuidSource::seeded(0));
    zone.reconcile(&cluster(&[])).await.unwrap();
    assert_eq!(zone.northbound().verdicts, []);
    let after = cluster(objects);
    zone.reconcile(&after).await.unwrap();
    assert!(zone.is_reconciled(&after));
    let snapshot = zone.northbound().snapshot();
    let ports = snapshot.typed::<LogicalSwitchPort>();
    let mut ports = ports.iter().map(|row| row.unwrap().1);
    let server = ports.find(|port| port.name.ends_with("_blue_server"));
    assert_eq!(server.unwrap().enabled, None);
    zone.northbound().verdicts.clone()
}

#[tokio::test]
async fn a_new_pod_is_not_reached_before_its_policy_is_there() {
    for objects in [&[SERVER][..], &[SERVER, FIREWALL]] {
        let open = verdicts(objects).await;
        assert!(open.iter().all(|one| *one == Verdict::Reaches), "{open:?}");
    }
    let closed = verdicts(&[SERVER, POLICY]).await;
    assert!(closed.len() > 1, "{closed:?}");
    assert!(closed.iter().all(|one| *one == Verdict::Dropped), "{closed:?}");
}
