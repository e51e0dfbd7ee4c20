//! Answers about VPCs that depend on more than the rows: the node of the sender, and the ovn-northd
//! that reads them.

use patchbay_reach::{
    Answer, Destination, Northbound, Northd, Protocol, Question, Sender, Verdict,
};
use serde_json::{Value, json};

use crate::support::northbound;

/// A VPC with the machine `vm`, which leaves it by the network `external` with the tag 222, and
/// `rows` of the router.
fn vpc(rows: &[(&str, &str, Value)]) -> Northbound {
    let mut request = vec![json!("OVN_Northbound")];
    let mut insert = |table: &str, name: &str, row: Value| {
        request.push(json!({"op": "insert", "table": table, "uuid-name": name, "row": row}));
        json!(["named-uuid", name])
    };
    let chassis = [("c1", 99), ("c2", 100)].map(|(name, priority)| {
        let row = json!({"name": format!("vpc-external-{name}"), "chassis_name": name,
            "priority": priority});
        insert("Gateway_Chassis", name, row)
    });
    let router_ports = [
        json!({"name": "vpc-net", "mac": "0a:58:0a:00:00:01", "networks": "10.0.0.1/24"}),
        json!({"name": "vpc-external", "mac": "0a:58:c0:00:02:02", "networks": "192.0.2.2/24",
            "gateway_chassis": ["set", chassis]}),
    ];
    let router_ports = ["rp0", "rp1"]
        .into_iter()
        .zip(router_ports)
        .map(|(name, row)| insert("Logical_Router_Port", name, row));
    let router_ports: Vec<_> = router_ports.collect();
    let mut row = json!({"name": "vpc", "ports": ["set", router_ports]});
    for (number, (table, column, columns)) in rows.iter().enumerate() {
        let reference = insert(table, &format!("row{number}"), columns.clone());
        let list = row.as_object_mut().unwrap().entry(*column).or_insert(json!(["set", []]));
        list[1].as_array_mut().unwrap().push(reference);
    }
    insert("Logical_Router", "vpc", row);
    for (switch, ports) in [
        (
            "net",
            vec![
                json!({"name": "vm", "addresses": "0a:58:0a:00:00:02 10.0.0.2"}),
                json!({"name": "web", "addresses": "0a:58:0a:00:00:03 10.0.0.3"}),
                json!({"name": "net-vpc", "type": "router", "addresses": "router",
                "options": ["map", [["router-port", "vpc-net"]]]}),
            ],
        ),
        (
            "external",
            vec![
                json!({"name": "localnet.external", "type": "localnet", "addresses": "unknown",
                "tag": 222, "options": ["map", [["network_name", "provider"]]]}),
                json!({"name": "external-vpc", "type": "router", "addresses": "router",
                "options": ["map", [["router-port", "vpc-external"]]]}),
            ],
        ),
    ] {
        let ports = ports.into_iter().enumerate();
        let ports = ports
            .map(|(number, row)| insert("Logical_Switch_Port", &format!("{switch}{number}"), row));
        let ports: Vec<_> = ports.collect();
        insert("Logical_Switch", switch, json!({"name": switch, "ports": ["set", ports]}));
    }
    northbound(&Value::Array(request).to_string())
}

fn route(policy: &str, prefix: &str, next_hop: &str) -> (&'static str, &'static str, Value) {
    let row = json!({"policy": policy, "ip_prefix": prefix, "nexthop": next_hop});
    ("Logical_Router_Static_Route", "static_routes", row)
}

fn default_route() -> (&'static str, &'static str, Value) {
    route("dst-ip", "0.0.0.0/0", "192.0.2.1")
}

fn forward() -> (&'static str, &'static str, Value) {
    let row = json!({"name": "forward", "protocol": "tcp",
        "vips": ["map", [["192.0.2.9:443", "10.0.0.3:443"]]]});
    ("Load_Balancer", "load_balancer", row)
}

fn drop(matches: &str) -> (&'static str, &'static str, Value) {
    let row = json!({"priority": 1500, "match": matches, "action": "drop"});
    ("Logical_Router_Policy", "policies", row)
}

#[track_caller]
fn ask(database: &Northbound, from: Sender, to: &str) -> Answer {
    let question = Question {
        sender: from,
        destination: Destination::Address(to.parse().unwrap()),
        protocol: Protocol::Tcp(443),
    };
    database.answer(&question).unwrap()
}

fn outside() -> Sender {
    Sender { ip: Some("192.0.2.77".parse().unwrap()), ..Sender::port("localnet.external") }
}

#[test]
fn a_packet_leaves_with_the_tag_of_the_localnet_port() {
    let answer = ask(&vpc(&[default_route()]), Sender::port("vm"), "198.51.100.1");
    assert_eq!((answer.verdict, answer.tag), (Verdict::Leaves, Some(222)));
    assert_eq!(serde_json::to_value(&answer).unwrap()["tag"], 222);
    let inside = ask(&vpc(&[default_route()]), Sender::port("vm"), "10.0.0.3");
    assert_eq!((inside.verdict, inside.tag), (Verdict::Reaches, None));
}

