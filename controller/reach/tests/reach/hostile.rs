//! Broken databases: nothing panics, and what OVN ignores is noted.

use patchbay_reach::{Destination, Northbound, Protocol, Question, Sender, Verdict};
use serde_json::{Value, json};

use crate::support::northbound;

fn request(operations: Vec<Value>) -> String {
    let mut request = vec![json!("OVN_Northbound")];
    request.extend(operations);
    Value::Array(request).to_string()
}

fn insert(table: &str, name: &str, row: &Value) -> Value {
    json!({"op": "insert", "table": table, "uuid-name": name, "row": row})
}

/// A switch with the machines `a` and `b` and these ACLs.
fn switch_with_acls(matches: &[&str]) -> Northbound {
    let mut operations = vec![
        insert(
            "Logical_Switch_Port",
            "a",
            &json!({"name": "a", "addresses": "0a:00:00:00:00:01 10.0.0.1"}),
        ),
        insert(
            "Logical_Switch_Port",
            "b",
            &json!({"name": "b", "addresses": "0a:00:00:00:00:02 10.0.0.2"}),
        ),
    ];
    let mut acls = Vec::new();
    for (number, text) in matches.iter().enumerate() {
        let name = format!("acl{number}");
        let row =
            json!({"direction": "to-lport", "priority": number, "action": "drop", "match": text});
        operations.push(insert("ACL", &name, &row));
        acls.push(json!(["named-uuid", name]));
    }
    let row = json!({"name": "sw", "acls": ["set", acls],
        "ports": ["set", [["named-uuid", "a"], ["named-uuid", "b"]]],
        "other_config": ["map", [["subnet", "10.0.0.0/24"]]]});
    operations.push(insert("Logical_Switch", "sw", &row));
    northbound(&request(operations))
}

fn ask(northbound: &Northbound, from: &str, to: &str) -> (Verdict, String) {
    let question = Question {
        sender: Sender::port(from),
        destination: Destination::Address(to.parse().unwrap()),
        protocol: Protocol::Tcp(80),
    };
    let answer = northbound.answer(&question).unwrap();
    (answer.verdict, answer.at)
}

#[test]
fn matches_that_ovn_rejects_are_ignored_and_noted() {
    let deep = format!("{}ip4{}", "(".repeat(101), ")".repeat(101));
    let deepest = format!("{}ip6{}", "(".repeat(98), ")".repeat(98));
    let endless = "(".repeat(1_000_000);
    let long_name = format!("inport == \"{}\"", "x".repeat(1_000_000));
    let long_set = format!("tcp.dst == {{{}}}", "1, ".repeat(300_000));
    let texts = [
        "ip4 &&",
        "tcp.dst == ",
        "inport == @none",
        "ip4.src == $none",
        "\u{1}",
        "ip4.src == 'é'",
        "\"\\ud800\"",
        "tcp.dst == 1/",
        "^",
        "$",
        "@",
        "{",
        &deep,
        &endless,
    ];
    let bad = switch_with_acls(&texts);
    assert_eq!(bad.notes().len(), texts.len(), "{:#?}", bad.notes());
    assert_eq!(ask(&bad, "a", "10.0.0.2").0, Verdict::Reaches);
    let good = switch_with_acls(&[&deepest, &long_name, &long_set]);
    assert!(good.notes().is_empty(), "{:#?}", good.notes());
    assert_eq!(ask(&good, "a", "10.0.0.2").0, Verdict::Reaches);
}

