//! Configurations of networks, and the mistakes in them.

use super::*;

fn parse(config: &str) -> NetConf {
    NetConf::parse(config).unwrap().unwrap()
}

fn texts<T: ToString>(items: &[T]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

#[test]
fn zero_values_equal_absent_fields() {
    let canonical = |more: &str| {
        let text =
            format!(r#"{{"name":"a","type":"ovn-k8s-cni-overlay","topology":"layer2"{more}}}"#);
        parse(&text).canonical
    };
    let defaults =
        r#","mtu":0,"allowPersistentIPs":false,"excludeSubnets":"","reservedSubnets":null"#;
    assert_eq!(canonical(defaults), canonical(""));
    for other in [r#","mtu":1400"#, r#","allowPersistentIPs":true"#] {
        assert_ne!(canonical(other), canonical(""));
    }
}

#[test]
fn a_primary_layer3_network() {
    let conf = parse(
        r#"{"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","name":"blue_l3","netAttachDefName":"blue/l3","role":"primary","subnets":"10.10.0.0/16/24,fd10::/48","topology":"layer3","type":"ovn-k8s-cni-overlay"}"#,
    );
    assert_eq!(conf.name, "blue_l3");
    assert_eq!(conf.topology, Topology::Layer3);
    assert_eq!(conf.role, Role::Primary);
    assert_eq!(conf.transport, Transport::Overlay);
    assert_eq!(texts(&conf.pod_subnets), ["10.10.0.0/16/24", "fd10::/48/64"]);
    assert_eq!(texts(&conf.join_subnets), ["100.65.0.0/16", "fd99::/64"]);
    assert!(conf.transit_subnets.is_empty());
}

#[test]
fn a_primary_layer2_network_has_transit_subnets_of_its_families() {
    let config = |subnets: &str| {
        parse(&format!(
            r#"{{"name":"n","role":"primary","subnets":"{subnets}","topology":"layer2","type":"ovn-k8s-cni-overlay"}}"#
        ))
    };
    let conf = config("10.20.0.0/16");
    assert_eq!(texts(&conf.pod_subnets), ["10.20.0.0/16/0"]);
    assert_eq!(texts(&conf.join_subnets), ["100.65.0.0/16", "fd99::/64"]);
    assert_eq!(texts(&conf.transit_subnets), ["100.88.0.0/16"]);
    let conf = config("10.20.0.0/16,fd20::/64");
    assert_eq!(texts(&conf.transit_subnets), ["100.88.0.0/16", "fd97::/64"]);
    // They lie beside the other subnets of the network.
    let conf = config("fd20::/64,100.88.0.0/16");
    assert_eq!(texts(&conf.transit_subnets), ["fd97::/64", "100.89.0.0/16"]);
    assert_eq!(conf.canonical.transit_subnet.as_deref(), Some("100.89.0.0/16,fd97::/64"));
    assert!(NetConf::parse(r#"{"name":"n","subnets":"10.0.0.0/16/24","topology":"layer2","type":"ovn-k8s-cni-overlay"}"#).is_err());
}

#[test]
fn a_join_subnet_of_one_family_leaves_the_default_of_the_other() {
    for (given, expected) in [
        ("10.99.0.0/20", ["10.99.0.0/20", "fd99::/64"]),
        ("fd77::/64", ["100.65.0.0/16", "fd77::/64"]),
        ("fd77::/64,10.99.0.0/20", ["10.99.0.0/20", "fd77::/64"]),
        ("", ["100.65.0.0/16", "fd99::/64"]),
    ] {
        let conf = parse(&format!(
            r#"{{"name":"n","role":"primary","joinSubnet":"{given}","subnets":"10.0.0.0/16","topology":"layer3","type":"ovn-k8s-cni-overlay"}}"#
        ));
        assert_eq!(texts(&conf.join_subnets), expected, "{given}");
    }
}

#[test]
fn configurations_of_other_networks_are_none() {
    for config in [
        r#"{"type":"bridge","name":"n"}"#,
        r#"{"type":"ovn-k8s-cni-overlay","name":"n","topology":"localnet"}"#,
        r#"{"type":"ovn-k8s-cni-overlay","name":"default"}"#,
    ] {
        assert_eq!(NetConf::parse(config).unwrap(), None, "{config}");
    }
}

#[test]
fn mistakes_name_their_field() {
    let message = |rest: &str| {
        let config =
            format!(r#"{{"type":"ovn-k8s-cni-overlay","name":"n","topology":"layer3"{rest}}}"#);
        NetConf::parse(&config).unwrap_err().to_string()
    };
    assert_eq!(
        message(r#","subnets":"10.0.0.0/16,10.1.0.0/33""#),
        r#"spec.config: subnets: "10.1.0.0/33" is not a subnet"#
    );
    for (subnets, expected) in [
        (
            "10.0.0.0/16/8",
            "cannot use a host subnet length mask shorter than or equal to the cluster subnet mask. host subnet \
             length: 8, cluster subnet length: 16",
        ),
        (
            "10.7.0.0/24",
            "cannot use a host subnet length mask shorter than or equal to the cluster subnet mask. host subnet \
             length: 24, cluster subnet length: 24",
        ),
        ("10.0.0.0/16/32", "HostSubnet must < 32 for ipv4 CIDR"),
        ("fd10::/48/80", "IPv6 only supports /64 host subnets"),
        (
            "10.5.0.0/16/25,10.6.0.0/16",
            "all IPv4 cluster subnet entries must have the same host subnet length; found 25 and 24",
        ),
    ] {
        assert_eq!(
            message(&format!(r#","subnets":"{subnets}""#)),
            format!("spec.config: subnets: {expected}")
        );
    }
    let layer2 =
        r#"{"type":"ovn-k8s-cni-overlay","name":"n","topology":"layer2","role":"primary"}"#;
    assert_eq!(
        NetConf::parse(layer2).unwrap_err().to_string(),
        "spec.config: the subnet attribute must be defined for layer2 primary user defined networks"
    );
    assert_eq!(message(r#","role":"tertiary""#), r#"spec.config: role "tertiary" is not known"#);
    // Geneve is the default and has no value.
    assert_eq!(
        message(r#","transport":"geneve""#),
        r#"spec.config: transport "geneve" is not known"#
    );
    assert!(NetConf::parse("{").unwrap_err().to_string().starts_with("spec.config: "));
}
