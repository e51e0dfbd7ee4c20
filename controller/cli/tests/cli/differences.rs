//! `patchbay reach --diff` and `--expect`: ways that open or close, and expectations as a gate.

use std::fs;
use std::path::{Path, PathBuf};

use ovsdb_sim::Sim;
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::nb::{Acl, AclAction, AclDirection, LogicalSwitch, LogicalSwitchPort};
use serde_json::Value;
use tempfile::TempDir;

use crate::command::{Run, patchbay};

/// Files of an example whose policy lets only the web server reach the database.
const SHOP: [&str; 4] = ["1-cluster.yaml", "2-networks.yaml", "3-pods.yaml", "4-policy.yaml"];

/// The job for a repository of manifests.
const JOB: &str = include_str!("../../../../examples/ci/reach.yaml");

/// Folders `before` and `after`: the example without its policy, and with it.
fn shops() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop");
    for (name, files) in [("before", &SHOP[..3]), ("after", &SHOP[..])] {
        let folder = folder.path().join(name);
        fs::create_dir(&folder).unwrap();
        for file in files {
            fs::copy(shop.join(file), folder.join(file)).unwrap();
        }
    }
    folder
}

fn reach(folder: &Path, arguments: &str) -> Run {
    let mut command = patchbay();
    command.current_dir(folder).arg("reach").args(arguments.split_whitespace());
    command.output().unwrap().into()
}

/// A database file with a switch of three machines: `a` and `b` are equal. The last transaction is an
/// ACL that drops what is for `c`.
fn history(folder: &Path) -> PathBuf {
    let path = folder.join("nb.db");
    let sim = Sim::builder().seed(7).journal(&path).rows("OVN_Northbound", |txn| {
        let mut ports = std::collections::BTreeSet::new();
        for (name, host) in [("a", 1), ("b", 2), ("c", 3)] {
            ports.insert(txn.insert(&LogicalSwitchPort {
                name: name.into(),
                addresses: [format!("0a:00:00:00:00:0{host} 10.0.0.{host}")].into(),
                ..Default::default()
            })?);
        }
        txn.insert(&LogicalSwitch { name: "<s>".into(), ports, ..Default::default() })?;
        Ok(())
    });
    let sim = sim.build().unwrap();
    let database = sim.database("OVN_Northbound").unwrap();
    let snapshot = database.snapshot();
    let mut txn = TxnBuilder::new(&snapshot);
    let (switch, row) = snapshot.typed::<LogicalSwitch>().iter().next().unwrap().unwrap();
    let acl = txn.insert(&Acl {
        direction: AclDirection::ToLport,
        action: AclAction::Drop,
        priority: 1000,
        r#match: "outport == \"c\"".into(),
        external_ids: [
            ("k8s.ovn.org/owner-type".to_owned(), "NetworkPolicy".to_owned()),
            ("k8s.ovn.org/name".to_owned(), "shop:deny-<c>".to_owned()),
        ]
        .into(),
        ..Default::default()
    });
    let acls = [acl.unwrap()].into();
    txn.update(switch, &row, &LogicalSwitch { acls, ..row.clone() }).unwrap();
    database.transact(&txn.finish()).unwrap();
    drop(sim);
    path
}

#[test]
fn a_policy_closes_ways_and_is_named() {
    let folder = shops();
    let run = reach(folder.path(), "--diff before after --service-cidr 10.96.0.0/16");
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stdout.starts_with("0 ways open, "), "{}", run.stdout);
    assert!(run.stdout.contains("- partner/client -> shop/db: icmp, tcp "), "{}", run.stdout);
    assert!(!run.stdout.contains("shop/web -> shop/db"), "{}", run.stdout);
    assert!(run.stdout.contains("by:     NetworkPolicies of namespace shop\n"), "{}", run.stdout);
    let back = reach(folder.path(), "--diff after before --service-cidr 10.96.0.0/16");
    assert!(back.stdout.contains("+ partner/client -> shop/db: icmp, tcp "), "{}", back.stdout);
    assert!(back.stdout.contains("by:     NetworkPolicies of namespace shop\n"), "{}", back.stdout);
    let same = reach(folder.path(), "--diff after after --service-cidr 10.96.0.0/16");
    assert_eq!(same.code, Some(0), "{}{}", same.stdout, same.stderr);
    assert!(same.stdout.starts_with("0 ways open, 0 close: after -> after\n"), "{}", same.stdout);
}

