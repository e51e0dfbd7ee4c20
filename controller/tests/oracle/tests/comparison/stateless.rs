//! Load balancers of routers with `use_stateless_nat`, each in a small database.

use patchbay_oracle::{TraceOutcome, map, references};
use patchbay_ovn_programs::testing::Release;
use patchbay_reach::Answer;
use serde_json::json;

use super::features::{Network, WEB, ask, assert_same};

/// VIP and its backend.
type Pair = (&'static str, &'static str);

/// Place at which the router `lr` works.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Gateway,
    /// Packets of `v1` come in by the first of this number of gateway ports.
    Ports(usize),
}

/// A router with a load balancer that has `use_stateless_nat`.
#[derive(Clone, Copy, Debug)]
struct Setup {
    kind: Kind,
    /// `ct-commit-all` of the router.
    commits: bool,
    vips: &'static [Pair],
    protocol: &'static str,
    options: &'static [(&'static str, &'static str)],
    /// `true` if health checks leave out all backends of the first VIP.
    is_checked: bool,
    /// VIPs of another load balancer, without the option.
    others: &'static [Pair],
    /// External and logical address of a rule that translates sources.
    rule: Option<Pair>,
}

/// The VIP without a port has the backend `v3`.
const SETUP: Setup = Setup {
    kind: Kind::Ports(1),
    commits: false,
    vips: &[PLAIN],
    protocol: "tcp",
    options: &[],
    is_checked: false,
    others: &[],
    rule: None,
};
const PLAIN: Pair = ("10.96.0.1", "10.2.0.2");
const WITH_PORT: Pair = ("10.96.0.1:80", "10.2.0.2:80");
const OTHER_PORT: Pair = ("10.96.0.1:53", "10.2.0.2:53");

/// The answers for a packet of `v1` to port 80 of an address.
fn ask_router(release: &Release, setup: Setup, address: &str) -> (Answer, String) {
    let mut network = Network::new(json!({}));
    let mut options = vec![("ct-commit-all", if setup.commits { "true" } else { "false" })];
    match setup.kind {
        Kind::Gateway => options.push(("chassis", "c1")),
        Kind::Ports(count) => {
            for number in 1..=count {
                let name = format!("gc{number}");
                let row = json!({"name": name, "chassis_name": "c1", "priority": 1});
                let chassis = network.rows.insert("Gateway_Chassis", row);
                let columns = json!({"gateway_chassis": references(&[chassis])});
                network.columns[format!("rp{number}")] = columns;
            }
        }
    }
    let own = [setup.options, &[("use_stateless_nat", "true")]].concat();
    let checks: Vec<_> = setup
        .is_checked
        .then(|| {
            let row = json!({"vip": setup.vips[0].0});
            network.rows.insert("Load_Balancer_Health_Check", row)
        })
        .into_iter()
        .collect();
    let balancers = [
        json!({"name": "lb", "vips": map(setup.vips), "protocol": setup.protocol,
            "options": map(&own), "health_check": references(&checks)}),
        json!({"name": "other", "vips": map(setup.others)}),
    ]
    .map(|row| network.rows.insert("Load_Balancer", row));
    let rules: Vec<_> = setup
        .rule
        .map(|(external, logical)| {
            let row = json!({"type": "snat", "external_ip": external, "logical_ip": logical});
            network.rows.insert("NAT", row)
        })
        .into_iter()
        .collect();
    network.columns["lr"] = json!({"load_balancer": references(&balancers),
        "nat": references(&rules), "options": map(&options)});
    let target = (address, "0a:00:00:00:01:01");
    let (answer, text) = ask(release, &network.finish(), target, WEB);
    assert_same(&answer, &text);
    (answer, text)
}

