//! Packets that go on in the databases of other zones, and their replies.

use patchbay_reach::{
    Course, Destination, Northbound, Outcome, Protocol, Question, Sender, Verdict, Zones,
};
use serde_json::{Value, json};

use crate::support::northbound;

/// ACL with a direction, match and action.
type Acl<'a> = (&'a str, &'a str, &'a str);

/// Database of a zone: switch `net` with the machines `a` of zone `n1` and `b` of zone `n2`, and
/// ACLs. `key`: key of the switch in tunnels.
fn zone(name: &str, key: &str, acls: &[Acl<'_>]) -> Northbound {
    let mut request = vec![json!("OVN_Northbound")];
    let mut insert = |table: &str, name: &str, row: Value| {
        request.push(json!({"op": "insert", "table": table, "uuid-name": name, "row": row}));
        json!(["named-uuid", name])
    };
    let ports = [("a", "n1", 1), ("b", "n2", 2)].map(|(port, own, number)| {
        let kind = if own == name { "" } else { "remote" };
        let row = json!({"name": port, "type": kind,
            "addresses": format!("0a:00:00:00:00:0{number} 10.0.0.{number}"),
            "options": ["map", [["requested-chassis", format!("chassis-{own}")]]],
            "external_ids": ["map", [["node", own]]]});
        insert("Logical_Switch_Port", port, row)
    });
    let acls: Vec<_> = acls
        .iter()
        .zip(1..)
        .map(|((direction, text, action), number)| {
            let row = json!({"direction": direction, "match": text, "action": action,
            "priority": 1000 - number});
            insert("ACL", &format!("acl{number}"), row)
        })
        .collect();
    let row = json!({"name": "net", "ports": ["set", ports], "acls": ["set", acls],
        "other_config": ["map", [["subnet", "10.0.0.0/24"], ["requested-tnl-key", key]]]});
    insert("Logical_Switch", "net", row);
    northbound(&Value::Array(request).to_string())
}

/// Both zones, with ACLs in that of the receiver and in that of the sender.
fn zones(of_sender: &[Acl<'_>], of_receiver: &[Acl<'_>]) -> Zones {
    let mut zones = Zones::new("n1", zone("n1", "7", of_sender));
    zones.add("n2", zone("n2", "7", of_receiver)).unwrap();
    zones
}

fn ask(zones: &Zones, from: &str, to: &str) -> Course {
    let question = Question {
        sender: Sender::port(from),
        destination: Destination::Port(to.to_owned()),
        protocol: Protocol::Tcp(80),
    };
    zones.ask(&question).unwrap()
}

#[test]
fn a_packet_goes_on_in_the_zone_behind_the_tunnel_and_the_reply_comes_back() {
    let course = ask(&zones(&[], &[]), "a", "b");
    assert_eq!(course.outcome, Outcome::Reaches, "{course:?}");
    assert_eq!(course.answer.verdict, Verdict::Reaches);
    let end = course.end.as_ref().unwrap();
    assert_eq!((end.zone.as_str(), end.answer.out.as_deref()), ("n2", Some("b")));
    let reply = course.reply.as_ref().unwrap();
    assert_eq!((reply.zone.as_str(), reply.answer.out.as_deref()), ("n1", Some("a")));
    assert_eq!(course.zones.asked, ["n1", "n2"]);
    assert!(course.zones.not_asked.is_empty());
    assert_eq!(ask(&zones(&[], &[]), "b", "a").outcome, Outcome::Reaches);
}

#[test]
fn the_first_answer_stays_that_of_the_zone_of_the_sender() {
    let course = ask(&zones(&[], &[("to-lport", "tcp", "drop")]), "a", "b");
    assert_eq!(course.outcome, Outcome::Stopped);
    let value = serde_json::to_value(&course).unwrap();
    assert_eq!(value["verdict"], "reaches");
    assert_eq!(value["out"], "b");
    assert_eq!(value["end"]["verdict"], "dropped");
    assert_eq!(value["end"]["zone"], "n2");
    assert_eq!(value["zones"], json!({"asked": ["n1", "n2"], "not_asked": []}));
    assert_eq!(value["reply"], Value::Null);
    assert_eq!(value["isolated"], false);
}

#[test]
fn a_zone_without_a_database_is_not_asked() {
    let zones = Zones::new("n1", zone("n1", "7", &[]));
    let course = ask(&zones, "a", "b");
    let (zone, other) = ("n1".to_owned(), "n2".to_owned());
    assert_eq!(course.outcome, Outcome::Unasked { zone, other });
    assert_eq!(course.zones.not_asked, ["n2"]);
    assert!(course.end.is_none() && course.reply.is_none());
}

#[test]
fn zones_with_different_tunnel_keys_lose_the_packet() {
    let mut zones = Zones::new("n1", zone("n1", "7", &[]));
    zones.add("n2", zone("n2", "8", &[])).unwrap();
    let course = ask(&zones, "a", "b");
    assert_eq!(course.outcome, Outcome::Stopped);
    let at = &course.last().at;
    assert_eq!(at, "the tunnel keys of b differ from those of zone n2");
}

#[test]
fn a_zone_gets_no_packets_for_another_chassis() {
    for (chassis, outcome) in [("chassis-n2", Outcome::Reaches), ("chassis-n3", Outcome::Stopped)] {
        let mut zones = zones(&[], &[]);
        zones.set_chassis("n2", chassis);
        let course = ask(&zones, "a", "b");
        assert_eq!(course.outcome, outcome, "{course:?}");
    }
}

#[test]
fn a_second_database_of_a_zone_is_refused() {
    let mut zones = Zones::new("n1", zone("n1", "7", &[]));
    let error = zones.add("n1", zone("n1", "7", &[])).unwrap_err();
    assert_eq!(error.to_string(), "zone n1 has two databases");
}

/// Replies pass ACLs where the switch knows the connection, and only there.
#[test]
fn acls_judge_replies_by_what_switches_know() {
    let shut: Acl<'_> = ("to-lport", "outport == \"a\" && ip4", "drop");
    let begin: Acl<'_> = ("from-lport", "inport == \"a\" && ip4", "allow-related");
    let stateless: Acl<'_> = ("from-lport", "inport == \"a\" && ip4", "allow-stateless");
    let related: Acl<'_> = ("to-lport", "icmp4", "allow-related");
    for (acls, outcome) in [
        // No ACL makes the switch track.
        (vec![shut], Outcome::NoReply),
        (vec![begin, shut], Outcome::Reaches),
        // The switch tracks the reply, and has not tracked the request.
        (vec![stateless, related], Outcome::NoReply),
        (vec![("from-lport", "ip4", "drop")], Outcome::Stopped),
    ] {
        let course = ask(&zones(&acls, &[]), "a", "b");
        assert_eq!(course.outcome, outcome, "{acls:?} {course:?}");
    }
    // The receiver's switch lets the replies of connections out that it has let in.
    let out: Acl<'_> = ("from-lport", "inport == \"b\" && ip4", "drop");
    let inward: Acl<'_> = ("to-lport", "outport == \"b\" && ip4", "allow-related");
    assert_eq!(ask(&zones(&[], &[out]), "a", "b").outcome, Outcome::NoReply);
    assert_eq!(ask(&zones(&[], &[out, inward]), "a", "b").outcome, Outcome::Reaches);
}

/// One switch with the pod `s/p`, which has the ports of several networks, and `s/q` in some.
fn pod_networks(of_other: &[&str]) -> Zones {
    let mut request = vec![json!("OVN_Northbound")];
    let mut insert = |table: &str, name: &str, row: Value| {
        request.push(json!({"op": "insert", "table": table, "uuid-name": name, "row": row}));
        json!(["named-uuid", name])
    };
    for (network, number) in [("", 1), ("main", 2), ("extra", 3), ("more", 4)] {
        let prefix = if network.is_empty() { String::new() } else { format!("{network}_") };
        let pods = [("p", 1), ("q", 2)]
            .iter()
            .filter(|(pod, _)| *pod == "p" || of_other.contains(&network));
        let ports: Vec<_> = pods
            .map(|(pod, host)| {
                let row = json!({"name": format!("{prefix}s_{pod}"),
                "addresses": format!("0a:00:00:00:0{number}:0{host} 10.{number}.0.{host}"),
                "external_ids": ["map", [["pod", "true"], ["namespace", "s"]]]});
                insert("Logical_Switch_Port", &format!("{network}{pod}"), row)
            })
            .collect();
        let mut ids = vec![];
        if !network.is_empty() {
            let role = if network == "main" { "primary" } else { "secondary" };
            ids = vec![json!(["k8s.ovn.org/network", network]), json!(["k8s.ovn.org/role", role])];
        }
        let subnet = format!("10.{number}.0.0/24");
        let row = json!({"name": format!("switch{number}"), "ports": ["set", ports],
            "external_ids": ["map", ids], "other_config": ["map", [["subnet", subnet]]]});
        insert("Logical_Switch", &format!("switch{number}"), row);
    }
    Zones::new("n1", northbound(&Value::Array(request).to_string()))
}

#[test]
fn a_pod_sends_from_the_primary_network_or_the_one_that_both_have() {
    for (of_other, expected) in [
        (&["", "main", "extra"][..], "main_s_q"),
        (&["", "extra"][..], "extra_s_q"),
        (&["more"][..], "more_s_q"),
    ] {
        let zones = pod_networks(of_other);
        for (from, to) in [("s/p", "s/q"), ("s/q", "s/p")] {
            let question = Question {
                sender: Sender::pod(from),
                destination: Destination::Pod(to.to_owned()),
                protocol: Protocol::Icmp,
            };
            let course = zones.ask(&question).unwrap();
            let expected = expected.replace("s_q", &to.replace('/', "_"));
            assert_eq!(course.outcome, Outcome::Reaches, "{of_other:?} {from} {course:?}");
            assert_eq!(course.answer.out, Some(expected), "{of_other:?} {from}");
        }
    }
    // The primary network's port, which gets no answer in it, although the default one would.
    let question = Question {
        sender: Sender::pod("s/p"),
        destination: Destination::Pod("s/q".to_owned()),
        protocol: Protocol::Icmp,
    };
    let course = pod_networks(&[""]).ask(&question).unwrap();
    assert_eq!(course.outcome, Outcome::Stopped, "{course:?}");
}

#[test]
fn a_table_has_pods_of_all_zones_in_natural_order() {
    let matrix = zones(&[], &[]).machine_matrix(Protocol::Icmp);
    assert_eq!(matrix.names, ["a", "b"]);
    assert!(matrix.rows[0][1].as_ref().unwrap().connected);
    assert!(matrix.rows[1][1].is_none());
    let alone = Zones::new("n2", zone("n2", "7", &[])).machine_matrix(Protocol::Icmp);
    assert_eq!(alone.names, ["b"]);
}
