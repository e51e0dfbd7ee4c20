//! Findings of `patchbay-lint` about rows, each beside what ovn-northd and ovn-trace do with the row.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use patchbay_engine::db::{Access, Database, Execution, Snapshot};
use patchbay_lint::{Finding, Findings, ROW_RULES, lint_rows};
use patchbay_oracle::{Northd, RecordedState, read_northbound, start_server};
use patchbay_ovn_programs::testing::{RealServer, Release};
use patchbay_schemas::json::{Reader, TextBuf};
use patchbay_schemas::nb;
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::decode_transaction;

/// A switch with two machines, and a router to it and to the outside, without findings.
const HEALTHY: &[&str] = &[
    "ls-add s",
    "lsp-add s a -- lsp-set-addresses a '02:00:00:00:00:01 10.0.0.1'",
    "lsp-add s b -- lsp-set-addresses b '02:00:00:00:00:02 10.0.0.2'",
    "lr-add r -- lrp-add r r-s 02:00:00:00:01:01 10.0.0.254/24",
    "lsp-add s s-r -- lsp-set-type s-r router -- lsp-set-addresses s-r router",
    "lsp-set-options s-r router-port=r-s",
    "ls-add out -- lrp-add r r-out 02:00:00:00:01:02 192.0.2.254/24",
    "lrp-set-gateway-chassis r-out c1",
    "lsp-add out out-r -- lsp-set-type out-r router -- lsp-set-addresses out-r router",
    "lsp-set-options out-r router-port=r-out",
    "lr-route-add r 198.51.100.0/24 192.0.2.1",
    "lr-policy-add r 100 'ip4.dst == 10.9.0.1' reroute 10.0.0.1",
    "acl-add s to-lport 1002 'outport == \"b\" && tcp.dst == {80, 443}' allow-related",
    "acl-add s to-lport 1001 'outport == \"b\" && ip4.src == 10.0.0.9' drop",
    "lb-add lb 10.0.0.100:80 10.0.0.2:8080 -- ls-lb-add s lb",
    "lr-nat-add r snat 192.0.2.9 10.0.0.0/24",
    "set logical_switch_port a options:requested-tnl-key=7",
    "set logical_switch_port b 'port_security=\"02:00:00:00:00:02 10.0.0.0/28\"'",
];

/// A packet from the machine a to b.
const TO_B: &str = "inport == \"a\" && eth.src == 02:00:00:00:00:01 && eth.dst == \
    02:00:00:00:00:02 && ip4.src == 10.0.0.1 && ip4.dst == 10.0.0.2 && ip.ttl == 64 && tcp.dst == 22";
/// A packet from the machine a to 10.0.0.101, by the router.
const TO_VIP: &str = "inport == \"a\" && eth.src == 02:00:00:00:00:01 && eth.dst == \
    02:00:00:00:01:01 && ip4.src == 10.0.0.1 && ip4.dst == 10.0.0.101 && ip.ttl == 64 && tcp.dst == 80";
/// A packet from the machine b to a.
const FROM_B: &str = "inport == \"b\" && eth.src == 02:00:00:00:00:02 && eth.dst == \
    02:00:00:00:00:01 && ip4.src == 10.0.0.2 && ip4.dst == 10.0.0.1 && ip.ttl == 64 && tcp.dst == 80";

/// What the programs do with the rows of a finding.
enum Evidence {
    /// ovn-northd logs a text.
    Warns(&'static str),
    /// The output of ovn-sbctl has a text.
    Has(&'static [&'static str], &'static str),
    /// The output of ovn-sbctl has no such text.
    Lacks(&'static [&'static str], &'static str),
    /// Two flows with a text, between which OVN leaves the choice open.
    Twice(&'static str),
    /// ovn-trace prints a text about a packet.
    Traces(&'static str, &'static str),
    /// ovn-trace does not print a text about a packet.
    TracesNo(&'static str, &'static str),
}

use Evidence::{Has, Lacks, Traces, TracesNo, Twice, Warns};

/// Rows that a rule finds, and similar ones that it does not.
struct Case {
    rule: &'static str,
    bad: &'static [&'static str],
    good: &'static [&'static str],
    evidence: Evidence,
}

const FLOWS: &[&str] = &["lflow-list"];
const BINDINGS: &[&str] = &["--columns=logical_port,options,tunnel_key", "list", "Port_Binding"];

