//! Choices that OVN leaves open: the answer marks them.

use patchbay_reach::{
    Answer, Destination, MachineRoute, Northbound, Prefix, Protocol, Question, Sender, Verdict,
};
use serde_json::{Value, json};

use crate::support::northbound;

/// The answer for TCP port 80 from `a` to `b` on a switch with these ACLs: action, tier, priority.
fn answer_with_acls(acls: &[(&str, u8, u16)]) -> Answer {
    let mut request = vec![json!("OVN_Northbound")];
    let mut insert = |table: &str, name: &str, row: serde_json::Value| {
        request.push(json!({"op": "insert", "table": table, "uuid-name": name, "row": row}));
        json!(["named-uuid", name])
    };
    let ports = ["a", "b"].map(|name| {
        let host = if name == "a" { 1 } else { 2 };
        let addresses = format!("0a:00:00:00:00:0{host} 10.0.0.{host}");
        insert("Logical_Switch_Port", name, json!({"name": name, "addresses": addresses}))
    });
    let acls: Vec<_> = acls
        .iter()
        .zip(0..)
        .map(|((action, tier, priority), number)| {
            let row = json!({"direction": "to-lport", "match": "tcp", "action": action,
                "tier": tier, "priority": priority});
            insert("ACL", &format!("acl{number}"), row)
        })
        .collect();
    let row = json!({"name": "sw", "ports": ["set", ports], "acls": ["set", acls],
        "other_config": ["map", [["subnet", "10.0.0.0/24"]]]});
    insert("Logical_Switch", "sw", row);
    let question = Question {
        sender: Sender::port("a"),
        destination: Destination::Port("b".into()),
        protocol: Protocol::Tcp(80),
    };
    let request = serde_json::Value::Array(request).to_string();
    northbound(&request).answer(&question).unwrap()
}

#[test]
fn equal_priorities_with_different_actions_are_open() {
    let clear = answer_with_acls(&[("drop", 0, 10), ("allow", 0, 11)]);
    assert_eq!(clear.verdict, Verdict::Reaches);
    assert_eq!(clear.open, [""; 0]);
    let same = answer_with_acls(&[("drop", 0, 10), ("reject", 0, 10)]);
    assert_eq!(same.verdict, Verdict::Dropped);
    assert_eq!(same.open, [""; 0]);
    let open = answer_with_acls(&[("drop", 0, 10), ("allow", 0, 10)]);
    assert_eq!(open.open.len(), 1, "{open:?}");
}

#[test]
fn a_tie_with_pass_is_open_although_the_next_tier_decides() {
    let open = answer_with_acls(&[("pass", 0, 10), ("allow", 0, 10), ("drop", 1, 10)]);
    assert_eq!(open.open.len(), 1, "{open:?}");
    let clear = answer_with_acls(&[("pass", 0, 11), ("allow", 0, 10), ("drop", 1, 10)]);
    assert_eq!(clear.verdict, Verdict::Dropped);
    assert_eq!(clear.open, [""; 0]);
}

/// The answer for TCP port 80 from `v1` through a router with rows of one kind to `v2`.
fn answer_through_router(table: &str, column: &str, rows: &[serde_json::Value]) -> Answer {
    let mut request = vec![json!("OVN_Northbound")];
    let mut insert = |table: &str, name: &str, row: serde_json::Value| {
        request.push(json!({"op": "insert", "table": table, "uuid-name": name, "row": row}));
        json!(["named-uuid", name])
    };
    let mut router_ports = Vec::new();
    for number in [1, 2] {
        let mac = format!("0a:00:00:00:0{number}:01");
        let networks = format!("10.{number}.0.1/24");
        let row = json!({"name": format!("rp{number}"), "mac": mac, "networks": networks});
        router_ports.push(insert("Logical_Router_Port", &format!("rp{number}"), row));
        let row = json!({"name": format!("sp{number}"), "type": "router", "addresses": "router",
            "options": ["map", [["router-port", format!("rp{number}")]]]});
        let router = insert("Logical_Switch_Port", &format!("sp{number}"), row);
        let addresses = format!("0a:00:00:00:0{number}:02 10.{number}.0.2");
        let row = json!({"name": format!("v{number}"), "addresses": addresses});
        let machine = insert("Logical_Switch_Port", &format!("v{number}"), row);
        let row = json!({"name": format!("s{number}"), "ports": ["set", [router, machine]]});
        insert("Logical_Switch", &format!("s{number}"), row);
    }
    let rows: Vec<_> = rows
        .iter()
        .zip(0..)
        .map(|(row, number)| insert(table, &format!("extra{number}"), row.clone()))
        .collect();
    let row = json!({"name": "lr", "ports": ["set", router_ports], column: ["set", rows]});
    insert("Logical_Router", "lr", row);
    let question = Question {
        sender: Sender::port("v1"),
        destination: Destination::Port("v2".into()),
        protocol: Protocol::Tcp(80),
    };
    let request = serde_json::Value::Array(request).to_string();
    northbound(&request).answer(&question).unwrap()
}

