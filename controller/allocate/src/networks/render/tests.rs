//! Configurations against the texts that OVN-Kubernetes writes.

use patchbay_model::IpFamily;
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::udn::{ClusterUserDefinedNetworkSpec, UserDefinedNetworkSpec};

use super::*;

fn udn(
    namespace: &str,
    name: &str,
    spec: &str,
    settings: &ClusterSettings,
) -> Result<String, String> {
    let spec: UserDefinedNetworkSpec = serde_saphyr::from_str(spec).unwrap();
    let request = NetworkRequest::of_udn(&ObjectKey::namespaced(namespace, name), &spec)
        .map_err(|error| error.to_string())?;
    request.render(&format!("{namespace}/{name}"), settings).map_err(|error| error.to_string())
}

fn cudn(name: &str, nad: &str, network: &str) -> Result<String, String> {
    let spec: ClusterUserDefinedNetworkSpec =
        serde_saphyr::from_str(&format!("{{namespaceSelector: {{}}, {network}}}")).unwrap();
    let request = NetworkRequest::of_cudn(name, &spec).map_err(|error| error.to_string())?;
    request.render(nad, &ClusterSettings::default()).map_err(|error| error.to_string())
}

#[test]
fn layer3_primary() {
    let spec = "{topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.10.0.0/16, hostSubnet: 24}]}}";
    assert_eq!(
        udn("blue", "l3", spec, &ClusterSettings::default()).unwrap(),
        r#"{"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","name":"blue_l3","netAttachDefName":"blue/l3","role":"primary","subnets":"10.10.0.0/16/24","topology":"layer3","type":"ovn-k8s-cni-overlay"}"#
    );
}

#[test]
fn layer2_primary_and_secondary() {
    let spec = "{topology: Layer2, layer2: {role: Primary, subnets: [10.20.0.0/16], ipam: {lifecycle: Persistent}}}";
    assert_eq!(
        udn("green", "l2", spec, &ClusterSettings::default()).unwrap(),
        r#"{"allowPersistentIPs":true,"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","name":"green_l2","netAttachDefName":"green/l2","role":"primary","subnets":"10.20.0.0/16","topology":"layer2","transitSubnet":"100.88.0.0/16","type":"ovn-k8s-cni-overlay"}"#
    );
    let spec = "{topology: Layer2, layer2: {role: Secondary, subnets: [10.30.0.0/24]}}";
    assert_eq!(
        udn("green", "s2", spec, &ClusterSettings::default()).unwrap(),
        r#"{"cniVersion":"1.1.0","name":"green_s2","netAttachDefName":"green/s2","role":"secondary","subnets":"10.30.0.0/24","topology":"layer2","type":"ovn-k8s-cni-overlay"}"#
    );
}

#[test]
fn localnet() {
    let network = "network: {topology: Localnet, localnet: {role: Secondary, physicalNetworkName: phys1,
        subnets: [192.168.100.0/24], excludeSubnets: [192.168.100.0/28], vlan: {mode: Access, access: {id: 20}}}}";
    assert_eq!(
        cudn("lan", "red/lan", network).unwrap(),
        r#"{"cniVersion":"1.1.0","excludeSubnets":"192.168.100.0/28","mtu":1500,"name":"cluster_udn_lan","netAttachDefName":"red/lan","physicalNetworkName":"phys1","role":"secondary","subnets":"192.168.100.0/24","topology":"localnet","type":"ovn-k8s-cni-overlay","vlanID":20}"#
    );
}

#[test]
fn all_fields_are_written_in_alphabetical_order() {
    let network = "network: {topology: Layer2, layer2: {role: Primary, mtu: 1300, subnets: [10.0.0.0/16, 'fd10::/64'],
        reservedSubnets: [10.0.1.0/24], infrastructureSubnets: [10.0.0.0/24], defaultGatewayIPs: [10.0.0.9, 'fd10::9'],
        joinSubnets: [100.66.0.0/16]}}, uplinks: [eth0]";
    assert_eq!(
        cudn("all", "a/all", network).unwrap(),
        r#"{"cniVersion":"1.1.0","defaultGatewayIPs":"10.0.0.9,fd10::9","infrastructureSubnets":"10.0.0.0/24","joinSubnet":"100.66.0.0/16","mtu":1300,"name":"cluster_udn_all","netAttachDefName":"a/all","reservedSubnets":"10.0.1.0/24","role":"primary","subnets":"10.0.0.0/16,fd10::/64","topology":"layer2","transitSubnet":"100.88.0.0/16,fd97::/64","type":"ovn-k8s-cni-overlay","uplink":"eth0"}"#
    );
    let network =
        "network: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.0.0.0/16}]},
        transport: NoOverlay, noOverlay: {outboundSNAT: Disabled, routing: Managed}}";
    assert_eq!(
        cudn("flat", "a/flat", network).unwrap(),
        r#"{"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","name":"cluster_udn_flat","netAttachDefName":"a/flat","outboundSNAT":"disabled","role":"primary","subnets":"10.0.0.0/16","topology":"layer3","transport":"no-overlay","type":"ovn-k8s-cni-overlay"}"#
    );
}

