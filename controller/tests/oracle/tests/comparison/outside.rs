//! Machines outside, behind `localnet` ports, each in a small database.

use patchbay_oracle::{
    ArpRequest, Ovn, TraceOutcome, map, read_northbound, references, start_server,
};
use patchbay_ovn_programs::testing::Release;
use patchbay_reach::{Destination, Northbound, Question, Sender, Verdict};
use serde_json::{Value, json};

use super::features::{Network, WEB, ask, assert_same};

/// ARP reply of a machine outside to `v1`.
const REPLY: &str = "inport == \"ln\" && eth.src == 0a:00:00:00:01:77 && \
                     eth.dst == 0a:00:00:00:01:02 && arp.op == 2 && \
                     arp.sha == 0a:00:00:00:01:77 && arp.spa == 10.1.0.77 && \
                     arp.tha == 0a:00:00:00:01:02 && arp.tpa == 10.1.0.2";

/// Row of the port to the network outside.
fn localnet() -> Value {
    json!({"name": "ln", "type": "localnet", "addresses": "unknown",
        "options": map(&[("network_name", "phys")])})
}

/// A machine outside may have the address.
#[test]
fn a_router_does_not_know_the_address_of_a_disabled_port() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (is_enabled, out) in [(true, "v3"), (false, "ln")] {
        let mut network = Network::new(json!({"v3": {"enabled": is_enabled}}));
        let port = network.rows.insert("Logical_Switch_Port", localnet());
        network.others.push(port);
        let target = ("10.2.0.2", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_same(&answer, &text);
        assert_eq!(answer.out.as_deref(), Some(out), "{answer:#?}");
        assert_eq!(text.contains("arp {"), !is_enabled, "{text}");
    }
}

#[test]
fn a_sender_gets_no_answer_from_outside_if_acls_stop_arp() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (direction, text, verdict) in [
        ("to-lport", "outport == \"ln\"", Verdict::Unanswered),
        ("from-lport", "inport == \"ln\"", Verdict::Unanswered),
        ("to-lport", "outport == \"ln\" && ip4", Verdict::Dropped),
        ("from-lport", "inport == \"ln\" && ip4", Verdict::Leaves),
    ] {
        let mut network = Network::new(json!({}));
        network.add_port("ln", localnet());
        let row = json!({"direction": direction, "priority": 1, "action": "drop", "match": text});
        let acl = network.rows.insert("ACL", row);
        network.columns["s1"] = json!({"acls": references(&[acl])});
        let server = start_server(&release);
        let mut ovn = Ovn::fill(&release, &server, &network.finish());
        let northbound = Northbound::new(&read_northbound(&server), None);
        let answer = northbound.answer(&Question {
            sender: Sender::port("v1"),
            destination: Destination::Address("10.1.0.77".parse().unwrap()),
            protocol: WEB.0,
        });
        assert_eq!(answer.unwrap().verdict, verdict, "{text}");
        let request = ArpRequest::new("v1", "0a:00:00:00:01:02", "10.1.0.2", "10.1.0.77");
        let mut outputs = |packet: &str| {
            let text = ovn.trace.trace("s1", packet).unwrap();
            TraceOutcome::read(&text).outputs
        };
        let is_answered = outputs(&request.expression).contains(&"ln".to_owned())
            && outputs(REPLY).contains(&"v1".to_owned());
        assert_eq!(is_answered, verdict != Verdict::Unanswered, "{text}");
    }
}

/// Requests for the address go outside, where nobody has an address of the database.
#[test]
fn nobody_outside_has_the_address_of_a_port_that_does_not_answer() {
    let Some(release) = Release::newest() else {
        return;
    };
    let deaf = json!({"options": map(&[
        ("disable_arp_nd_rsp", "true"), ("receive_multicast", "false")])});
    let transparent = json!({"other_config": map(&[("vlan-passthru", "true")])});
    let disabled = json!({"enabled": false});
    for (columns, address, verdict) in [
        (json!({"v2": deaf}), "10.1.0.3", Verdict::Unanswered),
        (json!({"v2": deaf}), "10.1.0.4", Verdict::Leaves),
        (json!({"s1": transparent, "rp1": disabled}), "10.1.0.1", Verdict::Unanswered),
        (json!({"s1": transparent, "rp1": disabled}), "10.2.0.2", Verdict::Unanswered),
    ] {
        let mut network = Network::new(columns.clone());
        network.add_port("ln", localnet());
        let server = start_server(&release);
        let mut ovn = Ovn::fill(&release, &server, &network.finish());
        let northbound = Northbound::new(&read_northbound(&server), None);
        let answer = northbound.answer(&Question {
            sender: Sender::port("v1"),
            destination: Destination::Address(address.parse().unwrap()),
            protocol: WEB.0,
        });
        assert_eq!(answer.unwrap().verdict, verdict, "{columns} {address}");
        let target = if address == "10.2.0.2" { "10.1.0.1" } else { address };
        let request = ArpRequest::new("v1", "0a:00:00:00:01:02", "10.1.0.2", target);
        let text = ovn.trace.trace("s1", &request.expression).unwrap();
        let outputs = TraceOutcome::read(&text).outputs;
        assert!(outputs.contains(&"ln".to_owned()), "{text}");
        assert!(!outputs.contains(&"v1".to_owned()), "{text}");
    }
}
