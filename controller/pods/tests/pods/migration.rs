//! Live migration of virtual machines in a layer2 network.

use std::collections::BTreeSet;

use patchbay_schemas::nb::DhcpOptions;
use patchbay_zone::reported_problems;
use serde_json::{Value, json};

use crate::world::{World, key, pod, put, zone};

const SOURCE: &str = "green.l2_green_source";
const TARGET: &str = "green.l2_green_target";

fn machine(name: &str, node: &str, minute: u8) -> Value {
    let mut pod = pod("green", name, node);
    let networks = r#"{"green/l2":{"ip_addresses":["10.20.0.3/16","fd20::3/64"],"mac_address":"0a:58:0a:14:00:03","gateway_ips":["10.20.0.1","fd20::1"],"tunnel_id":10,"role":"primary"}}"#;
    let metadata = &mut pod["metadata"];
    metadata["creationTimestamp"] = json!(format!("2026-01-01T00:{minute:02}:00Z"));
    metadata["labels"]["kubevirt.io"] = json!("virt-launcher");
    metadata["annotations"] =
        json!({"kubevirt.io/domain": "vm", "k8s.ovn.org/pod-networks": networks});
    pod
}

/// Column `enabled` of source and target, and whether they have addresses.
fn states(world: &World) -> [Option<(Option<bool>, bool)>; 2] {
    [SOURCE, TARGET].map(|name| {
        let port = world.port(name)?;
        Some((port.enabled, !port.addresses.is_empty()))
    })
}

#[test]
fn a_failed_migration_enables_the_source() {
    // The target fails before and after it was ready, and is deleted then or at once.
    for (is_ready, fails) in [(false, true), (true, true), (true, false)] {
        let (mut zone, mut world) = (zone(), World::new());
        put(&mut zone, &machine("source", "n1", 0));
        world.settle(&zone);
        assert_eq!(states(&world), [Some((None, true)), None]);
        let mut target = machine("target", "n2", 1);
        put(&mut zone, &target);
        world.settle(&zone);
        assert_eq!(states(&world), [Some((None, true)), Some((Some(false), false))]);
        if is_ready {
            let ready = "kubevirt.io/migration-target-ready-timestamp";
            target["metadata"]["annotations"][ready] = json!("2026-01-01T00:02:00Z");
            put(&mut zone, &target);
            world.settle(&zone);
            assert_eq!(states(&world), [Some((Some(false), false)), Some((Some(true), true))]);
        }
        if fails {
            target["status"]["phase"] = json!("Failed");
            put(&mut zone, &target);
            world.settle(&zone);
            assert_eq!(states(&world), [Some((Some(true), true)), None]);
        }
        zone.remove_pod(&key("green", "target"));
        world.settle(&zone);
        assert_eq!(states(&world), [Some((Some(true), true)), None]);
    }
}

#[test]
fn a_target_without_a_source_is_enabled() {
    for is_deleted in [false, true] {
        let (mut zone, mut world) = (zone(), World::new());
        let mut source = machine("source", "n1", 0);
        put(&mut zone, &source);
        put(&mut zone, &machine("target", "n2", 1));
        world.settle(&zone);
        let disabled = Some((Some(false), false));
        assert_eq!(states(&world), [Some((None, true)), disabled]);
        if is_deleted {
            zone.remove_pod(&key("green", "source"));
        } else {
            source["status"]["phase"] = json!("Succeeded");
            put(&mut zone, &source);
        }
        world.settle(&zone);
        assert_eq!(states(&world), [None, Some((Some(true), true))]);
    }
}

#[test]
fn a_third_pod_waits_for_one_of_two_to_end() {
    let (mut zone, mut world) = (zone(), World::new());
    let mut source = machine("source", "n1", 0);
    put(&mut zone, &source);
    let mut target = machine("target", "n2", 1);
    let ready = "kubevirt.io/migration-target-ready-timestamp";
    target["metadata"]["annotations"][ready] = json!("2026-01-01T00:02:00Z");
    put(&mut zone, &target);
    world.settle(&zone);
    let migrated = [Some((Some(false), false)), Some((Some(true), true))];
    assert_eq!(states(&world), migrated);
    put(&mut zone, &machine("third", "n1", 2));
    world.settle(&zone);
    assert_eq!(states(&world), migrated);
    assert_eq!(world.port("green.l2_green_third"), None);
    let problems: Vec<String> =
        reported_problems(&world.controller).map(|problem| problem.to_string()).collect();
    assert_eq!(
        problems,
        [
            "Pod green/third: virtual machine green/vm has two older pods that are alive, so this one \
             has no port until one of them ends"
        ]
    );
    source["status"]["phase"] = json!("Succeeded");
    put(&mut zone, &source);
    world.settle(&zone);
    assert_eq!(states(&world), [None, Some((Some(true), true))]);
    let third = world.port("green.l2_green_third").unwrap();
    assert_eq!(third.enabled, Some(false));
}

#[test]
fn dhcp_options_of_both_families_go_with_the_machine() {
    let (mut zone, mut world) = (zone(), World::new());
    put(&mut zone, &machine("source", "n1", 0));
    world.settle(&zone);
    let rows = |world: &World| -> Vec<DhcpOptions> {
        let snapshot = world.database.snapshot();
        let rows = snapshot.typed::<DhcpOptions>();
        rows.iter().map(|row| row.unwrap().1).collect()
    };
    let made = rows(&world);
    // The service kube-dns is not there.
    assert!(made.iter().all(|row| !row.options.contains_key("dns_server")));
    let made = made.into_iter().map(|row| (row.cidr, row.options.get("router").cloned()));
    let expected =
        [("10.20.0.0/16".to_owned(), Some("10.20.0.1".to_owned())), ("fd20::/64".to_owned(), None)];
    assert_eq!(made.collect::<BTreeSet<_>>(), expected.into());
    let port = world.port(SOURCE).unwrap();
    assert!(port.dhcpv4_options.is_some() && port.dhcpv6_options.is_some());
    zone.remove_pod(&key("green", "source"));
    world.settle(&zone);
    assert_eq!(rows(&world).len(), 0);
    assert_eq!(world.port(SOURCE), None);
}
