//! Machines that answer ARP requests themselves, or do not.

use patchbay_oracle::{
    ArpRequest, Asked, Ovn, Tally, TraceOutcome, TracedPacket, compare, map, read_northbound,
    references, set, start_server,
};
use patchbay_ovn_programs::testing::Release;
use patchbay_reach::{Destination, Northbound, Question, Sender, Verdict};
use serde_json::{Value, json};

use super::features::{Network, WEB, ask, assert_same};

/// ARP reply of `v2` to `v1`.
const REPLY: &str = "inport == \"v2\" && eth.src == 0a:00:00:00:01:03 && \
                     eth.dst == 0a:00:00:00:01:02 && arp.op == 2 && \
                     arp.sha == 0a:00:00:00:01:03 && arp.spa == 10.1.0.3 && \
                     arp.tha == 0a:00:00:00:01:02 && arp.tpa == 10.1.0.2";

/// Asserts the verdict of packets of `v1` for `v2`. Returns the ports at which ovn-trace delivers
/// the ARP request before them.
fn outputs_of_request(release: &Release, request: &str, verdict: Verdict) -> Vec<String> {
    let server = start_server(release);
    let mut ovn = Ovn::fill(release, &server, request);
    let northbound = Northbound::new(&read_northbound(&server), None);
    let question = Question {
        sender: Sender::port("v1"),
        destination: Destination::Port("v2".to_owned()),
        protocol: WEB.0,
    };
    assert_eq!(northbound.answer(&question).unwrap().verdict, verdict);
    let asked = ArpRequest::new("v1", "0a:00:00:00:01:02", "10.1.0.2", "10.1.0.3");
    let text = ovn.trace.trace("s1", &asked.expression).unwrap();
    TraceOutcome::read(&text).outputs
}

/// Asserts the verdict of packets of `v1` for `v2`, which gets the ARP request before them. Its
/// reply arrives unless the verdict is `unanswered`.
fn assert_replies(release: &Release, request: &str, verdict: Verdict) {
    let outputs = outputs_of_request(release, request, verdict);
    assert!(outputs.contains(&"v2".to_owned()), "{outputs:?}");
    let server = start_server(release);
    let mut ovn = Ovn::fill(release, &server, request);
    let text = ovn.trace.trace("s1", REPLY).unwrap();
    let outputs = TraceOutcome::read(&text).outputs;
    assert_eq!(outputs.is_empty(), verdict == Verdict::Unanswered, "{text}");
}

#[test]
fn a_machine_that_has_to_answer_itself_meets_the_acls() {
    let Some(release) = Release::newest() else {
        return;
    };
    for is_answered_for in [true, false] {
        let value = if is_answered_for { "false" } else { "true" };
        let options = map(&[("disable_arp_nd_rsp", value)]);
        let mut network = Network::new(json!({"v2": {"options": options}}));
        let row = json!({"direction": "from-lport", "priority": 1, "action": "drop",
            "match": "inport == \"v2\" && arp"});
        let acl = network.rows.insert("ACL", row);
        network.columns["s1"] = json!({"acls": references(&[acl])});
        let target = ("10.1.0.3", "0a:00:00:00:01:03");
        let (answer, _) = ask(&release, &network.finish(), target, WEB);
        assert_eq!(answer.out.is_some(), is_answered_for, "{answer:#?}");
    }
}

#[test]
fn a_machine_that_hears_no_request_does_not_answer() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (value, verdict) in [("true", Verdict::Reaches), ("false", Verdict::Unanswered)] {
        let options = map(&[("disable_arp_nd_rsp", "true"), ("receive_multicast", value)]);
        let request = Network::new(json!({"v2": {"options": options}})).finish();
        let outputs = outputs_of_request(&release, &request, verdict);
        let hears = outputs.contains(&"v2".to_owned());
        assert_eq!(hears, verdict == Verdict::Reaches, "{outputs:?}");
    }
}

