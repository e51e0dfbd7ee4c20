//! Documents for programs, and readers that leave.

use std::fs::{self, File};
use std::process::Stdio;

use patchbay_ovn_programs::testing::ScratchDir;
use serde_json::{Value, json};

use crate::command::{example, example_text, patchbay, run, run_on};
use crate::manifests::{connect, layer2, namespaces, node, pod, primary_namespace, udn};

#[test]
fn json_and_yaml_say_the_same() {
    let mut json: Value =
        serde_json::from_str(&run("apply -o json", &[&example()]).succeeded()).unwrap();
    let mut yaml: Value =
        serde_saphyr::from_str(&run("apply -o yaml", &[&example()]).succeeded()).unwrap();
    for document in [&mut json, &mut yaml] {
        remove_times(document);
    }
    assert_eq!(json, yaml);
    let zones: Vec<_> = json["zones"].as_array().unwrap().iter().collect();
    assert_eq!(zones.len(), 3);
    assert_eq!(zones[1]["zone"], "ovn-worker2");
    let connect = &zones[1]["connects"][0];
    assert_eq!(connect["name"], "blue-green-connect");
    assert_eq!(connect["router"]["ports"].as_array().unwrap().len(), 6);
    assert_eq!(connect["router"]["routes"][2]["prefix"], "103.103.2.0/24");
    assert_eq!(connect["router"]["routes"][2]["nexthop"], "192.168.0.7");
    assert_eq!(connect["networks"][0]["policies"][0]["nexthops"][0], "192.168.0.6");
    assert_eq!(connect["messages"], serde_json::json!([]));
}

/// Takes out what differs from run to run.
fn remove_times(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("lastTransitionTime");
            members.values_mut().for_each(remove_times);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_times),
        _ => {}
    }
}

#[test]
fn a_plan_can_be_read_by_programs() {
    let planned = run("plan -o json --zone ovn-worker2", &[&example()]);
    assert_eq!(planned.code, Some(2));
    let json: Value = serde_json::from_str(&planned.stdout).unwrap();
    assert_eq!(json["zones"][0]["zone"], "ovn-worker2");
    let rows = json["zones"][0]["rows"].as_array().unwrap();
    let port = rows
        .iter()
        .find(|row| row["row"] == "crtor-blue-green-connect_cluster_udn_blue-network_ovn-worker2")
        .unwrap();
    assert_eq!(port["table"], "Logical_Router_Port");
    assert_eq!(port["change"], "insert");
    assert_eq!(port["columns"]["mac"]["new"][0], "0a:58:c0:a8:00:06");
}

/// Objects of a network with these subnets: two pods, and a connect whose ranges have both families.
fn network_of(subnets: &str) -> String {
    let ranges =
        "{cidr: 192.168.0.0/16, networkPrefix: 24}, {cidr: 'fd99:1::/112', networkPrefix: 120}";
    [
        node("n1"),
        primary_namespace("a", "team: a"),
        udn("a", "net", &layer2("Primary", subnets)),
        pod("a", "p", "n1") + &pod("a", "q", "n1"),
        connect(&[namespaces("team: a")], ranges),
    ]
    .concat()
}

#[test]
fn without_ranges_the_ip_families_are_those_of_the_objects() {
    let first_line = |flags: &str, subnets: &str| {
        let planned = run_on(&format!("plan --rows {flags}"), &network_of(subnets));
        assert_eq!(planned.code, Some(2), "{}", planned.stderr);
        let first = planned.stdout.lines().next().unwrap().to_owned();
        (first, planned.stdout)
    };
    let (line, rows) = first_line("", "10.1.0.0/16");
    let expected = "# IP families: IPv4 (subnet 10.1.0.0/16 of UserDefinedNetwork a/net)";
    assert_eq!(line, expected);
    assert!(!rows.contains("fd69:") && !rows.contains("::/0"), "{rows}");
    let (line, rows) = first_line("", "'fd10::/64'");
    let expected = "# IP families: IPv6 (subnet fd10::/64 of UserDefinedNetwork a/net)";
    assert_eq!(line, expected);
    assert!(!rows.contains("169.254."), "{rows}");
    let (line, rows) = first_line("", "10.1.0.0/16, 'fd10::/64'");
    assert!(line.ends_with(
        "UserDefinedNetwork a/net), IPv6 (subnet fd10::/64 of UserDefinedNetwork a/net)"
    ));
    assert!(rows.contains("169.254.") && rows.contains("fd69:"), "{rows}");
    // Ranges win over objects.
    let ranges = "--pod-cidr 10.244.0.0/16 --pod-cidr fd00:10:244::/48";
    let (line, rows) = first_line(ranges, "10.1.0.0/16");
    let expected =
        "# IP families: IPv4 (range 10.244.0.0/16 of pods), IPv6 (range fd00:10:244::/48 of pods)";
    assert_eq!(line, expected);
    assert!(rows.contains("169.254.") && rows.contains("fd69:"), "{rows}");
    let planned = run_on("plan -o json", &network_of("10.1.0.0/16"));
    let json: Value = serde_json::from_str(&planned.stdout).unwrap();
    let expected =
        json!([{"family": "IPv4", "reason": "subnet 10.1.0.0/16 of UserDefinedNetwork a/net"}]);
    assert_eq!(json["families"], expected);
}

