//! Packets through connect routers.

use patchbay_lab::{Lab, Protocol};

use crate::support::{ask, ask_connected, cluster, connect, diagnose, manifests, release};

#[tokio::test(flavor = "multi_thread")]
async fn packets_cross_a_connect_of_layer3_and_layer2_networks_and_reach_nothing_else() {
    let Some(release) = release() else { return };
    let networks = manifests(&[
        ("blue", "Layer3", "10.1.0.0/16"),
        ("green", "Layer3", "10.2.0.0/16"),
        ("red", "Layer2", "10.3.0.0/16"),
        ("amber", "Layer2", "10.4.0.0/16"),
        ("grey", "Layer3", "10.5.0.0/16"),
    ]);
    let all = ["blue", "green", "red", "amber"];
    let connected = networks.clone() + &connect("c", &all, "192.168.0.0/16", "PodNetwork");
    let mut lab = Lab::start(release, &cluster(&connected)).await.unwrap();

    assert_eq!(
        ask_connected(&lab, "blue-1", "blue-3", Protocol::Icmp).await,
        "reached through 2 routers"
    );
    assert_eq!(
        ask_connected(&lab, "red-1", "red-3", Protocol::Icmp).await,
        "reached through 0 routers"
    );
    for (from, to) in [
        ("blue-1", "green-3"),
        ("blue-1", "green-1"),
        ("blue-2", "red-3"),
        ("red-3", "blue-1"),
        ("red-1", "amber-2"),
    ] {
        for protocol in [Protocol::Icmp, Protocol::Udp(53), Protocol::Tcp(80)] {
            let verdict = ask_connected(&lab, from, to, protocol).await;
            assert_eq!(verdict, "reached through 3 routers", "{from} {to} {protocol}");
        }
    }
    assert_eq!(ask(&lab, "blue-1", "grey-1", Protocol::Icmp).await, "lost");
    assert_eq!(ask(&lab, "grey-2", "red-1", Protocol::Icmp).await, "lost");

    let pairs = [("blue-1", "green-3"), ("red-3", "blue-1"), ("red-1", "amber-2")];
    for (from, to) in pairs {
        let diagnosis = diagnose(&lab, from, to, Protocol::Tcp(80)).await;
        assert_eq!(diagnosis.obstacles().next(), None, "{diagnosis}");
        for trace in [diagnosis.request, diagnosis.answer.unwrap()] {
            let flows = trace.flows.unwrap();
            assert!(flows.end.action.starts_with("output"), "{}", flows.text);
        }
    }
    let diagnosis = diagnose(&lab, "blue-1", "grey-3", Protocol::Icmp).await;
    let nodes: Vec<&str> = diagnosis.obstacles().map(|(node, _)| node).collect();
    assert_eq!(nodes, ["n1"], "{diagnosis}");

    lab.apply(&cluster(&networks)).await.unwrap();
    assert_eq!(ask(&lab, "blue-1", "green-3", Protocol::Icmp).await, "lost");
    assert_eq!(ask(&lab, "red-1", "amber-1", Protocol::Icmp).await, "lost");
    lab.apply(&cluster(&connected)).await.unwrap();
    let verdict = ask_connected(&lab, "green-3", "amber-1", Protocol::Icmp).await;
    assert_eq!(verdict, "reached through 3 routers");
}
