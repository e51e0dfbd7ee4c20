//! Changes of the zone's own node: nothing of its former gateway stays.

use patchbay_model::{ClusterSettings, GatewayMode};
use patchbay_schemas::nb::{
    GatewayChassis, LogicalRouter, LogicalRouterPolicy, LogicalRouterPort,
    LogicalRouterStaticRoute, Nat,
};
use patchbay_zone::ZoneObjects;

use crate::support::{TWO_NODES, Zone, ipv4_settings, zone_networks};

const LAYER2: &str = "{topology: Layer2, layer2: {role: Primary, subnets: [10.10.0.0/16]}}";
const LAYER3: &str = "{topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.10.0.0/16}]}}";

/// The zone's node, as far as the gateway depends on it.
#[derive(Clone, Copy)]
struct Gateway {
    chassis: &'static str,
    mac: &'static str,
    address: &'static str,
    next_hop: &'static str,
}

const FIRST: Gateway = Gateway {
    chassis: "c1",
    mac: "0a:58:ac:12:00:02",
    address: "172.18.0.2",
    next_hop: "172.18.0.1",
};

fn networks(network: &str, gateway: Gateway) -> ZoneObjects {
    let Gateway { chassis, mac, address, next_hop } = gateway;
    let yaml = format!(
        r#"
apiVersion: v1
kind: List
items:
- {{apiVersion: v1, kind: Namespace, metadata: {{name: blue, labels: {{k8s.ovn.org/primary-user-defined-network: ''}}}}}}
- apiVersion: v1
  kind: Node
  metadata:
    name: n1
    annotations:
      k8s.ovn.org/node-chassis-id: {chassis}
      k8s.ovn.org/host-cidrs: '["{address}/16"]'
      k8s.ovn.org/l3-gateway-config: '{{"default":{{"mode":"shared","bridge-id":"br","interface-id":"br_n1","mac-address":"{mac}","ip-addresses":["{address}/16"],"next-hops":["{next_hop}"],"node-port-enable":"true","vlan-id":"0"}}}}'
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {{name: net, namespace: blue}}
  spec: {network}
"#
    );
    zone_networks(&yaml, &ipv4_settings(&[]), None)
}

