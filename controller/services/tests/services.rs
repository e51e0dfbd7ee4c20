//! Load balancers of services in a database: what recordings do not show.

#![allow(clippy::unwrap_used, reason = "helpers of tests may stop a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use patchbay_engine::db::Database;
use patchbay_engine::txn::TxnBuilder;
use patchbay_model::{
    AttachmentDefinition, ClusterSettings, Endpoint, EndpointPort, EndpointSlice, EndpointState,
    NadKey, Networks, NodeObject, Protocol, Service, ServiceKey, ServicePort, TargetPort,
};
use patchbay_schemas::nb::{self, LoadBalancer, LoadBalancerGroup, LogicalRouter, LogicalSwitch};
use patchbay_schemas::typed::TableRow;
use patchbay_schemas::uuids::UuidSource;
use patchbay_services::{ServiceController, ZoneServices};

const CONFIG: &str = r#"{"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","name":"blue_l3",
    "netAttachDefName":"blue/l3","role":"primary","subnets":"10.10.0.0/16/24","topology":"layer3",
    "type":"ovn-k8s-cni-overlay"}"#;

/// The networks of namespace `blue` with this configuration.
fn networks(config: &str) -> Networks {
    let definition = AttachmentDefinition {
        key: NadKey {
            namespace: "blue".to_owned(),
            name: "l3".to_owned(),
        },
        config: Some(config),
        network_id: Some("1"),
        tunnel_keys: Some("[]"),
        advertisements: None,
        owner_network: None,
    };
    Networks::from_definitions([definition], &["blue".to_owned()].into())
}

