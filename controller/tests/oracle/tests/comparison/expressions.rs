//! Matches in the notations that OVN accepts and rejects, each as an ACL that drops.

use patchbay_oracle::{Ovn, Rows, TraceOutcome, read_northbound, references, set, start_server};
use patchbay_ovn_programs::testing::Release;
use patchbay_reach::{Destination, Northbound, Protocol, Question, Sender, Verdict};
use serde_json::json;

/// Packets that are sent from 10.0.0.1, port 40000, to 10.0.0.2 on each switch.
const PACKETS: [(Protocol, &str); 4] = [
    (Protocol::Icmp, "icmp4.type == 8 && icmp4.code == 0"),
    (Protocol::Tcp(80), "tcp.src == 40000 && tcp.dst == 80 && tcp.flags == 2"),
    (Protocol::Udp(53), "udp.src == 40000 && udp.dst == 53"),
    (Protocol::Sctp(9), "sctp.src == 40000 && sctp.dst == 9"),
];

/// Matches. `SW` stands for the name of the switch.
const MATCHES: &[&str] = &[
    // Constants and precedence.
    "1",
    "0",
    "2",
    "01",
    "",
    " ",
    "()",
    "(1)",
    "((((ip4))))",
    "!1",
    "!0",
    "!!1",
    "!(!1)",
    "ip4 && tcp && udp",
    "ip4 && (tcp || udp)",
    "ip4 && tcp || udp",
    "(ip4 && tcp) || udp",
    "ip4 &&",
    "&& ip4",
    "ip4 & tcp",
    "ip4 | tcp",
    "ip4 tcp",
    "ip4)",
    "(ip4",
    "1) || (1",
    "0) || (1",
    // Comments and blanks.
    "ip4 /* x */ && tcp",
    "/* x */ 1",
    "ip4 // x",
    "ip4 /* x",
    "ip4 /* /* */ && tcp",
    "\tip4\n&&\ntcp",
    "1 /* a\nb */",
    "// x\n1",
    // Comparisons.
    "tcp.dst == 80",
    "80 == tcp.dst",
    "tcp.dst != 80",
    "80 != tcp.dst",
    "!(tcp.dst == 80)",
    "!(tcp.dst != 80)",
    "tcp.dst < 81",
    "tcp.dst <= 79",
    "81 > tcp.dst",
    "tcp.dst > 80",
    "79 < tcp.dst < 81",
    "79 <= tcp.dst <= 80",
    "81 > tcp.dst > 79",
    "79 < tcp.dst > 81",
    "79 == tcp.dst == 80",
    "tcp.dst = 80",
    "tcp.dst === 80",
    "tcp.dst == 0x50",
    "tcp.dst == 0X50",
    "tcp.dst == 0x",
    "tcp.dst == 080",
    "tcp.dst == 65536",
    "tcp.dst == 80/0xff",
    "tcp.dst == 0x50/0xf0",
    "tcp.dst == 0/0x1",
    "tcp.dst[0..3] == 0",
    "tcp.dst[4] == 1",
    "tcp.dst[16] == 1",
    "tcp.dst[3..1] == 0",
    "tcp.dst[0..] == 0",
    "tcp.dst",
    "!tcp.dst",
    "tcp.dst[4]",
    "!tcp.dst[4]",
    "tcp.src == 40000",
    "udp.dst == {53, 54}",
    "udp.dst == {53 54}",
    "udp.dst == {53,}",
    "udp.dst == {}",
    "udp.dst == {,53}",
    "udp.dst != {53, 54}",
    "udp.dst != {1, 2}",
    "udp.dst < {53}",
    "{53, 80} == udp.dst",
    "sctp.dst == 9 || sctp.src == 1",
    "tcp.flags == 2",
    "tcp.flags[1]",
    "tcp.flags != 0",
    // Nominal fields and predicates.
    "ip.proto == 6",
    "ip.proto == {6, 17}",
    "ip.proto != 6",
    "!(ip.proto != 6)",
    "ip.proto < 7",
    "!tcp",
    "tcp == 1",
    "tcp == 0",
    "tcp != 0",
    "tcp != 1",
    "!(tcp == 0)",
    "ip4 == 1",
    "!ip6",
    "ip6",
    "icmp",
    "icmp4",
    "icmp6",
    "icmp4.type == 8",
    "icmp4.type == {0, 8}",
    "icmp4.type != 0",
    "icmp4.code == 0",
    "eth.type == 0x800",
    "eth.type == 2048",
    "eth.type[0] == 0",
    "ip.ttl == 64",
    "ip.ttl > 1",
    "ip.dscp == 0",
    "ip.ecn == 0",
    "ip.frag == 0",
    "!ip.later_frag",
    "ip.is_frag",
    "!ip.first_frag",
    "eth.bcast",
    "!eth.bcast",
    "eth.mcast",
    "!eth.mcast",
    "ip4.mcast",
    "!ip4.mcast",
    "ip4.src_mcast",
    "vlan.present",
    "!vlan.present",
    "vlan.vid == 0",
    "vlan.tci == 0",
    "arp",
    "!arp",
    "arp.op == 1",
    "nd || tcp",
    "nd_ns || udp",
    "mldv1 || tcp",
    "igmp",
    "rarp || ip4",
    // Addresses.
    "ip4.src == 10.0.0.1",
    "ip4.src == 10.0.0.1/32",
    "ip4.src == 10.0.0.0/24",
    "ip4.src == 10.0.0.9/24",
    "ip4.src == 10.0.0.0/255.255.255.0",
    "ip4.dst == 0.0.0.2/0.0.0.255",
    "ip4.src == 10.0.0.0/33",
    "ip4.src == 10.0.0",
    "ip4.src == 010.0.0.1",
    "ip4.src == 167772161",
    "ip4.src == 0x0a000001",
    "ip4.src == ::1",
    "ip4.src == ::ffff:10.0.0.1",
    "ip4.src != 10.0.0.1",
    "ip4.src < 10.0.0.2",
    "ip4.src > 10.0.0.0/24",
    "ip4.src[0..7] == 1",
    "ip4.src[24..31] == 10",
    "ip4.src == {10.0.0.1, 10.0.0.9}",
    "ip4.src == {10.0.0.1, ::1}",
    "ip4.dst == {10.1.0.0/16, 10.0.0.2}",
    "ip6.src == fd00::1",
    "ip6.src == 10.0.0.1 || tcp",
    "ip6.dst != ::1",
    "ip4.src == ip4.dst",
    "eth.src == 0a:00:00:00:00:01",
    "eth.src == 0A:00:00:00:00:01",
    "eth.src == a:0:0:0:0:1",
    "eth.src == 0a:00:00:00:00:00/ff:ff:ff:ff:ff:00",
    "eth.src == 0a:00:00:00:00:01/24",
    "eth.dst[0..7] == 2",
    "eth.src != 0a:00:00:00:00:02",
    "eth.dst[40..47] == 0x0a",
    // Names.
    "inport == \"SW-a\"",
    "inport == \"SW-b\"",
    "inport == {\"SW-a\", \"SW-b\"}",
    "inport != \"SW-b\"",
    "!(inport == \"SW-b\")",
    "!(inport != \"SW-a\")",
    "inport == SW-a",
    "inport == 1",
    "inport == \"\"",
    "inport == \"SW-a",
    "inport == \"SW\\u002da\"",
    "inport < \"SW-b\"",
    "inport[0] == 1",
    "inport",
    "\"SW-a\" == inport",
    "outport == \"SW-b\"",
    "inport == @SW_g && ip4",
    "inport == @SW_none || ip4",
    "inport == {@SW_g, \"SW-b\"}",
    "ip4.src == @SW_g",
    "inport == $SW_s",
    "inport == {\"SW-a\", 1}",
    "ip4.src == $SW_s",
    "ip4.src != $SW_s",
    "ip4.src == $SW_e",
    "ip4.src != $SW_e",
    "ip4.src == $SW_x",
    "ip4.src == {$SW_s, 10.9.0.0/16}",
    "ip4.src != {$SW_s, 9.9.9.9}",
    "ip4.src == {$SW_s, $SW_r, $SW_s}",
    "!(ip4.src == {$SW_r, $SW_s})",
    "ip4.src[0..7] == $SW_s",
    "ip4.src[0..7] != {$SW_s, $SW_r}",
    "inport == {@SW_g, @SW_g, \"SW-b\"}",
    "!(inport != {@SW_g, \"SW-b\"})",
    "!(inport == {@SW_g, \"SW-b\"})",
    "$SW_s == ip4.src",
    "ip4.src == $SW_m || tcp",
    "ip4.src < $SW_s",
    "ip4.src == $SW_r",
    "ip4.src == $SW_g_ip4",
    "ip6.src == $SW_g_ip6",
    "tcp.dst == $SW_p",
    "is_chassis_resident(\"SW-a\")",
    "!is_chassis_resident(\"SW-a\")",
    "is_chassis_resident(\"none\")",
    "is_chassis_resident(SW-a)",
    "is_chassis_resident()",
    "is_chassis_here(\"SW-a\")",
    // State.
    "ct.trk",
    "!ct.trk",
    "ct.new",
    "!ct.new",
    "ct.est",
    "!ct.est",
    "ct_state == 0",
    "ct_mark == 0",
    "ct_mark.blocked == 0",
    "ct_label == 0",
    "ct_label.label == 0",
    "pkt.mark == 0",
    "pkt.mark != 0",
    "reg9 == 0",
    "xreg4 == 0",
    "xxreg1 == 0",
    "reg16 == 0",
    "xreg5 == 0",
    "flags.loopback == 0",
    "flags == 0",
    "flags.nothing == 0",
    "ct.nothing",
    "nothing",
    "nothing == 1",
    "ip4.nothing == 1",
    "^VARIABLE",
    "ip4.dst == ^VARIABLE",
];