#[test]
fn rows_with_bad_addresses_are_ignored_and_noted() {
    let operations = vec![
        insert(
            "Logical_Switch_Port",
            "a",
            &json!({"name": "a", "addresses": ["set",
            ["x", "", "0a:00:00:00:00:01 10.0.0.1/99", "0a:00:00:00:00:01 10.0.0.1 ?", "dynamic"]]}),
        ),
        insert(
            "Logical_Switch_Port",
            "r",
            &json!({"name": "r", "type": "router",
            "options": ["map", [["router-port", "rp"]]]}),
        ),
        insert(
            "Logical_Switch_Port",
            "lost",
            &json!({"name": "lost", "type": "router",
            "options": ["map", [["router-port", "nothing"]]]}),
        ),
        insert(
            "Logical_Switch",
            "sw",
            &json!({"name": "sw", "other_config": ["map", [["subnet", "?"]]],
            "ports": ["set", [["named-uuid", "a"], ["named-uuid", "r"], ["named-uuid", "lost"]]]}),
        ),
        insert(
            "Logical_Router_Port",
            "rp",
            &json!({"name": "rp", "mac": "0a:00:00:00:00:ff",
            "networks": ["set", ["10.0.0.254/24", "10.0.0.0/x", "?"]]}),
        ),
        insert(
            "Logical_Router_Port",
            "bad",
            &json!({"name": "bad", "mac": "?", "networks": "10.9.0.1/24"}),
        ),
        insert(
            "Logical_Router_Static_Route",
            "r1",
            &json!({"ip_prefix": "?", "nexthop": "10.0.0.1"}),
        ),
        insert(
            "Logical_Router_Static_Route",
            "r2",
            &json!({"ip_prefix": "0.0.0.0/0", "nexthop": "10.0.0.1/24"}),
        ),
        insert(
            "Logical_Router_Static_Route",
            "r3",
            &json!({"ip_prefix": "0.0.0.0/0", "nexthop": "9.9.9.9"}),
        ),
        insert(
            "Logical_Router_Policy",
            "p1",
            &json!({"priority": 1, "match": "1", "action": "reroute"}),
        ),
        insert(
            "Logical_Router_Policy",
            "p2",
            &json!({"priority": 1, "match": "1", "action": "jump"}),
        ),
        insert(
            "NAT",
            "n1",
            &json!({"type": "snat", "external_ip": "?", "logical_ip": "10.0.0.0/24"}),
        ),
        insert(
            "NAT",
            "n2",
            &json!({"type": "dnat", "external_ip": "1.1.1.1", "logical_ip": "10.0.0.0/24"}),
        ),
        insert(
            "Load_Balancer",
            "lb",
            &json!({"name": "lb", "vips": ["map",
            [["?", "10.0.0.1:80"], ["10.96.0.1:80", "?"], ["10.96.0.2", "10.0.0.1:80"]]]}),
        ),
        insert(
            "Logical_Router",
            "lr",
            &json!({"name": "lr",
            "ports": ["set", [["named-uuid", "rp"], ["named-uuid", "bad"]]],
            "static_routes": ["set", [["named-uuid", "r1"], ["named-uuid", "r2"], ["named-uuid", "r3"]]],
            "policies": ["set", [["named-uuid", "p1"], ["named-uuid", "p2"]]],
            "nat": ["set", [["named-uuid", "n1"], ["named-uuid", "n2"]]],
            "load_balancer": ["named-uuid", "lb"]}),
        ),
        insert("Static_MAC_Binding", "m", &json!({"logical_port": "none", "ip": "?", "mac": "?"})),
    ];
    let northbound = northbound(&request(operations));
    // Two networks, one port, three routes, two policies, two NAT rules, three VIPs, one binding.
    assert_eq!(northbound.notes().len(), 14, "{:#?}", northbound.notes());
    assert_eq!(ask(&northbound, "a", "8.8.8.8"), (Verdict::Dropped, "no route on lr".into()));
}

