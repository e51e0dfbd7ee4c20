//! The networks' own routers and switches are made and completed, and never removed.

use patchbay_connects::Counts;
use patchbay_networks::{
    MeterRows, NetworkRows, PortGroupRows, RouterPortRows, RouterRows, SwitchRows, ZoneRows,
};
use patchbay_schemas::nb::{
    Acl, AclAction, AclDirection, Copp, GatewayChassis, LoadBalancerGroup, LogicalRouter,
    LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort, Meter,
    MeterBand, MeterBandAction, MeterUnit, PortGroup,
};

use crate::world::World;

/// One network with a row of every kind.
fn rows() -> ZoneRows {
    let router = RouterRows {
        router: LogicalRouter {
            name: "router".to_owned(),
            options: [("always_learn".to_owned(), "false".to_owned())].into(),
            ..LogicalRouter::default()
        },
        ports: vec![RouterPortRows {
            port: LogicalRouterPort {
                name: "rtos-switch".to_owned(),
                mac: "0a:58:0a:01:00:01".to_owned(),
                networks: ["10.1.0.1/24".to_owned()].into(),
                ..LogicalRouterPort::default()
            },
            gateway_chassis: Some(GatewayChassis {
                name: "rtos-switch-chassis".to_owned(),
                chassis_name: "chassis".to_owned(),
                priority: 1,
                ..GatewayChassis::default()
            }),
        }],
        static_routes: vec![LogicalRouterStaticRoute {
            ip_prefix: "10.1.1.0/24".to_owned(),
            nexthop: "100.88.0.3".to_owned(),
            ..LogicalRouterStaticRoute::default()
        }],
    };
    let switch = SwitchRows {
        switch: LogicalSwitch {
            name: "switch".to_owned(),
            ..LogicalSwitch::default()
        },
        ports: vec![LogicalSwitchPort {
            name: "stor-switch".to_owned(),
            ..LogicalSwitchPort::default()
        }],
        acls: vec![Acl {
            action: AclAction::AllowRelated,
            direction: AclDirection::ToLport,
            r#match: "ip4.src==10.1.0.2".to_owned(),
            external_ids: [("k8s.ovn.org/id".to_owned(), "acl".to_owned())].into(),
            ..Acl::default()
        }],
        load_balancer_groups: vec!["group".to_owned()],
    };
    let network = NetworkRows {
        network: "net".to_owned(),
        load_balancer_groups: vec![LoadBalancerGroup {
            name: "group".to_owned(),
            ..LoadBalancerGroup::default()
        }],
        router: Some(router),
        switches: vec![switch],
        port_groups: vec![PortGroupRows {
            group: PortGroup {
                name: "ports".to_owned(),
                ..PortGroup::default()
            },
            ports: vec!["stor-switch".to_owned()],
        }],
    };
    ZoneRows {
        copp: Copp {
            name: "ovnkube-default".to_owned(),
            ..Copp::default()
        },
        meters: vec![MeterRows {
            meter: Meter {
                name: "meter".to_owned(),
                unit: MeterUnit::Pktps,
                ..Meter::default()
            },
            band: MeterBand {
                action: MeterBandAction::Drop,
                rate: 25,
                ..MeterBand::default()
            },
        }],
        networks: vec![network],
        ..ZoneRows::default()
    }
}

/// Plans, commits, and makes sure that there is nothing more to do.
fn pass(world: &mut World, rows: &ZoneRows) -> Counts {
    let change = world.plan_networks(rows);
    if let Some(transaction) = change.transaction {
        world.database.transact(transaction.operations()).unwrap();
    }
    assert!(world.plan_networks(rows).transaction.is_none());
    change.counts
}

#[test]
fn all_rows_are_made_and_hold_each_other() {
    let mut world = World::new();
    let counts = pass(&mut world, &rows());
    // All but the Copp row, which is there.
    assert_eq!(
        (counts.inserted, counts.changed, counts.deleted),
        (11, 0, 0)
    );
    let router = world.row::<LogicalRouter>("router");
    assert!(router.copp.is_some());
    assert_eq!((router.ports.len(), router.static_routes.len()), (1, 1));
    let port = world.row::<LogicalRouterPort>("rtos-switch");
    assert_eq!(port.gateway_chassis.len(), 1);
    let switch = world.row::<LogicalSwitch>("switch");
    assert_eq!((switch.ports.len(), switch.acls.len()), (1, 1));
    assert_eq!(switch.load_balancer_group.len(), 1);
    assert_eq!(world.row::<PortGroup>("ports").ports, switch.ports);
    assert_eq!(world.row::<Meter>("meter").bands.len(), 1);
}

