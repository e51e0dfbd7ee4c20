//! Packets that come out of a tunnel, and what is translated on the way to one.

use patchbay_reach::{Arrival, Destination, Northbound, Protocol, Question, Sender, Verdict};
use serde_json::{Value, json};

use crate::support::northbound;

/// Router with a machine `v` on one switch, and the switch of another chassis' machine `r`. A load
/// balancer leads from port 80 of `10.96.0.1` to port 8080 of `r`.
fn rows() -> Northbound {
    let mut request = vec![json!("OVN_Northbound")];
    let mut insert = |table: &str, name: &str, row: Value| {
        request.push(json!({"op": "insert", "table": table, "uuid-name": name, "row": row}));
        json!(["named-uuid", name])
    };
    let balancer = json!({"name": "lb", "vips": ["map", [["10.96.0.1:80", "10.2.0.2:8080"]]]});
    let balancer = insert("Load_Balancer", "lb", balancer);
    let machines = [("v", "", 1), ("r", "remote", 2)];
    let router_ports = machines.map(|(name, kind, number)| {
        let row = json!({"name": format!("rp{number}"), "mac": format!("0a:00:00:00:0{number}:01"),
            "networks": format!("10.{number}.0.1/24")});
        let router_port = insert("Logical_Router_Port", &format!("rp{number}"), row);
        let row = json!({"name": format!("sp{number}"), "type": "router", "addresses": "router",
            "options": ["map", [["router-port", format!("rp{number}")]]]});
        let router = insert("Logical_Switch_Port", &format!("sp{number}"), row);
        let row = json!({"name": name, "type": kind,
            "addresses": format!("0a:00:00:00:0{number}:02 10.{number}.0.2")});
        let machine = insert("Logical_Switch_Port", name, row);
        let row = json!({"name": format!("s{number}"), "ports": ["set", [router, machine]],
            "load_balancer": balancer});
        insert("Logical_Switch", &format!("s{number}"), row);
        router_port
    });
    insert("Logical_Router", "lr", json!({"name": "lr", "ports": ["set", router_ports]}));
    northbound(&Value::Array(request).to_string())
}

#[test]
fn the_answer_of_a_router_gets_back_through_the_tunnel() {
    let verdict_of = |source: &str, destination: &str| {
        let answer = rows().follow_arrival(&Arrival {
            port: "sp2".to_owned(),
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            protocol: Protocol::Icmp,
        });
        answer.unwrap().verdict
    };
    for address in ["10.1.0.1", "10.2.0.1"] {
        assert_eq!(verdict_of("10.2.0.2", address), Verdict::Answered);
        // The router knows no way back.
        assert_eq!(verdict_of("10.3.0.2", address), Verdict::Dropped);
    }
    assert_eq!(verdict_of("10.2.0.2", "10.1.0.2"), Verdict::Reaches);
}

#[test]
fn an_answer_has_the_port_of_the_backend() {
    let answer_to = |port| {
        let question = Question {
            sender: Sender::port("v"),
            destination: Destination::Address("10.96.0.1".parse().unwrap()),
            protocol: Protocol::Tcp(port),
        };
        rows().answer(&question).unwrap()
    };
    let answer = answer_to(80);
    assert_eq!(answer.out.as_deref(), Some("r"), "{answer:?}");
    assert_eq!(answer.dest, Some("10.2.0.2".parse().unwrap()));
    assert_eq!(answer.dest_port, Some(8080));
    assert_eq!(answer_to(81).dest_port, None);
}
