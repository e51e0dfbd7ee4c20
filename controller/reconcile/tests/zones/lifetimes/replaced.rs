//! Networks and nodes that are deleted and created again under the same name while zones do not
//! look.

use patchbay_model::{ClusterSettings, IpFamily};
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::Pod;
use serde_json::{Value, json};

use super::objects::{Template, udn, udn_of};
use super::{Event, World};

/// Definitions of one name, each of which replaces the one before.
fn definitions() -> Vec<Value> {
    let layer3 = |role: &str, more: Value| udn_of("Layer3", role, more);
    let layer2 = |role: &str, more: Value| udn_of("Layer2", role, more);
    let v4 = json!([{"cidr": "10.10.0.0/16"}]);
    let v6 = json!([{"cidr": "fd10::/48"}]);
    let dual = json!([{"cidr": "10.10.0.0/16"}, {"cidr": "fd10::/48"}]);
    vec![
        layer3("Primary", json!({"subnets": dual})),
        layer2("Primary", json!({"subnets": ["10.10.0.0/16"]})),
        layer3("Primary", json!({"subnets": v4, "mtu": 1300})),
        layer3("Secondary", json!({"subnets": dual})),
        layer2("Primary", json!({"subnets": ["10.10.0.0/16", "fd10::/64"]})),
        layer2("Primary", json!({"subnets": ["10.10.0.0/16"], "mtu": 1300})),
        layer2("Primary", json!({"subnets": ["fd10::/64"]})),
        layer2("Secondary", json!({"ipam": {"mode": "Disabled"}})),
        layer3("Primary", json!({"subnets": v6})),
        layer3("Primary", json!({"subnets": v4, "joinSubnets": ["100.66.0.0/16", "fd98:1::/64"]})),
        layer3("Secondary", json!({"subnets": v4})),
        layer2(
            "Primary",
            json!({"subnets": ["10.10.0.0/16"],
            "infrastructureSubnets": ["10.10.1.0/24"], "defaultGatewayIPs": ["10.10.1.7"]}),
        ),
        layer2("Secondary", json!({"subnets": ["10.10.0.0/16"]})),
    ]
}

#[tokio::test]
async fn a_replaced_network_leaves_nothing() {
    let mut world = World::new(ClusterSettings {
        families: vec![IpFamily::V4, IpFamily::V6],
        ..ClusterSettings::default()
    });
    let template = udn("blue", "net", &definitions());
    let pods = ["a", "b"].map(|name| ObjectKey::namespaced("blue", name));
    for version in 0..definitions().len() {
        for key in &pods {
            world.api.delete_kind::<Pod>(key);
        }
        world.api.delete(&template);
        world.api.collect_garbage();
        world.manage();
        world.api.put(&template, version);
        for template in &world.templates {
            let name = &template.versions[0]["metadata"]["name"];
            // Other networks are left out.
            if !["net", "more", "wide", "extra"].iter().any(|other| name == *other) {
                world.api.put(template, 0);
            }
        }
        world.settle().await.unwrap();
        let compared = Box::pin(world.compare()).await;
        compared.unwrap_or_else(|error| panic!("definition {version}: {error}"));
    }
}

#[tokio::test]
async fn a_replaced_node_with_another_subnet_keeps_the_route_to_its_former_subnet() {
    let mut world = World::new(ClusterSettings::default());
    let template = |name: &str| {
        let is_named = |of: &Template| of.versions[0]["metadata"]["name"] == name;
        world.templates.iter().position(is_named).unwrap()
    };
    let create = |name| Event::Put { template: template(name), version: 0 };
    let delete = |name| Event::Delete { template: template(name) };
    let events = [
        ["wide", "n2", "blue", "n3", "n1"].map(create).to_vec(),
        vec![Event::Manager, Event::Manager, Event::Manager, Event::Zone(0)],
        vec![delete("n2"), delete("n3"), create("n3")],
    ];
    for event in events.concat() {
        world.happen(event).await;
    }
    world.settle().await.unwrap();
    let rows = world.rows();
    assert!(rows[0].iter().any(|row| row.contains("Static_Route ip_prefix=\"10.40.1.0/24\"")));
    Box::pin(world.compare()).await.unwrap();
}
