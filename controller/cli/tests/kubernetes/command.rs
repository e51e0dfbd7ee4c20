//! `patchbay run`, as in a pod.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::{Value, json};

use crate::testbed::{Testbed, ZONE, eventually};

pub(crate) fn patchbay(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_patchbay"));
    command.args(arguments).stderr(Stdio::piped());
    command
}

/// Writes a kubeconfig for the server at `url` into a folder.
pub(crate) fn kubeconfig(folder: &Path, url: &str) -> PathBuf {
    kubeconfig_of(folder, url, &json!({}))
}

/// Writes a kubeconfig with the rights of a service account.
pub(crate) fn kubeconfig_as(account: &str, folder: &Path, url: &str) -> PathBuf {
    kubeconfig_of(folder, url, &json!({"as": account}))
}

fn kubeconfig_of(folder: &Path, url: &str, user: &Value) -> PathBuf {
    let file = folder.join("config");
    let context = json!({"cluster": "test", "user": "test", "namespace": "patchbay"});
    // JSON is YAML.
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "contexts": [{"name": "test", "context": context}],
        "clusters": [{"name": "test", "cluster": {"server": url}}],
        "users": [{"name": "test", "user": user}],
    });
    std::fs::write(&file, text.to_string()).unwrap();
    file
}

#[tokio::test]
async fn the_command_connects_networks_and_releases_the_lease_at_its_end() {
    let bed = Testbed::simulated().await;
    let zone = bed.zone(ZONE).await;
    let folder = tempfile::tempdir().unwrap();
    let mut child = patchbay(&["run", "--zone", ZONE, "--service-cidr", "10.96.0.0/16"])
        .arg("--kubeconfig")
        .arg(kubeconfig(folder.path(), &bed.api().url()))
        .args(["--nb", zone.remote()])
        .spawn()
        .unwrap();
    bed.connect().await;
    bed.until_allocated(2).await;
    zone.until("networks are connected", |zone| (zone.connect_policies().len() == 2).then_some(()))
        .await;
    let leases = Api::<Lease>::namespaced(bed.client.clone(), "ovn-kubernetes");
    let holder = async || {
        let lease = leases.get("patchbay-cluster").await.unwrap();
        lease.spec.unwrap().holder_identity
    };
    assert!(holder().await.is_some());

    patchbay_ovn_programs::testing::signal(&child, "TERM");
    let ended = eventually("it ends", async || child.try_wait().unwrap()).await;
    assert!(ended.success());
    assert_eq!(holder().await, None);
}

/// Ends the process of a failed test, too.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[tokio::test]
async fn a_replaced_token_is_used_in_the_next_requests() {
    let bed = Testbed::simulated().await;
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    let user = json!({"tokenFile": token});
    let config = kubeconfig_of(folder.path(), &bed.api().url(), &user);
    let mut command = patchbay(&["run", "--mode", "cluster"]);
    command.arg("--kubeconfig").arg(config);
    std::fs::write(&token, "first\n").unwrap();
    let _process = Process(command.stderr(Stdio::null()).spawn().unwrap());
    for (next, content) in [("first", "\n"), ("first", "second"), ("second", "third\n")] {
        let sent = format!("Bearer {next}");
        let before = bed.api().requests().len();
        eventually("the token is used", async || {
            let requests = bed.api().requests();
            let mut new = requests[before..].iter();
            new.any(|one| one.authorization == sent).then_some(())
        })
        .await;
        std::fs::write(&token, content).unwrap();
    }
}

#[test]
fn wrong_arguments_are_reported() {
    let error_of = |arguments: &[&str]| {
        let output = patchbay(arguments).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let error = error_of(&["run", "--kubeconfig", "none"]);
    assert!(error.contains("--zone <NODE>"), "{error}");
    for zone in ["", "N 1!", "$(K8S_NODE)"] {
        let error = error_of(&["run", "--zone", zone, "--kubeconfig", "none"]);
        assert!(error.contains("'--zone <NODE>': "), "{error}");
    }
    let arguments = ["run", "--mode", "cluster", "--kubeconfig", "none"];
    for namespace in ["", "a.b", "Default"] {
        let arguments = [&arguments[..], &["--namespace", namespace]].concat();
        let error = error_of(&arguments);
        assert!(error.contains("'--namespace <NAMESPACE>': "), "{error}");
    }
    let error = error_of(&["run", "--mode", "cluster", "--kubeconfig", "none"]);
    assert!(error.starts_with("error: cannot use the cluster: cannot read none: "), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    let broken = |content: &str| {
        std::fs::write(&file, content).unwrap();
        let file = file.to_str().unwrap();
        error_of(&["run", "--mode", "cluster", "--kubeconfig", file])
    };
    let place = format!("error: cannot use the cluster: {}: ", file.display());
    let error = broken("{");
    assert!(error.starts_with(&format!("{place}line 1")), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    let error = broken("apiVersion: v1");
    assert_eq!(error, format!("{place}failed to determine current context\n"));
}
