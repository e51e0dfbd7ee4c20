//! Nodes whose ids are not known yet: the rows that do not follow from them.

use std::collections::BTreeMap;

use patchbay_allocate::networks::resolve;
use patchbay_model::{NODE_CHASSIS_ID, NODE_ID};
use patchbay_networks::skipped_networks;
use patchbay_resources::conversion::network_objects;
use patchbay_resources::object::Time;
use patchbay_schemas::nb::{
    LogicalRouter, LogicalRouterPort, LogicalSwitch, LogicalSwitchPort, Nat,
};
use patchbay_zone::ZoneObjects;

use crate::inventory;
use crate::support::{TWO_NODES, Zone, ipv4_settings, read_zone};

const LAYER2: &str = "{topology: Layer2, layer2: {role: Primary, subnets: [10.10.0.0/16]}}";
const LAYER3: &str =
    "{topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.10.0.0/16, hostSubnet: 24}]}}";

/// A network on two nodes. The first one, that of the zone, lacks these annotations.
fn networks(network: &str, missing: &[&str]) -> ZoneObjects {
    networks_without(network, 0, missing)
}

/// A network on two nodes, of which one lacks these annotations.
fn networks_without(network: &str, node: usize, missing: &[&str]) -> ZoneObjects {
    let yaml = format!(
        "{TWO_NODES}- apiVersion: k8s.ovn.org/v1\n  kind: UserDefinedNetwork\n  \
         metadata: {{name: net, namespace: blue}}\n  spec: {network}\n"
    );
    let settings = ipv4_settings(&[]);
    let mut inventory = inventory(&yaml);
    let now = Time(jiff::Timestamp::from_second(0).unwrap());
    resolve(&mut inventory, &settings, &now).unwrap();
    let mut objects = network_objects(&inventory, &settings);
    let mut annotations: BTreeMap<String, String> =
        objects.nodes[node].annotations.unwrap().clone();
    annotations.retain(|key, _| !missing.contains(&key.as_str()));
    objects.nodes[node].annotations = Some(&annotations);
    read_zone(&objects, "n1", &settings)
}

/// Names of routers, switches and their ports, and the number of NAT rows.
fn names(zone: &Zone) -> Vec<String> {
    let routers = zone.rows::<LogicalRouter>().into_iter();
    let switches = zone.rows::<LogicalSwitch>().into_iter();
    let router_ports = zone.rows::<LogicalRouterPort>().into_iter();
    let switch_ports = zone.rows::<LogicalSwitchPort>().into_iter();
    let mut names: Vec<String> = routers
        .map(|row| row.name)
        .chain(switches.map(|row| row.name))
        .chain(router_ports.map(|row| row.name))
        .chain(switch_ports.map(|row| row.name))
        .chain([format!("{} NAT", zone.rows::<Nat>().len())])
        .collect();
    names.sort();
    names
}

/// The rows of a network once the ids of the zone's node come one after the other, and that they
/// stay when the ids are lost again.
fn rows_by_ids(network: &str) -> [Vec<String>; 4] {
    let missing: [&[&str]; 4] = [&[NODE_ID, NODE_CHASSIS_ID], &[NODE_ID], &[NODE_CHASSIS_ID], &[]];
    missing.map(|missing| {
        let mut zone = Zone::new();
        zone.settle(&networks(network, &[NODE_ID, NODE_CHASSIS_ID]));
        let with_ids = networks(network, missing);
        assert_eq!(skipped_networks(&with_ids).is_empty(), missing.is_empty());
        zone.settle(&with_ids);
        let made = names(&zone);
        zone.settle(&networks(network, &[NODE_ID, NODE_CHASSIS_ID]));
        assert_eq!(names(&zone), made);
        made
    })
}

/// Names of the second list that the first one lacks.
fn added(former: &[String], names: &[String]) -> Vec<String> {
    assert!(former[1..].iter().all(|name| names.contains(name)));
    let added = names.iter().filter(|name| !former.contains(name));
    added.cloned().collect()
}

#[test]
fn a_layer3_network_waits_for_ids_with_what_follows_from_them() {
    let [bare, chassis, id, all] = rows_by_ids(LAYER3);
    assert_eq!(
        bare,
        [
            "1 NAT",
            "blue_net_join",
            "blue_net_n1",
            "blue_net_ovn_cluster_router",
            "blue_net_transit_switch",
            "blue_net_tstor-n2",
            "jtor-blue_net_ovn_cluster_router",
            "k8s-blue_net_n1",
            "rtoj-blue_net_ovn_cluster_router",
            "stor-blue_net_n1",
        ]
    );
    assert_eq!(added(&bare, &chassis), ["rtos-blue_net_n1"]);
    let transit = ["blue_net_rtots-n1", "blue_net_tstor-n1"];
    assert_eq!(added(&bare, &id), transit);
    let added_by_both = added(&bare, &all);
    for name in ["GR_blue_net_n1", "jtor-GR_blue_net_n1", "rtos-blue_net_n1"] {
        assert!(added_by_both.iter().any(|added| added == name), "{name}");
    }
}

#[test]
fn a_layer2_network_waits_for_ids_with_what_follows_from_them() {
    let [bare, chassis, id, all] = rows_by_ids(LAYER2);
    assert_eq!(
        bare,
        [
            "0 NAT",
            "blue_net_ovn_layer2_switch",
            "blue_net_transit_router",
            "k8s-blue_net_n1",
            "stotr-blue_net_ovn_layer2_switch",
            "trtor-GR_blue_net_n2",
        ]
    );
    assert_eq!(added(&bare, &chassis), ["trtos-blue_net_ovn_layer2_switch"]);
    assert_eq!(id, bare);
    let added_by_both = added(&bare, &all);
    for name in ["GR_blue_net_n1", "trtor-GR_blue_net_n1"] {
        assert!(added_by_both.iter().any(|added| added == name), "{name}");
    }
}

#[test]
fn a_layer2_network_leads_to_a_node_whose_id_comes_last() {
    let mut zone = Zone::new();
    let has_port = |zone: &Zone| names(zone).contains(&"trtor-GR_blue_net_n2".to_owned());
    zone.settle(&networks_without(LAYER2, 1, &[NODE_ID]));
    assert!(!has_port(&zone));
    zone.settle(&networks_without(LAYER2, 1, &[]));
    assert!(has_port(&zone));
}

#[test]
fn a_secondary_layer2_network_does_not_wait_for_ids() {
    let secondary = "{topology: Layer2, layer2: {role: Secondary, subnets: [10.10.0.0/16]}}";
    let bare = networks(secondary, &[NODE_ID, NODE_CHASSIS_ID]);
    assert!(skipped_networks(&bare).is_empty());
    let mut zone = Zone::new();
    zone.settle(&bare);
    assert_eq!(names(&zone), ["0 NAT", "blue_net_ovn_layer2_switch"]);
}
