//! ClusterUserDefinedNetworks whose definitions stay as they are, and foreign changes of
//! definitions.

use patchbay_model::{ClusterSettings, Feature};
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::{LabelSelector, Object as _};
use serde_json::json;

use super::{NAMESPACES, SHARED, at, cudn_conditions, resolved};
use crate::networks::testing::inventory;
use crate::networks::*;

#[test]
fn uplinks_need_the_feature() {
    let yaml = NAMESPACES.to_owned() + &SHARED.replace("spec:\n", "spec:\n  uplinks: [eth1]\n");
    let off = resolved(&yaml);
    assert_eq!(
        cudn_conditions(&off, "shared"),
        [
            "NetworkCreated=False NetworkAttachmentDefinitionSyncError: spec.uplinks is set but the Uplink feature is \
          disabled, ignoring this CUDN"
        ]
    );
    assert!(off.network_attachment_definitions.is_empty());
    let cudn = off.cluster_user_defined_networks.named("shared").unwrap();
    assert_eq!(cudn.metadata.finalizers, None);
    let mut inventory = inventory(&yaml);
    let settings =
        ClusterSettings { features: [Feature::Uplink].into(), ..ClusterSettings::default() };
    resolve(&mut inventory, &settings, &at(0)).unwrap();
    let mut nads = inventory.network_attachment_definitions.iter();
    let config = nads.next().unwrap().1.object.spec.config.clone().unwrap();
    assert!(config.ends_with(r#""uplink":"eth1"}"#), "{config}");
}

#[test]
fn a_broken_selector_removes_no_definitions() {
    let mut inventory = resolved(&(NAMESPACES.to_owned() + SHARED));
    assert_eq!(inventory.network_attachment_definitions.len(), 2);
    let broken = json!({"matchExpressions": [{"key": "color", "operator": "In"}]});
    let broken: LabelSelector = serde_json::from_value(broken).unwrap();
    let key = ObjectKey::cluster("shared");
    let cudn = inventory.cluster_user_defined_networks.get_mut(&key).unwrap();
    cudn.object.spec.namespace_selector = broken;
    let mut manager = NetworkManager::new(ManagerSettings::default());
    manager.reconcile(&mut inventory, &at(1));
    assert_eq!(inventory.network_attachment_definitions.len(), 2);
    assert_eq!(
        cudn_conditions(&inventory, "shared")[..1],
        [
            "NetworkCreated=False NetworkAttachmentDefinitionSyncError: failed to get selected namespaces: failed to \
          create label-selector: values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
        ]
    );
}

#[test]
fn configuration_and_labels_are_restored_but_not_a_finalizer_that_somebody_removed() {
    let mut inventory = resolved(&(NAMESPACES.to_owned() + SHARED));
    let wanted = inventory.clone();
    let key = ObjectKey::namespaced("blue", "shared");
    let nads = &mut inventory.network_attachment_definitions;
    let nad = &mut nads.get_mut(&key).unwrap().object;
    nad.spec.config = Some("{}".to_owned());
    nad.meta_mut().labels = None;
    nad.meta_mut().finalizers = None;
    nad.annotations_mut().insert("other".into(), "x".into());
    let mut manager = NetworkManager::new(ManagerSettings::default());
    manager.reconcile(&mut inventory, &at(1));
    let restored = &inventory.network_attachment_definitions.get(&key).unwrap().object;
    let mut expected = wanted.network_attachment_definitions.get(&key).unwrap().object.clone();
    expected.meta_mut().finalizers = None;
    assert_eq!(*restored, expected);
}
