//! The zone controller: from annotations to rows.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use patchbay_engine::client::{Client, Config};
use patchbay_engine::db::Snapshot;
use patchbay_model::ClusterSettings;
use patchbay_networks::Topologies;
use patchbay_ovn_programs::testing::{RealServer, installed_nb_schema};
use patchbay_resources::conversion::network_objects;
use patchbay_rows::Engine;
use patchbay_schemas::nb::{LogicalRouter, LogicalRouterPolicy, LogicalRouterPort};
use patchbay_schemas::typed::TableRow;
use patchbay_zone::ZoneObjects;
use serde_json::json;
use uuid::Uuid;

use crate::testbed::{CONNECT, NAMESPACE, Testbed, ZONE, condition, eventually, until_connected};
use crate::zone_database::Zone;

/// The ports of the connect router.
pub(crate) fn connect_ports(zone: &Zone) -> BTreeSet<String> {
    let ports = zone.rows::<LogicalRouterPort>().into_iter().map(|port| port.name);
    ports.filter(|name| name.starts_with("crtor-")).collect()
}

fn uuids<T: TableRow>(zone: &Zone) -> BTreeSet<Uuid> {
    let snapshot = zone.snapshot();
    snapshot.typed::<T>().rows().map(|row| row.uuid).collect()
}

pub(crate) async fn until_ports(zone: &Zone, count: usize) -> BTreeSet<String> {
    let what = format!("{count} ports on the connect router");
    zone.until(&what, |zone| Some(connect_ports(zone)).filter(|ports| ports.len() == count)).await
}

