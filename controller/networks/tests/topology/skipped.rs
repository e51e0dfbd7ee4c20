//! Networks that have no place in a zone.

use patchbay_model::ClusterSettings;
use patchbay_resources::conversion::network_objects;

use super::{CLUSTER, LAYER2, LAYER3, ZoneRows, dual_stack, inventory, rows, rows_with, zone_rows};

/// The networks that are skipped, and why.
fn reasons(rows: &ZoneRows) -> Vec<String> {
    let skipped = rows.skipped.iter();
    skipped.map(|skipped| format!("{}: {}", skipped.network, skipped.reason)).collect()
}

#[test]
fn networks_without_a_place_say_why() {
    let yaml = CLUSTER.to_owned() + LAYER3 + LAYER2;
    assert_eq!(
        reasons(&rows(&yaml, "elsewhere")),
        [
            "blue_l3: there is no node of the name of the zone",
            "green_l2: there is no node of the name of the zone",
        ]
    );
    let full = yaml
        .replace("cidr: 10.10.0.0/16, hostSubnet: 24", "cidr: 10.10.0.0/24, hostSubnet: 25")
        + "---\n{apiVersion: v1, kind: Node, metadata: {name: n3}}\n";
    assert_eq!(reasons(&rows(&full, "n3")), ["blue_l3: the node has no subnet of the network"]);
    let bare = inventory(&yaml);
    let rows = zone_rows(
        &network_objects(&bare, &ClusterSettings::default()),
        "n1",
        &ClusterSettings::default(),
    );
    assert!(rows.networks.is_empty() && rows.skipped.is_empty());
}

#[test]
fn a_vlan_id_that_the_database_cannot_hold_skips_its_network_only() {
    let with_vlan = |id: i64| {
        let config = format!(
            r#"{{"cniVersion": "1.1.0", "type": "ovn-k8s-cni-overlay", "name": "phys", "netAttachDefName": "green/phys", "topology": "localnet", "vlanID": {id}}}"#
        );
        let yaml = CLUSTER.to_owned()
            + LAYER3
            + "---\n{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, "
            + "metadata: {name: phys, namespace: green}, "
            + &format!("spec: {{config: '{config}'}}}}\n");
        rows(&yaml, "n1")
    };
    for id in [-1, 4096] {
        let rows = with_vlan(id);
        let reason = format!("phys: spec.config: vlanID {id} is not in 1..=4095");
        assert_eq!(reasons(&rows), [reason]);
        assert_eq!(rows.networks.len(), 1);
    }
    assert_eq!(reasons(&with_vlan(4095)), [""; 0]);
}

#[test]
fn networks_without_room_for_router_and_node_are_skipped() {
    let layer2 = |subnets: &str| LAYER2.replace("subnets: [10.20.0.0/16]", subnets);
    for (network, subnet) in [
        (layer2("subnets: [10.20.0.0/32]"), "10.20.0.0/32"),
        (layer2("subnets: [10.20.0.0/31]"), "10.20.0.0/31"),
        (layer2("subnets: [10.20.0.0/32], defaultGatewayIPs: [10.20.0.0]"), "10.20.0.0/32"),
        (layer2("subnets: [10.20.0.0/24, 'fd20::/128']"), "fd20::/128"),
        (
            LAYER3
                .replace("name: l3, namespace: blue", "name: l2, namespace: green")
                .replace("hostSubnet: 24", "hostSubnet: 31"),
            "10.10.0.0/31",
        ),
    ] {
        let yaml = CLUSTER.to_owned() + LAYER3 + &network;
        let rows = rows_with(&yaml, "n1", &dual_stack());
        let made: Vec<_> = rows.networks.iter().map(|rows| &*rows.network).collect();
        assert_eq!(made, ["blue_l3"], "{network}");
        assert_eq!(
            reasons(&rows),
            [format!(
                "green_l2: subnet {subnet} is too small for the addresses of the router and of the node itself"
            )]
        );
    }
    let large_enough = layer2("subnets: [10.20.0.0/31], defaultGatewayIPs: [10.20.0.0]");
    assert!(reasons(&rows(&(CLUSTER.to_owned() + &large_enough), "n1")).is_empty());
}

#[test]
fn of_networks_whose_rows_share_names_the_one_with_the_lower_id_is_made() {
    let cudn = |name: &str, namespace: &str, network: &str| {
        format!(
            "
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {{name: {name}}}
spec:
  namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {namespace}}}}}
  network: {network}
"
        )
    };
    let layer3 = "{topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.1.0.0/16, hostSubnet: 24}]}}";
    let layer2 = "{topology: Layer2, layer2: {role: Secondary, subnets: [10.2.0.0/16]}}";
    for (first, second) in [("a.b", "a-b"), ("a-b", "a.b")] {
        let yaml =
            CLUSTER.to_owned() + &cudn(first, "green", layer3) + &cudn(second, "blue", layer2);
        let rows = rows(&yaml, "n1");
        let made: Vec<_> = rows.networks.iter().map(|rows| &*rows.network).collect();
        assert_eq!(made, [format!("cluster_udn_{first}")]);
        assert_eq!(
            reasons(&rows),
            [format!(
                "cluster_udn_{second}: its routers and switches would have the names of those of network \
                 cluster_udn_{first}"
            )]
        );
    }
}

#[test]
fn a_definition_that_cannot_be_read_keeps_its_network_out() {
    let definition = |config: &str| {
        format!(
            "---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {{name: net, namespace: blue, annotations: {{k8s.ovn.org/network-id: '7'}}}}
spec: {{config: '{{\"name\":\"n\",\"netAttachDefName\":\"blue/net\",\"type\":\"ovn-k8s-cni-overlay\",\"topology\":\"layer2\",{config}}}'}}
"
        )
    };
    for (config, reason) in [
        (r#""mtu":-1"#, r"spec.config: mtu: invalid value: integer `-1`, expected u32"),
        (
            r#""defaultGatewayIPs":"10.0.0.1,none""#,
            r#"spec.config: defaultGatewayIPs: "none": invalid IP address syntax"#,
        ),
    ] {
        let inventory = inventory(&(CLUSTER.to_owned() + &definition(config)));
        let settings = ClusterSettings::default();
        let rows = zone_rows(&network_objects(&inventory, &settings), "n1", &settings);
        assert!(rows.networks.is_empty());
        let shown = rows.skipped[0].reason.to_string();
        assert!(shown.starts_with(reason), "{shown}");
    }
}
