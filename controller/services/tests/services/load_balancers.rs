//! Load balancers of a service, and their options.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use patchbay_engine::txn::TxnBuilder;
use patchbay_model::{ClusterSettings, Networks};
use patchbay_schemas::nb::{LoadBalancer, LoadBalancerSelectionFields, LogicalRouter};
use patchbay_zone::ZoneObjects;

use crate::world::{CONFIG, World, key, networks, port, service, set_networks, slice, vips};

#[test]
fn a_taken_address_or_node_port_is_named_and_comes_free_with_its_service() {
    let mut world = World::new();
    let ports = || vec![port(80, Some(30_080))];
    world.inputs.put_service(service("a", "10.96.0.7", ports()));
    world.inputs.put_service(service("b", "10.96.0.7", ports()));
    world.pass();
    assert_eq!(
        world.problems(),
        [
            "Service blue/b: 10.96.0.7 port 80 of TCP is taken by service blue/a",
            "Service blue/b: spec.ports: node port 30080 of TCP is taken by service blue/a",
        ]
    );
    let names = |world: &World| world.vips().into_keys().collect::<Vec<_>>();
    assert_eq!(names(&world), ["a_TCP_cluster", "a_TCP_node_router+switch_n1"]);
    world.inputs.remove_service(&key("a"));
    world.pass();
    assert_eq!(names(&world), ["b_TCP_cluster", "b_TCP_node_router+switch_n1"]);
    assert_eq!(world.problems(), Vec::<String>::new());
}

#[test]
fn rows_stay_while_their_network_cannot_be_read() {
    let mut world = World::new();
    world.inputs.put_service(service("web", "10.96.0.7", vec![port(80, None)]));
    world.pass();
    set_networks(&mut world.inputs, &networks("{"));
    world.pass();
    assert_eq!(world.vips().len(), 1);
    set_networks(&mut world.inputs, &Networks::default());
    world.pass();
    assert_eq!(world.vips().len(), 0);
}

#[test]
fn load_balancers_of_ovn_kubernetes_stay_as_they_are() {
    let mut world = World::new();
    let mut txn = TxnBuilder::new(&world.database.snapshot());
    txn.insert(&LogicalRouter {
        name: "ovn_cluster_router".to_owned(),
        ..LogicalRouter::default()
    })
    .unwrap();
    for name in ["web", "gone"] {
        let ids = [
            ("k8s.ovn.org/kind", "Service"),
            ("k8s.ovn.org/network", "blue_l3"),
            ("k8s.ovn.org/owner", &format!("blue/{name}")),
        ];
        txn.insert(&LoadBalancer {
            name: format!("blue_l3_Service_blue/{name}_TCP_cluster"),
            vips: vips([("10.96.0.7:80", "10.10.9.9:8080")]),
            external_ids: ids.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            ..LoadBalancer::default()
        })
        .unwrap();
    }
    world.database.transact(txn.finish().operations()).unwrap();
    let before = world.vips();
    world.inputs.put_service(service("web", "10.96.0.7", vec![port(80, None)]));
    world.inputs.put_service(service("new", "10.96.0.8", vec![port(80, None)]));
    world.pass();
    let mut after = world.vips();
    assert_eq!(after.remove("new_TCP_cluster"), Some(vips([("10.96.0.8:80", "")])));
    assert_eq!(after, before);
}

#[test]
fn services_of_one_address_on_several_ports_do_not_contradict() {
    let mut world = World::new();
    let address: IpAddr = "1.2.3.4".parse().unwrap();
    for (name, cluster_ip, number) in [("a", "10.96.0.7", 80), ("b", "10.96.0.8", 81)] {
        let mut of = service(name, cluster_ip, vec![port(number, None)]);
        of.external_ips = vec![address];
        world.inputs.put_service(of);
    }
    world.pass();
    assert_eq!(world.problems(), Vec::<String>::new());
    assert!(world.vips()["b_TCP_cluster"].contains_key("1.2.3.4:81"));
}

#[test]
fn a_service_that_all_networks_reach_has_no_load_balancers_in_its_own() {
    let mut world = World::new();
    let settings = ClusterSettings {
        reachable_default_services: vec!["blue/dns".to_owned()],
        ..ClusterSettings::default()
    };
    world.inputs = ZoneObjects::new("n1", &settings);
    set_networks(&mut world.inputs, &networks(CONFIG));
    for (name, address) in [("dns", "10.96.0.10"), ("web", "10.96.0.7")] {
        world.inputs.put_service(service(name, address, vec![port(53, None)]));
    }
    world.pass();
    let made = world.vips();
    assert_eq!(made.keys().collect::<Vec<_>>(), ["web_TCP_cluster"]);
}

#[test]
fn only_the_load_balancer_of_local_endpoints_skips_snat() {
    let mut world = World::new();
    let mut web = service("web", "10.96.0.7", vec![port(80, Some(30_080))]);
    web.is_external_local = true;
    world.inputs.put_service(web);
    world.inputs.put_slice(slice("web", "s", 8080, &[("10.10.2.3", "n1")]));
    world.pass();
    let rows = world.rows::<LoadBalancer>().into_iter();
    let skips = rows.map(|row| {
        let (_, scope) = row.name.split_once("_TCP_").unwrap();
        (scope.to_owned(), row.options["skip_snat"].clone())
    });
    let expected =
        [("cluster", "false"), ("node_local_router_n1", "true"), ("node_switch_n1", "false")]
            .map(|(scope, skips)| (scope.to_owned(), skips.to_owned()));
    assert_eq!(skips.collect::<BTreeMap<_, _>>(), expected.into());
}

#[test]
fn an_affinity_of_a_day_is_a_hash_and_a_shorter_one_a_timeout() {
    for (timeout, option, has_hash) in [
        (None, None, false),
        (Some(10_800), Some("10800"), false),
        (Some(86_399), Some("86399"), false),
        (Some(86_400), None, true),
    ] {
        let mut world = World::new();
        let mut web = service("web", "10.96.0.7", vec![port(80, None)]);
        web.affinity_timeout = timeout;
        world.inputs.put_service(web);
        world.pass();
        let rows = world.rows::<LoadBalancer>();
        let [row] = &rows[..] else {
            panic!("{rows:?}");
        };
        let found = row.options.get("affinity_timeout");
        assert_eq!(found.map(String::as_str), option);
        let hash = [LoadBalancerSelectionFields::IpSrc, LoadBalancerSelectionFields::IpDst];
        let hash = if has_hash { hash.into() } else { BTreeSet::new() };
        assert_eq!(row.selection_fields, hash, "{timeout:?}");
    }
}
