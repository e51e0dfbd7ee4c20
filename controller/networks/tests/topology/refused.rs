//! Definitions that the cluster manager refuses after their networks have got ids.

use patchbay_model::ClusterSettings;
use patchbay_schemas::nb::{LogicalRouter, LogicalSwitch, LogicalSwitchPort};
use patchbay_zone::ZoneObjects;

use super::support::{TWO_NODES, Zone, ipv4_settings, zone_networks};

/// The settings of the cluster.
fn settings() -> ClusterSettings {
    ClusterSettings {
        cluster_subnets: vec!["10.128.0.0/14".parse().unwrap()],
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        ..ipv4_settings(&[])
    }
}

/// An attachment definition of a user, with the annotations that it got from the cluster manager.
fn annotated(name: &str, id: u32, config: &str) -> String {
    let keys = format!("[{},{}]", 16_711_683 + id, 16_715_779 + id);
    format!(
        r#"
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  name: {name}
  namespace: green
  annotations:
    k8s.ovn.org/network-name: {name}
    k8s.ovn.org/network-id: '{id}'
    k8s.ovn.org/tunnel-keys: '{keys}'
spec:
  config: '{{"cniVersion":"1.1.0","name":"{name}","netAttachDefName":"green/{name}","type":"ovn-k8s-cni-overlay",{config}}}'
"#
    )
}

/// The networks of these definitions.
fn networks(definitions: &[String]) -> ZoneObjects {
    let namespace = r#"---
{apiVersion: v1, kind: Namespace, metadata: {name: green, labels: {k8s.ovn.org/primary-user-defined-network: ""}}}
"#;
    let yaml = TWO_NODES.to_owned() + namespace + &definitions.concat();
    zone_networks(&yaml, &settings(), None)
}

/// The network of one definition.
fn network(config: &str) -> ZoneObjects {
    networks(&[annotated("net", 3, config)])
}

/// Columns that show the network, and the number of all rows.
fn shown(zone: &Zone) -> (usize, Vec<String>) {
    let routers: Vec<LogicalRouter> = zone.rows();
    let switches: Vec<LogicalSwitch> = zone.rows();
    let ports: Vec<LogicalSwitchPort> = zone.rows();
    let routers = routers.iter().map(|row| format!("{row:?}"));
    let switches = switches.iter().map(|row| format!("{row:?}"));
    let ports = ports.iter().map(|row| format!("{row:?}"));
    let mut texts: Vec<String> = routers.chain(switches).chain(ports).collect();
    texts.sort();
    (zone.database.snapshot().row_count(), texts)
}

#[test]
fn rows_of_a_definition_that_gets_an_error_stay_as_they_were() {
    let layer2 = r#""topology":"layer2","role":"primary","subnets":"10.20.0.0/16""#;
    let layer3 = r#""topology":"layer3","role":"primary","subnets":"10.20.0.0/16/24""#;
    let localnet = r#""topology":"localnet","subnets":"10.20.0.0/24","physicalNetworkName":"p""#;
    for (good, refused) in [
        (layer2, layer2.replace("10.20.0.0/16", "10.96.0.0/20")),
        (layer2, layer2.replace("10.20.0.0/16", "10.20.0.0/16,fd20::/64")),
        (layer2, format!(r#"{layer2},"mtu":1300,"reservedSubnets":"10.30.0.0/24""#)),
        (layer2, format!(r#"{layer2},"mtu":1300,"joinSubnet":"10.20.4.0/24""#)),
        (layer3, layer3.replace("10.20.0.0/16", "10.129.0.0/16")),
        (layer3, format!(r#"{layer3},"allowPersistentIPs":true"#).replace("/24", "/25")),
        (localnet, format!(r#"{localnet},"vlanID":5,"excludeSubnets":"10.30.0.0/24""#)),
        (localnet, format!(r#"{localnet},"vlanID":5,"joinSubnet":"10.30.0.0/24""#)),
    ] {
        let mut zone = Zone::new();
        zone.settle(&network(good));
        let before = shown(&zone);
        assert!(before.1.iter().any(|row| row.contains("10.20.0.0")), "{before:?}");
        let refused = network(&refused);
        zone.settle(&refused);
        assert_eq!(shown(&zone), before);
        // It defines no network in a zone that has none of its rows.
        let mut empty = Zone::new();
        empty.settle(&refused);
        assert!(empty.rows::<LogicalSwitch>().is_empty());
        zone.settle(&network(&good.replace("10.20.0.0", "10.21.0.0")));
        assert_ne!(shown(&zone), before);
    }
}

#[test]
fn a_refused_definition_keeps_the_rows_of_its_own_network_only() {
    let layer2 = r#""topology":"layer2","role":"secondary","subnets":"10.20.0.0/16""#;
    let other = annotated("other", 4, &layer2.replace("10.20.", "10.30."));
    let mut zone = Zone::new();
    zone.settle(&networks(&[annotated("net", 3, layer2), other]));
    assert_eq!(zone.rows::<LogicalSwitch>().len(), 2);
    zone.settle(&network(&layer2.replace("10.20.0.0", "10.96.0.0")));
    let left: Vec<LogicalSwitch> = zone.rows();
    let left: Vec<&str> = left.iter().map(|switch| &*switch.name).collect();
    assert_eq!(left, ["net_ovn_layer2_switch"]);
}

#[test]
fn an_unreadable_definition_keeps_the_rows_of_the_network_that_it_names_only() {
    let layer2 = r#""topology":"layer2","role":"secondary","subnets":"10.20.0.0/16""#;
    let other = annotated("other", 4, &layer2.replace("10.20.", "10.30."));
    let broken = annotated("net", 3, layer2).replace("\"cniVersion\"", "cniVersion");
    let unnamed = broken.replace("k8s.ovn.org/network-name: net", "note: text");
    let both = ["net_ovn_layer2_switch", "other_ovn_layer2_switch"];
    for (broken, expected) in [(broken, &both[..1]), (unnamed, &both[..])] {
        let mut zone = Zone::new();
        zone.settle(&networks(&[annotated("net", 3, layer2), other.clone()]));
        zone.settle(&networks(&[broken]));
        let left: Vec<LogicalSwitch> = zone.rows();
        let mut left: Vec<&str> = left.iter().map(|switch| &*switch.name).collect();
        left.sort_unstable();
        assert_eq!(left, expected);
    }
}
