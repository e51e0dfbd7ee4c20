//! Sources and load balancers of routers that the random topologies do not have, each in a small
//! database.

use patchbay_oracle::{TraceOutcome, map, references};
use patchbay_ovn_programs::testing::Release;
use serde_json::{Value, json};

use super::features::{Network, WEB, ask, assert_same};

/// Asserts that a packet from `v1` to `v3` has this source behind `lr` with the NAT rules.
fn assert_source(rules: &[Value], mut columns: Value, source: Option<&str>) {
    let Some(release) = Release::newest() else {
        return;
    };
    let mut network = Network::new(json!({}));
    if columns["lr"].is_null() {
        for number in [1, 2] {
            let row = json!({"name": format!("gc{number}"), "chassis_name": "c1", "priority": 1});
            let chassis = network.rows.insert("Gateway_Chassis", row);
            columns[format!("rp{number}")] = json!({"gateway_chassis": references(&[chassis])});
        }
    }
    let rules = rules.iter().map(|row| network.rows.insert("NAT", row.clone()));
    columns["lr"]["nat"] = references(&rules.collect::<Vec<_>>());
    network.columns = columns;
    let target = ("10.2.0.2", "0a:00:00:00:01:01");
    let (answer, text) = ask(&release, &network.finish(), target, WEB);
    assert_same(&answer, &text);
    assert_eq!(TraceOutcome::read(&text).source.as_deref(), source, "{text}");
    assert_eq!(answer.source, source.map(|text| text.parse().unwrap()));
}

#[test]
fn a_packet_that_could_be_an_answer_to_another_gateway_port_keeps_its_source() {
    let snat = |external: &str, logical: &str| json!({"type": "snat", "external_ip": external, "logical_ip": logical});
    let rule = snat("10.2.0.8", "10.1.0.0/24");
    assert_source(std::slice::from_ref(&rule), json!({}), Some("10.2.0.8"));
    let machine = |options: &[(&str, &str)]| {
        json!({"type": "dnat_and_snat", "external_ip": "10.1.0.9", "logical_ip": "10.2.0.2",
            "options": map(options)})
    };
    for (other, source) in [
        (snat("10.1.0.9", "10.2.0.0/25"), None),
        (snat("10.1.0.9", "10.0.0.0/8"), Some("10.2.0.8")),
        (machine(&[]), None),
        (machine(&[("stateless", "true")]), Some("10.2.0.8")),
    ] {
        assert_source(&[rule.clone(), other], json!({}), source);
    }
}

#[test]
fn a_gateway_router_that_commits_all_keeps_the_sources_of_large_networks() {
    for (value, logical, source) in [
        ("true", "10.0.0.0/8", None),
        ("true", "10.1.0.0/24", Some("10.2.0.9")),
        ("false", "10.0.0.0/8", Some("10.2.0.9")),
    ] {
        let options = map(&[("chassis", "c1"), ("ct-commit-all", value)]);
        let rule = json!({"type": "snat", "external_ip": "10.2.0.9", "logical_ip": logical});
        assert_source(&[rule], json!({"lr": {"options": options}}), source);
    }
}

#[test]
fn vips_of_a_router_without_ports_serve_packets_that_its_switch_tracks() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (action, vip, backend, out) in [
        ("allow-related", "10.96.0.1", "10.1.0.3", None),
        ("allow", "10.96.0.1", "10.1.0.3", Some("v3")),
        ("allow-related", "10.96.0.1:80", "10.1.0.3:80", Some("v2")),
    ] {
        let mut network = Network::new(json!({}));
        // The switch balances by the VIP without a port also beside one that has a port.
        let mut vips = vec![(vip, backend)];
        if vip == "10.96.0.1" {
            vips.push(("10.96.0.1:80", "10.2.0.2:80"));
        }
        let row = json!({"name": "lb", "vips": map(&vips)});
        let balancer = network.rows.insert("Load_Balancer", row);
        let options = map(&[("install_ls_lb_from_router", "true")]);
        network.rows.insert("NB_Global", json!({"options": options}));
        // It drops what the switch has balanced, not what the router balances.
        let row = json!({"direction": "from-lport", "priority": 1, "action": "drop",
            "match": "inport == \"v1\" && ip4.dst == 10.1.0.3",
            "options": map(&[("apply-after-lb", "true")])});
        let drop = network.rows.insert("ACL", row);
        let row = json!({"direction": "from-lport", "priority": 1, "match": "ip4",
            "action": action});
        let allow = network.rows.insert("ACL", row);
        network.columns["s1"] = json!({"acls": references(&[drop, allow])});
        network.columns["lr"] = json!({"load_balancer": references(&[balancer])});
        let target = ("10.96.0.1", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_same(&answer, &text);
        assert_eq!(answer.out.as_deref(), out, "{answer:#?}");
    }
}