#[test]
fn a_policy_of_priority_0_counts_as_little_as_none() {
    let policy = json!({"priority": 0, "match": "ip4", "action": "drop"});
    let answer = answer_through_router("Logical_Router_Policy", "policies", &[policy]);
    let expected = ["policy 0 on lr counts as little as no policy"];
    assert_eq!(answer.open, expected, "{answer:?}");
}

#[test]
fn a_route_that_discards_wins_among_prefixes_with_the_same_address_only() {
    let answer_with = |routes: &[(&str, &str, &str)]| {
        let rows: Vec<_> = routes
            .iter()
            .map(|(prefix, next_hop, origin)| {
                json!({"ip_prefix": prefix, "nexthop": next_hop,
                "options": ["map", [["origin", origin]]]})
            })
            .collect();
        answer_through_router("Logical_Router_Static_Route", "static_routes", &rows)
    };
    let same = answer_with(&[("10.2.0.2/32", "10.2.0.2", ""), ("10.2.0.2/32", "discard", "")]);
    assert_eq!(same.verdict, Verdict::Dropped);
    assert_eq!(same.open, [""; 0]);
    let other = answer_with(&[("10.2.0.0/25", "10.2.0.2", ""), ("10.2.0.9/25", "discard", "")]);
    assert_eq!(other.open.len(), 1, "{other:?}");
    let connected = answer_with(&[("10.2.0.0/24", "discard", "connected")]);
    assert_eq!(connected.open.len(), 1, "{connected:?}");
}

#[test]
fn a_next_hop_in_networks_of_several_ports_is_open() {
    let answer_with = |output: &str| {
        let mut row = json!({"ip_prefix": "10.2.0.0/25", "nexthop": "fe80::800:ff:fe00:202"});
        if !output.is_empty() {
            row["output_port"] = json!(output);
        }
        answer_through_router("Logical_Router_Static_Route", "static_routes", &[row])
    };
    let open = answer_with("");
    let expected = ["several ports of lr lead to fe80::800:ff:fe00:202"];
    assert_eq!(open.open, expected, "{open:?}");
    assert_eq!(answer_with("rp2").open, [""; 0]);
    let policy = json!({"priority": 1, "match": "ip4", "action": "reroute",
        "nexthops": "fe80::800:ff:fe00:202"});
    let open = answer_through_router("Logical_Router_Policy", "policies", &[policy]);
    assert_eq!(open.open, expected, "{open:?}");
}

/// The answer of the gateway `10.0.0.1` to an echo request of `a`, on a switch with these ACLs.
fn answer_of_gateway(acls: &[serde_json::Value]) -> Answer {
    let mut request = vec![json!("OVN_Northbound")];
    let mut insert = |table: &str, name: &str, row: serde_json::Value| {
        request.push(json!({"op": "insert", "table": table, "uuid-name": name, "row": row}));
        json!(["named-uuid", name])
    };
    let row = json!({"name": "rp", "mac": "0a:00:00:00:00:01", "networks": "10.0.0.1/24"});
    let router_port = insert("Logical_Router_Port", "rp", row);
    let row = json!({"name": "lr", "ports": router_port});
    insert("Logical_Router", "lr", row);
    let row = json!({"name": "sp", "type": "router", "addresses": "router",
        "options": ["map", [["router-port", "rp"]]]});
    let row_a = json!({"name": "a", "addresses": "0a:00:00:00:00:02 10.0.0.2"});
    let ports =
        [("sp", row), ("a", row_a)].map(|(name, row)| insert("Logical_Switch_Port", name, row));
    let acls: Vec<_> = acls
        .iter()
        .zip(0..)
        .map(|(row, number)| insert("ACL", &format!("acl{number}"), row.clone()))
        .collect();
    let row = json!({"name": "sw", "ports": ["set", ports], "acls": ["set", acls]});
    insert("Logical_Switch", "sw", row);
    let request = serde_json::Value::Array(request).to_string();
    let answer = northbound(&request).answer(&Question {
        sender: Sender::port("a"),
        destination: Destination::Address("10.0.0.1".parse().unwrap()),
        protocol: Protocol::Icmp,
    });
    answer.unwrap()
}

