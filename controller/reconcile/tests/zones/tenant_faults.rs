//! Tenants with VPCs whose writer dies at each transaction: what the next one makes of the rows, and
//! which packets pass meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::Transaction;
use patchbay_model::{ClusterSettings, Databases};
use patchbay_nbctl_text::northbound;
use patchbay_reach::{Destination, Northbound as Rows, Question, Sender, Verdict};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{CommitError, Embedded, Northbound, ReconnectError};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_resources::object::Time;
use patchbay_resources::state::StateFolder;
use patchbay_schemas::nb::{GatewayChassis, LogicalRouterPort, LogicalSwitch, LogicalSwitchPort};
use patchbay_schemas::typed::TableRow as _;
use patchbay_schemas::uuids::UuidSource;

use crate::cluster_of;

/// Nodes, the external subnet, and the tenant that stays: its VPC has a connected subnet and a
/// machine with a floating address.
const PLATFORM: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: w1, labels: {ovn.kubernetes.io/external-gw: 'true'}, annotations: {ovn.kubernetes.io/chassis: c1}}}
- {apiVersion: v1, kind: Node, metadata: {name: w2, labels: {ovn.kubernetes.io/external-gw: 'true'}, annotations: {ovn.kubernetes.io/chassis: c2}}}
- {apiVersion: v1, kind: Node, metadata: {name: w3, annotations: {ovn.kubernetes.io/chassis: c3}}}
- {apiVersion: kubeovn.io/v1, kind: ProviderNetwork, metadata: {name: provider}, spec: {defaultInterface: eth1}}
- {apiVersion: kubeovn.io/v1, kind: Vlan, metadata: {name: vlan222}, spec: {id: 222, provider: provider}}
- {apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: external}, spec: {vpc: ovn-cluster, vlan: vlan222, cidrBlock: 172.16.0.0/16, gateway: 172.16.0.1}}
- {apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {name: ovn-cluster}, spec: {extraExternalSubnets: [external]}}
- {apiVersion: v1, kind: Namespace, metadata: {name: beta}}
- {apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {name: beta}, spec: {namespaces: [beta], enableExternal: true, staticRoutes: [{policy: policyDst, cidr: 0.0.0.0/0, nextHopIP: 172.16.0.1}]}}
- {apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: net, namespace: beta}, spec: {config: '{\"type\": \"kube-ovn\", \"server_socket\": \"/run/s\", \"provider\": \"net.beta.ovn\"}'}}
- {apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: beta-subnet}, spec: {vpc: beta, cidrBlock: 10.0.0.0/24, gateway: 10.0.0.1, provider: net.beta.ovn, namespaces: [beta]}}
- {apiVersion: v1, kind: Pod, metadata: {name: vm, namespace: beta, annotations: {k8s.v1.cni.cncf.io/networks: net}}, spec: {nodeName: w1, containers: [{name: vm}]}}
- {apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: beta-eip}, spec: {externalSubnet: external, v4Ip: 172.16.1.1, type: nat}}
- {apiVersion: kubeovn.io/v1, kind: OvnFip, metadata: {name: beta-fip}, spec: {ovnEip: beta-eip, ipName: vm.beta.net.beta.ovn, type: distributed}}
";

/// The tenant that comes and goes: two VPCs with a peering, the addresses of the other tenant, a wall
/// towards the external subnet, a private subnet, a subnet with ACLs, and rules of all kinds.
const TENANT: &str = "
- {apiVersion: v1, kind: Namespace, metadata: {name: alpha}}
- apiVersion: kubeovn.io/v1
  kind: Vpc
  metadata: {name: alpha}
  spec:
    namespaces: [alpha]
    enableExternal: true
    staticRoutes:
    - {policy: policyDst, cidr: 0.0.0.0/0, nextHopIP: 172.16.0.1}
    - {policy: policyDst, cidr: 10.1.0.0/24, nextHopIP: 169.254.0.2}
    policyRoutes:
    - {priority: 1500, match: ip4.dst == 172.16.0.0/16, action: drop}
    - {priority: 31500, match: ip4.dst == 10.0.2.0/24 && tcp.dst == 22, action: drop}
    vpcPeerings: [{remoteVpc: alpha-db, localConnectIP: 169.254.0.1/30}]