/// `up` is the column of the machine's port, which ovn-northd sets to `false` without a chassis.
#[test]
fn a_machine_whose_port_is_down_answers_itself_if_the_database_wants_it() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (value, verdict) in [("true", Verdict::Reaches), ("false", Verdict::Unanswered)] {
        let mut network = Network::new(json!({}));
        let options = map(&[("ignore_lsp_down", value)]);
        network.rows.insert("NB_Global", json!({"options": options}));
        let row = json!({"direction": "from-lport", "priority": 1, "action": "drop",
            "match": "inport == \"v2\" && arp"});
        let acl = network.rows.insert("ACL", row);
        network.columns = json!({"s1": {"acls": references(&[acl])}});
        let outputs = outputs_of_request(&release, &network.finish(), verdict);
        let is_answered = outputs == ["v1"];
        assert_eq!(is_answered, verdict == Verdict::Reaches, "{outputs:?}");
    }
}

/// Asserts the verdict of packets of `v1` for `v2` on a switch with an ACL and columns of `v2`.
/// Returns `true` if an ARP reply gets to `v1` in ovn-trace.
fn is_answered(release: &Release, acl: (&str, &str), v2: &Value, verdict: Verdict) -> bool {
    let mut network = Network::new(json!({"v2": v2}));
    let (direction, text) = acl;
    let row = json!({"direction": direction, "priority": 1, "action": "drop", "match": text});
    let acl = network.rows.insert("ACL", row);
    network.columns["s1"] = json!({"acls": references(&[acl])});
    let outputs = outputs_of_request(release, &network.finish(), verdict);
    outputs.contains(&"v1".to_owned())
}

#[test]
fn a_sender_without_an_answer_sends_nothing_that_could_be_dropped() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (acl, v2, verdict) in [
        (("from-lport", "ip4"), json!({}), Verdict::Dropped),
        (("from-lport", "inport == \"v1\""), json!({}), Verdict::Unanswered),
        (("to-lport", "arp"), json!({"enabled": false}), Verdict::Unanswered),
        (("to-lport", "ip6"), json!({"enabled": false}), Verdict::Dropped),
    ] {
        let is_answered = is_answered(&release, acl, &v2, verdict);
        assert_eq!(is_answered, verdict == Verdict::Dropped, "{acl:?}");
    }
}

#[test]
fn a_machine_with_a_disabled_port_does_not_answer() {
    let Some(release) = Release::newest() else {
        return;
    };
    let options = map(&[("disable_arp_nd_rsp", "true")]);
    let v2 = json!({"options": options, "enabled": false});
    let request = Network::new(json!({"v2": v2})).finish();
    let outputs = outputs_of_request(&release, &request, Verdict::Unanswered);
    assert!(!outputs.contains(&"v2".to_owned()), "{outputs:?}");
}

#[test]
fn port_security_stops_the_answer_of_a_machine() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (address, verdict) in [("10.1.0.3", Verdict::Reaches), ("10.1.0.4", Verdict::Unanswered)] {
        let options = map(&[("disable_arp_nd_rsp", "true")]);
        let security = format!("0a:00:00:00:01:03 {address}");
        let v2 = json!({"options": options, "port_security": security});
        let request = Network::new(json!({"v2": v2})).finish();
        assert_replies(&release, &request, verdict);
    }
}

