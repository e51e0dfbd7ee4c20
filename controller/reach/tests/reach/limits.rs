//! Rows whose effect does not follow from the Northbound database alone: the answer names them.

use patchbay_reach::{Answer, Destination, Northbound, Protocol, Question, Sender, Verdict};
use serde_json::{Value, json};

use crate::support::database;

/// The answer for a packet from `a` (10.0.0.1) on a switch with a router. `columns`: more columns
/// of the rows with these names; `extra`: further rows with table and name.
fn answer(columns: &Value, extra: &[(&str, &str, Value)], to: &str) -> Answer {
    answer_on(None, columns, extra, to)
}

/// [`answer`] with the variables of a chassis.
fn answer_on(
    chassis: Option<&str>,
    columns: &Value,
    extra: &[(&str, &str, Value)],
    to: &str,
) -> Answer {
    let mut request = vec![json!("OVN_Northbound")];
    let mut insert = |table: &str, name: &str, mut row: Value| {
        for (column, value) in columns[name].as_object().into_iter().flatten() {
            row[column] = value.clone();
        }
        request.push(json!({"op": "insert", "table": table, "uuid-name": name, "row": row}));
    };
    for (table, name, row) in extra {
        insert(table, name, row.clone());
    }
    let options = json!(["map", [["router-port", "rp"]]]);
    for (name, row) in [
        ("a", json!({"addresses": "0a:00:00:00:00:01 10.0.0.1"})),
        ("b", json!({"addresses": "0a:00:00:00:00:02 10.0.0.2"})),
        ("sp", json!({"type": "router", "addresses": "router", "options": options})),
    ] {
        let mut row = row;
        row["name"] = json!(name);
        insert("Logical_Switch_Port", name, row);
    }
    let row = json!({"name": "rp", "mac": "0a:00:00:00:00:ff", "networks": "10.0.0.254/24"});
    insert("Logical_Router_Port", "rp", row);
    let ports: Vec<_> = ["a", "b", "sp"].map(|name| json!(["named-uuid", name])).into();
    insert("Logical_Switch", "sw", json!({"name": "sw", "ports": ["set", ports]}));
    insert("Logical_Router", "lr", json!({"name": "lr", "ports": ["named-uuid", "rp"]}));
    let question = Question {
        sender: Sender::port("a"),
        destination: Destination::Address(to.parse().unwrap()),
        protocol: Protocol::Tcp(80),
    };
    let request = Value::Array(request).to_string();
    let northbound = Northbound::new(&database(&request).snapshot(), chassis);
    northbound.answer(&question).unwrap()
}

fn assert_unjudged(answer: &Answer, effect: &str, table: &str) {
    let start = format!("cannot be judged: {effect} [{table} ");
    let [text] = &answer.open[..] else {
        panic!("{start} {answer:#?}");
    };
    assert!(text.starts_with(&start), "{start} {text}");
}

#[test]
fn routes_that_a_router_learns_are_not_judged() {
    let options = json!(["map", [["dynamic-routing", "true"], ["chassis", "c"]]]);
    let columns = json!({"lr": {"options": options}});
    let unknown = answer(&columns, &[], "8.8.8.8");
    assert_unjudged(&unknown, "routes that lr learns", "Logical_Router");
    let own = answer(&columns, &[], "10.0.0.254");
    assert_eq!(own.open, [""; 0]);
    // Only gateways learn.
    let options = json!(["map", [["dynamic-routing", "true"]]]);
    let other = answer(&json!({"lr": {"options": options}}), &[], "8.8.8.8");
    assert_eq!(other.open, [""; 0]);
}

#[test]
fn neighbours_by_evpn_are_not_judged() {
    let columns = json!({"sw": {"other_config": ["map", [["dynamic-routing-vni", "10"]]]}});
    let unknown = answer(&columns, &[], "10.0.0.77");
    let effect = "neighbours that switch sw learns by EVPN";
    assert_unjudged(&unknown, effect, "Logical_Switch");
    let known = answer(&columns, &[], "10.0.0.2");
    assert_eq!(known.open, [""; 0]);
}

#[test]
fn the_addresses_of_a_machine_without_port_security_are_not_judged() {
    let addresses = json!(["set", ["0a:00:00:00:00:02 10.0.0.2", "unknown"]]);
    let columns = json!({"b": {"addresses": addresses}});
    let unknown = answer(&columns, &[], "10.0.0.77");
    let effect = "whether the machine of port b has 10.0.0.77";
    assert_unjudged(&unknown, effect, "Logical_Switch_Port");
    assert_eq!(unknown.verdict, Verdict::Unanswered);
    // Machines behind a localnet port may have any address.
    let columns = json!({"b": {"addresses": addresses, "type": "localnet"}});
    let outside = answer(&columns, &[], "10.0.0.77");
    assert_eq!(outside.verdict, Verdict::Leaves);
    assert_eq!(outside.open, [""; 0]);
}

#[test]
fn packets_of_ports_that_others_send_for_are_not_judged() {
    for (kind, effect) in [
        ("external", "by which localnet port the packets of an external port come in: a"),
        ("virtual", "which parent sends the packets of a virtual port: a"),
        ("localport", "which packets of a localport have to leave its chassis: a"),
    ] {
        let answer = answer(&json!({"a": {"type": kind}}), &[], "10.0.0.2");
        assert_unjudged(&answer, effect, "Logical_Switch_Port");
    }
}