#[test]
fn matches_are_read_as_ovn_reads_them() {
    let Some(release) = Release::newest() else {
        return;
    };
    let mut rows = Rows::default();
    for (number, text) in MATCHES.iter().enumerate() {
        add_switch(&mut rows, &format!("x{number}"), text);
    }
    let request = rows.request();
    let server = start_server(&release);
    let mut ovn = Ovn::fill(&release, &server, &request);
    let northbound = Northbound::new(&read_northbound(&server), None);
    let (mut wrong, mut dropped, mut asked) = (Vec::new(), 0, 0);
    for (number, text) in MATCHES.iter().enumerate() {
        let switch = format!("x{number}");
        for (protocol, header) in PACKETS {
            let packet = format!(
                "inport == \"{switch}-a\" && eth.src == 0a:00:00:00:00:01 && \
                 eth.dst == 0a:00:00:00:00:02 && ip4.src == 10.0.0.1 && ip4.dst == 10.0.0.2 && \
                 ip.ttl == 64 && {header}"
            );
            let trace = ovn.trace.trace(&switch, &packet).unwrap();
            let expected = TraceOutcome::read(&trace).outputs.is_empty();
            asked += 1;
            dropped += usize::from(expected);
            let question = Question {
                sender: Sender::port(format!("{switch}-a")),
                destination: Destination::Address("10.0.0.2".parse().unwrap()),
                protocol,
            };
            let answer = northbound.answer(&question).unwrap();
            if (answer.verdict == Verdict::Dropped) != expected {
                let reaction = if expected { "drops" } else { "does not drop" };
                wrong.push(format!("{text:?}: OVN {reaction} {protocol}"));
            }
        }
    }
    assert!(dropped > asked / 10 && dropped < asked, "{dropped} of {asked}");
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Adds a switch with two machines and an ACL that drops what a match matches, apart from ARP.
fn add_switch(rows: &mut Rows, switch: &str, text: &str) {
    let ports: Vec<_> = ["a", "b"]
        .iter()
        .zip(1..)
        .map(|(name, host)| {
            let addresses = format!("0a:00:00:00:00:0{host} 10.0.0.{host}");
            let row = json!({"name": format!("{switch}-{name}"), "addresses": addresses});
            rows.insert("Logical_Switch_Port", row)
        })
        .collect();
    let sets: [(&str, &[&str]); 6] = [
        ("s", &["10.0.0.1", "10.8.0.0/16"]),
        ("e", &[]),
        ("m", &["10.0.0.1", "fd00::1"]),
        ("r", &["10.0.0.1-10.0.0.9", "10.7.0.0 x", "bad"]),
        ("p", &["80", "443"]),
        ("unused", &["10.0.0.1"]),
    ];
    for (name, addresses) in sets {
        let row = json!({"name": format!("{switch}_{name}"), "addresses": set(addresses)});
        rows.insert("Address_Set", row);
    }
    for (name, members) in [("g", &ports[..1]), ("none", &[])] {
        let row = json!({"name": format!("{switch}_{name}"), "ports": references(members)});
        rows.insert("Port_Group", row);
    }
    let text = text.replace("SW", switch);
    let drop = rows.insert(
        "ACL",
        json!({"direction": "from-lport", "priority": 100, "action": "drop", "match": text}),
    );
    let pass = rows.insert(
        "ACL",
        json!({"direction": "from-lport", "priority": 101, "action": "allow", "match": "arp"}),
    );
    let track = rows.insert(
        "ACL",
        json!({"direction": "to-lport", "priority": 1, "action": "allow-related", "match": "ip4"}),
    );
    let subnet = json!(["map", [["subnet", "10.0.0.0/24"]]]);
    rows.insert(
        "Logical_Switch",
        json!({"name": switch, "ports": references(&ports), "acls": references(&[drop, pass, track]),
            "other_config": subnet}),
    );
}
