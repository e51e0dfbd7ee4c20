//! Backends of virtual addresses: which endpoints, in which order.

use std::collections::BTreeMap;

use patchbay_model::{EndpointState, Protocol, ServicePort};

use crate::world::{World, port, service, slice, vips};

#[test]
fn endpoints_outside_of_network_and_nodes_are_named_and_used() {
    let mut world = World::new();
    world.inputs.put_service(service("web", "10.96.0.7", vec![port(80, None)]));
    world.inputs.put_slice(slice("web", "s", 8080, &[("10.244.0.10", "n1")]));
    world.pass();
    let problem = "Service blue/web: endpoint 10.244.0.10 is neither in a subnet of network blue_l3 nor an \
                   address of a node";
    assert_eq!(world.problems(), [problem]);
    let made = world.vips();
    assert_eq!(made["web_TCP_node_router+switch_n1"], vips([("10.96.0.7:80", "10.244.0.10:8080")]));
}

#[test]
fn while_a_target_port_changes_endpoints_have_their_own_ports() {
    let mut world = World::new();
    let endpoints = [("10.10.2.3", "n1"), ("10.10.2.10", "n1")];
    let web = service("web", "10.96.0.7", vec![port(80, None)]);
    world.inputs.put_service(web);
    world.inputs.put_slice(slice("web", "s1", 9090, &[("10.10.2.2", "n2")]));
    world.inputs.put_slice(slice("web", "s2", 8080, &endpoints));
    world.pass();
    // Those of the lower port come first.
    let backends = "10.10.2.10:8080,10.10.2.3:8080,10.10.2.2:9090";
    assert_eq!(world.vips()["web_TCP_cluster"], vips([("10.96.0.7:80", backends)]));
    assert_eq!(world.problems(), [""; 0]);
}

#[test]
fn addresses_have_the_order_of_their_texts_without_ports() {
    let mut world = World::new();
    world.inputs.put_service(service("web", "10.96.0.7", vec![port(80, None)]));
    let endpoints = [("10.10.2.10", "n1"), ("10.10.2.1", "n1"), ("10.10.2.9", "n1")];
    world.inputs.put_slice(slice("web", "s", 8080, &endpoints));
    world.pass();
    assert_eq!(
        world.vips()["web_TCP_cluster"]["10.96.0.7:80"],
        "10.10.2.1:8080,10.10.2.10:8080,10.10.2.9:8080"
    );
}

#[test]
fn terminating_endpoints_serve_where_no_other_does() {
    let mut world = World::new();
    let mut web = service("web", "10.96.0.7", vec![port(80, None)]);
    web.is_internal_local = true;
    world.inputs.put_service(web);
    let mut endpoints = slice("web", "s", 8080, &[("10.10.2.3", "n1"), ("10.10.3.3", "n2")]);
    endpoints.endpoints[0].state = EndpointState::ServingTerminating;
    world.inputs.put_slice(endpoints);
    world.pass();
    // The fallback is decided for each node and for all nodes.
    let made = world.vips();
    let of = |name: &str| made[name]["10.96.0.7:80"].as_str();
    assert_eq!(of("web_TCP_node_switch_n1"), "10.10.2.3:8080");
    assert_eq!(of("web_TCP_node_router_n1"), "10.10.3.3:8080");
}

#[test]
fn endpoints_belong_to_the_port_of_their_name_and_protocol() {
    let mut world = World::new();
    let named = |name: &str, protocol, number| ServicePort {
        name: name.to_owned(),
        protocol,
        ..port(number, None)
    };
    let ports = vec![
        named("", Protocol::Tcp, 80),
        named("admin", Protocol::Tcp, 81),
        named("", Protocol::Udp, 80),
    ];
    world.inputs.put_service(service("web", "10.96.0.7", ports));
    world.inputs.put_slice(slice("web", "s", 8080, &[("10.10.2.3", "n1")]));
    world.pass();
    let tcp = vips([("10.96.0.7:80", "10.10.2.3:8080"), ("10.96.0.7:81", "")]);
    let udp = vips([("10.96.0.7:80", "")]);
    let expected = [("web_TCP_cluster", tcp), ("web_UDP_cluster", udp)]
        .map(|(name, vips)| (name.to_owned(), vips));
    assert_eq!(world.vips(), BTreeMap::from(expected));
}

#[test]
fn an_internal_local_service_keeps_clients_of_its_cluster_ip_only_on_their_node() {
    let mut world = World::new();
    let mut web = service("web", "10.96.0.7", vec![port(80, None)]);
    web.is_internal_local = true;
    web.publishes_unready = true;
    web.external_ips = vec!["1.2.3.4".parse().unwrap()];
    world.inputs.put_service(web);
    let mut slice = slice("web", "s", 8080, &[("10.10.2.3", "n1"), ("10.10.3.3", "n2")]);
    slice.endpoints[1].state = EndpointState::Unready;
    world.inputs.put_slice(slice);
    world.pass();
    let all = "10.10.2.3:8080,10.10.3.3:8080";
    let on_switch = vips([("1.2.3.4:80", all), ("10.96.0.7:80", "10.10.2.3:8080")]);
    assert_eq!(world.vips()["web_TCP_node_switch_n1"], on_switch);
}

#[test]
fn an_endpoint_of_two_slices_is_one_backend() {
    let mut world = World::new();
    world.inputs.put_service(service("web", "10.96.0.7", vec![port(80, None)]));
    for name in ["s1", "s2"] {
        let endpoints = [("10.10.2.3", "n1"), ("10.10.3.3", "n2")];
        world.inputs.put_slice(slice("web", name, 8080, &endpoints));
    }
    world.pass();
    let backends = "10.10.2.3:8080,10.10.3.3:8080";
    let expected = vips([("10.96.0.7:80", backends)]);
    assert_eq!(world.vips()["web_TCP_cluster"], expected);
}
