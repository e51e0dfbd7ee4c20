//! Rows and reports of connects beyond the recorded scenarios.

use patchbay_connects::{Notice, ZoneController};
use patchbay_model::Protocol;
use patchbay_model::Topology;
use patchbay_schemas::nb::{
    LoadBalancerGroup, LogicalRouter, LogicalRouterPolicy, LogicalRouterPort,
    LogicalRouterStaticRoute,
};

use crate::world::World;

#[test]
fn the_report_counts_ports_and_routes() {
    let mut world = World::red_and_blue();
    let (counts, reports) = world.pass();
    // The connect router, four ports and four routes on it, a port and a policy on either network's
    // router.
    assert_eq!((counts.inserted, counts.deleted), (13, 0));
    assert_eq!(counts.changed, 2);
    let report = &reports["c"];
    assert!(report.is_complete());
    assert!(report.messages().is_empty());
    let counts: Vec<_> = report
        .connected
        .iter()
        .map(|network| (&*network.network, network.is_local, network.ports, network.routes))
        .collect();
    assert_eq!(counts, [("red", true, 2, 2), ("blue", true, 2, 2)]);
}

#[test]
fn a_node_may_have_several_subnets_of_a_family() {
    let mut world = World::red_and_blue();
    let subnets = &mut world.node("n2").subnets;
    let of_red = subnets.get_mut("red").unwrap();
    of_red.push("10.1.77.0/24".parse().unwrap());
    world.pass();
    let id = |route: &LogicalRouterStaticRoute| route.external_ids["k8s.ovn.org/id"].clone();
    let mut routes: Vec<_> = world
        .rows::<LogicalRouterStaticRoute>()
        .into_iter()
        .filter(|route| route.nexthop == "192.168.0.7")
        .map(|route| (route.ip_prefix.clone(), id(&route)))
        .collect();
    routes.sort();
    let owner = "ovnkube-network-connect-controller:ClusterNetworkConnect:c:1:3:v4";
    assert_eq!(
        routes,
        [
            ("10.1.3.0/24".to_owned(), owner.to_owned()),
            ("10.1.77.0/24".to_owned(), format!("{owner}:10.1.77.0/24")),
        ]
    );
}

#[test]
fn edits_of_another_client_are_reverted() {
    let mut world = World::red_and_blue();
    world.pass();
    world.edit::<LogicalRouterPort>("crtor-c_red_n2", |port| {
        port.peer = Some("left-over".to_owned());
        port.mac = "0a:58:00:00:00:00".to_owned();
        port.networks.insert("192.0.2.0/31".to_owned());
        port.options.insert("other".to_owned(), "1".to_owned());
        port.external_ids.remove("node-id");
    });
    world.edit::<LogicalRouter>("connect_router_c", |router| {
        router.copp = None;
        router.static_routes.clear();
    });
    let (counts, _) = world.pass();
    assert_eq!((counts.inserted, counts.changed), (4, 2));
    let port = world.row::<LogicalRouterPort>("crtor-c_red_n2");
    assert_eq!(port.peer, None);
    assert_eq!(port.mac, "0a:58:c0:a8:00:06");
    assert_eq!(port.networks.len(), 1);
    assert_eq!(port.options.len(), 2);
    assert_eq!(port.external_ids["node-id"], "3");
    let router = world.row::<LogicalRouter>("connect_router_c");
    assert_eq!(router.static_routes.len(), 4);
    assert!(router.copp.is_some());
}

#[test]
fn unmanaged_columns_are_left_unchanged() {
    let mut world = World::red_and_blue();
    world.pass();
    world.edit::<LogicalRouterPort>("crtor-c_red_n2", |port| {
        port.ipv6_prefix.insert("fd00::/64".to_owned());
    });
    assert!(world.plan().is_empty());
    world.edit::<LogicalRouterPort>("crtor-c_red_n2", |port| port.mac.clear());
    world.pass();
    let port = world.row::<LogicalRouterPort>("crtor-c_red_n2");
    assert_eq!(port.ipv6_prefix.len(), 1);
    assert_eq!(port.mac, "0a:58:c0:a8:00:06");
}

#[test]
fn a_disabled_port_of_a_link_is_enabled_again() {
    let mut world = World::red_and_blue();
    world.pass();
    world.edit::<LogicalRouterPort>("crtor-c_red_n2", |port| port.enabled = Some(false));
    world.pass();
    let port = world.row::<LogicalRouterPort>("crtor-c_red_n2");
    assert_ne!(port.enabled, Some(false));
}

#[test]
fn a_port_on_the_wrong_router_moves() {
    let mut world = World::red_and_blue();
    world.pass();
    let before = world.ports_of("blue_ovn_cluster_router");
    world.move_ports("blue_ovn_cluster_router", "red_ovn_cluster_router");
    assert_eq!(world.ports_of("red_ovn_cluster_router").len(), 2);
    let (counts, _) = world.pass();
    assert_eq!((counts.inserted, counts.changed, counts.deleted), (0, 2, 0));
    assert_eq!(world.ports_of("red_ovn_cluster_router").len(), 1);
    assert_eq!(world.ports_of("blue_ovn_cluster_router"), before);
}

