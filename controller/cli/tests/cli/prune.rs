//! Rows of objects that the manifests do not name.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use patchbay_ovn_programs::testing::{RealServer, ScratchDir, nbctl};

use crate::command::{Run, example, example_text, nb_schema, planned_zones, run, run_on};
use crate::demo::ROUTER;
use crate::watching::{Watching, copy_example};

/// What `plan` prints of a zone if no row changes.
const UNCHANGED: &str = "# zone ovn-worker2: rows to insert: 0, to change: 0, to delete: 0\n";
/// Line that names the flag which deletes rows.
const HINT: &str = "--prune deletes the rows of objects that the manifests do not name\n";

fn names(server: &RealServer, table: &str) -> String {
    let arguments = ["--bare", "--columns=name", "list", table];
    let output = nbctl(&server.remote()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// All rows of some tables, but for how they are ordered.
fn rows(server: &RealServer) -> Vec<String> {
    let tables = [
        "Logical_Router",
        "Logical_Router_Port",
        "Logical_Router_Policy",
        "Logical_Router_Static_Route",
        "Logical_Switch",
        "Logical_Switch_Port",
        "ACL",
        "NAT",
    ];
    let mut rows = Vec::new();
    for table in tables {
        let output =
            nbctl(&server.remote()).args(["--no-headings", "-f", "csv", "list", table]).output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        rows.extend(text.lines().map(|line| format!("{table}: {line}")));
    }
    rows.sort();
    rows
}

/// A command for the zone `ovn-worker2` of a server, with a state folder or without one.
fn command(command: &str, server: &RealServer, state: Option<&Path>) -> String {
    let state = state.map(|state| format!("--state {}", state.display()));
    let (state, remote) = (state.unwrap_or_default(), server.remote());
    format!("{command} --zone ovn-worker2 --nb {remote} {state}")
}

/// The example without the documents of which one of these texts is a part.
fn example_without(texts: &[&str]) -> String {
    let all = example_text();
    let documents = all.split("---\n");
    let left = documents.filter(|document| !texts.iter().any(|text| document.contains(text)));
    left.collect::<Vec<_>>().join("---\n")
}

fn without_connect() -> String {
    example_without(&["kind: ClusterNetworkConnect"])
}

#[track_caller]
fn assert_kept(run: &Run, objects: &[&str]) {
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for object in objects {
        let line = format!(
            "warning: zone ovn-worker2: kept, because the manifests do not name it: {object}: "
        );
        assert!(run.stderr.contains(&line), "{object}: {}", run.stderr);
    }
    assert!(run.stderr.ends_with(HINT), "{}", run.stderr);
}

#[test]
fn without_state_nothing_is_deleted_that_is_not_named() {
    let server = RealServer::start([nb_schema()]);
    run(&command("apply", &server, None), &[&example()]).succeeded();
    let before = rows(&server);

    let planned = run_on(&command("plan --rows", &server, None), &without_connect());
    assert_kept_plan(&planned, "ClusterNetworkConnect blue-green-connect: 18 rows in 5 tables");
    let applied = run_on(&command("apply", &server, None), &without_connect());
    assert_kept(&applied, &["ClusterNetworkConnect blue-green-connect"]);
    assert_eq!(rows(&server), before);

    // Two nodes and nothing else, as somebody's first manifests.
    let nodes = "apiVersion: v1\nkind: Node\nmetadata: {name: ovn-worker2}\n---\n\
                 apiVersion: v1\nkind: Node\nmetadata: {name: other}\n";
    let applied = run_on(&command("apply", &server, None), nodes);
    let networks = ["network cluster_udn_blue.network", "network cluster_udn_green.network"];
    assert_kept(&applied, &networks);
    assert_eq!(rows(&server), before);
}

#[track_caller]
fn assert_kept_plan(planned: &Run, object: &str) {
    assert_eq!(planned.code, Some(0), "{}", planned.stdout);
    let kept = planned_zones(&planned.stdout)
        .strip_prefix(UNCHANGED)
        .unwrap_or_else(|| panic!("{}", planned.stdout));
    assert!(kept.starts_with(&format!("= kept: {object}")), "{kept}");
}

#[test]
fn rows_are_pruned_after_a_question_only() {
    let server = RealServer::start([nb_schema()]);
    run(&command("apply", &server, None), &[&example()]).succeeded();
    let before = rows(&server);
    let planned = run_on(&command("plan --rows --prune", &server, None), &without_connect());
    assert_eq!(planned.code, Some(2), "{}", planned.stderr);
    let head = "# zone ovn-worker2: rows to insert: 0, to change: 4, to delete: 18\n";
    assert!(planned_zones(&planned.stdout).starts_with(head), "{}", planned.stdout);
    assert!(!planned.stdout.contains("= kept"), "{}", planned.stdout);

    for flags in ["apply --prune", "apply --prune --watch"] {
        let refused = run(&command(flags, &server, None), &[&example()]);
        assert_eq!((refused.code, &*refused.stdout), (Some(1), ""));
        assert!(refused.stderr.contains("--yes"), "{}", refused.stderr);
    }
    let refused = run(&command("apply --yes", &server, None), &[&example()]);
    assert_ne!(refused.code, Some(0));
    assert_eq!(rows(&server), before);

    let pruned = run_on(&command("apply --prune --yes", &server, None), &without_connect());
    assert_eq!(pruned.code, Some(0), "{}", pruned.stderr);
    let listed = "zone ovn-worker2: to delete: ClusterNetworkConnect blue-green-connect: 18 rows in 5 tables";
    assert!(pruned.stderr.starts_with(listed), "{}", pruned.stderr);
    assert_eq!(pruned.stderr.lines().count(), 1, "{}", pruned.stderr);
    assert!(!names(&server, "Logical_Router").contains(ROUTER));
    let planned = run_on(&command("plan --rows", &server, None), &without_connect()).succeeded();
    assert_eq!(planned_zones(&planned), UNCHANGED);
}

#[test]
fn rows_of_recorded_objects_go_and_others_stay() {
    let (server, folder) = (RealServer::start([nb_schema()]), ScratchDir::new());
    let state = folder.path().join("state");
    let with_state = |name: &str| command(name, &server, Some(&state));
    // A node that only another run names.
    let more =
        format!("{}---\napiVersion: v1\nkind: Node\nmetadata: {{name: theirs}}\n", example_text());
    run_on(&command("apply", &server, None), &more).succeeded();
    let of_node = |node: &str| {
        let ports = names(&server, "Logical_Router_Port");
        let ports = ports.split_whitespace();
        ports.filter(|port| port.ends_with(&format!("_{node}"))).count()
    };
    assert_ne!(of_node("theirs"), 0);

    let applied = run_on(&with_state("apply"), &example_text());
    assert_kept(&applied, &["Node theirs"]);
    assert_ne!(of_node("theirs"), 0);
    // A node that this run has applied.
    assert_ne!(of_node("ovn-control-plane"), 0);
    let fewer = example_without(&["name: ovn-control-plane"]);
    let applied = run_on(&with_state("apply"), &fewer);
    assert_kept(&applied, &["Node theirs"]);
    assert_eq!(of_node("ovn-control-plane"), 0);
    assert_ne!(of_node("theirs"), 0);

    // The connect goes as a whole, with the links to their node.
    let applied = run_on(&with_state("apply"), &without_connect());
    assert_eq!(applied.code, Some(0), "{}", applied.stderr);
    assert!(!names(&server, "Logical_Router").contains(ROUTER));
    assert!(!names(&server, "Logical_Router_Port").contains("blue-green-connect"));
}

#[test]
fn a_state_folder_without_records_keeps_what_it_does_not_know() {
    let (server, folder) = (RealServer::start([nb_schema()]), ScratchDir::new());
    let state = folder.path().join("state");
    run(&command("apply", &server, Some(&state)), &[&example()]).succeeded();
    fs::remove_dir_all(state.join("applied")).unwrap();
    let connect = ["ClusterNetworkConnect blue-green-connect"];
    let applied = run_on(&command("apply", &server, Some(&state)), &without_connect());
    assert_kept(&applied, &connect);
    // The objects of this run are recorded from now on.
    let nodes =
        example_without(&["kind: ClusterNetworkConnect", "kind: ClusterUserDefinedNetwork"]);
    let applied = run_on(&command("apply", &server, Some(&state)), &nodes);
    assert_kept(&applied, &connect);
    assert!(!names(&server, "Logical_Switch").contains("cluster_udn_blue"));
    assert!(names(&server, "Logical_Router").contains(ROUTER));
}

#[test]
fn a_record_is_of_one_zone() {
    let (first, second) = (RealServer::start([nb_schema()]), RealServer::start([nb_schema()]));
    let folder = ScratchDir::new();
    let state = format!("--state {}", folder.path().join("state").display());
    let of = |name: &str, zone: &str, server: &RealServer, state: &str| {
        format!("{name} --zone {zone} --nb {} {state}", server.remote())
    };
    run(&of("apply", "ovn-worker2", &first, &state), &[&example()]).succeeded();
    // Another program has written the rows of the other zone.
    run(&of("apply", "ovn-worker", &second, ""), &[&example()]).succeeded();
    let applied = run_on(&of("apply", "ovn-worker2", &first, &state), &without_connect());
    assert_eq!((applied.code, &*applied.stderr), (Some(0), ""));
    let applied = run_on(&of("apply", "ovn-worker", &second, &state), &without_connect());
    assert_eq!(applied.code, Some(0), "{}", applied.stderr);
    assert!(applied.stderr.ends_with(HINT), "{}", applied.stderr);
    assert!(!names(&first, "Logical_Router").contains(ROUTER));
    assert!(names(&second, "Logical_Router").contains(ROUTER));
}

#[test]
fn a_connect_disconnects_a_network_that_it_does_not_select() {
    let server = RealServer::start([nb_schema()]);
    run(&command("apply", &server, None), &[&example()]).succeeded();
    let manifests = example_text();
    // The definition stays, without the label that the connect selects.
    let mut documents: Vec<String> = manifests.split("---\n").map(str::to_owned).collect();
    let green = documents
        .iter_mut()
        .find(|document| {
            document.contains("kind: ClusterUserDefinedNetwork")
                && document.contains("green-network")
        })
        .unwrap();
    let other = green.replace("app: colored-enterprise", "app: other");
    assert_ne!(*green, other);
    *green = other;
    let applied = run_on(&command("apply", &server, None), &documents.join("---\n"));
    assert_eq!((applied.code, &*applied.stderr), (Some(0), ""));
    let ports = names(&server, "Logical_Router_Port");
    let links = ports.split_whitespace().filter(|port| port.starts_with("crtor-"));
    assert!(links.clone().count() > 0);
    assert!(links.clone().all(|port| port.contains("blue")), "{ports}");
}

#[test]
fn a_network_that_is_not_named_stays_connected() {
    let server = RealServer::start([nb_schema()]);
    run(&command("apply", &server, None), &[&example()]).succeeded();
    let before = rows(&server);
    let without = example_without(&["name: green-network"]);
    assert_ne!(without, example_text());
    let applied = run_on(&command("apply", &server, None), &without);
    let objects = ["network cluster_udn_green.network", "network with id 2"];
    assert_kept(&applied, &objects);
    let after = rows(&server);
    let lost: Vec<&String> = before.iter().filter(|row| !after.contains(row)).collect();
    assert!(lost.is_empty(), "{lost:#?}");
}

#[test]
fn a_file_that_disappears_takes_its_rows_with_it() {
    let (server, folder) = (RealServer::start([nb_schema()]), ScratchDir::new());
    copy_example(folder.path());
    let watching = Watching::start(folder.path(), &format!("-o json --nb {}", server.remote()));
    watching.document();
    assert!(names(&server, "Logical_Router").contains(ROUTER));
    fs::remove_file(folder.path().join("3-connect.yaml")).unwrap();
    watching.document();
    assert!(!names(&server, "Logical_Router").contains(ROUTER));
    watching.stop();
}

#[test]
fn on_a_terminal_the_user_is_asked() {
    let server = RealServer::start([nb_schema()]);
    run(&command("apply", &server, None), &[&example()]).succeeded();
    let folder = ScratchDir::new();
    let file = folder.path().join("manifests.yaml");
    fs::write(&file, without_connect()).unwrap();
    let pruning = format!(
        "{} {} -f {}",
        env!("CARGO_BIN_EXE_patchbay"),
        command("apply --prune", &server, None),
        file.display()
    );
    let before = rows(&server);
    let answered = |answer: &str| {
        // `script` gives its command a terminal.
        let mut child = Command::new("timeout")
            .args(["60", "script", "-qec", &pruning, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(answer.as_bytes()).unwrap();
        let output = patchbay_ovn_programs::testing::output_of(child);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.contains("Delete 18 rows? [y/N] "), "{text}");
        text
    };
    let kept = answered("\n");
    let listed = "to delete: ClusterNetworkConnect blue-green-connect: 18 rows in 5 tables";
    assert_eq!(kept.matches(listed).count(), 1, "{kept}");
    // The user knows what stays, and the flag.
    assert!(kept.contains("nothing is deleted"), "{kept}");
    assert!(!kept.contains("do not name it"), "{kept}");
    assert_eq!(rows(&server), before);
    answered("y\n");
    assert!(!names(&server, "Logical_Router").contains(ROUTER));
}
