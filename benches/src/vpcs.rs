//! Tenants with VPCs of Kube-OVN: their manifests, and a database that counts transactions.
//!
//! A tenant has a VPC with a route and two policies, a subnet with its definition, a rule that
//! translates sources, a port on the external subnet with the chassis of two nodes, and machines.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::{Transaction, TxnBuilder};
use patchbay_model::{ClusterSettings, Databases};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{CommitError, Northbound, ReconnectError};
use patchbay_resources::manifests::{Inventory, read_manifests_within};
use patchbay_resources::object::Time;

/// Machines of a tenant.
pub const MACHINES: usize = 10;
/// Maximum length of manifests in bytes.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// Nodes, the provider network, and the external subnet. `gateways`: numbers of the nodes that may
/// host external ports, of three.
pub fn render_platform(gateways: &[usize]) -> String {
    let mut yaml = String::new();
    for node in 0..3 {
        let label =
            if gateways.contains(&node) { "ovn.kubernetes.io/external-gw: 'true'" } else { "" };
        let _ = write!(
            yaml,
            "---\napiVersion: v1\nkind: Node\nmetadata: {{name: w{node}, labels: {{{label}}}, \
             annotations: {{ovn.kubernetes.io/chassis: chassis-{node}}}}}\n"
        );
    }
    yaml += "---\napiVersion: kubeovn.io/v1\nkind: ProviderNetwork\nmetadata: {name: provider}\n\
             spec: {defaultInterface: eth1}\n\
             ---\napiVersion: kubeovn.io/v1\nkind: Vlan\nmetadata: {name: vlan222}\n\
             spec: {id: 222, provider: provider}\n\
             ---\napiVersion: kubeovn.io/v1\nkind: Subnet\nmetadata: {name: external}\n\
             spec: {vpc: ovn-cluster, vlan: vlan222, cidrBlock: 172.16.0.0/12, gateway: 172.16.0.1}\n\
             ---\napiVersion: kubeovn.io/v1\nkind: Vpc\nmetadata: {name: ovn-cluster}\n\
             spec: {extraExternalSubnets: [external]}\n";
    yaml
}

/// The tenant with a number.
pub fn render_tenant(number: usize, machines: usize) -> String {
    let name = format!("t{number}");
    let mut yaml = format!(
        "---
apiVersion: v1
kind: Namespace
metadata: {{name: {name}}}
---
apiVersion: kubeovn.io/v1
kind: Vpc
metadata: {{name: {name}-vpc}}
spec:
  namespaces: [{name}]
  enableExternal: true
  staticRoutes:
  - {{cidr: 0.0.0.0/0, nextHopIP: 172.16.0.1, policy: policyDst}}
  policyRoutes:
  - {{priority: 1500, match: ip4.dst == 172.16.0.0/12, action: drop}}
  - {{priority: 1400, match: ip4.dst == 192.0.2.0/24, action: drop}}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {{name: net, namespace: {name}}}
spec:
  config: '{{\"cniVersion\": \"0.3.1\", \"name\": \"kube-ovn\", \"type\": \"kube-ovn\", \
         \"server_socket\": \"/run/openvswitch/kube-ovn-daemon.sock\", \
         \"provider\": \"net.{name}.ovn\"}}'
---
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {{name: {name}-dev-subnet}}
spec:
  vpc: {name}-vpc
  cidrBlock: 10.100.0.0/16
  gateway: 10.100.0.1
  provider: net.{name}.ovn
  namespaces: [{name}]
---
apiVersion: kubeovn.io/v1
kind: OvnSnatRule
metadata: {{name: {name}-snat}}
spec: {{ovnEip: {name}-vpc-external, vpcSubnet: {name}-dev-subnet}}
"
    );
    for machine in 0..machines {
        yaml += &render_machine(number, machine);
    }
    yaml
}

/// A machine of a tenant.
pub fn render_machine(tenant: usize, number: usize) -> String {
    let node = number % 3;
    format!(
        "---
apiVersion: v1
kind: Pod
metadata:
  name: vm{number}
  namespace: t{tenant}
  annotations: {{k8s.v1.cni.cncf.io/networks: t{tenant}/net}}
spec: {{nodeName: w{node}, containers: [{{name: vm, image: vm}}]}}
"
    )
}

/// A platform with tenants of [`MACHINES`] machines each.
pub fn render_tenants(count: usize) -> String {
    let mut yaml = render_platform(&[0, 1]);
    for number in 0..count {
        yaml += &render_tenant(number, MACHINES);
    }
    yaml
}

/// Reads manifests, as objects without allocated addresses.
///
/// # Errors
/// The manifests are refused.
pub fn read_objects(yaml: &str) -> Result<Inventory> {
    Ok(read_manifests_within(&["-".into()], &mut yaml.as_bytes(), MANIFEST_BYTES_MAX)?)
}

/// Allocates addresses.
///
/// # Errors
/// The objects contradict each other.
pub fn complete(inventory: Inventory) -> Result<Cluster> {
    let settings = ClusterSettings { databases: Databases::Central, ..ClusterSettings::default() };
    Ok(Cluster::from_inventory(inventory, settings, Time(Timestamp::UNIX_EPOCH))?)
}

/// All rows of a database in one transaction.
///
/// # Errors
/// The rows do not fit the schema of `target`.
pub fn one_transaction(rows: &Snapshot, target: &Snapshot) -> Result<Transaction> {
    let mut txn = TxnBuilder::new(target);
    let schema = rows.schema();
    for id in schema.table_ids() {
        let table = schema.table(id);
        for row in rows.table(id).iter() {
            let columns = table.column_ids();
            let values =
                columns.map(|column| (table.column_name(column), row.get(column).into_owned()));
            txn.insert_row_as(row.uuid, &table.name, values)?;
        }
    }
    Ok(txn.finish())
}

/// Transactions of a database.
#[derive(Clone, Copy, Debug, Default)]
pub struct Committed {
    /// Number.
    pub transactions: usize,
    /// Bytes of their requests.
    pub bytes: usize,
}

/// A database that counts the transactions that are committed through it.
#[derive(Debug)]
pub struct Counting<N> {
    /// The database.
    pub database: N,
    /// What was committed.
    pub committed: Committed,
}

impl<N> Counting<N> {
    /// A database without transactions so far.
    pub fn new(database: N) -> Self {
        Self { database, committed: Committed::default() }
    }
}

impl<N: Northbound> Northbound for Counting<N> {
    fn snapshot(&self) -> Snapshot {
        self.database.snapshot()
    }

    async fn commit(&mut self, transaction: Transaction) -> Result<(), CommitError> {
        let mut params = Vec::new();
        transaction.write_params(&mut params);
        self.committed.transactions += 1;
        self.committed.bytes += params.len();
        self.database.commit(transaction).await
    }

    async fn wait_for_outcome(&mut self) -> Result<(), ReconnectError> {
        self.database.wait_for_outcome().await
    }
}

/// Time limit of a server.
pub const SERVER_LIMIT: Duration = Duration::from_secs(600);