/// Asserts where packets for the VIP go.
fn assert_outputs(setups: &[(Setup, Option<&str>)]) {
    let Some(release) = Release::newest() else {
        return;
    };
    for (setup, out) in setups {
        let (answer, text) = ask_router(&release, *setup, "10.96.0.1");
        assert_eq!(answer.out.as_deref(), *out, "{setup:?}\n{answer:#?}\n{text}");
    }
}

#[test]
fn a_router_serves_packets_that_it_tracks_for_another_reason_by_addresses() {
    let commits = Setup { commits: true, ..SETUP };
    assert_outputs(&[
        (SETUP, None),
        (commits, Some("v3")),
        (Setup { kind: Kind::Gateway, ..commits }, Some("v3")),
        (Setup { vips: &[WITH_PORT], ..commits }, None),
        (Setup { vips: &[("10.96.0.1:80", "10.1.0.3:80"), PLAIN], ..commits }, Some("v3")),
    ]);
}

#[test]
fn a_load_balancer_with_state_serves_by_addresses_beside_one_without() {
    let beside = |others| Setup { vips: &[OTHER_PORT], others, ..SETUP };
    assert_outputs(&[
        (beside(&[WITH_PORT]), None),
        (beside(&[PLAIN]), Some("v3")),
        (Setup { vips: &[PLAIN], ..beside(&[OTHER_PORT]) }, Some("v3")),
    ]);
}

/// Packets for the external address of the rule could be answers, apart from those for a VIP.
#[test]
fn a_router_tracks_packets_that_could_be_answers_but_not_those_for_a_vip() {
    let rule = |kind, protocol| Setup {
        kind,
        protocol,
        rule: Some(("10.96.0.1", "10.9.0.0/24")),
        ..SETUP
    };
    assert_outputs(&[
        (rule(Kind::Ports(1), "tcp"), None),
        (rule(Kind::Gateway, "tcp"), None),
        (rule(Kind::Ports(1), "udp"), Some("v3")),
        (rule(Kind::Gateway, "udp"), Some("v3")),
    ]);
}

#[test]
fn a_router_with_two_gateway_ports_translates_without_state() {
    let two = Setup { kind: Kind::Ports(2), ..SETUP };
    let without = |options| Setup { vips: &[("10.96.0.1:80", "")], options, ..two };
    assert_outputs(&[
        (two, Some("v3")),
        (Setup { vips: &[WITH_PORT], ..two }, Some("v3")),
        (Setup { is_checked: true, ..two }, Some("v3")),
        (Setup { is_checked: true, commits: true, ..SETUP }, None),
        (Setup { vips: &[OTHER_PORT], others: &[WITH_PORT], ..two }, None),
        (without(&[]), None),
        (without(&[("reject", "true")]), None),
        (without(&[("event", "true")]), None),
    ]);
}

/// `v1` is the backend.
#[test]
fn a_backend_that_seems_to_answer_gets_the_address_of_the_vip() {
    let Some(release) = Release::newest() else {
        return;
    };
    let two = Setup { kind: Kind::Ports(2), vips: &[("10.96.0.1", "10.1.0.2")], ..SETUP };
    let rule = |logical| Setup { rule: Some(("10.2.0.8", logical)), ..two };
    for (setup, source) in [
        (two, Some("10.96.0.1")),
        (Setup { kind: Kind::Ports(1), ..two }, None),
        (Setup { vips: &[("10.96.0.1:80", "10.1.0.2:80")], ..two }, None),
        (Setup { is_checked: true, ..two }, Some("10.96.0.1")),
        (rule("10.1.0.0/24"), Some("10.96.0.1")),
        (rule("10.1.0.2"), Some("10.2.0.8")),
    ] {
        let (answer, text) = ask_router(&release, setup, "10.2.0.2");
        let traced = TraceOutcome::read(&text).source;
        assert_eq!(traced.as_deref(), source, "{setup:?}\n{text}");
        let own = answer.source.map(|source| source.to_string());
        assert_eq!(own.as_deref(), source, "{setup:?}\n{answer:#?}");
    }
}
