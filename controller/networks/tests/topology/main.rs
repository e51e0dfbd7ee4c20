//! The worked example of two networks on two nodes: the rows that Patchbay writes.
#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod addresses;
mod advertised;
mod database;
mod default_services;
mod evpn;
mod gateway_changes;
mod ids;
mod no_overlay;
mod node_subnets;
mod refused;
mod skipped;
mod support;

use std::fmt::Write;

use patchbay_resources::object::Time;

use patchbay_allocate::networks::resolve;
use patchbay_model::{ClusterSettings, Feature, GatewayMode, IpFamily, NetworkObjects};
use patchbay_networks::*;
use patchbay_resources::conversion::network_objects;
use patchbay_resources::manifests::{Inventory, read_manifests};

use support::{ipv4_settings, read_zone};

const CLUSTER: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: blue, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: green, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {k8s.ovn.org/node-chassis-id: c1}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2, annotations: {k8s.ovn.org/node-chassis-id: c2}}}
";

const LAYER3: &str = "
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: l3, namespace: blue}
spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.10.0.0/16, hostSubnet: 24}]}}
";

const LAYER2: &str = "
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: l2, namespace: green}
spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.20.0.0/16]}}
";

/// The inventory that this YAML gives.
fn inventory(yaml: &str) -> Inventory {
    read_manifests(&["-".into()], &mut yaml.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

/// The rows of all networks in one zone.
struct ZoneRows {
    networks: Vec<NetworkRows>,
    skipped: Vec<SkippedNetwork>,
}

/// All rows of each network, those that lead to other nodes included.
fn zone_rows(objects: &NetworkObjects<'_>, zone: &str, settings: &ClusterSettings) -> ZoneRows {
    let networks = read_zone(objects, zone, settings);
    let rows = networks.networks().filter_map(|(_, network)| {
        let network = &network.name;
        let mut rows = network_rows(&networks, network)?.ok()?;
        for (node, _) in networks.nodes() {
            let Some(remote) = remote_rows(&networks, network, node) else {
                continue;
            };
            let router = &mut rows.routers[0];
            assert_eq!(remote.router, router.router.name);
            let routes = remote.static_routes.into_iter();
            router.static_routes.extend(routes.map(Into::into));
            let ports = remote.router_ports.into_iter();
            router.ports.extend(ports.map(RouterPortRows::from));
            let mut switches = rows.switches.iter_mut();
            let switch = switches.find(|rows| rows.switch.name == remote.switch);
            let ports = remote.switch_ports.into_iter();
            switch.unwrap().ports.extend(ports.map(Into::into));
        }
        Some(rows)
    });
    ZoneRows { networks: rows.collect(), skipped: skipped_networks(&networks) }
}

fn rows_with(yaml: &str, zone: &str, settings: &ClusterSettings) -> ZoneRows {
    let mut inventory = inventory(yaml);
    let now = Time(jiff::Timestamp::from_second(0).unwrap());
    resolve(&mut inventory, settings, &now).unwrap();
    zone_rows(&network_objects(&inventory, settings), zone, settings)
}

/// Settings of a cluster with both families.
fn dual_stack() -> ClusterSettings {
    ClusterSettings { families: IpFamily::BOTH.to_vec(), ..ClusterSettings::default() }
}

fn rows(yaml: &str, zone: &str) -> ZoneRows {
    rows_with(yaml, zone, &ipv4_settings(&[]))
}

/// Every row on a line of its own, columns that are set only.
fn print(network: &NetworkRows) -> String {
    let mut out = String::new();
    let map = |map: &std::collections::BTreeMap<String, String>| {
        map.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    let set = |set: &std::collections::BTreeSet<String>| {
        set.iter().cloned().collect::<Vec<_>>().join(",")
    };
    for group in &network.load_balancer_groups {
        writeln!(out, "group {}", group.name).unwrap();
    }
    for RouterRows { router, ports, static_routes, policies, nats, load_balancer_groups } in
        &network.routers
    {
        writeln!(
            out,
            "router {} | {} | {} | {}",
            router.name,
            map(&router.options),
            map(&router.external_ids),
            load_balancer_groups.join(",")
        )
        .unwrap();
        for RouterPortRows { port, gateway_chassis } in ports {
            write!(
                out,
                "  {} {} {} | {} | {}",
                port.name,
                port.mac,
                set(&port.networks),
                map(&port.options),
                map(&port.external_ids)
            )
            .unwrap();
            if !port.ipv6_ra_configs.is_empty() {
                write!(out, " | {}", map(&port.ipv6_ra_configs)).unwrap();
            }
            if let Some(chassis) = gateway_chassis {
                write!(out, " | {} on {} {}", chassis.name, chassis.chassis_name, chassis.priority)
                    .unwrap();
            }
            out.push('\n');
        }
        for route in static_routes {
            let policy = route.policy.map_or("route", |policy| policy.as_str());
            let port = route.output_port.as_deref().unwrap_or_default();
            writeln!(
                out,
                "  {policy} {} via {} {port}| {}",
                route.ip_prefix,
                route.nexthop,
                map(&route.external_ids)
            )
            .unwrap();
        }
        for policy in policies {
            let (priority, hops) = (policy.priority, set(&policy.nexthops));
            writeln!(out, "  {priority} {} to {hops}", policy.r#match).unwrap();
        }
        for NatRows { nat, .. } in nats {
            let port = nat.logical_port.as_deref().unwrap_or_default();
            writeln!(
                out,
                "  snat {} to {} {port} | {}",
                nat.logical_ip, nat.external_ip, nat.r#match
            )
            .unwrap();
        }
    }
    for SwitchRows { switch, ports, acls, load_balancer_groups } in &network.switches {
        let groups = load_balancer_groups.join(",");
        writeln!(
            out,
            "switch {} | {} | {} | {groups}",
            switch.name,
            map(&switch.other_config),
            map(&switch.external_ids)
        )
        .unwrap();
        for port in ports {
            writeln!(
                out,
                "  {} {:?} {} | {} | {}",
                port.name,
                port.r#type,
                set(&port.addresses),
                map(&port.options),
                map(&port.external_ids)
            )
            .unwrap();
        }
        for acl in acls {
            let (direction, action) = (acl.direction.as_str(), acl.action.as_str());
            writeln!(
                out,
                "  {direction} {} {} {action} {} | {}",
                acl.priority,
                acl.tier,
                acl.r#match,
                map(&acl.external_ids)
            )
            .unwrap();
        }
    }
    for binding in &network.mac_bindings {
        let (port, ip) = (&binding.logical_port, &binding.ip);
        writeln!(out, "binding {port} {ip} {}", binding.mac).unwrap();
    }
    for PortGroupRows { group, ports, acls } in &network.port_groups {
        let acls = acls.iter().map(|acl| acl.r#match.as_str());
        let acls = acls.collect::<Vec<_>>().join(", ");
        writeln!(out, "ports {} [{}] {acls}", group.name, ports.join(",")).unwrap();
    }
    out
}

#[track_caller]
fn assert_rows(network: &NetworkRows, expected: &[&str]) {
    let printed = print(network);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines, expected);
}

#[test]
fn layer3_primary() {
    let rows = rows(&(CLUSTER.to_owned() + LAYER3), "n1");
    assert!(rows.skipped.is_empty());
    assert_rows(
        &rows.networks[0],
        &[
            "group blue_l3_clusterLBGroup",
            "group blue_l3_clusterSwitchLBGroup",
            "group blue_l3_clusterRouterLBGroup",
            "router blue_l3_ovn_cluster_router | always_learn_from_arp_request=false | k8s-cluster-router=yes \
             k8s.ovn.org/network=blue_l3 k8s.ovn.org/topology=layer3 | ",
            "  rtoj-blue_l3_ovn_cluster_router 0a:58:64:41:00:01 100.65.0.1/16 |  | k8s.ovn.org/network=blue_l3 \
             k8s.ovn.org/topology=layer3",
            "  rtos-blue_l3_n1 0a:58:0a:0a:00:01 10.10.0.1/24 | gateway_mtu=1400 |  | rtos-blue_l3_n1-c1 on c1 1",
            "  blue_l3_rtots-n1 0a:58:64:58:00:02 100.88.0.2/16 | mcast_flood=true | ",
            "  route 100.65.0.2 via 100.65.0.2 | k8s.ovn.org/network=blue_l3 k8s.ovn.org/topology=layer3",
            "  src-ip 10.10.0.0/24 via 100.65.0.2 | k8s.ovn.org/network=blue_l3 k8s.ovn.org/topology=layer3",
            "  route 10.10.1.0/24 via 100.88.0.3 | ic-node=n2 k8s.ovn.org/network=blue_l3",
            "  route 100.65.0.3/32 via 100.88.0.3 | ic-node=n2 k8s.ovn.org/network=blue_l3",
            "  1004 inport == \"rtos-blue_l3_n1\" && ip4.dst == 172.18.0.2 /* blue_l3_n1 */ to 10.10.0.2",
            "  1004 inport == \"rtos-blue_l3_n1\" && ip4.dst == 169.254.0.11 /* blue_l3_n1 */ to 10.10.0.2",
            "  snat 10.10.0.0/24 to 169.254.0.12 rtos-blue_l3_n1 | eth.dst == 0a:58:0a:0a:00:02",
            "router GR_blue_l3_n1 | always_learn_from_arp_request=false chassis=c1 disable_garp_rarp=true \
             dynamic_neigh_routers=false lb_force_snat_ip=router_ip mac_binding_age_threshold=300 | \
             k8s.ovn.org/network=blue_l3 k8s.ovn.org/role=primary k8s.ovn.org/topology=layer3 \
             physical_ip=172.18.0.2 physical_ips=172.18.0.2,169.254.0.11 | \
             blue_l3_clusterLBGroup,blue_l3_clusterRouterLBGroup",
            "  rtoj-GR_blue_l3_n1 0a:58:64:41:00:02 100.65.0.2/16 | gateway_mtu=1400 | \
             k8s.ovn.org/network=blue_l3 k8s.ovn.org/topology=layer3",
            "  rtoe-GR_blue_l3_n1 0a:58:ac:12:00:02 169.254.0.11/32,172.18.0.2/16 |  | \
             k8s.ovn.org/network=blue_l3 k8s.ovn.org/topology=layer3",
            "  route 10.10.0.0/16 via 100.65.0.1 | k8s.ovn.org/network=blue_l3 k8s.ovn.org/topology=layer3",
            "  route 169.254.0.0/17 via 169.254.0.4 rtoe-GR_blue_l3_n1| k8s.ovn.org/network=blue_l3 \
             k8s.ovn.org/topology=layer3",
            "  route 0.0.0.0/0 via 172.18.0.1 rtoe-GR_blue_l3_n1| k8s.ovn.org/network=blue_l3 \
             k8s.ovn.org/topology=layer3",
            "  snat 100.65.0.2 to 169.254.0.11  | ",
            "  snat 10.10.0.0/16 to 169.254.0.11  | ",
            "switch blue_l3_n1 | subnet=10.10.0.0/24 | k8s.ovn.org/network=blue_l3 k8s.ovn.org/role=primary \
             k8s.ovn.org/topology=layer3 | blue_l3_clusterLBGroup,blue_l3_clusterSwitchLBGroup",
            "  stor-blue_l3_n1 \"router\" router | router-port=rtos-blue_l3_n1 | ",
            "  k8s-blue_l3_n1 \"\" 0a:58:0a:0a:00:02 10.10.0.2 |  | ",
            "  to-lport 1001 2 allow-related ip4.src==10.10.0.2 | ip=10.10.0.2 \
             k8s.ovn.org/id=blue_l3-network-controller:NetpolNode:blue_l3_n1:10.10.0.2 \
             k8s.ovn.org/name=blue_l3_n1 k8s.ovn.org/owner-controller=blue_l3-network-controller \
             k8s.ovn.org/owner-type=NetpolNode",
            "switch blue_l3_transit_switch | interconn-ts=blue_l3_transit_switch mcast_flood_unregistered=true \
             mcast_querier=false mcast_snoop=true requested-tnl-key=16711684 | k8s.ovn.org/network=blue_l3 \
             k8s.ovn.org/role=primary k8s.ovn.org/topology=layer3 | ",
            "  blue_l3_tstor-n1 \"router\" router | requested-tnl-key=2 router-port=blue_l3_rtots-n1 | node=n1",
            "  blue_l3_tstor-n2 \"remote\" 0a:58:64:58:00:03 100.88.0.3/16 | requested-chassis=c2 \
             requested-tnl-key=3 | node=n2",
            "switch ext_blue_l3_n1 |  | k8s.ovn.org/network=blue_l3 k8s.ovn.org/role=primary \
             k8s.ovn.org/topology=layer3 | ",
            "  etor-GR_blue_l3_n1 \"router\" 0a:58:ac:12:00:02 | router-port=rtoe-GR_blue_l3_n1 | \
             k8s.ovn.org/network=blue_l3 k8s.ovn.org/topology=layer3",
            "  br-ex_blue_l3_n1 \"localnet\" unknown | network_name=physnet | k8s.ovn.org/network=blue_l3 \
             k8s.ovn.org/topology=layer3",
            "switch blue_l3_join |  | k8s.ovn.org/network=blue_l3 k8s.ovn.org/topology=layer3 | ",
            "  jtor-blue_l3_ovn_cluster_router \"router\" router | router-port=rtoj-blue_l3_ovn_cluster_router | ",
            "  jtor-GR_blue_l3_n1 \"router\" router | router-port=rtoj-GR_blue_l3_n1 | \
             k8s.ovn.org/network=blue_l3 k8s.ovn.org/topology=layer3",
            "binding rtoe-GR_blue_l3_n1 169.254.0.4 0a:58:a9:fe:00:04",
            "binding rtoe-GR_blue_l3_n1 169.254.0.2 0a:58:a9:fe:00:02",
            "ports a7998377295614338875 [k8s-blue_l3_n1] ip4.src == 169.254.0.5, ip4.src == 169.254.0.5",
            "ports a12926060954329932501 [] ",
        ],
    );
}

#[test]
fn layer2_primary() {
    let rows = rows(&(CLUSTER.to_owned() + LAYER3 + LAYER2), "n1");
    assert_rows(
        &rows.networks[1],
        &[
            "group green_l2_clusterLBGroup",
            "group green_l2_clusterSwitchLBGroup",
            "group green_l2_clusterRouterLBGroup",
            "router green_l2_transit_router | requested-tnl-key=16715779 | k8s-cluster-router=yes \
             k8s.ovn.org/network=green_l2 k8s.ovn.org/topology=layer2 | ",
            "  trtos-green_l2_ovn_layer2_switch 0a:58:0a:14:00:01 10.20.0.1/16 | gateway_mtu=1400 \
             requested-tnl-key=1 |  | trtos-green_l2_ovn_layer2_switch-c1 on c1 1",
            "  trtor-GR_green_l2_n1 0a:58:64:58:00:04 100.88.0.4/31 | requested-tnl-key=12 | \
             k8s.ovn.org/network=green_l2 k8s.ovn.org/topology=layer2",
            "  trtor-GR_green_l2_n2 0a:58:64:58:00:06 100.88.0.6/31 | requested-chassis=c2 requested-tnl-key=13 | \
             k8s.ovn.org/network=green_l2 k8s.ovn.org/node=n2 k8s.ovn.org/topology=layer2",
            "  route 100.65.0.2 via 100.88.0.5 | k8s.ovn.org/network=green_l2 k8s.ovn.org/topology=layer2",
            "  src-ip 10.20.0.0/16 via 100.88.0.5 | k8s.ovn.org/network=green_l2 k8s.ovn.org/topology=layer2",
            "  route 100.65.0.3 via 100.88.0.7 | k8s.ovn.org/network=green_l2 k8s.ovn.org/node=n2 \
             k8s.ovn.org/topology=layer2",
            "  1004 inport == \"trtos-green_l2_ovn_layer2_switch\" && ip4.dst == 172.18.0.2 /* \
             green_l2_ovn_layer2_switch */ to 10.20.0.2",
            "  snat 10.20.0.0/16 to 169.254.0.14 trtos-green_l2_ovn_layer2_switch | eth.dst == 0a:58:0a:14:00:02",
            "router GR_green_l2_n1 | always_learn_from_arp_request=false chassis=c1 disable_garp_rarp=true \
             dynamic_neigh_routers=false lb_force_snat_ip=100.65.0.2 mac_binding_age_threshold=300 | \
             k8s.ovn.org/network=green_l2 k8s.ovn.org/role=primary k8s.ovn.org/topology=layer2 \
             physical_ip=172.18.0.2 physical_ips=172.18.0.2,169.254.0.13 | \
             green_l2_clusterLBGroup,green_l2_clusterRouterLBGroup",
            "  rtotr-GR_green_l2_n1 0a:58:64:41:00:02 100.65.0.2/16,100.88.0.5/31 | gateway_mtu=1400 | \
             k8s.ovn.org/network=green_l2 k8s.ovn.org/topology=layer2",
            "  rtoe-GR_green_l2_n1 0a:58:ac:12:00:02 169.254.0.13/32,172.18.0.2/16 |  | \
             k8s.ovn.org/network=green_l2 k8s.ovn.org/topology=layer2",
            "  route 10.20.0.0/16 via 100.88.0.4 rtotr-GR_green_l2_n1| k8s.ovn.org/network=green_l2 \
             k8s.ovn.org/topology=layer2",
            "  route 169.254.0.0/17 via 169.254.0.4 rtoe-GR_green_l2_n1| k8s.ovn.org/network=green_l2 \
             k8s.ovn.org/topology=layer2",
            "  route 0.0.0.0/0 via 172.18.0.1 rtoe-GR_green_l2_n1| k8s.ovn.org/network=green_l2 \
             k8s.ovn.org/topology=layer2",
            "  snat 100.65.0.2 to 169.254.0.13  | ",
            "  snat 10.20.0.0/16 to 169.254.0.13  | ",
            "switch green_l2_ovn_layer2_switch | interconn-ts=green_l2_ovn_layer2_switch \
             mcast_flood_unregistered=true mcast_querier=false mcast_snoop=true requested-tnl-key=16711685 \
             subnet=10.20.0.0/16 | k8s.ovn.org/network=green_l2 k8s.ovn.org/role=primary \
             k8s.ovn.org/topology=layer2 | green_l2_clusterLBGroup,green_l2_clusterSwitchLBGroup",
            "  stotr-green_l2_ovn_layer2_switch \"router\" router | router-port=trtos-green_l2_ovn_layer2_switch \
             | k8s.ovn.org/network=green_l2 k8s.ovn.org/topology=layer2",
            "  k8s-green_l2_n1 \"\" 0a:58:0a:14:00:02 10.20.0.2 |  | ",
            "  to-lport 1001 2 allow-related ip4.src==10.20.0.2 | ip=10.20.0.2 \
             k8s.ovn.org/id=green_l2-network-controller:NetpolNode:green_l2_ovn_layer2_switch:10.20.0.2 \
             k8s.ovn.org/name=green_l2_ovn_layer2_switch k8s.ovn.org/owner-controller=green_l2-network-controller \
             k8s.ovn.org/owner-type=NetpolNode",
            "switch ext_green_l2_n1 |  | k8s.ovn.org/network=green_l2 k8s.ovn.org/role=primary \
             k8s.ovn.org/topology=layer2 | ",
            "  etor-GR_green_l2_n1 \"router\" 0a:58:ac:12:00:02 | router-port=rtoe-GR_green_l2_n1 | \
             k8s.ovn.org/network=green_l2 k8s.ovn.org/topology=layer2",
            "  br-ex_green_l2_n1 \"localnet\" unknown | network_name=physnet | k8s.ovn.org/network=green_l2 \
             k8s.ovn.org/topology=layer2",
            "binding rtoe-GR_green_l2_n1 169.254.0.4 0a:58:a9:fe:00:04",
            "binding rtoe-GR_green_l2_n1 169.254.0.2 0a:58:a9:fe:00:02",
            "ports a13871389557330832923 [k8s-green_l2_n1] ip4.src == 169.254.0.5, ip4.src == 169.254.0.5",
            "ports a1518551225057248501 [] ",
        ],
    );
}

#[test]
fn dual_stack_layer3() {
    let yaml = CLUSTER.to_owned()
        + &LAYER3.replace("hostSubnet: 24}", "hostSubnet: 24}, {cidr: 'fd10::/48'}");
    let rows = rows_with(&yaml, "n1", &dual_stack());
    let printed = print(&rows.networks[0]);
    assert!(
        printed.contains("rtos-blue_l3_n1 0a:58:0a:0a:00:01 10.10.0.1/24,fd10:0:0:1::1/64 | "),
        "{printed}"
    );
    assert!(printed.contains("  route fd10:0:0:2::/64 via fd97::3 | ic-node=n2"), "{printed}");
    assert!(printed.contains("ipv6_prefix=fd10:0:0:1:: subnet=10.10.0.0/24"), "{printed}");
    assert!(
        printed.contains("tstor-n2 \"remote\" 0a:58:64:58:00:03 100.88.0.3/16 fd97::3/64 |"),
        "{printed}"
    );
}

#[test]
fn secondary_networks_have_no_way_out() {
    let yaml = CLUSTER.to_owned() + &(LAYER3.to_owned() + LAYER2).replace("Primary", "Secondary");
    let rows = rows(&yaml, "n1");
    let layer3 = print(&rows.networks[0]);
    assert!(
        layer3.contains("switch blue_l3_n1 | exclude_ips=10.10.0.2 subnet=10.10.0.0/24 | "),
        "{layer3}"
    );
    assert!(
        layer3.contains("blue_l3_tstor-n2")
            && !layer3.contains("k8s-blue")
            && !layer3.contains("ports ")
    );
    let layer2 = &rows.networks[1];
    assert!(layer2.routers.is_empty() && layer2.port_groups.is_empty());
    assert_eq!(layer2.switches[0].ports.len(), 0);
    assert_eq!(layer2.switches[0].switch.other_config["requested-tnl-key"], "16711685");
    // The option of cluster routers in local gateway mode does not depend on the role.
    assert!(!layer3.contains("ct-commit-all"));
    let settings = ClusterSettings { gateway_mode: GatewayMode::Local, ..ipv4_settings(&[]) };
    let local = print(&rows_with(&yaml, "n1", &settings).networks[0]);
    assert!(local.contains("ct-commit-all=true"), "{local}");
}

#[test]
fn rows_follow_annotations_of_nodes_and_networks() {
    let yaml = CLUSTER.to_owned() + LAYER3;
    let quiet = yaml.replace(
        "node-chassis-id: c1",
        "node-chassis-id: c1, k8s.ovn.org/gateway-mtu-support: 'false'",
    );
    assert!(!print(&rows(&quiet, "n1").networks[0]).contains("gateway_mtu"));
    let routed = "
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: flat}
spec:
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: green}}
  network:
    topology: Layer3
    layer3: {role: Primary, subnets: [{cidr: 10.30.0.0/16}]}
    transport: NoOverlay
    noOverlay: {outboundSNAT: Enabled, routing: Managed}
";
    let flat = print(&rows(&(CLUSTER.to_owned() + routed), "n1").networks[0]);
    assert!(
        flat.contains("br-ex_cluster_udn_flat_n1 \"localnet\" unknown | network_name=physnet |")
    );
    let uplink = routed.replace("namespaceSelector:", "uplinks: [eth1]\n  namespaceSelector:");
    let settings = ipv4_settings(&[Feature::Uplink]);
    let uplink = rows_with(&(CLUSTER.to_owned() + &uplink), "n1", &settings);
    let uplink = print(&uplink.networks[0]);
    let port = "br-ex_cluster_udn_flat_n1 \"localnet\" unknown | network_name=cluster_udn_flat |";
    assert!(uplink.contains(port), "{uplink}");
    assert!(
        flat.contains("rtos-cluster_udn_flat_n1")
            && !flat.contains("transit")
            && !flat.contains("ic-node")
            && flat.contains("  route 10.30.0.0/24 via 100.65.0.1"),
        "{flat}"
    );
}

#[test]
fn the_zone_has_one_control_plane_protection() {
    let (copp, meters) = (copp(), meters());
    assert_eq!(copp.name, "ovnkube-default");
    assert_eq!(copp.meters.len(), 9);
    let (logging, meters) = meters.split_last().unwrap();
    let (name, rate) = (logging.meter.name.as_str(), logging.band.rate);
    assert_eq!((name, rate, meters.len()), ("acl-logging", 20, 9));
    for MeterRows { meter, band } in meters {
        assert!(copp.meters.values().any(|name| *name == meter.name));
        assert_eq!((meter.fair, meter.unit.as_str()), (Some(true), "pktps"));
        assert_eq!((band.action.as_str(), band.rate), ("drop", 25));
    }
}
