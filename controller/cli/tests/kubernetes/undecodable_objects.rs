//! Objects of built-in kinds that cannot be decoded, beside others.

use hyper::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::command::{kubeconfig_as, patchbay};
use crate::testbed::{NAMESPACE, Testbed, ZONE, until_connected};
use crate::zone_controller::until_ports;

const BLUE_PODS: &str = "/api/v1/namespaces/blue/pods";

/// Creates an object at a path of the API. The types of the client would refuse it.
async fn create(bed: &Testbed, path: &str, object: &Value) {
    let body = object.to_string().into_bytes();
    let request = hyper::Request::post(path).header(CONTENT_TYPE, "application/json");
    let created = bed.client.request_text(request.body(body).unwrap()).await;
    created.unwrap();
}

/// Creates an object of each built-in kind that cannot be decoded.
async fn create_undecodable(bed: &Testbed) {
    let label = json!({"name": "wrong", "labels": {"number": 7}});
    let of_zone = json!({"name": "wrong", "labels": {
        "app.kubernetes.io/component": "patchbay-zone",
    }});
    let pod = json!({"nodeName": 7, "containers": []});
    let service = json!({"clusterIP": "10.96.1.1", "ports": 7});
    let spec_of = |spec: Value| json!({"metadata": {"name": "wrong"}, "spec": spec});
    let own = format!("namespaces/{NAMESPACE}");
    for (path, object) in [
        ("/api/v1/namespaces".to_owned(), json!({"metadata": label})),
        ("/api/v1/nodes".to_owned(), json!({"metadata": label})),
        (BLUE_PODS.to_owned(), spec_of(pod)),
        (BLUE_PODS.to_owned(), json!({"metadata": {"name": "b", "labels": {"number": 7}}})),
        ("/api/v1/namespaces/blue/services".to_owned(), spec_of(service)),
        (format!("/api/v1/{own}/configmaps"), json!({"metadata": of_zone, "data": {"report": 7}})),
        (
            format!("/apis/coordination.k8s.io/v1/{own}/leases"),
            json!({"metadata": of_zone, "spec": {"renewTime": 7}}),
        ),
    ] {
        create(bed, &path, &object).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_cannot_be_decoded_do_not_hide_others() {
    let mut bed = Testbed::simulated().await;
    bed.dynamic_udn = true;
    create_undecodable(&bed).await;
    let zone = bed.zone(ZONE).await;
    let both = bed.run("one", true, Some(&zone));
    bed.connect().await;
    bed.until_allocated(2).await;
    let pod = json!({"metadata": {"name": "a"}, "spec": {"nodeName": ZONE, "containers": []}});
    create(&bed, BLUE_PODS, &pod).await;
    until_ports(&zone, 2).await;
    // The zone's report and lease are read.
    until_connected(&bed, "Unknown", "2 ports in 1 zone").await;
    both.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_names_the_error_of_a_connect_that_cannot_be_decoded() {
    let bed = Testbed::simulated().await;
    let connect = json!({"metadata": {"name": "wrong"}, "spec": {"networkSelectors": 7}});
    create(&bed, "/apis/k8s.ovn.org/v1/clusternetworkconnects", &connect).await;
    let folder = tempfile::tempdir().unwrap();
    let config = kubeconfig_as("patchbay-cluster", folder.path(), &bed.api().url());
    let mut command = patchbay(&["explain", "cnc", "wrong", "--kubeconfig"]);
    let output = command.arg(config).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    let error = "error: ClusterNetworkConnect wrong cannot be read: spec.networkSelectors: ";
    assert!(errors.contains(error), "{errors}");
}
