//! Configurations against the errors of OVN-Kubernetes.

use serde_json::{Value, json};

use super::*;
use crate::network::IpFamily;

fn settings() -> ClusterSettings {
    ClusterSettings {
        families: vec![IpFamily::V4],
        cluster_subnets: vec!["10.244.0.0/16".parse().unwrap()],
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        ..ClusterSettings::default()
    }
}

/// Result of the check of a configuration in the definition `blue/own`.
fn checked(config: &Value, settings: &ClusterSettings) -> String {
    let mut merged = json!({
        "name": "own", "type": "ovn-k8s-cni-overlay", "netAttachDefName": "blue/own"
    });
    let fields = config.as_object().unwrap().clone();
    merged.as_object_mut().unwrap().extend(fields);
    match checked_config("blue/own", Some(&merged.to_string()), settings) {
        Ok(Some(_)) => "network".to_owned(),
        Ok(None) => "none".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn configurations_of_users_have_the_errors_of_ovn_kubernetes() {
    for (config, expected) in [
        (json!({"topology": "layer2", "subnets": "10.1.0.0/16"}), "network"),
        (json!({"name": "", "topology": ""}), "none"),
        (
            json!({"topology": "layer2", "netAttachDefName": "blue/other"}),
            "net-attach-def name (blue/own) is inconsistent with config (blue/other)",
        ),
        (
            json!({"topology": "layer2", "netAttachDefName": ""}),
            "error parsing Network Attachment Definition blue/own: missing NADName in secondary network netconf own",
        ),
        (
            json!({"topology": "layer2", "name": "default"}),
            "error parsing Network Attachment Definition blue/own: invalid name in in secondary network netconf (default)",
        ),
        (
            json!({"topology": "layer3", "subnets": "10.1.0.0/16", "allowPersistentIPs": true}),
            "layer3 topology does not allow persistent IPs",
        ),
        (
            json!({"topology": "localnet", "role": "primary"}),
            "unexpected network field \"role\" primary for \"localnet\" topology, localnet topology does not allow network roles to be set since its always a secondary network",
        ),
        (json!({"topology": "layer2", "role": "main"}), "invalid network role value main"),
        (
            json!({"topology": "layer2", "ipam": {"type": "host-local"}}),
            "error parsing Network Attachment Definition blue/own: IPAM key is not supported. Use OVN-K provided IPAM via the `subnets` attribute",
        ),
        (
            json!({"topology": "layer2", "transport": "vxlan"}),
            "invalid transport \"vxlan\": must be one of [\"no-overlay\" \"evpn\"]",
        ),
        (
            json!({"topology": "layer3", "subnets": "10.1.0.0/16", "outboundSNAT": "enabled"}),
            "outboundSNAT is only valid when transport is \"no-overlay\"",
        ),
        (
            json!({"topology": "localnet", "joinSubnet": "100.65.0.0/16"}),
            "localnet topology does not allow specifying join-subnet as services are not supported",
        ),
        (
            json!({"topology": "layer2", "role": "primary"}),
            "the subnet attribute must be defined for layer2 primary user defined networks",
        ),
        (
            json!({"topology": "layer3", "subnets": "10.1.0.0/16", "reservedSubnets": "10.1.0.0/24"}),
            "reservedSubnets is only supported for layer2 topology",
        ),
        (
            json!({"topology": "flat"}),
            "invalid subnet configuration: error while parsing subnets: topology flat not supported",
        ),
        (
            json!({"topology": "layer3", "subnets": "10.1.0.0/16/24/1"}),
            "invalid subnet configuration: error while parsing subnets: CIDR \"10.1.0.0/16/24/1\" not properly formatted",
        ),
        (
            json!({"topology": "layer2", "subnets": "10.1.0.0/33"}),
            "invalid subnet configuration: error while parsing subnets: invalid network subnets for layer2 netconf own: invalid CIDR address: 10.1.0.0/33",
        ),
        (
            json!({"topology": "layer2", "subnets": "10.1.0.0/16", "excludeSubnets": "10.2.0.0/24,10.3.0.0/24"}),
            "invalid subnet configuration: error while parsing subnets: the provided network subnets do not contain excluded subnets 10.2.0.0/24",
        ),
        (
            json!({"topology": "localnet", "subnets": "10.1.0.0/16/24"}),
            "invalid localnet netconf own: CIDR \"10.1.0.0/16/24\" not properly formatted",
        ),
        (
            json!({"topology": "localnet", "subnets": "10.1.0.0/16", "excludeSubnets": "10.2.0.0/24"}),
            "the provided network subnets do not contain excluded subnets 10.2.0.0/24",
        ),
    ] {
        assert_eq!(checked(&config, &settings()), expected, "{config}");
    }
    let local = ClusterSettings { gateway_mode: GatewayMode::Local, ..settings() };
    let uplink = json!({"topology": "layer3", "subnets": "10.1.0.0/16", "uplink": "eth1"});
    assert_eq!(
        checked(&uplink, &local),
        "uplink \"eth1\" is supported only in shared gateway mode"
    );
}

#[test]
fn only_primary_networks_need_the_families_of_the_cluster() {
    let config = |role: &str, topology: &str| json!({"topology": topology, "role": role, "subnets": "fd10::/48", "transitSubnet": "fd98:1::/64"});
    for topology in ["layer3", "layer2", "localnet"] {
        assert_eq!(checked(&config("secondary", topology), &settings()), "network");
    }
    assert_eq!(
        checked(&config("primary", "layer3"), &settings()),
        "invalid subnet configuration: error while parsing subnets: network own is attempting to \
         use ipv6 subnets but the cluster does not support ipv6"
    );
}

#[test]
fn secondary_networks_do_not_overlap_with_the_usual_join_subnets() {
    let config = json!({"topology": "layer3", "role": "secondary", "subnets": "100.65.0.0/17"});
    assert_eq!(
        checked(&config, &settings()),
        "invalid subnet configuration: pod or join subnet overlaps with already configured \
         internal subnets: user defined join subnet \"100.65.0.0/16\" overlaps user defined subnet \
         \"100.65.0.0/17\""
    );
    let own = json!({"topology": "layer3", "role": "primary", "subnets": "100.65.0.0/17", "joinSubnet": "100.66.0.0/16"});
    assert_eq!(checked(&own, &settings()), "network");
    let excluded = json!({"topology": "layer2", "subnets": "100.65.0.0/16", "excludeSubnets": "100.65.0.0/16"});
    assert_eq!(checked(&excluded, &settings()), "network");
}

#[test]
fn the_transit_range_of_a_network_lies_beside_all_ranges() {
    let transit = |subnets: &str, cluster: &str| {
        let config = CniConfig {
            topology: "layer2".into(),
            role: "primary".into(),
            subnets: Some(subnets.into()),
            ..CniConfig::default()
        };
        let settings = ClusterSettings {
            cluster_subnets: vec![cluster.parse().unwrap()],
            ..ClusterSettings::default()
        };
        transit_subnets(&config, &settings).unwrap_or_else(|error| error.to_string())
    };
    assert_eq!(transit("100.88.0.0/16", "100.89.0.0/17"), "100.90.0.0/16");
    assert_eq!(transit("fd20::/64,10.1.0.0/16", "10.244.0.0/16"), "fd97::/64,100.88.0.0/16");
    assert_eq!(
        transit("", "10.244.0.0/16"),
        "can't generate transit subnets: failed to parse CIDR \"\": invalid CIDR address: "
    );
    assert_eq!(
        transit("10.244.0.0/24", "10.244.0.0/16"),
        "pod or join subnet overlaps with already configured internal subnets: user defined subnet \
         \"10.244.0.0/24\" overlaps cluster subnet \"10.244.0.0/16\""
    );
}

#[test]
fn a_definition_without_transit_range_is_checked_with_the_one_that_it_gets() {
    let both = ClusterSettings { families: IpFamily::BOTH.to_vec(), ..settings() };
    let layer2 = |subnets: &str| {
        let config = json!({"topology": "layer2", "role": "primary", "subnets": subnets});
        checked(&config, &both)
    };
    assert_eq!(layer2("100.88.0.0/16,fd20::/64"), "network");
    assert_eq!(
        layer2("10.1.0.0/16,10.2.0.0/16"),
        "invalid subnet configuration: pod or join subnet overlaps with already configured internal \
         subnets: transit switch subnet \"100.88.0.0/16\" overlaps transit switch subnet \
         \"100.88.0.0/16\""
    );
    assert_eq!(
        layer2("10.1.0.0/16, fd20::/64"),
        "failed to set dynamic transit subnet for layer2 primary NAD own: can't generate transit \
         subnets: failed to parse CIDR \" fd20::/64\": invalid CIDR address:  fd20::/64"
    );
    let secondary = json!({"topology": "layer2", "subnets": "10.1.0.0/16, 10.2.0.0/16"});
    assert_eq!(checked(&secondary, &both), "network");
}
