//! Switches that ports of type `switch` link, in a small database.

use patchbay_oracle::{
    ArpRequest, Asked, LearnedNeighbor, Ovn, TraceOutcome, TracedPacket, map, read_northbound,
    references, start_server,
};
use patchbay_ovn_programs::testing::Release;
use patchbay_reach::{Destination, Northbound, Question, Sender, Verdict};
use serde_json::{Value, json};

use super::features::{Network, WEB, ask, ask_both};

/// The network with the switch `s3` of the machine `v4` behind `s1`. `peer`: that of the port on
/// `s3`; `options`: those of `v4`; `acl`: direction and match of an ACL of both switches that
/// drops.
fn network(peer: &str, options: &Value, acl: (&str, &str)) -> Network {
    let mut network = Network::new(json!({}));
    let (direction, text) = acl;
    let row = json!({"direction": direction, "priority": 1, "match": text, "action": "drop"});
    let acls = references(&[network.rows.insert("ACL", row)]);
    network.columns["s1"] = json!({"acls": acls});
    network.add_port("a", json!({"type": "switch", "peer": "b"}));
    let ports = [
        json!({"name": "b", "type": "switch", "peer": peer}),
        json!({"name": "v4", "addresses": "0a:00:00:00:01:04 10.1.0.4", "options": options}),
    ]
    .map(|row| network.rows.insert("Logical_Switch_Port", row));
    let row = json!({"name": "s3", "ports": references(&ports), "acls": acls});
    network.rows.insert("Logical_Switch", row);
    network
}

#[test]
fn machines_on_linked_switches_are_neighbours() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (peer, is_linked) in [("a", true), ("other", false)] {
        let server = start_server(&release);
        drop(Ovn::fill(
            &release,
            &server,
            &network(peer, &map::<&str, &str>(&[]), ("from-lport", "0")).finish(),
        ));
        let learned = LearnedNeighbor {
            router_port: "rp1".to_owned(),
            address: "10.1.0.4".to_owned(),
            mac: "0a:00:00:00:01:04".to_owned(),
        };
        let mut ovn = Ovn::start(&release, &server, &[learned]);
        let northbound = Northbound::new(&read_northbound(&server), None);
        for (switch, port, own, mac, address, out) in [
            ("s1", "v1", "01:02 10.1.0.2", "01:04", "10.1.0.4", "v4"),
            ("s3", "v4", "01:04 10.1.0.4", "01:03", "10.1.0.3", "v2"),
            ("s3", "v4", "01:04 10.1.0.4", "01:01", "10.2.0.2", "v3"),
            ("s2", "v3", "02:02 10.2.0.2", "02:01", "10.1.0.4", "v4"),
        ] {
            let (own_mac, source) = own.split_once(' ').unwrap();
            let packet = format!(
                "inport == \"{port}\" && eth.src == 0a:00:00:00:{own_mac} && \
                 eth.dst == 0a:00:00:00:{mac} && ip4.src == {source} && ip4.dst == {address} && \
                 ip.ttl == 64 && {}",
                WEB.1
            );
            let text = ovn.trace.trace(switch, &packet).unwrap();
            let outputs = TraceOutcome::read(&text).outputs;
            // A port without a peer loses the packet.
            assert_eq!(outputs == [out], is_linked, "{packet}\n{text}");
            let answer = northbound
                .answer(&Question {
                    sender: Sender::port(port),
                    destination: Destination::Address(address.parse().unwrap()),
                    protocol: WEB.0,
                })
                .unwrap();
            let expected = is_linked.then_some(out);
            assert_eq!(answer.out.as_deref(), expected, "{answer:#?}");
            let is_reached = answer.verdict == Verdict::Reaches;
            assert_eq!(is_reached, is_linked, "{answer:#?}");
        }
    }
}

