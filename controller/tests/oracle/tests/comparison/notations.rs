//! Texts in rows that OVN reads in an unexpected way, or not at all, each in a small database.

use patchbay_oracle::{TraceOutcome, map, references};
use patchbay_ovn_programs::testing::Release;
use serde_json::{Value, json};

use super::features::{Network, WEB, ask, assert_same};

/// The row of `lr` has some rows in one column. Asserts where packets of `v1` go.
fn assert_output(
    release: &Release,
    (table, column): (&str, &str),
    row: &Value,
    (address, out): (&str, Option<&str>),
) {
    let mut network = Network::new(json!({}));
    let name = network.rows.insert(table, row.clone());
    network.columns["lr"] = json!({"options": map(&[("chassis", "c1")])});
    network.columns["lr"][column] = references(&[name]);
    let target = (address, "0a:00:00:00:01:01");
    let (answer, text) = ask(release, &network.finish(), target, WEB);
    // ovn-trace shows the request of a router, and then the packet without a MAC address.
    if out.is_some() || !text.contains("arp {") {
        assert_same(&answer, &text);
    }
    assert_eq!(answer.out.as_deref(), out, "{row}\n{answer:#?}\n{text}");
}

#[test]
fn a_next_hop_with_a_prefix_length_needs_the_port() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (next_hop, port, out) in [
        ("10.2.0.2", None, Some("v3")),
        ("10.2.0.2/32", None, None),
        ("10.2.0.2/32", Some("rp2"), Some("v3")),
        ("10.2.0.2/24", Some("rp2"), None),
    ] {
        let mut row = json!({"ip_prefix": "20.0.0.5/16", "nexthop": next_hop});
        if let Some(port) = port {
            row["output_port"] = json!(port);
        }
        let place = ("Logical_Router_Static_Route", "static_routes");
        assert_output(&release, place, &row, ("20.0.0.5", out));
    }
}

#[test]
fn a_rule_whose_action_ovn_cannot_read_translates_nothing() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (logical, range, out) in [
        ("10.1.0.3", "", Some("v2")),
        ("10.1.0.3", "80", Some("v2")),
        ("10.1.0.3", "80-2000", Some("v2")),
        ("10.1.0.3", "2000-1024", None),
        ("10.1.0.3", "0-1024", None),
        ("10.1.0.3", "x", None),
        ("10.1.0.3/32", "", None),
    ] {
        let row = json!({"type": "dnat", "external_ip": "10.2.0.8", "logical_ip": logical,
            "external_port_range": range});
        assert_output(&release, ("NAT", "nat"), &row, ("10.2.0.8", out));
    }
}

#[test]
fn a_rule_for_sources_has_an_external_address_without_a_prefix_length() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (external, source) in [("10.2.0.8", Some("10.2.0.8")), ("10.2.0.8/32", None)] {
        let mut network = Network::new(json!({}));
        let row = json!({"type": "snat", "external_ip": external, "logical_ip": "10.1.0.0/24"});
        let rule = network.rows.insert("NAT", row);
        network.columns["lr"] = json!({"nat": references(&[rule]),
            "options": map(&[("chassis", "c1")])});
        let target = ("10.2.0.2", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_same(&answer, &text);
        let own = answer.source.map(|source| source.to_string());
        assert_eq!(own.as_deref(), source, "{answer:#?}");
        let traced = TraceOutcome::read(&text).source;
        assert_eq!(traced.as_deref(), source, "{text}");
    }
}

#[test]
fn a_vip_whose_backends_have_spaces_between_them_is_bad() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (backends, out) in [
        ("10.1.0.3:80,10.1.0.3:80", Some("v2")),
        ("10.1.0.3:80, 10.1.0.3:80", None),
        (" 10.1.0.3:80", None),
    ] {
        let row = json!({"name": "lb", "vips": map(&[("10.96.0.1:80", backends)])});
        let mut network = Network::new(json!({}));
        let balancer = network.rows.insert("Load_Balancer", row);
        network.columns["s1"] = json!({"load_balancer": references(&[balancer])});
        let target = ("10.96.0.1", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        let outputs = TraceOutcome::read(&text).outputs;
        let own: Vec<_> = answer.out.iter().cloned().collect();
        assert_eq!(own, outputs, "{answer:#?}\n{text}");
        assert_eq!(answer.out.as_deref(), out, "{backends} {answer:#?}");
    }
}