#[test]
fn all_commands_read_the_same_ip_families() {
    // The connect has a range of a family that the cluster does not run: it is not allocated.
    let manifests = network_of("10.1.0.0/16");
    let applied = run_on("apply -o json", &manifests);
    assert_eq!(applied.code, Some(0), "{}", applied.stderr);
    assert!(!applied.stdout.contains("fd99:1::"), "{}", applied.stdout);
    let applied = run_on("apply -o json --pod-cidr 10.244.0.0/16 --pod-cidr fd00::/48", &manifests);
    assert!(applied.stdout.contains("fd99:1::"), "{}", applied.stdout);
    let explained = run_on("explain cnc c", &manifests);
    assert_eq!(explained.code, Some(0), "{}", explained.stdout);
    assert!(!explained.stdout.contains("fd99:1::1"), "{}", explained.stdout);
    let reached = run_on("reach --from a/p --to a/q", &manifests);
    assert_eq!(reached.code, Some(0), "{}", reached.stderr);
}

#[test]
fn without_a_zone_every_node_has_a_database() {
    let stdout = run_on("apply", &example_text()).succeeded();
    let zones: Vec<&str> = stdout.lines().filter_map(|line| line.strip_prefix("# zone ")).collect();
    assert_eq!(zones, ["ovn-control-plane", "ovn-worker2", "ovn-worker"]);
}

#[test]
fn pods_that_must_not_reach_each_other_are_kept_apart() {
    let manifests = example_text().replace("  - PodNetwork\n", "");
    let planned = run_on("plan --rows --zone ovn-worker2 --service-cidr 10.96.0.0/16", &manifests);
    assert_eq!(planned.code, Some(2));
    // The cluster runs the families that it has service ranges of.
    assert!(!planned.stdout.contains("ip6.dst"), "{}", planned.stdout);
    for line in [
        r#"+ ACL "ovnkube-network-connect-controller:ClusterNetworkConnect:blue-green-connect:drop-pod""#,
        r#"    + match: "(ip4.dst == 10.96.0.0/16)""#,
        r#"    + addresses: "103.103.0.0/16""#,
    ] {
        assert!(planned.stdout.lines().any(|have| have == line), "{line}\n{}", planned.stdout);
    }
}

#[test]
fn a_reader_that_leaves_is_no_mistake() {
    for (command, code) in [("plan", 2), ("apply", 0), ("demo", 0)] {
        let mut child = patchbay();
        child.arg(command);
        if command != "demo" {
            child.arg("-f").arg(example());
        }
        let (reader, writer) = std::io::pipe().unwrap();
        child.stdout(writer).stderr(Stdio::piped());
        drop(reader);
        let output = child.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{command}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command}");
    }
}

#[test]
fn an_apply_is_complete_when_standard_output_is_closed() {
    let state = ScratchDir::new();
    let output = patchbay()
        .args(["apply", "--state"])
        .arg(state.path())
        .arg("-f")
        .arg(example())
        .stdout(File::options().write(true).open("/dev/full").unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.starts_with("error: cannot write to standard output: "), "{stderr}");
    let connect = state.path().join("clusternetworkconnects/blue-green-connect.yaml");
    assert!(fs::read_to_string(connect).unwrap().contains("AllNetworksConnected"));
}