#[test]
fn a_router_behind_a_disabled_port_does_not_answer_for_its_vips() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (is_enabled, verdict) in [(true, Verdict::Reaches), (false, Verdict::Unanswered)] {
        let mut network = Network::new(json!({}));
        let row = json!({"name": "lb", "vips": map(&[("10.1.0.9:80", "10.2.0.2:80")])});
        let balancer = network.rows.insert("Load_Balancer", row);
        network.columns = json!({"sp1": {"enabled": is_enabled},
            "lr": {"load_balancer": references(&[balancer])}});
        let server = start_server(&release);
        let mut ovn = Ovn::fill(&release, &server, &network.finish());
        let northbound = Northbound::new(&read_northbound(&server), None);
        let question = Question {
            sender: Sender::port("v1"),
            destination: Destination::Address("10.1.0.9".parse().unwrap()),
            protocol: WEB.0,
        };
        assert_eq!(northbound.answer(&question).unwrap().verdict, verdict);
        let asked = ArpRequest::new("v1", "0a:00:00:00:01:02", "10.1.0.2", "10.1.0.9");
        let text = ovn.trace.trace("s1", &asked.expression).unwrap();
        let is_answered = TraceOutcome::read(&text).outputs.contains(&"v1".to_owned());
        assert_eq!(is_answered, is_enabled, "{text}");
    }
}

#[test]
fn a_switch_answers_by_arp_proxy_before_machines_and_routers() {
    let Some(release) = Release::newest() else {
        return;
    };
    let router = "0a:00:00:00:01:01";
    for (proxy, flag, mac) in [
        ("10.1.0.0/24", "true", router),
        ("0a:00:00:00:01:50 10.1.0.3", "true", "0a:00:00:00:01:50"),
        ("10.1.0.0/24", "false", "0a:00:00:00:01:03"),
        ("10.1.0.9", "true", "0a:00:00:00:01:03"),
    ] {
        let options = map(&[("disable_arp_nd_rsp", flag)]);
        let mut network = Network::new(json!({"v2": {"options": options}}));
        let options = map(&[("router-port", "rp1"), ("arp_proxy", proxy)]);
        // It stops requests to the router only.
        let row = json!({"direction": "to-lport", "priority": 1, "action": "drop",
            "match": "outport == \"sp1\" && arp"});
        let acl = network.rows.insert("ACL", row);
        network.columns["sp1"] = json!({"options": options});
        network.columns["s1"] = json!({"acls": references(&[acl])});
        let (answer, text) = ask(&release, &network.finish(), ("10.1.0.3", mac), WEB);
        assert_same(&answer, &text);
        assert_eq!(answer.out.as_deref(), Some("v2"), "{proxy} {answer:#?}");
        let decision = &answer.hops[0].decision;
        assert_eq!(*decision, format!("neighbour 10.1.0.3 is {mac}"));
    }
}

#[test]
fn packets_for_a_machine_that_the_switch_has_to_learn_go_to_all_unknown_ports() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (value, choices) in [("true", 1), ("false", 0)] {
        let addresses = |machine: &str| set(&[machine, "unknown"]);
        let v2 = json!({"addresses": addresses("0a:00:00:00:01:03 10.1.0.3"),
            "options": map(&[("force_fdb_lookup", value)])});
        let mut network = Network::new(json!({"v2": v2}));
        let row = json!({"addresses": addresses("0a:00:00:00:01:04 10.1.0.4")});
        network.add_port("other", row);
        let target = ("10.1.0.3", "0a:00:00:00:01:03");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_eq!(answer.out.as_deref(), Some("v2"), "{answer:#?}");
        assert_eq!(answer.open.len(), choices, "{answer:#?}");
        let outputs = TraceOutcome::read(&text).outputs;
        assert_eq!(outputs.len(), 1 + choices, "{text}");
        assert!(outputs.contains(&"v2".to_owned()), "{text}");
    }
}

/// The router has to ask for link-local addresses, because no row has them.
#[test]
fn a_router_finds_no_link_local_address_of_a_machine_that_hears_no_request() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (value, out) in [("true", Some("v2")), ("false", None)] {
        let options = map(&[("receive_multicast", value)]);
        let mut network = Network::new(json!({"v2": {"options": options}}));
        let row = json!({"ip_prefix": "20.0.0.0/16", "nexthop": "fe80::800:ff:fe00:103",
            "output_port": "rp1"});
        let route = network.rows.insert("Logical_Router_Static_Route", row);
        network.columns["lr"] = json!({"static_routes": references(&[route])});
        let target = ("20.0.0.5", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_eq!(answer.out.as_deref(), out, "{answer:#?}");
        let asked = TraceOutcome::read(&text).asked;
        assert_eq!(asked.contains(&"v2".to_owned()), out.is_some(), "{text}");
    }
}

