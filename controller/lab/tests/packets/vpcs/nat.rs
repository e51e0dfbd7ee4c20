//! Floating addresses, forwarded ports, and the range that a policy forbids.

use super::tenants::{Platform, Tenant, floating_address, forwarded_port};
use super::{ask, assert_seen, assert_seen_outside, start};
use crate::support::release;

/// Host of the internet.
const HOST: &str = "out:external/203.0.113.7";

#[tokio::test(flavor = "multi_thread")]
async fn addresses_and_ports_of_the_external_subnet_lead_to_their_pods_only() {
    let Some(release) = release() else { return };
    let manifests = [
        Platform::default().manifests(),
        Tenant::new("alpha", "10.100.0").manifests(),
        floating_address("alpha", "vm1", "77.220.68.110"),
        forwarded_port("alpha", "vm2", "77.220.68.112"),
    ];
    let lab = start(release, &manifests.concat()).await;
    let reached_vm1 = "reached through 1 router, pod alpha/vm1, source 203.0.113.7";
    let reached_vm2 = "reached through 1 router, pod alpha/vm2, source 203.0.113.7";
    // The wall knows no connections: it drops the answer to a client in the external subnet.
    let unanswered = "arrived, but the answer was lost, pod alpha/vm1, source 77.220.68.125";
    assert_seen_outside(
        &lab,
        &[
            (HOST, "77.220.68.110", "tcp 22", reached_vm1),
            (HOST, "77.220.68.110", "icmp", reached_vm1),
            (HOST, "77.220.68.111", "tcp 22", "nobody answers for 77.220.68.111 on the wire"),
            ("out:external/77.220.68.125", "77.220.68.110", "udp 53", unanswered),
            (HOST, "77.220.68.112", "tcp 443", reached_vm2),
            (HOST, "77.220.68.112", "tcp 444", "lost"),
            (HOST, "77.220.68.112", "udp 443", "lost"),
            (HOST, "77.220.68.98", "tcp 22", "lost"),
        ],
    )
    .await;
    let own = "reached through 1 router, source 77.220.68.110";
    let common = "reached through 1 router, source 77.220.68.98";
    assert_seen(
        &lab,
        &[
            ("vm1", "203.0.113.7", "tcp 443", own),
            ("vm2", "203.0.113.7", "tcp 443", common),
            ("vm2", "77.220.68.110", "tcp 22", "lost"),
            // The range of the policy, its edges, and the addresses beside it.
            ("vm2", "77.220.68.95", "tcp 443", common),
            ("vm2", "77.220.68.96", "udp 53", "lost"),
            ("vm2", "77.220.68.97", "icmp", "lost"),
            ("vm2", "77.220.68.127", "udp 53", "lost"),
            ("vm2", "77.220.68.128", "tcp 443", common),
        ],
    )
    .await;
    // The management network is the business of the router behind the gateway.
    let answer = ask(&lab, "vm2", "172.21.204.200", "tcp 6443", false).await;
    let sources: Vec<String> = answer.frames.iter().map(|one| one.source.to_string()).collect();
    assert!(sources.contains(&"77.220.68.98".to_owned()), "{answer:?}");
}
