//! Attachments of pods to several networks.

use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::nb::{LogicalSwitch, LogicalSwitchPort, PortGroup};
use patchbay_zone::reported_problems;
use serde_json::{Value, json};

use crate::world::{
    LAYER3, World, allocate, empty_zone, key, of_all_zones, pod, problems, put, put_objects, zone,
};

const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

fn attached(selections: &Value) -> Value {
    let mut pod = pod("blue", "a", "n1");
    let annotation = json!(selections.to_string());
    pod["metadata"]["annotations"][NETWORKS] = annotation;
    pod
}

fn reported(world: &World) -> Vec<String> {
    let problems = reported_problems(&world.controller);
    problems.map(|problem| problem.to_string()).collect()
}

#[test]
fn all_ports_of_a_pod_go_with_it() {
    let (mut zone, mut world) = (zone(), World::new());
    let mut twice = attached(&json!([{"name": "s2"}, {"name": "s2"}]));
    // The cluster manager gives addresses in layer2 networks.
    let entry = |last: u8| {
        json!({"ip_addresses": [format!("10.80.0.{last}/24")],
            "mac_address": format!("0a:58:0a:50:00:0{last}"), "tunnel_id": 9 + last})
    };
    let networks = json!({"blue/s2": entry(1), "blue/s2/1": entry(2)});
    twice["metadata"]["annotations"]["k8s.ovn.org/pod-networks"] = json!(networks.to_string());
    put(&mut zone, &twice);
    let mut allocator = of_all_zones();
    assert_eq!(allocate(&mut allocator, &mut zone).len(), 3);
    assert!(problems(&allocator).is_empty());
    world.settle(&zone);
    let ports = ["blue.l3_blue_a", "blue.s2_blue_a", "blue.s2.1_blue_a"];
    let keys = ports.map(|name| {
        let port = world.port(name).unwrap();
        port.options.get("requested-tnl-key").cloned()
    });
    assert_eq!(keys, [None, Some("10".to_owned()), Some("11".to_owned())]);
    zone.remove_pod(&key("blue", "a"));
    world.settle(&zone);
    assert_eq!(ports.map(|name| world.port(name)), [None, None, None]);
}

#[test]
fn a_pod_has_a_port_once_its_network_is_defined() {
    let (mut zone, mut world) = (empty_zone(), World::new());
    let mut early = pod("green", "early", "n1");
    let networks = json!({"green/l2": {"ip_addresses": ["10.20.0.3/16"],
        "mac_address": "0a:58:0a:14:00:03", "tunnel_id": 10, "role": "primary"}});
    early["metadata"]["annotations"]["k8s.ovn.org/pod-networks"] = json!(networks.to_string());
    put(&mut zone, &early);
    world.settle(&zone);
    assert!(world.port("green.l2_green_early").is_none());
    put_objects(&mut zone, LAYER3, r#"["10.10.0.0/29"]"#);
    world.settle(&zone);
    assert!(world.port("green.l2_green_early").is_some());
}

#[test]
fn a_network_that_cannot_be_attached_is_reported_with_the_field() {
    let (mut zone, mut world) = (zone(), World::new());
    let selections =
        json!([{"name": "l3"}, {"name": "l2", "namespace": "green"}, {"name": "none"}]);
    put(&mut zone, &attached(&selections));
    let mut waiting = pod("red", "b", "n1");
    waiting["metadata"]["annotations"]["k8s.ovn.org/open-default-ports"] = json!("- port: 1");
    put(&mut zone, &waiting);
    // Its own zone reports the problems of a pod.
    let mut elsewhere = waiting.clone();
    elsewhere["metadata"]["name"] = json!("c");
    elsewhere["spec"]["nodeName"] = json!("n2");
    put(&mut zone, &elsewhere);
    allocate(&mut of_all_zones(), &mut zone);
    world.settle(&zone);
    assert!(world.port("blue.l3_blue_a").is_none());
    let found = reported(&world);
    let field = "metadata.annotations[k8s.v1.cni.cncf.io/networks]";
    let unexpected = "specified with a NetworkSelectionElement";
    assert_eq!(
        found[..3],
        [
            format!("Pod blue/a: {field}: unexpected primary network \"blue_l3\" {unexpected}"),
            format!("Pod blue/a: {field}: unexpected primary network \"green_l2\" {unexpected}"),
            format!("Pod blue/a: {field}: there is no NetworkAttachmentDefinition blue/none"),
        ]
    );
    let field = "Pod red/b: metadata.annotations[k8s.ovn.org/open-default-ports]: ";
    assert!(found[3].starts_with(field), "{}", found[3]);
    assert_eq!(
        found[4..],
        ["Pod red/b: metadata.namespace: namespace red has the label \
          k8s.ovn.org/primary-user-defined-network, but no primary network"
            .to_owned()]
    );
}

/// Adds the group of isolated ports and the port `blue_a` of the default network. Returns a
/// function that counts the group's ports.
fn with_isolation(world: &mut World) -> impl Fn(&World) -> usize + use<> {
    const GROUP: &str = "a8747502060113802905";
    let mut txn = TxnBuilder::new(&world.database.snapshot());
    txn.insert(&PortGroup { name: GROUP.to_owned(), ..PortGroup::default() }).unwrap();
    let port = LogicalSwitchPort { name: "blue_a".to_owned(), ..LogicalSwitchPort::default() };
    let port = txn.insert(&port).unwrap();
    let switch =
        LogicalSwitch { name: "n1".to_owned(), ports: [port].into(), ..LogicalSwitch::default() };
    txn.insert(&switch).unwrap();
    world.database.transact(txn.finish().operations()).unwrap();
    |world| {
        let snapshot = world.database.snapshot();
        let groups = snapshot.typed::<PortGroup>();
        let mut groups = groups.iter().map(|group| group.unwrap().1);
        let group = groups.find(|group| group.name == GROUP).unwrap();
        group.ports.len()
    }
}

#[test]
fn an_unreadable_selection_keeps_a_pod_off_all_networks_but_isolated() {
    for text in ["[{]", "S2", "s2,", "s2/", "a b"] {
        let (mut zone, mut world) = (zone(), World::new());
        let isolated = with_isolation(&mut world);
        let mut broken = pod("blue", "a", "n1");
        broken["metadata"]["annotations"][NETWORKS] = json!(text);
        put(&mut zone, &broken);
        assert!(allocate(&mut of_all_zones(), &mut zone).is_empty(), "{text}");
        world.settle(&zone);
        assert_eq!(isolated(&world), 1, "{text}");
        let found = reported(&world);
        let field = format!("Pod blue/a: metadata.annotations[{NETWORKS}]: ");
        assert!(found.len() == 1 && found[0].starts_with(&field), "{found:?}");
    }
}

#[test]
fn a_request_that_cannot_be_read_keeps_a_pod_off_that_attachment_only() {
    let mut zone = zone();
    put(
        &mut zone,
        &attached(&json!([{"name": "s2", "ips": ["10.80.0"]}, {"name": "s2", "mac": ""}])),
    );
    let (attachments, problems) = zone.attachments(zone.pod(&key("blue", "a")).unwrap());
    let keys: Vec<&str> = attachments.iter().map(|one| &*one.key).collect();
    assert_eq!(keys, ["blue/l3", "blue/s2/1"]);
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let field = format!("metadata.annotations[{NETWORKS}]: blue/s2: ");
    assert!(problems.len() == 1 && problems[0].starts_with(&field), "{problems:?}");
}