#[test]
fn an_answer_is_open_where_it_matters_whether_the_switch_has_tracked_the_request() {
    let acl = |direction: &str, text: &str, action: &str| json!({"direction": direction, "match": text, "action": action, "priority": 1});
    let drops = acl("to-lport", "ip4.src == 10.0.0.1", "drop");
    let tracks = acl("from-lport", "ip4", "allow-related");
    let untracked = answer_of_gateway(std::slice::from_ref(&drops));
    assert_eq!(untracked.verdict, Verdict::Dropped);
    assert_eq!(untracked.open, [""; 0]);
    let tracked = answer_of_gateway(&[drops, tracks.clone()]);
    assert_eq!(tracked.verdict, Verdict::Dropped);
    let expected = ["switch sw may know the connection of the answer"];
    assert_eq!(tracked.open, expected, "{tracked:?}");
    let allowed = answer_of_gateway(&[tracks]);
    assert_eq!(allowed.verdict, Verdict::Answered);
    assert_eq!(allowed.open, [""; 0]);
    let stateless = acl("from-lport", "ip4", "allow-stateless");
    let alone = answer_of_gateway(std::slice::from_ref(&stateless));
    assert_eq!(alone.verdict, Verdict::Answered);
    assert_eq!(alone.open, [""; 0]);
    let unknown = answer_of_gateway(&[stateless, acl("to-lport", "tcp", "allow-related")]);
    assert_eq!(unknown.verdict, Verdict::Answered);
    let expected = ["switch sw may not know the connection of the answer"];
    assert_eq!(unknown.open, expected, "{unknown:?}");
}

/// Network with the routers `r1`, which leads to `vm2`, and `r2`, and `vm1` with DHCP options.
fn two_routers(options: Option<Value>, cidr: &str) -> Northbound {
    let mut request = vec![json!("OVN_Northbound")];
    let mut insert = |table: &str, name: &str, row: Value| {
        request.push(json!({"op": "insert", "table": table, "uuid-name": name, "row": row}));
        json!(["named-uuid", name])
    };
    let mut ports = Vec::new();
    let mut back = Value::Null;
    for (router, host) in [("r1", 1), ("r2", 5)] {
        let mut networks = vec![("net", format!("10.0.0.{host}/24"))];
        if router == "r1" {
            networks.push(("back", "10.1.0.1/24".to_owned()));
        }
        let router_ports: Vec<_> = networks
            .iter()
            .map(|(switch, network)| {
                let name = format!("{router}{switch}");
                let mac = if *switch == "net" { host } else { 9 };
                let row = json!({"name": name, "mac": format!("02:00:00:00:00:0{mac}"),
                    "networks": network});
                let router_port = insert("Logical_Router_Port", &name, row);
                let row = json!({"name": format!("to{name}"), "type": "router",
                    "addresses": "router", "options": ["map", [["router-port", name]]]});
                let port = insert("Logical_Switch_Port", &format!("to{name}"), row);
                if *switch == "net" {
                    ports.push(port);
                } else {
                    back = port;
                }
                router_port
            })
            .collect();
        insert("Logical_Router", router, json!({"name": router, "ports": ["set", router_ports]}));
    }
    let mut row = json!({"name": "vm1", "addresses": "02:00:00:00:00:11 10.0.0.10"});
    if let Some(options) = options {
        let options = json!({"cidr": cidr, "options": options});
        row["dhcpv4_options"] = insert("DHCP_Options", "dhcp", options);
    }
    ports.push(insert("Logical_Switch_Port", "vm1", row));
    let row = json!({"name": "vm2", "addresses": "02:00:00:00:00:12 10.1.0.10"});
    let vm2 = insert("Logical_Switch_Port", "vm2", row);
    insert("Logical_Switch", "net", json!({"name": "net", "ports": ["set", ports]}));
    insert("Logical_Switch", "back", json!({"name": "back", "ports": ["set", [vm2, back]]}));
    northbound(&Value::Array(request).to_string())
}

