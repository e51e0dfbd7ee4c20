//! Errors that persist: they are reported once, and do not delay other objects.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, ResourceExt};
use patchbay_engine::txn::TxnBuilder;
use patchbay_model::{ConnectSubnetMap, NODE_SUBNETS};
use patchbay_resources::cnc::Connectivity;
use patchbay_schemas::nb::{
    AddressSet, LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute,
};
use serde_json::{Value, json};

use crate::apiserver::{Fault, Reply};
use crate::networks::{create_network, create_pod, layer2, pods};
use crate::stored::ClusterNetworkConnect;
use crate::testbed::{CONNECT, Testbed, ZONE, accepted, condition, eventually};
use crate::zone_database::{Zone, is_connect_row};

/// Requests that fail from now on.
fn always_fail(method: &'static str, path: &'static str, code: u16) -> Fault {
    Fault { method, path, reply: Reply::Status(code, None), times: usize::MAX }
}

/// Creates another ClusterNetworkConnect, in a range of its own.
async fn another(bed: &Testbed, name: &str) {
    let mut other = crate::testbed::connect();
    other.metadata.name = Some(name.to_owned());
    "192.170.0.0/16".clone_into(&mut other.spec.connect_subnets[0].cidr);
    bed.create(&other).await;
}

/// Waits until a reconciliation has accepted a ClusterNetworkConnect, and so has covered all of
/// them.
async fn until_accepted(bed: &Testbed, name: &str) {
    eventually("another one is accepted", async || {
        let (status, _) = accepted(&bed.connects().get(name).await.unwrap())?;
        (status == "True").then_some(())
    })
    .await;
}

/// Waits for another second, because times in conditions have no fractions.
async fn another_second() {
    tokio::time::sleep(Duration::from_millis(1100)).await;
}

/// `ClusterNetworkConnect`s whose specs Patchbay's types cannot represent.
fn raw(bed: &Testbed) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<ClusterNetworkConnect>(&());
    Api::all_with(bed.client.clone(), &resource)
}

async fn change_spec(bed: &Testbed, spec: Value) {
    let patch = Patch::Merge(json!({"spec": spec}));
    raw(bed).patch(CONNECT, &PatchParams::default(), &patch).await.unwrap();
}

