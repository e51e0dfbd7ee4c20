//! `patchbay demo` shows what the documents show.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use patchbay_ovn_programs::testing::{ScratchDir, nbctl};

use crate::command::{patchbay, run, section, without_uuids};

pub(crate) const ROUTER: &str = "connect_router_blue-green-connect";

/// The documents' text, but for UUIDs and the order that follows from them.
const SHOW: &str = r#"router <uuid> (connect_router_blue-green-connect)
    port crtor-blue-green-connect_cluster_udn_green-network_ovn-worker2
        mac: "0a:58:c0:a8:01:06"
        networks: ["192.168.1.6/31"]
    port crtor-blue-green-connect_cluster_udn_green-network_ovn-control-plane
        mac: "0a:58:c0:a8:01:04"
        networks: ["192.168.1.4/31"]
    port crtor-blue-green-connect_cluster_udn_green-network_ovn-worker
        mac: "0a:58:c0:a8:01:08"
        networks: ["192.168.1.8/31"]
    port crtor-blue-green-connect_cluster_udn_blue-network_ovn-control-plane
        mac: "0a:58:c0:a8:00:04"
        networks: ["192.168.0.4/31"]
    port crtor-blue-green-connect_cluster_udn_blue-network_ovn-worker2
        mac: "0a:58:c0:a8:00:06"
        networks: ["192.168.0.6/31"]
    port crtor-blue-green-connect_cluster_udn_blue-network_ovn-worker
        mac: "0a:58:c0:a8:00:08"
        networks: ["192.168.0.8/31"]
"#;
const ROUTES: &str = "\
IPv4 Routes
Route Table <main>:
           103.103.0.0/24               192.168.0.5 dst-ip
           103.103.1.0/24               192.168.0.9 dst-ip
           103.103.2.0/24               192.168.0.7 dst-ip
           104.104.0.0/24               192.168.1.5 dst-ip
           104.104.1.0/24               192.168.1.9 dst-ip
           104.104.2.0/24               192.168.1.7 dst-ip
";

/// Checks what is printed of the example in the zone that the documents show.
pub(crate) fn is_as_documented(stdout: &str) {
    let shown = section(stdout, &format!("show {ROUTER}"));
    assert_eq!(without_uuids(shown), without_uuids(SHOW));
    assert_eq!(section(stdout, &format!("lr-route-list {ROUTER}")), ROUTES);
    for (network, destination, nexthop) in
        [("blue", "104.104.0.0/16", "192.168.0.6"), ("green", "103.103.0.0/16", "192.168.1.6")]
    {
        let router = format!("cluster_udn_{network}.network_ovn_cluster_router");
        let policies = section(stdout, &format!("lr-policy-list {router}"));
        let words: Vec<&str> = policies.split_whitespace().collect();
        let inport = format!("\"rtos-cluster_udn_{network}.network_ovn-worker2\"");
        let policy = [
            "9001",
            "inport",
            "==",
            &inport,
            "&&",
            "ip4.dst",
            "==",
            destination,
            "reroute",
            nexthop,
        ];
        assert_eq!(words[..2], ["Routing", "Policies"]);
        // Policies for the node itself follow, with a lower priority.
        let (first, others) = words[2..].split_at(policy.len());
        assert_eq!(first, policy);
        assert!(others.starts_with(&["1004", "inport"]), "{others:?}");
    }
}

#[test]
fn the_demo_shows_the_documented_example() {
    let stdout = run("demo", &[]).succeeded();
    assert!(stdout.starts_with("# zone ovn-worker2\n"), "{stdout}");
    is_as_documented(&stdout);
    let (_, object) = stdout.split_once("\napiVersion:").unwrap();
    for line in [
        r#"    k8s.ovn.org/network-connect-subnet: "{\"layer3_1\":{\"ipv4\":\"192.168.0.0/24\"},\"layer3_2\":{\"ipv4\":\"192.168.1.0/24\"}}""#,
        "    message: All validation checks passed successfully",
        "    reason: ResourceAllocationSucceeded",
        "    type: Accepted",
        "    type: Connected",
        "  status: Success",
    ] {
        assert!(object.lines().any(|have| have == line), "{line}\n{object}");
    }
}

/// A text of the demo without the times in it.
fn without_times(text: &str) -> Vec<&str> {
    text.lines()
        .map(|line| {
            let (key, _) = line.split_once("lastTransitionTime: ").unwrap_or((line, ""));
            key
        })
        .collect()
}

#[test]
fn the_readme_of_the_example_shows_what_the_demo_prints() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/blue-green/README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let (_, shown) = readme.split_once("```text\n# zone ").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    let printed = run("demo", &[]).succeeded();
    let printed = printed.strip_prefix("# zone ").unwrap();
    assert_eq!(without_times(shown), without_times(printed));
}

#[test]
fn runs_of_the_demo_are_alike() {
    let text = || {
        let stdout = run("demo", &[]).succeeded();
        stdout.split_once("\napiVersion:").unwrap().0.to_owned()
    };
    assert_eq!(text(), text());
}

#[test]
fn the_real_nbctl_prints_the_same() {
    let folder = ScratchDir::new();
    let socket = folder.path().join("nb.sock");
    let mut demo = patchbay()
        .arg("demo")
        .arg("--listen")
        .arg(format!("punix:{}", socket.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    let mut stderr = BufReader::new(demo.stderr.take().unwrap());
    stderr.read_line(&mut ready).unwrap();
    let remote = format!("unix:{}", socket.display());
    assert_eq!(ready, format!("serving the database of ovn-worker2 at {remote} until Ctrl-C\n"));
    let print = |arguments: &[&str]| {
        let output = nbctl(&remote).args(arguments).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    // A second one does not take the place over.
    let second = run(&format!("demo --listen punix:{}", socket.display()), &[]);
    assert_eq!((second.code, &*second.stdout), (Some(1), ""));
    assert!(
        second.stderr.ends_with("nb.sock: the address is in use by another server\n"),
        "{}",
        second.stderr
    );
    // Where nothing can be served, nothing is shown.
    for (target, expected) in [
        ("nowhere", "cannot listen on nowhere: expected punix:PATH, ptcp:PORT"),
        ("punix:/none/nb.sock", "cannot listen on punix:/none/nb.sock: No such file"),
    ] {
        let failed = run(&format!("demo --listen {target}"), &[]);
        assert_eq!((failed.code, &*failed.stdout), (Some(1), ""));
        assert!(failed.stderr.contains(expected), "{}", failed.stderr);
    }
    let commands = [
        ["show", ROUTER],
        ["lr-route-list", ROUTER],
        ["lr-policy-list", "cluster_udn_blue.network_ovn_cluster_router"],
        ["lr-policy-list", "cluster_udn_green.network_ovn_cluster_router"],
    ];
    let printed = commands.map(|arguments| print(&arguments));

    patchbay_ovn_programs::testing::signal(&demo, "TERM");
    let output = patchbay_ovn_programs::testing::output_of(demo);
    assert_eq!(output.status.code(), Some(0));
    assert!(!socket.exists(), "the socket is left behind");
    let stdout = String::from_utf8(output.stdout).unwrap();
    for (arguments, printed) in commands.iter().zip(printed) {
        assert_eq!(section(&stdout, &arguments.join(" ")), printed);
    }
}