#[test]
fn packets_in_a_circle_are_dropped() {
    let router = |name: &str, other: &str, host: u8| {
        let address = format!("100.64.0.{host}/24");
        let mac = format!("0a:00:00:00:01:0{host}");
        let next_hop = format!("100.64.0.{}", 3 - host);
        vec![
            insert(
                "Logical_Router_Port",
                name,
                &json!({"name": name, "mac": mac, "networks": address, "peer": other}),
            ),
            insert(
                "Logical_Router_Static_Route",
                &format!("{name}route"),
                &json!({"ip_prefix": "0.0.0.0/0", "nexthop": next_hop}),
            ),
        ]
    };
    let mut operations = [router("x", "y", 1), router("y", "x", 2)].concat();
    operations.extend([
        insert(
            "Logical_Router_Port",
            "rp",
            &json!({"name": "rp", "mac": "0a:00:00:00:00:ff",
            "networks": "10.0.0.254/24"}),
        ),
        insert(
            "Logical_Router",
            "r1",
            &json!({"name": "r1", "static_routes": ["named-uuid", "xroute"],
            "ports": ["set", [["named-uuid", "x"], ["named-uuid", "rp"]]]}),
        ),
        insert(
            "Logical_Router",
            "r2",
            &json!({"name": "r2", "static_routes": ["named-uuid", "yroute"],
            "ports": ["named-uuid", "y"]}),
        ),
        insert(
            "Logical_Switch_Port",
            "a",
            &json!({"name": "a", "addresses": "0a:00:00:00:00:01 10.0.0.1"}),
        ),
        insert(
            "Logical_Switch_Port",
            "r",
            &json!({"name": "r", "type": "router",
            "addresses": "router", "options": ["map", [["router-port", "rp"]]]}),
        ),
        insert(
            "Logical_Switch",
            "sw",
            &json!({"name": "sw",
            "ports": ["set", [["named-uuid", "a"], ["named-uuid", "r"]]]}),
        ),
    ]);
    let northbound = northbound(&request(operations));
    let (verdict, at) = ask(&northbound, "a", "8.8.8.8");
    assert_eq!(verdict, Verdict::Dropped);
    assert!(at.starts_with("hop limit"), "{at}");
}

/// A switch with two machines, an ACL with this match and further rows.
fn switch_with_rows(text: &str, rows: &[(&str, Value)]) -> Northbound {
    let acl = json!({"direction": "to-lport", "priority": 1, "action": "drop", "match": text});
    let mut operations = vec![insert("ACL", "acl", &acl)];
    for (number, (table, row)) in rows.iter().enumerate() {
        operations.push(insert(table, &format!("row{number}"), row));
    }
    for (name, host) in [("a", 1), ("b", 2)] {
        let addresses = format!("0a:00:00:00:00:0{host} 10.0.0.{host}");
        let row = json!({"name": name, "addresses": addresses});
        operations.push(insert("Logical_Switch_Port", name, &row));
    }
    let row = json!({"name": "sw", "acls": ["named-uuid", "acl"],
        "ports": ["set", [["named-uuid", "a"], ["named-uuid", "b"]]],
        "other_config": ["map", [["subnet", "10.0.0.0/24"]]]});
    operations.push(insert("Logical_Switch", "sw", &row));
    northbound(&request(operations))
}

#[test]
fn a_large_address_set_that_a_match_names_often_is_not_copied() {
    let addresses: Vec<_> =
        (0..20_000).map(|number| format!("172.16.{}.{}", number / 200, number % 200)).collect();
    let set = json!({"name": "big", "addresses": ["set", addresses]});
    let sets = vec!["$big"; 20_000].join(", ");
    let text = format!("ip4.src == {{{sets}, 10.0.0.1}}");
    let northbound = switch_with_rows(&text, &[("Address_Set", set.clone())]);
    assert_eq!(ask(&northbound, "a", "10.0.0.2").0, Verdict::Dropped);
    // Bits of single addresses have to be compared one by one.
    let parts = vec!["ip4.src[0..7] != $big"; 20_000].join(" && ");
    let northbound = switch_with_rows(&parts, &[("Address_Set", set)]);
    let [note] = northbound.notes() else {
        panic!("{:?}", northbound.notes());
    };
    let reason = "bad match: bits of too many addresses are compared";
    assert!(note.reason.starts_with(reason), "{note}");
}