#[test]
fn acls_of_linked_switches_stop_requests_and_replies() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (direction, text, is_answered_for, is_answered_itself) in [
        ("from-lport", "inport == \"b\" && ip4", true, true),
        ("from-lport", "inport == \"b\" && arp", false, false),
        ("from-lport", "inport == \"a\" && arp.op == 2", false, false),
        ("from-lport", "inport == \"v4\" && arp", true, false),
        ("to-lport", "outport == \"a\" && arp", false, false),
        ("to-lport", "outport == \"b\" && arp.op == 2", false, false),
        ("to-lport", "outport == \"v4\" && arp", true, false),
        ("to-lport", "outport == \"v1\" && arp", false, false),
    ] {
        for (value, is_answered) in [("false", is_answered_for), ("true", is_answered_itself)] {
            let arp = ArpRequest::new("v1", "0a:00:00:00:01:02", "10.1.0.2", "10.1.0.4");
            let expression = format!(
                "inport == \"v1\" && eth.src == 0a:00:00:00:01:02 && \
                 eth.dst == 0a:00:00:00:01:04 && ip4.src == 10.1.0.2 && ip4.dst == 10.1.0.4 && \
                 ip.ttl == 64 && {}",
                WEB.1
            );
            let asked = Asked {
                question: Question {
                    sender: Sender::port("v1"),
                    destination: Destination::Port("v4".to_owned()),
                    protocol: WEB.0,
                },
                packet: Some(TracedPacket {
                    datapath: "s1".to_owned(),
                    expression,
                    arp: Some(arp.owned_by(["s3", "v4", "0a:00:00:00:01:04"])),
                }),
            };
            let options = map(&[("disable_arp_nd_rsp", value)]);
            let request = network("a", &options, (direction, text)).finish();
            let answer = ask_both(&release, &request, &asked);
            let is_unanswered = answer.verdict == Verdict::Unanswered;
            assert_eq!(is_unanswered, !is_answered, "{direction} {text} {answer:#?}");
        }
    }
}

#[test]
fn acls_of_linked_switches_stop_requests_of_routers_and_replies() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (direction, text, is_answered_for, is_answered_itself) in [
        ("from-lport", "inport == \"b\" && ip4", false, false),
        ("from-lport", "inport == \"b\" && arp", false, false),
        ("from-lport", "inport == \"sp1\" && arp", false, false),
        ("from-lport", "inport == \"a\" && arp.tpa == 10.1.0.1", false, false),
        ("from-lport", "inport == \"v4\" && arp", true, false),
        ("to-lport", "outport == \"sp1\" && arp", false, false),
        ("to-lport", "outport == \"v4\" && arp", true, false),
        ("to-lport", "outport == \"v1\" && arp", true, true),
    ] {
        for (value, is_answered) in [("false", is_answered_for), ("true", is_answered_itself)] {
            let expression = format!(
                "inport == \"v3\" && eth.src == 0a:00:00:00:02:02 && \
                 eth.dst == 0a:00:00:00:02:01 && ip4.src == 10.2.0.2 && ip4.dst == 10.1.0.4 && \
                 ip.ttl == 64 && {}",
                WEB.1
            );
            let asked = Asked {
                question: Question {
                    sender: Sender::port("v3"),
                    destination: Destination::Port("v4".to_owned()),
                    protocol: WEB.0,
                },
                packet: Some(TracedPacket { datapath: "s2".to_owned(), expression, arp: None }),
            };
            let options = map(&[("disable_arp_nd_rsp", value)]);
            let request = network("a", &options, (direction, text)).finish();
            let answer = ask_both(&release, &request, &asked);
            let is_reached = answer.verdict == Verdict::Reaches;
            assert_eq!(is_reached, is_answered, "{direction} {text} {answer:#?}");
        }
    }
}

/// The switch floods packets for MAC addresses that none of its ports has.
#[test]
fn the_machine_of_a_linked_switch_gets_what_a_localnet_port_gets_as_well() {
    let Some(release) = Release::newest() else {
        return;
    };
    let mut network = network("a", &map::<&str, &str>(&[]), ("from-lport", "0"));
    network.add_port("ln", json!({"type": "localnet", "addresses": "unknown"}));
    let target = ("10.1.0.4", "0a:00:00:00:01:04");
    let (answer, text) = ask(&release, &network.finish(), target, WEB);
    let mut outputs = TraceOutcome::read(&text).outputs;
    outputs.sort_unstable();
    assert_eq!(outputs, ["ln", "v4"], "{text}");
    assert_eq!(answer.out.as_deref(), Some("v4"), "{answer:#?}");
}