- apiVersion: kubeovn.io/v1
  kind: Vpc
  metadata: {name: alpha-db}
  spec:
    namespaces: [alpha]
    staticRoutes: [{policy: policyDst, cidr: 10.0.0.0/16, nextHopIP: 169.254.0.1}]
    policyRoutes: [{priority: 31500, match: ip4.src == 10.0.2.0/24, action: drop}]
    vpcPeerings: [{remoteVpc: alpha, localConnectIP: 169.254.0.2/30}]
- {apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: web, namespace: alpha}, spec: {config: '{\"type\": \"kube-ovn\", \"server_socket\": \"/run/s\", \"provider\": \"web.alpha.ovn\"}'}}
- {apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: private, namespace: alpha}, spec: {config: '{\"type\": \"kube-ovn\", \"server_socket\": \"/run/s\", \"provider\": \"private.alpha.ovn\"}'}}
- {apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: walled, namespace: alpha}, spec: {config: '{\"type\": \"kube-ovn\", \"server_socket\": \"/run/s\", \"provider\": \"walled.alpha.ovn\"}'}}
- {apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: db, namespace: alpha}, spec: {config: '{\"type\": \"kube-ovn\", \"server_socket\": \"/run/s\", \"provider\": \"db.alpha.ovn\"}'}}
- {apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: alpha-web}, spec: {vpc: alpha, cidrBlock: 10.0.0.0/24, gateway: 10.0.0.1, provider: web.alpha.ovn, namespaces: [alpha]}}
- {apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: alpha-private}, spec: {vpc: alpha, cidrBlock: 10.0.1.0/24, gateway: 10.0.1.1, provider: private.alpha.ovn, namespaces: [alpha], private: true, allowSubnets: [10.0.2.0/24]}}
- {apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: alpha-walled}, spec: {vpc: alpha, cidrBlock: 10.0.2.0/24, gateway: 10.0.2.1, provider: walled.alpha.ovn, namespaces: [alpha], acls: [{direction: to-lport, priority: 1010, match: tcp.dst == 80, action: drop}]}}
- {apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: alpha-db}, spec: {vpc: alpha-db, cidrBlock: 10.1.0.0/24, gateway: 10.1.0.1, provider: db.alpha.ovn, namespaces: [alpha]}}
- {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: alpha, annotations: {k8s.v1.cni.cncf.io/networks: web}}, spec: {nodeName: w1, containers: [{name: vm}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: web2, namespace: alpha, annotations: {k8s.v1.cni.cncf.io/networks: web}}, spec: {nodeName: w2, containers: [{name: vm}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: private, namespace: alpha, annotations: {k8s.v1.cni.cncf.io/networks: private}}, spec: {nodeName: w2, containers: [{name: vm}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: walled, namespace: alpha, annotations: {k8s.v1.cni.cncf.io/networks: walled}}, spec: {nodeName: w2, containers: [{name: vm}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: db, namespace: alpha, annotations: {k8s.v1.cni.cncf.io/networks: db}}, spec: {nodeName: w3, containers: [{name: vm}]}}
- {apiVersion: kubeovn.io/v1, kind: OvnSnatRule, metadata: {name: alpha-snat}, spec: {ovnEip: alpha-external, vpcSubnet: alpha-web}}
- {apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: alpha-eip1}, spec: {externalSubnet: external, v4Ip: 172.16.1.2, type: nat}}
- {apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: alpha-eip2}, spec: {externalSubnet: external, v4Ip: 172.16.1.3, type: nat}}
- {apiVersion: kubeovn.io/v1, kind: OvnFip, metadata: {name: alpha-fip}, spec: {ovnEip: alpha-eip1, ipName: private.alpha.private.alpha.ovn, type: distributed}}
- {apiVersion: kubeovn.io/v1, kind: OvnDnatRule, metadata: {name: alpha-dnat}, spec: {ovnEip: alpha-eip2, ipName: web.alpha.web.alpha.ovn, protocol: tcp, externalPort: '80', internalPort: '8080'}}
";

/// Machines, with their addresses.
const MACHINES: [(&str, &str); 6] = [
    ("vm.beta.net.beta.ovn", "10.0.0.2"),
    ("web.alpha.web.alpha.ovn", "10.0.0.2"),
    ("web2.alpha.web.alpha.ovn", "10.0.0.3"),
    ("private.alpha.private.alpha.ovn", "10.0.1.2"),
    ("walled.alpha.walled.alpha.ovn", "10.0.2.2"),
    ("db.alpha.db.alpha.ovn", "10.1.0.2"),
];
/// Addresses on the external subnet, and beyond.
const OUTSIDE: [&str; 6] =
    ["172.16.1.1", "172.16.1.2", "172.16.1.3", "172.16.0.1", "172.16.9.9", "203.0.113.7"];
const PROTOCOLS: [&str; 3] = ["icmp", "tcp 80", "tcp 22"];

/// Sender, destination, protocol, and the port by which the packet goes out.
type Opening = (String, String, &'static str, String);

/// A database whose writer dies, with the rows after each transaction.
struct Watched {
    database: Embedded,
    /// Transactions until the writer dies.
    left: usize,
    seen: Vec<Snapshot>,
}

impl Northbound for Watched {
    fn snapshot(&self) -> Snapshot {
        self.database.snapshot()
    }

    async fn commit(&mut self, transaction: Transaction) -> Result<(), CommitError> {
        let left = self.left.checked_sub(1);
        self.left = left.ok_or(CommitError::NoReply(Duration::from_secs(1)))?;
        self.database.commit(transaction).await?;
        self.seen.push(self.snapshot());
        Ok(())
    }

    async fn wait_for_outcome(&mut self) -> Result<(), ReconnectError> {
        self.database.wait_for_outcome().await
    }
}

fn cluster(manifests: &[&str]) -> Cluster {
    let settings = ClusterSettings { databases: Databases::Central, ..ClusterSettings::default() };
    let cluster = cluster_of(&manifests.concat(), settings);
    assert_eq!((&cluster.errors[..], &cluster.warnings[..]), (&[][..], &[][..]));
    cluster
}

/// A new writer, which dies after `left` transactions.
fn writer(database: &Embedded, left: usize) -> ZoneReconciler<Watched> {
    let watched = Watched { database: database.clone(), left, seen: Vec::new() };
    ZoneReconciler::new(Databases::CENTRAL, watched, UuidSource::random())
}

/// Pairs whose packets arrive.
fn open(snapshot: &Snapshot) -> BTreeSet<Opening> {
    let rows = Rows::new(snapshot, None);
    let external = snapshot.typed::<LogicalRouterPort>();
    let external = external.iter().map(|row| row.unwrap().1);
    let external = external.filter(|port| !port.gateway_chassis.is_empty());
    let outside = external.map(|port| Sender {
        ip: Some("172.16.9.9".parse().unwrap()),
        mac: Some("0a:ff:00:00:00:77".to_owned()),
        mac_of: Some(port.name.clone()),
        ..Sender::port("localnet.external")
    });
    let machines = MACHINES.iter().map(|(port, _)| Sender::port(*port));
    let senders: Vec<_> = machines.chain(outside).collect();
    let addresses: BTreeSet<_> =
        MACHINES.iter().map(|(_, address)| *address).chain(OUTSIDE).collect();
    let mut found = BTreeSet::new();
    for sender in senders {
        for address in &addresses {
            for protocol in PROTOCOLS {
                let question = Question {
                    sender: sender.clone(),
                    destination: Destination::Address(address.parse().unwrap()),
                    protocol: protocol.parse().unwrap(),
                };
                let Ok(answer) = rows.answer(&question) else { continue };
                let is_back = answer.out == sender.port;
                if matches!(answer.verdict, Verdict::Reaches | Verdict::Leaves) && !is_back {
                    let sender = format!("{:?} {:?}", sender.port, sender.mac_of);
                    found.insert((sender, (*address).to_owned(), protocol, answer.out.unwrap()));
                }
            }
        }
    }
    found
}

/// Asserts that no port lacks its other side, and that no two machines of a switch have one address.
fn assert_whole(snapshot: &Snapshot) {
    let router_ports = snapshot.typed::<LogicalRouterPort>();
    let router_ports: BTreeMap<_, _> = router_ports
        .iter()
        .map(|row| row.unwrap().1)
        .map(|port| (port.name.clone(), port))
        .collect();
    let mut joined = BTreeSet::new();
    for row in snapshot.typed::<LogicalSwitch>().iter() {
        let mut addresses = BTreeSet::new();
        for port in row.unwrap().1.ports {
            let port: LogicalSwitchPort = snapshot.get(port).unwrap().unwrap();
            if let Some(router_port) = port.options.get("router-port") {
                assert!(router_ports.contains_key(router_port), "{port:?}");
                joined.insert(router_port.clone());
            }
            let own = port.addresses.iter().filter(|text| text.contains(' '));
            assert!(own.cloned().all(|own| addresses.insert(own)), "{port:?}");
        }
    }
    let external = router_ports.values().filter(|port| port.name.ends_with("-external"));
    assert!(external.clone().all(|port| !port.gateway_chassis.is_empty()));
    let lone = router_ports.values().filter(|port| port.peer.is_none());
    let lone: Vec<_> = lone.filter(|port| !joined.contains(&*port.name)).collect();
    assert!(lone.is_empty(), "{lone:?}");
}

/// The rows, in an order that does not depend on their UUIDs.
fn rows(snapshot: &Snapshot) -> Vec<String> {
    let text = northbound(snapshot).replace("\n    ", "|");
    let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
    rows.sort_unstable();
    rows
}

/// A change from some objects to others, by a writer that may die.
struct Change<'a> {
    before: &'a Cluster,
    after: &'a Cluster,
}

impl Change<'_> {
    /// The database before the change.
    async fn start(&self) -> Embedded {
        let database = Embedded::new(0).unwrap();
        writer(&database, usize::MAX).reconcile(self.before).await.unwrap();
        database
    }

    /// Follows the change with writers that die after the given numbers of transactions, and then a
    /// last one. Returns the rows before, and after each transaction.
    async fn follow(&self, lives: impl IntoIterator<Item = usize>) -> Vec<Snapshot> {
        let database = self.start().await;
        let mut seen = vec![database.snapshot()];
        for left in lives.into_iter().chain([usize::MAX]) {
            let mut life = writer(&database, left);
            let is_done = life.reconcile(self.after).await.is_ok();
            seen.extend(life.northbound().seen.iter().cloned());
            if is_done {
                break;
            }
        }
        assert!(writer(&database, 0).is_reconciled(self.after));
        seen
    }
}

