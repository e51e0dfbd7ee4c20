//! `patchbay apply` and `plan` on a real `ovsdb-server`.

use std::fs;

use patchbay_ovn_programs::testing::{RealServer, ScratchDir, installed_nb_schema, nbctl};

use crate::command::{example, example_text, nb_schema, planned_zones, run, run_on, section};
use crate::demo::{ROUTER, is_as_documented};

fn print(server: &RealServer, arguments: &[&str]) -> String {
    let output = nbctl(&server.remote()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn on(server: &RealServer, command: &str) -> String {
    format!("{command} --zone ovn-worker2 --nb {}", server.remote())
}

/// Length of the server's transaction log in bytes.
fn log_length(server: &RealServer) -> u64 {
    fs::metadata(&server.databases()[0]).unwrap().len()
}

#[test]
fn a_server_ends_up_as_the_documents_show() {
    let server = RealServer::start([nb_schema()]);
    let planned = run(&on(&server, "plan"), &[&example()]);
    assert_eq!((planned.code, &*planned.stderr), (Some(2), ""));
    let before = log_length(&server);
    assert_eq!(print(&server, &["show"]), "");

    let stdout = run(&on(&server, "apply"), &[&example()]).succeeded();
    is_as_documented(&stdout);
    for arguments in [
        ["show", ROUTER],
        ["lr-route-list", ROUTER],
        ["lr-policy-list", "cluster_udn_blue.network_ovn_cluster_router"],
        ["lr-policy-list", "cluster_udn_green.network_ovn_cluster_router"],
    ] {
        assert_eq!(section(&stdout, &arguments.join(" ")), print(&server, &arguments));
    }
    let after = log_length(&server);
    assert!(after > before);

    run(&on(&server, "apply"), &[&example()]).succeeded();
    assert_eq!(log_length(&server), after, "a second apply has written");
    let planned = run(&on(&server, "plan --rows"), &[&example()]).succeeded();
    assert_eq!(
        planned_zones(&planned),
        "# zone ovn-worker2: rows to insert: 0, to change: 0, to delete: 0\n"
    );
}

#[test]
fn a_plan_names_deletions_and_apply_makes_them() {
    let (server, folder) = (RealServer::start([nb_schema()]), ScratchDir::new());
    let with_state = |command: &str| {
        let state = folder.path().display();
        format!("{} --state {state}", on(&server, command))
    };
    run(&with_state("apply"), &[&example()]).succeeded();
    let others = ["1-cluster.yaml", "2-networks.yaml"].map(|file| example().join(file));
    let others = [&*others[0], &*others[1]];

    let planned = run(&with_state("plan --rows"), &others);
    assert_eq!(planned.code, Some(2));
    let head = "# zone ovn-worker2: rows to insert: 0, to change: 4, to delete: 18\n";
    assert!(planned_zones(&planned.stdout).starts_with(head), "{}", planned.stdout);
    for line in [
        format!("- Logical_Router {ROUTER}"),
        "- Load_Balancer_Group cnc_svc_blue-green-connect".to_owned(),
        "~ Logical_Switch cluster_udn_blue.network_ovn-worker2".to_owned(),
        "    - load_balancer_group: cnc_svc_blue-green-connect".to_owned(),
        "    - ports: rtocr-cluster_udn_blue-network_ovn-worker2_blue-green-connect".to_owned(),
    ] {
        assert!(planned.stdout.lines().any(|have| have == line), "{line}\n{}", planned.stdout);
    }
    assert!(print(&server, &["lr-list"]).contains(ROUTER));
    run(&with_state("apply"), &others).succeeded();
    let routers = print(&server, &["lr-list"]);
    assert!(!routers.contains(ROUTER), "{routers}");
    assert!(routers.contains("cluster_udn_blue.network_ovn_cluster_router"));
    let mut policies = nbctl(&server.remote());
    let policies = policies.args(["find", "Logical_Router_Policy", "priority=9001"]);
    assert_eq!(policies.output().unwrap().stdout, b"");
}

#[test]
fn a_network_that_is_dropped_between_two_runs_is_disconnected() {
    let (server, folder) = (RealServer::start([nb_schema()]), ScratchDir::new());
    let apply = format!("{} --state {}", on(&server, "apply"), folder.path().display());
    let all = example_text();
    run_on(&apply, &all).succeeded();
    let is_of_green = |document: &&str| {
        document.contains("kind: ClusterUserDefinedNetwork") && document.contains("green-network")
    };
    let documents = all.split("---\n").filter(|document| !is_of_green(document));
    let left: Vec<&str> = documents.collect();
    run_on(&apply, &left.join("---\n")).succeeded();
    let columns = ["--bare", "--columns=name", "list", "Logical_Router_Port"];
    let ports = print(&server, &columns);
    let patchbay_ports: Vec<&str> =
        ports.split_whitespace().filter(|port| port.starts_with("crtor-")).collect();
    assert_eq!(patchbay_ports.len(), 3, "{patchbay_ports:?}");
    assert!(patchbay_ports.iter().all(|port| port.contains("blue-network")), "{patchbay_ports:?}");
}

#[test]
fn foreign_rows_stay() {
    let server = RealServer::start([nb_schema()]);
    run(&on(&server, "apply"), &[&example()]).succeeded();
    let router = "cluster_udn_blue.network_ovn_cluster_router";
    let switch = "cluster_udn_blue.network_ovn-worker2";
    let theirs = [
        &["lr-route-add", router, "0.0.0.0/0", "192.0.2.1"][..],
        &["lr-policy-add", router, "100", "ip4", "drop"],
        &["lsp-add", switch, "pod"],
        &["set", "Logical_Router", router, "options:theirs=yes"],
    ];
    for arguments in theirs {
        print(&server, arguments);
    }
    let before = print(&server, &["show"]);
    let stdout = run(&on(&server, "plan --rows"), &[&example()]).succeeded();
    assert!(stdout.ends_with("to insert: 0, to change: 0, to delete: 0\n"));
    print(&server, &["lrp-del", "rtos-cluster_udn_blue.network_ovn-worker2"]);
    run(&on(&server, "apply"), &[&example()]).succeeded();
    let lines = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&print(&server, &["show"])), lines(&before));
    assert!(print(&server, &["lr-route-list", router]).contains("192.0.2.1"));
    assert!(print(&server, &["lr-policy-list", router]).contains("drop"));
}

