//! Random databases and packets: answers compared with ovn-northd and ovn-trace.

mod expressions;
mod family;
mod matches;
mod ovn;
mod random;
mod routers;
mod rows;
mod topology;
mod verdict;

use std::env;

use ovsdb_sim::testing::Release;
use patchbay_reach::{Answer, Destination, Northbound, Protocol, Question, Sender, Verdict};
use serde_json::json;

use crate::support::database;
use family::to_ipv6;
use ovn::Ovn;
use random::Random;
use rows::{Rows, map};
use topology::{Machine, Topology};
use verdict::TraceOutcome;

/// Topologies of one database.
const TOPOLOGIES: usize = 20;
/// Questions about one topology.
const QUESTIONS_PER_TOPOLOGY: usize = 20;
/// Environment variable with the number of questions.
const QUESTIONS_VARIABLE: &str = "PATCHBAY_REACH_QUESTIONS";
/// Seed without the variable: the same questions in each run, so that a difference is that of a change.
const DEFAULT_SEED: u64 = 1_795_486_001;
/// Environment variable with the seed.
const SEED_VARIABLE: &str = "PATCHBAY_REACH_SEED";
/// Address of a machine outside.
const OUTSIDE_ADDRESS: &str = "172.18.0.77";
/// MAC address of a machine outside.
const OUTSIDE_MAC: &str = "0a:ff:00:00:00:77";

/// Packet of a question, for both sides.
struct Asked {
    question: Question,
    datapath: String,
    packet: String,
    /// Sender and target of the ARP request. `None`: the MAC address is given.
    arp: Option<(Machine, String)>,
}

#[derive(Default)]
struct Tally {
    asked: usize,
    open: usize,
    arrived: usize,
    wrong: Vec<String>,
}

#[test]
fn random_questions_have_the_answers_of_ovn() {
    let Some(release) = Release::newest() else {
        return;
    };
    let number = |variable: &str| env::var(variable).ok().and_then(|text| text.parse().ok());
    let wanted = number(QUESTIONS_VARIABLE).unwrap_or(400) as usize;
    let seed = number(SEED_VARIABLE).unwrap_or(DEFAULT_SEED);
    println!("{SEED_VARIABLE}={seed}");
    let mut random = Random(seed);
    let mut tally = Tally::default();
    while tally.asked < wanted {
        ask_database(&release, &mut random, &mut tally);
    }
    println!(
        "{} questions, {} open, {} arrive",
        tally.asked, tally.open, tally.arrived
    );
    assert!(tally.arrived * 50 > tally.asked, "too few packets arrive");
    assert!(
        tally.wrong.is_empty(),
        "{} of {} answers are wrong ({SEED_VARIABLE}={seed}):\n{}",
        tally.wrong.len(),
        tally.asked,
        tally.wrong.join("\n\n")
    );
}

/// Asks about one random database.
fn ask_database(release: &Release, random: &mut Random, tally: &mut Tally) {
    let mut rows = Rows::default();
    if random.chance(15) {
        let options = map(&[("default_acl_drop", "true")]);
        rows.insert("NB_Global", json!({"options": options}));
    }
    let topologies: Vec<_> = (0..TOPOLOGIES)
        .map(|number| Topology::new(number, random, &mut rows))
        .collect();
    let request = rows.request();
    let northbound = Northbound::new(&database(&request).snapshot(), None);
    let mut ovn = Ovn::start(release, &request);
    for topology in &topologies {
        for _ in 0..QUESTIONS_PER_TOPOLOGY {
            if let Some(asked) = question(topology, random) {
                compare((&northbound, &request), &mut ovn, &asked, tally);
            }
        }
    }
}

/// A random question. `None`: the addresses that were picked do not fit together.
fn question(topology: &Topology, random: &mut Random) -> Option<Asked> {
    let destination = random.pick(&topology.destinations).clone();
    let (protocol, header) = match random.below(4) {
        0 => (
            Protocol::Icmp,
            "icmp4.type == 8 && icmp4.code == 0".to_owned(),
        ),
        1 => (
            Protocol::Udp(53),
            "udp.src == 40000 && udp.dst == 53".to_owned(),
        ),
        _ => {
            let port = *random.pick(&[80, 80, 22, 8080]);
            let header = format!("tcp.src == 40000 && tcp.dst == {port} && tcp.flags == 2");
            (Protocol::Tcp(port), header)
        }
    };
    let (sender, datapath, port, macs, source, arp) = match &topology.outside {
        Some((localnet, router_mac)) if random.chance(20) => {
            let sender = Sender {
                ip: OUTSIDE_ADDRESS.parse().ok(),
                mac: Some(OUTSIDE_MAC.to_owned()),
                mac_of: Some(localnet.replace("-ln", "-rpx")),
                ..Sender::port(localnet)
            };
            let datapath = localnet.replace("-ln", "-ext");
            let macs = (OUTSIDE_MAC.to_owned(), router_mac.clone());
            (
                sender,
                datapath,
                localnet.clone(),
                macs,
                OUTSIDE_ADDRESS.to_owned(),
                None,
            )
        }
        _ => {
            let machine = random.pick(&topology.machines).clone();
            let own = |address: &str| address.rsplit_once('.').map(|(net, _)| net.to_owned());
            let neighbor = topology
                .machines
                .iter()
                .find(|other| other.switch == machine.switch && other.address == destination);
            let (mac, target) = match neighbor {
                Some(neighbor) if neighbor.has_unknown => return None,
                Some(neighbor) => (neighbor.mac.clone(), destination.clone()),
                None if destination == machine.gateway_address => {
                    (machine.gateway_mac.clone(), destination.clone())
                }
                None if own(&destination) == own(&machine.address) => return None,
                None => (machine.gateway_mac.clone(), machine.gateway_address.clone()),
            };
            if destination == machine.address {
                return None;
            }
            let macs = (machine.mac.clone(), mac);
            let (port, source) = (machine.port.clone(), machine.address.clone());
            let datapath = machine.switch.clone();
            (
                Sender::port(&port),
                datapath,
                port,
                macs,
                source,
                Some((machine, target)),
            )
        }
    };
    let mut packet = format!(
        "inport == \"{port}\" && eth.src == {} && eth.dst == {} && ip4.src == {source} && \
         ip4.dst == {destination} && ip.ttl == 64 && {header}",
        macs.0, macs.1
    );
    let (mut sender, mut destination, mut arp) = (sender, destination, arp);
    if topology.is_ipv6 {
        packet = to_ipv6(&packet);
        destination = to_ipv6(&destination);
        sender.ip = sender
            .ip
            .map(|ip| to_ipv6(&ip.to_string()).parse().unwrap());
        // ACLs let neighbour discovery pass.
        arp = None;
    }
    let destination = Destination::Address(destination.parse().unwrap());
    Some(Asked {
        question: Question {
            sender,
            destination,
            protocol,
        },
        datapath,
        packet,
        arp,
    })
}