/// What is open before and after a change.
struct Ends {
    before: BTreeSet<Opening>,
    after: BTreeSet<Opening>,
}

impl Ends {
    /// Asserts that nothing is open meanwhile that is open neither before nor after.
    fn assert_closed(&self, seen: &[Snapshot], about: &str) {
        for (number, snapshot) in seen.iter().enumerate() {
            let open = open(snapshot);
            let is_new = |one: &&Opening| !self.before.contains(*one) && !self.after.contains(*one);
            let wrong: Vec<_> = open.iter().filter(is_new).collect();
            assert!(wrong.is_empty(), "{about}, rows {number}: {wrong:#?}");
        }
    }
}

/// Kills writers at every transaction of a change. Returns the rows of all databases at all times.
async fn kill(change: Change<'_>) -> Vec<Snapshot> {
    let mut all = change.follow([]).await;
    let (count, last) = (all.len() - 1, &all[all.len() - 1]);
    assert!(count > 5, "{count} transactions");
    let (expected, ends) = (rows(last), Ends { before: open(&all[0]), after: open(last) });
    assert_ne!(ends.before, ends.after);
    ends.assert_closed(&all, "without a fault");
    for left in 0..count {
        let about = format!("killed after {left} transactions");
        let seen = change.follow([left]).await;
        assert_eq!(rows(&seen[seen.len() - 1]), expected, "{about}");
        ends.assert_closed(&seen[left..], &about);
        all.extend(seen);
    }
    let seen = change.follow(std::iter::repeat_n(1, 2 * count)).await;
    assert_eq!(rows(&seen[seen.len() - 1]), expected, "killed after each transaction");
    ends.assert_closed(&seen, "killed after each transaction");
    all.extend(seen);
    all
}

