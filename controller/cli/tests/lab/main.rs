//! `patchbay lab` as a program: a check, commands, and its end.

#![cfg(feature = "lab")]
#![expect(clippy::unwrap_used, reason = "helpers of tests, too, may stop a test")]

mod bad_input;
mod ci;
mod fetch;
mod interrupted;
mod session;
mod tenants;
mod terminal;

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use patchbay_ovn_programs::testing::Release;

/// The manifests of the README.
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/blue-green");

/// Folder with the newest release of OVN. `None`: unavailable; standard error has the reason.
fn ovn() -> Option<PathBuf> {
    Some(Release::newest()?.folder().unwrap().to_owned())
}

fn lab(ovn: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_patchbay"));
    command.args(["lab", "-f", EXAMPLE, "--ovn"]).arg(ovn).args(arguments);
    command
}

fn run(ovn: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        lab(ovn, arguments).stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn a_check_compares_packets_with_the_manifests() {
    let Some(ovn) = ovn() else { return };
    let (code, output, errors) = run(&ovn, &["--check"]);
    assert_eq!(code, Some(0), "{output}{errors}");
    assert!(output.ends_with("30 answers agree with the manifests, 0 differ\n"), "{output}");
    assert!(errors.starts_with("OVN "), "{errors}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("questions.json");
    let path = file.to_str().unwrap();
    let question =
        r#"[{"from": "blue-1", "to": "green-3", "protocol": "tcp 80", "reached": false}]"#;
    fs::write(&file, question).unwrap();
    let (code, output, _) = run(&ovn, &["--check", "--questions", path, "-o", "json"]);
    assert_eq!(code, Some(2), "{output}");
    let document: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(document["differ"], 1);
    assert_eq!(document["questions"][0]["reached"], true);

    fs::write(&file, r#"[{"from": "blue-1", "to": "gren-3"}]"#).unwrap();
    let (code, _, errors) = run(&ovn, &["--check", "--questions", path]);
    assert_eq!(code, Some(1));
    let expected = "question 1: pod gren-3 not found; did you mean green/green-3";
    assert!(errors.contains(expected), "{errors}");
}

/// A pod of a cluster's dump has a UID, which its logical switch port and its interface share.
#[test]
fn a_pod_with_a_uid_runs() {
    let Some(ovn) = ovn() else { return };
    let folder = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("1-node.yaml", "{apiVersion: v1, kind: Node, metadata: {name: n1}}"),
        (
            "2-namespace.yaml",
            "{apiVersion: v1, kind: Namespace, metadata: {name: d, labels: \
             {k8s.ovn.org/primary-user-defined-network: ''}}}",
        ),
        (
            "3-network.yaml",
            "{apiVersion: k8s.ovn.org/v1, kind: UserDefinedNetwork, metadata: {name: t, namespace: \
             d}, spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: \
             10.20.0.0/16}]}}}",
        ),
        (
            "4-pod.yaml",
            "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: d, uid: \
             6d0b9d3e-8a6c-4ec5-8d3a-3a2d2a4f0b05}, spec: {nodeName: n1}}",
        ),
        (
            "5-pod.yaml",
            "{apiVersion: v1, kind: Pod, metadata: {name: q, namespace: d}, spec: {nodeName: n1}}",
        ),
    ] {
        fs::write(folder.path().join(file), text).unwrap();
    }
    let output = Command::new(env!("CARGO_BIN_EXE_patchbay"))
        .args(["lab", "--check", "--ovn"])
        .arg(&ovn)
        .arg("-f")
        .arg(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.ends_with("2 answers agree with the manifests, 0 differ\n"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_packet_that_is_lost_by_a_killed_program_has_the_command_that_starts_it() {
    let Some(ovn) = ovn() else { return };
    let kills = ["kill ovn-worker ovs-vswitchd", "kill ovn-worker2 ovn-northd"];
    let asks = ["ping blue-1 green-3", "ping blue-3 green-1", "matrix"];
    let commands = kills.iter().chain(&asks).flat_map(|command| ["-c", *command]);
    let (code, output, errors) = run(&ovn, &commands.collect::<Vec<_>>());
    assert_eq!(code, Some(2), "{output}{errors}");
    let switch = "  ovs-vswitchd does not run on ovn-worker: no packet passes the node; `start \
                  ovn-worker ovs-vswitchd` starts it\n";
    let northd = "  ovn-northd does not run on ovn-worker2: changed rows make no flows; `start \
                  ovn-worker2 ovn-northd` starts it\n";
    let answers: Vec<&str> = output.split("> ").collect();
    for (command, has_northd) in [(3, false), (4, false), (5, true)] {
        assert!(answers[command].contains(switch), "{output}");
        assert_eq!(answers[command].contains(northd), has_northd, "{output}");
    }
}

#[test]
fn a_strict_check_fails_for_a_connect_without_networks() {
    let Some(ovn) = ovn() else { return };
    let (code, output, errors) = run(&ovn, &["--check", "--strict"]);
    assert_eq!(code, Some(0), "{output}{errors}");

    let folder = tempfile::tempdir().unwrap();
    for file in ["1-cluster.yaml", "2-networks.yaml", "3-connect.yaml"] {
        let text = fs::read_to_string(Path::new(EXAMPLE).join(file)).unwrap();
        let text = match file {
            "3-connect.yaml" => text.replace("app: colored-enterprise", "app: nothing"),
            _ => text,
        };
        fs::write(folder.path().join(file), text).unwrap();
    }
    let check = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_patchbay"));
        command.args(["lab", "--check", "--ovn"]).arg(&ovn);
        command.arg("-f").arg(folder.path()).args(flags);
        let output = command.stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, errors) = check(&[]);
    assert_eq!(code, Some(0), "{errors}");
    let (code, errors) = check(&["--strict"]);
    assert_eq!(code, Some(1), "{errors}");
    let error = "error: ClusterNetworkConnect blue-green-connect: Connected is False: \
                 connected: 0 networks with 0 ports in each of 3 zones; no network is selected: ";
    assert!(errors.contains(error), "{errors}");
}

#[test]
fn commands_are_executed_until_standard_input_ends() {
    let Some(ovn) = ovn() else { return };
    let mut child = lab(&ovn, &[])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let commands = "ping blue-1 green-3\ncut ovn-control-plane ovn-worker\nping blue-1 green-3\n\
                    mend ovn-control-plane ovn-worker\ntcp blue-1 green-3:80\nenv ovn-worker\n\
                    trace blue-1 green-3\n\
                    show ovn-worker\nping blue-1 blue-9\nnonsense\n";
    child.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
    let output = patchbay_ovn_programs::testing::output_of(child);
    let (text, errors) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{errors}");
    let answers: Vec<&str> = text.lines().filter(|line| line.contains("104.104.1.3: ")).collect();
    assert_eq!(answers.len(), 3, "{text}{errors}");
    assert!(answers[0].contains("reached through 3 routers"), "{text}");
    assert!(answers[1].contains("lost"), "{text}");
    assert!(answers[2].contains("reached through 3 routers"), "{text}");
    assert!(text.contains("  ovn-control-plane -> ovn-worker VNI "), "{text}");
    assert!(text.contains("export OVN_NB_DB=unix:"), "{text}");
    // The cable has lost the packet, and not the rows.
    for expected in [
        "\n  no obstacle in the rows that the packet and its answer meet\n",
        "\n  ovn-trace on ovn-control-plane, packet: lr_out_",
        "\nreach on ovn-control-plane, packet:\nswitch ",
        "\novn-trace on ovn-worker, answer:\n",
        "output to \"crtor-",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(text.contains("router "), "{text}");
    assert!(errors.contains("pod blue-9 not found; did you mean blue/blue-1"), "{errors}");
    assert!(errors.contains("no command \"nonsense\""), "{errors}");
}

#[test]
fn a_lost_packet_has_the_reason_of_the_manifests_the_row_and_the_table() {
    let Some(ovn) = ovn() else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_patchbay"));
    let files = ["1-cluster.yaml", "2-networks.yaml"].map(|file| Path::new(EXAMPLE).join(file));
    command.args(["lab", "-f"]).args(&files).arg("--ovn").arg(&ovn);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"ping blue-1 green-3\n").unwrap();
    drop(input);
    let output = patchbay_ovn_programs::testing::output_of(child);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(lines.len() > 3, "{text}{errors}");
    assert!(lines[0].starts_with("104.104.1.3: lost"), "{text}");
    assert_eq!(
        lines[1],
        "  no ClusterNetworkConnect joins cluster_udn_blue-network and cluster_udn_green-network",
    );
    let row = "  reach on ovn-control-plane, packet: ";
    assert!(lines[2].starts_with(row), "{text}");
    assert!(lines[2].ends_with(']'), "{text}");
    assert!(lines[3].starts_with("  ovn-trace on ovn-control-plane, packet: "), "{text}");
}

/// Ids of the processes whose parent has this id.
fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        rest.split(' ').nth(1) == Some(&parent.to_string())
    })
    .collect()
}

/// Reads lines up to one that contains a text.
fn wait_for_line(lines: &mut impl BufRead, text: &str) {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "no {text}");
    }
}