#[tokio::test]
async fn the_documents_example_is_connected() {
    let bed = Testbed::new().await;
    let zone = bed.zone(ZONE).await;
    let both = bed.run("one", true, Some(&zone));
    bed.connect().await;
    // Two networks on three nodes.
    let ports = until_ports(&zone, 6).await;
    assert!(ports.contains("crtor-blue-green-connect_cluster_udn_blue-network_ovn-worker"));
    let routers = zone.rows::<LogicalRouter>();
    let router =
        routers.iter().find(|router| router.name == "connect_router_blue-green-connect").unwrap();
    assert_eq!(router.options["requested-tnl-key"], "16715779");
    assert_eq!((router.ports.len(), router.static_routes.len()), (6, 6));
    let policies: Vec<LogicalRouterPolicy> = zone.rows();
    assert_eq!(policies.iter().filter(|policy| policy.priority == 9001).count(), 2);
    eventually("the condition `Connected`", async || {
        let (status, message) = condition(&bed.connected().await, "Connected")?;
        let expected = "connected: 2 networks with 6 ports in 1 zone; no report yet from zones ovn-control-plane, ovn-worker2";
        (status == "Unknown" && message.starts_with(expected)).then_some(())
    })
    .await;
    both.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn the_documents_example_is_connected_in_the_real_server() {
    let bed = Testbed::new().await;
    let server = RealServer::start([installed_nb_schema()]);
    let remotes = server.remote().parse().unwrap();
    let client = Client::connect(Config::new(remotes, "OVN_Northbound")).await.unwrap();
    let settings = ClusterSettings::default();
    let mut objects = ZoneObjects::new(ZONE, &settings);
    objects.set_objects(&network_objects(&bed.inventory, &settings), &BTreeSet::new());
    let networks =
        Engine::<Topologies>::default().plan(&objects, &client.snapshot()).into_change().unwrap();
    let made = client.transact(networks.transaction.unwrap()).await;
    made.into_result().unwrap();

    let both = bed.run_on("one", true, Some((ZONE, &server.remote())));
    bed.connect().await;
    let rows = |snapshot: &Snapshot| {
        let ports = snapshot.typed::<LogicalRouterPort>();
        let ports = ports.iter().filter(|port| port.as_ref().unwrap().1.name.starts_with("crtor-"));
        (ports.count(), snapshot.typed::<LogicalRouterPolicy>().len())
    };
    let before = rows(&client.snapshot()).1;
    eventually("it is connected", async || {
        let (ports, policies) = rows(&client.snapshot());
        (ports == 6 && policies == before + 2).then_some(())
    })
    .await;
    bed.connects().delete(CONNECT, &DeleteParams::default()).await.unwrap();
    eventually("nothing is left", async || (rows(&client.snapshot()) == (0, before)).then_some(()))
        .await;
    both.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn a_restart_changes_no_row() {
    let bed = Testbed::new().await;
    let zone = bed.zone(ZONE).await;
    let cluster = bed.run_cluster("one");
    let node = bed.run_zone(&zone);
    bed.connect().await;
    until_ports(&zone, 6).await;
    node.stop().await;
    let before = uuids::<LogicalRouterPort>(&zone);
    // A node is deleted while the controller is stopped.
    bed.nodes().delete("ovn-worker2", &DeleteParams::default()).await.unwrap();
    let node = bed.run_zone(&zone);
    until_ports(&zone, 4).await;
    assert!(uuids::<LogicalRouterPort>(&zone).is_subset(&before));
    cluster.stop().await;
    node.kill().await;
    bed.clear().await;
}

#[tokio::test]
async fn nodes_come_and_go() {
    let bed = Testbed::new().await;
    let zone = bed.zone(ZONE).await;
    let both = bed.run("one", true, Some(&zone));
    let gone = bed.nodes().get("ovn-worker2").await.unwrap();
    bed.nodes().delete("ovn-worker2", &DeleteParams::default()).await.unwrap();
    bed.connect().await;
    let before = until_ports(&zone, 4).await;
    bed.create(&gone).await;
    let after = until_ports(&zone, 6).await;
    assert!(after.is_superset(&before));
    // Without an id it has no addresses.
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"k8s.ovn.org/node-id": null}}}));
    bed.nodes().patch("ovn-worker2", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(until_ports(&zone, 4).await, before);
    both.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn networks_are_connected_on_nodes_with_pods() {
    let mut bed = Testbed::simulated().await;
    bed.dynamic_udn = true;
    let zone = bed.zone(ZONE).await;
    let both = bed.run("one", true, Some(&zone));
    bed.connect().await;
    bed.until_allocated(2).await;
    let pod = |namespace: &str, node: &str| -> Pod {
        let pod = json!({
            "metadata": {"name": format!("on-{node}"), "namespace": namespace},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
        });
        serde_json::from_value(pod).unwrap()
    };
    // A network is also rendered on the nodes of its peer.
    bed.create_in(&pod("blue", ZONE)).await;
    until_ports(&zone, 2).await;
    bed.create_in(&pod("green", "ovn-worker2")).await;
    bed.create_in(&pod("other", "ovn-control-plane")).await;
    until_ports(&zone, 4).await;
    let pods = Api::<Pod>::namespaced(bed.client.clone(), "blue");
    pods.delete(&format!("on-{ZONE}"), &DeleteParams::default()).await.unwrap();
    let ports = until_ports(&zone, 2).await;
    assert!(ports.iter().all(|port| port.ends_with("_ovn-worker2")), "{ports:?}");
    both.stop().await;
}

#[tokio::test]
async fn a_deleted_connect_leaves_no_rows() {
    let bed = Testbed::new().await;
    let zone = bed.zone(ZONE).await;
    let before = zone.snapshot().row_count();
    let both = bed.run("one", true, Some(&zone));
    bed.connect().await;
    until_ports(&zone, 6).await;
    bed.connects().delete(CONNECT, &DeleteParams::default()).await.unwrap();
    let what = "the database is as it was";
    zone.until(what, |zone| (zone.snapshot().row_count() == before).then_some(())).await;
    both.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn networks_are_connected_once_their_routers_exist() {
    let bed = Testbed::new().await;
    let zone = Zone::without_networks(ZONE).await;
    let both = bed.run("one", true, Some(&zone));
    bed.connect().await;
    bed.until_allocated(2).await;
    eventually("an event names what is missing", async || {
        let events = bed.events().await;
        let missing = |(reason, note): &(String, String)| {
            reason == "NotConnected" && note.contains("Copp row ovnkube-default does not exist yet")
        };
        events.iter().any(missing).then_some(())
    })
    .await;
    assert_eq!(
        zone.rows::<LogicalRouter>().len(),
        0,
        "no other program creates the networks' routers here"
    );
    zone.add_networks(&bed.inventory);
    until_ports(&zone, 6).await;

    // The ports of a deleted network go, and come back with the network.
    let nads = bed.nads("green");
    let nad = nads.list(&ListParams::default()).await.unwrap().items.remove(0);
    let mut again = nad.clone();
    again.metadata.managed_fields = None;
    nads.delete(&nad.name_any(), &DeleteParams::default()).await.unwrap();
    until_ports(&zone, 3).await;
    bed.create_in(&again).await;
    until_ports(&zone, 6).await;
    both.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn the_zones_of_all_nodes_have_the_same_links() {
    let bed = Testbed::new().await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    let mut links = Vec::new();
    for (key, _) in bed.inventory.nodes.iter() {
        let zone = bed.zone(&key.name).await;
        let node = bed.run_zone(&zone);
        until_ports(&zone, 6).await;
        let ports: Vec<LogicalRouterPort> = zone.rows();
        let local = format!("_{}", key.name);
        let peers =
            ports.iter().filter(|port| port.name.starts_with("crtor-") && port.peer.is_some());
        assert!(peers.clone().all(|port| port.name.ends_with(&local)));
        assert_eq!(peers.count(), 2);
        let addresses: BTreeSet<_> = ports
            .into_iter()
            .filter(|port| port.name.starts_with("crtor-"))
            .map(|port| (port.name, port.networks, port.options["requested-tnl-key"].clone()))
            .collect();
        links.push(addresses);
        node.stop().await;
    }
    assert!(links.windows(2).all(|pair| pair[0] == pair[1]));
    cluster.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn the_database_may_be_late_or_temporarily_unreachable() {
    let bed = Testbed::new().await;
    let mut zone = bed.zone(ZONE).await;
    let mut relay = zone.hide();
    let both = bed.run("one", true, Some(&zone));
    bed.connect().await;
    bed.until_allocated(2).await;
    assert!(connect_ports(&zone).is_empty());
    relay.mend();
    until_ports(&zone, 6).await;

    relay.cut().await;
    bed.nodes().delete("ovn-worker2", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert_eq!(connect_ports(&zone).len(), 6);
    relay.mend();
    until_ports(&zone, 4).await;
    both.stop().await;
    bed.clear().await;
}

#[tokio::test]
async fn a_zone_that_starts_keeps_the_rows_of_a_connect_that_is_not_accepted_any_more() {
    let bed = Testbed::new().await;
    let zone = bed.zone(ZONE).await;
    let both = bed.run("one", true, Some(&zone));
    bed.connect().await;
    until_ports(&zone, 6).await;
    bed.until_allocated(2).await;
    let policies = || {
        let mut policies: Vec<String> =
            zone.connect_policies().into_iter().map(|policy| policy.r#match).collect();
        policies.sort();
        policies
    };
    let before =
        zone.until("both have policies", |_| Some(policies()).filter(|all| all.len() == 2)).await;
    both.stop().await;

    // The cluster manager does not run, and the zone remembers nothing.
    let nads = bed.nads("green");
    for nad in nads.list(&ListParams::default()).await.unwrap() {
        let config = nad.spec.config.as_ref().unwrap().replace("104.104.0.0/16", "103.103.0.0/16");
        let patch = Patch::Merge(json!({"spec": {"config": config}}));
        let params = PatchParams::default();
        nads.patch(&nad.name_any(), &params, &patch).await.unwrap();
    }
    let reports = Api::<ConfigMap>::namespaced(bed.client.clone(), NAMESPACE);
    let running = bed.run_zone(&zone);
    eventually("the zone reports that rows stay", async || {
        let report = reports.get_opt(&format!("patchbay-zone-{ZONE}")).await.unwrap()?;
        let text = json!(report.data).to_string();
        text.contains("not accepted, so its rows stay as they were").then_some(())
    })
    .await;
    assert_eq!(policies(), before);
    let cluster = bed.run_cluster("two");
    until_connected(&bed, "False", "not accepted, so its rows stay as they were").await;
    assert_eq!(policies(), before);
    cluster.stop().await;
    running.stop().await;
    bed.clear().await;
}
