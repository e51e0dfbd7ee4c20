//! A large cluster with 22 MB of node annotations, of which a zone keeps a small part.

use std::fmt::Write;
use std::process::Child;
use std::time::Instant;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::command::{kubeconfig, patchbay};
use crate::testbed::{Testbed, ZONE};

const NODES: usize = 1000;
const NETWORKS: usize = 500;

/// The annotation with the subnets of all networks on a node.
fn subnets(node: usize) -> String {
    let mut text = "{".to_owned();
    for network in 0..NETWORKS {
        let (high, low) = (node / 256, node % 256);
        let comma = if network == 0 { "" } else { "," };
        write!(
            text,
            r#"{comma}"cluster_udn_network-{network}":["{}.{high}.{low}.0/24"]"#,
            network % 200 + 20
        )
        .unwrap();
    }
    text + "}"
}

/// Peak memory of a process in MB, without the pages of its program, which are of another size in
/// each build.
fn peak_memory(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let kilobytes = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    (kilobytes("VmHWM:") - kilobytes("RssFile:")) / 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_zone_controller_of_a_large_cluster_has_a_bounded_size() {
    let bed = Testbed::simulated().await;
    let nodes = Api::<Node>::all(bed.client.clone());
    for index in 0..NODES {
        let node: Node = serde_json::from_value(json!({"metadata": {
            "name": format!("node-{index}"),
            "annotations": {"k8s.ovn.org/node-subnets": subnets(index)},
        }}))
        .unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
    }
    let zone = bed.zone(ZONE).await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    let folder = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let mut child = patchbay(&["run", "--mode", "zone", "--zone", ZONE])
        .arg("--kubeconfig")
        .arg(kubeconfig(folder.path(), &bed.api().url()))
        .args(["--nb", zone.remote()])
        .spawn()
        .unwrap();
    zone.until("networks are connected", |zone| (zone.connect_policies().len() == 2).then_some(()))
        .await;
    let (time, memory) = (begun.elapsed(), peak_memory(&child));
    println!("connected after {time:?}, {memory} MB at most");
    // The annotations are 22 MB of text. Kept as decoded objects they would take several times
    // that.
    assert!(memory < 80, "{memory} MB");
    patchbay_ovn_programs::testing::signal(&child, "TERM");
    patchbay_ovn_programs::testing::wait(&mut child);
    cluster.stop().await;
}