fn put_node(inputs: &mut ZoneServices, name: &str, id: u8) {
    let annotations = [
        ("k8s.ovn.org/node-id", id.to_string()),
        ("k8s.ovn.org/node-chassis-id", format!("c-{name}")),
        (
            "k8s.ovn.org/node-subnets",
            format!(r#"{{"blue_l3":["10.10.{id}.0/24"]}}"#),
        ),
        ("k8s.ovn.org/host-cidrs", format!(r#"["172.18.0.{id}/16"]"#)),
    ];
    let annotations: BTreeMap<String, String> = annotations
        .map(|(key, value)| (key.to_owned(), value))
        .into();
    inputs.put_node(NodeObject {
        name,
        created: None,
        labels: None,
        annotations: Some(&annotations),
    });
}

fn key(name: &str) -> ServiceKey {
    ServiceKey {
        namespace: "blue".into(),
        name: name.into(),
    }
}

fn port(port: u16, node_port: Option<u16>) -> ServicePort {
    ServicePort {
        name: String::new(),
        protocol: Protocol::Tcp,
        port,
        node_port,
        target: TargetPort::Number(8080),
    }
}

fn service(name: &str, cluster_ip: &str, ports: Vec<ServicePort>) -> Service {
    Service {
        key: key(name),
        cluster_ips: vec![cluster_ip.parse().unwrap()],
        external_ips: Vec::new(),
        ports,
        affinity_timeout: None,
        is_internal_local: false,
        is_external_local: false,
        publishes_unready: false,
        selector: BTreeMap::new(),
        problems: Vec::new(),
    }
}

/// A mirrored slice with ready endpoints on nodes.
fn slice(service: &str, name: &str, port: u16, endpoints: &[(&str, &str)]) -> EndpointSlice {
    let endpoints = endpoints.iter().map(|(address, node)| Endpoint {
        addresses: vec![address.parse().unwrap()],
        node: Some((*node).into()),
        state: EndpointState::Ready,
    });
    EndpointSlice {
        service: key(service),
        name: name.into(),
        network: Some("blue_l3".to_owned()),
        endpoints: endpoints.collect(),
        ports: vec![EndpointPort {
            name: String::new(),
            protocol: Protocol::Tcp,
            port,
        }],
    }
}

/// A database with the rows of the network on node `n1`, and a controller.
struct World {
    database: Database,
    controller: ServiceController,
    inputs: ZoneServices,
}

impl World {
    fn new() -> Self {
        let mut database = Database::with_uuids(nb::schema(), UuidSource::seeded(1));
        let mut txn = TxnBuilder::new(&database.snapshot());
        txn.insert(&LoadBalancerGroup {
            name: "blue_l3_clusterLBGroup".to_owned(),
            ..LoadBalancerGroup::default()
        })
        .unwrap();
        txn.insert(&LogicalRouter {
            name: "GR_blue_l3_n1".to_owned(),
            ..LogicalRouter::default()
        })
        .unwrap();
        txn.insert(&LogicalSwitch {
            name: "blue_l3_n1".to_owned(),
            ..LogicalSwitch::default()
        })
        .unwrap();
        database.transact(txn.finish().operations()).unwrap();
        let mut inputs = ZoneServices::new("n1", &ClusterSettings::default());
        inputs.set_networks(&networks(CONFIG));
        put_node(&mut inputs, "n1", 2);
        put_node(&mut inputs, "n2", 3);
        Self {
            database,
            controller: ServiceController::new(UuidSource::seeded(2)),
            inputs,
        }
    }

    /// Plans, commits, and makes sure that neither this controller nor a new one finds more to do.
    fn pass(&mut self) {
        let snapshot = self.database.snapshot();
        let change = self.controller.plan(&self.inputs, &snapshot).unwrap();
        if let Some(transaction) = change.transaction {
            self.database.transact(transaction.operations()).unwrap();
        }
        let snapshot = self.database.snapshot();
        let mut fresh = ServiceController::new(UuidSource::seeded(3));
        for controller in [&mut self.controller, &mut fresh] {
            let again = controller.plan(&self.inputs, &snapshot).unwrap();
            let again = again
                .transaction
                .map(|transaction| transaction.operations().to_vec());
            assert!(again.is_none(), "{again:?}");
        }
    }

    fn rows<T: TableRow>(&self) -> Vec<T> {
        let snapshot = self.database.snapshot();
        let rows = snapshot.typed::<T>();
        rows.iter().map(|row| row.unwrap().1).collect()
    }

    /// Virtual addresses with backends of each load balancer, by name without the prefix.
    fn vips(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let rows = self.rows::<LoadBalancer>().into_iter();
        rows.map(|row| {
            let name = row.name.strip_prefix("blue_l3_Service_blue/");
            (name.unwrap().to_owned(), row.vips)
        })
        .collect()
    }

    fn problems(&self) -> Vec<String> {
        let problems = self.controller.problems();
        problems
            .map(|(service, problem)| format!("{service}: {problem}"))
            .collect()
    }
}

fn vips<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs
        .map(|(vip, backends)| (vip.to_owned(), backends.to_owned()))
        .into()
}

#[test]
fn a_gateway_router_reaches_its_own_host_at_the_masquerade_address() {
    let mut world = World::new();
    world
        .inputs
        .put_service(service("web", "10.96.0.7", vec![port(80, None)]));
    let endpoints = [
        ("10.10.2.3", "n1"),
        ("172.18.0.2", "n1"),
        ("172.18.0.3", "n2"),
    ];
    world.inputs.put_slice(slice("web", "s", 8080, &endpoints));
    world.pass();
    let expected = BTreeMap::from([
        (
            "web_TCP_node_router_n1".to_owned(),
            vips([(
                "10.96.0.7:80",
                "10.10.2.3:8080,169.254.0.2:8080,172.18.0.3:8080",
            )]),
        ),
        (
            "web_TCP_node_switch_n1".to_owned(),
            vips([(
                "10.96.0.7:80",
                "10.10.2.3:8080,172.18.0.2:8080,172.18.0.3:8080",
            )]),
        ),
    ]);
    assert_eq!(world.vips(), expected);
    assert_eq!(world.problems(), Vec::<String>::new());
    assert_eq!(world.rows::<LogicalSwitch>()[0].load_balancer.len(), 1);
    assert_eq!(world.rows::<LogicalRouter>()[0].load_balancer.len(), 1);

    // Without hosts among the endpoints, the load balancer is that of the whole network again.
    world
        .inputs
        .put_slice(slice("web", "s", 8080, &endpoints[..1]));
    world.pass();
    assert_eq!(
        world.vips().into_keys().collect::<Vec<_>>(),
        ["web_TCP_cluster"]
    );
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
fn a_taken_address_or_node_port_is_named_and_comes_free_with_its_service() {
    let mut world = World::new();
    let ports = || vec![port(80, Some(30_080))];
    world.inputs.put_service(service("a", "10.96.0.7", ports()));
    world.inputs.put_service(service("b", "10.96.0.7", ports()));
    world.pass();
    assert_eq!(
        world.problems(),
        [
            "blue/b: 10.96.0.7 port 80 of TCP is taken by service blue/a",
            "blue/b: spec.ports: node port 30080 of TCP is taken by service blue/a",
        ]
    );
    let names = |world: &World| world.vips().into_keys().collect::<Vec<_>>();
    assert_eq!(
        names(&world),
        ["a_TCP_cluster", "a_TCP_node_router+switch_n1"]
    );
    world.inputs.remove_service(&key("a"));
    world.pass();
    assert_eq!(
        names(&world),
        ["b_TCP_cluster", "b_TCP_node_router+switch_n1"]
    );
    assert_eq!(world.problems(), Vec::<String>::new());
}

#[test]
fn endpoints_outside_of_network_and_nodes_are_named_and_used() {
    let mut world = World::new();
    world
        .inputs
        .put_service(service("web", "10.96.0.7", vec![port(80, None)]));
    world
        .inputs
        .put_slice(slice("web", "s", 8080, &[("10.244.0.10", "n1")]));
    world.pass();
    let problem = "blue/web: endpoint 10.244.0.10 is neither in a subnet of network blue_l3 nor an \
                   address of a node";
    assert_eq!(world.problems(), [problem]);
    let made = world.vips();
    assert_eq!(
        made["web_TCP_node_router+switch_n1"],
        vips([("10.96.0.7:80", "10.244.0.10:8080")])
    );
}

#[test]
fn while_a_target_port_changes_endpoints_have_their_own_ports() {
    let mut world = World::new();
    let endpoints = [("10.10.2.3", "n1"), ("10.10.2.10", "n1")];
    let web = service("web", "10.96.0.7", vec![port(80, None)]);
    world.inputs.put_service(web);
    world
        .inputs
        .put_slice(slice("web", "s1", 9090, &[("10.10.2.2", "n2")]));
    world.inputs.put_slice(slice("web", "s2", 8080, &endpoints));
    world.pass();
    // Those of the lower port come first.
    let backends = "10.10.2.10:8080,10.10.2.3:8080,10.10.2.2:9090";
    assert_eq!(
        world.vips()["web_TCP_cluster"],
        vips([("10.96.0.7:80", backends)])
    );
    assert_eq!(world.problems(), [""; 0]);
}

#[test]
fn addresses_have_the_order_of_their_texts_without_ports() {
    let mut world = World::new();
    world
        .inputs
        .put_service(service("web", "10.96.0.7", vec![port(80, None)]));
    let endpoints = [
        ("10.10.2.10", "n1"),
        ("10.10.2.1", "n1"),
        ("10.10.2.9", "n1"),
    ];
    world.inputs.put_slice(slice("web", "s", 8080, &endpoints));
    world.pass();
    assert_eq!(
        world.vips()["web_TCP_cluster"]["10.96.0.7:80"],
        "10.10.2.1:8080,10.10.2.10:8080,10.10.2.9:8080"
    );
}

#[test]
fn rows_stay_while_their_network_cannot_be_read() {
    let mut world = World::new();
    world
        .inputs
        .put_service(service("web", "10.96.0.7", vec![port(80, None)]));
    world.pass();
    world.inputs.set_networks(&networks("{"));
    world.pass();
    assert_eq!(world.vips().len(), 1);
    world
        .inputs
        .set_networks(&Networks::from_definitions([], &BTreeSet::new()));
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
            external_ids: ids
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ..LoadBalancer::default()
        })
        .unwrap();
    }
    world.database.transact(txn.finish().operations()).unwrap();
    let before = world.vips();
    world
        .inputs
        .put_service(service("web", "10.96.0.7", vec![port(80, None)]));
    world
        .inputs
        .put_service(service("new", "10.96.0.8", vec![port(80, None)]));
    world.pass();
    let mut after = world.vips();
    assert_eq!(
        after.remove("new_TCP_cluster"),
        Some(vips([("10.96.0.8:80", "")]))
    );
    assert_eq!(after, before);
}

