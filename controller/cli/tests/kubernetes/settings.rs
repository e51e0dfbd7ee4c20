//! Settings of `patchbay run` from flags, the environment and a file.

use std::path::Path;
use std::process::Command;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

use crate::command::{kubeconfig, patchbay};
use crate::testbed::{Testbed, eventually};

/// First lines of each file.
const HEAD: &str = "apiVersion: patchbay.io/v1alpha1\nkind: RunConfiguration\n";

struct Ran {
    code: i32,
    text: String,
    errors: String,
}

fn ran(command: &mut Command) -> Ran {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    Ran { code, text: text(output.stdout), errors: text(output.stderr) }
}

/// Runs `config check` on a file with these lines.
fn checked(lines: &str) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.yaml");
    std::fs::write(&file, format!("{HEAD}{lines}")).unwrap();
    let mut ran = ran(patchbay(&["config", "check"]).arg(&file));
    ran.errors = ran.errors.replace(&*file.display().to_string(), "FILE");
    ran
}

/// Value and origin of a setting in the output of `config show`.
fn shown(text: &str, field: &str) -> String {
    // A long origin is in the next line.
    let joined = text.replace(&format!("\n{}", " ".repeat(28)), " ");
    let line = joined.lines().find(|line| line.split(' ').next() == Some(field));
    let words: Vec<&str> = line.unwrap_or_else(|| panic!("{text}")).split_whitespace().collect();
    words[1..].join(" ")
}

#[test]
fn flags_come_before_the_environment_and_that_before_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.yaml");
    let lines = "mode: zone\nzone: node-1\nmtu: 9000\ngatewayMode: local\nnetworks: true\n\
                 serviceCidr: [10.96.0.0/16, 'fd00::/112']\nadminBindAddress: ':9491'\nnb:\n";
    std::fs::write(&file, format!("{HEAD}{lines}")).unwrap();
    let place = |field: &str| format!("({}: {field})", file.display());
    let mut command = patchbay(&["config", "show", "--mtu", "1500"]);
    command.env("PATCHBAY_CONFIG", &file).env("PATCHBAY_NETWORKS", "false");
    command.env("PATCHBAY_ENABLE", "egress-ip, multicast").env("PATCHBAY_GATEWAY_MODE", "shared");
    command.env("PATCHBAY_MTU", "1600").env("PATCHBAY_ZONE", "");
    let ran = ran(&mut command);
    assert_eq!((ran.code, &*ran.errors), (0, ""));
    for (field, expected) in [
        ("mtu", "1500 (flag --mtu)".to_owned()),
        ("zone", format!("node-1 {}", place("zone"))),
        ("serviceCidr", format!("10.96.0.0/16,fd00::/112 {}", place("serviceCidr"))),
        ("adminBindAddress", format!(":9491 {}", place("adminBindAddress"))),
        ("gatewayMode", "shared (variable PATCHBAY_GATEWAY_MODE)".to_owned()),
        ("networks", "false (variable PATCHBAY_NETWORKS)".to_owned()),
        ("enable", "egress-ip,multicast (variable PATCHBAY_ENABLE)".to_owned()),
        ("nb", "unix:/var/run/ovn/ovnnb_db.sock (default)".to_owned()),
        ("podCidr", "- (default)".to_owned()),
    ] {
        assert_eq!(shown(&ran.text, field), expected, "{}", ran.text);
    }
}

