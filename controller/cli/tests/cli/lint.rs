//! `patchbay lint`: findings about manifests.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use patchbay_ovn_programs::testing::{RealServer, nbctl};
use serde_json::Value;

use crate::command::{Run, nb_schema, patchbay, run, run_on};

const DOUBLE_TAG: &str = "\
apiVersion: kubeovn.io/v1
kind: ProviderNetwork
metadata: {name: provider}
spec: {defaultInterface: data.222}
---
apiVersion: kubeovn.io/v1
kind: Vlan
metadata:
  name: vlan222
spec:
  provider: provider
  id: 222
";

const UNTAGGED: &str = "\
apiVersion: kubeovn.io/v1
kind: ProviderNetwork
metadata: {name: provider}
spec: {defaultInterface: eth1}
---
apiVersion: kubeovn.io/v1
kind: Vlan
metadata: {name: vlan0}
spec: {id: 0, provider: provider}
";

/// Manifests of a platform with one tenant.
fn tenant() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../lint/tests/golden/manifests")
}

fn tenant_files() -> Vec<PathBuf> {
    let names = ["alpha-pods", "alpha", "cluster", "metallb", "provider"];
    names.iter().map(|name| tenant().join(format!("{name}.yaml"))).collect()
}

#[test]
fn a_tenant_as_documented_has_notes_only_in_any_order_of_files() {
    let values = tenant().join("values.yaml");
    for is_reversed in [false, true] {
        let mut files = tenant_files();
        if is_reversed {
            files.reverse();
        }
        let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        let arguments = format!("lint --strict --values {}", values.display());
        let text = run(&arguments, &files).succeeded();
        assert!(text.contains("0 errors, 0 warnings, "), "{text}");
    }
}

#[test]
fn a_finding_has_file_line_and_correction() {
    let run = run_on("lint", DOUBLE_TAG);
    assert_eq!((run.code, &*run.stderr), (Some(2), ""));
    let line = "standard input:12: error V1: Vlan/vlan222 spec.id: Vlan vlan222: interface data.222 of \
                provider is a kernel VLAN device";
    assert!(run.stdout.starts_with(line), "{}", run.stdout);
    assert!(run.stdout.contains("\n    Use id: 0.\n"), "{}", run.stdout);
    assert!(run.stdout.ends_with("1 error, 0 warnings, 0 notes\n"), "{}", run.stdout);
}

#[test]
fn warnings_are_errors_if_strict() {
    assert_eq!(run_on("lint", UNTAGGED).code, Some(0));
    assert_eq!(run_on("lint --strict", UNTAGGED).code, Some(2));
}

#[test]
fn json_yaml_and_sarif_have_the_line_of_the_field() {
    let json = run_on("lint -o json", DOUBLE_TAG);
    assert_eq!(json.code, Some(2));
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let finding = &json["findings"][0];
    assert_eq!((&finding["rule"], &finding["line"]), (&"V1".into(), &12.into()));
    assert_eq!(finding["file"], "standard input");
    assert_eq!(finding["others"][0], "ProviderNetwork/provider");
    let yaml: Value = serde_saphyr::from_str(&run_on("lint -o yaml", DOUBLE_TAG).stdout).unwrap();
    assert_eq!(yaml, json);
    let sarif = run_on("lint -o sarif", DOUBLE_TAG).stdout;
    let sarif: Value = serde_json::from_str(&sarif).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!((&result["ruleId"], &result["level"]), (&"V1".into(), &"error".into()));
    let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
    assert_eq!(sarif["runs"][0]["tool"]["driver"]["rules"][index]["id"], "V1");
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["region"]["startLine"], 12);
    assert_eq!(place["artifactLocation"]["uri"], "standard%20input");
}

#[test]
fn many_findings_stay_readable() {
    let mut manifests = DOUBLE_TAG.to_owned();
    for number in 0..10_000 {
        write!(
            manifests,
            "---\n{{apiVersion: kubeovn.io/v1, kind: Vlan, metadata: {{name: v{number}}}, spec: {{id: {}, \
             provider: provider}}}}\n",
            number % 4094 + 1
        )
        .unwrap();
    }
    let text = run_on("lint", &manifests);
    assert_eq!(text.code, Some(2));
    assert!(text.stdout.lines().count() < 200, "{}", text.stdout);
    assert!(text.stdout.contains("9981 more findings of rule V1\n"), "{}", text.stdout);
    let json: Value = serde_json::from_str(&run_on("lint -o json", &manifests).stdout).unwrap();
    assert!(json["findings"].as_array().unwrap().len() > 10_000);
}