#[test]
fn a_disabled_router_port_does_not_answer_where_the_switch_does_not() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (value, verdict) in [("true", Verdict::Unanswered), ("false", Verdict::Dropped)] {
        let mut network = Network::new(json!({"rp1": {"enabled": false}}));
        network.columns["s1"] = json!({"other_config": map(&[("vlan-passthru", value)])});
        let server = start_server(&release);
        let mut ovn = Ovn::fill(&release, &server, &network.finish());
        let northbound = Northbound::new(&read_northbound(&server), None);
        let question = Question {
            sender: Sender::port("v1"),
            destination: Destination::Address("10.1.0.1".parse().unwrap()),
            protocol: WEB.0,
        };
        assert_eq!(northbound.answer(&question).unwrap().verdict, verdict);
        let asked = ArpRequest::new("v1", "0a:00:00:00:01:02", "10.1.0.2", "10.1.0.1");
        let text = ovn.trace.trace("s1", &asked.expression).unwrap();
        let is_answered = TraceOutcome::read(&text).outputs.contains(&"v1".to_owned());
        assert_eq!(is_answered, verdict == Verdict::Dropped, "{text}");
    }
}

#[test]
fn a_machine_that_gets_routing_protocols_does_not_answer_itself() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (protocols, verdict) in [("BGP", Verdict::Unanswered), ("none", Verdict::Reaches)] {
        let redirect = [("routing-protocol-redirect", "v2"), ("routing-protocols", protocols)];
        let v2 = json!({"options": map(&[("disable_arp_nd_rsp", "true")])});
        let rows = json!({"v2": v2, "rp1": {"options": map(&redirect)}});
        let request = Network::new(rows).finish();
        assert_replies(&release, &request, verdict);
    }
}

/// The number of differences between the answer for one database and ovn-trace on another one,
/// about an IPv6 packet of `v1` for `v2`.
fn differences_of_ipv6(release: &Release, [answered, traced]: [&str; 2]) -> usize {
    let server = start_server(release);
    let _filled = Ovn::fill(release, &server, answered);
    let northbound = Northbound::new(&read_northbound(&server), None);
    let server = start_server(release);
    let mut ovn = Ovn::fill(release, &server, traced);
    let question = Question {
        sender: Sender::port("v1"),
        destination: Destination::Address("fd10::3".parse().unwrap()),
        protocol: WEB.0,
    };
    let packet = TracedPacket {
        datapath: "s1".to_owned(),
        expression: "inport == \"v1\" && eth.src == 0a:00:00:00:01:02 && \
                     eth.dst == 0a:00:00:00:01:03 && ip6.src == fd10::2 && ip6.dst == fd10::3 && \
                     ip.ttl == 64 && tcp.src == 40000 && tcp.dst == 80"
            .to_owned(),
        arp: None,
    };
    let packet = Some(packet);
    let mut tally = Tally::default();
    let asked = Asked { question, packet };
    compare(&northbound, &mut ovn.trace, &asked, &mut tally);
    assert_eq!(tally.arrived, 1);
    tally.wrong.len()
}