fn wait_until_ready(child: &mut Child) {
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    wait_for_line(&mut errors, "6 pods on 3 nodes");
}

#[test]
fn a_killed_lab_leaves_no_program() {
    let Some(ovn) = ovn() else { return };
    for signal in ["KILL", "INT"] {
        let mut child = lab(&ovn, &[])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until_ready(&mut child);
        let programs = children(child.id());
        assert_eq!(programs.len(), 9);
        patchbay_ovn_programs::testing::signal(&child, signal);
        patchbay_ovn_programs::testing::wait(&mut child);
        // Another process may get a freed id, but not the program.
        let is_program = |id: &u32| {
            let text = fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
            text.contains("patchbay-lab-")
        };
        while programs.iter().any(is_program) {
            sleep(Duration::from_millis(5));
        }
    }
}

/// Pods, a service and a policy on connected networks.
const SHOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/shop");

/// Runs `patchbay lab` on the shop with these flags and commands.
fn shop(ovn: &Path, flags: &[&str], commands: &str) -> (Option<i32>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_patchbay"))
        .args(["lab", "-f", SHOP, "--service-cidr", "10.96.0.0/16", "--ovn"])
        .arg(ovn)
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(commands.as_bytes()).unwrap();
    drop(input);
    let output = patchbay_ovn_programs::testing::output_of(child);
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), text)
}

