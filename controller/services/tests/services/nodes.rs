//! Rules of the zone's node: its gateway, node ports and addresses.

use std::collections::BTreeMap;

use patchbay_schemas::nb::{LoadBalancerGroup, LogicalRouter, LogicalSwitch};

use crate::world::{
    CHASSIS_ID, GATEWAY, HOST_CIDRS, SUBNETS, World, annotations, port, put_node, service, slice,
    vips,
};

#[test]
fn a_gateway_router_reaches_its_own_host_at_the_masquerade_address() {
    let mut world = World::new();
    world.inputs.put_service(service("web", "10.96.0.7", vec![port(80, None)]));
    let endpoints = [("10.10.2.3", "n1"), ("172.18.0.2", "n1"), ("172.18.0.3", "n2")];
    world.inputs.put_slice(slice("web", "s", 8080, &endpoints));
    world.pass();
    let expected = BTreeMap::from([
        (
            "web_TCP_node_router_n1".to_owned(),
            vips([("10.96.0.7:80", "10.10.2.3:8080,169.254.0.2:8080,172.18.0.3:8080")]),
        ),
        (
            "web_TCP_node_switch_n1".to_owned(),
            vips([("10.96.0.7:80", "10.10.2.3:8080,172.18.0.2:8080,172.18.0.3:8080")]),
        ),
    ]);
    assert_eq!(world.vips(), expected);
    assert_eq!(world.problems(), Vec::<String>::new());
    assert_eq!(world.rows::<LogicalSwitch>()[0].load_balancer.len(), 1);
    assert_eq!(world.rows::<LogicalRouter>()[0].load_balancer.len(), 1);

    // Without hosts among the endpoints, the load balancer is that of the whole network again.
    world.inputs.put_slice(slice("web", "s", 8080, &endpoints[..1]));
    world.pass();
    assert_eq!(world.vips().into_keys().collect::<Vec<_>>(), ["web_TCP_cluster"]);
    assert!(world.rows::<LogicalSwitch>()[0].load_balancer.is_empty());
    let groups = world.rows::<LoadBalancerGroup>();
    assert_eq!(groups[0].load_balancer.len(), 1);
}

#[test]
fn a_local_service_without_endpoints_here_rejects_at_the_gateway_router() {
    let mut world = World::new();
    let mut web = service("web", "10.96.0.7", vec![port(80, Some(30_080))]);
    web.is_external_local = true;
    web.external_ips = vec!["1.2.3.4".parse().unwrap()];
    world.inputs.put_service(web);
    let remote = slice("web", "s", 8080, &[("10.10.3.3", "n2")]);
    world.inputs.put_slice(remote);
    world.pass();
    let made = world.vips();
    assert_eq!(
        made["web_TCP_node_router_n1"],
        vips([("1.2.3.4:80", ""), ("172.18.0.2:30080", "")])
    );
    assert_eq!(
        made["web_TCP_node_switch_n1"],
        vips([
            ("1.2.3.4:80", "10.10.3.3:8080"),
            ("169.254.0.3:30080", ""),
            ("172.18.0.2:30080", "10.10.3.3:8080"),
        ])
    );
    assert_eq!(made.len(), 3, "{made:?}");
}

