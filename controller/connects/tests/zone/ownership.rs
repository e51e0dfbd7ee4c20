//! Ownership of rows.

use std::collections::BTreeMap;

use patchbay_schemas::nb::{
    Acl, AddressSet, Copp, LoadBalancerGroup, LogicalRouter, LogicalRouterPort,
    LogicalRouterStaticRoute, LogicalSwitch,
};

use crate::world::World;

#[test]
fn rows_of_other_owners_stay_when_a_connect_is_deleted() {
    let mut world = World::red_and_blue();
    let subnets = [("layer3_1", "192.168.0.0/24"), ("layer3_2", "192.168.1.0/24")];
    world.connect("c", &["ServiceNetwork"], &subnets);
    let group = world.insert(&LoadBalancerGroup {
        name: "clusterLBGroup".to_owned(),
        ..LoadBalancerGroup::default()
    });
    world.edit::<LogicalSwitch>("red_n1", |switch| {
        switch.load_balancer_group.insert(group);
    });
    let before = world.database.snapshot();
    world.pass();
    assert!(world.row::<LogicalSwitch>("red_n1").acls.len() > 1);
    world.inputs.connects.clear();
    let (counts, _) = world.pass();
    assert_eq!(counts.inserted, 0);
    let after = world.database.snapshot();
    assert_eq!(after.row_count(), before.row_count());
    let switch = world.row::<LogicalSwitch>("red_n1");
    assert_eq!(switch.load_balancer_group, [group].into());
    assert!(switch.acls.is_empty());
}

#[test]
fn a_port_of_another_owner_is_not_changed() {
    let mut world = World::red_and_blue();
    let theirs = LogicalRouterPort {
        name: "rtocr-red_n1_c".to_owned(),
        mac: "0a:58:00:00:00:01".to_owned(),
        external_ids: [("k8s.ovn.org/owner-controller".to_owned(), "another-owner".to_owned())]
            .into(),
        ..LogicalRouterPort::default()
    };
    world.insert_held::<LogicalRouter, _>("red_ovn_cluster_router", &theirs, |router, port| {
        router.ports.insert(port);
    });
    let report = world.pass_of_c();
    assert_eq!(report.messages(), ["network red, node n1: the port name rtocr-red_n1_c is in use"]);
    assert_eq!(world.row::<LogicalRouterPort>("rtocr-red_n1_c"), theirs);
}

#[test]
fn rows_without_an_owner_are_adopted() {
    let mut world = World::red_and_blue();
    world.pass();
    let ports = world.ports_of("connect_router_c");
    world.edit::<LogicalRouter>("connect_router_c", |router| router.external_ids.clear());
    world.edit::<LogicalRouterPort>("crtor-c_red_n1", |port| port.external_ids.clear());
    let (counts, _) = world.pass();
    assert_eq!((counts.inserted, counts.changed, counts.deleted), (0, 2, 0));
    assert_eq!(world.ports_of("connect_router_c"), ports);
}

#[test]
fn an_address_set_without_an_owner_is_adopted() {
    let mut world = World::red_and_blue();
    let subnets = [("layer3_1", "192.168.0.0/24"), ("layer3_2", "192.168.1.0/24")];
    world.connect("c", &["ServiceNetwork"], &subnets);
    world.pass();
    let before = world.rows::<AddressSet>();
    world.edit_nth::<AddressSet>(0, |set| set.external_ids.clear());
    let (counts, _) = world.pass();
    assert_eq!((counts.inserted, counts.changed, counts.deleted), (0, 1, 0));
    assert_eq!(world.rows::<AddressSet>(), before);
}

/// External ids of a row of another program.
fn of_another() -> BTreeMap<String, String> {
    let key = "k8s.ovn.org/owner-controller".to_owned();
    [(key, "another-owner".to_owned())].into()
}