#[test]
fn a_file_is_checked() {
    let ran = checked("mtu: 1500\nudnAllowedDefaultServices: [default/kubernetes]\n");
    assert_eq!((ran.code, &*ran.errors), (0, ""));
    assert!(ran.text.ends_with(": ok, settings: 2\n"), "{}", ran.text);
    assert_eq!(checked("mode: cluster\n").code, 0);
    for (lines, expected) in [
        ("mtus: 1500\n", "FILE: mtus: unknown field, did you mean mtu?"),
        (
            "service-cidr: 10.96.0.0/16\n",
            "FILE: service-cidr: unknown field, did you mean serviceCidr?",
        ),
        (
            "somethingElse: 1\n",
            "FILE: somethingElse: unknown field; `patchbay config list` prints all",
        ),
        ("config: other.yaml\n", "FILE: config: unknown field; `patchbay config list` prints all"),
        (
            "mtu: 12\n",
            "FILE: mtu: invalid value '12' for '--mtu <BYTES>': 12 is not in 1280..=65535",
        ),
        ("networks: 7\n", "FILE: networks: expected true or false"),
        ("mtu: [1, 2]\n", "FILE: mtu: expected a text or a number"),
        ("serviceCidr: {a: 1}\n", "FILE: serviceCidr: expected a text or a list"),
        (
            "podCidr: [10.0.0.0/8]\nserviceCidr: [fd00::/112]\n",
            "the IP families of --service-cidr are not those of --pod-cidr",
        ),
        ("mtu: 1500\nmtu: 1600\n", "FILE: "),
        ("mtu: \"\\e[31m\"\n", "FILE: mtu: invalid value ''"),
        ("a: [\n", "FILE: "),
    ] {
        let ran = checked(lines);
        assert_eq!((ran.code, &*ran.text), (1, ""), "{lines}");
        assert!(ran.errors.starts_with(&format!("error: {expected}")), "{lines}: {}", ran.errors);
        assert!(!ran.errors.contains('\u{1b}'), "{:?}", ran.errors);
    }
    let other = checked("");
    assert_eq!(other.code, 0, "{}", other.errors);
}

#[test]
fn a_file_that_is_none_is_refused_by_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.yaml");
    let error_of = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let mut command = patchbay(&["run", "--mode", "cluster", "--config"]);
        let ran = ran(command.arg(&file));
        assert_eq!(ran.code, 1);
        ran.errors
    };
    let error = error_of("kind: ClusterSettings\napiVersion: patchbay/v1\n");
    assert!(error.contains("expected apiVersion: patchbay.io/v1alpha1"), "{error}");
    assert!(error_of("- 1\n").contains("expected fields, with apiVersion"));
    let error = error_of(&format!("{HEAD}{}", "#".repeat(1 << 20)));
    assert!(error.contains("has more than 1048576 bytes"), "{error}");
    let mut command = patchbay(&["run", "--mode", "cluster", "--config", "none.yaml"]);
    assert!(ran(&mut command).errors.starts_with("error: cannot read none.yaml: "));
    let mut command = patchbay(&["run", "--mode", "cluster"]);
    let ran = ran(command.env("PATCHBAY_MTU", "big"));
    assert!(
        ran.errors.starts_with("error: variable PATCHBAY_MTU: invalid value 'big'"),
        "{}",
        ran.errors
    );
}

#[tokio::test]
async fn the_controller_runs_with_settings_of_a_file_and_of_the_environment() {
    let bed = Testbed::simulated().await;
    let folder = tempfile::tempdir().unwrap();
    let config = kubeconfig(folder.path(), &bed.api().url());
    let file = folder.path().join("run.yaml");
    let lines = format!("mode: cluster\nkubeconfig: {}\nnamespace: other\n", config.display());
    std::fs::write(&file, format!("{HEAD}{lines}")).unwrap();
    let mut command = patchbay(&["run"]);
    command.env("PATCHBAY_CONFIG", file).env("PATCHBAY_NAMESPACE", "default");
    let mut child = command.spawn().unwrap();
    let leases = Api::<Lease>::namespaced(bed.client.clone(), "default");
    eventually("the lease is held", async || {
        leases.get_opt("patchbay-cluster").await.unwrap()?.spec?.holder_identity
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_reference_has_all_settings() {
    let list = ran(&mut patchbay(&["config", "list"])).text;
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate.md");
    let text = std::fs::read_to_string(page).unwrap();
    let (_, rest) = text.split_once("<!-- settings -->\n").unwrap();
    let (table, _) = rest.split_once("<!-- end of settings -->").unwrap();
    assert_eq!(table, list, "docs/operate.md: put the output of `patchbay config list` there");
}