#[test]
fn each_change_of_the_gateway_is_applied_and_nothing_of_the_former_one_stays() {
    for network in [LAYER2, LAYER3] {
        let mut zone = Zone::new();
        let mut gateway = FIRST;
        let changes: [fn(&mut Gateway); 5] = [
            |_| {},
            |gateway| gateway.mac = "0a:58:ac:12:00:99",
            |gateway| gateway.next_hop = "172.18.0.254",
            |gateway| gateway.address = "172.18.0.22",
            |gateway| gateway.chassis = "c1new",
        ];
        for change in changes {
            change(&mut gateway);
            zone.settle(&networks(network, gateway));

            let ports = zone.rows::<LogicalRouterPort>();
            let mut ports = ports.iter();
            let external = ports.find(|port| port.name.starts_with("rtoe-")).unwrap();
            assert_eq!(external.mac, gateway.mac);
            let routes = zone
                .rows::<LogicalRouterStaticRoute>()
                .into_iter()
                .filter(|route| route.ip_prefix == "0.0.0.0/0");
            let next_hops: Vec<String> = routes.map(|route| route.nexthop).collect();
            assert_eq!(next_hops, [gateway.next_hop]);
            let policies = zone
                .rows::<LogicalRouterPolicy>()
                .into_iter()
                .filter(|policy| policy.r#match.contains(" == 172.18."));
            let matches: Vec<String> = policies.map(|policy| policy.r#match).collect();
            assert_eq!(matches.len(), 1, "{matches:?}");
            assert!(matches[0].contains(&format!(" == {} /*", gateway.address)));
            let chassis = zone.rows::<GatewayChassis>().into_iter();
            let chassis: Vec<String> = chassis.map(|chassis| chassis.chassis_name).collect();
            assert_eq!(chassis, [gateway.chassis]);
        }
    }
}

#[test]
fn an_appended_subnet_has_its_route_and_nat_at_once() {
    let mut zone = Zone::new();
    let appended = LAYER3.replace("}]}}", "}, {cidr: 10.11.0.0/16}]}}");
    for (network, found) in [(LAYER3, 0), (&appended, 1)] {
        zone.settle(&networks(network, FIRST));
        let routes = zone
            .rows::<LogicalRouterStaticRoute>()
            .into_iter()
            .filter(|route| route.ip_prefix == "10.11.0.0/16");
        assert_eq!(routes.count(), found);
        let nats = zone.rows::<Nat>().into_iter().filter(|nat| nat.logical_ip == "10.11.0.0/16");
        assert_eq!(nats.count(), found);
    }
}

/// The node has no gateway.
const DISABLED: &str = r#"
- apiVersion: v1
  kind: Node
  metadata:
    name: n1
    annotations:
      k8s.ovn.org/node-chassis-id: c1
      k8s.ovn.org/l3-gateway-config: '{"default":{"mode":"disabled"}}'
"#;

#[test]
fn without_a_gateway_pods_have_the_way_to_the_host() {
    let shared = GatewayMode::Shared;
    for (network, mode, routes) in [
        (LAYER2, shared, &[][..]),
        (LAYER3, shared, &[]),
        (LAYER2, GatewayMode::Local, &["10.10.0.0/16 10.10.0.2"]),
        (LAYER3, GatewayMode::Local, &["10.10.0.0/24 10.10.0.2"]),
    ] {
        let yaml = format!(
            "apiVersion: v1\nkind: List\nitems:\n- {{apiVersion: v1, kind: Namespace, metadata: \
             {{name: blue, labels: {{k8s.ovn.org/primary-user-defined-network: ''}}}}}}\n\
             - apiVersion: k8s.ovn.org/v1\n  kind: UserDefinedNetwork\n  \
             metadata: {{name: net, namespace: blue}}\n  spec: {network}{DISABLED}"
        );
        let settings = ClusterSettings { gateway_mode: mode, ..ipv4_settings(&[]) };
        let mut zone = Zone::new();
        zone.settle(&zone_networks(&yaml, &settings, None));
        let routers: Vec<String> =
            zone.rows::<LogicalRouter>().into_iter().map(|router| router.name).collect();
        assert_eq!(routers.len(), 1, "{routers:?}");
        let nats: Vec<String> = zone.rows::<Nat>().into_iter().map(|nat| nat.r#match).collect();
        assert_eq!(nats, ["eth.dst == 0a:58:0a:0a:00:02"], "{network}");
        let found = zone
            .rows::<LogicalRouterStaticRoute>()
            .into_iter()
            .map(|route| format!("{} {}", route.ip_prefix, route.nexthop));
        assert_eq!(found.collect::<Vec<_>>(), routes, "{network} {mode:?}");
        assert!(zone.rows::<LogicalRouterPolicy>().is_empty());
    }
}

#[test]
fn the_mtu_of_router_ports_goes_with_the_support_of_the_node() {
    const SUPPORT: &str = "k8s.ovn.org/gateway-mtu-support";
    for network in [LAYER2, LAYER3] {
        let yaml = format!(
            "{TWO_NODES}- apiVersion: k8s.ovn.org/v1\n  kind: UserDefinedNetwork\n  \
             metadata: {{name: net, namespace: blue}}\n  spec: {network}\n"
        );
        let mut zone = Zone::new();
        for (support, is_set) in [("true", true), ("false", false), ("true", true)] {
            let key = "{k8s.ovn.org/node-chassis-id: c1";
            let yaml = yaml.replace(key, &format!("{key}, {SUPPORT}: '{support}'"));
            zone.settle(&zone_networks(&yaml, &ipv4_settings(&[]), None));
            let ports = zone.rows::<LogicalRouterPort>();
            let mut limited = ports.iter().map(|port| port.options.get("gateway_mtu"));
            assert_eq!(limited.any(|mtu| mtu.is_some()), is_set, "{network}");
        }
    }
}