#[tokio::test]
async fn a_writer_that_dies_while_a_tenant_comes_leaves_nothing_open_or_half() {
    let (without, with) = (cluster(&[PLATFORM]), cluster(&[PLATFORM, TENANT]));
    let all = kill(Change { before: &without, after: &with }).await;
    all.iter().for_each(assert_whole);
}

#[tokio::test]
async fn a_writer_that_dies_while_a_tenant_goes_leaves_nothing_open() {
    let (without, with) = (cluster(&[PLATFORM]), cluster(&[PLATFORM, TENANT]));
    kill(Change { before: &with, after: &without }).await;
}

/// A port refers to its rows of `Gateway_Chassis`, so its column changes with them.
#[tokio::test]
async fn a_gateway_node_that_loses_label_or_chassis_changes_gateway_chassis_only() {
    let gateway = "{name: w1, labels: {ovn.kubernetes.io/external-gw: 'true'}, annotations: {ovn.kubernetes.io/chassis: c1}}";
    let without_label = "{name: w1, annotations: {ovn.kubernetes.io/chassis: c1}}";
    let without_chassis = "{name: w1, labels: {ovn.kubernetes.io/external-gw: 'true'}}";
    let before = cluster(&[PLATFORM, TENANT]);
    for node in [without_label, without_chassis] {
        let platform = PLATFORM.replace(gateway, node);
        let after = cluster(&[&platform, TENANT]);
        let seen = Change { before: &before, after: &after }.follow([]).await;
        let (first, last) = (&seen[0], &seen[seen.len() - 1]);
        let [earlier, later] = [first, last].map(other_rows);
        assert_eq!(earlier, later);
        let chassis = last.typed::<GatewayChassis>();
        let names = chassis.iter().map(|row| row.unwrap().1.chassis_name);
        let names: BTreeSet<_> = names.collect();
        assert!(names.contains("c2") && !names.contains("c1"), "{names:?}");
    }
}

