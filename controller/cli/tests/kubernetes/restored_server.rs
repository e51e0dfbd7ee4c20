//! API servers whose etcd was restored from a backup, so that resource versions have gone backwards.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::apiserver::{Backup, Fault, Reply, WatchEnd};
use crate::testbed::{CONNECT, NAMESPACE, Running, Testbed, ZONE, eventually, subnets};

fn failing_lists(path: &'static str) -> Fault {
    Fault { method: "LIST", path, reply: Reply::Status(503, None), times: usize::MAX }
}

/// Runs a cluster manager that connects two networks, and then that of blue only. The backup is from
/// the time between.
async fn run_with_backup(bed: &Testbed) -> (Running, Backup) {
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    let backup = bed.api().back_up();
    bed.label_nad("green", &json!({"app": null})).await;
    bed.until_allocated(1).await;
    (cluster, backup)
}

/// Makes many versions.
async fn annotate_blue(bed: &Testbed, versions: usize) {
    let namespaces = Api::<Namespace>::all(bed.client.clone());
    let parameters = PatchParams::default();
    for change in 0..versions {
        let patch = json!({"metadata": {"annotations": {"change": change.to_string()}}});
        let patch = Patch::Merge(patch);
        let patched = namespaces.patch("blue", &parameters, &patch).await;
        patched.unwrap();
    }
}

/// Waits until only the network of green is connected. Until all kinds are listed again, the other
/// one may be for a moment.
async fn until_only_green(bed: &Testbed) {
    eventually("only green is connected", async || {
        let subnets = subnets(&bed.connected().await);
        (subnets.len() == 1 && subnets.contains_key("layer3_2")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn objects_are_listed_again_after_a_restore() {
    for end in [WatchEnd::Cut, WatchEnd::Clean] {
        let bed = Testbed::simulated().await;
        let (cluster, backup) = run_with_backup(&bed).await;
        // Renewals of the lease do not pass the known versions before they are compared.
        annotate_blue(&bed, 300).await;
        bed.api().restore(backup, end);
        // The versions of these changes are ones that watches have seen.
        bed.label_nad("blue", &json!({"app": null})).await;
        until_only_green(&bed).await;
        cluster.stop().await;
    }
}

#[tokio::test]
async fn objects_are_listed_again_after_a_watch_was_lost_for_long() {
    let mut bed = Testbed::simulated().await;
    bed.watch_gap = Duration::from_millis(500);
    let (cluster, backup) = run_with_backup(&bed).await;
    let kinds = failing_lists("s$");
    bed.api().fail(kinds);
    bed.api().restore(backup, WatchEnd::Cut);
    // The versions of these changes pass the one that the lost watches know.
    annotate_blue(&bed, 200).await;
    eventually("no watch can be compared with the server", async || {
        let requests = bed.api().requests();
        let definitions = |path: &str| path.ends_with("/network-attachment-definitions");
        let failed =
            requests.iter().filter(|one| one.status == 503).filter(|one| definitions(&one.path));
        (failed.count() >= 2).then_some(())
    })
    .await;
    bed.api().end_faults();
    bed.label_nad("blue", &json!({"app": null})).await;
    until_only_green(&bed).await;
    cluster.stop().await;
}

#[tokio::test]
async fn objects_are_listed_again_if_versions_have_passed_the_known_ones() {
    let bed = Testbed::simulated().await;
    let (cluster, backup) = run_with_backup(&bed).await;
    // The backup has the version from which the watch of definitions would continue.
    bed.label_nad("green", &json!({"more": "1"})).await;
    bed.until_allocated(1).await;
    let kinds = failing_lists("s$");
    bed.api().fail(kinds);
    bed.api().restore(backup, WatchEnd::Cut);
    annotate_blue(&bed, 200).await;
    bed.api().end_faults();
    bed.label_nad("blue", &json!({"app": null})).await;
    until_only_green(&bed).await;
    cluster.stop().await;
}

#[tokio::test]
async fn a_report_that_a_restore_has_changed_is_written_again() {
    let bed = Testbed::simulated().await;
    let zone = bed.zone(ZONE).await;
    let (cluster, node) = (bed.run_cluster("one"), bed.run_zone(&zone));
    bed.connect().await;
    let reports = Api::<ConfigMap>::namespaced(bed.client.clone(), NAMESPACE);
    let name = format!("patchbay-zone-{ZONE}");
    let reported = async || {
        let report = reports.get_opt(&name).await.unwrap()?;
        let summary = report.data?.remove(CONNECT)?;
        summary.contains(r#""networks":2"#).then_some(())
    };
    eventually("the zone reports", reported).await;
    let outdated = Patch::Merge(json!({"data": {CONNECT: "an older report"}}));
    let parameters = PatchParams::default();
    let patched = reports.patch(&name, &parameters, &outdated);
    patched.await.unwrap();
    let backup = bed.api().back_up();
    let renewals = || {
        let requests = bed.api().requests();
        let renewals = requests
            .iter()
            .filter(|one| one.method == "PATCH")
            .filter(|one| one.path.ends_with(&format!("/leases/{name}")));
        renewals.count()
    };
    let before = renewals();
    eventually("the lease is renewed after the backup", async || {
        (renewals() > before + 1).then_some(())
    })
    .await;
    bed.api().restore(backup, WatchEnd::Clean);
    eventually("the zone reports again", reported).await;
    cluster.stop().await;
    node.stop().await;
}

#[tokio::test]
async fn a_restore_that_one_watch_notices_is_one_for_all() {
    let bed = Testbed::simulated().await;
    let (cluster, backup) = run_with_backup(&bed).await;
    annotate_blue(&bed, 300).await;
    let definitions = failing_lists("/network-attachment-definitions$");
    bed.api().fail(definitions);
    let lists = || {
        let requests = bed.api().requests();
        let own = requests.iter().filter(|one| !one.user.is_empty());
        let lists = own.filter(|one| one.path == "/api/v1/namespaces" && !one.watches);
        lists.count()
    };
    let before = lists();
    bed.api().restore(backup, WatchEnd::Clean);
    eventually("namespaces are listed after a look at the version", async || {
        (lists() >= before + 2).then_some(())
    })
    .await;
    // The versions of these changes pass the one that the watch of definitions knows.
    annotate_blue(&bed, 500).await;
    bed.api().end_faults();
    bed.label_nad("blue", &json!({"app": null})).await;
    until_only_green(&bed).await;
    cluster.stop().await;
}
