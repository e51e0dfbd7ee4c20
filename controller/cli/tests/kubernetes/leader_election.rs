//! Leader election between several processes.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::apiserver::{Fault, Reply};
use crate::command::{kubeconfig, patchbay};
use crate::testbed::{CONNECT, Testbed, eventually, subnets};

async fn holder(bed: &Testbed) -> Option<String> {
    let leases = Api::<Lease>::namespaced(bed.client.clone(), "default");
    let lease = leases.get_opt("patchbay-cluster").await.unwrap()?;
    lease.spec?.holder_identity
}

async fn until_held_by(bed: &Testbed, identity: &str) {
    let what = format!("{identity} leads");
    eventually(&what, async || (holder(bed).await? == identity).then_some(())).await;
}

#[tokio::test]
async fn another_process_takes_over_at_once_when_the_leader_stops() {
    let bed = Testbed::new().await;
    let one = bed.run_cluster("one");
    until_held_by(&bed, "one").await;
    let two = bed.run_cluster("two");
    bed.connect().await;
    let before = bed.until_allocated(2).await;
    assert_eq!(holder(&bed).await.as_deref(), Some("one"));

    one.stop().await;
    until_held_by(&bed, "two").await;
    bed.label_nad("green", &serde_json::json!({"app": null})).await;
    let after = bed.until_allocated(1).await;
    assert_eq!(
        after.annotations()["k8s.ovn.org/connect-router-tunnel-key"],
        before.annotations()["k8s.ovn.org/connect-router-tunnel-key"]
    );
    two.stop().await;
    assert_eq!(holder(&bed).await, None);
    bed.clear().await;
}