#[test]
fn transit_ranges_move_behind_the_networks_subnets() {
    let moved = |subnets: &[&str]| {
        let config = CniConfig {
            topology: "layer2".into(),
            role: "primary".into(),
            subnets: Some(subnets.join(",")),
            ..CniConfig::default()
        };
        config_check::transit_subnets(&config, &ClusterSettings::default()).unwrap()
    };
    assert_eq!(moved(&["10.0.0.0/16"]), "100.88.0.0/16");
    assert_eq!(moved(&["100.88.1.0/24"]), "100.89.0.0/16");
    assert_eq!(moved(&["100.80.0.0/12"]), "100.96.0.0/16");
    assert_eq!(moved(&["100.88.0.0/15", "fd97::/48"]), "100.90.0.0/16,fd97:0:1::/64");
}

#[test]
fn networks_that_conflict_with_the_cluster_are_refused() {
    let settings = ClusterSettings {
        cluster_subnets: vec!["10.244.0.0/16".parse().unwrap()],
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        families: vec![IpFamily::V4],
        ..ClusterSettings::default()
    };
    let error = |spec: &str| udn("n", "u", spec, &settings).unwrap_err();
    let layer3 = |subnets: &str| {
        format!("{{topology: Layer3, layer3: {{role: Primary, subnets: [{subnets}]}}}}")
    };
    let overlaps = "invalid subnet configuration: pod or join subnet overlaps with already configured internal subnets: ";
    for (spec, expected) in [
        (layer3("{cidr: 10.244.8.0/21}"), format!("{overlaps}user defined subnet \"10.244.8.0/21\" overlaps cluster subnet \"10.244.0.0/16\"")),
        (layer3("{cidr: 10.0.0.0/8}"), format!("{overlaps}user defined subnet \"10.0.0.0/8\" overlaps cluster subnet \"10.244.0.0/16\"")),
        (layer3("{cidr: 10.96.0.0/20}"), format!("{overlaps}user defined subnet \"10.96.0.0/20\" overlaps service subnet \"10.96.0.0/16\"")),
        (layer3("{cidr: 100.88.0.0/17}"), format!("{overlaps}user defined subnet \"100.88.0.0/17\" overlaps transit switch subnet \"100.88.0.0/16\"")),
        (layer3("{cidr: 100.65.0.0/17}"), format!("{overlaps}user defined join subnet \"100.65.0.0/16\" overlaps user defined subnet \"100.65.0.0/17\"")),
        (layer3("{cidr: 'fd00::/48'}"), "invalid subnet configuration: error while parsing subnets: network n_u is attempting to use ipv6 subnets but the cluster does not support ipv6".into()),
        (layer3("{cidr: 11.0.0.0/24}"), "invalid subnet configuration: error while parsing subnets: cannot use a host subnet length mask shorter than or equal to the cluster subnet mask. host subnet length: 24, cluster subnet length: 24".into()),
        (layer3("{cidr: 11.0.0.0/16, hostSubnet: 25}, {cidr: 12.0.0.0/16}"), "invalid subnet configuration: error while parsing subnets: all IPv4 cluster subnet entries must have the same host subnet length; found 25 and 24".into()),
        ("{topology: Layer3}".into(), "invalid topology specified: topology Layer3 is specified but Layer3 config is nil".into()),
        ("{topology: Layer2, layer2: {role: Secondary}}".into(), "subnets is required with ipam.mode is Enabled or unset".into()),
        ("{topology: Layer2, layer2: {role: Secondary, subnets: [11.0.0.0/24], ipam: {mode: Disabled}}}".into(), "subnets must be unset when ipam.mode is Disabled".into()),
        ("{topology: Layer2, layer2: {role: Primary, subnets: [11.0.0.0/24], reservedSubnets: [11.0.0.0/28, 12.0.0.0/28]}}".into(), "error while parsing subnets: the provided network subnets do not contain reserved subnets 12.0.0.0/28".into()),
    ] {
        assert_eq!(error(&spec), expected, "{spec}");
    }
    assert_eq!(
        udn("n", "u", &layer3("{cidr: 'fd00::/48', hostSubnet: 65}"), &ClusterSettings::default())
            .unwrap_err(),
        "invalid subnet configuration: error while parsing subnets: IPv6 only supports /64 host subnets"
    );
}