const CASES: &[Case] = &[
    Case {
        rule: "NB1",
        bad: &["acl-add s to-lport 900 'ip4 & tcp' drop"],
        good: &["acl-add s to-lport 900 'ip4 && tcp' allow"],
        evidence: Traces(TO_B, "`&' is only valid as part of `&&'"),
    },
    Case {
        rule: "NB2",
        bad: &["acl-add s to-lport 900 'ip4.src == $nothing' drop"],
        good: &[
            "create address_set name=set 'addresses=\"10.0.0.7\"'",
            "acl-add s to-lport 900 'ip4.src == $set' drop",
        ],
        evidence: Traces(TO_B, "expecting address set name"),
    },
    Case {
        rule: "NB3",
        bad: &["acl-add s to-lport 900 'outport == \"gone\" && ip4' drop"],
        good: &["acl-add s to-lport 900 'outport == \"a\" && is_chassis_resident(\"x\")' drop"],
        evidence: TracesNo(TO_B, "outport == \"gone\""),
    },
    Case {
        rule: "NB4",
        bad: &["lr-route-add r 10.9.0.0/16 203.0.113.1"],
        good: &["lr-route-add r 10.9.0.0/16 203.0.113.1 r-out"],
        evidence: Warns("No path for static route 10.9.0.0/16 on router r; next hop 203.0.113.1"),
    },
    Case {
        rule: "NB5",
        bad: &["-- --id=@p create logical_router_static_route 'ip_prefix=\"10.78.0.0/33\"' \
                'nexthop=\"10.0.0.1\"' -- add logical_router r static_routes @p"],
        good: &["lr-route-add r 10.78.0.0/16 10.0.0.1"],
        evidence: Warns("bad 'ip_prefix' 10.78.0.0/33 in static route"),
    },
    Case {
        rule: "NB6",
        bad: &["lrp-add r r-x 02:00:00:00:01:08 10.1.0.1/24 peer=nobody"],
        good: &[
            "lr-add r2 -- lrp-add r2 r2-x 02:00:00:00:01:09 10.1.0.2/24 peer=r-x",
            "lrp-add r r-x 02:00:00:00:01:08 10.1.0.1/24 peer=r2-x",
        ],
        evidence: Lacks(BINDINGS, "peer=nobody"),
    },
    Case {
        rule: "NB7",
        bad: &["lsp-add s s-q -- lsp-set-type s-q router -- lsp-set-options s-q router-port=gone"],
        good: &[
            "lrp-add r r-q 02:00:00:00:01:08 10.1.0.1/24",
            "lsp-add s s-q -- lsp-set-type s-q router -- lsp-set-options s-q router-port=r-q",
        ],
        evidence: Lacks(&["--columns=logical_port", "list", "Port_Binding"], ": gone"),
    },
    Case {
        rule: "NB8",
        bad: &["lrp-add r r-q 02:00:00:00:01:08 10.1.0.1/24"],
        good: &[],
        evidence: Lacks(BINDINGS, "peer=r-q"),
    },
    Case {
        rule: "NB9",
        bad: &["lsp-add s s-q -- lsp-set-type s-q router -- lsp-set-options s-q router-port=r-s"],
        good: &[],
        evidence: Twice("peer=r-s"),
    },
    Case {
        rule: "NB10",
        bad: &["lsp-add s x -- set logical_switch_port x type=nonsense"],
        good: &["lsp-add s x -- set logical_switch_port x type=localport"],
        evidence: Warns("Unknown port type 'nonsense' set on logical switch 'x'"),
    },
    Case {
        rule: "NB11",
        bad: &["lsp-add s x -- lsp-set-type x localnet -- lsp-set-addresses x unknown"],
        good: &["lsp-add s x -- lsp-set-type x localnet -- lsp-set-options x network_name=n"],
        evidence: Lacks(BINDINGS, "network_name="),
    },
    Case {
        rule: "NB12",
        bad: &["lsp-add s x -- set logical_switch_port x parent_name=gone tag=4"],
        good: &["lsp-add s x a 4"],
        evidence: Lacks(&["--columns=logical_port", "list", "Port_Binding"], ": gone"),
    },
    Case {
        rule: "NB13",
        bad: &[
            "lsp-add s x -- set logical_switch_port x 'addresses=\"02:00:00:00:00:0z 10.0.0.7\"'",
        ],
        good: &["lsp-add s x -- lsp-set-addresses x '02:00:00:00:00:07 10.0.0.7'"],
        evidence: Lacks(FLOWS, "10.0.0.7"),
    },
    Case {
        rule: "NB14",
        bad: &[
            "lsp-add s x -- set logical_switch_port x 'addresses=\"02:00:00:00:00:07 10.0.0.2\"'",
        ],
        good: &["lsp-add s x -- lsp-set-addresses x '02:00:00:00:00:07 10.0.0.7'"],
        evidence: Twice(
            "arp.tpa == 10.0.0.2 && arp.op == 1 && eth.dst == ff:ff:ff:ff:ff:ff), action=(eth.dst",
        ),
    },
    Case {
        rule: "NB15",
        bad: &[
            "lsp-add s x -- set logical_switch_port x 'addresses=\"02:00:00:00:00:02 10.0.0.7\"'",
        ],
        good: &[],
        evidence: Twice("priority=50   , match=(eth.dst == 02:00:00:00:00:02)"),
    },
    Case {
        rule: "NB16",
        bad: &["set logical_switch_port b 'port_security=\"02:00:00:00:00:08\"'"],
        good: &["set logical_switch_port b 'port_security=\"02:00:00:00:00:02\"'"],
        evidence: TracesNo(FROM_B, "output to \"a\""),
    },
    Case {
        rule: "NB17",
        bad: &[
            "lrp-add r r-q 02:00:00:00:01:08 10.0.0.253/24",
            "ls-add q -- lsp-add q q-r -- lsp-set-type q-r router -- lsp-set-options q-r router-port=r-q",
        ],
        good: &[],
        evidence: Twice("match=(ip4.dst == 10.0.0.0/24)"),
    },
    Case {
        rule: "NB18",
        bad: &[
            "lrp-add r r-q 02:00:00:00:01:08 10.0.0.253/16",
            "ls-add q -- lsp-add q q-r -- lsp-set-type q-r router -- lsp-set-options q-r router-port=r-q",
        ],
        good: &[
            "lrp-add r r-q 02:00:00:00:01:08 10.2.0.253/16",
            "ls-add q -- lsp-add q q-r -- lsp-set-type q-r router -- lsp-set-options q-r router-port=r-q",
        ],
        evidence: Has(FLOWS, "priority=134  , match=(ip4.dst == 10.0.0.0/16)"),
    },
    Case {
        rule: "NB19",
        bad: &["acl-add s to-lport 1001 'outport == \"b\" && ip4' allow"],
        good: &["acl-add s to-lport 1001 'outport == \"a\" && ip4' allow"],
        evidence: Twice("priority=2001 , match=(reg"),
    },
    Case {
        rule: "NB20",
        bad: &["lr-policy-add r 90 'ip4.dst  == 10.9.0.1' drop"],
        good: &["lr-policy-add r 90 'ip4.dst == 10.9.0.2' drop"],
        evidence: Has(FLOWS, "priority=90   , match=(ip4.dst  == 10.9.0.1)"),
    },
    Case {
        rule: "NB21",
        bad: &["set logical_switch_port b options:requested-tnl-key=40000"],
        good: &["set logical_switch_port b options:requested-tnl-key=32767"],
        evidence: Warns("40000 is not in the valid range 1 to 32767"),
    },
    Case {
        rule: "NB22",
        bad: &["set logical_switch_port b options:requested-tnl-key=7"],
        good: &["set logical_switch_port b options:requested-tnl-key=8"],
        evidence: Warns("requests same tunnel key 7 as another LSP or LRP"),
    },
    Case {
        // With tunnels of vxlan, 4,100 switches make ovn-northd log `all datapath tunnel ids exhausted`.
        rule: "NB23",
        bad: &["set nb_global . options:max_tunid=3"],
        good: &["set nb_global . options:max_tunid=4000"],
        evidence: Has(&["--columns=tunnel_key", "list", "Datapath_Binding"], ": 3"),
    },
    Case {
        rule: "NB24",
        bad: &["-- --id=@l create load_balancer name=e 'vips:\"10.0.0.101:80\"=\"\"' -- add \
                logical_switch s load_balancer @l"],
        good: &[],
        evidence: Traces(TO_VIP, "drop;"),
    },
    Case {
        rule: "NB25",
        bad: &["-- --id=@l create load_balancer name=e options:reject=true \
                'vips:\"10.0.0.101:80\"=\"\"' -- add logical_switch s load_balancer @l"],
        good: &[],
        evidence: Has(FLOWS, "reject { outport <-> inport;"),
    },
    Case {
        rule: "NB26",
        bad: &["lb-add lb2 10.0.0.100:80 10.0.0.1:8080 -- ls-lb-add s lb2"],
        good: &["lb-add lb2 10.0.0.100:80 10.0.0.1:8080 udp -- ls-lb-add s lb2"],
        evidence: Twice(
            "(ls_in_lb           ), priority=120  , match=(ct.new && ip4.dst == 10.0.0.100",
        ),
    },
    Case {
        rule: "NB27",
        bad: &["lb-add lb2 10.0.0.101:80 10.0.0.1:8080"],
        good: &["lb-add lb2 10.0.0.101:80 10.0.0.1:8080 -- lr-lb-add r lb2"],
        evidence: Lacks(FLOWS, "10.0.0.101"),
    },
    Case {
        rule: "NB28",
        bad: &[
            "lr-add r2",
            "-- --id=@n create NAT type=snat 'external_ip=\"192.0.2.77\"' 'logical_ip=\"10.0.0.0/24\"' \
             -- add logical_router r2 nat @n",
        ],
        good: &[
            "lr-add r2 -- set logical_router r2 options:chassis=c1 -- lr-nat-add r2 snat 192.0.2.77 10.0.0.0/24",
        ],
        evidence: Lacks(FLOWS, "ct_snat(192.0.2.77)"),
    },
    Case {
        rule: "NB29",
        bad: &[
            "-- --id=@n create NAT type=snat 'external_ip=\"192.0.2.8\"' 'logical_ip=\"10.0.0.0/24\"' \
                -- add logical_router r nat @n",
        ],
        good: &["lr-nat-add r dnat_and_snat 192.0.2.8 10.0.0.1"],
        evidence: Twice(
            "(lr_out_snat        ), priority=153  , match=(ip && ip4.src == 10.0.0.0/24",
        ),
    },
    Case {
        rule: "NB30",
        bad: &["--route-table=t lr-route-add r 10.80.0.0/16 10.0.0.1"],
        good: &[
            "--route-table=t lr-route-add r 10.80.0.0/16 10.0.0.1",
            "set logical_router_port r-s options:route_table=t",
        ],
        evidence: Lacks(FLOWS, "action=(reg7 = 1; next;)"),
    },
    Case {
        rule: "NB31",
        bad: &[
            "-- --id=@d create dhcp_options 'cidr=\"10.0.0.0/24\"' 'options:router=\"10.0.0.254\"' \
                -- set logical_switch_port a dhcpv4_options=@d",
        ],
        good: &[
            "-- --id=@d create dhcp_options 'cidr=\"10.0.0.0/24\"' 'options:server_id=\"10.0.0.254\"' \
                 'options:server_mac=\"02:00:00:00:01:01\"' options:lease_time=60 \
                 -- set logical_switch_port a dhcpv4_options=@d",
        ],
        evidence: Warns("Required DHCPv4 options not defined for lport - \"a\""),
    },
    Case {
        rule: "NB32",
        bad: &["--tier=1 acl-add s to-lport 1001 'outport == \"a\" && ip4' drop"],
        good: &["acl-add s to-lport 1001 'outport == \"a\" && ip4' drop"],
        evidence: Has(FLOWS, "reg8[30..31] == 1"),
    },
];