#[test]
fn a_service_answers_across_a_connect_and_a_policy_is_promised() {
    let Some(ovn) = ovn() else { return };
    let (code, text) = shop(&ovn, &["--check"], "");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.ends_with("6 answers agree with the manifests, 0 differ\n"), "{text}");
    let commands = "tcp client svc/shop/web:80\nping web db\nping client db\n\
                    tcp client 10.96.0.10:80\nudp db 10.10.0.3:53\n";
    let (code, text) = shop(&ovn, &[], commands);
    assert_eq!(code, Some(0), "{text}");
    let answers: Vec<&str> = text.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(answers.len(), 5, "{text}");
    let service = "10.96.0.10: reached through 3 routers, pod shop/web, ";
    assert!(answers[3].starts_with(service), "{text}");
    let pod = "10.10.0.3: reached through 2 routers, pod shop/web, ";
    assert!(answers[4].starts_with(pod), "{text}");
    assert!(answers[0].starts_with(service), "{text}");
    assert!(answers[1].contains(": reached through 2 routers, "), "{text}");
    assert!(answers[2].contains(": lost, "), "{text}");
    assert!(text.contains("reach on node-2, packet: dropped: ACL "), "{text}");
}

#[test]
fn a_lost_packet_to_a_service_or_an_address_has_its_reasons() {
    let Some(ovn) = ovn() else { return };
    let folder = tempfile::tempdir().unwrap();
    for file in ["1-cluster.yaml", "2-networks.yaml", "3-pods.yaml"] {
        let text = fs::read_to_string(Path::new(SHOP).join(file)).unwrap();
        // The networks are connected for pods only.
        let text = text.replace(", ServiceNetwork]", "]");
        fs::write(folder.path().join(file), text).unwrap();
    }
    let empty = "{apiVersion: v1, kind: Service, metadata: {name: empty, namespace: partner}, spec: \
                 {clusterIP: 10.96.0.20, selector: {app: nobody}, ports: [{port: 80}]}}";
    fs::write(folder.path().join("5-empty.yaml"), empty).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_patchbay"))
        .args(["lab", "--service-cidr", "10.96.0.0/16", "--ovn"])
        .arg(&ovn)
        .arg("-f")
        .arg(folder.path())
        .args(["-c", "tcp client svc/shop/web:80"])
        .args(["-c", "tcp web svc/shop/web:81"])
        .args(["-c", "tcp client svc/empty:80"])
        .args(["-c", "tcp client 10.10.0.1:80"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in [
        "\n  no ClusterNetworkConnect with connectivity ServiceNetwork joins cluster_udn_partner \
         and cluster_udn_shop\n",
        "\n  Service shop/web has no port tcp 81, but tcp 80\n",
        "\n  Service partner/empty has no pod as endpoint\n  reach on node-2, packet: dropped: ",
        "\n  reach on node-1, packet: dropped: 10.10.0.1 belongs to the router",
    ] {
        assert!(text.contains(expected), "{expected}{text}");
    }
}

#[test]
fn commands_of_arguments_are_executed_and_a_lost_packet_has_status_2() {
    let Some(ovn) = ovn() else { return };
    let ping = ["-c", "ping blue-1 green-3", "-c", "pods", "--ovsdb-server"];
    let (code, output, errors) = run(&ovn, &ping);
    assert_eq!(code, Some(0), "{output}{errors}");
    assert!(
        output.starts_with("> ping blue-1 green-3\n104.104.1.3: reached through 3 routers"),
        "{output}"
    );
    let cut = "cut ovn-control-plane ovn-worker";
    let (code, output, _) = run(&ovn, &["-c", cut, "-c", "ping blue-1 green-3"]);
    assert_eq!(code, Some(2), "{output}");
}

/// The first packet waits for a neighbour beyond the cable for so long that its answer is late.
#[test]
fn an_answer_that_rows_promise_is_asked_for_once_more() {
    let Some(ovn) = ovn() else { return };
    let slow = "slow ovn-control-plane ovn-worker 250";
    let (code, output, errors) = run(&ovn, &["-c", slow, "-c", "ping blue-1 green-3"]);
    assert_eq!(code, Some(0), "{output}{errors}");
}

#[test]
fn a_saved_file_is_applied_and_what_it_opens_and_closes_is_printed() {
    let Some(ovn) = ovn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let copy = |name: &str| {
        fs::copy(Path::new(EXAMPLE).join(name), folder.path().join(name)).unwrap();
    };
    copy("1-cluster.yaml");
    copy("2-networks.yaml");
    let mut child = Command::new(env!("CARGO_BIN_EXE_patchbay"))
        .args(["lab", "--ovn"])
        .arg(&ovn)
        .arg("-f")
        .arg(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(errors.any(|line| line.contains("6 pods on 3 nodes")));
    let networks = ["cluster_udn_blue-network", "cluster_udn_green-network"];
    let [one, other] = networks;
    copy("3-connect.yaml");
    let opened = format!("opened: {one} -> {other}: 9 pairs, such as blue/blue-1 -> green/green-1");
    let line = errors.find(|line| line.starts_with(&opened)).unwrap();
    assert!(line.contains(", after ") && line.ends_with(" ms"), "{line}");
    assert!(errors.any(|line| line == "applied"));
    fs::remove_file(folder.path().join("3-connect.yaml")).unwrap();
    let line = errors.find(|line| line.starts_with("closed: ")).unwrap();
    assert!(line.contains(", after ") && line.ends_with(" ms"), "{line}");
    assert!(errors.any(|line| line == "applied"));

    // A pair of pods on the nodes that follow is watched.
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"kill ovn-control-plane ovn-controller\nnonsense\n").unwrap();
    assert!(errors.any(|line| line.contains("no command \"nonsense\"")));
    copy("3-connect.yaml");
    let line = errors.find(|line| line.starts_with("opened: ")).unwrap();
    assert!(line.contains("such as blue/blue-2 -> green/green-2, after "), "{line}");
    assert!(errors.any(|line| line == "applied"));
    let stopped = "warning: ovn-controller does not run on ovn-control-plane: changed flows do not \
                   reach the switch; `start ovn-control-plane ovn-controller` starts it";
    assert_eq!(errors.next().unwrap(), stopped);
    drop(input);
    patchbay_ovn_programs::testing::wait(&mut child);
}
