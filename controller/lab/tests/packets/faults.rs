//! Faults while packets flow: killed programs and databases, and a cut cable.
//!
//! Streams of probes watch every instant: networks that are connected, and networks that are not.

use std::time::Duration;

use patchbay_lab::{CableQuality, DatabaseServer, Lab, ProbeStream, Protocol, Release};
use tokio::time::sleep;

use crate::support::{ask, assert_connected, cluster, connect, manifests, release};

/// Time in which a fault lasts, for some dozens of probes.
const FAULT_TIME: Duration = Duration::from_millis(500);

/// Time for the answers of the last probes.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Time until packets cross again.
const RECOVERY: Duration = Duration::from_secs(20);

/// Number of attempts, of which one may not lose probes. Missing rows lose them in each attempt.
const FAULT_ATTEMPTS: usize = 3;

/// Number of probes that a stream may lose. The switch of a busy machine loses a packet now and
/// then, and tunnels pause for 100 ms when the machine gets a network device. A fault that stops
/// packets loses dozens, because it lasts for [`FAULT_TIME`].
const MAX_LOST_PROBES: usize = 10;

/// Streams of probes between pods.
struct Streams(Vec<(&'static str, &'static str, ProbeStream)>);

impl Streams {
    async fn start(lab: &Lab, pairs: &[(&'static str, &'static str)]) -> Self {
        let mut streams = Vec::new();
        for (from, to) in pairs {
            // The first packets of routers wait for ARP, so others go before.
            ask(lab, from, to, Protocol::Icmp).await;
            let (one, other) = (lab.find_pod(from).unwrap(), lab.find_pod(to).unwrap());
            let stream = lab.start_probes(&one, &other).await.unwrap();
            streams.push((*from, *to, stream));
        }
        Self(streams)
    }

    /// Stops the streams, each of which has to have been answered all the time.
    async fn assert_connected(self) {
        let lost = self.lost().await;
        assert!(lost.is_empty(), "{lost:#?}");
    }

    /// Goes on until each stream is answered. An ovn-controller that reads a restarted ovsdb-server
    /// computes all flows anew, and a busy machine loses packets of its node meanwhile.
    async fn assert_connected_again(self) {
        for (from, to, stream) in self.0 {
            let report = stream.stop_when(true, RECOVERY, LAST_ANSWERS).await.unwrap();
            assert!(report.answered.last() > report.unanswered.last(), "{from} {to}: {report:?}");
        }
    }

    /// Stops the streams. Returns the reports of those that lost more than a few probes.
    async fn lost(self) -> Vec<String> {
        let mut lost = Vec::new();
        for (from, to, stream) in self.0 {
            let report = stream.stop(LAST_ANSWERS).await.unwrap();
            assert!(report.sent > 0, "{from} {to}: {report:?}");
            if report.unanswered.len() > MAX_LOST_PROBES {
                lost.push(format!("{from} {to}: {report:?}"));
            }
        }
        lost
    }

    /// Stops the streams, of which nothing may have arrived.
    async fn assert_apart(self) {
        for (from, to, stream) in self.0 {
            let report = stream.stop(LAST_ANSWERS).await.unwrap();
            assert!(report.sent > 0 && report.arrived.is_empty(), "{from} {to}: {report:?}");
        }
    }
}

/// Connected networks of both topologies, an apart one, and a stranger with the addresses of green.
fn networks() -> String {
    manifests(&[
        ("blue", "Layer3", "10.1.0.0/16"),
        ("green", "Layer3", "10.2.0.0/16"),
        ("red", "Layer2", "10.3.0.0/16"),
        ("grey", "Layer3", "10.5.0.0/16"),
        ("stranger", "Layer3", "10.2.0.0/16"),
    ])
}

const CONNECTED: [(&str, &str); 4] =
    [("blue-1", "green-3"), ("red-3", "blue-1"), ("red-1", "red-2"), ("green-2", "red-3")];
const APART: [(&str, &str); 4] =
    [("blue-1", "grey-3"), ("grey-1", "red-1"), ("stranger-3", "blue-1"), ("grey-2", "blue-2")];

#[tokio::test(flavor = "multi_thread")]
async fn killed_programs_and_databases_break_nothing_and_join_nothing() {
    let Some(release) = release() else { return };
    let mut lost = Vec::new();
    for _ in 0..FAULT_ATTEMPTS {
        lost = kill_programs_and_databases(release.clone()).await;
        if lost.is_empty() {
            break;
        }
    }
    assert!(lost.is_empty(), "{lost:#?}");
}