#[test]
fn expectations_hold_or_name_the_packet() {
    let folder = shops();
    let expected = "# who may ask the database\n\
                    shop/web reaches shop/db tcp 5432\n\
                    partner never reaches shop/db   # not even with a ping\n\
                    partner/client reaches service/shop/web tcp 80\n";
    fs::write(folder.path().join("expected.txt"), expected).unwrap();
    let flags = "--service-cidr 10.96.0.0/16 --expect expected.txt";
    let held = reach(folder.path(), &format!("-f after {flags}"));
    assert_eq!(held.code, Some(0), "{}{}", held.stdout, held.stderr);
    assert!(held.stdout.ends_with("3 of 3 hold\n"), "{}", held.stdout);
    let failed = reach(folder.path(), &format!("-f before {flags}"));
    assert_eq!(failed.code, Some(2), "{}", failed.stderr);
    let line =
        "FAILED partner never reaches shop/db\n       partner/client -> shop/db: icmp: reaches: ";
    assert!(failed.stdout.contains(line), "{}", failed.stdout);
    assert!(failed.stdout.ends_with("2 of 3 hold\n"), "{}", failed.stdout);
    // With two sources, expectations are about the later one.
    let gate = reach(folder.path(), &format!("--diff before after {flags}"));
    assert_eq!(gate.code, Some(0), "{}", gate.stderr);
    let junit = reach(folder.path(), &format!("-f before {flags} -o junit"));
    assert!(junit.stdout.contains("tests=\"3\" failures=\"1\""), "{}", junit.stdout);
    let sarif: Value =
        serde_json::from_str(&reach(folder.path(), &format!("-f before {flags} -o sarif")).stdout)
            .unwrap();
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!(result["ruleId"], "expectation");
    let physical = &result["locations"][0]["physicalLocation"];
    assert_eq!(physical["artifactLocation"]["uri"], "expected.txt");
    assert_eq!(physical["region"]["startLine"], 3);
}

#[test]
fn expectations_that_cannot_be_checked_are_errors_with_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    history(folder.path());
    let expected = "a reach b\n\na reaches bb\na reaches a\na reaches b tcp\n";
    fs::write(folder.path().join("expected.txt"), expected).unwrap();
    let run = reach(folder.path(), "--file nb.db --expect expected.txt");
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    for line in [
        "expected.txt:1: expected `SENDER reaches DESTINATION",
        "expected.txt:3: no pod, network, namespace or switch port is named bb",
        "expected.txt:4: a and a are one machine",
        "expected.txt:5: \"tcp\" is no protocol",
    ] {
        assert!(run.stderr.contains(line), "{line}\n{}", run.stderr);
    }
    fs::write(folder.path().join("expected.txt"), "# nothing\n").unwrap();
    let empty = reach(folder.path(), "--file nb.db --expect expected.txt");
    assert_eq!(empty.code, Some(1));
    assert!(empty.stderr.contains("no expectation in it"), "{}", empty.stderr);
}

