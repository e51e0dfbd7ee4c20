//! The worked example of two networks on two nodes: the rows that Patchbay writes.
#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod addresses;
mod skipped;

use std::fmt::Write;

use patchbay_resources::object::Time;

use patchbay_allocate::networks::resolve;
use patchbay_model::{ClusterSettings, IpFamily, NetworkObjects};
use patchbay_networks::*;
use patchbay_resources::conversion::network_objects;
use patchbay_resources::manifests::{Inventory, read_manifests};

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
    let networks = ZoneNetworks::read(objects, zone, settings);
    let rows = networks.networks().filter_map(|network| {
        let mut rows = networks.network_rows(network)?.ok()?;
        for node in networks.nodes() {
            let Some(remote) = networks.remote_rows(network, node) else {
                continue;
            };
            let router = rows.router.as_mut().unwrap();
            assert_eq!(remote.router, router.router.name);
            router.static_routes.extend(remote.static_routes);
            let mut switches = rows.switches.iter_mut();
            let transit = switches.find(|rows| rows.switch.name == remote.transit_switch);
            transit.unwrap().ports.extend(remote.port);
        }
        Some(rows)
    });
    ZoneRows {
        networks: rows.collect(),
        skipped: networks.skipped(),
    }
}

fn rows_with(yaml: &str, zone: &str, families: &[IpFamily]) -> ZoneRows {
    let settings = ClusterSettings {
        families: families.to_vec(),
        ..ClusterSettings::default()
    };
    let mut inventory = inventory(yaml);
    let now = Time(jiff::Timestamp::from_second(0).unwrap());
    resolve(&mut inventory, &settings, &now).unwrap();
    zone_rows(&network_objects(&inventory), zone, &settings)
}

fn rows(yaml: &str, zone: &str) -> ZoneRows {
    rows_with(yaml, zone, &[IpFamily::V4])
}

/// Every row on a line of its own, columns that are set only.
fn print(network: &NetworkRows) -> String {
    let mut out = String::new();
    let map = |map: &std::collections::BTreeMap<String, String>| {
        map.iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let set = |set: &std::collections::BTreeSet<String>| {
        set.iter().cloned().collect::<Vec<_>>().join(",")
    };
    for group in &network.load_balancer_groups {
        writeln!(out, "group {}", group.name).unwrap();
    }
    if let Some(RouterRows {
        router,
        ports,
        static_routes,
    }) = &network.router
    {
        writeln!(
            out,
            "router {} | {} | {}",
            router.name,
            map(&router.options),
            map(&router.external_ids)
        )
        .unwrap();
        for RouterPortRows {
            port,
            gateway_chassis,
        } in ports
        {
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
                write!(
                    out,
                    " | {} on {} {}",
                    chassis.name, chassis.chassis_name, chassis.priority
                )
                .unwrap();
            }
            out.push('\n');
        }
        for route in static_routes {
            writeln!(
                out,
                "  {} via {} | {}",
                route.ip_prefix,
                route.nexthop,
                map(&route.external_ids)
            )
            .unwrap();
        }
    }
    for SwitchRows {
        switch,
        ports,
        acls,
        load_balancer_groups,
    } in &network.switches
    {
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
    for PortGroupRows { group, ports } in &network.port_groups {
        writeln!(out, "ports {} [{}]", group.name, ports.join(",")).unwrap();
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
             k8s.ovn.org/network=blue_l3 k8s.ovn.org/topology=layer3",
            "  rtos-blue_l3_n1 0a:58:0a:0a:00:01 10.10.0.1/24 | gateway_mtu=1400 |  | rtos-blue_l3_n1-c1 on c1 1",
            "  blue_l3_rtots-n1 0a:58:64:58:00:02 100.88.0.2/16 | mcast_flood=true | ",
            "  10.10.1.0/24 via 100.88.0.3 | ic-node=n2 k8s.ovn.org/network=blue_l3",
            "switch blue_l3_n1 | subnet=10.10.0.0/24 | k8s.ovn.org/network=blue_l3 k8s.ovn.org/role=primary \
             k8s.ovn.org/topology=layer3 | blue_l3_clusterLBGroup,blue_l3_clusterSwitchLBGroup",
            "  stor-blue_l3_n1 \"router\" router | router-port=rtos-blue_l3_n1 | ",
            "  k8s-blue_l3_n1 \"\" 0a:58:0a:0a:00:02 10.10.0.2 |  | ",
            "  to-lport 1001 2 allow-related ip4.src==10.10.0.2 | ip=10.10.0.2 \
             k8s.ovn.org/id=blue_l3-network-controller:NetpolNode:blue_l3_n1:10.10.0.2 k8s.ovn.org/name=blue_l3_n1 \
             k8s.ovn.org/owner-controller=blue_l3-network-controller k8s.ovn.org/owner-type=NetpolNode",
            "switch blue_l3_transit_switch | interconn-ts=blue_l3_transit_switch mcast_flood_unregistered=true \
             mcast_querier=false mcast_snoop=true requested-tnl-key=16711684 | k8s.ovn.org/network=blue_l3 \
             k8s.ovn.org/role=primary k8s.ovn.org/topology=layer3 | ",
            "  blue_l3_tstor-n1 \"router\" router | requested-tnl-key=2 router-port=blue_l3_rtots-n1 | node=n1",
            "  blue_l3_tstor-n2 \"remote\" 0a:58:64:58:00:03 100.88.0.3/16 | requested-chassis=c2 requested-tnl-key=3 \
             | node=n2",
            "ports a7998377295614338875 [k8s-blue_l3_n1]",
            "ports a12926060954329932501 []",
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
             k8s.ovn.org/network=green_l2 k8s.ovn.org/topology=layer2",
            "  trtos-green_l2_ovn_layer2_switch 0a:58:0a:14:00:01 10.20.0.1/16 | gateway_mtu=1400 requested-tnl-key=1 |  \
             | trtos-green_l2_ovn_layer2_switch-c1 on c1 1",
            "switch green_l2_ovn_layer2_switch | interconn-ts=green_l2_ovn_layer2_switch mcast_flood_unregistered=true \
             mcast_querier=false mcast_snoop=true requested-tnl-key=16711685 subnet=10.20.0.0/16 | \
             k8s.ovn.org/network=green_l2 k8s.ovn.org/role=primary k8s.ovn.org/topology=layer2 | \
             green_l2_clusterLBGroup,green_l2_clusterSwitchLBGroup",
            "  stotr-green_l2_ovn_layer2_switch \"router\" router | router-port=trtos-green_l2_ovn_layer2_switch | \
             k8s.ovn.org/network=green_l2 k8s.ovn.org/topology=layer2",
            "  k8s-green_l2_n1 \"\" 0a:58:0a:14:00:02 10.20.0.2 |  | ",
            "  to-lport 1001 2 allow-related ip4.src==10.20.0.2 | ip=10.20.0.2 \
             k8s.ovn.org/id=green_l2-network-controller:NetpolNode:green_l2_ovn_layer2_switch:10.20.0.2 \
             k8s.ovn.org/name=green_l2_ovn_layer2_switch k8s.ovn.org/owner-controller=green_l2-network-controller \
             k8s.ovn.org/owner-type=NetpolNode",
            "ports a13871389557330832923 [k8s-green_l2_n1]",
            "ports a1518551225057248501 []",
        ],
    );
}

