//! `patchbay explain` on a cluster.

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::apiserver::{Fault, Reply};
use crate::command::{kubeconfig_as, patchbay};
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
