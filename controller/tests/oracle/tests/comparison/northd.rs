//! ovn-northd reads the rows that Patchbay writes for manifests, on ovsdb-server and on ovsdb-sim,
//! and has nothing to complain about.

use std::fs;
use std::path::{Path, PathBuf};

use ovsdb_sim::Sim;
use patchbay_model::{ClusterSettings, Feature, GatewayMode};
use patchbay_oracle::{
    ClusterText, Northd, Random, add_chassis, read_cluster, start_server, write_zone,
};
use patchbay_ovn_programs::testing::{Release, ScratchDir};
use patchbay_reconcile::Cluster;
use patchbay_schemas::schema::DatabaseSchema;
use tokio::runtime::Runtime;

/// Warnings about rows that are as OVN-Kubernetes writes them, so that ovn-northd has them about
/// its rows, too: external ports of gateway routers have the node's address and the masquerade
/// address, IPAM keeps the first address of a subnet for a router that layer2 networks without a
/// role as primary do not have, and router and switch ports of a transit router request the same
/// key.
const WARNINGS_OF_23_03: [&str; 3] = [
    "is configured with multiple IPv",
    "Duplicate IP set: ",
    "northd|WARN|Logical router port trtos-",
];
/// Warning about the ports of a virtual machine that migrates, whose address and key are the same
/// on both nodes, as in OVN-Kubernetes.
const WARNINGS: [&str; 1] = ["_virt-launcher-"];
/// Random clusters whose rows each release reads.
const CLUSTERS: usize = 12;
/// Seed of these clusters.
const SEED: u64 = 3;

