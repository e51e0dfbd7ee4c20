//! NAT rules with the state of connections and with addresses on the other side, each in a small
//! database.

use patchbay_oracle::{TraceOutcome, map, references};
use patchbay_ovn_programs::testing::Release;
use serde_json::{Value, json};

use super::features::{Network, WEB, ask, assert_same};

/// A rule that translates the source of `v1`, with a match.
fn source_rule(external: &str, text: &str, priority: i64) -> Value {
    json!({"type": "snat", "external_ip": external, "logical_ip": "10.1.0.0/24", "match": text,
        "priority": priority})
}

/// The network with a gateway router, or with the gateway port `rp2`, and with NAT rules.
fn network(is_gateway: bool, rules: &[Value]) -> Network {
    let mut network = Network::new(json!({}));
    if is_gateway {
        network.columns["lr"] = json!({"options": map(&[("chassis", "c1")])});
    } else {
        let row = json!({"name": "gc", "chassis_name": "c1", "priority": 1});
        let chassis = network.rows.insert("Gateway_Chassis", row);
        network.columns["rp2"] = json!({"gateway_chassis": references(&[chassis])});
        network.columns["lr"] = json!({});
    }
    let rules = rules.iter().map(|row| network.rows.insert("NAT", row.clone()));
    network.columns["lr"]["nat"] = references(&rules.collect::<Vec<_>>());
    network
}

/// Adds a `localnet` port to `s2`.
fn add_localnet(network: &mut Network) {
    let row = json!({"name": "ln", "type": "localnet", "addresses": "unknown",
        "options": map(&[("network_name", "phys")])});
    let row = network.rows.insert("Logical_Switch_Port", row);
    network.others.push(row);
}

#[test]
fn a_rule_for_sources_sees_whether_the_router_has_tracked_the_packet() {
    let Some(release) = Release::newest() else {
        return;
    };
    let machine = json!({"type": "dnat", "external_ip": "10.2.0.9", "logical_ip": "10.1.0.2"});
    let own = |text| source_rule("10.2.0.8", text, 2);
    let tracking = source_rule("10.2.0.7", "!ct.trk", 1);
    for (is_gateway, rules, source) in [
        (true, vec![own("ct.new")], None),
        (true, vec![own("!ct.trk")], Some("10.2.0.8")),
        (false, vec![own("ct.new")], None),
        (false, vec![own("!ct.trk")], None),
        (false, vec![own("ct.new"), tracking], Some("10.2.0.8")),
        (false, vec![own("ct.new"), machine], Some("10.2.0.8")),
    ] {
        let request = network(is_gateway, &rules).finish();
        let target = ("10.2.0.2", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &request, target, WEB);
        assert_same(&answer, &text);
        let traced = TraceOutcome::read(&text).source;
        assert_eq!(traced.as_deref(), source, "{rules:?}\n{text}");
        let own = answer.source.map(|source| source.to_string());
        assert_eq!(own.as_deref(), source, "{rules:?}\n{answer:#?}");
    }
}

/// The ACL drops what has the MAC address of the rule.
#[test]
fn a_rule_works_at_the_gateway_if_the_external_switch_has_no_localnet_port() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (has_localnet, out) in [(true, None), (false, Some("v3"))] {
        let rule = json!({"type": "dnat_and_snat", "external_ip": "10.2.0.8",
            "logical_ip": "10.1.0.2", "logical_port": "v1", "external_mac": "0a:ee:00:00:00:01"});
        let mut network = network(false, &[rule]);
        if has_localnet {
            add_localnet(&mut network);
        }
        let row = json!({"direction": "to-lport", "priority": 1, "action": "drop",
            "match": "eth.src == 0a:ee:00:00:00:01"});
        let acl = network.rows.insert("ACL", row);
        network.columns["s2"] = json!({"acls": references(&[acl])});
        let target = ("10.2.0.2", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_same(&answer, &text);
        assert_eq!(answer.out.as_deref(), out, "{answer:#?}");
    }
}

