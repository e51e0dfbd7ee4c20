//! Bindings of ports of pods: the pod's interface, the chassis of its node, and a tunnel key.

use std::collections::BTreeMap;

use patchbay_model::{NODE_CHASSIS_ID, NodeObject};
use patchbay_zone::ZoneObjects;
use serde_json::{Value, json};

use crate::world::{World, allocate, key, of_zone, pod, put, zone};

const LOCAL: &str = "blue.l3_blue_a";
const REMOTE: &str = "green.l2_green_b";

/// A pod of the network `green_l2` on node n2, with this tunnel key.
fn remote_pod(tunnel_id: &Value) -> Value {
    let mut pod = pod("green", "b", "n2");
    let networks = json!({"green/l2": {"ip_addresses": ["10.20.0.3/16"],
        "mac_address": "0a:58:0a:14:00:03", "tunnel_id": tunnel_id, "role": "primary"}});
    pod["metadata"]["annotations"]["k8s.ovn.org/pod-networks"] = json!(networks.to_string());
    pod
}

/// Puts a node with this chassis id.
fn put_node(zone: &mut ZoneObjects, name: &str, chassis: Option<&str>) {
    let mut annotations = BTreeMap::from([(
        "k8s.ovn.org/node-subnets".to_owned(),
        r#"{"blue_l3":["10.10.0.0/29"]}"#.to_owned(),
    )]);
    let chassis = chassis.map(|id| (NODE_CHASSIS_ID.to_owned(), id.to_owned()));
    annotations.extend(chassis);
    zone.put_node(NodeObject {
        name,
        created: None,
        labels: None,
        annotations: Some(&annotations),
    });
}

#[test]
fn a_port_that_was_made_without_a_uid_stays_without() {
    for (first, second, last) in
        [("", "uid-1", None), ("uid-1", "uid-2", Some("uid-2")), ("uid-1", "", None)]
    {
        let (mut zone, mut world) = (zone(), World::new());
        let mut version = pod("blue", "a", "n1");
        version["metadata"]["uid"] = json!(first);
        put(&mut zone, &version);
        allocate(&mut of_zone(), &mut zone);
        world.settle(&zone);
        let mut next = (**zone.pod(&key("blue", "a")).unwrap()).clone();
        next.uid = second.into();
        zone.put_pod(next.into());
        world.settle(&zone);
        let options = world.port(LOCAL).unwrap().options;
        let uid = options.get("iface-id-ver").map(String::as_str);
        assert_eq!(uid, last, "{first} {second}");
    }
}

#[test]
fn a_port_stays_while_its_node_has_no_chassis() {
    let (mut zone, mut world) = (zone(), World::new());
    put(&mut zone, &pod("blue", "a", "n1"));
    put(&mut zone, &remote_pod(&json!(11)));
    for node in ["n1", "n2"] {
        put_node(&mut zone, node, None);
    }
    allocate(&mut of_zone(), &mut zone);
    world.settle(&zone);
    assert_eq!([LOCAL, REMOTE].map(|name| world.port(name)), [None, None]);
    for node in ["n1", "n2"] {
        put_node(&mut zone, node, Some("c"));
    }
    world.settle(&zone);
    let ports = [LOCAL, REMOTE].map(|name| world.port(name));
    assert!(ports.iter().all(Option::is_some));
    put_node(&mut zone, "n1", None);
    zone.remove_node("n2");
    world.settle(&zone);
    assert_eq!([LOCAL, REMOTE].map(|name| world.port(name)), ports);
    zone.remove_pod(&key("blue", "a"));
    zone.remove_pod(&key("green", "b"));
    world.settle(&zone);
    assert_eq!([LOCAL, REMOTE].map(|name| world.port(name)), [None, None]);
}

#[test]
fn ports_of_the_zone_follow_the_chassis_of_its_node() {
    let (mut zone, mut world) = (zone(), World::new());
    put(&mut zone, &pod("blue", "a", "n1"));
    allocate(&mut of_zone(), &mut zone);
    world.settle(&zone);
    for chassis in ["c", "d"] {
        put_node(&mut zone, "n1", Some(chassis));
        world.settle(&zone);
        let options = world.port(LOCAL).unwrap().options;
        assert_eq!(options["requested-chassis"], chassis);
    }
}

#[test]
fn a_port_that_other_zones_have_waits_for_its_tunnel_key() {
    let (mut zone, mut world) = (zone(), World::new());
    for missing in [json!(null), json!(0)] {
        put(&mut zone, &remote_pod(&missing));
        world.settle(&zone);
        assert!(world.port(REMOTE).is_none(), "{missing}");
    }
    put(&mut zone, &remote_pod(&json!(11)));
    world.settle(&zone);
    let port = world.port(REMOTE).unwrap();
    assert_eq!(port.options["requested-tnl-key"], "11");
    put(&mut zone, &remote_pod(&json!(null)));
    world.settle(&zone);
    assert_eq!(world.port(REMOTE), Some(port));
}
