use std::collections::BTreeSet;

use patchbay_model::{NetworkId, PodSubnet, Role, Topology, Transport};

use super::*;

fn nets(list: &[&str]) -> Vec<IpNet> {
    list.iter().map(|net| net.parse().unwrap()).collect()
}

fn network(name: &str, subnets: &[&str]) -> Network {
    Network {
        name: name.to_owned(),
        id: NetworkId::try_new(1).unwrap(),
        topology: Topology::Layer3,
        role: Role::Primary,
        transport: Transport::Overlay,
        pod_subnets: nets(subnets)
            .into_iter()
            .map(|cidr| PodSubnet { cidr, host_prefix: Some(24) })
            .collect(),
        join_subnets: Vec::new(),
        transit_subnets: Vec::new(),
        namespaces: BTreeSet::new(),
        nads: BTreeSet::new(),
    }
}

fn check(settings: &ClusterSettings, connect: &[&str], networks: &[Network]) -> Vec<String> {
    let networks = networks.iter().map(|network| (network.name.as_str(), network)).collect();
    validate(settings, &nets(connect), &networks, None).iter().map(ToString::to_string).collect()
}

fn dual() -> ClusterSettings {
    ClusterSettings {
        service_cidrs: nets(&["10.96.0.0/16", "fd02::/112"]),
        join_subnets: Vec::new(),
        transit_subnets: Vec::new(),
        ..ClusterSettings::default()
    }
}

fn ipv4_only() -> ClusterSettings {
    ClusterSettings { families: vec![IpFamily::V4], ..ClusterSettings::default() }
}

#[test]
fn ranges_of_the_cluster() {
    let settings = ClusterSettings { cluster_subnets: nets(&["10.244.0.0/16"]), ..dual() };
    assert_eq!(
        check(&settings, &["10.0.0.0/8", "fd69::/64"], &[]),
        [
            "cluster subnets overlap with cluster network connect subnets: service subnet with subnets [10.96.0.0/16 fd02::/112] and ClusterNetworkConnect.connectSubnets with subnets [10.0.0.0/8 fd69::/64]",
            "cluster subnets overlap with cluster network connect subnets: masquerade subnet with subnets [169.254.0.0/17 fd69::/112] and ClusterNetworkConnect.connectSubnets with subnets [10.0.0.0/8 fd69::/64]",
            "cluster subnets overlap with cluster network connect subnets: cluster subnet with subnets [10.244.0.0/16] and ClusterNetworkConnect.connectSubnets with subnets [10.0.0.0/8 fd69::/64]",
        ]
    );
    assert_eq!(check(&settings, &["192.168.0.0/16", "fd01::/112"], &[]), [""; 0]);
}

#[test]
fn ranges_of_networks_come_by_check_and_then_by_name() {
    let mut red = network("red", &["10.1.0.0/16"]);
    red.join_subnets = nets(&["100.65.0.0/16", "fd99::/64"]);
    let mut blue = network("blue", &["10.2.0.0/16"]);
    blue.join_subnets = red.join_subnets.clone();
    blue.transit_subnets = nets(&["100.88.0.0/16"]);
    let found = check(&dual(), &["100.64.0.0/10", "10.1.128.0/17"], &[red, blue]);
    let tail = "ClusterNetworkConnect.connectSubnets with subnets [100.64.0.0/10 10.1.128.0/17]";
    let head = "selected networks overlap with cluster network connect subnets: network";
    assert_eq!(
        found,
        [
            format!("{head} red with subnets [10.1.0.0/16/24] and {tail}"),
            format!("{head} blue with transit subnets [100.88.0.0/16] and {tail}"),
            format!("{head} blue with join subnets [100.65.0.0/16 fd99::/64] and {tail}"),
            format!("{head} red with join subnets [100.65.0.0/16 fd99::/64] and {tail}"),
        ]
    );
}

#[test]
fn every_pair_of_overlapping_networks_is_named_once() {
    let networks = [
        network("wide", &["10.0.0.0/8", "fd00::/48"]),
        network("first", &["10.1.0.0/16", "fd01::/48"]),
        network("second", &["10.2.0.0/16", "fd00::/64"]),
        network("inside", &["10.1.2.0/24", "fd05::/48"]),
        network("apart", &["11.0.0.0/8", "fd06::/48"]),
    ];
    let found = check(&dual(), &["192.168.0.0/16"], &networks);
    let pairs: Vec<_> = found
        .iter()
        .map(|message| {
            let names: Vec<_> = message
                .split("network ")
                .skip(1)
                .filter_map(|rest| rest.split(' ').next())
                .collect();
            names.join("-")
        })
        .collect();
    assert_eq!(pairs, ["first-inside", "first-wide", "inside-wide", "second-wide"]);
    assert_eq!(
        found[3],
        "can not connect selected networks: selected networks have overlapping subnets: network second with subnets [10.2.0.0/16 fd00::/64] and network wide with subnets [10.0.0.0/8 fd00::/48]"
    );
}

#[test]
fn families_must_fit() {
    let four = network("zebra", &["10.1.0.0/16"]);
    let six = network("ant", &["fd10::/48"]);
    let both = network("both", &["10.3.0.0/16", "fd13::/48"]);
    let dual_range = &["192.168.0.0/16", "fd01::/112"][..];
    assert_eq!(
        check(&dual(), dual_range, &[four.clone(), six.clone(), both.clone()]),
        [
            "IP family conflict: connected network ant has only ipv6 subnets, but another connected network zebra has only ipv4 subnets"
        ]
    );
    assert_eq!(check(&dual(), dual_range, &[four.clone(), both.clone()]), [""; 0]);
    // Connected in one family only.
    assert_eq!(check(&dual(), &["192.168.0.0/16"], &[both]), [""; 0]);
    assert_eq!(
        check(&dual(), &["192.168.0.0/16"], std::slice::from_ref(&six)),
        [
            "IP family conflict: connected network ant is ipv6-only but connectSubnets do not contain an ipv6 subnet"
        ]
    );
    // It is one mistake, however many networks it concerns.
    let other_six = network("bee", &["fd11::/48"]);
    assert_eq!(
        check(&dual(), &["192.168.0.0/16"], &[other_six, six.clone()]),
        [
            "IP family conflict: connected network ant is ipv6-only but connectSubnets do not contain an ipv6 subnet"
        ]
    );
    // That one of them lacks a range, too, is the same mistake.
    assert_eq!(
        check(&dual(), &["192.168.0.0/16"], &[four.clone(), six.clone()]),
        [
            "IP family conflict: connected network ant has only ipv6 subnets, but another connected network zebra has only ipv4 subnets"
        ]
    );
    assert_eq!(
        check(&ipv4_only(), &["fd01::/112"], std::slice::from_ref(&four)),
        [
            "IP family conflict: connected network zebra is ipv4-only but connectSubnets do not contain an ipv4 subnet"
        ]
    );
    assert_eq!(
        check(&dual(), &["fd01::/112"], &[four]),
        [
            "IP family conflict: connected network zebra is ipv4-only but connectSubnets do not contain an ipv4 subnet"
        ]
    );
}

#[test]
fn a_range_of_no_use_is_refused() {
    assert_eq!(
        check(&ipv4_only(), &["fd01::/112"], &[]),
        [
            "IP family conflict: connectSubnets contain no subnet of an IP family that the cluster runs"
        ]
    );
}
