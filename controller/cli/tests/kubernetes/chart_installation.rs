//! The Helm chart on a real API server: install, upgrade, rollback and removal. There is no kubelet, so
//! processes with the arguments of the release's pods take their place.

use serde_json::Value;

use crate::admin_port::Controller;
use crate::chart::{chart, helm};
use crate::command::patchbay;
use crate::control_plane::ControlPlane;
use crate::real_installation::{NAMESPACE, NODES, example, kubeconfig_of, kubectl, printed};
use crate::zone_database::Zone;

const CLUSTER: &str = "deployment/patchbay-cluster";
const ZONE: &str = "daemonset/patchbay-zone";

/// Runs helm, which must succeed. `None`: it is not built.
fn helm_on(plane: &ControlPlane, arguments: &[&str]) -> Option<()> {
    let kubeconfig = plane.kubeconfig();
    let server = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--namespace", NAMESPACE];
    let output = helm(&[arguments, &server].concat())?;
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "helm {arguments:?}: {errors}");
    Some(())
}

fn object(plane: &ControlPlane, name: &str) -> Value {
    let text = kubectl(plane, &["get", name, "-o", "json", "--namespace", NAMESPACE], "");
    serde_json::from_str(&text).unwrap()
}

/// Arguments of the pods of an object.
fn arguments(object: &Value) -> Vec<String> {
    let arguments = object.pointer("/spec/template/spec/containers/0/args").unwrap();
    arguments.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

/// Starts a process with the arguments of a pod, at any port, on the database of a zone.
fn start(plane: &ControlPlane, name: &str, account: &str, zone: Option<&Zone>) -> Controller {
    let bound = zone.map(|zone| ["--bound-object-kind", "Node", "--bound-object-name", &zone.name]);
    let kubeconfig = kubeconfig_of(plane, account, bound.as_ref().map_or(&[], |bound| &bound[..]));
    let changed = arguments(&object(plane, name)).into_iter().map(|argument| match zone {
        _ if argument.starts_with("--admin-bind-address=") => {
            "--admin-bind-address=127.0.0.1:0".to_owned()
        }
        Some(zone) if argument.starts_with("--nb=") => format!("--nb={}", zone.remote()),
        Some(zone) => argument.replace("$(K8S_NODE)", &zone.name),
        None => argument,
    });
    let mut command = patchbay(&[]);
    command.args(changed).arg("--kubeconfig").arg(kubeconfig).env_remove("RUST_LOG");
    Controller::of(command.spawn().unwrap(), None)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it starts a control plane of its own"]
async fn a_release_is_installed_upgraded_rolled_back_and_removed() {
    let Some(plane) = ControlPlane::start().await else {
        return;
    };
    kubectl(&plane, &["create", "namespace", NAMESPACE], "");
    let kinds = ["crds", "udn", "cudn", "net-attach-def", "ipamclaim"];
    kubectl(&plane, &["apply", "--server-side", "-f", "-"], &printed(&kinds));
    let chart = chart();
    let chart = chart.to_str().unwrap();
    let networks = ["--set", "networks=true"];
    let Some(()) = helm_on(&plane, &[&["install", "patchbay", chart], &networks[..]].concat())
    else {
        return;
    };
    for plural in ["clusternetworkconnects", "clusteruserdefinednetworks"] {
        let definition = format!("crd/{plural}.k8s.ovn.org");
        kubectl(&plane, &["wait", "--for=condition=Established", &definition], "");
    }
    for file in ["1-cluster.yaml", "2-networks.yaml"] {
        kubectl(&plane, &["apply", "-f", example(file).to_str().unwrap()], "");
    }
    for (node, _) in NODES {
        let chassis = format!("k8s.ovn.org/node-chassis-id=chassis-of-{node}");
        kubectl(&plane, &["annotate", "node", node, &chassis], "");
    }

    let manager = start(&plane, CLUSTER, "patchbay-cluster", None);
    let mut zones = Vec::new();
    for (node, _) in NODES {
        let zone = Zone::without_networks(node).await;
        zones.push((start(&plane, ZONE, "patchbay-zone", Some(&zone)), zone));
    }
    let connect = "cnc/shop-and-partner";
    kubectl(&plane, &["wait", "--for=condition=Connected", "--timeout=240s", connect], "");
    manager
        .until_scraped(r#"patchbay_connect_state{connect="shop-and-partner",state="connected"} 1"#)
        .await;
    for controller in zones.iter().map(|(controller, _)| controller).chain([&manager]) {
        controller.until("/readyz", |(code, _)| *code == 200).await;
        assert_eq!(controller.get("/livez").0, 200);
    }

    let changed = ["--set", "clusterManager.replicaCount=3", "--set", "mtu=8900"];
    helm_on(&plane, &[&["upgrade", "patchbay", chart], &networks[..], &changed].concat());
    let upgraded = object(&plane, CLUSTER);
    assert_eq!(upgraded["spec"]["replicas"], 3);
    for name in [CLUSTER, ZONE] {
        assert!(arguments(&object(&plane, name)).contains(&"--mtu=8900".to_owned()));
    }
    helm_on(&plane, &["rollback", "patchbay", "1"]);
    assert_eq!(object(&plane, CLUSTER)["spec"]["replicas"], 2);
    assert!(!arguments(&object(&plane, ZONE)).contains(&"--mtu=8900".to_owned()));

    helm_on(&plane, &["uninstall", "patchbay"]);
    let left = kubectl(
        &plane,
        &["get", "deploy,ds,sa,clusterroles,validatingadmissionpolicies", "-A", "-o", "name"],
        "",
    );
    assert!(!left.contains("patchbay"), "{left}");
    // The definition stays with its objects.
    kubectl(&plane, &["get", connect], "");
}
