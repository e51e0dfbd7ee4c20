//! Objects that cannot be read, on the rows of a real `ovsdb-server`: rows that may follow from one
//! stay, whatever `apply` may delete otherwise.

use std::process::Command;

use patchbay_ovn_programs::testing::{RealServer, ScratchDir};

use crate::command::{Run, nb_schema, run_on};

/// An object of each kind that rows may follow from.
const OBJECTS: &str = include_str!("../../../reconcile/tests/zones/each_kind.yaml");
/// Features and gateway mode with which all of them are used.
const FLAGS: &str = "--gateway-mode local --service-cidr 10.96.0.0/16 --enable multicast,\
                     egress-firewall,route-advertisements,evpn,egress-ip,admin-network-policy";

/// The objects, one a line.
fn objects() -> Vec<&'static str> {
    let lines = OBJECTS.lines();
    lines.filter(|line| line.starts_with('{')).collect()
}

/// The object with metadata that no API server accepts.
fn refused(object: &str) -> String {
    object.replacen("metadata: {", "metadata: {generateName: [], ", 1)
}

/// The manifests with one object refused.
fn manifests(index: usize) -> String {
    let objects = objects()
        .into_iter()
        .enumerate()
        .map(|(place, object)| if place == index { refused(object) } else { object.to_owned() });
    objects.collect::<Vec<_>>().join("\n---\n")
}

struct Zone {
    server: RealServer,
    folder: ScratchDir,
}

impl Zone {
    /// A database with the rows of all objects, which are recorded.
    fn new(flags: &str) -> Self {
        let zone = Self { server: RealServer::start([nb_schema()]), folder: ScratchDir::new() };
        let applied = zone.run(&format!("apply {flags}"), true, &objects().join("\n---\n"));
        assert_eq!(applied.code, Some(0), "{}", applied.stderr);
        zone
    }

    fn run(&self, command: &str, has_state: bool, manifests: &str) -> Run {
        let state = self.folder.path().join("state");
        let state = if has_state { format!("--state {}", state.display()) } else { String::new() };
        let remote = self.server.remote();
        let arguments = format!("{command} --zone n1 --nb {remote} {FLAGS} {state}");
        run_on(&arguments, manifests)
    }

    /// All rows with their UUIDs.
    fn rows(&self) -> Vec<String> {
        let output = Command::new("ovsdb-client")
            .args(["dump", "--format=csv", &self.server.remote(), "OVN_Northbound"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

#[track_caller]
fn assert_unchanged(before: &[String], after: &[String], context: &str) {
    let lost: Vec<_> = before.iter().filter(|row| !after.contains(row)).collect();
    let new: Vec<_> = after.iter().filter(|row| !before.contains(row)).collect();
    assert!(lost.is_empty() && new.is_empty(), "{context}\nlost {lost:#?}\nnew {new:#?}");
}

fn rows_stay(flags: &str) {
    let zone = Zone::new(flags);
    let before = zone.rows();
    assert!(before.len() > 300, "{}", before.len());
    for (index, object) in objects().into_iter().enumerate() {
        let manifests = manifests(index);
        for has_state in [true, false] {
            let command = format!("apply --prune --yes {flags}");
            let run = zone.run(&command, has_state, &manifests);
            let context = format!("with state {has_state}\n{object}\n{}", run.stderr);
            assert_eq!(run.code, Some(1), "{context}");
            assert!(run.stderr.contains("metadata.generateName"), "{context}");
            assert!(!run.stderr.contains("to delete: "), "{context}");
            assert_unchanged(&before, &zone.rows(), &context);
        }
    }
    let good = zone.run(&format!("apply {flags}"), true, &objects().join("\n---\n"));
    assert_eq!(good.code, Some(0), "{}", good.stderr);
    assert_unchanged(&before, &zone.rows(), "readable again");
}

#[test]
fn rows_that_may_follow_from_an_unreadable_object_stay() {
    rows_stay("");
}

#[test]
fn with_dynamic_allocation_they_stay_too() {
    rows_stay("--enable dynamic-udn-allocation");
}

/// Numbers and addresses of a node and of a pod are not given to others while the objects cannot be
/// read.
#[test]
fn an_unreadable_object_keeps_its_numbers_and_addresses() {
    let zone = Zone::new("");
    let before = zone.rows();
    for (name, other) in [("name: n2,", "name: n3,"), ("name: a,", "name: other,")] {
        let all = objects();
        let index = all.iter().position(|object| object.contains(name)).unwrap();
        let new = all[index]
            .replace(name, other)
            .replace("id: c2", "id: c3")
            .replace(", annotations: {k8s.ovn.org/primary-udn-ipamclaim: vm}", "");
        let with_new = format!("{}\n---\n{new}", manifests(index));
        let run = zone.run("apply", true, &with_new);
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        let good = zone.run("apply", true, &objects().join("\n---\n"));
        assert_eq!(good.code, Some(0), "{new}\n{}", good.stderr);
        assert_unchanged(&before, &zone.rows(), &new);
    }
}

#[test]
fn a_command_that_names_an_unreadable_object_has_its_error() {
    let unreadable = |text: &str| {
        let index = objects().iter().position(|object| object.contains(text));
        manifests(index.unwrap())
    };
    let connect = unreadable("kind: ClusterNetworkConnect");
    let reason = "cannot be read: metadata.generateName: expected a text, found a list\n";
    for (command, manifests, object) in [
        ("explain cnc c", &connect, "ClusterNetworkConnect c"),
        ("reach --from blue/a --to green/b", &unreadable("name: a,"), "Pod blue/a"),
        ("reach --from green/b --to blue/a", &unreadable("name: a,"), "Pod blue/a"),
        (
            "reach --from green/b --to svc/green/web",
            &unreadable("kind: Service"),
            "Service green/web",
        ),
    ] {
        let run = run_on(&format!("{command} {FLAGS}"), manifests);
        assert_eq!(run.code, Some(1), "{command}\n{}", run.stderr);
        let error = format!("error: {object} {reason}");
        assert!(run.stderr.ends_with(&error), "{command}\n{}", run.stderr);
    }
    // The others are not concerned.
    let explained = run_on(&format!("explain cnc d {FLAGS}"), &connect);
    assert!(explained.stderr.contains("not found"), "{}", explained.stderr);
}
