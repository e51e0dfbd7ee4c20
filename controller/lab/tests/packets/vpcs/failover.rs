//! Failover of the active gateway of a VPC.

use std::time::{Duration, Instant};

use patchbay_lab::{Answer, CableQuality, Lab, Protocol};

use super::tenants::{Platform, Tenant};
use super::{central, seen, start};
use crate::support::{ask_until, release};

/// Time within which another gateway has to take over. BFD needs seconds for it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Node that hosts the external port of alpha.
fn active(lab: &Lab) -> Option<String> {
    lab.gateway_ports("alpha-vpc").into_iter().next().unwrap().active
}

async fn ask_internet(lab: &Lab) -> Answer {
    let (pod, address) = (lab.find_pod("vm1").unwrap(), "8.8.8.8".parse().unwrap());
    lab.ask_address(&pod, address, Protocol::Icmp).await.unwrap()
}

/// Asks the internet until the packet leaves by a gateway, and is answered.
async fn wait_for_gateway(lab: &Lab, gateway: &str) {
    let start = Instant::now();
    loop {
        let answer = ask_internet(lab).await;
        let is_sender = answer.frames.iter().any(|frame| frame.node == gateway);
        if is_sender && active(lab).as_deref() == Some(gateway) && answer.verdict.is_reached() {
            assert_eq!(seen(&answer), "reached through 1 router, source 77.220.68.98");
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{gateway}: {answer:?}");
    }
}

/// Asserts that no gateway takes over while ten questions are lost, which takes longer than BFD.
async fn assert_lost(lab: &Lab) {
    let is_reached = |answer: &Answer| answer.verdict.is_reached();
    let answer = ask_until(is_reached, async || ask_internet(lab).await).await;
    assert_eq!(seen(&answer), "lost", "{answer:?}");
}

fn set_tunnels(lab: &Lab, node: &str, others: &[&str], is_cut: bool) {
    let quality = CableQuality { is_cut, ..CableQuality::default() };
    for other in others {
        lab.set_cable(node, other, quality).unwrap();
    }
}

fn manifests(gateways: &[&str], nodes: [&str; 2]) -> String {
    let platform = Platform { gateways, ..Platform::default() };
    let alpha = Tenant { nodes, ..Tenant::new("alpha", "10.100.0") };
    platform.manifests() + &alpha.manifests()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_gateway_follows_the_labels() {
    let Some(release) = release() else { return };
    let mut lab = start(release, &manifests(&["w1", "w2"], ["c1", "w1"])).await;
    wait_for_gateway(&lab, "w2").await;
    let nodes = lab.gateway_ports("alpha-vpc").remove(0).nodes;
    assert_eq!(nodes, ["w2", "w1"]);
    lab.apply(&central(&manifests(&["w1"], ["c1", "w1"]))).await.unwrap();
    wait_for_gateway(&lab, "w1").await;
    assert_eq!(lab.gateway_ports("alpha-vpc").remove(0).nodes, ["w1"]);
    lab.apply(&central(&manifests(&["w1", "w2"], ["c1", "w1"]))).await.unwrap();
    wait_for_gateway(&lab, "w2").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "BFD takes seconds for each of its changes"]
async fn another_gateway_takes_over_if_a_third_node_sees_both() {
    let Some(release) = release() else { return };
    let mut lab = start(release, &manifests(&["w1", "w2"], ["c1", "w1"])).await;
    wait_for_gateway(&lab, "w2").await;
    lab.kill("w2", "ovs-vswitchd").await.unwrap();
    wait_for_gateway(&lab, "w1").await;
    lab.start_program("w2", "ovs-vswitchd").await.unwrap();
    lab.sync().await.unwrap();
    wait_for_gateway(&lab, "w2").await;
    set_tunnels(&lab, "w2", &["w1", "c1"], true);
    wait_for_gateway(&lab, "w1").await;
    set_tunnels(&lab, "w2", &["w1", "c1"], false);
    wait_for_gateway(&lab, "w2").await;
    // BFD is between nodes. Nobody sees that a gateway has lost its provider network.
    lab.set_wire_cut("w2", "provider", true).unwrap();
    assert_lost(&lab).await;
    assert_eq!(active(&lab).as_deref(), Some("w2"));
    lab.set_wire_cut("w2", "provider", false).unwrap();
    wait_for_gateway(&lab, "w2").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "BFD takes seconds for each of its changes"]
async fn the_last_gateway_takes_itself_for_cut_off_without_a_third_node() {
    let Some(release) = release() else { return };
    let mut lab = start(release, &manifests(&["w1", "w2"], ["w1", "w1"])).await;
    wait_for_gateway(&lab, "w2").await;
    lab.kill("w2", "ovs-vswitchd").await.unwrap();
    assert_lost(&lab).await;
    // A machine on a third node is enough.
    lab.apply(&central(&manifests(&["w1", "w2"], ["w1", "c1"]))).await.unwrap();
    wait_for_gateway(&lab, "w1").await;
}
