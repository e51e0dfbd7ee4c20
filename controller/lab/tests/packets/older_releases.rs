//! Labs of OVN 25.03 and Open vSwitch 3.5.

use patchbay_lab::{Lab, Protocol};
use patchbay_model::{ClusterSettings, Feature};

use crate::support::{ask_connected, cluster_with, manifests, older_release};

/// An EgressIP of a node for pods of the network `blue`.
const EGRESS_IP: &str = "
apiVersion: k8s.ovn.org/v1
kind: EgressIP
metadata: {name: blue, annotations: {k8s.ovn.org/egressip-mark: '50001'}}
spec: {egressIPs: [172.18.0.200], namespaceSelector: {matchLabels: {network: blue}}}
status: {items: [{node: n1, egressIP: 172.18.0.200}]}
";

/// ovn-controller crashes if it has a tunnel to make before there is a row of `SB_Global`.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_start_at_any_time_of_ovn_northd_and_warn_of_limits() {
    let Some(release) = older_release() else {
        return;
    };
    let networks = manifests(&[("blue", "Layer3", "10.1.0.0/16")]);
    let marked = networks.clone() + EGRESS_IP;
    let egress =
        ClusterSettings { features: [Feature::EgressIp].into(), ..ClusterSettings::default() };
    let limit = "Open vSwitch 3.5.0 before 3.7.0: packets of pods that an EgressIP serves do not \
                 cross nodes";
    for (manifests, settings, limits) in [
        (&marked, ClusterSettings::default(), &[][..]),
        (&networks, egress.clone(), &[]),
        (&marked, egress, &[limit]),
    ] {
        let cluster = cluster_with(manifests, settings);
        let lab = Lab::start(release.clone(), &cluster).await.unwrap();
        assert_eq!(lab.broken_promises(&cluster), limits);
        if limits.is_empty() {
            let verdict = ask_connected(&lab, "blue-1", "blue-3", Protocol::Icmp).await;
            assert_eq!(verdict, "reached through 2 routers");
        }
    }
}