#[test]
fn a_forwarded_port_depends_on_the_node_of_a_sender_inside_only() {
    let wall = drop("ip4.dst == 192.0.2.0/24");
    let mut database = vpc(&[default_route(), forward(), wall]);
    let inside = ask(&database, Sender::port("vm"), "192.0.2.9");
    assert_eq!((inside.verdict, inside.out.as_deref()), (Verdict::Reaches, Some("web")));
    let [open] = &inside.open[..] else { panic!("{inside:?}") };
    let expected = "only on the active gateway c2; elsewhere dropped: ";
    assert!(open.starts_with(expected), "{open}");
    database.set_node_name("c2", "w2");
    let inside = ask(&database, Sender::port("vm"), "192.0.2.9");
    assert!(inside.open[0].starts_with("only on the active gateway w2; "), "{inside:?}");
    let outside = ask(&database, outside(), "192.0.2.9");
    assert_eq!((outside.verdict, &outside.open[..]), (Verdict::Reaches, &[][..]));
}

#[test]
fn a_packet_that_is_dropped_on_all_nodes_depends_on_none() {
    let database = vpc(&[default_route(), forward(), drop("ip4")]);
    let answer = ask(&database, Sender::port("vm"), "192.0.2.9");
    assert_eq!((answer.verdict, &answer.open[..]), (Verdict::Dropped, &[][..]));
}

#[test]
fn the_source_route_of_kube_ovn_counts_as_its_ovn_northd_ranks_it() {
    let mut database = vpc(&[default_route(), route("src-ip", "10.0.0.0/24", "10.0.0.1")]);
    let unknown = ask(&database, Sender::port("vm"), "198.51.100.1");
    assert_eq!(unknown.verdict, Verdict::Dropped);
    let expected =
        "only with a stock ovn-northd; with Kube-OVN's leaves: localnet.external".to_owned();
    assert_eq!(unknown.open, [expected]);
    database.set_northd(Northd::Stock);
    let stock = ask(&database, Sender::port("vm"), "198.51.100.1");
    assert_eq!((stock.verdict, &stock.open[..]), (Verdict::Dropped, &[][..]));
    database.set_northd(Northd::KubeOvn);
    let kube_ovn = ask(&database, Sender::port("vm"), "198.51.100.1");
    assert_eq!((kube_ovn.verdict, &kube_ovn.open[..]), (Verdict::Leaves, &[][..]));
}

#[test]
fn a_route_by_one_source_counts_before_a_default_route_only_with_the_ovn_northd_of_kube_ovn() {
    let network = route("dst-ip", "198.51.100.0/24", "192.0.2.1");
    let source = route("src-ip", "10.0.0.2/32", "192.0.2.3");
    let lower = route("src-ip", "10.0.0.0/24", "10.0.0.1");
    let mut database = vpc(&[default_route(), network, source, lower]);
    let next_hop = |database: &Northbound, to: &str| {
        let answer = ask(database, Sender::port("vm"), to);
        let routed = answer.hops.iter().find(|hop| hop.stage == "lr_in_ip_routing").unwrap();
        let words: Vec<_> = routed.decision.split(' ').collect();
        words[words.iter().position(|word| *word == "hop").unwrap() + 1].to_owned()
    };
    database.set_northd(Northd::Stock);
    assert_eq!(next_hop(&database, "198.51.100.1"), "192.0.2.3");
    assert_eq!(next_hop(&database, "203.0.113.1"), "192.0.2.3");
    database.set_northd(Northd::KubeOvn);
    assert_eq!(next_hop(&database, "198.51.100.1"), "192.0.2.1");
    assert_eq!(next_hop(&database, "203.0.113.1"), "192.0.2.3");
}

#[test]
fn routes_by_overlapping_sources_are_a_choice_of_the_ovn_northd_of_kube_ovn() {
    let rows =
        [route("src-ip", "10.0.0.0/24", "192.0.2.3"), route("src-ip", "10.0.0.0/25", "192.0.2.4")];
    let mut database = vpc(&rows);
    database.set_northd(Northd::Stock);
    assert_eq!(ask(&database, Sender::port("vm"), "198.51.100.1").open, [""; 0]);
    database.set_northd(Northd::KubeOvn);
    assert_eq!(ask(&database, Sender::port("vm"), "198.51.100.1").open.len(), 1);
}

#[test]
fn routes_by_source_to_other_machines_are_those_of_a_stock_ovn_northd() {
    let rows = [default_route(), route("src-ip", "10.0.0.0/24", "10.0.0.3")];
    let answer = ask(&vpc(&rows), Sender::port("vm"), "198.51.100.1");
    assert_eq!((answer.verdict, &answer.open[..]), (Verdict::Reaches, &[][..]));
}

#[test]
fn nobody_outside_has_an_address_of_the_routers_load_balancer() {
    let database = vpc(&[default_route(), forward()]);
    let question = Question {
        sender: Sender::port("vm"),
        destination: Destination::Address("192.0.2.9".parse().unwrap()),
        protocol: Protocol::Udp(443),
    };
    let other_port = database.answer(&question).unwrap();
    assert_eq!(other_port.verdict, Verdict::Dropped, "{other_port:?}");
    let expected = "192.0.2.9 of a load balancer was not translated on vpc";
    assert_eq!(other_port.at, expected);
}
