//! Networks on an EVPN fabric, from attachment definitions: each zone has its own switch and
//! router.

use super::*;

/// A definition on the fabric, with more fields of the configuration.
fn definition(name: &str, topology: &str, more: &str) -> String {
    support::definition(name, topology, &format!(r#""transport":"evpn",{more}"#))
}

#[test]
fn a_layer2_network_has_a_port_to_the_fabric_and_no_tunnel_keys() {
    let subnets = r#""subnets":"10.20.0.0/16,fd20::/64","transitSubnet":"100.88.0.0/16,fd97::/64""#;
    let yaml = CLUSTER.to_owned() + &definition("fabric", "layer2", subnets);
    let rows = rows_with(&yaml, "n1", &dual_stack());
    assert_eq!(rows.skipped, []);
    let printed = print(&rows.networks[0]);
    for line in [
        "router fabric_transit_router | always_learn_from_arp_request=false | ",
        "switch fabric_ovn_layer2_switch | ipv6_prefix=fd20:: mcast_flood_unregistered=true \
         mcast_querier=false mcast_snoop=true subnet=10.20.0.0/16 | ",
        "  macvrf-fabric_ovn_layer2_switch \"\" unknown |  | k8s.ovn.org/network=fabric \
         k8s.ovn.org/topology=layer2",
        "  to-lport 1000 2 drop outport==\"macvrf-fabric_ovn_layer2_switch\" && \
         eth.dst==0a:58:0a:14:00:01 && arp && arp.op==1 && arp.tpa==10.20.0.1 | direction=Ingress \
         k8s.ovn.org/id=fabric-network-controller:UDNIsolation:DenyOnMACVRF-GatewayARP:Ingress \
         k8s.ovn.org/name=DenyOnMACVRF-GatewayARP \
         k8s.ovn.org/owner-controller=fabric-network-controller k8s.ovn.org/owner-type=UDNIsolation",
        "  to-lport 1000 2 drop outport==\"macvrf-fabric_ovn_layer2_switch\" && \
         eth.dst==0a:58:0a:14:00:01 && nd_ns && nd.target==fd20::1 | direction=Ingress \
         k8s.ovn.org/id=fabric-network-controller:UDNIsolation:DenyOnMACVRF-GatewayNS:Ingress",
    ] {
        assert!(printed.contains(line), "{line}\n{printed}");
    }
    assert!(!printed.contains("n2") && !printed.contains("interconn"), "{printed}");
}

#[test]
fn a_layer3_network_has_no_transit_switch() {
    let yaml =
        CLUSTER.to_owned() + &definition("fabric", "layer3", r#""subnets":"10.30.0.0/16/24""#);
    let rows = rows(&yaml, "n1");
    assert_eq!(rows.skipped, []);
    let printed = print(&rows.networks[0]);
    assert!(!printed.contains("transit") && !printed.contains("n2"), "{printed}");
    let route = "  route 10.30.0.0/16 via 100.65.0.1 | ";
    let nat = "  snat 10.30.0.0/16 to 169.254.0.11  | ";
    assert!(printed.contains(route) && printed.contains(nat), "{printed}");
}