/// The switch drops what it has balanced, not what the router balances.
#[test]
fn a_switch_does_not_track_stateless_packets_for_vips_of_its_router() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (is_own, out) in [(true, None), (false, Some("v2"))] {
        let mut network = Network::new(json!({}));
        let options = map(&[("install_ls_lb_from_router", "true")]);
        network.rows.insert("NB_Global", json!({"options": options}));
        let row = json!({"name": "lb", "vips": map(&[("10.96.0.1", "10.1.0.3")])});
        let balancer = network.rows.insert("Load_Balancer", row);
        let balancers = references(&[balancer]);
        let rows = [
            json!({"direction": "from-lport", "priority": 1, "action": "allow-stateless",
                "match": "ip4"}),
            json!({"direction": "from-lport", "priority": 2, "action": "drop",
                "match": "inport == \"v1\" && ip4.dst == 10.1.0.3",
                "options": map(&[("apply-after-lb", "true")])}),
        ];
        let acls = rows.map(|row| network.rows.insert("ACL", row));
        let config = map(&[("enable-stateless-acl-with-lb", "true")]);
        network.columns["s1"] = json!({"acls": references(&acls), "other_config": config});
        if is_own {
            network.columns["s1"]["load_balancer"] = balancers.clone();
        }
        network.columns["lr"] = json!({"load_balancer": balancers});
        let target = ("10.96.0.1", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_same(&answer, &text);
        assert_eq!(answer.out.as_deref(), out, "{answer:#?}");
    }
}

