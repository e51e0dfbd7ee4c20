//! Health checks, whose source addresses a switch answers for.

use patchbay_oracle::{ArpRequest, Asked, TracedPacket, map, references};
use patchbay_ovn_programs::testing::Release;
use patchbay_reach::{Answer, Destination, Protocol, Question, Sender, Verdict};
use serde_json::{Value, json};

use super::features::{Network, WEB, ask_both};

/// MAC address from which the checks come.
const MONITOR_MAC: &str = "0a:00:00:00:00:fe";
/// Echo request.
const PING: (Protocol, &str) = (Protocol::Icmp, "icmp4.type == 8 && icmp4.code == 0");
/// UDP packet.
const QUERY: (Protocol, &str) = (Protocol::Udp(80), "udp.dst == 80");

/// The network with checks of `v2`.
fn network() -> Network {
    let mut network = Network::new(json!({}));
    let options = map(&[("svc_monitor_mac", MONITOR_MAC)]);
    network.rows.insert("NB_Global", json!({"options": options}));
    network
}

/// Adds a load balancer that nobody has with a check of `v2` from a source.
fn check_backend(network: &mut Network, source: &str, columns: &Value) {
    let row = json!({"vip": "10.9.0.1:80"});
    let check = network.rows.insert("Load_Balancer_Health_Check", row);
    let mut row = json!({"name": "lb", "vips": map(&[("10.9.0.1:80", "10.1.0.3:8080")]),
        "ip_port_mappings": map(&[("10.1.0.3", format!("v2:{source}"))]),
        "health_check": references(&[check])});
    for (column, value) in columns.as_object().into_iter().flatten() {
        row[column] = value.clone();
    }
    network.rows.insert("Load_Balancer", row);
}

/// Adds an ACL of `s1` that drops.
fn drop_packets(network: &mut Network, direction: &str, text: &str) {
    let row = json!({"direction": direction, "priority": 1, "match": text, "action": "drop"});
    let acl = network.rows.insert("ACL", row);
    network.columns["s1"] = json!({"acls": references(&[acl])});
}

/// The answer for a packet of `v1`, which that of ovn-trace has to be.
fn ask(
    release: &Release,
    network: Network,
    [target, address]: [&str; 2],
    (protocol, header): (Protocol, &str),
) -> Answer {
    let expression = format!(
        "inport == \"v1\" && eth.src == 0a:00:00:00:01:02 && eth.dst == {MONITOR_MAC} && \
         ip4.src == 10.1.0.2 && ip4.dst == {address} && ip.ttl == 64 && {header}"
    );
    let arp = ArpRequest::new("v1", "0a:00:00:00:01:02", "10.1.0.2", target);
    let asked = Asked {
        question: Question {
            sender: Sender::port("v1"),
            destination: Destination::Address(address.parse().unwrap()),
            protocol,
        },
        packet: Some(TracedPacket { datapath: "s1".to_owned(), expression, arp: Some(arp) }),
    };
    let answer = ask_both(release, &network.finish(), &asked);
    assert_eq!(answer.open, [""; 0]);
    answer
}

#[test]
fn ovn_takes_what_is_sent_to_the_source_of_a_check() {
    let Some(release) = Release::newest() else {
        return;
    };
    for header in [WEB, PING, QUERY] {
        let mut network = network();
        network.add_port("ln", json!({"type": "localnet", "addresses": "unknown"}));
        check_backend(&mut network, "10.1.0.100", &json!({}));
        let answer = ask(&release, network, ["10.1.0.100"; 2], header);
        let is_flooded = header.0 == QUERY.0;
        assert_eq!(answer.out.as_deref() == Some("ln"), is_flooded, "{answer:#?}");
        let is_dropped = answer.verdict == Verdict::Dropped;
        assert_eq!(is_dropped, !is_flooded, "{answer:#?}");
    }
}

#[test]
fn a_check_of_a_port_has_a_source_as_well() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (address, is_own) in [("10.1.0.3", true), ("10.1.0.4", false)] {
        let mut network = network();
        let row = json!({"protocol": "icmp", "address": address, "src_ip": "10.1.0.100"});
        let check = network.rows.insert("Logical_Switch_Port_Health_Check", row);
        network.columns["v4"] = json!({"health_checks": references(&[check])});
        network.add_port("v4", json!({"addresses": "0a:00:00:00:01:04 10.1.0.3"}));
        let answer = ask(&release, network, ["10.1.0.100"; 2], WEB);
        let is_unanswered = answer.verdict == Verdict::Unanswered;
        assert_eq!(is_unanswered, !is_own, "{answer:#?}");
    }
}

#[test]
fn only_checks_that_ovn_sends_have_a_source() {
    let Some(release) = Release::newest() else {
        return;
    };
    let template = json!({"options": map(&[("template", "true")])});
    for (source, columns, is_sent) in [
        ("10.1.0.100:zone", json!({}), true),
        ("10.1.0.100:", json!({}), false),
        ("10.1.0.100", json!({"protocol": "udp"}), true),
        ("10.1.0.100", json!({"protocol": "sctp"}), false),
        ("10.1.0.100", template, false),
        ("10.1.0.100", json!({"vips": map(&[("10.9.0.1:81", "10.1.0.3:80")])}), false),
        ("10.1.0.100", json!({"vips": map(&[("10.9.0.1:80", "10.1.0.4:80")])}), false),
    ] {
        let mut network = network();
        check_backend(&mut network, source, &columns);
        let answer = ask(&release, network, ["10.1.0.100"; 2], WEB);
        let is_unanswered = answer.verdict == Verdict::Unanswered;
        assert_eq!(is_unanswered, !is_sent, "{source} {columns} {answer:#?}");
    }
}

/// The switch answers for the source before it answers for a machine or the router.
#[test]
fn a_check_from_the_gateways_address_takes_the_packets_for_the_gateway() {
    let Some(release) = Release::newest() else {
        return;
    };
    for address in ["10.2.0.2", "10.1.0.1"] {
        let mut network = network();
        check_backend(&mut network, "10.1.0.1", &json!({}));
        let answer = ask(&release, network, ["10.1.0.1", address], WEB);
        assert_eq!(answer.verdict, Verdict::Dropped, "{answer:#?}");
    }
}

#[test]
fn acls_stop_requests_for_the_source_but_not_the_replies() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (direction, text, is_stopped) in
        [("from-lport", "arp", true), ("to-lport", "arp", false), ("from-lport", "ip4", false)]
    {
        let mut network = network();
        drop_packets(&mut network, direction, text);
        check_backend(&mut network, "10.1.0.100", &json!({}));
        let answer = ask(&release, network, ["10.1.0.100"; 2], WEB);
        let is_unanswered = answer.verdict == Verdict::Unanswered;
        assert_eq!(is_unanswered, is_stopped, "{direction} {text} {answer:#?}");
        assert_eq!(answer.at.contains("ACL"), is_stopped, "{answer:#?}");
    }
}
