//! VPCs of Kube-OVN on real OVN: packets through provider networks.

mod balancers;
mod beside;
mod captures;
mod egress;
mod failover;
mod nat;
mod tenants;

use std::net::IpAddr;

use patchbay_lab::{Answer, Lab, OutsideHost, Protocol, Release};
use patchbay_model::{ClusterSettings, Databases};
use patchbay_reconcile::Cluster;

use crate::support::{ask_patiently, cluster_with};

/// The cluster of manifests with one database of all nodes.
fn central(manifests: &str) -> Cluster {
    let settings = ClusterSettings { databases: Databases::Central, ..ClusterSettings::default() };
    cluster_with(manifests, settings)
}

/// A lab of manifests. All of their objects are played.
async fn start(release: Release, manifests: &str) -> Lab {
    let lab = Lab::start(release, &central(manifests)).await.unwrap();
    assert_eq!(lab.warnings(), [""; 0]);
    lab
}

/// The answer to a question of a pod.
async fn ask(lab: &Lab, from: &str, to: &str, protocol: &str, is_promised: bool) -> Answer {
    let (from, to) = (lab.find_pod(from).unwrap(), to.parse().unwrap());
    let protocol = protocol.parse().unwrap();
    let ask = async || lab.ask_address(&from, to, protocol).await.unwrap();
    ask_patiently(is_promised, ask).await
}

/// The answer to a question of a host outside.
async fn ask_in(
    lab: &Lab,
    from: &str,
    (to, via): (&str, Option<IpAddr>),
    protocol: &str,
    is_promised: bool,
) -> Answer {
    let (from, to): (OutsideHost, _) = (from.parse().unwrap(), to.parse().unwrap());
    let protocol: Protocol = protocol.parse().unwrap();
    let ask = async || lab.ask_from_outside(&from, to, via, protocol).await.unwrap();
    ask_patiently(is_promised, ask).await
}

/// Asserts what answers of a pod show: `(pod, address, protocol, answer)`.
async fn assert_seen(lab: &Lab, questions: &[(&str, &str, &str, &str)]) {
    for (from, to, protocol, expected) in questions {
        let answer = ask(lab, from, to, protocol, expected.starts_with("reached")).await;
        assert_eq!(seen(&answer), *expected, "{from} {to} {protocol}: {answer:?}");
    }
}

/// Asserts what answers to a host outside show: `(host, address, protocol, answer)`.
async fn assert_seen_outside(lab: &Lab, questions: &[(&str, &str, &str, &str)]) {
    for (from, to, protocol, expected) in questions {
        let is_promised = expected.starts_with("reached");
        let answer = ask_in(lab, from, (to, None), protocol, is_promised).await;
        assert_eq!(seen(&answer), *expected, "{from} {to} {protocol}: {answer:?}");
    }
}

/// Verdict of an answer, and the source address where the packet arrived.
fn seen(answer: &Answer) -> String {
    let pod = answer.pod.as_ref().map(|pod| format!(", pod {pod}")).unwrap_or_default();
    let source = answer.source.map(|source| format!(", source {source}")).unwrap_or_default();
    format!("{}{pod}{source}", answer.verdict)
}