#[test]
fn policies_see_that_a_router_tracks_packets() {
    let Some(release) = Release::newest() else {
        return;
    };
    let machine = |external: &str, stateless: &str| {
        json!({"type": "dnat_and_snat", "external_ip": external, "logical_ip": "10.2.0.2",
            "options": map(&[("stateless", stateless)])})
    };
    for (address, commits, out) in [
        ("10.2.0.2", "false", Some("v3")),
        ("10.2.0.2", "true", None),
        ("10.96.0.1", "false", None),
        ("10.96.0.2", "false", None),
        ("10.96.0.3", "false", Some("v3")),
    ] {
        let mut network = Network::new(json!({}));
        let policy = network.rows.insert(
            "Logical_Router_Policy",
            json!({"priority": 1, "action": "drop", "match": "ct.new"}),
        );
        let row = json!({"name": "lb", "vips": map(&[("10.96.0.1:80", "10.2.0.2:80")])});
        let balancer = network.rows.insert("Load_Balancer", row);
        let rules = [machine("10.96.0.2", "false"), machine("10.96.0.3", "true")]
            .map(|row| network.rows.insert("NAT", row));
        network.columns["lr"] = json!({"load_balancer": references(&[balancer]),
            "policies": references(&[policy]), "nat": references(&rules),
            "options": map(&[("chassis", "c1"), ("ct-commit-all", commits)])});
        let target = (address, "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_same(&answer, &text);
        assert_eq!(answer.out.as_deref(), out, "{answer:#?}");
    }
}

/// `v1` asks for a VIP of a second router `lr2` on `s2`, which answers no ARP requests.
#[test]
fn a_gateway_knows_the_mac_addresses_of_announced_vips() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (chassis, learns, out) in
        [(Some("c1"), "false", Some("v3")), (Some("c1"), "true", None), (None, "false", None)]
    {
        let mut network = Network::new(json!({}));
        let row = json!({"name": "lb", "vips": map(&[("10.96.0.1:80", "10.2.0.2:80")]),
            "options": map(&[("add_route", "true"), ("neighbor_responder", "none")])});
        let balancer = network.rows.insert("Load_Balancer", row);
        let row = json!({"name": "rp3", "mac": "0a:00:00:00:02:99", "networks": "10.2.0.9/24"});
        let port = network.rows.insert("Logical_Router_Port", row);
        let row = json!({"name": "sp3", "type": "router", "addresses": "router",
            "options": map(&[("router-port", "rp3")])});
        let switch_port = network.rows.insert("Logical_Switch_Port", row);
        network.others.push(switch_port);
        let row = json!({"name": "lr2", "ports": references(&[port]),
            "load_balancer": references(&[balancer]), "options": map(&[("chassis", "c1")])});
        network.rows.insert("Logical_Router", row);
        let mut options = vec![("dynamic_neigh_routers", learns)];
        options.extend(chassis.map(|chassis| ("chassis", chassis)));
        network.columns["lr"] = json!({"options": map(&options)});
        let target = ("10.96.0.1", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        // ovn-trace shows the packet without the MAC address, too.
        assert_eq!(text.contains("arp {"), out.is_none(), "{text}");
        assert_eq!(answer.out.as_deref(), out, "{answer:#?}");
    }
}

#[test]
fn packets_of_a_router_for_an_l2gateway_port_are_tracked() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (kind, out) in [("l2gateway", None), ("localnet", Some("x"))] {
        let mut network = Network::new(json!({}));
        let options = [("network_name", "phys"), ("l2gateway-chassis", "c1")];
        let row = json!({"name": "x", "type": kind, "addresses": "0a:00:00:00:02:07 10.2.0.7",
            "options": map(&options)});
        let port = network.rows.insert("Logical_Switch_Port", row);
        network.others.push(port);
        let acls = [("from-lport", "allow-related", "ip4"), ("to-lport", "drop", "ct.new")].map(
            |(direction, action, text)| {
                let row = json!({"direction": direction, "priority": 1, "action": action,
                "match": text});
                network.rows.insert("ACL", row)
            },
        );
        network.columns["s2"] = json!({"acls": references(&acls)});
        let target = ("10.2.0.7", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_same(&answer, &text);
        assert_eq!(answer.out.as_deref(), out, "{answer:#?}");
    }
}

/// The packet goes out by `rp2` for an address that `rp0` translates.
#[test]
fn untranslated_packets_for_a_stateless_rule_with_allowed_addresses_are_dropped() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (stateless, is_limited, out) in
        [("true", true, None), ("true", false, Some("v3")), ("false", true, Some("v3"))]
    {
        let mut network = Network::new(json!({}));
        let row = json!({"name": "gc", "chassis_name": "c1", "priority": 1});
        let chassis = network.rows.insert("Gateway_Chassis", row);
        let row = json!({"name": "rp0", "mac": "0a:00:00:00:00:09", "networks": "10.9.0.1/24",
            "gateway_chassis": references(&[chassis])});
        let gateway = network.rows.insert("Logical_Router_Port", row);
        let row = json!({"name": "as", "addresses": "10.1.0.2"});
        let set = network.rows.insert("Address_Set", row);
        let mut row = json!({"type": "dnat_and_snat", "external_ip": "10.2.0.2",
            "logical_ip": "10.1.0.3", "gateway_port": ["named-uuid", gateway],
            "options": map(&[("stateless", stateless)])});
        if is_limited {
            row["allowed_ext_ips"] = json!(["named-uuid", set]);
        }
        let rule = network.rows.insert("NAT", row);
        network.router_ports.push(gateway);
        network.columns["lr"] = json!({"nat": references(&[rule])});
        let target = ("10.2.0.2", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_same(&answer, &text);
        assert_eq!(answer.out.as_deref(), out, "{answer:#?}");
    }
}

#[test]
fn a_static_mac_address_counts_where_a_gateway_port_asks_machines() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (kind, out) in [("bridged", None), ("overlay", Some("v3"))] {
        let mut network = Network::new(json!({}));
        let row = json!({"name": "gc", "chassis_name": "c1", "priority": 1});
        let chassis = network.rows.insert("Gateway_Chassis", row);
        network.columns["rp2"] = json!({"gateway_chassis": references(&[chassis]),
            "options": map(&[("redirect-type", kind)])});
        let row = json!({"logical_port": "rp2", "ip": "10.2.0.2", "mac": "0a:00:00:00:02:77"});
        network.rows.insert("Static_MAC_Binding", row);
        let target = ("10.2.0.2", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_same(&answer, &text);
        assert_eq!(answer.out.as_deref(), out, "{answer:#?}");
    }
}

/// `other` has the route, and no ports.
#[test]
fn a_route_by_a_port_of_another_router_is_one_of_that_router() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (port, next_hops, out) in [
        ("rp2", &["10.2.0.2"][..], Some("v3")),
        ("rp1", &["10.2.0.2"], None),
        ("nowhere", &["10.2.0.2"], None),
        // Equal routes stay with their router.
        ("rp2", &["10.2.0.2", "10.2.0.3"], None),
    ] {
        let mut network = Network::new(json!({}));
        let routes = next_hops.iter().map(|next_hop| {
            let row = json!({"ip_prefix": "20.0.0.0/16", "nexthop": next_hop, "output_port": port});
            network.rows.insert("Logical_Router_Static_Route", row)
        });
        let routes = references(&routes.collect::<Vec<_>>());
        let row = json!({"name": "other", "static_routes": routes});
        network.rows.insert("Logical_Router", row);
        let target = ("20.0.0.5", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_eq!(answer.out.as_deref(), out, "{answer:#?}\n{text}");
        if port != "rp1" {
            assert_same(&answer, &text);
        }
    }
}

/// OVN takes one of equal routes, and the packet is lost if it is that by the port of another
/// router.
#[test]
fn equal_routes_by_ports_of_other_routers_stay_with_their_router() {
    let Some(release) = Release::newest() else {
        return;
    };
    // The routes are longer than the last one, which only counts without them.
    for (routes, is_lost) in [
        (&[("10.9.0.5", "rp9"), ("10.9.0.6", "rp9")][..], true),
        (&[("10.9.0.5", "rp9"), ("10.1.0.3", "rp1")], false),
    ] {
        let mut network = Network::new(json!({}));
        let row = json!({"name": "rp9", "mac": "0a:00:00:00:09:01", "networks": "10.9.0.1/24"});
        let port = network.rows.insert("Logical_Router_Port", row);
        let row = json!({"name": "other", "ports": references(&[port])});
        network.rows.insert("Logical_Router", row);
        let routes = routes.iter().map(|(next_hop, port)| ("20.0.0.0/16", *next_hop, json!(port)));
        let last = ("20.0.0.0/8", "10.1.0.3", json!(["set", []]));
        let rows = routes.chain([last]).map(|(prefix, next_hop, port)| {
            let row = json!({"ip_prefix": prefix, "nexthop": next_hop, "output_port": port});
            network.rows.insert("Logical_Router_Static_Route", row)
        });
        let rows = references(&rows.collect::<Vec<_>>());
        network.columns["lr"] = json!({"static_routes": rows});
        let target = ("20.0.0.5", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_eq!(answer.open, ["2 equal routes for 20.0.0.0/16 on lr"]);
        let outputs = TraceOutcome::read(&text).outputs;
        assert!(outputs.is_empty() || outputs == ["v2"], "{text}");
        if is_lost {
            assert_eq!(answer.out, None, "{answer:#?}");
            assert_eq!(outputs, [""; 0], "{text}");
        }
    }
}

#[test]
fn a_policy_by_a_port_of_another_router_loses_its_packets() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (is_attached, out) in [(true, None), (false, Some("v2"))] {
        let mut network = Network::new(json!({}));
        let row = json!({"name": "rp9", "mac": "0a:00:00:00:09:01", "networks": "10.9.0.1/24"});
        let port = network.rows.insert("Logical_Router_Port", row);
        let row = json!({"name": "other", "ports": references(std::slice::from_ref(&port)),
            "enabled": is_attached});
        network.rows.insert("Logical_Router", row);
        let row = json!({"ip_prefix": "20.0.0.0/16", "nexthop": "10.1.0.3"});
        let route = network.rows.insert("Logical_Router_Static_Route", row);
        let row = json!({"priority": 1, "match": "ip4.dst == 20.0.0.5", "action": "reroute",
            "nexthops": "10.2.0.2", "output_port": ["named-uuid", port]});
        let policy = network.rows.insert("Logical_Router_Policy", row);
        network.columns["lr"] = json!({"static_routes": references(&[route]),
            "policies": references(&[policy])});
        let target = ("20.0.0.5", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_same(&answer, &text);
        assert_eq!(answer.out.as_deref(), out, "{answer:#?}\n{text}");
    }
}

#[test]
fn it_is_open_by_which_of_several_switch_ports_a_router_port_sends() {
    let Some(release) = Release::newest() else {
        return;
    };
    let mut network = Network::new(json!({}));
    let options = map(&[("router-port", "rp2")]);
    let row = json!({"type": "router", "addresses": "router", "options": options});
    network.add_port("second", row);
    let target = ("10.2.0.2", "0a:00:00:00:01:01");
    let (answer, text) = ask(&release, &network.finish(), target, WEB);
    let outputs = TraceOutcome::read(&text).outputs;
    assert!(outputs.is_empty() || outputs == ["v3"], "{text}");
    assert_eq!(answer.open, ["several switch ports lead to router port rp2"]);
}
