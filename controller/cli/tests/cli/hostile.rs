//! Manifests and servers whose texts try to write to the terminal, and that are too large.

use std::fmt::Write as _;

use patchbay_ovn_programs::testing::{RealServer, nbctl};

use crate::command::{Run, example, nb_schema, run, run_on};

/// Asserts that every line of standard error begins as the command's own lines do, and that no
/// character is there that a terminal interprets.
#[track_caller]
fn assert_harmless(run: &Run) {
    let is_harmful = |character: char| character.is_control() && character != '\n';
    assert!(!run.stderr.contains(is_harmful), "{:?}", run.stderr);
    assert!(!run.stdout.contains(is_harmful), "{:?}", run.stdout);
    for line in run.stderr.lines() {
        let is_own = line.starts_with("error: ") || line.starts_with("warning: ");
        assert!(is_own, "{:?}", run.stderr);
    }
}

#[test]
fn names_kinds_and_fields_cannot_write_lines_of_their_own() {
    let evil = r"x\n# zone forged\e[2J\u202e";
    let connect = "{networkSelectors: [], connectSubnets: [], connectivity: [PodNetwork]";
    let cases = [
        format!("apiVersion: v1\nkind: Node\nmetadata: {{name: \"{evil}\"}}\n"),
        format!("apiVersion: v1\nkind: \"{evil}\"\nmetadata: {{name: a}}\n"),
        format!("apiVersion: \"{evil}\"\nkind: Node\nmetadata: {{name: a}}\n"),
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: \"{evil}\"}}\n"),
        format!(
            "apiVersion: k8s.ovn.org/v1\nkind: ClusterNetworkConnect\nmetadata: {{name: a}}\nspec: {connect}, \"{evil}\": 1}}\n"
        ),
    ];
    for case in cases {
        let run = run_on("plan", &case);
        assert_eq!(run.code, Some(1), "{case}");
        assert!(run.stderr.contains("forged"), "{}", run.stderr);
        assert_harmless(&run);
    }
}

#[test]
fn rows_of_a_plan_are_printed_as_ovn_nbctl_prints_them() {
    let server = RealServer::start([nb_schema()]);
    let arguments = format!("--zone ovn-worker2 --nb {}", server.remote());
    run(&format!("apply {arguments}"), &[&example()]).succeeded();
    let port = "crtor-blue-green-connect_cluster_udn_blue-network_ovn-worker2";
    let value = serde_json::json!("a\n+ Logical_Router forged\u{1b}[2J");
    let done = nbctl(&server.remote())
        .args(["set", "Logical_Router_Port", port, &format!("mac={value}")])
        .output();
    assert!(done.unwrap().status.success());
    let planned = run(&format!("plan --rows {arguments}"), &[&example()]);
    assert_eq!(planned.code, Some(2), "{}", planned.stderr);
    assert_harmless(&planned);
    let listed = String::from_utf8(
        nbctl(&server.remote())
            .args(["--columns=mac", "list", "Logical_Router_Port", port])
            .output()
            .unwrap()
            .stdout,
    )
    .unwrap();
    let (_, printed) = listed.trim().split_once(": ").unwrap();
    assert_eq!(printed, r#""a\n+ Logical_Router forged\u001b[2J""#);
    let expected = format!("    - mac: {printed}");
    let mut lines = planned.stdout.lines();
    assert!(lines.any(|line| line == expected), "{}", planned.stdout);
}

#[test]
fn warnings_and_errors_are_at_most_a_screenful() {
    let mut nodes = String::from("apiVersion: v1\nkind: Node\nmetadata: {name: node1}\n");
    for number in 0..300 {
        let _ = write!(nodes, "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p{number}}}\n");
    }
    let warned = run_on("plan", &nodes);
    let lines: Vec<&str> = warned.stderr.lines().collect();
    assert_eq!(lines.len(), 11, "{}", warned.stderr);
    assert_eq!(lines[10], "warning: 290 more warnings about objects");

    let mut fields = String::new();
    for number in 0..300 {
        let _ = writeln!(fields, "  f{number}: 1");
    }
    let mut connects = String::new();
    for number in 0..30 {
        let _ = write!(
            connects,
            "---\napiVersion: k8s.ovn.org/v1\nkind: ClusterNetworkConnect\nmetadata: {{name: c{number}}}\nspec:\n  networkSelectors: []\n{fields}"
        );
    }
    let failed = run_on("plan", &connects);
    assert_eq!(failed.code, Some(1));
    let lines: Vec<&str> = failed.stderr.lines().collect();
    assert_eq!(lines.len(), 22, "{}", failed.stderr);
    assert!(lines[20].ends_with(" more errors"), "{}", lines[20]);
    assert!(lines[21].contains("no Node"), "{}", lines[21]);
}

#[test]
fn a_long_text_is_cut() {
    let kind = "K".repeat(100_000);
    let run = run_on("plan", &format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: a}}\n"));
    assert!(run.stderr.len() < 5_000, "{} bytes", run.stderr.len());
    assert!(run.stderr.contains("more bytes)"), "{}", run.stderr);
}

#[test]
fn manifests_over_the_limit_are_refused() {
    let mut large = String::from("apiVersion: v1\nkind: Node\nmetadata: {name: node1}\n#");
    large.push_str(&"x".repeat(1 << 20));
    let refused = run_on("plan --manifest-limit 1", &large);
    assert_eq!(refused.code, Some(1));
    let expected = "error: cannot read standard input: the manifests have more than 1 MiB together; --manifest-limit sets the limit\n";
    assert_eq!(refused.stderr, expected);
    assert_ne!(run_on("plan --manifest-limit 2", &large).code, Some(1));

    let folder = tempfile::tempdir().unwrap();
    for name in ["a.yaml", "b.yaml"] {
        std::fs::write(folder.path().join(name), "#".repeat(600 << 10)).unwrap();
    }
    let refused = run("plan --manifest-limit 1", &[folder.path()]);
    assert!(refused.stderr.contains("b.yaml: the manifests"), "{}", refused.stderr);
    // A file without end.
    let refused = run("plan --manifest-limit 1", &["/dev/zero".as_ref()]);
    assert!(refused.stderr.contains("/dev/zero: the manifests"), "{}", refused.stderr);
}

#[test]
fn deep_manifests_are_refused() {
    let deep = format!("a: {}{}\n", "[".repeat(100_000), "]".repeat(100_000));
    let refused = run_on("plan", &deep);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert_harmless(&refused);
}
