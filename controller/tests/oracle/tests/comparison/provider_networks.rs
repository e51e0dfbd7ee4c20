//! Networks with a VLAN and no router of OVN, as provider networks of Neutron are: the gateway is a machine
//! outside.

use patchbay_oracle::{
    ArpRequest, Ovn, Rows, TraceOutcome, map, read_northbound, references, start_server,
};
use patchbay_ovn_programs::testing::Release;
use patchbay_reach::{Destination, Northbound, Question, Sender, Verdict};
use serde_json::{Value, json};

use super::features::WEB;

/// The switch `net` with the machines `v1` and `v2` and the port `ln` to the VLAN. `options`: DHCP
/// options of `v1` beside the required ones; `acl`: the match of an ACL that drops what goes to
/// machines.
fn provider_network(options: Option<&[(&str, &str)]>, v2: &Value, acl: &str) -> String {
    let mut rows = Rows::default();
    let mut first = json!({"name": "v1", "addresses": "0a:00:00:00:01:02 10.1.0.2"});
    if let Some(options) = options {
        let mut all = vec![
            ("server_id", "10.1.0.1"),
            ("server_mac", "0a:00:00:00:01:fe"),
            ("lease_time", "3600"),
        ];
        all.extend(options);
        let row = json!({"cidr": "10.1.0.0/24", "options": map(&all)});
        first["dhcpv4_options"] = json!(["named-uuid", rows.insert("DHCP_Options", row)]);
    }
    let mut second = json!({"name": "v2", "addresses": "0a:00:00:00:01:03 10.1.0.3"});
    for (column, value) in v2.as_object().into_iter().flatten() {
        second[column] = value.clone();
    }
    let row = json!({"name": "ln", "type": "localnet", "addresses": "unknown", "tag": 7,
        "options": map(&[("network_name", "physnet1")])});
    let ports = [first, second, row].map(|row| rows.insert("Logical_Switch_Port", row));
    let row = json!({"direction": "to-lport", "priority": 1, "action": "drop", "match": acl});
    let acls = references(&[rows.insert("ACL", row)]);
    let row = json!({"name": "net", "ports": references(&ports), "acls": acls});
    rows.insert("Logical_Switch", row);
    rows.request()
}

#[test]
fn a_machine_outside_is_the_gateway_where_no_router_is_on_the_switch() {
    let Some(release) = Release::newest() else {
        return;
    };
    let router = ("router", "10.1.0.1");
    let itself = ("classless_static_route", "{9.0.0.0/8,10.1.0.3}");
    for (options, to, resolved, verdict) in [
        // Nothing names the network: the address is that of a neighbour, or a router has it.
        (None, "10.1.0.77", "10.1.0.77", Verdict::Leaves),
        (None, "8.8.8.8", "8.8.8.8", Verdict::Leaves),
        (None, "10.1.0.3", "10.1.0.3", Verdict::Reaches),
        (Some(&[router][..]), "8.8.8.8", "10.1.0.1", Verdict::Leaves),
        (Some(&[router]), "10.1.0.77", "10.1.0.77", Verdict::Leaves),
        (Some(&[router]), "10.1.0.3", "10.1.0.3", Verdict::Reaches),
        (Some(&[router, itself]), "9.9.9.9", "10.1.0.3", Verdict::Reaches),
        (Some(&[]), "10.1.0.77", "10.1.0.77", Verdict::Leaves),
        (Some(&[]), "8.8.8.8", "", Verdict::Unanswered),
    ] {
        let server = start_server(&release);
        let request = provider_network(options, &json!({}), "0");
        let mut ovn = Ovn::fill(&release, &server, &request);
        let northbound = Northbound::new(&read_northbound(&server), None);
        let answer = northbound
            .answer(&Question {
                sender: Sender::port("v1"),
                destination: Destination::Address(to.parse().unwrap()),
                protocol: WEB.0,
            })
            .unwrap();
        assert_eq!(answer.verdict, verdict, "{options:?} {to} {answer:#?}");
        assert!(answer.open.is_empty(), "{answer:#?}");
        if resolved.is_empty() {
            continue;
        }
        let request = ArpRequest::new("v1", "0a:00:00:00:01:02", "10.1.0.2", resolved);
        let mut outputs = |packet: &str| {
            let text = ovn.trace.trace("net", packet).unwrap();
            TraceOutcome::read(&text).outputs
        };
        let out = outputs(&request.expression);
        // The switch answers for its machines.
        let (mac, expected) = if out.contains(&"v1".to_owned()) {
            ("0a:00:00:00:01:03", "v2")
        } else {
            // The request gets to all ports.
            assert!(out.contains(&"ln".to_owned()), "{options:?} {to}");
            ("0a:ff:00:00:00:77", "ln")
        };
        let packet = format!(
            "inport == \"v1\" && eth.src == 0a:00:00:00:01:02 && eth.dst == {mac} && \
             ip4.src == 10.1.0.2 && ip4.dst == {to} && ip.ttl == 64 && {}",
            WEB.1
        );
        assert_eq!(outputs(&packet), [expected], "{options:?} {to}");
        assert_eq!(answer.out.as_deref(), Some(expected), "{answer:#?}");
    }
}

/// Switches do not answer requests that come in by a `localnet` port.
#[test]
fn machines_answer_the_requests_of_machines_outside_themselves() {
    let Some(release) = Release::newest() else {
        return;
    };
    let security = json!({"port_security": "0a:00:00:00:01:03 10.1.0.4"});
    for (v2, acl, verdict) in [
        (json!({}), "0", Verdict::Reaches),
        (json!({"enabled": false}), "0", Verdict::Unanswered),
        (json!({}), "outport == \"v2\" && arp", Verdict::Unanswered),
        (json!({}), "outport == \"ln\" && arp", Verdict::Unanswered),
        (json!({}), "outport == \"v2\" && ip4", Verdict::Dropped),
        (security, "0", Verdict::Unanswered),
    ] {
        let server = start_server(&release);
        let mut ovn = Ovn::fill(&release, &server, &provider_network(None, &v2, acl));
        let northbound = Northbound::new(&read_northbound(&server), None);
        let answer = northbound
            .answer(&Question {
                sender: Sender {
                    ip: "10.1.0.77".parse().ok(),
                    mac: Some("0a:ff:00:00:00:77".to_owned()),
                    ..Sender::port("ln")
                },
                destination: Destination::Address("10.1.0.3".parse().unwrap()),
                protocol: WEB.0,
            })
            .unwrap();
        assert_eq!(answer.verdict, verdict, "{v2} {acl} {answer:#?}");
        let mut outputs = |packet: &str| {
            let text = ovn.trace.trace("net", packet).unwrap();
            TraceOutcome::read(&text).outputs
        };
        let request = ArpRequest::new("ln", "0a:ff:00:00:00:77", "10.1.0.77", "10.1.0.3");
        let asked = outputs(&request.expression);
        assert!(!asked.contains(&"ln".to_owned()), "{asked:?}");
        let reply = "inport == \"v2\" && eth.src == 0a:00:00:00:01:03 && \
                     eth.dst == 0a:ff:00:00:00:77 && arp.op == 2 && \
                     arp.sha == 0a:00:00:00:01:03 && arp.spa == 10.1.0.3 && \
                     arp.tha == 0a:ff:00:00:00:77 && arp.tpa == 10.1.0.77";
        let is_answered =
            asked.contains(&"v2".to_owned()) && outputs(reply).contains(&"ln".to_owned());
        assert_eq!(is_answered, verdict != Verdict::Unanswered, "{v2} {acl}");
    }
}
