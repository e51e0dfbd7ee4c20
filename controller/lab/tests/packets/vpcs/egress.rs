//! Ways out of a VPC.

use patchbay_lab::{Answer, Lab, Protocol, WireLoss};

use super::tenants::{Platform, Tenant};
use super::{ask, ask_in, central, seen, start};
use crate::support::{ask_until, release};

#[tokio::test(flavor = "multi_thread")]
async fn pods_reach_the_internet_with_the_address_of_their_vpc() {
    let Some(release) = release() else { return };
    let alpha = Tenant::new("alpha", "10.100.0");
    let lab = start(release, &(Platform::default().manifests() + &alpha.manifests())).await;
    for (from, to, protocol) in
        [("vm1", "8.8.8.8", "tcp 443"), ("vm2", "9.9.9.9", "udp 53"), ("vm1", "8.8.8.8", "icmp")]
    {
        let answer = ask(&lab, from, to, protocol, true).await;
        assert_eq!(seen(&answer), "reached through 1 router, source 77.220.68.98", "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_for_the_router_with_a_private_destination_is_routed() {
    let Some(release) = release() else { return };
    let alpha = Tenant::new("alpha", "10.100.0");
    let lab = start(release, &(Platform::default().manifests() + &alpha.manifests())).await;
    let host = "out:external/203.0.113.7";
    let router = "77.220.68.98".parse().ok();
    let answer = ask_in(&lab, host, ("10.100.0.2", router), "tcp 22", true).await;
    let expected = "reached through 1 router, pod alpha/vm1, source 203.0.113.7";
    assert_eq!(seen(&answer), expected, "{answer:?}");
    let answer = ask_in(&lab, host, ("10.100.0.2", None), "tcp 22", false).await;
    assert_eq!(seen(&answer), "nobody answers for 10.100.0.2 on the wire", "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_tag_or_none_loses_all_frames() {
    let Some(release) = release() else { return };
    let alpha = Tenant::new("alpha", "10.100.0").manifests();
    let doubled = Platform { vlan: 222, ..Platform::default() };
    let mut lab = start(release, &(doubled.manifests() + &alpha)).await;
    let reason = "tagged twice: hosts in VLAN 222 do not read a second tag 222";
    assert_lost(&lab, &[222, 222], reason).await;
    // The interface of the active gateway is no VLAN device, and the hosts are in a VLAN.
    let provider = "defaultInterface: data.222, excludeNodes: [c1], customInterfaces: \
                    [{interface: data, nodes: [w2]}]";
    let missing = Platform { provider, ..Platform::default() };
    lab.apply(&central(&(missing.manifests() + &alpha))).await.unwrap();
    assert_lost(&lab, &[], "nobody on the wire takes frames without a tag").await;
}

/// Asserts that frames with these tags are lost on the wire.
async fn assert_lost(lab: &Lab, tags: &[u16], reason: &str) {
    let is_found = |loss: &WireLoss| loss.tags == tags && loss.reason == reason;
    let shows_loss = |answer: &Answer| answer.losses.iter().any(is_found);
    let (pod, internet) = (lab.find_pod("vm1").unwrap(), "8.8.8.8".parse().unwrap());
    // A busy machine sends the first frame to the wire after the end of the first question.
    let question = async || lab.ask_address(&pod, internet, Protocol::Icmp).await.unwrap();
    let answer = ask_until(shows_loss, question).await;
    assert!(shows_loss(&answer) && !answer.verdict.is_reached(), "{tags:?}: {answer:?}");
}
