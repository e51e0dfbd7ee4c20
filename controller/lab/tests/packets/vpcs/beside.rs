//! VPCs beside each other: the pivot, equal addresses, peerings, and several external subnets.

use patchbay_lab::{Answer, Pod, Protocol};

use super::tenants::{Platform, Tenant, WALL, floating_address};
use super::{ask, assert_seen, central, seen, start};
use crate::support::{ask_until, release};

#[tokio::test(flavor = "multi_thread")]
async fn walls_stop_the_pivot_and_a_peering_joins_two_vpcs() {
    let Some(release) = release() else { return };
    let alpha = Tenant::new("alpha", "10.100.0");
    let beta = Tenant::new("beta", "10.101.0");
    let open = Tenant { policies: &[], ..Tenant::new("gamma", "10.102.0") };
    // The addresses of alpha, and no way out.
    let twin = Tenant { policies: &[], routes: &[], rest: "", ..Tenant::new("delta", "10.100.0") };
    let manifests = |alpha: Tenant<'_>, beta: Tenant<'_>| {
        let tenants = [alpha, beta, open].map(|tenant| tenant.manifests());
        let floating = floating_address("alpha", "vm1", "77.220.68.110");
        [Platform::default().manifests(), tenants.concat(), twin.inner(), floating].concat()
    };
    let mut lab = start(release, &manifests(alpha, beta)).await;
    let pivot = "77.220.68.110";
    let own = "reached through 0 routers, pod delta/vm2, source 10.100.0.2";
    let common = "reached through 1 router, source 77.220.68.98";
    assert_seen(
        &lab,
        &[
            ("beta/vm1", pivot, "tcp 22", "lost"),
            // Alpha's wall drops the answers only.
            ("delta/vm1", "10.100.0.3", "tcp 22", own),
            ("delta/vm1", "8.8.8.8", "tcp 443", "lost"),
            ("beta/vm1", "10.100.0.2", "tcp 22", "lost"),
            ("alpha/vm2", "8.8.8.8", "tcp 443", common),
        ],
    )
    .await;
    let one_way = "arrived, but the answer was lost, pod alpha/vm1, source 77.220.68.100";
    let is_one_way = |answer: &Answer| seen(answer) == one_way;
    let (gamma, address) = (lab.find_pod("gamma/vm1").unwrap(), pivot.parse().unwrap());
    let question = async || lab.ask_address(&gamma, address, Protocol::Udp(53)).await.unwrap();
    let answer = ask_until(is_one_way, question).await;
    assert!(is_one_way(&answer), "{answer:?}");

    // Alpha without its wall, and joined with beta.
    let route = "{cidr: 0.0.0.0/0, nextHopIP: 77.220.68.97, policy: policyDst}";
    let alpha = Tenant {
        policies: &[],
        routes: &[route, "{cidr: 10.101.0.0/24, nextHopIP: 169.254.77.2, policy: policyDst}"],
        rest: "enableExternal: true, vpcPeerings: [{remoteVpc: beta-vpc, localConnectIP: \
               169.254.77.1/30}]",
        ..alpha
    };
    let beta = Tenant {
        policies: &[WALL],
        routes: &[route, "{cidr: 10.100.0.0/24, nextHopIP: 169.254.77.1, policy: policyDst}"],
        rest: "enableExternal: true, vpcPeerings: [{remoteVpc: alpha-vpc, localConnectIP: \
               169.254.77.2/30}]",
        ..beta
    };
    lab.apply(&central(&manifests(alpha, beta))).await.unwrap();
    assert_eq!(lab.warnings(), [""; 0]);
    let through = "reached through 2 routers, pod alpha/vm1, source 77.220.68.100";
    let there = "reached through 2 routers, pod beta/vm2, source 10.100.0.2";
    let back = "reached through 2 routers, pod alpha/vm1, source 10.101.0.3";
    assert_seen(
        &lab,
        &[
            ("gamma/vm1", pivot, "tcp 22", through),
            ("beta/vm1", pivot, "tcp 22", "lost"),
            ("alpha/vm1", "10.101.0.3", "tcp 22", there),
            ("beta/vm2", "10.100.0.2", "tcp 22", back),
            // No way leads through a peer.
            ("gamma/vm1", "10.101.0.3", "tcp 22", "lost"),
            ("alpha/vm2", "8.8.8.8", "tcp 443", common),
            ("delta/vm1", "10.100.0.3", "tcp 22", own),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vpc_with_two_external_subnets_leaves_by_each_with_its_address() {
    let Some(release) = release() else { return };
    let platform = Platform {
        provider: "defaultInterface: data, excludeNodes: [c1]",
        vlan: 222,
        ..Platform::default()
    };
    let alpha = Tenant {
        routes: &[
            "{cidr: 0.0.0.0/0, nextHopIP: 77.220.68.97, policy: policyDst}",
            "{cidr: 9.9.9.0/24, nextHopIP: 88.198.7.33, policy: policyDst}",
        ],
        rest: "enableExternal: true, extraExternalSubnets: [external, second]",
        ..Tenant::new("alpha", "10.100.0")
    };
    let second = "{apiVersion: kubeovn.io/v1, kind: Vlan, metadata: {name: second}, spec: {id: \
                  333, provider: provider}}
---
{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: second}, spec: {vpc: ovn-cluster, vlan: \
                  second, cidrBlock: 88.198.7.32/27, gateway: 88.198.7.33}}
---
{apiVersion: kubeovn.io/v1, kind: OvnSnatRule, metadata: {name: alpha-second}, spec: {ovnEip: \
                  alpha-vpc-second, vpcSubnet: alpha-dev}}
---
";
    let manifests = [platform.manifests(), alpha.manifests(), second.to_owned()];
    let lab = start(release, &manifests.concat()).await;
    for (to, source, tag) in [("8.8.8.8", "77.220.68.98", 222), ("9.9.9.9", "88.198.7.34", 333)] {
        let answer = ask(&lab, "vm1", to, "tcp 443", true).await;
        let expected = format!("reached through 1 router, source {source}");
        assert_eq!(seen(&answer), expected, "{answer:?}");
        let tags = answer.frames.iter().map(|frame| &frame.tags[..]);
        assert!(tags.clone().count() > 0 && tags.clone().all(|one| one == [tag]), "{answer:?}");
    }
}

/// Layer2 network with machines on two nodes.
const LAYER2: &str = "\
{apiVersion: v1, kind: Namespace, metadata: {name: db, labels: {k8s.ovn.org/primary-user-defined-network: '', network: db}}}
---
{apiVersion: k8s.ovn.org/v1, kind: ClusterUserDefinedNetwork, metadata: {name: db, labels: {share: 'yes'}}, spec: {namespaceSelector: {matchLabels: {network: db}}, network: {topology: Layer2, layer2: {role: Primary, subnets: [10.200.0.0/24]}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: one, namespace: db}, spec: {nodeName: c1, containers: [{name: db}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: two, namespace: db}, spec: {nodeName: w1, containers: [{name: db}]}}
---
";

#[tokio::test(flavor = "multi_thread")]
async fn machines_of_a_layer2_network_beside_a_vpc_are_on_their_nodes() {
    let Some(release) = release() else { return };
    let alpha = Tenant::new("alpha", "10.100.0").manifests();
    let lab = start(release, &[&Platform::default().manifests(), &*alpha, LAYER2].concat()).await;
    let find = |name: &str| lab.pods().find(|pod| pod.name.name == name).unwrap();
    let (one, two) = (find("one"), find("two"));
    assert_eq!((&*one.node, &*two.node), ("c1", "w1"));
    let address = |pod: &Pod| pod.ips().next().unwrap().to_string();
    let (from, to) = (address(one), address(two));
    let reached = format!("reached through 0 routers, pod db/two, source {from}");
    assert_seen(
        &lab,
        &[
            ("one", &to, "tcp 5432", &reached),
            ("vm1", &to, "tcp 5432", "lost"),
            ("vm1", "8.8.8.8", "tcp 443", "reached through 1 router, source 77.220.68.98"),
        ],
    )
    .await;
}

/// Connect of the VPCs with attachment definitions and the layer2 network.
const CONNECT: &str = "\
{apiVersion: k8s.ovn.org/v1, kind: ClusterNetworkConnect, metadata: {name: shared}, spec: {connectSubnets: [{cidr: 192.168.0.0/16, networkPrefix: 24}], connectivity: [PodNetwork], networkSelectors: [\
{networkSelectionType: NetworkAttachmentDefinitions, networkAttachmentDefinitionSelector: {namespaceSelector: {}, networkSelector: {}}}, \
{networkSelectionType: ClusterUserDefinedNetworks, clusterUserDefinedNetworkSelector: {networkSelector: {matchLabels: {share: 'yes'}}}}]}}
---
";

#[tokio::test(flavor = "multi_thread")]
async fn a_connect_joins_a_vpc_and_a_layer2_network() {
    let Some(release) = release() else { return };
    let alpha = Tenant::new("alpha", "10.100.0").manifests();
    let parts = [&Platform::default().manifests(), &*alpha, LAYER2, CONNECT];
    let lab = start(release, &parts.concat()).await;
    let find = |name: &str| lab.pods().find(|pod| pod.name.name == name).unwrap();
    let address = |pod: &Pod| pod.ips().next().unwrap().to_string();
    let (vm, one) = (address(find("vm1")), address(find("one")));
    let to_vm = format!("reached through 3 routers, pod alpha/vm1, source {one}");
    let to_db = format!("reached through 3 routers, pod db/one, source {vm}");
    assert_seen(&lab, &[("one", &vm, "tcp 5432", &to_vm), ("vm1", &one, "tcp 5432", &to_db)]).await;
}
