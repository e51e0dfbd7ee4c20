//! What a cluster lacks when Patchbay is installed first: definitions, and annotations of nodes. Also
//! annotations of nodes that cannot be read.

use std::io::Read as _;
use std::process::Stdio;

use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::apiserver::{Fault, Reply};
use crate::command::{kubeconfig, patchbay};
use crate::network_objects::{condition, until_condition};
use crate::networks::{RED, create_network, create_pod, layer2, layer3, udns};
use crate::testbed::{Testbed, ZONE, accepted, eventually};
use crate::zone_database::Zone;

const DEFINITIONS: &str = "/network-attachment-definitions$";
const INSTALLED_BY: &str = "`patchbay crds net-attach-def | kubectl apply -f -`";
const CHASSIS: &str = "k8s.ovn.org/node-chassis-id";

/// Makes the server one that does not define attachment definitions.
fn undefine(bed: &Testbed) {
    bed.api().fail(Fault {
        method: "LIST",
        path: DEFINITIONS,
        reply: Reply::Status(404, None),
        times: usize::MAX,
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn networks_and_connects_name_a_definition_that_they_wait_for() {
    let mut bed = Testbed::simulated().await;
    bed.networks = true;
    undefine(&bed);
    create_network(&bed, layer3()).await;
    bed.connect().await;
    let manager = bed.run_cluster("one");
    let waiting =
        "failed to create NetworkAttachmentDefinition: the cluster has no definition of the kind";
    let failed = ["False", "SyncError", waiting];
    let message = until_condition(&udns(&bed), RED, "NetworkCreated", failed).await;
    assert!(message.ends_with(INSTALLED_BY), "{message}");
    let (status, message) =
        eventually("the connect waits", async || accepted(&bed.connected().await)).await;
    assert_eq!(status, "False");
    let expected =
        "waiting for NetworkAttachmentDefinitions: the cluster has no definition of the kind";
    assert!(message.starts_with(expected) && message.ends_with(INSTALLED_BY), "{message}");

    bed.api().end_faults();
    let created = ["True", "NetworkAttachmentDefinitionCreated", ""];
    until_condition(&udns(&bed), RED, "NetworkCreated", created).await;
    bed.until_allocated(2).await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connect_that_was_accepted_stays_so_while_a_definition_is_missing() {
    let bed = Testbed::simulated().await;
    let manager = bed.run_cluster("one");
    bed.connect().await;
    let before = bed.until_allocated(2).await;
    manager.stop().await;
    undefine(&bed);
    let manager = bed.run_cluster("two");
    let first = bed.api().requests().len();
    eventually("three lists fail", async || {
        let requests = bed.api().requests();
        let lists = requests[first..].iter().filter(|one| one.status == 404);
        (lists.count() >= 3).then_some(())
    })
    .await;
    assert_eq!(bed.connected().await.status, before.status);
    manager.stop().await;
}

#[tokio::test]
async fn a_missing_definition_is_not_logged_again_and_again() {
    let bed = Testbed::simulated().await;
    undefine(&bed);
    let folder = tempfile::tempdir().unwrap();
    let mut command = patchbay(&["run", "--mode", "cluster", "--kubeconfig"]);
    command.arg(kubeconfig(folder.path(), &bed.api().url()));
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    eventually("four lists fail", async || {
        let requests = bed.api().requests();
        let lists =
            requests.iter().filter(|one| one.status == 404 && one.path.contains("attachment"));
        (lists.count() >= 4).then_some(())
    })
    .await;
    patchbay_ovn_programs::testing::signal(&child, "TERM");
    eventually("it ends", async || child.try_wait().unwrap()).await;
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    let lines: Vec<&str> =
        log.lines().filter(|line| line.contains("NetworkAttachmentDefinition")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].contains(INSTALLED_BY), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_a_chassis_id_is_in_an_event_and_in_the_conditions_of_its_networks() {
    let mut bed = Testbed::simulated().await;
    bed.networks = true;
    let parameters = PatchParams::default();
    let annotated = |value: serde_json::Value| {
        Patch::Merge(json!({"metadata": {"annotations": {CHASSIS: value}}}))
    };
    let node = bed.nodes().get(ZONE).await.unwrap();
    let chassis = node.metadata.annotations.as_ref().unwrap()[CHASSIS].clone();
    bed.nodes().patch(ZONE, &parameters, &annotated(json!(null))).await.unwrap();
    create_network(&bed, layer2()).await;
    let zone = Zone::without_networks(ZONE).await;
    let manager = bed.run_cluster("one");
    let controller = bed.run_zone(&zone);
    create_pod(&bed, "web").await;
    let field = format!("metadata.annotations[{CHASSIS}]");
    let held = format!("pods get no port on these nodes, because {field} is missing");
    let message =
        until_condition(&udns(&bed), RED, "PortsAvailable", ["False", "NoChassisId", &held]).await;
    assert!(message.ends_with(&format!("Node {ZONE}")), "{message}");
    let expected = format!("{field}: is missing, so layer3 and primary networks are incomplete");
    crate::missing_rights::until_warned(&bed, "Node", ZONE, &expected).await;

    bed.nodes().patch(ZONE, &parameters, &annotated(json!(chassis))).await.unwrap();
    until_condition(&udns(&bed), RED, "PortsAvailable", ["True", "ChassisIds", ""]).await;
    let network = udns(&bed).get(RED).await.unwrap();
    let [status, ..] = condition(&network, "NetworkCreated").unwrap();
    assert_eq!(status, "True");
    manager.stop().await;
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn annotations_of_a_node_that_cannot_be_read_are_in_events() {
    let mut bed = Testbed::simulated().await;
    bed.networks = true;
    let unreadable = json!({
        "k8s.ovn.org/host-cidrs": r#"["10.0.0.1"]"#,
        "k8s.ovn.org/l3-gateway-config": r#"{"default":{"next-hops":["x"]}}"#,
        "k8s.ovn.org/node-primary-ifaddr": r#"{"ipv4":"x"}"#,
    });
    let patch = Patch::Merge(json!({"metadata": {"annotations": unreadable}}));
    let parameters = PatchParams::default();
    bed.nodes().patch(ZONE, &parameters, &patch).await.unwrap();
    let zone = Zone::without_networks(ZONE).await;
    let manager = bed.run_cluster("one");
    let controller = bed.run_zone(&zone);
    for annotation in unreadable.as_object().unwrap().keys() {
        let expected = format!("metadata.annotations[{annotation}]: cannot be read: not ");
        crate::missing_rights::until_warned(&bed, "Node", ZONE, &expected).await;
    }
    manager.stop().await;
    controller.stop().await;
}
