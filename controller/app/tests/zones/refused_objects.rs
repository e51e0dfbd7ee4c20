//! Objects of manifests that cannot be read: each is named, rows that may follow from it stay, and
//! the others go on.

use std::collections::BTreeMap;

use patchbay_app::Cluster;
use patchbay_app::northbound::{Embedded, Northbound as _};
use patchbay_app::zone::ZoneReconciler;
use patchbay_engine::db::Snapshot;
use patchbay_model::{ClusterSettings, Feature, IpFamily};
use patchbay_schemas::nb::{
    Acl, AddressSet, LoadBalancer, LogicalRouter, LogicalRouterPolicy, LogicalRouterPort,
    LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort, Nat, PortGroup,
};
use patchbay_schemas::uuids::UuidSource;

use crate::cluster_of;

/// Objects of each kind, one a line, in two networks that a connect joins.
const OBJECTS: &str = r#"
{apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {k8s.ovn.org/node-chassis-id: c1}}}
{apiVersion: v1, kind: Node, metadata: {name: n2, annotations: {k8s.ovn.org/node-chassis-id: c2}}}
{apiVersion: v1, kind: Namespace, metadata: {name: blue, labels: {k8s.ovn.org/primary-user-defined-network: '', team: blue}}}
{apiVersion: v1, kind: Namespace, metadata: {name: green, labels: {k8s.ovn.org/primary-user-defined-network: '', team: green}}}
{apiVersion: k8s.ovn.org/v1, kind: UserDefinedNetwork, metadata: {name: net, namespace: blue}, spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.10.0.0/16]}}}
{apiVersion: k8s.ovn.org/v1, kind: ClusterUserDefinedNetwork, metadata: {name: green, labels: {team: green}}, spec: {namespaceSelector: {matchLabels: {team: green}}, network: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.20.0.0/16}]}}}}
{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: lan, namespace: green}, spec: {config: '{"cniVersion": "1.0.0", "name": "green-lan", "type": "ovn-k8s-cni-overlay", "topology": "layer2", "subnets": "10.30.0.0/24", "netAttachDefName": "green/lan"}'}}
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: blue, labels: {app: web}}, spec: {nodeName: n1, containers: [{name: c}]}}
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: green, labels: {app: web}, annotations: {k8s.v1.cni.cncf.io/networks: lan}}, spec: {nodeName: n1, containers: [{name: c}]}}
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: green}, spec: {clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10], selector: {app: web}, ports: [{port: 80}]}}
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: np, namespace: green}, spec: {podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}}
{apiVersion: k8s.cni.cncf.io/v1beta1, kind: MultiNetworkPolicy, metadata: {name: mp, namespace: green, annotations: {k8s.v1.cni.cncf.io/policy-for: lan}}, spec: {podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}}
{apiVersion: k8s.ovn.org/v1, kind: EgressFirewall, metadata: {name: default, namespace: green}, spec: {egress: [{type: Deny, to: {cidrSelector: 0.0.0.0/0}}]}}
{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: eip}, spec: {egressIPs: [172.18.0.100], namespaceSelector: {matchLabels: {team: green}}}, status: {items: [{node: n1, egressIP: 172.18.0.100}]}}
{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {name: anp}, spec: {priority: 1, subject: {namespaces: {}}, ingress: [{name: all, action: Deny, from: [{namespaces: {}}]}]}}
{apiVersion: policy.networking.k8s.io/v1alpha1, kind: BaselineAdminNetworkPolicy, metadata: {name: default}, spec: {subject: {namespaces: {}}, ingress: [{name: all, action: Deny, from: [{namespaces: {}}]}]}}
{apiVersion: k8s.ovn.org/v1, kind: ClusterNetworkConnect, metadata: {name: c}, spec: {networkSelectors: [{networkSelectionType: PrimaryUserDefinedNetworks, primaryUserDefinedNetworkSelector: {namespaceSelector: {matchLabels: {team: blue}}}}, {networkSelectionType: ClusterUserDefinedNetworks, clusterUserDefinedNetworkSelector: {networkSelector: {matchLabels: {team: green}}}}], connectSubnets: [{cidr: 192.168.0.0/16, networkPrefix: 24}], connectivity: [PodNetwork]}}
"#;

/// The objects. Those of the given numbers have a label that no API server accepts.
fn cluster(refused: &[usize]) -> Cluster {
    let objects = OBJECTS.trim().lines().enumerate().map(|(index, line)| {
        if refused.contains(&index) {
            return line.replace("metadata: {", "metadata: {generateName: [], ");
        }
        line.to_owned()
    });
    let settings = ClusterSettings {
        families: vec![IpFamily::V4],
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        features: Feature::ALL
            .into_iter()
            .filter(|feature| *feature != Feature::DynamicUdnAllocation)
            .collect(),
        ..ClusterSettings::default()
    };
    cluster_of(&objects.collect::<Vec<_>>().join("\n---\n"), settings)
}

/// Rows of the tables that policies, pods, services and connects use, by UUID, as text.
fn rows(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    macro_rules! add {
        ($($table:ty),*) => {
            $(rows.extend(snapshot.typed::<$table>().iter().map(|row| {
                let (uuid, row) = row.unwrap();
                (format!("{} {uuid:?}", stringify!($table)), format!("{row:?}"))
            }));)*
        };
    }
    add!(
        Acl,
        AddressSet,
        LoadBalancer,
        LogicalRouter,
        LogicalRouterPolicy,
        LogicalRouterPort,
        LogicalRouterStaticRoute,
        LogicalSwitch,
        LogicalSwitchPort,
        Nat,
        PortGroup
    );
    rows
}

#[tokio::test]
async fn the_rows_of_each_object_stay_while_it_cannot_be_read() {
    let mut zone = ZoneReconciler::new("n1", Embedded::new(0).unwrap(), UuidSource::seeded(0));
    zone.reconcile(&cluster(&[])).await.unwrap();
    let before = rows(&zone.northbound().snapshot());
    assert!(before.len() > 100, "{}", before.len());
    for (index, line) in OBJECTS.trim().lines().enumerate() {
        let cluster = cluster(&[index]);
        let [error] = &cluster.errors[..] else {
            panic!("{line}\n{:?}", cluster.errors);
        };
        assert!(error.contains("metadata.generateName"), "{error}");
        zone.reconcile(&cluster).await.unwrap();
        let after = rows(&zone.northbound().snapshot());
        let changed: Vec<_> = before
            .iter()
            .filter(|(uuid, row)| after.get(*uuid) != Some(row))
            .collect();
        assert!(changed.is_empty(), "{line}\n{changed:#?}");
        // A new controller on the same database finds nothing to remove, either.
        assert_eq!(after, before, "{line}");
    }
    zone.reconcile(&self::cluster(&[])).await.unwrap();
    assert_eq!(rows(&zone.northbound().snapshot()), before);
}

/// Rows in an empty database: those of all that does not follow from the refused object.
#[tokio::test]
async fn the_other_networks_have_their_rows() {
    for (index, other) in [(4, "green.lan"), (5, "blue.net_blue_a"), (16, "green.lan")] {
        let mut zone = ZoneReconciler::new("n1", Embedded::new(0).unwrap(), UuidSource::seeded(0));
        zone.reconcile(&cluster(&[index])).await.unwrap();
        let snapshot = zone.northbound().snapshot();
        let ports = snapshot.typed::<LogicalSwitchPort>();
        let mut ports = ports.iter().map(|row| row.unwrap().1.name);
        assert!(ports.any(|name| name.starts_with(other)), "{other}");
    }
}
