//! Load balancers of VPCs, whose machines are checked for health.

use super::tenants::{Platform, Tenant};
use super::{assert_seen, assert_seen_outside, start};
use crate::support::release;

/// A load balancer inside, and one at an external address, of the machine with the second address.
const RULES: &str = "
---
{apiVersion: kubeovn.io/v1, kind: SwitchLBRule, metadata: {name: inside}, spec: {vip: 10.96.0.200, namespace: alpha, endpoints: [10.100.0.3], ports: [{port: 80, targetPort: 8080}]}}
---
{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: front}, spec: {externalSubnet: external, v4Ip: 77.220.68.115, type: nat}}
---
{apiVersion: kubeovn.io/v1, kind: RouterLBRule, metadata: {name: outside}, spec: {ovnEip: front, vpc: alpha-vpc, namespace: alpha, endpoints: [10.100.0.3], ports: [{port: 443, targetPort: 8443}]}}
";

#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_load_balancers_lead_to_their_machines_only() {
    let Some(release) = release() else { return };
    let platform = Platform::default().manifests();
    let tenant = Tenant::new("alpha", "10.100.0").manifests();
    let lab = start(release, &[&*platform, &*tenant, RULES].concat()).await;
    let inside = "reached through 1 router, pod alpha/vm2, source 10.100.0.2";
    assert_seen(
        &lab,
        &[("vm1", "10.96.0.200", "tcp 80", inside), ("vm1", "10.96.0.200", "tcp 81", "lost")],
    )
    .await;
    let host = "out:external/203.0.113.7";
    let outside = "reached through 1 router, pod alpha/vm2, source 203.0.113.7";
    assert_seen_outside(
        &lab,
        &[
            (host, "77.220.68.115", "tcp 443", outside),
            (host, "77.220.68.115", "tcp 80", "lost"),
            (host, "77.220.68.115", "udp 443", "lost"),
        ],
    )
    .await;
}