/// Rows of other tables than `Gateway_Chassis` with their UUIDs, without the references to its rows.
fn other_rows(snapshot: &Snapshot) -> Vec<String> {
    let schema = snapshot.schema();
    let mut found = Vec::new();
    for id in schema.table_ids() {
        let table = schema.table(id);
        if &*table.name == GatewayChassis::TABLE {
            continue;
        }
        for row in snapshot.table(id).iter() {
            let columns = table.column_ids().filter(|column| {
                let name = table.column_name(*column);
                name != LogicalRouterPort::GATEWAY_CHASSIS.name()
            });
            let values: Vec<_> = columns.map(|column| row.get(column)).collect();
            found.push(format!("{} {} {values:?}", table.name, row.uuid));
        }
    }
    found.sort_unstable();
    found
}

/// Files of a state folder, by name.
fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found = BTreeMap::new();
    for path in entries {
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read_to_string(&path).unwrap());
        }
    }
    found
}

#[tokio::test]
async fn the_state_is_the_same_however_often_its_writer_dies() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateFolder::new(folder.path());
    let text = [PLATFORM, TENANT].concat();
    let settings = ClusterSettings { databases: Databases::Central, ..ClusterSettings::default() };
    let database = Embedded::new(0).unwrap();
    let mut expected = None;
    for run in 0.. {
        let now = Time(Timestamp::from_second(run).unwrap());
        let stdin = ["-".into()];
        let mut input = text.as_bytes();
        let cluster =
            Cluster::from_manifests(&stdin, &mut input, Some(&state), settings.clone(), now)
                .unwrap();
        state.save(&cluster.inventory).unwrap();
        let found = files(folder.path());
        assert_eq!(&found, expected.get_or_insert_with(|| found.clone()), "run {run}");
        // Each run commits three transactions before it dies.
        if writer(&database, 3).reconcile(&cluster).await.is_ok() {
            assert!(run > 5, "{run} runs");
            break;
        }
    }
    let whole = cluster(&[PLATFORM, TENANT]);
    let other = Embedded::new(0).unwrap();
    writer(&other, usize::MAX).reconcile(&whole).await.unwrap();
    assert_eq!(rows(&database.snapshot()), rows(&other.snapshot()));
}
