//! `patchbay explain` on a cluster.

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::apiserver::{Fault, Reply};
use crate::command::{kubeconfig, kubeconfig_as, patchbay};
use crate::networks::object;
use crate::testbed::{CONNECT, Testbed, ZONE, until_connected};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_explained() {
    let bed = Testbed::simulated().await;
    let zone = bed.zone(ZONE).await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    let folder = tempfile::tempdir().unwrap();
    // With the rights of the cluster manager.
    let config = kubeconfig_as("patchbay-cluster", folder.path(), &bed.api().url());
    let explain = |code: i32, more: &[&str]| {
        let mut command = patchbay(&["explain", "cnc", CONNECT]);
        command.arg("--kubeconfig").arg(&config).args(more);
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        (String::from_utf8(output.stdout).unwrap(), stderr)
    };
    bed.api().fail(Fault {
        method: "LIST",
        path: "/namespaces",
        reply: Reply::Text(429, 1),
        times: 1,
    });
    let (text, warnings) = explain(0, &[]);
    assert_eq!(warnings, "");
    assert!(text.contains("network cluster_udn_blue-network: connected\n"), "{text}");

    let annotations = json!({"k8s.ovn.org/node-id": null, "k8s.ovn.org/node-chassis-id": null});
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    let nodes = bed.nodes();
    for node in ["ovn-control-plane", "ovn-worker2"] {
        let params = PatchParams::default();
        nodes.patch(node, &params, &patch).await.unwrap();
    }
    let (text, _) = explain(2, &[]);
    for line in [
        "network cluster_udn_green-network: connected on some nodes\n",
        "  node ovn-control-plane: not connected: the node has no id yet -> Node ovn-control-plane: metadata.annotations[k8s.ovn.org/node-id]\n",
        "  node ovn-worker2: not connected: the node has no id yet -> Node ovn-worker2: metadata.annotations[k8s.ovn.org/node-id]\n",
    ] {
        assert!(text.contains(line), "{line}\nin {text}");
    }

    // The zone's database has the networks, and no zone controller has made the connect's rows.
    let (text, _) = explain(2, &["--zone", ZONE, "--nb", zone.remote()]);
    assert!(
        text.contains("network cluster_udn_blue-network: NOT connected\n")
            && text.contains(": `run` would insert ")
            && text.contains(" -> Northbound database of zone "),
        "{text}"
    );
    let controller = bed.run_zone(&zone);
    until_connected(&bed, "Unknown", "2 networks with ").await;
    let (text, _) = explain(2, &["--zone", ZONE, "--nb", zone.remote()]);
    assert!(
        text.contains("network cluster_udn_blue-network: connected on some nodes\n")
            && !text.contains("`run` would "),
        "{text}"
    );
    controller.stop().await;
    let bare = crate::zone_database::Zone::without_networks(ZONE).await;
    let (text, _) = explain(2, &["--zone", ZONE, "--nb", bare.remote()]);
    let line = "  not connected: unable to create router control plane protection: Copp row ovnkube-default does not exist yet -> Northbound row Copp ovnkube-default\n";
    assert!(text.contains(line), "{text}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_begins_again_when_its_later_pages_are_forgotten() {
    let bed = Testbed::simulated().await;
    bed.connect().await;
    // More than one page.
    for number in 0..40 {
        let node = json!({"metadata": {"name": format!("more-{number}")}});
        bed.create(&object::<Node>(node)).await;
    }
    bed.api().fail(Fault {
        method: "CONTINUE",
        path: "/nodes",
        reply: Reply::Status(410, None),
        times: 1,
    });
    let folder = tempfile::tempdir().unwrap();
    let config = kubeconfig_as("patchbay-cluster", folder.path(), &bed.api().url());
    let mut command = patchbay(&["explain", "cnc", CONNECT, "--kubeconfig"]);
    let output = command.arg(config).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!errors.contains("cannot list"), "{errors}");
    let requests = bed.api().requests();
    let forgotten = requests.iter().filter(|one| one.status == 410);
    assert_eq!(forgotten.count(), 1);
    let lists = requests.iter().filter(|one| one.path.ends_with("/nodes") && one.method == "GET");
    assert_eq!(lists.count(), 4, "two pages, twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_and_policies_of_a_cluster_are_explained() {
    let bed = Testbed::simulated().await;
    let pod = json!({
        "metadata": {"name": "web", "namespace": "blue", "labels": {"app": "web"}},
        "spec": {"nodeName": ZONE, "containers": [{"name": "c", "image": "i"}]},
    });
    bed.create_in(&object::<Pod>(pod)).await;
    let policy = |name: &str, app: &str| {
        json!({
            "metadata": {"name": name, "namespace": "blue"},
            "spec": {"podSelector": {"matchLabels": {"app": app}}},
        })
    };
    bed.create_in(&object::<NetworkPolicy>(policy("deny", "web"))).await;
    bed.create_in(&object::<NetworkPolicy>(policy("lost", "wbe"))).await;
    let folder = tempfile::tempdir().unwrap();
    let config = kubeconfig(folder.path(), &bed.api().url());
    let explain = |object: &str| {
        let mut command = patchbay(&["explain"]);
        command.args(object.split(' ')).arg("--kubeconfig").arg(&config);
        let output = command.output().unwrap();
        let [out, errors] = [output.stdout, output.stderr].map(String::from_utf8);
        (output.status.code(), out.unwrap(), errors.unwrap())
    };
    let (code, text, errors) = explain("networkpolicy blue/deny");
    assert!(matches!(code, Some(0 | 2)), "{errors}");
    assert!(text.starts_with("NetworkPolicy blue/deny: "), "{text}");
    assert!(text.contains("  pods web\n"), "{text}");
    let (code, text, _) = explain("networkpolicy blue/lost");
    assert_eq!(code, Some(2));
    assert!(text.contains("app=web") || text.contains("app: web"), "{text}");
    let (_, text, _) = explain("pod blue/web");
    assert!(text.starts_with("Pod blue/web: "), "{text}");
    let (code, _, errors) = explain("pod blue/wbe");
    assert_eq!(code, Some(1));
    assert!(errors.contains("Pod blue/wbe not found; found blue/web"), "{errors}");

    // Without the right to list pods, no pod is reported as missing.
    bed.api().fail(Fault {
        method: "LIST",
        path: "/pods",
        reply: Reply::Status(403, None),
        times: 1,
    });
    let (_, _, errors) = explain("networkpolicy blue/deny");
    assert!(errors.contains("cannot list objects of kind Pod"), "{errors}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_context_is_chosen_or_those_that_exist_are_listed() {
    let bed = Testbed::simulated().await;
    bed.connect().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    let context = |cluster: &str| json!({"cluster": cluster, "user": "test"});
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "gone",
        "contexts": [
            {"name": "gone", "context": context("gone")}, {"name": "lab", "context": context("lab")},
        ],
        "clusters": [
            {"name": "gone", "cluster": {"server": "http://127.0.0.1:1"}},
            {"name": "lab", "cluster": {"server": bed.api().url()}},
        ],
        "users": [{"name": "test", "user": {}}],
    });
    std::fs::write(&file, text.to_string()).unwrap();
    let explain = |more: &[&str]| {
        let mut command = patchbay(&["explain", "cnc", CONNECT, "--kubeconfig"]);
        let output = command.arg(&file).args(more).output().unwrap();
        let [out, errors] = [output.stdout, output.stderr].map(String::from_utf8);
        (output.status.code(), out.unwrap(), errors.unwrap())
    };
    let (code, text, errors) = explain(&["--context", "lab"]);
    assert!(code != Some(1) && text.contains(CONNECT), "{errors}");
    assert_eq!(explain(&[]).0, Some(1));
    let (code, _, errors) = explain(&["--context", "lba"]);
    let expected = "config: no context lba; its contexts are gone, lab\n";
    assert!(code == Some(1) && errors.ends_with(expected), "{errors}");
    // Without the flag `--kubeconfig`, as kubectl does.
    let mut command = patchbay(&["explain", "cnc", CONNECT, "--context", "lab"]);
    let output = command.env("KUBECONFIG", &file).output().unwrap();
    assert_ne!(output.status.code(), Some(1), "{output:?}");
}
