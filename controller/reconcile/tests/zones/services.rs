//! Services from files, with endpoints from their pods: packets to cluster IPs, through the rows
//! and through ovn-northd's flows.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ipnet::IpNet;
use ovsdb_sim::Sim;
use patchbay_engine::db::Snapshot;
use patchbay_model::{ClusterSettings, Feature, IpFamily};
use patchbay_ovn_programs::testing::{Release, ScratchDir};
use patchbay_reach::{Answer, Destination, Northbound, Question, Sender, Verdict};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{Embedded, Northbound as _, Remote};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_schemas::nb::{LoadBalancer, LogicalSwitchPort};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::uuids::UuidSource;

use crate::cluster_of;

/// Time in which a program must answer: far more than it needs.
const TIMEOUT: Duration = Duration::from_secs(60);
const ZONE: &str = "ovn-worker";
const CLUSTER_IP: &str = "10.96.0.7";

/// A service of two pods, and a client in both networks of the example.
const SERVICE: &str = "
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata: {name: web, namespace: blue}
  spec: {clusterIP: 10.96.0.7, selector: {app: web}, ports: [{port: 80, targetPort: http}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: web-1, namespace: blue, labels: {app: web}}
  spec: {nodeName: ovn-worker, containers: [{name: c, ports: [{name: http, containerPort: 8080}]}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: web-2, namespace: blue, labels: {app: web}}
  spec: {nodeName: ovn-worker2, containers: [{name: c, ports: [{name: http, containerPort: 8080}]}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: client, namespace: blue}
  spec: {nodeName: ovn-worker, containers: [{name: c}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: client, namespace: green}
  spec: {nodeName: ovn-worker, containers: [{name: c}]}
";

/// The networks of the example, connected with this connectivity.
fn cluster(connectivity: &str) -> Cluster {
    cluster_with(SERVICE, connectivity)
}

/// The same with other objects than those of [`SERVICE`].
fn cluster_with(objects: &str, connectivity: &str) -> Cluster {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/blue-green");
    let files = ["1-cluster.yaml", "2-networks.yaml", "3-connect.yaml"];
    let mut manifests = objects.to_owned();
    for file in files {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        manifests += "---\n";
        manifests += &text.replace("  - PodNetwork\n  - ServiceNetwork\n", connectivity);
    }
    let range = |text: &str| text.parse::<IpNet>().unwrap();
    let settings = ClusterSettings {
        families: vec![IpFamily::V4],
        service_cidrs: vec![range("10.96.0.0/16")],
        features: Feature::ALL.into(),
        ..ClusterSettings::default()
    };
    cluster_of(&manifests, settings)
}

/// Value of the service's only virtual address.
fn backends(snapshot: &Snapshot) -> String {
    let balancers = snapshot.typed::<LoadBalancer>();
    let mut balancers = balancers.iter().map(|row| row.unwrap().1);
    let web = balancers.find(|row| row.name.ends_with("_Service_blue/web_TCP_cluster"));
    web.unwrap().vips[&format!("{CLUSTER_IP}:80")].clone()
}

fn port(snapshot: &Snapshot, end: &str) -> LogicalSwitchPort {
    let ports = snapshot.typed::<LogicalSwitchPort>();
    let mut ports = ports.iter().map(|row| row.unwrap().1);
    ports.find(|port| port.name.ends_with(end)).unwrap()
}

fn ask(snapshot: &Snapshot, from: &str, to: &str, protocol: &str) -> Answer {
    let question = Question {
        sender: Sender::pod(from),
        destination: Destination::Address(to.parse().unwrap()),
        protocol: protocol.parse().unwrap(),
    };
    Northbound::new(snapshot, None).answer(&question).unwrap()
}

#[tokio::test]
async fn a_pod_that_is_being_deleted_serves_where_no_other_does() {
    let deleted = "deletionTimestamp: '2026-01-01T00:00:00Z', labels: {app: web}";
    for (pods, expected) in [
        (SERVICE.replacen("labels: {app: web}", deleted, 1), "103.103.2.3:8080"),
        (SERVICE.replace("labels: {app: web}", deleted), "103.103.1.4:8080,103.103.2.3:8080"),
    ] {
        let cluster = cluster_with(&pods, "  - ServiceNetwork\n");
        let mut zone = ZoneReconciler::new(ZONE, Embedded::new(0).unwrap(), UuidSource::seeded(0));
        zone.reconcile(&cluster).await.unwrap();
        assert_eq!(backends(&zone.northbound().snapshot()), expected);
    }
}

#[tokio::test]
async fn pods_of_both_networks_reach_a_service_that_is_connected() {
    let cluster = cluster("  - ServiceNetwork\n");
    let mut zone = ZoneReconciler::new(ZONE, Embedded::new(0).unwrap(), UuidSource::seeded(0));
    let outcome = zone.reconcile(&cluster).await.unwrap();
    assert!(outcome.problems.is_empty(), "{outcome:?}");
    let snapshot = zone.northbound().snapshot();
    let backends = backends(&snapshot);
    assert_eq!(backends.split(',').count(), 2, "{backends}");
    for client in ["blue/client", "green/client"] {
        let answer = ask(&snapshot, client, CLUSTER_IP, "tcp 80");
        assert_eq!(answer.verdict, Verdict::Reaches, "{client}: {answer:?}");
        let translated = format!("{}:8080", answer.dest.unwrap());
        assert!(backends.split(',').any(|of| of == translated), "{answer:?}");
    }
    let (pod, _) = backends.split_once(':').unwrap();
    let answer = ask(&snapshot, "green/client", pod, "tcp 8080");
    assert_eq!(answer.verdict, Verdict::Dropped, "{answer:?}");
}

/// Warning about the external port of a gateway router, which has the node's address and the
/// masquerade address, as in OVN-Kubernetes.
const MASQUERADE_WARNING: &str = "is configured with multiple IPv4 addresses";

/// A program that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if the program has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn northd_translates_a_cluster_ip_without_a_warning() {
    let release = Release::installed();
    let folder = ScratchDir::new();
    let schemas = ["ovn-nb", "ovn-sb"].map(|name| fs::read(release.schema(name)).unwrap());
    let [northbound, southbound] = schemas.map(|text| DatabaseSchema::parse(&text).unwrap());
    let builder = Sim::builder().schema(northbound.into()).schema(southbound.into());
    let sim = builder.build().unwrap();
    let socket = folder.path().join("db.sock");
    let _listener = sim.listen(&format!("punix:{}", socket.display())).await.unwrap();
    let remote = format!("unix:{}", socket.display());

    let database = Remote::open(&remote, None, TIMEOUT).await.unwrap();
    let mut zone = ZoneReconciler::new(ZONE, database, UuidSource::seeded(0));
    let cluster = cluster("  - PodNetwork\n  - ServiceNetwork\n");
    zone.reconcile(&cluster).await.unwrap();
    let snapshot = zone.northbound().snapshot();
    let db = format!("--db={remote}");

    let ports = snapshot.typed::<LogicalSwitchPort>();
    let options = ports.iter().map(|row| row.unwrap().1.options);
    let chassis: BTreeSet<String> =
        options.filter_map(|mut options| options.remove("requested-chassis")).collect();
    for (place, chassis) in chassis.iter().enumerate() {
        let address = format!("192.0.2.{place}");
        let mut add = release.command("ovn-sbctl");
        output(add.args([&db, "chassis-add", chassis, "geneve", &address]));
    }

    let log = folder.path().join("northd.log");
    let northd = release
        .command("ovn-northd")
        .args([
            format!("--ovnnb-db={remote}"),
            format!("--ovnsb-db={remote}"),
            format!("--log-file={}", log.display()),
            format!("--unixctl={}", folder.path().join("northd.ctl").display()),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _northd = Running(northd.unwrap());
    output(release.command("ovn-nbctl").args([&db, "--timeout=60", "--wait=sb", "sync"]));
    let log = fs::read_to_string(log).unwrap();
    let wrong = |line: &&str| {
        (line.contains("|WARN|") || line.contains("|ERR|")) && !line.contains(MASQUERADE_WARNING)
    };
    assert_eq!(log.lines().find(wrong), None);

    let client = port(&snapshot, "_blue_client");
    let address = client.addresses.first().unwrap().clone();
    let (mac, ip) = address.split_once(' ').unwrap();
    let local = port(&snapshot, "_blue_web-1");
    let target = local.addresses.first().unwrap().clone();
    let (_, target) = target.split_once(' ').unwrap();
    // MAC address of the gateway of the node's subnet.
    let gateway = "0a:58:67:67:01:01";
    let packet = format!(
        "inport == \"{}\" && eth.src == {mac} && eth.dst == {gateway} && ip4.src == {ip} && \
         ip4.dst == {CLUSTER_IP} && ip.ttl == 64 && tcp && tcp.src == 40000 && tcp.dst == 80",
        client.name
    );
    let mut trace = release.command("ovn-trace");
    trace.args([&db, "--minimal", &format!("--lb-dst={target}:8080")]);
    trace.args(["--ct=new"; 8]);
    let traced = output(trace.args(["cluster_udn_blue.network_ovn-worker", &packet]));
    let arrives = format!("output(\"{}\")", local.name);
    assert!(traced.contains(&arrives), "{traced}");
}
