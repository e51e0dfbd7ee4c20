//! Addresses of a network's router and of the node itself.

use patchbay_allocate::networks::resolve;
use patchbay_model::{ClusterSettings, Feature, NODE_SUBNETS, mac_address};
use patchbay_networks::{NetworkRows, network_rows};
use patchbay_resources::conversion::network_objects;
use patchbay_resources::object::Time;

use super::support::{definition, ipv4_settings, read_zone};
use super::{CLUSTER, LAYER2, LAYER3, dual_stack, inventory, print, rows, rows_with};

#[test]
fn dual_stack_layer2_with_addresses_of_its_own() {
    let yaml = CLUSTER.to_owned()
        + &LAYER2.replace(
            "subnets: [10.20.0.0/16]",
            "mtu: 1300, subnets: ['fd20::/64', 10.20.0.0/16], infrastructureSubnets: [10.20.5.0/24, 'fd20::/126'], \
             defaultGatewayIPs: [10.20.5.1, 'fd20::2']",
        );
    let rows = rows_with(&yaml, "n2", &dual_stack());
    let printed = print(&rows.networks[0]);
    assert!(printed.contains(
        "  trtos-green_l2_ovn_layer2_switch 0a:58:0a:14:05:01 10.20.5.1/16,fd20::2/64 | "
    ));
    assert!(printed.contains(
        "max_interval=900 min_interval=300 mtu=1300 router_preference=LOW send_periodic=true"
    ));
    // The order of addresses is that of the subnets.
    assert!(
        printed.contains("  k8s-green_l2_n2 \"\" 0a:58:4d:5a:1c:75 fd20::1 10.20.5.0 |"),
        "{printed}"
    );
    assert!(
        printed.contains("  trtor-GR_green_l2_n2 0a:58:c3:f8:4b:ae 100.88.0.6/31,fd97::6/127 |")
    );
    assert!(printed.contains("ipv6_prefix=fd20:: mcast"), "{printed}");
    assert!(printed.contains("allow-related ip6.src==fd20::1 |"), "{printed}");
}

#[test]
fn a_layer3_network_has_its_addresses_in_the_order_of_the_nodes_subnets() {
    let layer3 = LAYER3.replace(
        "cidr: 10.10.0.0/16, hostSubnet: 24",
        "cidr: 10.10.0.0/16, hostSubnet: 24}, {cidr: 'fd10::/48', hostSubnet: 64",
    );
    let mut inventory = inventory(&(CLUSTER.to_owned() + &layer3));
    let settings = ClusterSettings { features: [Feature::Multicast].into(), ..dual_stack() };
    let now = Time(jiff::Timestamp::from_second(0).unwrap());
    resolve(&mut inventory, &settings, &now).unwrap();
    let mut objects = network_objects(&inventory, &settings);
    let node = objects.nodes.iter_mut().find(|node| node.name == "n1").unwrap();
    let mut annotations = node.annotations.unwrap().clone();
    let subnets = r#"{"blue_l3":["fd10::/64","10.10.0.0/24"]}"#;
    annotations.insert(NODE_SUBNETS.to_owned(), subnets.to_owned());
    node.annotations = Some(&annotations);
    let networks = read_zone(&objects, "n1", &settings);
    let printed = print(&network_rows(&networks, "blue_l3").unwrap().unwrap());
    let mac = mac_address("fd10::2".parse().unwrap());
    for line in [
        format!("  k8s-blue_l3_n1 \"\" {mac} fd10::2 10.10.0.2 |"),
        // The router's ports have MAC addresses of IPv4.
        "  rtos-blue_l3_n1 0a:58:0a:0a:00:01 10.10.0.1/24,fd10::1/64 |".to_owned(),
        "mcast_eth_src=0a:58:0a:0a:00:01 mcast_ip4_src=10.10.0.1 \
         mcast_ip6_src=fe80::858:aff:fe0a:1 "
            .to_owned(),
        format!("eth.dst == {mac}"),
    ] {
        assert!(printed.contains(&line), "{line}\n{printed}");
    }
}

