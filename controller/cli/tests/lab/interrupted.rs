//! `patchbay apply` that is killed in the middle, while packets flow through real OVN.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use jiff::Timestamp;
use patchbay_engine::db::Snapshot;
use patchbay_lab::{Lab, ProbeStream, Protocol, Release, with_default_pods};
use patchbay_model::ClusterSettings;
use patchbay_reconcile::Cluster;
use patchbay_resources::object::Time;
use patchbay_schemas::nb::LogicalRouter;
use tokio::time::sleep;

use super::ovn;

/// Interval between two looks at the rows.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// Time for the answers of the last probes.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Networks, each with its namespace.
fn networks(names: &[&str]) -> String {
    let networks = names.iter().zip(1..).map(|(name, number)| {
        format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, labels: {{network: \
             {name}, k8s.ovn.org/primary-user-defined-network: ''}}}}}}
---
{{apiVersion: k8s.ovn.org/v1, kind: ClusterUserDefinedNetwork, metadata: {{name: {name}, labels: \
             {{tenant: {name}}}}}, spec: {{namespaceSelector: {{matchLabels: {{network: \
             {name}}}}}, network: {{topology: Layer3, layer3: {{role: Primary, subnets: [{{cidr: \
             10.{number}.0.0/16}}]}}}}}}}}
---
"
        )
    });
    networks.collect()
}

fn connect(number: usize, names: &[&str]) -> String {
    format!(
        "{{apiVersion: k8s.ovn.org/v1, kind: ClusterNetworkConnect, metadata: {{name: c{number}}}, \
         spec: {{networkSelectors: [{{networkSelectionType: ClusterUserDefinedNetworks, \
         clusterUserDefinedNetworkSelector: {{networkSelector: {{matchExpressions: [{{key: tenant, \
         operator: In, values: [{}]}}]}}}}}}], connectSubnets: [{{cidr: 172.{}.0.0/16, \
         networkPrefix: 24}}], connectivity: [PodNetwork]}}}}
---
",
        names.join(", "),
        20 + number
    )
}

fn nodes() -> String {
    let nodes = ["n1", "n2"]
        .map(|name| format!("{{apiVersion: v1, kind: Node, metadata: {{name: {name}}}}}\n---\n"));
    nodes.concat()
}

fn cluster(manifests: &str) -> Cluster {
    let cluster = Cluster::from_manifests(
        &["-".into()],
        &mut manifests.as_bytes(),
        None,
        ClusterSettings::default(),
        Time(Timestamp::UNIX_EPOCH),
    );
    with_default_pods(cluster.unwrap()).unwrap()
}

fn has_router(snapshot: &Snapshot, name: &str) -> bool {
    let rows = snapshot.typed::<LogicalRouter>();
    rows.iter().flatten().any(|(_, row)| row.name == name)
}

/// Starts `patchbay apply` for a zone of the lab.
fn apply(lab: &Lab, zone: &str, manifests: &Path) -> Child {
    let environment = lab.environment(zone).unwrap();
    let remote = environment.iter().find(|(name, _)| *name == "OVN_NB_DB");
    Command::new(env!("CARGO_BIN_EXE_patchbay"))
        .args(["apply", "--zone", zone, "--nb", &remote.unwrap().1, "-f"])
        .arg(manifests)
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Starts probes. The first packets of routers wait for ARP, so others go before.
async fn probes(lab: &Lab, from: &str, to: &str) -> ProbeStream {
    let (from, to) = (lab.find_pod(from).unwrap(), lab.find_pod(to).unwrap());
    lab.ask(&from, &to, Protocol::Icmp, None).await.unwrap();
    lab.start_probes(&from, &to).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apply_that_is_killed_joins_nothing_else_and_the_next_one_completes_it() {
    let Some(ovn) = ovn() else { return };
    let before =
        nodes() + &networks(&["blue", "green", "grey", "red"]) + &connect(1, &["blue", "green"]);
    // The new networks, and each connect, come with transactions of their own.
    let wanted = nodes()
        + &networks(&["blue", "green", "grey", "red", "amber", "plum"])
        + &connect(1, &["blue", "green"])
        + &connect(2, &["green", "grey"])
        + &connect(3, &["grey", "red"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wanted.yaml");
    fs::write(&file, &wanted).unwrap();
    let release = Release::find(Some(&ovn)).unwrap();
    let mut lab = Lab::start(release, &cluster(&before)).await.unwrap();
    let connected =
        [probes(&lab, "blue-1", "green-2").await, probes(&lab, "green-1", "blue-1").await];
    let apart = [probes(&lab, "blue-1", "grey-1").await, probes(&lab, "red-1", "green-1").await];

    let mut killed = 0;
    for router in ["cluster_udn_amber_ovn_cluster_router", "connect_router_c2"] {
        let mut child = apply(&lab, "n1", &file);
        while child.try_wait().unwrap().is_none() {
            if has_router(&lab.northbound("n1").unwrap(), router) {
                child.kill().unwrap();
                killed += 1;
                break;
            }
            sleep(LOOK_INTERVAL).await;
        }
        patchbay_ovn_programs::testing::wait(&mut child);
        lab.sync().await.unwrap();
    }
    // The second one may have been done before it was seen.
    assert!(killed > 0);
    for zone in ["n1", "n2"] {
        assert!(apply(&lab, zone, &file).wait().unwrap().success());
    }
    lab.sync().await.unwrap();
    for (from, to) in [("green-1", "grey-2"), ("grey-1", "red-1"), ("blue-2", "green-1")] {
        let (one, other) = (lab.find_pod(from).unwrap(), lab.find_pod(to).unwrap());
        let answer = lab.ask(&one, &other, Protocol::Tcp(80), None).await.unwrap();
        assert!(answer.verdict.is_reached(), "{from} {to}: {}", answer.verdict);
    }
    for stream in connected {
        let report = stream.stop(LAST_ANSWERS).await.unwrap();
        assert!(report.sent > 0 && report.unanswered.is_empty(), "{report:?}");
    }
    for stream in apart {
        let report = stream.stop(LAST_ANSWERS).await.unwrap();
        assert!(report.sent > 0 && report.arrived.is_empty(), "{report:?}");
    }
}