/// `v1` asks for an address of `lr2`, which the router of `v1` knows by the MAC address of the rule.
#[test]
fn a_gateway_on_a_switch_without_localnet_port_refuses_the_known_mac_address() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (has_localnet, out) in [(true, Some("v3")), (false, None)] {
        let mut network = Network::new(json!({}));
        let row = json!({"type": "dnat_and_snat", "external_ip": "10.2.0.8",
            "logical_ip": "10.2.0.2", "logical_port": "v3", "external_mac": "0a:ee:00:00:00:01",
            "options": map(&[("add_route", "true")])});
        let rule = network.rows.insert("NAT", row);
        let row = json!({"name": "gc", "chassis_name": "c1", "priority": 1});
        let chassis = network.rows.insert("Gateway_Chassis", row);
        let row = json!({"name": "rp3", "mac": "0a:00:00:00:02:99", "networks": "10.2.0.9/24",
            "gateway_chassis": references(&[chassis])});
        let port = network.rows.insert("Logical_Router_Port", row);
        let row = json!({"name": "sp3", "type": "router", "addresses": "router",
            "options": map(&[("router-port", "rp3")])});
        let switch_port = network.rows.insert("Logical_Switch_Port", row);
        network.others.push(switch_port);
        let row = json!({"name": "lr2", "ports": references(&[port]), "nat": references(&[rule])});
        network.rows.insert("Logical_Router", row);
        network.columns["lr"] = json!({"options": map(&[("chassis", "c1")])});
        if has_localnet {
            add_localnet(&mut network);
        }
        let target = ("10.2.0.8", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert!(text.contains("eth.dst = 0a:ee:00:00:00:01;"), "{text}");
        assert_same(&answer, &text);
        assert_eq!(answer.out.as_deref(), out, "{answer:#?}");
    }
}

/// `v1` asks for the address of the first rule, which goes out by the gateway port.
#[test]
fn allowed_sources_enter_again_if_the_last_rule_has_the_address() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (set, kind, has_vip, out) in [
        ("10.1.0.2", "allowed_ext_ips", false, Some("v2")),
        ("10.1.0.9", "allowed_ext_ips", false, None),
        ("10.1.0.2", "exempted_ext_ips", false, None),
        ("10.1.0.9", "exempted_ext_ips", false, Some("v2")),
        // A router that tracks connections and commits all of them looks at new ones instead.
        ("10.1.0.2", "allowed_ext_ips", true, None),
    ] {
        let mut network = network(false, &[]);
        let row = json!({"name": "as", "addresses": set});
        let set = network.rows.insert("Address_Set", row);
        let mut row = json!({"type": "dnat_and_snat", "external_ip": "10.2.0.8",
            "logical_ip": "10.1.0.3", "options": map(&[("stateless", "true")])});
        row[kind] = json!(["named-uuid", set]);
        let rule = network.rows.insert("NAT", row);
        let row = json!({"name": "lb", "vips": map(&[("10.96.0.1:80", "10.1.0.3:80")])});
        let balancer = network.rows.insert("Load_Balancer", row);
        let balancers: &[String] = if has_vip { &[balancer] } else { &[] };
        network.columns["lr"] = json!({"nat": references(&[rule]),
            "load_balancer": references(balancers),
            "options": map(&[("ct-commit-all", "true")])});
        let target = ("10.2.0.8", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_same(&answer, &text);
        assert_eq!(answer.out.as_deref(), out, "{answer:#?}\n{text}");
    }
}

/// Of two gateway ports, ovn-northd writes the flow for one of them, whichever it has last.
#[test]
fn it_is_open_at_which_gateway_port_allowed_sources_of_new_connections_enter_again() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (set, choices) in [("10.1.0.2", 1), ("10.1.0.9", 0)] {
        let mut network = network(false, &[]);
        let row = json!({"name": "gc1", "chassis_name": "c1", "priority": 1});
        let chassis = network.rows.insert("Gateway_Chassis", row);
        network.columns["rp1"] = json!({"gateway_chassis": references(&[chassis])});
        let row = json!({"name": "as", "addresses": set});
        let set = network.rows.insert("Address_Set", row);
        let row = json!({"type": "dnat_and_snat", "external_ip": "10.2.0.8",
            "logical_ip": "10.1.0.3", "options": map(&[("stateless", "true")]),
            "allowed_ext_ips": ["named-uuid", set]});
        let rule = network.rows.insert("NAT", row);
        let row = json!({"name": "lb", "vips": map(&[("10.96.0.1:80", "10.1.0.3:80")])});
        let balancer = network.rows.insert("Load_Balancer", row);
        network.columns["lr"] = json!({"nat": references(&[rule]),
            "load_balancer": references(&[balancer]),
            "options": map(&[("ct-commit-all", "true")])});
        let target = ("10.2.0.2", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        let is_noted = |text: &&String| text.contains("at one of its gateway ports");
        let noted = answer.open.iter().filter(is_noted).count();
        assert_eq!(noted > 0, choices > 0, "{answer:#?}");
        let outputs = TraceOutcome::read(&text).outputs;
        assert!(outputs == ["v3"] || choices > 0 && outputs.is_empty(), "{text}");
    }
}