#[test]
fn an_ipv6_machine_is_silent_only_if_ovn_drops_its_advertisement() {
    let Some(release) = Release::newest() else {
        return;
    };
    let database = |protocols: &str, disabled: &str| {
        let redirect = [("routing-protocol-redirect", "v2"), ("routing-protocols", protocols)];
        let v2 = json!({"addresses": "0a:00:00:00:01:03 10.1.0.3 fd10::3",
            "options": map(&[("disable_arp_nd_rsp", disabled)])});
        let v1 = json!({"addresses": "0a:00:00:00:01:02 10.1.0.2 fd10::2"});
        Network::new(json!({"v1": v1, "v2": v2, "rp1": {"options": map(&redirect)}})).finish()
    };
    let silent = database("BGP", "true");
    let differences = |traced: &str| differences_of_ipv6(&release, [&silent, traced]);
    assert_eq!(differences(&silent), 0);
    // The machine answers itself, or the switch does.
    assert_eq!(differences(&database("none", "true")), 1);
    assert_eq!(differences(&database("BGP", "false")), 1);
}

/// ovn-trace compares with single addresses, and so do these elements.
#[test]
fn port_security_stops_ipv6_advertisements_of_machines_that_answer_themselves() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (security, disabled, verdict) in [
        ("0a:00:00:00:01:03 fd10::3", "true", Verdict::Reaches),
        ("0a:00:00:00:01:03", "true", Verdict::Reaches),
        ("0a:00:00:00:01:03 fd10::4", "true", Verdict::Unanswered),
        ("0a:00:00:00:01:03 10.1.0.3", "true", Verdict::Unanswered),
        ("0a:00:00:00:01:04", "true", Verdict::Unanswered),
        ("0a:00:00:00:01:03 fd10::4", "false", Verdict::Dropped),
    ] {
        let v2 = json!({"addresses": "0a:00:00:00:01:03 10.1.0.3 fd10::3",
            "options": map(&[("disable_arp_nd_rsp", disabled)]), "port_security": security});
        let v1 = json!({"addresses": "0a:00:00:00:01:02 10.1.0.2 fd10::2"});
        let server = start_server(&release);
        let request = Network::new(json!({"v1": v1, "v2": v2})).finish();
        let mut ovn = Ovn::fill(&release, &server, &request);
        let northbound = Northbound::new(&read_northbound(&server), None);
        let answer = northbound
            .answer(&Question {
                sender: Sender::port("v1"),
                destination: Destination::Address("fd10::3".parse().unwrap()),
                protocol: WEB.0,
            })
            .unwrap();
        assert_eq!(answer.verdict, verdict, "{security} {answer:#?}");
        let advertisement = "inport == \"v2\" && eth.src == 0a:00:00:00:01:03 && \
                             eth.dst == 0a:00:00:00:01:02 && ip6.src == fd10::3 && \
                             ip6.dst == fd10::2 && ip.ttl == 255 && nd_na && \
                             nd.target == fd10::3 && nd.tll == 0a:00:00:00:01:03";
        let text = ovn.trace.trace("s1", advertisement).unwrap();
        let is_stopped = TraceOutcome::read(&text).outputs.is_empty();
        assert_eq!(is_stopped, verdict != Verdict::Reaches, "{security} {text}");
    }
}

#[test]
fn a_network_function_that_gets_replies_is_not_judged() {
    let Some(release) = Release::newest() else {
        return;
    };
    let mut network = Network::new(json!({}));
    network.add_network_function("to-lport", "arp");
    let server = start_server(&release);
    let mut ovn = Ovn::fill(&release, &server, &network.finish());
    let northbound = Northbound::new(&read_northbound(&server), None);
    let question = Question {
        sender: Sender::port("v1"),
        destination: Destination::Port("v2".to_owned()),
        protocol: WEB.0,
    };
    let open = northbound.answer(&question).unwrap().open;
    let effect = "cannot be judged: network function group nfg gets the packet";
    assert!(open.len() == 1 && open[0].starts_with(effect), "{open:?}");
    let asked = ArpRequest::new("v1", "0a:00:00:00:01:02", "10.1.0.2", "10.1.0.3");
    let text = ovn.trace.trace("s1", &asked.expression).unwrap();
    let outputs = TraceOutcome::read(&text).outputs;
    assert!(!outputs.contains(&"v1".to_owned()), "{text}");
}
