//! The first installation on an empty cluster: a real control plane, the printed manifests, kubectl,
//! and both controllers as processes with the tokens of their accounts.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use patchbay_schemas::nb::LogicalSwitchPort;

use crate::command::patchbay;
use crate::control_plane::ControlPlane;
use crate::testbed::eventually;
use crate::zone_database::Zone;

/// Namespace of the controllers in the printed manifests.
pub(crate) const NAMESPACE: &str = "ovn-kubernetes";
/// Nodes of the example, with the pods on each.
pub(crate) const NODES: [(&str, &[&str]); 2] =
    [("node-1", &["web"]), ("node-2", &["client", "db"])];

/// Process of a controller. Dropping it kills the process.
struct Controller(Child);

impl Drop for Controller {
    fn drop(&mut self) {
        // Both fail only if the process has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// kubectl with the administrator's rights.
fn administrators_kubectl(plane: &ControlPlane) -> Command {
    let mut command = Command::new(&plane.program);
    let cache = plane.kubeconfig().with_file_name("kubectl");
    command.args(["kubectl", "--cache-dir"]).arg(cache);
    command.arg("--kubeconfig").arg(plane.kubeconfig());
    command
}

/// Runs kubectl, which must succeed, and returns its output.
pub(crate) fn kubectl(plane: &ControlPlane, arguments: &[&str], input: &str) -> String {
    let mut command = administrators_kubectl(plane);
    command.args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = patchbay_ovn_programs::testing::output_of(child);
    writer.join().unwrap().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "kubectl {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Output of a command that prints manifests.
pub(crate) fn printed(arguments: &[&str]) -> String {
    let output = patchbay(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn example(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("examples/shop").join(name)
}

/// Writes a kubeconfig with a token of an account.
pub(crate) fn kubeconfig_of(plane: &ControlPlane, account: &str, bound_to: &[&str]) -> PathBuf {
    let create = ["create", "token", account, "--namespace", NAMESPACE];
    let token = kubectl(plane, &[&create, bound_to].concat(), "");
    let name = [&["kubeconfig", account], bound_to].concat().join("-");
    let kubeconfig = plane.kubeconfig().with_file_name(name);
    plane.write_kubeconfig(&kubeconfig, token.trim_end());
    kubeconfig
}

/// Starts a controller with the token of its account.
fn start(plane: &ControlPlane, account: &str, bound_to: &[&str], more: &[&str]) -> Controller {
    let kubeconfig = kubeconfig_of(plane, account, bound_to);
    let mut command: Command = patchbay(&["run", "--networks", "--service-cidr", "10.96.0.0/16"]);
    command.args(more).arg("--kubeconfig").arg(kubeconfig);
    Controller(command.stderr(Stdio::inherit()).spawn().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it starts a control plane of its own"]
async fn printed_manifests_and_the_rights_of_the_accounts_are_enough_for_the_example() {
    let Some(plane) = ControlPlane::start().await else {
        return;
    };
    let apply = ["apply", "--server-side", "-f", "-"];
    kubectl(&plane, &["create", "namespace", NAMESPACE], "");
    let kinds = ["crds", "udn", "cudn", "net-attach-def", "ipamclaim"];
    kubectl(&plane, &apply, &printed(&kinds));
    let deployed = printed(&["deploy", "--networks", "--image", "registry.example/patchbay"]);
    kubectl(&plane, &apply, &deployed);
    for plural in ["clusternetworkconnects", "clusteruserdefinednetworks"] {
        let definition = format!("crd/{plural}.k8s.ovn.org");
        kubectl(&plane, &["wait", "--for=condition=Established", &definition], "");
    }
    let cluster = std::fs::read_to_string(example("1-cluster.yaml")).unwrap();
    kubectl(&plane, &apply, &cluster);
    for (node, _) in NODES {
        let chassis = format!("k8s.ovn.org/node-chassis-id=chassis-of-{node}");
        kubectl(&plane, &["annotate", "node", node, &chassis], "");
    }

    let _manager = start(&plane, "patchbay-cluster", &[], &["--mode", "cluster"]);
    let mut zones = Vec::new();
    let mut controllers = Vec::new();
    for (node, _) in NODES {
        let zone = Zone::without_networks(node).await;
        let bound = ["--bound-object-kind", "Node", "--bound-object-name", node];
        let own = ["--mode", "zone", "--zone", node, "--nb", zone.remote()];
        controllers.push(start(&plane, "patchbay-zone", &bound, &own));
        zones.push(zone);
    }
    for file in ["2-networks.yaml", "3-pods.yaml", "4-policy.yaml"] {
        // A namespace gets the account of its pods from a controller, later.
        let text = std::fs::read_to_string(example(file)).unwrap();
        eventually(&format!("{file} is applied"), async || {
            let mut command = administrators_kubectl(&plane);
            command.args(["apply", "-f"]).arg(example(file));
            let output = command.output().unwrap();
            let errors = String::from_utf8(output.stderr).unwrap();
            let is_early = errors.contains("serviceaccount");
            assert!(output.status.success() || is_early, "{text}\n{errors}");
            output.status.success().then_some(())
        })
        .await;
    }
    let condition = ["wait", "--for=condition=Connected", "--timeout=240s"];
    let connect = "cnc/shop-and-partner";
    kubectl(&plane, &[&condition[..], &[connect]].concat(), "");
    for (zone, (_, pods)) in zones.iter().zip(NODES) {
        zone.until("the connect has rows", |zone| {
            (!zone.connect_policies().is_empty()).then_some(())
        })
        .await;
        zone.until("the pods have ports", |zone| {
            let ports = zone.rows::<LogicalSwitchPort>();
            let has_port = |pod: &&str| {
                let end = format!("_{pod}");
                ports.iter().any(|port| port.name.ends_with(&end))
            };
            pods.iter().all(has_port).then_some(())
        })
        .await;
    }
    // The connect was made by kubectl, and its annotations are those of the manager only.
    let forged = ["annotate", connect, "k8s.ovn.org/network-connect-subnet={}"];
    let mut command = administrators_kubectl(&plane);
    let output = command.args(forged).arg("--overwrite").output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("cnc-annotation-validation"), "{errors}");
}