/// Compares the answers to a question. `rows`: text of the database.
fn compare(
    (northbound, rows): (&Northbound, &str),
    ovn: &mut Ovn,
    asked: &Asked,
    tally: &mut Tally,
) {
    let Some(text) = ovn.trace(&asked.datapath, &asked.packet) else {
        return;
    };
    let outcome = TraceOutcome::read(&text);
    let answer = northbound.answer(&asked.question).unwrap();
    tally.asked += 1;
    tally.arrived += usize::from(!outcome.outputs.is_empty());
    let gets_mac = asked.arp.as_ref().is_none_or(|(machine, target)| {
        let request = format!(
            "inport == \"{}\" && eth.src == {} && eth.dst == ff:ff:ff:ff:ff:ff && arp.op == 1 && \
             arp.sha == {} && arp.spa == {} && arp.tpa == {target}",
            machine.port, machine.mac, machine.mac, machine.address
        );
        let needs_arp = answer.verdict == Verdict::Unanswered;
        !needs_arp
            || ovn
                .trace(&machine.switch, &request)
                .is_none_or(|text| TraceOutcome::read(&text).outputs.contains(&machine.port))
    });
    if is_right(&answer, &outcome, &asked.question, gets_mac) {
        return;
    }
    // ovn-trace compares the port of a packet with that of any VIP with the address in the database.
    if answer.hops.iter().any(|hop| hop.stage == "ls_in_hairpin") {
        return;
    }
    // It takes the state of a router's load balancer for that of the switch behind the router.
    if answer.out.is_some() && answer.out == asked.question.sender.port {
        return;
    }
    // It keeps the connection state of a router's NAT in the switch behind the router.
    if has_state_of_router(&answer, rows) {
        return;
    }
    if !answer.open.is_empty() {
        tally.open += 1;
        return;
    }
    let hops: Vec<_> = answer
        .hops
        .iter()
        .map(|hop| format!("{} {} {}: {}", hop.kind, hop.name, hop.stage, hop.decision))
        .collect();
    tally.wrong.push(format!(
        "{}: {}\n{} {:?} source {:?} at {}\n{}\nexpected {outcome:?}\n{text}",
        asked.datapath,
        asked.packet,
        answer.verdict,
        answer.out,
        answer.source,
        answer.at,
        hops.join("\n")
    ));
}

/// `true` if the answer is that of ovn-trace.
fn is_right(answer: &Answer, outcome: &TraceOutcome, question: &Question, gets_mac: bool) -> bool {
    let sender = question.sender.port.as_ref().unwrap();
    let source = answer.source.map(|source| source.to_string());
    let goes_out = answer
        .out
        .as_ref()
        .is_some_and(|out| outcome.outputs.contains(out));
    match answer.verdict {
        Verdict::Reaches | Verdict::Leaves => {
            goes_out && (source == outcome.source || has_hidden_source(answer))
        }
        Verdict::Answered => outcome.is_answer && outcome.outputs.contains(sender),
        Verdict::Dropped => {
            outcome.outputs.is_empty() || outcome.is_answer && !outcome.outputs.contains(sender)
        }
        Verdict::Unanswered => !gets_mac || outcome.outputs.is_empty(),
    }
}

/// `true` if a router has translated the packet, and an ACL of the port that it goes to asks for the
/// state of the connection. `rows`: text of the database.
fn has_state_of_router(answer: &Answer, rows: &str) -> bool {
    let stages = ["lr_in_unsnat", "lr_in_dnat", "lr_out_undnat", "lr_out_snat"];
    let mut hops = answer.hops.iter().rev();
    let port = hops.find_map(|hop| hop.decision.strip_prefix("to port "));
    let mut all = answer.hops.iter();
    all.any(|hop| stages.contains(&hop.stage))
        && port.is_some_and(|port| {
            let ports = format!(r#"outport == \"{port}\" && "#);
            let mut matches = rows.split(&ports).skip(1);
            matches.any(|rest| rest.starts_with("ct.new") || rest.starts_with("!ct.new"))
        })
}

/// `true` if the source was decided by flags of a load balancer or by a hairpin. ovn-trace loses the
/// flags between ingress and egress, and does not replace the source of a hairpin.
fn has_hidden_source(answer: &Answer) -> bool {
    answer.hops.iter().any(|hop| {
        hop.stage == "ls_in_hairpin"
            || hop.decision.starts_with("forced source")
            || hop.decision.starts_with("skip_snat")
    })
}