#[tokio::test]
async fn another_process_takes_over_when_the_lease_expires() {
    let mut bed = Testbed::new().await;
    bed.lease = Duration::from_secs(4);
    let one = bed.run_cluster("one");
    until_held_by(&bed, "one").await;
    let begun = Instant::now();
    let two = bed.run_cluster("two");
    eventually("the lease is renewed after its duration", async || {
        assert_eq!(holder(&bed).await.as_deref(), Some("one"));
        (begun.elapsed() > bed.lease + Duration::from_secs(1)).then_some(())
    })
    .await;
    one.kill().await;
    eventually("another process has the lease", async || {
        let holder = holder(&bed).await;
        // A killed leader does not release the lease.
        assert_ne!(holder, None);
        (holder.as_deref() == Some("two")).then_some(())
    })
    .await;
    bed.connect().await;
    bed.until_allocated(2).await;
    two.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn a_leader_that_cannot_renew_stops_until_it_can() {
    let mut bed = Testbed::simulated().await;
    bed.lease = Duration::from_secs(1);
    let one = bed.run_cluster("one");
    until_held_by(&bed, "one").await;
    bed.api().fail(Fault {
        method: "PUT",
        path: "/leases/",
        reply: Reply::Status(500, None),
        times: usize::MAX,
    });
    let until_failed = async |more: usize| {
        let failures = || {
            let requests = bed.api().requests();
            requests.iter().filter(|one| one.status == 500).count()
        };
        let before = failures();
        eventually("more renewals fail", async || (failures() >= before + more).then_some(()))
            .await;
    };
    // There are at most ten attempts per second, so the term has ended after these.
    until_failed(9).await;
    bed.connect().await;
    until_failed(3).await;
    let untouched = bed.connected().await;
    assert!(untouched.status.is_none(), "{:?}", untouched.annotations());
    bed.api().end_faults();
    bed.until_allocated(2).await;
    one.stop().await;
}

#[tokio::test]
async fn annotations_computed_from_an_old_version_are_not_written() {
    let bed = Testbed::simulated().await;
    bed.connect().await;
    // The watch is silent, so the controller sees only lists until the watch is opened again.
    bed.api().fail(Fault {
        method: "WATCH",
        path: "/clusternetworkconnects",
        reply: Reply::Silence,
        times: usize::MAX,
    });
    let one = bed.run_cluster("one");
    bed.until_allocated(2).await;
    let writes = |code: u16| {
        let requests = bed.api().requests();
        let own = requests.iter().filter(|one| !one.user.is_empty());
        own.filter(|one| one.writes_connect() && one.status == code).count()
    };
    // Own writes cause no conflicts.
    assert_eq!(writes(409), 0);
    let changed = json!({"metadata": {"annotations": {"example.org/note": "edited"}}});
    bed.connects().patch(CONNECT, &PatchParams::default(), &Patch::Merge(changed)).await.unwrap();
    bed.label_nad("green", &json!({"app": null})).await;
    eventually("the write is a conflict", async || (writes(409) > 0).then_some(())).await;
    assert_eq!(subnets(&bed.connected().await).len(), 2);
    bed.api().end_faults();
    bed.api().drop_watches();
    bed.until_allocated(1).await;
    one.stop().await;
}

async fn edit_lease(bed: &Testbed, spec: serde_json::Value) {
    let leases = Api::<Lease>::namespaced(bed.client.clone(), "default");
    let patch = Patch::Merge(json!({"spec": spec}));
    let params = PatchParams::default();
    leases.patch("patchbay-cluster", &params, &patch).await.unwrap();
}

#[tokio::test]
async fn a_lease_that_is_deleted_has_no_second_leader() {
    let mut bed = Testbed::simulated().await;
    bed.lease = Duration::from_secs(6);
    let one = bed.run_cluster("one");
    until_held_by(&bed, "one").await;
    let two = bed.run_cluster("two");
    let attempts = |bed: &Testbed| {
        let requests = bed.api().requests();
        let gets = requests.iter().filter(|one| one.method == "GET");
        gets.filter(|one| one.path.contains("/leases/patchbay-cluster")).count()
    };
    let both_have_seen_it = attempts(&bed) + 20;
    eventually("both processes have seen the lease", async || {
        (attempts(&bed) > both_have_seen_it).then_some(())
    })
    .await;
    // The leader cannot create it again, and still leads.
    one.kill().await;
    let leases = Api::<Lease>::namespaced(bed.client.clone(), "default");
    leases.delete("patchbay-cluster", &DeleteParams::default()).await.unwrap();
    let deleted = Instant::now();
    until_held_by(&bed, "two").await;
    let renewals_of_a_lease = bed.lease.mul_f64(0.7);
    assert!(deleted.elapsed() > renewals_of_a_lease);
    two.stop().await;
}

#[tokio::test]
async fn a_lease_that_was_edited_is_taken() {
    let mut bed = Testbed::simulated().await;
    bed.lease = Duration::from_secs(2);
    let one = bed.run_cluster("one");
    until_held_by(&bed, "one").await;
    edit_lease(
        &bed,
        json!({"holderIdentity": "other", "leaseTransitions": i32::MAX, "leaseDurationSeconds": -5}),
    )
    .await;
    until_held_by(&bed, "one").await;
    // The duration is the holder's, and it does not exist.
    edit_lease(&bed, json!({"holderIdentity": "other", "leaseDurationSeconds": i32::MAX})).await;
    let leases = Api::<Lease>::namespaced(bed.client.clone(), "default");
    let edited = Instant::now();
    eventually("its own duration is over", async || {
        assert_eq!(holder(&bed).await.as_deref(), Some("other"));
        (edited.elapsed() > bed.lease * 2).then_some(())
    })
    .await;
    let params = DeleteParams::default();
    leases.delete("patchbay-cluster", &params).await.unwrap();
    until_held_by(&bed, "one").await;
    edit_lease(&bed, json!({"holderIdentity": null, "leaseDurationSeconds": null})).await;
    until_held_by(&bed, "one").await;
    bed.connect().await;
    bed.until_allocated(2).await;
    one.stop().await;
}

/// A cluster manager with the lease of a namespace.
struct Manager(Child);

impl Manager {
    fn start(namespace: &str, config: &Path) -> Self {
        let mut command = patchbay(&["run", "--mode", "cluster", "--namespace", namespace]);
        command.arg("--kubeconfig").arg(config);
        Self(command.stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Stops it. Returns its log.
    async fn stop(mut self) -> String {
        patchbay_ovn_programs::testing::signal(&self.0, "TERM");
        eventually("it ends", async || self.0.try_wait().unwrap()).await;
        let mut log = String::new();
        let errors = self.0.stderr.as_mut().unwrap();
        errors.read_to_string(&mut log).unwrap();
        log
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn holder_in(bed: &Testbed, namespace: &str) -> Option<String> {
    let leases = Api::<Lease>::namespaced(bed.client.clone(), namespace);
    let lease = leases.get_opt("patchbay-cluster").await.unwrap()?;
    lease.spec?.holder_identity
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_waits_for_that_of_another_namespace() {
    let bed = Testbed::simulated().await;
    let folder = tempfile::tempdir().unwrap();
    let config = kubeconfig(folder.path(), &bed.api().url());
    let first = Manager::start("one", &config);
    eventually("the first one leads", async || holder_in(&bed, "one").await).await;
    let second = Manager::start("two", &config);
    // Lists of the leases of all namespaces.
    let lists = || {
        let requests = bed.api().requests();
        let lists = requests.iter().filter(|one| one.path.ends_with("/v1/leases"));
        lists.count()
    };
    let before = lists();
    eventually("the second one looks four times", async || (lists() >= before + 4).then_some(()))
        .await;
    assert_eq!(holder_in(&bed, "two").await, None);
    assert!(holder_in(&bed, "one").await.is_some());
    first.stop().await;
    eventually("the second one leads", async || holder_in(&bed, "two").await).await;
    assert_eq!(holder_in(&bed, "one").await, None);
    let log = second.stop().await;
    let named: Vec<&str> =
        log.lines().filter(|line| line.contains("in another namespace holds its lease")).collect();
    assert!(named.len() == 1 && named[0].contains("one/patchbay-cluster"), "{log}");
}