/// Addresses of a family that only the transit subnets have, as recorded in
/// `l2-transit-of-both-families`. Routes need a join address, which the gateway router has for each
/// family of the cluster.
#[test]
fn all_transit_subnets_have_addresses_whatever_the_families_of_the_network() {
    let subnets = r#""subnets":"10.20.0.0/16","transitSubnet":"fd97::/64,100.88.0.0/16""#;
    let yaml = CLUSTER.to_owned() + &definition("mixed", "layer2", subnets);
    let mac = mac_address("fd97::4".parse().unwrap());
    let port = format!("  trtor-GR_mixed_n1 {mac} 100.88.0.4/31,fd97::4/127 |");
    let gateway = "100.65.0.2/16,100.88.0.5/31,fd97::5/127,fd99::2/64 |";
    let routes = ["  route fd99::2 via fd97::5 |", "  route fd99::3 via fd97::7 |"];
    let printed = print(&rows_with(&yaml, "n1", &dual_stack()).networks[0]);
    for line in [&port, gateway].into_iter().chain(routes) {
        assert!(printed.contains(line), "{line}\n{printed}");
    }
    let printed = print(&rows_with(&yaml, "n1", &ipv4_settings(&[])).networks[0]);
    assert!(printed.contains(&port), "{printed}");
    for route in routes {
        assert!(!printed.contains(route), "{route}\n{printed}");
    }
    for route in ["  route 100.65.0.2 via 100.88.0.5 |", "  route 100.65.0.3 via 100.88.0.7 |"] {
        assert!(printed.contains(route), "{route}\n{printed}");
    }
}

#[test]
fn gateway_and_node_have_addresses_of_the_ranges_that_are_set_aside() {
    for (config, gateway, node) in [
        ("infrastructureSubnets: [10.20.0.4/30]", "10.20.0.4", "10.20.0.5"),
        ("infrastructureSubnets: [10.20.0.0/30]", "10.20.0.1", "10.20.0.2"),
        (
            "infrastructureSubnets: [10.20.255.255/32, 10.20.0.9/32, 10.20.0.7/32]",
            "10.20.0.9",
            "10.20.0.7",
        ),
        (
            "infrastructureSubnets: [10.20.0.8/32, 10.20.0.9/32], defaultGatewayIPs: [10.20.0.8]",
            "10.20.0.8",
            "10.20.0.9",
        ),
        (
            "infrastructureSubnets: [10.20.0.8/31], defaultGatewayIPs: [10.20.0.9]",
            "10.20.0.9",
            "10.20.0.8",
        ),
        ("defaultGatewayIPs: [10.20.0.2]", "10.20.0.2", "10.20.0.1"),
    ] {
        let network = LAYER2.replace("10.20.0.0/16]", &format!("10.20.0.0/16], {config}"));
        let rows = rows(&(CLUSTER.to_owned() + &network), "n1");
        let NetworkRows { routers, switches, .. } = &rows.networks[0];
        let port = &routers[0].ports[0].port;
        assert!(port.networks.contains(&format!("{gateway}/16")), "{config}: {port:?}");
        let port = &switches[0].ports[1];
        assert!(
            port.addresses.iter().any(|address| address.ends_with(&format!(" {node}"))),
            "{config}: {port:?}"
        );
    }
    let full =
        "10.20.0.0/16], infrastructureSubnets: [10.20.0.8/32], defaultGatewayIPs: [10.20.0.8]";
    let rows = rows(&(CLUSTER.to_owned() + &LAYER2.replace("10.20.0.0/16]", full)), "n1");
    assert_eq!(
        rows.skipped[0].reason.to_string(),
        "infrastructureSubnets in 10.20.0.0/16 are too small for the addresses of the router and of the node itself"
    );
}