#[test]
fn a_machine_sends_to_the_gateway_of_its_dhcp_options() {
    let base = [
        json!(["server_id", "10.0.0.1"]),
        json!(["server_mac", "02:00:00:00:00:21"]),
        json!(["lease_time", "3600"]),
    ];
    let options = |more: &[(&str, &str)]| {
        let more = more.iter().map(|(key, value)| json!([key, value]));
        json!(["map", base.iter().cloned().chain(more).collect::<Vec<_>>()])
    };
    let ask = |options: Option<Value>, cidr: &str| {
        let question = Question {
            sender: Sender::port("vm1"),
            destination: Destination::Port("vm2".to_owned()),
            protocol: Protocol::Icmp,
        };
        two_routers(options, cidr).answer(&question).unwrap()
    };
    let cidr = "10.0.0.0/24";
    let route = "{10.1.0.0/24,10.0.0.1, 0.0.0.0/0,10.0.0.5}";
    for (more, expected) in [
        (vec![("router", "10.0.0.1")], Verdict::Reaches),
        (vec![("router", "10.0.0.5")], Verdict::Dropped),
        (vec![("router", "10.0.0.5"), ("classless_static_route", route)], Verdict::Reaches),
        (
            vec![("router", "10.0.0.1"), ("classless_static_route", "{10.1.0.0/16,10.0.0.5}")],
            Verdict::Dropped,
        ),
        (vec![("router", "10.0.0.77")], Verdict::Unanswered),
    ] {
        let answer = ask(Some(options(&more)), cidr);
        assert_eq!(answer.verdict, expected, "{more:?} {answer:?}");
        assert!(answer.open.is_empty(), "{more:?} {answer:?}");
    }
    // Nothing names a gateway, or OVN does not answer the requests of the machine.
    let router = options(&[("router", "10.0.0.1")]);
    for (given, cidr) in [
        (None, cidr),
        (Some(json!(["map", [["router", "10.0.0.1"]]])), cidr),
        (Some(router), "10.9.0.0/24"),
    ] {
        let answer = ask(given, cidr);
        assert_eq!(answer.open, ["2 routers are in the network of 10.0.0.10"]);
    }
}

/// Options with a gateway that OVN gives to `vm1`.
fn dhcp_router(gateway: &str) -> Value {
    json!([
        "map",
        [
            ["server_id", "10.0.0.1"],
            ["server_mac", "02:00:00:00:00:21"],
            ["lease_time", "3600"],
            ["router", gateway]
        ]
    ])
}

fn question_of(sender: Sender) -> Question {
    Question { sender, destination: Destination::Port("vm2".to_owned()), protocol: Protocol::Icmp }
}

#[test]
fn a_machine_sends_to_the_gateway_of_the_routes_that_the_caller_gives() {
    let route = |destination: &str, next_hop: &str| MachineRoute {
        destination: Prefix::parse(destination).unwrap(),
        next_hop: next_hop.parse().unwrap(),
    };
    let question = question_of(Sender::port("vm1"));
    for (options, routes, expected) in [
        (None, vec![route("0.0.0.0/0", "10.0.0.1")], Verdict::Reaches),
        (None, vec![route("0.0.0.0/0", "10.0.0.5")], Verdict::Dropped),
        (
            None,
            vec![route("0.0.0.0/0", "10.0.0.5"), route("10.1.0.0/16", "10.0.0.1")],
            Verdict::Reaches,
        ),
        // DHCP names one itself.
        (Some(dhcp_router("10.0.0.1")), vec![route("0.0.0.0/0", "10.0.0.5")], Verdict::Reaches),
    ] {
        let mut northbound = two_routers(options, "10.0.0.0/24");
        northbound.set_routes("vm1", routes.clone());
        northbound.set_routes("other", routes);
        let answer = northbound.answer(&question).unwrap();
        assert_eq!(answer.verdict, expected, "{answer:?}");
        assert!(answer.open.is_empty(), "{answer:?}");
    }
    let mut northbound = two_routers(None, "10.0.0.0/24");
    northbound.set_routes("vm1", vec![route("172.16.0.0/12", "10.0.0.5")]);
    let open = northbound.answer(&question).unwrap().open;
    assert_eq!(open, ["2 routers are in the network of 10.0.0.10"]);
}