/// Networks on an EVPN fabric with pods, as another controller defines them.
const FABRIC: &str = r#"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}}
- {apiVersion: v1, kind: Node, metadata: {name: n2}}
- {apiVersion: v1, kind: Namespace, metadata: {name: blue, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: green, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- apiVersion: k8s.cni.cncf.io/v1
  kind: NetworkAttachmentDefinition
  metadata: {name: flat, namespace: green}
  spec:
    config: '{"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","name":"flat","netAttachDefName":"green/flat","role":"primary","subnets":"10.20.0.0/16,fd20::/64","topology":"layer2","transitSubnet":"100.88.0.0/16,fd97::/64","transport":"evpn","type":"ovn-k8s-cni-overlay"}'
- apiVersion: k8s.cni.cncf.io/v1
  kind: NetworkAttachmentDefinition
  metadata: {name: routed, namespace: blue}
  spec:
    config: '{"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","name":"routed","netAttachDefName":"blue/routed","role":"primary","subnets":"10.30.0.0/16/24","topology":"layer3","transport":"evpn","type":"ovn-k8s-cni-overlay"}'
- {apiVersion: v1, kind: Pod, metadata: {name: one, namespace: green}, spec: {nodeName: n1, containers: [{name: c}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: far, namespace: green}, spec: {nodeName: n2, containers: [{name: c}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: one, namespace: blue}, spec: {nodeName: n1, containers: [{name: c}]}}
"#;

/// Pods of two nodes in a primary and a secondary network, chosen by an EgressFirewall, an EgressIP
/// and a policy of an administrator. One has a selection of networks that cannot be read.
const CHOSEN: &str = r#"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}}
- {apiVersion: v1, kind: Node, metadata: {name: n2}}
- {apiVersion: v1, kind: Node, metadata: {name: n3, annotations: {k8s.ovn.org/node-subnets: '{}'}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: blue, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- apiVersion: k8s.cni.cncf.io/v1
  kind: NetworkAttachmentDefinition
  metadata: {name: routed, namespace: blue}
  spec:
    config: '{"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","name":"routed","netAttachDefName":"blue/routed","role":"primary","subnets":"10.30.0.0/16/24","topology":"layer3","type":"ovn-k8s-cni-overlay"}'
- apiVersion: k8s.cni.cncf.io/v1
  kind: NetworkAttachmentDefinition
  metadata: {name: more, namespace: blue}
  spec:
    config: '{"cniVersion":"1.1.0","name":"more","netAttachDefName":"blue/more","role":"secondary","subnets":"10.40.0.0/16","topology":"layer2","type":"ovn-k8s-cni-overlay"}'
- {apiVersion: v1, kind: Pod, metadata: {name: one, namespace: blue, annotations: {k8s.v1.cni.cncf.io/networks: more}}, spec: {nodeName: n1, containers: [{name: c, ports: [{name: http, containerPort: 80}]}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: far, namespace: blue, annotations: {k8s.v1.cni.cncf.io/networks: more}}, spec: {nodeName: n2, containers: [{name: c}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: unread, namespace: blue, annotations: {k8s.v1.cni.cncf.io/networks: 'More!'}}, spec: {nodeName: n1, containers: [{name: c}]}}
- {apiVersion: k8s.ovn.org/v1, kind: EgressFirewall, metadata: {name: default, namespace: blue}, spec: {egress: [{type: Deny, to: {cidrSelector: 1.2.3.0/24}}]}}
- {apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: out, annotations: {k8s.ovn.org/egressip-mark: '50001'}}, spec: {egressIPs: [172.18.0.100], namespaceSelector: {}}, status: {items: [{node: n1, egressIP: 172.18.0.100}]}}
- apiVersion: policy.networking.k8s.io/v1alpha1
  kind: AdminNetworkPolicy
  metadata: {name: all}
  spec: {priority: 5, subject: {namespaces: {}}, ingress: [{action: Allow, from: [{namespaces: {}}], ports: [{namedPort: http}]}]}
"#;

/// Writes a zone into both kinds of servers. Returns what ovn-northd warns of.
fn warnings(release: &Release, runtime: &Runtime, cluster: &Cluster, zone: &str) -> Vec<String> {
    let real = start_server(release);
    let mut warnings = translate(release, runtime, cluster, zone, &real.remote());
    let folder = ScratchDir::new();
    let schemas = ["ovn-nb", "ovn-sb"].map(|name| fs::read(release.schema(name)).unwrap());
    let [northbound, southbound] = schemas.map(|text| DatabaseSchema::parse(&text).unwrap());
    let builder = Sim::builder().schema(northbound.into()).schema(southbound.into());
    let sim = builder.build().unwrap();
    let socket = folder.path().join("db.sock").display().to_string();
    let listener = runtime.block_on(sim.listen(&format!("punix:{socket}")));
    let _listener = listener.unwrap();
    warnings.extend(translate(release, runtime, cluster, zone, &format!("unix:{socket}")));
    let known = |text: &&str| release.folder().is_none() || WARNINGS.contains(text);
    let known: Vec<_> = WARNINGS_OF_23_03.into_iter().chain(WARNINGS).filter(known).collect();
    warnings.retain(|warning| !known.iter().any(|known| warning.contains(known)));
    warnings
}

fn translate(
    release: &Release,
    runtime: &Runtime,
    cluster: &Cluster,
    zone: &str,
    remote: &str,
) -> Vec<String> {
    let snapshot = runtime.block_on(write_zone(cluster, zone, remote));
    add_chassis(remote, &snapshot);
    Northd::start(release, remote).warnings()
}

/// The installed release and the newest one.
fn releases() -> Vec<Release> {
    let newest = Release::newest();
    [Some(Release::installed()), newest].into_iter().flatten().collect()
}

/// Folders of the examples that have manifests.
fn examples() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
    let folders = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let has_manifests = |folder: &PathBuf| folder.join("1-cluster.yaml").is_file();
    let mut folders: Vec<_> = folders.filter(has_manifests).collect();
    folders.sort();
    folders
}

#[test]
fn northd_has_no_warning_about_the_examples() {
    let runtime = Runtime::new().unwrap();
    let settings = ClusterSettings { features: Feature::ALL.into(), ..ClusterSettings::default() };
    let examples = examples();
    assert!(examples.len() >= 5, "{examples:?}");
    for folder in examples {
        let cluster = read_cluster(std::slice::from_ref(&folder), "", settings.clone());
        let zone = cluster.zones().remove(0);
        for release in releases() {
            let warnings = warnings(&release, &runtime, &cluster, &zone);
            let version = release.version();
            assert_eq!(warnings, [""; 0], "{}, {version}", folder.display());
        }
    }
}

#[test]
fn northd_has_no_warning_about_networks_on_a_fabric() {
    let runtime = Runtime::new().unwrap();
    let settings = ClusterSettings {
        features: Feature::ALL.into(),
        gateway_mode: GatewayMode::Local,
        ..ClusterSettings::default()
    };
    let cluster = read_cluster(&[], FABRIC, settings);
    for release in releases() {
        let warnings = warnings(&release, &runtime, &cluster, "n1");
        assert_eq!(warnings, [""; 0], "{}", release.version());
    }
}

#[test]
fn northd_has_no_warning_about_chosen_pods() {
    let runtime = Runtime::new().unwrap();
    let settings = ClusterSettings { features: Feature::ALL.into(), ..ClusterSettings::default() };
    let cluster = read_cluster(&[], CHOSEN, settings);
    for release in releases() {
        let warnings = warnings(&release, &runtime, &cluster, "n1");
        assert_eq!(warnings, [""; 0], "{}", release.version());
    }
}

#[test]
fn northd_has_no_warning_about_random_clusters() {
    let runtime = Runtime::new().unwrap();
    let mut random = Random::new(SEED);
    for _ in 0..CLUSTERS {
        let text = ClusterText::new(&mut random);
        let cluster = read_cluster(&[], &text.manifests, text.settings.clone());
        let zone = random.pick(&text.nodes).clone();
        for release in releases() {
            let warnings = warnings(&release, &runtime, &cluster, &zone);
            let version = release.version();
            assert_eq!(
                warnings, [""; 0],
                "zone {zone}, {version}, {:?}\n{}",
                text.settings, text.manifests
            );
        }
    }
}