/// Databases of a release.
struct Programs {
    release: Release,
    server: RealServer,
}

impl Programs {
    /// Databases with the healthy rows.
    fn start(release: &Release) -> Self {
        let programs = Self { release: release.clone(), server: start_server(release) };
        programs.nbctl(&HEALTHY.join(" -- "));
        programs
    }

    fn nbctl(&self, command: &str) {
        let words = words(command);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (is_done, output) = self.output("ovn-nbctl", &words);
        assert!(is_done, "{command}: {output}");
    }

    /// `true` if a program succeeds, and its output.
    fn output(&self, program: &str, arguments: &[&str]) -> (bool, String) {
        let mut command = self.release.command(program);
        command.arg(format!("--db={}", self.server.remote())).args(arguments);
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    }

    fn lint(&self) -> Findings {
        lint_rows(&read_northbound(&self.server), None, Some("23.03".parse().unwrap()))
    }

    fn check(&self, northd: &Northd, evidence: &Evidence) -> Result<(), String> {
        if let Warns(text) = evidence {
            let deadline = Instant::now() + Duration::from_secs(60);
            while !northd.warnings().iter().any(|line| line.contains(text)) {
                if Instant::now() > deadline {
                    return Err(format!("no warning {text}: {:#?}", northd.warnings()));
                }
                thread::sleep(Duration::from_millis(20));
            }
            return Ok(());
        }
        self.nbctl("--timeout=60 --wait=sb sync");
        let (text, output, expected) = match *evidence {
            Has(arguments, text) => (text, self.output("ovn-sbctl", arguments).1, 1..),
            Lacks(arguments, text) => {
                let output = self.output("ovn-sbctl", arguments).1;
                return if output.contains(text) { Err(output) } else { Ok(()) };
            }
            Twice(text) => {
                let of_ports = self.output("ovn-sbctl", BINDINGS).1;
                (text, self.output("ovn-sbctl", FLOWS).1 + &of_ports, 2..)
            }
            Traces(packet, text) => {
                (text, self.output("ovn-trace", &["--ct=new", "s", packet]).1, 1..)
            }
            TracesNo(packet, text) => {
                let output = self.output("ovn-trace", &["--ct=new", "s", packet]).1;
                return if output.contains(text) { Err(output) } else { Ok(()) };
            }
            Warns(_) => return Ok(()),
        };
        if expected.contains(&output.matches(text).count()) { Ok(()) } else { Err(output) }
    }
}