#[test]
fn a_machine_sends_to_the_gateway_of_the_question() {
    let ask = |gateway: &str, options: Option<Value>| {
        let question =
            question_of(Sender { gateway: Some(gateway.to_owned()), ..Sender::port("vm1") });
        two_routers(options, "10.0.0.0/24").answer(&question)
    };
    for (gateway, expected) in [
        ("r1", Verdict::Reaches),
        ("r1net", Verdict::Reaches),
        ("10.0.0.1", Verdict::Reaches),
        ("r2", Verdict::Dropped),
        ("10.0.0.5", Verdict::Dropped),
        ("10.0.0.9", Verdict::Unanswered),
    ] {
        for options in [None, Some(dhcp_router("10.0.0.5"))] {
            let answer = ask(gateway, options).unwrap();
            assert_eq!(answer.verdict, expected, "{gateway} {answer:?}");
            assert!(answer.open.is_empty(), "{gateway} {answer:?}");
        }
    }
    for gateway in ["r3", "vm1", "r1back", "fd00::1"] {
        let error = ask(gateway, None).unwrap_err().to_string();
        let expected = format!("vm1 has no IPv4 gateway {gateway}; routers in its network: r1, r2");
        assert_eq!(error, expected);
    }
    // The machine does not need it for its neighbours.
    let question = Question {
        destination: Destination::Address("10.0.0.5".parse().unwrap()),
        ..question_of(Sender { gateway: Some("r1".to_owned()), ..Sender::port("vm1") })
    };
    let answer = two_routers(None, "10.0.0.0/24").answer(&question).unwrap();
    assert_eq!(answer.at, "router r2", "{answer:?}");
}

#[test]
fn a_machine_outside_sends_to_the_gateway_of_the_question() {
    let mut request = vec![json!("OVN_Northbound")];
    let mut insert = |table: &str, name: &str, row: Value| {
        request.push(json!({"op": "insert", "table": table, "uuid-name": name, "row": row}));
        json!(["named-uuid", name])
    };
    let row = json!({"name": "wire", "type": "localnet", "addresses": "unknown"});
    let mut ports = vec![insert("Logical_Switch_Port", "wire", row)];
    for (router, host) in [("r1", 1), ("r2", 2)] {
        let row = json!({"name": format!("{router}p"), "mac": format!("02:00:00:00:00:0{host}"),
            "networks": format!("10.0.0.{host}/24")});
        let mut router_ports = vec![insert("Logical_Router_Port", &format!("{router}p"), row)];
        let row = json!({"name": format!("to{router}"), "type": "router", "addresses": "router",
            "options": ["map", [["router-port", format!("{router}p")]]]});
        ports.push(insert("Logical_Switch_Port", &format!("to{router}"), row));
        if router == "r2" {
            let row = json!({"name": "inner", "mac": "02:00:00:00:00:03",
                "networks": "10.1.0.1/24"});
            router_ports.push(insert("Logical_Router_Port", "inner", row));
        }
        let row = json!({"name": router, "ports": ["set", router_ports]});
        insert("Logical_Router", router, row);
    }
    let row = json!({"name": "ext", "ports": ["set", ports]});
    insert("Logical_Switch", "ext", row);
    let northbound = northbound(&Value::Array(request).to_string());
    let ask = |gateway: Option<&str>| {
        let answer = northbound.answer(&Question {
            sender: Sender {
                ip: "10.0.0.77".parse().ok(),
                gateway: gateway.map(str::to_owned),
                ..Sender::port("wire")
            },
            destination: Destination::Address("10.1.0.1".parse().unwrap()),
            protocol: Protocol::Icmp,
        });
        answer.unwrap()
    };
    let guessed = ask(None);
    assert_eq!(guessed.open, ["2 routers are in the network of 10.0.0.77"]);
    for (gateway, expected) in
        [("r1", Verdict::Dropped), ("r2", Verdict::Answered), ("10.0.0.9", Verdict::Unanswered)]
    {
        let answer = ask(Some(gateway));
        assert_eq!(answer.verdict, expected, "{answer:?}");
        assert!(answer.open.is_empty(), "{answer:?}");
    }
}