#[test]
fn backends_with_health_checks_are_not_judged() {
    let check = json!({"vip": "10.96.0.1:80"});
    let balancer = json!({"name": "lb", "vips": ["map", [["10.96.0.1:80", "10.0.0.2:80"]]],
        "health_check": ["named-uuid", "hc"],
        "ip_port_mappings": ["map", [["10.0.0.2", "b:10.0.0.250"]]]});
    let extra = [("Load_Balancer_Health_Check", "hc", check), ("Load_Balancer", "lb", balancer)];
    let effect = "which backends of load balancer lb are online";
    for datapath in ["sw", "lr"] {
        let mut columns = json!({datapath: {"load_balancer": ["named-uuid", "lb"]}});
        columns["lr"]["options"] = json!(["map", [["chassis", "c"]]]);
        let answer = answer(&columns, &extra, "10.96.0.1");
        assert_unjudged(&answer, effect, "Load_Balancer");
    }
}

#[test]
fn a_destination_port_outside_of_the_range_of_a_nat_rule_is_not_judged() {
    for (range, kind, is_moved) in
        [("5000-6000", "dnat", true), ("1-6000", "dnat", false), ("5000-6000", "snat", false)]
    {
        let nat = json!({"type": kind, "external_ip": "10.0.0.50", "logical_ip": "10.0.0.2",
            "external_port_range": range});
        let columns = json!({"lr": {"nat": ["named-uuid", "nat"],
            "options": ["map", [["chassis", "c1"]]]}});
        let answer = answer(&columns, &[("NAT", "nat", nat)], "10.0.0.50");
        if is_moved {
            let effect = "which port of the rule's range is the new destination port";
            assert_unjudged(&answer, effect, "NAT");
        } else {
            assert_eq!(answer.open, [""; 0]);
        }
    }
}

#[test]
fn ports_of_the_connection_in_acls_are_not_judged() {
    let options = json!(["map", [["acl_ct_translation", "true"]]]);
    let global = ("NB_Global", "global", json!({"options": options}));
    let acl = |text: &str| {
        let row = json!({"direction": "to-lport", "priority": 1, "match": text,
            "action": "allow-related"});
        ("ACL", "acl", row)
    };
    let columns = json!({"sw": {"acls": ["named-uuid", "acl"]}});
    let with_port = answer(&columns, &[global.clone(), acl("tcp.dst == 80")], "10.0.0.2");
    let effect = "which ports of the connection the ACLs of sw compare";
    assert_unjudged(&with_port, effect, "NB_Global");
    let without = answer(&columns, &[global, acl("ip4")], "10.0.0.2");
    assert_eq!(without.open, [""; 0]);
}

#[test]
fn the_tunnels_of_a_forwarding_group_are_not_judged() {
    let group = json!({"name": "fg", "vip": "10.0.0.9", "vmac": "0a:00:00:00:00:09",
        "child_port": "b", "liveness": true});
    let columns = json!({"sw": {"forwarding_groups": ["named-uuid", "fg"]}});
    let answer = answer(&columns, &[("Forwarding_Group", "fg", group)], "10.0.0.9");
    let effect = "the tunnels to which ports of forwarding group fg work";
    assert_unjudged(&answer, effect, "Forwarding_Group");
}

#[test]
fn variables_of_templates_that_differ_are_not_judged() {
    let balancer = json!({"name": "lb", "vips": ["map", [["10.96.0.1:80", "^B"]]],
        "options": ["map", [["template", "true"]]]});
    let variables = |chassis: &str, backend: &str| json!({"chassis": chassis, "variables": ["map", [["B", backend]]]});
    let columns = json!({"sw": {"load_balancer": ["named-uuid", "lb"]}});
    for (second, is_same) in [("10.0.0.2:80", true), ("10.0.0.254:80", false)] {
        let extra = [
            ("Load_Balancer", "lb", balancer.clone()),
            ("Chassis_Template_Var", "c1", variables("c1", "10.0.0.2:80")),
            ("Chassis_Template_Var", "c2", variables("c2", second)),
        ];
        let answer = answer(&columns, &extra, "10.96.0.1");
        if is_same {
            assert_eq!(answer.open, [""; 0]);
        } else {
            let effect = "which chassis' variables load balancer lb gets";
            assert_unjudged(&answer, effect, "Load_Balancer");
        }
    }
}

#[test]
fn a_template_has_the_variables_of_the_named_chassis_only() {
    let balancer = json!({"name": "lb", "vips": ["map", [["10.96.0.1:80", "^B"]]],
        "options": ["map", [["template", "true"]]]});
    let variables = json!({"chassis": "c1", "variables": ["map", [["B", "10.0.0.2:80"]]]});
    let columns = json!({"sw": {"load_balancer": ["named-uuid", "lb"]}});
    let extra = [("Load_Balancer", "lb", balancer), ("Chassis_Template_Var", "c1", variables)];
    for (chassis, out) in [(None, Some("b")), (Some("c1"), Some("b")), (Some("c2"), None)] {
        let answer = answer_on(chassis, &columns, &extra, "10.96.0.1");
        assert_eq!(answer.out.as_deref(), out, "{answer:#?}");
    }
}
