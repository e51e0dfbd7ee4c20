//! Machines that answer ARP requests themselves, or do not.

use ovsdb_sim::testing::Release;
use patchbay_comparison::{
    ArpRequest, Ovn, TraceOutcome, map, read_northbound, references, start_server,
};
use patchbay_reach::{Destination, Northbound, Question, Sender, Verdict};
use serde_json::json;

use super::features::{Network, WEB, ask};

/// Asserts the verdict of packets of `v1` for `v2`. Returns the ports at which ovn-trace delivers the
/// ARP request before them.
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
        network
            .rows
            .insert("NB_Global", json!({"options": options}));
        let row = json!({"direction": "from-lport", "priority": 1, "action": "drop",
            "match": "inport == \"v2\" && arp"});
        let acl = network.rows.insert("ACL", row);
        network.columns = json!({"s1": {"acls": references(&[acl])}});
        let outputs = outputs_of_request(&release, &network.finish(), verdict);
        let is_answered = outputs == ["v1"];
        assert_eq!(is_answered, verdict == Verdict::Reaches, "{outputs:?}");
    }
}
