//! Random questions, the same in each run: a difference is that of a change.

use std::path::Path;

use patchbay_oracle::{
    Asked, Ovn, Random, RecordedState, Rows, Tally, TraceOutcome, TracedPacket, ask_clouds,
    ask_clusters, ask_free_topologies, ask_recorded, ask_vpcs, compare, map, read_northbound,
    references, start_server,
};
use patchbay_ovn_programs::testing::Release;
use patchbay_reach::{Destination, Northbound, Protocol, Question, Sender, Verdict};
use serde_json::json;

/// Seed of the questions. The benchmark `comparison` asks with others.
const SEED: u64 = 1_795_486_001;

fn assert_equal(tally: &Tally) {
    println!("{}", tally.summary());
    assert!(tally.arrived * 50 > tally.asked, "{}", tally.summary());
    assert!(tally.wrong.is_empty(), "{}\n{}", tally.summary(), tally.differences());
}

#[test]
fn questions_about_free_topologies_have_the_answers_of_ovn() {
    if let Some(release) = Release::newest() {
        assert_equal(&ask_free_topologies(&release, 400, &mut Random::new(SEED)));
    }
}

#[test]
fn questions_about_clouds_of_neutron_have_the_answers_of_ovn() {
    if let Some(release) = Release::newest() {
        assert_equal(&ask_clouds(&release, 400, &mut Random::new(SEED)));
    }
}

#[test]
fn questions_about_clusters_of_manifests_have_the_answers_of_ovn() {
    if let Some(release) = Release::newest() {
        assert_equal(&ask_clusters(&release, 300, &mut Random::new(SEED)));
    }
}

#[test]
fn questions_about_recorded_states_have_the_answers_of_ovn() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reconcile/tests/golden/udn");
    let states = RecordedState::read_folder(&folder);
    assert!(states.len() > 200, "{} states", states.len());
    if let Some(release) = Release::newest() {
        let mut random = Random::new(SEED);
        assert_equal(&ask_recorded(&release, &states, 300, &mut random));
    }
}

/// `patchbay-lab` shows the same with packets:
/// `a_switch_that_does_not_track_sees_no_state_of_the_switch_before_the_router`.
#[test]
fn a_packet_loses_the_state_of_its_connection_before_each_switch() {
    let Some(release) = Release::newest() else {
        return;
    };
    let mut rows = Rows::default();
    let mut router_ports = Vec::new();
    for (number, direction, action, text) in [
        (1, "from-lport", "allow-related", "ip4"),
        (2, "to-lport", "drop", "outport == \"v2\" && ct.new"),
    ] {
        let (router_port, mac) = (format!("rp{number}"), format!("0a:00:00:00:0{number}:01"));
        let row =
            json!({"name": router_port, "mac": mac, "networks": format!("10.{number}.0.1/24")});
        router_ports.push(rows.insert("Logical_Router_Port", row));
        let machine = format!("0a:00:00:00:0{number}:02 10.{number}.0.2");
        let ports = [
            json!({"name": format!("v{number}"), "addresses": machine}),
            json!({"name": format!("sp{number}"), "type": "router", "addresses": "router",
                "options": map(&[("router-port", &router_port)])}),
        ]
        .map(|row| rows.insert("Logical_Switch_Port", row));
        let row = json!({"direction": direction, "priority": 1, "action": action, "match": text});
        let acl = rows.insert("ACL", row);
        let row = json!({"name": format!("s{number}"), "ports": references(&ports),
            "acls": references(&[acl])});
        rows.insert("Logical_Switch", row);
    }
    let row = json!({"name": "lr", "ports": references(&router_ports)});
    rows.insert("Logical_Router", row);
    let request = rows.request();
    let server = start_server(&release);
    let mut ovn = Ovn::fill(&release, &server, &request);
    let northbound = Northbound::new(&read_northbound(&server), None);
    let expression = "inport == \"v1\" && eth.src == 0a:00:00:00:01:02 && \
                      eth.dst == 0a:00:00:00:01:01 && ip4.src == 10.1.0.2 && \
                      ip4.dst == 10.2.0.2 && ip.ttl == 64 && icmp4.type == 8";
    let asked = Asked {
        question: Question {
            sender: Sender::port("v1"),
            destination: Destination::Port("v2".to_owned()),
            protocol: Protocol::Icmp,
        },
        packet: Some(TracedPacket {
            datapath: "s1".to_owned(),
            expression: expression.to_owned(),
            arp: None,
        }),
    };
    let text = ovn.trace.trace("s1", expression).unwrap();
    assert_eq!(TraceOutcome::read(&text).outputs, ["v2"], "{text}");
    let answer = northbound.answer(&asked.question).unwrap();
    assert_eq!(answer.verdict, Verdict::Reaches);
    let mut tally = Tally::default();
    compare(&northbound, &mut ovn.trace, &asked, &mut tally);
    assert!(tally.wrong.is_empty(), "{}", tally.differences());
}

#[test]
fn questions_about_vpcs_of_random_tenants_have_the_answers_of_ovn() {
    if let Some(release) = Release::newest() {
        assert_equal(&ask_vpcs(&release, 100, &mut Random::new(SEED), |_, _| {}));
    }
}

/// Variable of the environment: number of tenants of [`TENANTS_SEED`]. With 4,400, both seeds have 5,000
/// tenants, which take an hour.
const TENANTS_VARIABLE: &str = "PATCHBAY_TENANTS";
/// Seed of these tenants.
const TENANTS_SEED: u64 = SEED + 1;
/// Their number without the variable: with the others they take some minutes.
const DEFAULT_TENANTS: usize = 400;
/// Seed of further tenants, and their number.
const FURTHER_TENANTS: (u64, usize) = (SEED + 2, 600);

#[test]
#[ignore = "takes long: scripts/test --all"]
fn questions_about_vpcs_of_many_random_tenants_have_the_answers_of_ovn() {
    let Some(release) = Release::newest() else {
        return;
    };
    let wanted = std::env::var(TENANTS_VARIABLE).ok();
    let tenants = wanted.map_or(DEFAULT_TENANTS, |number| number.parse().unwrap());
    for (seed, count) in [FURTHER_TENANTS, (TENANTS_SEED, tenants)] {
        let mut printed = 0;
        let report = |count, tally: &Tally| {
            println!("{count} tenants: {}", tally.summary());
            for wrong in &tally.wrong[printed..] {
                println!("{wrong}\n");
            }
            printed = tally.wrong.len();
        };
        assert_equal(&ask_vpcs(&release, count, &mut Random::new(seed), report));
    }
}