#[test]
fn what_cannot_be_judged_has_the_exit_status_1() {
    let fails = |run: Run, expected: &str| {
        assert_eq!((run.code, &*run.stdout), (Some(1), ""));
        assert!(run.stderr.contains(expected), "{}", run.stderr);
    };
    fails(run_on("lint", "kind: [\n"), "malformed YAML");
    fails(
        run_on("lint --values missing.yaml", DOUBLE_TAG),
        "cannot read chart values missing.yaml",
    );
    let folder = tempfile::tempdir().unwrap();
    let values = folder.path().join("values.yaml");
    std::fs::write(&values, "kubeOvn: {}\n").unwrap();
    let arguments = format!("lint --values {}", values.display());
    fails(run_on(&arguments, DOUBLE_TAG), "the key `network` is missing");
    let run: Run = patchbay().args(["lint", "--service-cidr", "x"]).output().unwrap().into();
    assert_eq!(run.code, Some(1), "{}", run.stderr);
}

/// An object that an API server refuses is a finding, and stops no other one.
#[test]
fn control_characters_are_escaped() {
    let manifests = UNTAGGED.replace("eth1", "\"e\\x1b[31m\"")
        + "---\n{apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {name: \"a\\x1b[2J\"}}\n";
    let run = run_on("lint", &manifests);
    assert_eq!(run.code, Some(2));
    assert!(!run.stdout.contains('\u{1b}') && !run.stderr.contains('\u{1b}'), "{run:?}");
    assert!(run.stdout.contains("error O1: Vpc/a\\u001b[2J metadata.name"), "{}", run.stdout);
    assert!(run.stdout.contains("warning V2"), "{}", run.stdout);
}

/// Kube-OVN's own route of a subnet, on the server of a stock ovn-northd.
#[test]
fn rows_of_a_server_are_compared_with_the_objects() {
    let server = RealServer::start([nb_schema()]);
    let commands = "lr-add alpha-vpc -- lrp-add alpha-vpc alpha-vpc-alpha-dev-subnet 0a:58:0a:64:00:01 \
                    10.100.0.1/24 -- --policy=src-ip lr-route-add alpha-vpc 10.100.0.0/24 10.100.0.1";
    let output = nbctl(&server.remote()).args(commands.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let files = tenant_files();
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let arguments = format!("lint --nb {}", server.remote());
    let found = run(&arguments, &files);
    assert_eq!((found.code, &*found.stderr), (Some(2), ""));
    let text = "error R1: Vpc/alpha-vpc: Vpc alpha-vpc: route src-ip 10.100.0.0/24 -> 10.100.0.1 takes all \
                traffic";
    assert!(found.stdout.contains(text), "{}", found.stdout);
    let changed = run(&format!("{arguments} --stock-northd false"), &files).succeeded();
    assert!(!changed.contains("R1"), "{changed}");
    let missing = run("lint --timeout 1 --nb unix:/nonexistent", &files);
    assert_eq!((missing.code, &*missing.stdout), (Some(1), ""));
}

#[test]
fn rows_of_a_server_or_file_are_judged_without_manifests() {
    let server = RealServer::start([nb_schema()]);
    for command in [
        ["ls-add", "s", "", ""].as_slice(),
        &["acl-add", "s", "to-lport", "1000", "ip4 & tcp", "drop"],
    ] {
        let words = command.iter().filter(|word| !word.is_empty());
        assert!(nbctl(&server.remote()).args(words).status().unwrap().success());
    }
    let file = server.databases()[0].display().to_string();
    let remote = server.remote();
    for source in [["--nb", &remote], ["--file", &file]] {
        let run: Run = patchbay().arg("lint").args(source).output().unwrap().into();
        assert_eq!((run.code, &*run.stderr), (Some(2), ""), "{run:?}");
        let line = "error NB1: ACL ip4 & tcp of Logical_Switch s: OVN cannot parse the match";
        assert!(run.stdout.starts_with(line), "{}", run.stdout);
        assert!(run.stdout.contains("\n    Write && and ||"), "{}", run.stdout);
        assert!(run.stdout.ends_with("1 error, 0 warnings, 0 notes\n"), "{}", run.stdout);
    }
    // The zones of several databases are named.
    let zones = [format!("n1={file}"), format!("n2={file}")];
    let run: Run = patchbay()
        .args(["lint", "--file", &zones[0], "--file", &zones[1]])
        .output()
        .unwrap()
        .into();
    assert!(run.stdout.starts_with("zone n1: error NB1: "), "{}", run.stdout);
    assert!(run.stdout.contains("\nzone n2: error NB1: "), "{}", run.stdout);
}
