//! Templates of load balancers: their variables and address families.

use patchbay_oracle::{map, references};
use patchbay_ovn_programs::testing::Release;
use serde_json::json;

use super::features::{Network, WEB, ask, assert_same};

/// Adds the template of a load balancer, and variables. Returns the row of the template.
fn insert_template(network: &mut Network, vip: (&str, &str), family: Option<&str>) -> String {
    let family = family.map(|family| ("address-family", family));
    insert_mapped(network, vip, family, &[])
}

/// Adds the template of a load balancer with an option and ports of backends, and variables.
fn insert_mapped(
    network: &mut Network,
    vip: (&str, &str),
    option: Option<(&str, &str)>,
    ports: &[(&str, &str)],
) -> String {
    let variables = [("VIP", "10.2.0.2"), ("PORT", "80"), ("BACKENDS", "10.1.0.3:80")];
    let row = json!({"chassis": "c1", "variables": map(&variables)});
    network.rows.insert("Chassis_Template_Var", row);
    let mut options = vec![("template", "true")];
    options.extend(option);
    let row = json!({"name": "lb", "vips": map(&[vip]), "options": map(&options),
        "ip_port_mappings": map(ports)});
    network.rows.insert("Load_Balancer", row)
}

/// Asserts where a packet of `v1` for port 80 of `v3` goes if `s1` has the template. The switch
/// drops what it tracks and does not balance.
fn assert_out(vip: (&str, &str), family: Option<&str>, out: Option<&str>) {
    let Some(release) = Release::newest() else {
        return;
    };
    let mut network = Network::new(json!({}));
    let balancer = insert_template(&mut network, vip, family);
    let row = json!({"direction": "from-lport", "priority": 1, "action": "drop",
        "match": "ct.trk && ip4.dst == 10.2.0.2", "options": map(&[("apply-after-lb", "true")])});
    let acl = network.rows.insert("ACL", row);
    network.columns = json!({"s1": {"load_balancer": references(&[balancer]),
        "acls": references(&[acl])}});
    let target = ("10.2.0.2", "0a:00:00:00:01:01");
    let (answer, text) = ask(&release, &network.finish(), target, WEB);
    assert_same(&answer, &text);
    assert_eq!(answer.out.as_deref(), out, "{vip:?} {answer:#?}");
}

#[test]
fn a_template_serves_the_addresses_of_its_family() {
    let all = ("^VIP:^PORT", "^BACKENDS");
    for family in [None, Some("ipv4")] {
        assert_out(all, family, Some("v2"));
    }
    assert_out(("^VIP:80", "10.1.0.3:80"), None, Some("v2"));
    assert_out(("10.2.0.2:^PORT", "^BACKENDS"), None, Some("v2"));
    for family in ["ipv6", "IPv4"] {
        assert_out(all, Some(family), None);
    }
}

#[test]
fn a_switch_tracks_for_vips_that_balance_nothing() {
    for vip in [
        ("^NONE:^PORT", "^BACKENDS"),
        ("^VIP:^PORT", "^NONE"),
        ("^VIP:^NONE", "^BACKENDS"),
        ("^VIP:80:80", "^BACKENDS"),
        ("^VIP:^PORT", "10.1.0.3"),
        ("^VIP", "10.1.0.3:80"),
    ] {
        assert_out(vip, None, None);
    }
}

/// A policy of the router drops what it tracks.
#[test]
fn a_router_tracks_for_vips_whose_port_or_backends_are_not_known() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (vip, out) in [
        (("^VIP:^NONE", "^BACKENDS"), None),
        (("^VIP:^PORT", "^NONE"), None),
        (("^NONE:^PORT", "^BACKENDS"), Some("v3")),
    ] {
        let mut network = Network::new(json!({}));
        let balancer = insert_template(&mut network, vip, None);
        let row = json!({"priority": 1, "action": "drop", "match": "ct.new"});
        let policy = network.rows.insert("Logical_Router_Policy", row);
        network.columns["lr"] = json!({"load_balancer": references(&[balancer]),
            "policies": references(&[policy])});
        let target = ("10.2.0.2", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_same(&answer, &text);
        assert_eq!(answer.out.as_deref(), out, "{vip:?} {answer:#?}");
    }
}

#[test]
fn a_distributed_template_knows_the_ports_of_addresses_in_brackets() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (backend, key, out) in [
        ("10.1.0.3:80", "10.1.0.3", None),
        ("10.1.0.3:80", "[10.1.0.3]", Some("v2")),
        ("^BACKENDS", "10.1.0.3", None),
        ("^BACKENDS", "[^BACKENDS]", Some("v3")),
    ] {
        let mut network = Network::new(json!({}));
        let vip = ("^VIP:^PORT", backend);
        let option = Some(("distributed", "true"));
        let balancer = insert_mapped(&mut network, vip, option, &[(key, "v2")]);
        network.columns["s1"] = json!({"load_balancer": references(&[balancer])});
        let target = ("10.2.0.2", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_same(&answer, &text);
        assert_eq!(answer.out.as_deref(), out, "{backend} {key} {answer:#?}");
    }
}
