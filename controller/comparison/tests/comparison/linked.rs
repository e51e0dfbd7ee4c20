//! Switches that ports of type `switch` link, in a small database.

use ovsdb_sim::testing::Release;
use patchbay_comparison::{
    LearnedNeighbor, Ovn, TraceOutcome, read_northbound, references, start_server,
};
use patchbay_reach::{Destination, Northbound, Question, Sender, Verdict};
use serde_json::json;

use super::features::{Network, WEB};

/// The network with the switch `s3` of the machine `v4` behind `s1`. `peer`: that of the port on `s3`.
fn database(peer: &str) -> String {
    let mut network = Network::new(json!({}));
    network.add_port("a", json!({"type": "switch", "peer": "b"}));
    let ports = [
        json!({"name": "b", "type": "switch", "peer": peer}),
        json!({"name": "v4", "addresses": "0a:00:00:00:01:04 10.1.0.4"}),
    ];
    let ports = ports.map(|row| network.rows.insert("Logical_Switch_Port", row));
    let row = json!({"name": "s3", "ports": references(&ports)});
    network.rows.insert("Logical_Switch", row);
    network.finish()
}

#[test]
fn machines_on_linked_switches_are_neighbours() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (peer, is_linked) in [("a", true), ("other", false)] {
        let server = start_server(&release);
        drop(Ovn::fill(&release, &server, &database(peer)));
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
            let answer = northbound.answer(&Question {
                sender: Sender::port(port),
                destination: Destination::Address(address.parse().unwrap()),
                protocol: WEB.0,
            });
            let answer = answer.unwrap();
            let expected = is_linked.then_some(out);
            assert_eq!(answer.out.as_deref(), expected, "{answer:#?}");
            let is_reached = answer.verdict == Verdict::Reaches;
            assert_eq!(is_reached, is_linked, "{answer:#?}");
        }
    }
}