#[test]
fn a_node_without_gateway_has_rules_on_its_switch_only() {
    let mut world = World::new();
    let annotations = [
        ("k8s.ovn.org/node-id", "2"),
        (
            "k8s.ovn.org/node-subnets",
            r#"{"blue_l3":["10.10.2.0/24"]}"#,
        ),
        (
            "k8s.ovn.org/l3-gateway-config",
            r#"{"default":{"mode":"disabled"}}"#,
        ),
    ];
    let annotations: BTreeMap<String, String> = annotations
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    world.inputs.put_node(NodeObject {
        name: "n1",
        created: None,
        labels: None,
        annotations: Some(&annotations),
    });
    let mut web = service("web", "10.96.0.7", vec![port(80, Some(30_080))]);
    web.is_internal_local = true;
    world.inputs.put_service(web);
    world.inputs.put_slice(slice(
        "web",
        "s",
        8080,
        &[("10.10.2.3", "n1"), ("10.10.3.3", "n2")],
    ));
    world.pass();
    let expected = BTreeMap::from([(
        "web_TCP_node_switch_n1".to_owned(),
        vips([("10.96.0.7:80", "10.10.2.3:8080")]),
    )]);
    assert_eq!(world.vips(), expected);
}

#[test]
fn terminating_endpoints_serve_where_no_other_does() {
    let mut world = World::new();
    let mut web = service("web", "10.96.0.7", vec![port(80, None)]);
    web.is_internal_local = true;
    world.inputs.put_service(web);
    let mut endpoints = slice(
        "web",
        "s",
        8080,
        &[("10.10.2.3", "n1"), ("10.10.3.3", "n2")],
    );
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
    world
        .inputs
        .put_slice(slice("web", "s", 8080, &[("10.10.2.3", "n1")]));
    world.pass();
    let tcp = vips([("10.96.0.7:80", "10.10.2.3:8080"), ("10.96.0.7:81", "")]);
    let udp = vips([("10.96.0.7:80", "")]);
    let expected = [("web_TCP_cluster", tcp), ("web_UDP_cluster", udp)];
    let expected = expected.map(|(name, vips)| (name.to_owned(), vips));
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
    let mut slice = slice(
        "web",
        "s",
        8080,
        &[("10.10.2.3", "n1"), ("10.10.3.3", "n2")],
    );
    slice.endpoints[1].state = EndpointState::Unready;
    world.inputs.put_slice(slice);
    world.pass();
    let all = "10.10.2.3:8080,10.10.3.3:8080";
    let on_switch = vips([("1.2.3.4:80", all), ("10.96.0.7:80", "10.10.2.3:8080")]);
    assert_eq!(world.vips()["web_TCP_node_switch_n1"], on_switch);
}