#[test]
fn templates_do_not_expand_without_bound() {
    let variables = json!({"chassis": "c", "variables": ["map", [["X", "x".repeat(100_000)]]]});
    let text = "^X ".repeat(100_000);
    let northbound = switch_with_rows(&text, &[("Chassis_Template_Var", variables)]);
    assert_eq!(northbound.notes().len(), 1, "{:?}", northbound.notes());
    assert_eq!(ask(&northbound, "a", "10.0.0.2").0, Verdict::Reaches);
}

#[test]
fn ports_that_are_their_own_peers_lead_nowhere() {
    let operations = vec![
        insert(
            "Logical_Router_Port",
            "own",
            &json!({"name": "own", "mac": "0a:00:00:00:00:fe", "networks": "10.9.0.1/24",
                "peer": "own"}),
        ),
        insert(
            "Logical_Router_Port",
            "rp",
            &json!({"name": "rp", "mac": "0a:00:00:00:00:ff", "networks": "10.0.0.254/24"}),
        ),
        insert(
            "Logical_Router_Static_Route",
            "route",
            &json!({"ip_prefix": "0.0.0.0/0", "nexthop": "10.9.0.2", "output_port": "own"}),
        ),
        insert(
            "Logical_Router",
            "lr",
            &json!({"name": "lr", "static_routes": ["named-uuid", "route"],
                "ports": ["set", [["named-uuid", "own"], ["named-uuid", "rp"]]]}),
        ),
        insert(
            "Logical_Switch_Port",
            "a",
            &json!({"name": "a", "addresses": "0a:00:00:00:00:01 10.0.0.1"}),
        ),
        insert(
            "Logical_Switch_Port",
            "loop",
            &json!({"name": "loop", "type": "switch", "peer": "loop", "addresses": "unknown"}),
        ),
        insert(
            "Logical_Switch_Port",
            "r",
            &json!({"name": "r", "type": "router", "addresses": "router",
                "options": ["map", [["router-port", "rp"]]]}),
        ),
        insert(
            "Logical_Switch",
            "sw",
            &json!({"name": "sw", "ports":
                ["set", [["named-uuid", "a"], ["named-uuid", "loop"], ["named-uuid", "r"]]]}),
        ),
    ];
    let northbound = northbound(&request(operations));
    for (to, verdict) in [
        ("8.8.8.8", Verdict::Dropped),
        ("10.9.0.2", Verdict::Dropped),
        ("10.0.0.77", Verdict::Unanswered),
    ] {
        assert_eq!(ask(&northbound, "a", to).0, verdict, "{to}");
    }
}

#[test]
fn many_acls_and_vips_are_all_read() {
    let matches: Vec<_> = (0..10_000)
        .map(|number| format!("ip4.dst == 10.0.0.2 && tcp.dst == {}", 60_000 - number))
        .chain(["ip4.dst == 10.0.0.2 && tcp.dst == 80".to_owned()])
        .collect();
    let matches: Vec<_> = matches.iter().map(String::as_str).collect();
    let northbound = switch_with_acls(&matches);
    assert!(northbound.notes().is_empty());
    let (verdict, at) = ask(&northbound, "a", "10.0.0.2");
    assert_eq!((verdict, &*at), (Verdict::Dropped, "ACL to-lport 10000 on switch sw"));
    let vips: Vec<_> = (0..20_000)
        .map(|number| {
            let vip = format!("10.96.{}.{}:80", number / 200, number % 200);
            [vip, "10.0.0.2:80".to_owned()]
        })
        .collect();
    let balancer = json!({"name": "lb", "vips": ["map", vips]});
    let northbound = switch_with_rows("ip4.dst == 10.0.0.9", &[("Load_Balancer", balancer)]);
    assert!(northbound.notes().is_empty());
    assert_eq!(ask(&northbound, "a", "10.0.0.2").0, Verdict::Reaches);
}