async fn status(bed: &Testbed) -> (Option<String>, Value) {
    let object = raw(bed).get(CONNECT).await.unwrap();
    (object.resource_version(), object.data["status"].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_cannot_be_written_do_not_delay_others() {
    // A webhook that fails, one that does not respond in time, and one that throttles.
    let replies = [
        Reply::Status(500, None),
        Reply::Status(504, None),
        Reply::Status(429, Some(1)),
        Reply::Never,
    ];
    for reply in replies {
        let mut bed = Testbed::simulated().await;
        bed.networks = true;
        bed.request = Duration::from_millis(300);
        let path = "/pods/aaa";
        bed.api().fail(Fault { reply, ..always_fail("PATCH", path, 504) });
        let manager = bed.run_cluster("one");
        create_network(&bed, layer2()).await;
        for number in 0..20 {
            create_pod(&bed, &format!("aaa{number:02}")).await;
        }
        create_pod(&bed, "b").await;
        let addressed = async |name: &str| {
            let pod = pods(&bed).get(name).await.unwrap();
            let networks = pod.annotations().get("k8s.ovn.org/pod-networks");
            networks.map(drop)
        };
        eventually("the other one has addresses", async || addressed("b").await).await;
        bed.api().end_faults();
        eventually("the last one has them, too", async || addressed("aaa19").await).await;
        manager.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_behind_many_quick_failures_is_written_in_the_same_pass() {
    let mut bed = Testbed::simulated().await;
    bed.networks = true;
    // With this delay before each further pass, the test would not end in time.
    bed.retry = (Duration::from_secs(30), Duration::from_secs(30));
    bed.api().fail(always_fail("PATCH", "/pods/aaa", 500));
    create_network(&bed, layer2()).await;
    for number in 0..300 {
        create_pod(&bed, &format!("aaa{number:03}")).await;
    }
    create_pod(&bed, "b").await;
    let manager = bed.run_cluster("one");
    eventually("the last one has addresses", async || {
        let pod = pods(&bed).get("b").await.unwrap();
        let networks = pod.annotations().get("k8s.ovn.org/pod-networks");
        networks.map(drop)
    })
    .await;
    manager.stop().await;
}

#[tokio::test]
async fn a_persistent_rejection_is_reported_once() {
    let bed = Testbed::simulated().await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    let path = "/clusternetworkconnects/blue-green-connect$";
    bed.api().fail(always_fail("PATCH", path, 422));
    bed.label_nad("green", &json!({"app": null})).await;
    let reported = eventually("the rejection is reported", async || {
        let (status, _) = accepted(&bed.connected().await)?;
        (status == "False").then_some(())
    });
    reported.await;
    let before = status(&bed).await;
    another_second().await;
    let refused = |bed: &Testbed| {
        let requests = bed.api().requests();
        requests.iter().filter(|one| one.status == 422).count()
    };
    let so_far = refused(&bed);
    eventually("the write is retried", async || (refused(&bed) >= so_far + 3).then_some(())).await;
    assert_eq!(status(&bed).await, before);
    cluster.stop().await;
}

#[tokio::test]
async fn a_connect_that_cannot_be_decoded_is_reported_once() {
    let bed = Testbed::simulated().await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    change_spec(&bed, json!({"connectivity": ["PodNetwork", "HostNetwork"]})).await;
    let reported = eventually("it is reported", async || {
        let (_, status) = status(&bed).await;
        (status["conditions"][0]["status"] == "False").then_some(())
    });
    reported.await;
    let before = status(&bed).await;
    another_second().await;
    another(&bed, "other").await;
    until_accepted(&bed, "other").await;
    assert_eq!(status(&bed).await, before);

    // The next leader does not report it again.
    cluster.stop().await;
    let cluster = bed.run_cluster("two");
    another(&bed, "zzz").await;
    eventually("the last one is looked at", async || {
        accepted(&bed.connects().get("zzz").await.unwrap())
    })
    .await;
    assert_eq!(status(&bed).await, before);
    cluster.stop().await;
}

#[tokio::test]
async fn fields_of_a_later_version_of_the_definition_change_nothing() {
    let bed = Testbed::simulated().await;
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    bed.until_allocated(2).await;
    change_spec(&bed, json!({"description": "of a later version"})).await;
    bed.label_nad("green", &json!({"app": null})).await;
    let subnets = eventually("it follows", async || {
        let object = raw(&bed).get(CONNECT).await.unwrap();
        let text = &object.annotations()[ConnectSubnetMap::ANNOTATION];
        (!text.contains("layer3_2")).then(|| text.clone())
    });
    assert!(subnets.await.contains("layer3_1"));
    let (_, status) = status(&bed).await;
    assert_eq!(status["conditions"][0]["status"], "True");
    cluster.stop().await;
}

#[tokio::test]
async fn a_rejection_by_the_database_is_reported_in_the_status() {
    let bed = Testbed::simulated().await;
    let zone = bed.zone(ZONE).await;
    let (cluster, node) = (bed.run_cluster("one"), bed.run_zone(&zone));
    let mut connect = crate::testbed::connect();
    connect.spec.connectivity = vec![Connectivity::ServiceNetwork];
    bed.create(&connect).await;
    let set = |zone: &Zone| {
        let snapshot = zone.snapshot();
        let sets = snapshot.typed::<AddressSet>();
        let mut rows = sets.iter().map(Result::unwrap);
        rows.find(|(_, set)| is_connect_row(&set.external_ids))
    };
    let filled = zone.until("there is an address set of two networks", |zone| {
        set(zone).filter(|(_, set)| set.addresses.len() == 2)
    });
    let (row, own) = filled.await;
    node.stop().await;
    // Names of address sets are unique, and another owner has this one now.
    let owner = "k8s.ovn.org/owner-controller".to_owned();
    let mut foreign = own.clone();
    foreign.external_ids.insert(owner, "another".to_owned());
    let mut txn = TxnBuilder::new(&zone.snapshot());
    txn.update(row, &own, &foreign).unwrap();
    zone.database.transact(&txn.finish()).unwrap();
    let node = bed.run_zone(&zone);
    let reported = eventually("it is reported", async || {
        let (status, message) = condition(&bed.connected().await, "Connected")?;
        let refuses = message.contains("the Northbound database refuses the connect's rows: ");
        (status == "False" && refuses).then_some(message)
    });
    let message = reported.await;
    assert!(message.contains(&foreign.name), "{message}");
    assert_eq!(set(&zone), Some((row, foreign)));

    let mut txn = TxnBuilder::new(&zone.snapshot());
    txn.delete(row).unwrap();
    zone.database.transact(&txn.finish()).unwrap();
    zone.until("it has its own", |zone| set(zone).filter(|(other, _)| *other != row)).await;
    eventually("the end of the rejection is reported", async || {
        let (_, message) = condition(&bed.connected().await, "Connected")?;
        (!message.contains("refuses")).then_some(())
    })
    .await;
    node.stop().await;
    cluster.stop().await;
}

#[tokio::test]
async fn another_reason_of_a_rejection_is_reported_too() {
    let bed = Testbed::simulated().await;
    let zone = bed.zone(ZONE).await;
    let (cluster, node) = (bed.run_cluster("one"), bed.run_zone(&zone));
    let mut connect = crate::testbed::connect();
    connect.spec.connectivity = vec![Connectivity::PodNetwork, Connectivity::ServiceNetwork];
    bed.create(&connect).await;
    bed.until_allocated(2).await;
    let is_own = |router: &LogicalRouter| router.name.starts_with("connect_router_");
    let (row, own) = zone
        .until("there is a connect router", |zone| {
            let snapshot = zone.snapshot();
            let routers = snapshot.typed::<LogicalRouter>();
            let mut routers = routers.iter().map(Result::unwrap);
            routers.find(|(_, router)| is_own(router))
        })
        .await;
    node.stop().await;
    // The names of ports are unique, and another owner has two of them now.
    let snapshot = zone.snapshot();
    let ports = own.ports.iter().take(2);
    let names: Vec<String> = ports.map(|port| snapshot.get(*port).unwrap().unwrap().name).collect();
    let mut foreign = Vec::new();
    for name in &names {
        let mut txn = TxnBuilder::new(&zone.snapshot());
        if zone.rows::<LogicalRouter>().iter().any(is_own) {
            txn.delete(row).unwrap();
        }
        let port = LogicalRouterPort {
            name: name.clone(),
            external_ids: [("k8s.ovn.org/owner-controller".into(), "another".into())].into(),
            ..Default::default()
        };
        let port = txn.insert(&port).unwrap();
        let router = LogicalRouter {
            name: format!("of {name}"),
            ports: [port].into(),
            ..Default::default()
        };
        let router = txn.insert(&router).unwrap();
        zone.database.transact(&txn.finish()).unwrap();
        foreign.push((name, router));
    }
    let node = bed.run_zone(&zone);
    while !foreign.is_empty() {
        let named = eventually("it is reported", async || {
            let (status, message) = condition(&bed.connected().await, "Connected")?;
            let place = foreign.iter().position(|(name, _)| message.contains(*name));
            (status == "False").then_some(place?)
        });
        let (_, router) = foreign.swap_remove(named.await);
        let mut txn = TxnBuilder::new(&zone.snapshot());
        txn.delete(router).unwrap();
        zone.database.transact(&txn.finish()).unwrap();
    }
    node.stop().await;
    cluster.stop().await;
}

#[tokio::test]
async fn an_invalid_subnet_of_one_network_does_not_affect_other_networks() {
    let bed = Testbed::simulated().await;
    let zone = bed.zone(ZONE).await;
    let (cluster, node) = (bed.run_cluster("one"), bed.run_zone(&zone));
    bed.connect().await;
    bed.until_allocated(2).await;
    let has = |prefix: &'static str| {
        move |zone: &Zone| {
            let routes = zone.rows::<LogicalRouterStaticRoute>().into_iter();
            // The networks have routes to this prefix, too.
            let mut routes = routes.filter(|route| route.nexthop.starts_with("192.168."));
            routes.find(|route| route.ip_prefix == prefix)
        }
    };
    zone.until("it is connected", has("103.103.2.0/24")).await;
    let green = zone.until("so is green", has("104.104.2.0/24")).await;
    let object = bed.nodes().get("ovn-worker2").await.unwrap();
    let mut subnets: Value = serde_json::from_str(&object.annotations()[NODE_SUBNETS]).unwrap();
    subnets["cluster_udn_blue-network"] = json!(["103.103.77.0/24"]);
    subnets["cluster_udn_green-network"] = json!(7);
    let patch = json!({"metadata": {"annotations": {NODE_SUBNETS: subnets.to_string()}}});
    bed.nodes().patch("ovn-worker2", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    zone.until("the other one is read", has("103.103.77.0/24")).await;
    assert_eq!(has("104.104.2.0/24")(&zone), Some(green));
    node.stop().await;
    cluster.stop().await;
}

#[tokio::test]
async fn the_condition_stays_until_the_reports_are_known() {
    let bed = Testbed::simulated().await;
    let nodes = bed.inventory.nodes.iter().map(|(key, _)| key.name.clone());
    let mut zones = Vec::new();
    for node in nodes.collect::<Vec<_>>() {
        zones.push(bed.zone(&node).await);
    }
    let running: Vec<_> = zones.iter().map(|zone| bed.run_zone(zone)).collect();
    let cluster = bed.run_cluster("one");
    bed.connect().await;
    eventually("it is connected", async || {
        let (status, _) = condition(&bed.connected().await, "Connected")?;
        (status == "True").then_some(())
    })
    .await;
    cluster.stop().await;
    for zone in running {
        zone.stop().await;
    }
    let before = status(&bed).await;

    bed.api().fail(always_fail("GET", "/configmaps", 500));
    let cluster = bed.run_cluster("two");
    another(&bed, "other").await;
    until_accepted(&bed, "other").await;
    assert_eq!(status(&bed).await, before);
    cluster.stop().await;
}
