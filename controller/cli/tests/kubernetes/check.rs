//! `patchbay check` before an installation, with each failure.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::fmt::rfc2822::DateTimePrinter;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::apiserver::{Fault, Reply};
use crate::command::{kubeconfig, kubeconfig_as, patchbay};
use crate::testbed::Testbed;

/// Node that tests change.
const NODE: &str = "ovn-worker";

/// A test bed with a kubeconfig.
pub(crate) struct Checked {
    pub(crate) bed: Testbed,
    config: PathBuf,
    folder: TempDir,
}

/// Results by group and name, with the exit status.
pub(crate) struct Results {
    pub(crate) code: i32,
    pub(crate) document: Value,
}

impl Checked {
    pub(crate) async fn new() -> Self {
        let bed = Testbed::simulated().await;
        bed.define_resources().await;
        Self::on(bed)
    }

    pub(crate) fn on(bed: Testbed) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = kubeconfig(folder.path(), &bed.api().url());
        Self { bed, config, folder }
    }

    /// The kubeconfig.
    pub(crate) fn config(&self) -> &Path {
        &self.config
    }

    /// Sends a request to the server, which must succeed.
    pub(crate) async fn send(&self, method: &str, path: &str, body: &Value) {
        let content = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = hyper::Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", content)
            .body(body.to_string().into_bytes())
            .unwrap();
        self.bed.client.request_text(request).await.unwrap();
    }

    /// Makes the checks, with 20 s for each answer.
    pub(crate) async fn check(&self, arguments: &[&str]) -> Results {
        let arguments = [arguments, &["--timeout", "20", "-o", "json"]].concat();
        let (code, text, errors) = self.run(&arguments).await;
        let document = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{errors}"));
        Results { code, document }
    }

    /// Runs the command. Returns its status and what it has written.
    pub(crate) async fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = patchbay(&["check", "--namespace", "default", "--kubeconfig"]);
        command.arg(&self.config).args(arguments);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }
}

impl Results {
    pub(crate) fn find(&self, name: &str) -> &Value {
        let (group, check) = name.split_once('/').unwrap();
        let mut checks = self.document["checks"].as_array().unwrap().iter();
        let found = checks.find(|one| one["group"] == group && one["name"] == check);
        found.unwrap_or_else(|| panic!("no {name}: {:#}", self.document))
    }

    /// Asserts the verdict of a check, a part of its finding, and what follows from the verdict.
    #[track_caller]
    pub(crate) fn expect(&self, name: &str, verdict: &str, finding: &str) {
        let found = self.find(name);
        let text = found["finding"].as_str().unwrap();
        assert_eq!(found["verdict"], verdict, "{name}: {text}");
        assert!(text.contains(finding), "{name}: {text}");
        let has_remedy = ["warning", "failed"].contains(&verdict);
        assert_eq!(found["remedy"].is_string(), has_remedy, "{found}");
        if let Some(see) = found["see"].as_str() {
            let (page, section) = see.split_once("#check-").unwrap();
            let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
            let page = std::fs::read_to_string(page).unwrap();
            assert!(page.contains(&format!("\n### Check {section}\n")), "{see}");
        }
        if verdict == "failed" {
            assert_eq!(self.code, 2);
        }
    }