#[test]
fn a_name_that_another_owner_has_holds_the_connect() {
    let mut world = World::red_and_blue();
    let subnets = [("layer3_1", "192.168.0.0/24"), ("layer3_2", "192.168.1.0/24")];
    world.connect("c", &["ServiceNetwork"], &subnets);
    let router = LogicalRouter {
        name: "connect_router_c".to_owned(),
        external_ids: of_another(),
        ..LogicalRouter::default()
    };
    let theirs = world.insert(&router);
    assert_eq!(
        world.pass_of_c().messages(),
        [
            "the Northbound database refuses the connect's rows: Logical_Router connect_router_c belongs to another owner"
        ]
    );
    assert_eq!(world.count::<AddressSet>(), 0);
    world.change(|txn| txn.delete(theirs).unwrap());
    assert!(world.pass_of_c().is_complete());
    // ACLs refer to address sets by name: they must not refer to that of another owner.
    let before = world.database.snapshot().row_count();
    world.edit_nth::<AddressSet>(0, |set| set.external_ids = of_another());
    world.inputs.nodes.remove("n2");
    let report = world.pass_of_c();
    assert!(report.messages()[0].contains("Address_Set a"), "{report:?}");
    assert_eq!(world.database.snapshot().row_count(), before);
    world.edit_nth::<AddressSet>(0, |set| set.external_ids.clear());
    assert!(world.pass_of_c().is_complete());
    assert!(world.database.snapshot().row_count() < before);
}

#[test]
fn duplicate_rows_are_removed() {
    let mut world = World::red_and_blue();
    world.pass();
    let route = world
        .rows::<LogicalRouterStaticRoute>()
        .into_iter()
        .find(|route| route.ip_prefix == "10.1.3.0/24")
        .unwrap();
    world.insert_held::<LogicalRouter, _>("connect_router_c", &route, |router, route| {
        router.static_routes.insert(route);
    });
    assert_eq!(world.count::<LogicalRouterStaticRoute>(), 5);
    let (counts, _) = world.pass();
    assert_eq!((counts.inserted, counts.deleted), (0, 1));
    assert_eq!(world.count::<LogicalRouterStaticRoute>(), 4);
}

#[test]
fn no_router_is_inserted_before_the_copp_row_exists() {
    let mut world = World::red_and_blue();
    let copp = world.row::<Copp>("ovnkube-default");
    world.delete::<Copp>("ovnkube-default");
    let report = world.pass_of_c();
    assert_eq!(
        report.messages(),
        [
            "unable to create router control plane protection: Copp row ovnkube-default does not exist yet"
        ]
    );
    assert!(world.ports_of("red_ovn_cluster_router").is_empty());
    world.insert(&copp);
    assert!(world.pass_of_c().is_complete());
    assert!(world.row::<LogicalRouter>("connect_router_c").copp.is_some());
}

#[test]
fn an_existing_router_does_not_wait_for_the_copp_row() {
    let mut world = World::red_and_blue();
    world.pass();
    let copp = world.row::<Copp>("ovnkube-default");
    world.delete::<Copp>("ovnkube-default");
    let subnets = [("layer3_1", "192.168.0.0/24"), ("layer3_2", "192.168.1.0/24")];
    world.connect("c", &["ServiceNetwork"], &subnets);
    assert!(world.pass_of_c().is_complete());
    assert!(world.count::<Acl>() > 0);
    world.insert(&copp);
    assert!(world.pass_of_c().is_complete());
    assert!(world.row::<LogicalRouter>("connect_router_c").copp.is_some());
}

#[test]
fn a_recreated_router_gains_its_rows_again() {
    let mut world = World::red_and_blue();
    world.pass();
    world.delete::<LogicalRouter>("red_ovn_cluster_router");
    assert_eq!(
        world.pass_of_c().messages(),
        ["network red: its router red_ovn_cluster_router does not exist yet"]
    );
    world.insert(&LogicalRouter {
        name: "red_ovn_cluster_router".to_owned(),
        ..LogicalRouter::default()
    });
    assert!(world.pass_of_c().is_complete());
    assert_eq!(world.ports_of("red_ovn_cluster_router").len(), 1);
}

#[test]
fn a_router_deleted_before_the_commit_fails_the_transaction() {
    let mut world = World::red_and_blue();
    let plan = world.plan();
    world.delete::<LogicalRouter>("red_ovn_cluster_router");
    let change = plan.connects[0].change.as_ref().unwrap();
    let operations = change.transaction.as_ref().unwrap().operations().to_vec();
    assert!(world.database.transact(&operations).is_err());
    assert_eq!(world.count::<LogicalRouterPort>(), 0);
}
