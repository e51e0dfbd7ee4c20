//! `patchbay check` of an installation, with each failure.

use jiff::{SignedDuration, Timestamp};
use patchbay_engine::txn::TxnBuilder;
use patchbay_model::names::connect_router;
use patchbay_schemas::nb::{LogicalRouter, NbGlobal};
use serde_json::{Value, json};

use crate::check::Checked;
use crate::command::patchbay;
use crate::control_plane;
use crate::testbed::{CONNECT, Testbed, ZONE, run_zones, until_connected};
use crate::zone_database::Zone;

const PODS: &str = "/api/v1/namespaces/default/pods";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

/// Creates the objects of an installation with the status of one that works. Pod `one` leads.
async fn install(checked: &Checked) {
    let namespace = ["--namespace", "default"];
    let mut command = patchbay(&["deploy"]);
    let output = command.args(namespace).output().unwrap();
    let objects: Vec<Value> =
        serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap();
    for object in objects {
        let (all, status) = match object["kind"].as_str().unwrap() {
            "Deployment" => (
                "/apis/apps/v1/namespaces/default/deployments",
                json!({"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2}),
            ),
            "DaemonSet" => (
                "/apis/apps/v1/namespaces/default/daemonsets",
                json!({"desiredNumberScheduled": 3, "numberReady": 3, "updatedNumberScheduled": 3}),
            ),
            "ValidatingAdmissionPolicy" => {
                ("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", json!({}))
            }
            _ => continue,
        };
        checked.send("POST", all, &object).await;
        let mut status = json!({"status": status});
        status["status"]["observedGeneration"] = json!(1);
        let name = object["metadata"]["name"].as_str().unwrap();
        checked.send("PATCH", &format!("{all}/{name}/status"), &status).await;
    }
    for (name, app) in [("one", "patchbay-cluster"), ("zone-1", "patchbay-zone")] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": app}}, "spec": {"nodeName": ZONE}});
        checked.send("POST", PODS, &pod).await;
        let ready =
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        checked.send("PATCH", &format!("{PODS}/{name}/status"), &json!({"status": ready})).await;
    }
}

fn zone_of(databases: &[Zone]) -> &Zone {
    databases.iter().find(|database| database.name == ZONE).unwrap()
}

fn delete_connect_router(zone: &Zone) {
    let snapshot = zone.snapshot();
    let mut txn = TxnBuilder::new(&snapshot);
    let name = connect_router(CONNECT);
    let routers = snapshot.typed::<LogicalRouter>();
    let mut rows = routers.iter().map(Result::unwrap);
    let (router, _) = rows.find(|(_, router)| router.name == name).unwrap();
    txn.delete(router).unwrap();
    zone.database.transact(&txn.finish()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_installation_works_until_parts_of_it_fail() {
    let checked = Checked::new().await;
    let bed = &checked.bed;
    install(&checked).await;
    let manager = bed.run_cluster("one_1");
    let zones = run_zones(bed).await;
    bed.connect().await;
    until_connected(bed, "True", "").await;
    let zone = zones.iter().find(|(_, zone)| zone.name == ZONE);
    let zone = &zone.unwrap().1;
    let remote = format!("{ZONE}={}", zone.remote());
    // A report is written some time after the rows.
    let healthy = checked.check(&["--wait", "100", "--nb", &remote]).await;
    healthy.expect_others_ok(&[]);
    assert_eq!(healthy.code, 0);
    healthy.expect("installation/settings", "ok", "the same settings");
    healthy.expect("leader/holder", "ok", "pod one leads");
    healthy.expect("zones/renewals", "ok", "3 zones");
    healthy.expect(&format!("northbound/rows {ZONE}"), "ok", "as wanted");

    // The processes end; their leases are not released by an abrupt end.
    let mut databases = Vec::new();
    for (controller, database) in zones {
        controller.kill().await;
        databases.push(database);
    }
    manager.kill().await;
    delete_connect_router(zone_of(&databases));
    let rows = checked.check(&["--nb", &remote]).await;
    let finding = "are not as wanted, of blue-green-connect: Logical_Router ";
    rows.expect(&format!("northbound/rows {ZONE}"), "failed", finding);
    let long_ago = (Timestamp::now() - SignedDuration::from_secs(1_000)).to_string();
    let expired = json!({"spec": {"renewTime": long_ago}});
    for name in ["patchbay-cluster", "patchbay-zone-ovn-worker"] {
        checked.send("PATCH", &format!("{LEASES}/{name}"), &expired).await;
    }
    checked.send("DELETE", &format!("{LEASES}/patchbay-zone-ovn-worker2"), &json!({})).await;
    let waiting = json!([{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]);
    let status = json!({"status": {"conditions": null, "containerStatuses": waiting}});
    checked.send("PATCH", &format!("{PODS}/zone-1/status"), &status).await;
    let apps = "/apis/apps/v1/namespaces/default";
    let status = json!({"status": {"numberReady": 2}});
    checked.send("PATCH", &format!("{apps}/daemonsets/patchbay-zone/status"), &status).await;
    let status = json!({"status": {"updatedReplicas": 1}});
    checked.send("PATCH", &format!("{apps}/deployments/patchbay-cluster/status"), &status).await;
    let policy = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    checked.send("DELETE", &format!("{policy}/patchbay-cluster-objects"), &json!({})).await;
    let connect = format!("/apis/k8s.ovn.org/v1/clusternetworkconnects/{CONNECT}");
    let conditions = json!({"status": {"conditions": [
        {"type": "Accepted", "status": "False", "message": "overlap \u{1b}[31m"},
        {"type": "Connected", "status": "False", "reason": "X", "message": "no router"},
    ]}});
    checked.send("PATCH", &format!("{connect}/status"), &conditions).await;
    let annotations = json!({"k8s.ovn.org/connect-router-tunnel-key": "16711690"});
    checked.send("PATCH", &connect, &json!({"metadata": {"annotations": annotations}})).await;
    let failed = checked.check(&[]).await;
    failed.expect("leader/lease", "failed", "one_1 renewed the lease 1");
    failed.expect("leader/holder", "skipped", "nobody holds");
    failed.expect("zones/renewals", "failed", "ovn-worker (for 1");
    failed.expect("zones/renewals", "failed", "ovn-worker2 (never)");
    failed.expect("installation/pods", "failed", "zone-1 on ovn-worker (CrashLoopBackOff)");
    failed.expect("installation/zone", "failed", "2 of 3 pods are ready");
    failed.expect("installation/cluster", "warning", "1 of 2 pods are up to date");
    failed.expect("installation/policies", "warning", "patchbay-cluster-objects");
    failed.expect("connects/accepted", "failed", "overlap");
    failed.expect("connects/connected", "failed", "no router");
    failed.expect("connects/reports", "warning", "ovn-control-plane");
    let (_, text, _) = checked.run(&[]).await;
    assert!(!text.contains('\u{1b}') && text.contains(r"overlap \u001b[31m"), "{text}");
    assert!(text.contains("-> docs/operate.md#check-connects"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_installed_or_not_done_is_named() {
    let checked = Checked::new().await;
    let nothing = checked.check(&[]).await;
    nothing.expect("installation/cluster", "failed", "no Deployment default/patchbay-cluster");
    nothing.expect("installation/zone", "failed", "no DaemonSet default/patchbay-zone");
    nothing.expect("installation/pods", "failed", "no controller has a pod");
    nothing.expect("leader/lease", "failed", "no cluster manager has led in namespace default");
    nothing.expect("leader/holder", "skipped", "there is no lease");
    nothing.expect("connects/accepted", "ok", "0 ClusterNetworkConnects");

    install(&checked).await;
    checked.bed.connect().await;
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "patchbay-cluster"},
        "spec": {"holderIdentity": "stray_1", "renewTime": Timestamp::now().to_string(),
            "leaseDurationSeconds": 1_000}});
    checked.send("POST", LEASES, &lease).await;
    let apps = "/apis/apps/v1/namespaces/default";
    let status = json!({"status": {"desiredNumberScheduled": 0}});
    checked.send("PATCH", &format!("{apps}/daemonsets/patchbay-zone/status"), &status).await;
    let zone = "/apis/apps/v1/namespaces/default/daemonsets/patchbay-zone";
    let other = |arguments: Value| {
        let container = json!({"name": "patchbay", "args": arguments});
        json!({"spec": {"template": {"spec": {"containers": [container]}}}})
    };
    let mtu = json!(["run", "--mode=zone", "--zone=$(K8S_NODE)", "--mtu=9000"]);
    checked.send("PATCH", zone, &other(mtu)).await;
    let strange = checked.check(&[]).await;
    let finding = "with --service-cidr=10.96.0.0/16, and patchbay-zone with --mtu=9000";
    strange.expect("installation/settings", "failed", finding);
    checked.send("PATCH", zone, &other(json!(["run", "--mode=zone", "--newer"]))).await;
    let newer = checked.check(&[]).await;
    newer.expect("installation/settings", "failed", "patchbay-zone: unexpected argument");
    checked.send("PATCH", zone, &other(json!(["run", "--config=f", "--mode=cluster"]))).await;
    let of_file = checked.check(&[]).await;
    of_file.expect("installation/settings", "skipped", "in a file");
    strange.expect("leader/holder", "warning", "the leader stray_1 is no pod");
    strange.expect("installation/zone", "failed", "wants no pod");
    strange.expect("connects/accepted", "failed", "no condition yet");
    strange.expect("connects/connected", "warning", "no condition yet");
    checked
        .send(
            "PATCH",
            &format!("{LEASES}/patchbay-cluster"),
            &json!({"spec": {"holderIdentity": ""}}),
        )
        .await;
    let released = checked.check(&[]).await;
    released.expect("leader/lease", "failed", "nobody holds the lease");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_are_compared_with_the_cluster() {
    let checked = Checked::new().await;
    let zone = checked.bed.zone(ZONE).await;
    let snapshot = zone.snapshot();
    let mut txn = TxnBuilder::new(&snapshot);
    let globals: Vec<_> = snapshot.typed::<NbGlobal>().iter().map(|row| row.unwrap().0).collect();
    assert!(globals.is_empty());
    txn.insert(&NbGlobal { name: ZONE.to_owned(), ..NbGlobal::default() }).unwrap();
    zone.database.transact(&txn.finish()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let missing = format!("unix:{}", folder.path().join("none/nb.sock").display());
    let other = format!("ovn-worker2={}", zone.remote());
    let stray = Zone::without_networks("elsewhere").await;
    let unknown = format!("elsewhere={}", stray.remote());
    let arguments = ["--pre", "--nb", &other, "--nb", &missing, "--nb", zone.remote()];
    let results = checked.check(&arguments).await;
    results.expect(&format!("northbound/reachable {missing}"), "failed", "nb.sock");
    results.expect("northbound/zone ovn-worker2", "failed", "NB_Global.name is ovn-worker");
    results.expect(&format!("northbound/zone {ZONE}"), "ok", "has this node");
    results.expect(&format!("northbound/reachable {ZONE}"), "ok", "schema ");
    let results = checked.check(&["--nb", &unknown]).await;
    results.expect("northbound/zone elsewhere", "failed", "no such node");
    results.expect("northbound/rows elsewhere", "skipped", "no such node");
}

/// A real server answers as the checks expect it, and stores the definitions as they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_server_is_ready() {
    let bed = Testbed::new().await;
    bed.define_resources().await;
    let Some(config) = control_plane::administrator().await.filter(|_| bed.api.is_none()) else {
        return;
    };
    let mut command = patchbay(&["check", "--pre", "-o", "json", "--kubeconfig"]);
    let output = command.arg(config).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = document["checks"].as_array().unwrap();
    assert!(checks.len() > 10, "{document:#}");
    // Each node of the example has its id only after its pass.
    let others = checks.iter().filter(|check| check["group"] != "nodes");
    let not_ok: Vec<&Value> = others.filter(|check| check["verdict"] != "ok").collect();
    assert!(not_ok.is_empty(), "{not_ok:#?}");
    bed.clear().await;
}