#[test]
fn moments_of_one_file_are_compared_in_all_formats() {
    let folder = tempfile::tempdir().unwrap();
    history(folder.path());
    let run = reach(folder.path(), "--diff nb.db@1 nb.db");
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    let expected = "0 ways open, 4 close: nb.db@1 -> nb.db\n";
    assert!(run.stdout.starts_with(expected), "{}", run.stdout);
    // Without connection tracking, the ACL drops replies for `c`, too. `a` and `b` are one class.
    assert!(run.stdout.contains("3 machines in both, 2 classes"), "{}", run.stdout);
    assert!(run.stdout.contains("\n- a, b -> c: icmp, tcp 1-65535\n"), "{}", run.stdout);
    assert!(run.stdout.contains("by:     NetworkPolicy shop/deny-<c>\n"), "{}", run.stdout);

    let json = reach(folder.path(), "--diff nb.db@1 nb.db -o json");
    let document: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(document["kind"], "ReachDifference");
    assert_eq!((&document["opens"], &document["closes"]), (&0.into(), &4.into()));
    assert_eq!(document["changes"][0]["change"], "closes");
    let markdown = reach(folder.path(), "--diff nb.db@1 nb.db -o markdown").stdout;
    let row = "| closes | a, b | c | icmp, tcp 1-65535 | NetworkPolicy shop/deny-&#60;c&#62; |";
    assert!(markdown.contains(row), "{markdown}");
    let junit = reach(folder.path(), "--diff nb.db@1 nb.db -o junit").stdout;
    assert!(junit.contains("tests=\"2\" failures=\"2\"") && !junit.contains("<c>"), "{junit}");
    let sarif = reach(folder.path(), "--diff nb.db@1 nb.db -o sarif").stdout;
    let sarif: Value = serde_json::from_str(&sarif).unwrap();
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "way-closes");
    let port = reach(folder.path(), "--diff nb.db@1 nb.db --port 80");
    assert!(port.stdout.contains("- a, b -> c: tcp 80\n"), "{}", port.stdout);

    for (arguments, error) in [
        ("--diff nb.db@0 nb.db", "no transaction up to --at"),
        ("--diff nb.db@x nb.db", "expected the number of a record"),
        ("--diff none nb.db", "none: No such file or directory"),
        ("--diff nb.db nb.db --file nb.db", "cannot be used with"),
        ("--from a --to b --file nb.db -o sarif", "are for --diff and --expect"),
    ] {
        let run = reach(folder.path(), arguments);
        assert!(run.stderr.contains(error), "{arguments}: {}", run.stderr);
        assert!(run.code != Some(0) && run.stdout.is_empty(), "{arguments}");
    }
}

#[test]
fn the_commands_of_the_example_job_run() {
    let folder = shops();
    let manifests = folder.path().join("manifests");
    let earlier = folder.path().join("before/manifests");
    fs::rename(folder.path().join("after"), &manifests).unwrap();
    fs::create_dir(&earlier).unwrap();
    for file in &SHOP[..3] {
        fs::rename(folder.path().join("before").join(file), earlier.join(file)).unwrap();
    }
    let expected = "partner/client never reaches shop/db\n";
    fs::write(folder.path().join("expected.txt"), expected).unwrap();
    let mut commands = JOB.lines().map(str::trim).filter(|line| line.starts_with("patchbay "));
    for _ in 0..2 {
        let script = commands.next().unwrap();
        let binary = Path::new(env!("CARGO_BIN_EXE_patchbay")).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        let mut shell = std::process::Command::new("sh");
        shell.args(["-ec", script]).current_dir(folder.path());
        shell.env("PATH", format!("{}:{path}", binary.display()));
        shell.env("GITHUB_STEP_SUMMARY", folder.path().join("summary.md"));
        let run = Run::from(shell.output().unwrap());
        assert_eq!(run.code, Some(0), "{script}: {}", run.stderr);
    }
    assert_eq!(commands.next(), None);
    let summary = fs::read_to_string(folder.path().join("summary.md")).unwrap();
    assert!(summary.contains("| closes | partner/client | shop/db |"), "{summary}");
    let report = fs::read_to_string(folder.path().join("reach.xml")).unwrap();
    assert!(report.contains("tests=\"1\" failures=\"0\""), "{report}");
}