/// Words of a line, with quotes as in a shell.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for character in line.chars() {
        match character {
            '\'' => is_quoted = !is_quoted,
            ' ' | '\n' if !is_quoted => words.push(String::new()),
            other => words.last_mut().unwrap().push(other),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn rules(findings: &Findings) -> BTreeSet<&'static str> {
    findings.findings.iter().map(|finding| finding.rule).collect()
}

#[test]
fn each_rule_finds_rows_that_ovn_does_not_honour() {
    let tested: Vec<&str> = CASES.iter().map(|case| case.rule).collect();
    let known: Vec<&str> = ROW_RULES.iter().map(|rule| rule.id).collect();
    assert_eq!(tested, known);
    let Some(release) = Release::newest() else {
        return;
    };
    let healthy = Programs::start(&release).lint();
    assert!(healthy.findings.is_empty(), "{healthy:#?}");
    let mut wrong = Vec::new();
    for Case { rule, bad, good, evidence } in CASES {
        let programs = Programs::start(&release);
        bad.iter().for_each(|command| programs.nbctl(command));
        let findings = programs.lint();
        if !rules(&findings).contains(rule) {
            wrong.push(format!("{rule}: not found: {findings:#?}"));
        }
        // ovn-northd waits for nothing once it cannot write, so it starts with healthy rows.
        let programs = Programs::start(&release);
        let northd = Northd::start(&release, &programs.server.remote());
        bad.iter().for_each(|command| programs.nbctl(command));
        if let Err(output) = programs.check(&northd, evidence) {
            wrong.push(format!("{rule}: no evidence: {output}"));
        }
        let programs = Programs::start(&release);
        good.iter().for_each(|command| programs.nbctl(command));
        let findings = programs.lint();
        if rules(&findings).contains(rule) {
            wrong.push(format!("{rule}: found in good rows: {findings:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Rows of a database that a `transact` request fills.
fn snapshot(request: &str) -> Snapshot {
    let mut uuids = UuidSource::seeded(1);
    let mut database = Database::with_uuids(nb::schema(), UuidSource::seeded(2));
    let text = TextBuf::parse(request.as_bytes().to_vec()).unwrap();
    let mut reader = Reader::new(text.as_text());
    assert!(reader.enter_array() && reader.next_element());
    reader.skip();
    let schema = database.schema().clone();
    let mut strings = StringCache::default();
    let mut decoded = decode_transaction(reader, &schema, &mut strings, &mut uuids);
    match database.execute(&mut decoded, &Access::unrestricted()) {
        Execution::Committed { .. } => database.snapshot(),
        _ => panic!("the request fails"),
    }
}

/// Findings about recorded databases: rules with texts of their findings. The recordings lack the
/// rows of the default network, so that matches name address sets and a port that are not there.
/// Both ports of a machine that migrates request one key.
const TRUE_FINDINGS: [(&str, &str); 4] = [
    ("NB2", "(EgressIP EIP-No-Reroute-Pod-To-"),
    ("NB3", "blue_p1"),
    ("NB22", "_virt-launcher-"),
    ("NB25", "has no backends: connections to it are refused"),
];

#[test]
fn recorded_databases_of_ovn_kubernetes_have_true_findings_only() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reconcile/tests/golden/udn");
    let states = RecordedState::read_folder(&folder);
    assert!(states.len() > 200, "{} states", states.len());
    let mut wrong = BTreeSet::new();
    for state in &states {
        let findings = lint_rows(&snapshot(&state.request()), None, None);
        for Finding { rule, object, message, .. } in findings.findings {
            let text = format!("{object}: {message}");
            let mut known = TRUE_FINDINGS.iter();
            if !known.any(|(id, part)| *id == rule && text.contains(part)) {
                wrong.insert(format!("{}: {rule} {text}", state.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