#[test]
fn a_reused_node_id_is_another_port() {
    let mut world = World::red_and_blue();
    world.pass();
    world.inputs.nodes.remove("n2");
    world.add_node("n3", 3);
    world.pass();
    let ports = world.names::<LogicalRouterPort>();
    assert!(ports.contains(&"crtor-c_red_n3".to_owned()), "{ports:?}");
    assert!(!ports.contains(&"crtor-c_red_n2".to_owned()), "{ports:?}");
    assert_eq!(world.count::<LogicalRouterPort>(), 6);
}

#[test]
fn missing_load_balancers_are_reported_and_prevent_no_connection() {
    let mut world = World::red_and_blue();
    let subnets = [("layer3_1", "192.168.0.0/24"), ("layer3_2", "192.168.1.0/24")];
    world.connect("c", &["PodNetwork", "ServiceNetwork"], &subnets);
    world.inputs.services = vec![("red-ns".to_owned(), vec![Protocol::Tcp])];
    let report = world.pass_of_c();
    assert!(report.is_complete());
    assert_eq!(
        report.notices,
        [Notice::LoadBalancers { network: "red".to_owned(), found: 0, expected: 1 }]
    );
    assert_eq!(
        report.messages(),
        [
            "network red: found 0 ClusterIP LBs but expected 1; connects share none of services with \
             internalTrafficPolicy Local or endpoints outside of the network"
        ]
    );
    assert_eq!(world.count::<LogicalRouterPolicy>(), 2);
    let balancer = world.add_load_balancer("red", "red-ns/web");
    world.add_load_balancer("green", "green-ns/web");
    assert!(world.pass_of_c().messages().is_empty());
    let group = world.row::<LoadBalancerGroup>("cnc_svc_c");
    assert_eq!(group.load_balancer, [balancer].into());
}

#[test]
fn a_connect_with_missing_load_balancers_is_removed_completely() {
    let mut world = World::red_and_blue();
    let before = world.database.snapshot().row_count();
    let subnets = [("layer3_1", "192.168.0.0/24"), ("layer3_2", "192.168.1.0/24")];
    world.connect("c", &["ServiceNetwork"], &subnets);
    world.inputs.services = vec![("red-ns".to_owned(), vec![Protocol::Tcp])];
    assert_eq!(world.pass_of_c().notices.len(), 1);
    assert_eq!(world.count::<LoadBalancerGroup>(), 1);
    // Nobody remembers what was in force: neither this controller nor the next one.
    world.controller = ZoneController::default();
    world.former = None;
    world.inputs.connects.clear();
    world.pass();
    assert_eq!(world.database.snapshot().row_count(), before);
}

#[test]
fn two_connects_of_the_same_networks_are_reported() {
    let mut world = World::red_and_blue();
    let subnets = [("layer3_1", "192.169.0.0/24"), ("layer3_2", "192.169.1.0/24")];
    world.connect_through("d", ("192.169.0.0/16", 24), &["PodNetwork"], &subnets);
    let (_, reports) = world.pass();
    for (connect, other) in [("c", "d"), ("d", "c")] {
        assert_eq!(
            reports[connect].messages(),
            [format!(
                "connect {other} also joins networks red, blue: the path of their traffic is undefined, and \
                 traffic that either connect drops is dropped"
            )]
        );
    }
}

#[test]
fn connects_of_one_network_with_overlapping_ones_are_reported() {
    for (subnet, is_overlapping) in [("10.1.128.0/17", true), ("10.3.0.0/16", false)] {
        let mut world = World::red_and_blue();
        world.add_layer3("green", 3, &[subnet]);
        let subnets = [("layer3_2", "192.169.0.0/24"), ("layer3_3", "192.169.1.0/24")];
        world.connect_through("d", ("192.169.0.0/16", 24), &["PodNetwork"], &subnets);
        let (_, reports) = world.pass();
        for (connect, own, other_connect, other) in
            [("c", "red", "d", "green"), ("d", "green", "c", "red")]
        {
            let notice = format!(
                "connect {other_connect} joins network blue with {other}, whose subnets overlap with \
                 those of {own}: it is undefined which of the two gets packets from blue"
            );
            let notices = reports[connect].notices.iter().map(ToString::to_string);
            let expected = if is_overlapping { vec![notice] } else { Vec::new() };
            assert_eq!(notices.collect::<Vec<_>>(), expected);
        }
        world.inputs.connects.remove("c");
        let (_, reports) = world.pass();
        assert!(reports["d"].notices.is_empty());
    }
}

#[test]
fn the_annotation_must_agree_with_the_network() {
    let mut world = World::red_and_blue();
    world.add_network("green", 3, Topology::Layer2, &["10.3.0.0/16"]);
    world.connect(
        "c",
        &["PodNetwork"],
        &[
            ("layer3_1", "192.168.0.0/24"),
            ("layer3_3", "192.168.1.0/24"),
            ("layer3_9", "192.168.2.0/24"),
            ("layer4_9", "192.168.3.0/24"),
        ],
    );
    assert_eq!(
        world.pass_of_c().messages(),
        [
            "network green: the network has topology layer2, but the annotation names another",
            "network layer3_9: the network is not known",
            "annotation: owner key \"layer4_9\" is not layer3_<id>, layer2_<id> or vpc_<id>",
        ]
    );
}