#[test]
fn a_node_without_gateway_has_rules_on_its_switch_only() {
    let mut world = World::new();
    let mut of_node = annotations("n1", 2);
    of_node.remove(HOST_CIDRS);
    of_node.insert(GATEWAY, r#"{"default":{"mode":"disabled"}}"#.to_owned());
    put_node(&mut world.inputs, "n1", of_node);
    let mut web = service("web", "10.96.0.7", vec![port(80, Some(30_080))]);
    web.is_internal_local = true;
    world.inputs.put_service(web);
    world.inputs.put_slice(slice("web", "s", 8080, &[("10.10.2.3", "n1"), ("10.10.3.3", "n2")]));
    world.pass();
    let expected = BTreeMap::from([(
        "web_TCP_node_switch_n1".to_owned(),
        vips([("10.96.0.7:80", "10.10.2.3:8080")]),
    )]);
    assert_eq!(world.vips(), expected);
}

/// A service with a node port and an endpoint that is outside of the network.
fn put_service_of_host(world: &mut World) {
    let ports = vec![port(80, Some(30_080))];
    world.inputs.put_service(service("web", "10.96.0.7", ports));
    world.inputs.put_slice(slice("web", "s", 8080, &[("172.18.0.3", "n2")]));
}

#[test]
fn a_node_without_chassis_id_has_no_gateway_yet() {
    let mut world = World::new();
    put_service_of_host(&mut world);
    let mut of_node = annotations("n1", 2);
    of_node.remove(CHASSIS_ID);
    put_node(&mut world.inputs, "n1", of_node);
    world.pass();
    let on_switch = vips([("10.96.0.7:80", "172.18.0.3:8080")]);
    let expected = [("web_TCP_node_switch_n1".to_owned(), on_switch)];
    assert_eq!(world.vips(), expected.into());

    put_node(&mut world.inputs, "n1", annotations("n1", 2));
    world.pass();
    let both = vips([("10.96.0.7:80", "172.18.0.3:8080"), ("172.18.0.2:30080", "172.18.0.3:8080")]);
    let expected = [("web_TCP_node_router+switch_n1".to_owned(), both)];
    assert_eq!(world.vips(), expected.into());
}

#[test]
fn a_layer3_network_has_no_place_on_a_node_without_its_subnet() {
    let mut world = World::new();
    put_service_of_host(&mut world);
    let mut of_node = annotations("n1", 2);
    of_node.insert(SUBNETS, r#"{"default":["10.244.0.0/24"]}"#.to_owned());
    put_node(&mut world.inputs, "n1", of_node);
    world.pass();
    assert_eq!(world.vips(), BTreeMap::new());
}

#[test]
fn ports_without_node_ports_and_nodes_that_forward_none_have_no_rules_of_nodes() {
    let gateway = |is_on: bool| {
        let addresses = r#""ip-addresses":["172.18.0.2/16"],"next-hops":["172.18.0.1"]"#;
        format!(r#"{{"default":{{"mode":"shared",{addresses},"node-port-enable":"{is_on}"}}}}"#)
    };
    for (node_port, forwards, is_made) in
        [(Some(30_080), true, true), (Some(30_080), false, false), (None, true, false)]
    {
        let mut world = World::new();
        let mut of_node = annotations("n1", 2);
        of_node.insert(GATEWAY, gateway(forwards));
        put_node(&mut world.inputs, "n1", of_node);
        world.inputs.put_service(service("web", "10.96.0.7", vec![port(80, node_port)]));
        world.pass();
        let name = "web_TCP_node_router+switch_n1";
        assert_eq!(world.vips().contains_key(name), is_made, "{node_port:?}");
        assert_eq!(world.vips().len(), 1 + usize::from(is_made));
    }
}

#[test]
fn node_ports_and_endpoints_of_hosts_have_all_addresses_of_the_annotation() {
    let mut world = World::new();
    for (name, id) in [("n1", 2), ("n2", 3)] {
        let mut of_node = annotations(name, id);
        let addresses = format!(r#"["172.18.0.{id}/16","192.168.5.{id}/24"]"#);
        of_node.insert(HOST_CIDRS, addresses);
        put_node(&mut world.inputs, name, of_node);
    }
    world.inputs.put_service(service("web", "10.96.0.7", vec![port(80, Some(30_080))]));
    world.inputs.put_slice(slice("web", "s", 8080, &[("192.168.5.3", "n2")]));
    world.pass();
    let made = world.vips();
    let rules = &made["web_TCP_node_router+switch_n1"];
    let expected = ["10.96.0.7:80", "172.18.0.2:30080", "192.168.5.2:30080"];
    assert_eq!(rules.keys().collect::<Vec<_>>(), expected);
    assert_eq!(world.problems(), [""; 0]);
}