    /// Asserts that all checks but these are ok.
    #[track_caller]
    pub(crate) fn expect_others_ok(&self, names: &[&str]) {
        for check in self.document["checks"].as_array().unwrap() {
            let name = format!("{}/{}", check["group"], check["name"]).replace('"', "");
            assert!(check["verdict"] == "ok" || names.contains(&&*name), "{check:#}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_ready_for_an_installation() {
    let checked = Checked::new().await;
    let results = checked.check(&["--pre"]).await;
    results.expect_others_ok(&[]);
    assert_eq!(results.code, 0);
    results.expect("api-server/reachable", "ok", "v1.36.3");

    let (code, text, _) = checked.run(&["--pre"]).await;
    assert_eq!(code, 0, "{text}");
    assert!(text.starts_with("api-server\n  1.1  ok       the API server answers: v1"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.ends_with(" ok, 0 warnings, 0 failed, 0 skipped\n"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_answers_is_a_failure_and_no_hang() {
    let checked = Checked::new().await;
    let asked = || {
        let requests = checked.bed.api().requests();
        requests.iter().filter(|one| one.path == "/api/v1/nodes").count()
    };
    let before = asked();
    let never = |path| Fault { method: "GET", path, reply: Reply::Never, times: usize::MAX };
    checked.bed.api().fail(never("/version"));
    let (code, text, _) = checked.run(&["--pre", "--timeout", "1", "-o", "json"]).await;
    let results = Results { code, document: serde_json::from_str(&text).unwrap() };
    results.expect("api-server/reachable", "failed", "no answer within 1 s");
    for name in ["api-server/clock", "rights/install", "nodes/ids", "second-writer/connects"] {
        results.expect(name, "skipped", "does not answer");
    }
    assert_eq!(asked(), before, "nothing else is asked");

    // Of a server that answers some questions, the other checks are made.
    checked.bed.api().end_faults();
    checked.bed.api().fail(never("/api/v1/nodes"));
    let (code, text, _) = checked.run(&["--pre", "--timeout", "1", "-o", "json"]).await;
    let results = Results { code, document: serde_json::from_str(&text).unwrap() };
    results.expect("nodes/ids", "failed", "cannot read nodes: no answer within 1 s");
    results.expect("second-writer/connects", "ok", "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_be_reached_or_asked_is_named() {
    let checked = Checked::new().await;
    let folder = tempfile::tempdir().unwrap();
    let nowhere = kubeconfig(folder.path(), "http://127.0.0.1:1");
    let mut command = patchbay(&["check", "-o", "junit", "--kubeconfig"]);
    let output = command.arg(nowhere).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("name=\"reachable\"><failure message=\"the API server does"), "{text}");
    assert!(text.contains("name=\"clock\"><skipped message=\"the API server does not"), "{text}");

    let output = patchbay(&["check", "--kubeconfig", "none"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));

    let refused =
        |path, code| Fault { method: "LIST", path, reply: Reply::Status(code, None), times: 1 };
    checked.bed.api().fail(refused("/api/v1/nodes", 403));
    checked.bed.api().fail(refused("/apis/apps/v1/deployments", 500));
    let results = checked.check(&["--pre"]).await;
    results.expect("nodes/zones", "warning", "cannot see nodes: ");
    results.expect("second-writer/connects", "failed", "as ordered by the test (500)");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_and_clocks_are_compared() {
    let checked = Checked::new().await;
    let version = |minor: &str| json!({"major": "1", "minor": minor, "gitVersion": "v1.x"});
    let date = |seconds| {
        let time = Timestamp::now() + SignedDuration::from_secs(seconds);
        Some(DateTimePrinter::new().timestamp_to_rfc9110_string(&time).unwrap())
    };
    checked.bed.api().greet(version("30+"), date(-60));
    let results = checked.check(&["--pre"]).await;
    results.expect("api-server/version", "failed", "v1.x is older than Kubernetes 1.31");
    results.expect("api-server/clock", "warning", " s behind");
    checked.bed.api().greet(version("x"), date(3_600));
    let results = checked.check(&["--pre"]).await;
    results.expect("api-server/version", "warning", "no known version");
    results.expect("api-server/clock", "warning", " s ahead");
    checked.bed.api().greet(json!([]), None);
    let results = checked.check(&["--pre"]).await;
    results.expect("api-server/reachable", "failed", "no version of Kubernetes at /version");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_rights_are_listed() {
    let mut checked = Checked::new().await;
    checked.config =
        kubeconfig_as("patchbay-cluster", checked.folder.path(), &checked.bed.api().url());
    let results = checked.check(&["--pre", "--networks"]).await;
    results.expect("rights/install", "failed", "create clusterroles.rbac.authorization.k8s.io");
    results.expect("rights/grant", "failed", "create configmaps in default");
    let finding = results.find("rights/grant")["finding"].to_string();
    assert!(!finding.contains("list nodes"), "it has this right: {finding}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_are_compared() {
    let checked = Checked::new().await;
    let definition =
        |name: &str| format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    let (cnc, udn) = ("clusternetworkconnects.k8s.ovn.org", "userdefinednetworks.k8s.ovn.org");
    let nad = "network-attachment-definitions.k8s.cni.cncf.io";
    let cudn = "clusteruserdefinednetworks.k8s.ovn.org";
    checked.send("DELETE", &definition(cudn), &json!({})).await;
    let conflict = json!({"type": "NamesAccepted", "status": "False", "message": "in use"});
    let status = json!({"status": {"conditions": [conflict]}});
    checked.send("PATCH", &format!("{}/status", definition(udn)), &status).await;
    let served = json!({"spec": {"versions": [{"name": "v2", "served": true, "storage": true}]}});
    checked.send("PATCH", &definition(nad), &served).await;
    let older = json!([{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object"}}}]);
    checked.send("PATCH", &definition(cnc), &json!({"spec": {"versions": older}})).await;
    let results = checked.check(&["--pre"]).await;
    results.expect(&format!("definitions/{cudn}"), "failed", "no definition");
    results.expect(&format!("definitions/{udn}"), "failed", "is not established: in use");
    results.expect(&format!("definitions/{nad}"), "failed", "no version v1, but v2");
    results.expect(&format!("definitions/{cnc}"), "warning", "other rules than this version");

    checked.send("DELETE", &definition(cnc), &json!({})).await;
    let results = checked.check(&["--pre"]).await;
    results.expect(&format!("definitions/{cnc}"), "ok", "is not there yet");
    let results = checked.check(&[]).await;
    results.expect(&format!("definitions/{cnc}"), "failed", "has no definition");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_writers_are_found() {
    let checked = Checked::new().await;
    let workload = |kind: &str, name: &str, container: Value| {
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
            "spec": {"template": {"spec": {"containers": [container]}}}})
    };
    let of = |plural: &str| format!("/apis/apps/v1/namespaces/ovn-kubernetes/{plural}");
    let off = json!({"name": "ovnkube", "args": ["--enable-network-connect=false"]});
    checked.send("POST", &of("daemonsets"), &workload("DaemonSet", "node", off)).await;
    let other = json!({"name": "x", "args": ["--enable-network-connect"]});
    checked.send("POST", &of("daemonsets"), &workload("DaemonSet", "other", other)).await;
    let script = json!({"name": "ovnkube", "command": ["sh", "-c",
        "exec ovnkube --enable-network-segmentation=true\n  --enable-network-connects"]});
    checked.send("POST", &of("daemonsets"), &workload("DaemonSet", "script", script)).await;
    let results = checked.check(&["--pre"]).await;
    results.expect("second-writer/connects", "ok", "runs without --enable-network-connect");
    let results = checked.check(&["--pre", "--networks"]).await;
    let finding = "with --enable-network-segmentation: DaemonSet ovn-kubernetes/script";
    results.expect("second-writer/networks", "failed", finding);

    let variable = json!({"name": "OVN_NETWORK_CONNECT_ENABLE", "value": "true"});
    let manager = json!({"name": "ovnkube-cluster-manager", "env": [variable]});
    let manager = workload("Deployment", "ovnkube-control-plane", manager);
    checked.send("POST", &of("deployments"), &manager).await;
    let file = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ovnkube-config"},
        "data": {"ovnkube.conf": "[ovnkubernetesfeature]\nenable-network-connect = true\n"}});
    let files = "/api/v1/namespaces/openshift-ovn-kubernetes/configmaps";
    checked.send("POST", files, &file).await;
    let renewed = Timestamp::now().to_string();
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "patchbay-cluster",
            "labels": {"app.kubernetes.io/component": "patchbay-cluster"}},
        "spec": {"holderIdentity": "m_1", "renewTime": renewed, "leaseDurationSeconds": 1_000}});
    checked.send("POST", "/apis/coordination.k8s.io/v1/namespaces/other/leases", &lease).await;
    let results = checked.check(&["--pre"]).await;
    let finding = "Deployment ovn-kubernetes/ovnkube-control-plane, ConfigMap openshift-ovn";
    results.expect("second-writer/connects", "failed", finding);
    results.expect("second-writer/managers", "failed", "m_1 holds other/patchbay-cluster");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_ovn_kubernetes_are_checked() {
    let checked = Checked::new().await;
    let annotate = async |node: &str, annotations: Value| {
        let patch = json!({"metadata": {"annotations": annotations}});
        checked.send("PATCH", &format!("/api/v1/nodes/{node}"), &patch).await;
    };
    annotate(NODE, json!({"k8s.ovn.org/zone-name": "global", "k8s.ovn.org/node-id": "2"})).await;
    let second = json!({"k8s.ovn.org/node-id": "2", "k8s.ovn.org/node-chassis-id": null});
    annotate("ovn-worker2", second).await;
    let third = json!({"k8s.ovn.org/node-id": "3", "k8s.ovn.org/zone-name": "ovn-control-plane"});
    annotate("ovn-control-plane", third).await;
    let results = checked.check(&["--pre"]).await;
    results.expect("nodes/zones", "failed", "ovn-worker is in global");
    results.expect("nodes/ids", "failed", "2 of ovn-worker and ovn-worker2");
    results.expect("nodes/chassis", "failed", ": ovn-worker2");
    annotate(NODE, json!({"k8s.ovn.org/node-id": null})).await;
    let results = checked.check(&["--pre"]).await;
    results.expect("nodes/ids", "failed", "k8s.ovn.org/node-id: ovn-worker");

    for node in [NODE, "ovn-worker2", "ovn-control-plane"] {
        checked.send("DELETE", &format!("/api/v1/nodes/{node}"), &json!({})).await;
    }
    let results = checked.check(&["--pre"]).await;
    results.expect("nodes/managed", "failed", "no node has annotations");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks_are_repeated_until_none_fails() {
    let checked = Checked::new().await;
    checked.bed.api().fail(Fault {
        method: "LIST",
        path: "/api/v1/nodes",
        reply: Reply::Status(500, None),
        times: 1,
    });
    let (code, text, errors) = checked.run(&["--pre", "--wait", "100"]).await;
    assert_eq!(code, 0, "{text}");
    assert_eq!(errors, "waiting until nothing fails, at most 100 s\n");
    checked.bed.api().fail(Fault {
        method: "GET",
        path: "/version",
        reply: Reply::Late(503, Duration::from_millis(1)),
        times: usize::MAX,
    });
    let (code, text, _) = checked.run(&["--pre", "--wait", "1"]).await;
    assert_eq!(code, 2, "{text}");
}
