//! Networks that leave namespaces.

use super::{NAMESPACES, SHARED, at, cudn_conditions, networks, resolved};
use crate::networks::resolve;
use crate::networks::testing::inventory;
use patchbay_model::ClusterSettings;
use patchbay_resources::manifests::{Inventory, ObjectKey};

/// Puts a label on a namespace.
fn label(inventory: &mut Inventory, namespace: &str, color: &str) {
    let namespace = inventory
        .namespaces
        .get_mut(&ObjectKey::cluster(namespace))
        .unwrap();
    let labels = namespace.object.metadata.labels.as_mut().unwrap();
    labels.insert("color".into(), color.into());
}

#[test]
fn definitions_leave_namespaces_that_are_not_selected_any_more() {
    let mut inventory = resolved(&(NAMESPACES.to_owned() + SHARED));
    label(&mut inventory, "cyan", "cyan");
    resolve(&mut inventory, &ClusterSettings::default(), &at(1)).unwrap();
    assert_eq!(
        networks(&inventory),
        ["blue/shared cluster_udn_shared 1 [16711684,16715779]"]
    );
}

#[test]
fn networks_that_exchange_namespaces_keep_their_ids() {
    let other = SHARED
        .replace("name: shared", "name: other")
        .replace("color: blue", "color: cyan")
        .replace("10.20.0.0", "10.30.0.0");
    let mut before = inventory(&(NAMESPACES.to_owned() + SHARED + &other));
    label(&mut before, "cyan", "cyan");
    resolve(&mut before, &ClusterSettings::default(), &at(0)).unwrap();
    assert_eq!(
        networks(&before),
        [
            "blue/shared cluster_udn_shared 1 [16711684,16715779]",
            "cyan/other cluster_udn_other 2 [16711685,16715780]",
        ]
    );
    let mut exchanged = before.clone();
    label(&mut exchanged, "blue", "cyan");
    label(&mut exchanged, "cyan", "blue");
    let mut moved = before;
    label(&mut moved, "blue", "none");
    label(&mut moved, "cyan", "blue");
    for (mut inventory, expected) in [
        (
            exchanged,
            &[
                "blue/other cluster_udn_other 2 [16711685,16715780]",
                "cyan/shared cluster_udn_shared 1 [16711684,16715779]",
            ][..],
        ),
        (
            moved,
            &["cyan/shared cluster_udn_shared 1 [16711684,16715779]"],
        ),
    ] {
        resolve(&mut inventory, &ClusterSettings::default(), &at(1)).unwrap();
        assert_eq!(networks(&inventory), expected);
        assert!(cudn_conditions(&inventory, "shared")[0].starts_with("NetworkCreated=True"));
        let first = inventory.clone();
        resolve(&mut inventory, &ClusterSettings::default(), &at(2)).unwrap();
        assert_eq!(
            inventory.network_attachment_definitions,
            first.network_attachment_definitions
        );
    }
}