#[test]
fn dual_stack_layer3() {
    let yaml = CLUSTER.to_owned()
        + &LAYER3.replace("hostSubnet: 24}", "hostSubnet: 24}, {cidr: 'fd10::/48'}");
    let rows = rows_with(&yaml, "n1", &IpFamily::BOTH);
    let printed = print(&rows.networks[0]);
    assert!(
        printed.contains("rtos-blue_l3_n1 0a:58:0a:0a:00:01 10.10.0.1/24,fd10:0:0:1::1/64 | "),
        "{printed}"
    );
    assert!(
        printed.contains("  fd10:0:0:2::/64 via fd97::3 | ic-node=n2"),
        "{printed}"
    );
    assert!(
        printed.contains("ipv6_prefix=fd10:0:0:1:: subnet=10.10.0.0/24"),
        "{printed}"
    );
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
    assert!(layer2.router.is_none() && layer2.port_groups.is_empty());
    assert_eq!(layer2.switches[0].ports.len(), 0);
    assert_eq!(
        layer2.switches[0].switch.other_config["requested-tnl-key"],
        "16711685"
    );
}

#[test]
fn what_nodes_and_networks_say_counts() {
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
        flat.contains("rtos-cluster_udn_flat_n1")
            && !flat.contains("transit")
            && !flat.contains("via"),
        "{flat}"
    );
}

#[test]
fn the_zone_has_one_control_plane_protection() {
    let (copp, meters) = (copp(), meters());
    assert_eq!(copp.name, "ovnkube-default");
    assert_eq!(copp.meters.len(), 9);
    assert_eq!(meters.len(), 9);
    for MeterRows { meter, band } in &meters {
        assert!(copp.meters.values().any(|name| *name == meter.name));
        assert_eq!((meter.fair, meter.unit.as_str()), (Some(true), "pktps"));
        assert_eq!((band.action.as_str(), band.rate), ("drop", 25));
    }
}