#[test]
fn a_server_without_the_database_is_named() {
    let folder = ScratchDir::new();
    let schema = folder.path().join("other.ovsschema");
    let text = r#"{"name": "Other", "version": "1.0.0", "tables": {"T": {"columns": {"c": {"type": "string"}}}}}"#;
    fs::write(&schema, text).unwrap();
    let server = RealServer::start([&schema]);
    let failed = run(&on(&server, "apply"), &[&example()]);
    assert_eq!(failed.code, Some(1));
    let place = server.remote();
    assert!(
        failed.stderr.starts_with(&format!(
            "error: cannot use database OVN_Northbound: {place}: no database OVN_Northbound: the server has "
        )),
        "{}",
        failed.stderr
    );
}

#[test]
fn a_run_that_cannot_start_keeps_no_state() {
    let folder = ScratchDir::new();
    let (state, socket) = (folder.path().join("state"), folder.path().join("none"));
    let arguments = format!(
        "apply --timeout 1 --zone ovn-worker2 --nb unix:{} --state {}",
        socket.display(),
        state.display()
    );
    let failed = run(&arguments, &[&example()]);
    assert_eq!(failed.code, Some(1));
    assert!(failed.stderr.contains("none"), "{}", failed.stderr);
    assert!(!state.exists());
}

/// The schema of OVN 23.03, which has neither remote router ports nor ACL action `pass`.
#[test]
fn lost_packets_between_nodes_of_an_old_release_are_warned_of() {
    let server = RealServer::start([installed_nb_schema()]);
    let lost = "packets to and from its pods on other nodes are lost";
    let applied = run(&on(&server, "apply"), &[&example()]);
    assert_eq!(applied.code, Some(0), "{}", applied.stderr);
    is_as_documented(&applied.stdout);
    let planned = run(&on(&server, "plan"), &[&example()]);
    assert_eq!(planned.code, Some(0), "{}", planned.stderr);
    let explain = on(&server, "explain cnc blue-green-connect");
    let explained = run(&explain, &[&example()]);
    assert_eq!(explained.code, Some(2));
    let explained = explained.stdout;
    for network in ["cluster_udn_blue-network", "cluster_udn_green-network"] {
        let warning = format!("network {network}: {lost}");
        for stderr in [&applied.stderr, &planned.stderr] {
            assert!(stderr.contains(&warning), "{stderr}");
        }
        assert!(explained.contains(network), "{explained}");
    }
    assert_eq!(explained.matches(lost).count(), 2, "{explained}");
}

#[test]
fn a_database_that_names_another_zone_has_a_warning() {
    let server = RealServer::start([nb_schema()]);
    print(&server, &["init"]);
    run(&on(&server, "apply"), &[&example()]).succeeded();
    print(&server, &["set", "NB_Global", ".", "name=node-7"]);
    let planned = run(&on(&server, "plan"), &[&example()]);
    assert_eq!(planned.code, Some(0), "{}", planned.stderr);
    let warning = "warning: zone ovn-worker2: NB_Global.name is node-7: the database belongs to \
                   another zone\n";
    assert_eq!(planned.stderr, warning);
    print(&server, &["set", "NB_Global", ".", "name=ovn-worker2"]);
    let planned = run(&on(&server, "plan"), &[&example()]);
    assert_eq!((planned.code, &*planned.stderr), (Some(0), ""));
}