/// Returns the reports of connected pairs that lost probes.
async fn kill_programs_and_databases(release: Release) -> Vec<String> {
    let connected =
        networks() + &connect("c", &["blue", "green", "red"], "192.168.0.0/16", "PodNetwork");
    let with_grey =
        connected.clone() + &connect("d", &["grey", "stranger"], "172.20.0.0/16", "PodNetwork");
    let mut lab = Lab::start(release, &cluster(&connected)).await.unwrap();
    let streams = Streams::start(&lab, &CONNECTED).await;
    let apart = Streams::start(&lab, &APART).await;

    // Without ovn-northd the rows of an apply wait for it.
    assert!(lab.kill("n1", "ovn-northd").await.unwrap());
    lab.apply(&cluster(&with_grey)).await.unwrap();
    assert_eq!(ask(&lab, "grey-1", "stranger-1", Protocol::Icmp).await, "lost");
    assert!(lab.start_program("n1", "ovn-northd").await.unwrap());
    assert!(!lab.start_program("n1", "ovn-northd").await.unwrap());
    lab.sync().await.unwrap();
    assert_connected(&lab, "grey-1", "stranger-3", Protocol::Icmp).await;

    // Without its databases a node forwards what it did.
    lab.stop_databases("n3").await.unwrap();
    sleep(FAULT_TIME).await;
    lab.start_databases("n3").await.unwrap();
    lab.apply(&cluster(&connected)).await.unwrap();
    assert_eq!(ask(&lab, "grey-3", "stranger-3", Protocol::Icmp).await, "lost");

    // The flows outlive ovn-controller, which replaces them when it starts.
    assert!(lab.kill("n2", "ovn-controller").await.unwrap());
    sleep(FAULT_TIME).await;
    let lost = streams.lost().await;
    assert!(lab.start_program("n2", "ovn-controller").await.unwrap());
    lab.sync().await.unwrap();
    assert!(lab.kill("n2", "ovs-vswitchd").await.unwrap());
    let verdict = ask(&lab, "blue-2", "green-1", Protocol::Icmp).await;
    assert!(!verdict.starts_with("reached"), "{verdict}");
    assert!(lab.start_program("n2", "ovs-vswitchd").await.unwrap());
    lab.sync().await.unwrap();
    apart.assert_apart().await;
    for (from, to) in [("blue-2", "green-1"), ("red-3", "blue-2"), ("green-2", "red-2")] {
        assert_connected(&lab, from, to, Protocol::Tcp(80)).await;
    }
    lost
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_between_nodes_is_bridged_by_nobody_and_heals() {
    let Some(release) = release() else { return };
    let connected =
        networks() + &connect("c", &["blue", "green", "red"], "192.168.0.0/16", "PodNetwork");
    let mut lab = Lab::start(release, &cluster(&connected)).await.unwrap();
    let across = Streams::start(&lab, &[("blue-1", "green-2"), ("red-3", "green-2")]).await;
    let apart = Streams::start(&lab, &APART).await;
    let cut = CableQuality { is_cut: true, ..CableQuality::default() };
    lab.set_cable("n1", "n3", cut).unwrap();
    assert_eq!(ask(&lab, "blue-1", "green-3", Protocol::Icmp).await, "lost");

    // An apply during the partition takes effect on both sides.
    lab.apply(&cluster(&networks())).await.unwrap();
    assert_eq!(ask(&lab, "red-3", "blue-3", Protocol::Icmp).await, "lost");
    lab.apply(&cluster(&connected)).await.unwrap();
    assert_connected(&lab, "red-3", "blue-3", Protocol::Icmp).await;
    for (_, _, stream) in across.0 {
        let report = stream.stop(LAST_ANSWERS).await.unwrap();
        let lost = report.unanswered.len();
        assert!(lost > 0 && lost < report.sent, "{report:?}");
    }
    let across = Streams::start(&lab, &[("blue-1", "green-2"), ("red-3", "green-2")]).await;
    lab.set_cable("n1", "n3", CableQuality::default()).unwrap();
    assert_connected(&lab, "blue-1", "green-3", Protocol::Icmp).await;
    across.assert_connected().await;
    apart.assert_apart().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ovsdb_server_serves_a_lab_and_may_be_killed() {
    let Some(release) = release() else { return };
    let all = ["blue", "green", "red"];
    let connected = networks() + &connect("c", &all, "192.168.0.0/16", "PodNetwork");
    let server = DatabaseServer::OvsdbServer;
    let mut lab = Lab::start_with(server, release, &cluster(&networks())).await.unwrap();
    let programs = lab.programs("n1").unwrap();
    let names: Vec<&str> = programs.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["ovn-northd", "ovs-vswitchd", "ovn-controller", "ovsdb-server"]);
    assert_eq!(ask(&lab, "blue-1", "green-3", Protocol::Icmp).await, "lost");
    lab.apply(&cluster(&connected)).await.unwrap();
    for (from, to) in CONNECTED.into_iter().take(2) {
        assert_connected(&lab, from, to, Protocol::Tcp(80)).await;
    }
    let apart = Streams::start(&lab, &APART).await;
    let [on_n1 @ .., elsewhere] = CONNECTED;
    let mut lost = Vec::new();
    for _ in 0..FAULT_ATTEMPTS {
        let streams = Streams::start(&lab, &[elsewhere]).await;
        let interrupted = Streams::start(&lab, &on_n1).await;
        lab.stop_databases("n1").await.unwrap();
        sleep(FAULT_TIME).await;
        lab.start_databases("n1").await.unwrap();
        lab.sync().await.unwrap();
        lab.apply(&cluster(&connected)).await.unwrap();
        interrupted.assert_connected_again().await;
        lost = streams.lost().await;
        if lost.is_empty() {
            break;
        }
    }
    assert!(lost.is_empty(), "{lost:#?}");
    apart.assert_apart().await;
    lab.apply(&cluster(&networks())).await.unwrap();
    assert_eq!(ask(&lab, "blue-1", "green-3", Protocol::Icmp).await, "lost");
}