#[test]
fn what_is_missing_or_wrong_is_made_good_and_what_is_more_stays() {
    let mut world = World::new();
    pass(&mut world, &rows());
    world.edit::<LogicalRouter>("router", |router| {
        router.static_routes.clear();
        router.options = [("theirs".to_owned(), "1".to_owned())].into();
    });
    world.edit::<LogicalRouterPort>("rtos-switch", |port| {
        port.gateway_chassis.clear();
        port.networks = ["10.9.0.1/24".to_owned()].into();
        port.peer = Some("theirs".to_owned());
    });
    world.insert_held::<LogicalSwitch, _>(
        "switch",
        &LogicalSwitchPort {
            name: "pod".to_owned(),
            ..LogicalSwitchPort::default()
        },
        |switch, port| {
            switch.ports.insert(port);
            switch.acls.clear();
        },
    );
    let counts = pass(&mut world, &rows());
    // A route, a chassis and an ACL come back; their holders change.
    assert_eq!((counts.inserted, counts.changed, counts.deleted), (3, 3, 0));
    let router = world.row::<LogicalRouter>("router");
    assert_eq!(router.options.len(), 2);
    let port = world.row::<LogicalRouterPort>("rtos-switch");
    assert_eq!(port.networks, ["10.1.0.1/24".to_owned()].into());
    assert_eq!(port.peer.as_deref(), Some("theirs"));
    assert_eq!(world.row::<LogicalSwitch>("switch").ports.len(), 2);
    let counts = pass(
        &mut world,
        &ZoneRows {
            networks: Vec::new(),
            ..rows()
        },
    );
    assert_eq!(counts, Counts::default());
}

#[test]
fn what_leads_to_nodes_that_are_gone_goes_with_them() {
    let mut world = World::new();
    let mut rows = rows();
    rows.nodes = ["n1", "n2"].map(str::to_owned).into();
    pass(&mut world, &rows);
    let mark = |key: &str, node: &str| [(key.to_owned(), node.to_owned())].into();
    for node in ["n1", "n2"] {
        world.insert_held::<LogicalSwitch, _>(
            "switch",
            &LogicalSwitchPort {
                name: format!("tstor-{node}"),
                external_ids: mark("node", node),
                ..LogicalSwitchPort::default()
            },
            |switch, port| {
                switch.ports.insert(port);
            },
        );
        world.insert_held::<LogicalRouter, _>(
            "router",
            &LogicalRouterPort {
                name: format!("trtor-{node}"),
                external_ids: mark("k8s.ovn.org/node", node),
                ..LogicalRouterPort::default()
            },
            |router, port| {
                router.ports.insert(port);
            },
        );
        world.insert_held::<LogicalRouter, _>(
            "router",
            &LogicalRouterStaticRoute {
                ip_prefix: format!("10.9.{}.0/24", &node[1..]),
                external_ids: mark("ic-node", node),
                ..LogicalRouterStaticRoute::default()
            },
            |router, route| {
                router.static_routes.insert(route);
            },
        );
    }
    assert_eq!(pass(&mut world, &rows), Counts::default());
    rows.nodes.remove("n2");
    let counts = pass(&mut world, &rows);
    // The router and the switch change, two ports and a route go.
    assert_eq!((counts.inserted, counts.changed, counts.deleted), (0, 2, 3));
    let ports = world.rows::<LogicalSwitchPort>();
    assert!(ports.iter().all(|port| port.name != "tstor-n2"));
    let ports = world.rows::<LogicalRouterPort>();
    assert!(ports.iter().all(|port| port.name != "trtor-n2"));
    assert_eq!(world.rows::<LogicalRouterStaticRoute>().len(), 2);
}

#[test]
fn a_route_with_another_next_hop_is_changed_in_place() {
    let mut world = World::new();
    let mut rows = rows();
    pass(&mut world, &rows);
    let router = rows.networks[0].router.as_mut().unwrap();
    router.static_routes[0].nexthop = "100.88.0.4".to_owned();
    let counts = pass(&mut world, &rows);
    assert_eq!((counts.inserted, counts.changed, counts.deleted), (0, 1, 0));
    let routes = world.rows::<LogicalRouterStaticRoute>();
    assert_eq!(routes[0].nexthop, "100.88.0.4");
}
