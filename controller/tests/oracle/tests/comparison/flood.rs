//! Requests that do not get to all routers of a switch.

use patchbay_oracle::{ArpRequest, Asked, TracedPacket, map, references};
use patchbay_ovn_programs::testing::Release;
use patchbay_reach::{Answer, Destination, Question, Sender, Verdict};
use serde_json::{Value, json};

use super::features::{Network, WEB, ask_both};

/// The network whose router has VIPs and an address of a NAT rule, for all of which it answers.
/// `columns`: those of `s1`.
fn network(columns: &Value) -> Network {
    let mut network = Network::new(json!({}));
    let vips = ["10.55.0.1", "10.1.0.88"].map(|vip| (format!("{vip}:80"), "10.2.0.2:80"));
    let row = json!({"name": "lb", "vips": map(&vips),
        "options": map(&[("neighbor_responder", "all")])});
    let balancer = network.rows.insert("Load_Balancer", row);
    let row = json!({"type": "dnat", "external_ip": "10.55.0.2", "logical_ip": "10.2.0.2"});
    let nat = network.rows.insert("NAT", row);
    network.columns["lr"] = json!({"load_balancer": references(&[balancer]),
        "nat": references(&[nat])});
    network.columns["s1"] = columns.clone();
    network
}

/// The answer for a packet of `v1` to a neighbour with the MAC address of the router.
fn ask(release: &Release, request: &str, address: &str) -> Answer {
    let expression = format!(
        "inport == \"v1\" && eth.src == 0a:00:00:00:01:02 && eth.dst == 0a:00:00:00:01:01 && \
         ip4.src == 10.1.0.2 && ip4.dst == {address} && ip.ttl == 64 && {}",
        WEB.1
    );
    let packet = TracedPacket {
        datapath: "s1".to_owned(),
        expression,
        arp: Some(ArpRequest::new("v1", "0a:00:00:00:01:02", "10.1.0.2", address)),
    };
    ask_from(release, request, "v1", address, packet)
}

/// The answer for a packet, which that of ovn-trace has to be.
fn ask_from(
    release: &Release,
    request: &str,
    sender: &str,
    address: &str,
    packet: TracedPacket,
) -> Answer {
    let asked = Asked {
        question: Question {
            sender: Sender::port(sender),
            destination: Destination::Address(address.parse().unwrap()),
            protocol: WEB.0,
        },
        packet: Some(packet),
    };
    ask_both(release, request, &asked)
}

#[test]
fn routers_hear_requests_for_some_addresses_only() {
    let Some(release) = Release::newest() else {
        return;
    };
    // The addresses are neighbours of `v1` because of the subnet.
    for (value, address, is_answered) in [
        ("true", "10.55.0.1", true),
        ("true", "10.55.0.2", true),
        ("false", "10.55.0.1", false),
        ("false", "10.55.0.2", true),
        ("False", "10.1.0.88", true),
        ("false", "10.1.0.1", true),
    ] {
        let columns = json!({"other_config": map(&[
            ("subnet", "10.0.0.0/8"),
            ("exclude_ips", "10.0.0.1..10.255.255.254"),
            ("broadcast-arps-to-all-routers", value),
        ])});
        let answer = ask(&release, &network(&columns).finish(), address);
        let is_unanswered = answer.verdict == Verdict::Unanswered;
        assert_eq!(is_unanswered, !is_answered, "{value} {address} {answer:#?}");
    }
}

/// On a switch with machines, requests of routers get to other routers like those of machines on a
/// switch with `broadcast-arps-to-all-routers=false`.
#[test]
fn routers_hear_requests_of_other_routers_for_some_addresses_only() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (next_hop, verdict) in [("10.1.0.88", Verdict::Reaches), ("10.55.0.1", Verdict::Dropped)] {
        let mut network = Network::new(json!({}));
        let row = json!({"ip_prefix": "10.77.0.0/16", "nexthop": next_hop, "output_port": "rp1"});
        let route = network.rows.insert("Logical_Router_Static_Route", row);
        network.columns["lr"] = json!({"static_routes": references(&[route])});
        let options = map(&[("router-port", "rp3")]);
        let row = json!({"type": "router", "addresses": "router", "options": options});
        network.add_port("sp3", row);
        let row = json!({"name": "rp3", "mac": "0a:00:00:00:03:01", "networks": "10.1.0.9/24"});
        let port = network.rows.insert("Logical_Router_Port", row);
        let row = json!({"ip_prefix": "10.77.0.0/16", "nexthop": "10.1.0.3"});
        let route = network.rows.insert("Logical_Router_Static_Route", row);
        let row = json!({"name": "lb", "vips": map(&[(format!("{next_hop}:80"), "10.1.0.3:80")]),
            "options": map(&[("neighbor_responder", "all")])});
        let balancer = network.rows.insert("Load_Balancer", row);
        let row = json!({"name": "other", "ports": references(&[port]),
            "static_routes": references(&[route]), "load_balancer": references(&[balancer])});
        network.rows.insert("Logical_Router", row);
        let expression = format!(
            "inport == \"v3\" && eth.src == 0a:00:00:00:02:02 && eth.dst == 0a:00:00:00:02:01 && \
             ip4.src == 10.2.0.2 && ip4.dst == 10.77.0.1 && ip.ttl == 64 && {}",
            WEB.1
        );
        let packet = TracedPacket { datapath: "s2".to_owned(), expression, arp: None };
        let request = network.finish();
        let answer = ask_from(&release, &request, "v3", "10.77.0.1", packet);
        assert_eq!(answer.verdict, verdict, "{next_hop} {answer:#?}");
    }
}
