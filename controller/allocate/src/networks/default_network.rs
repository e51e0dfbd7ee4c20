//! Attachment definition of the cluster's default network, which pods name to ask for addresses.

use patchbay_resources::manifests::{Inventory, ObjectKey, Origin, Sourced};
use patchbay_resources::nad::{NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec};

/// Namespace and name of the definition.
const NAMESPACE: &str = "ovn-kubernetes";
const NAME: &str = "default";
/// Configuration of the definition, with the spaces that OVN-Kubernetes writes.
const CONFIG: &str =
    r#"{"cniVersion": "1.1.0", "name": "ovn-kubernetes", "type": "ovn-k8s-cni-overlay"}"#;

/// Adds the definition, if there is none. `is_certain`: its namespace exists even if the inventory
/// does not have it.
pub(super) fn define(inventory: &mut Inventory, is_certain: bool) {
    let key = ObjectKey::namespaced(NAMESPACE, NAME);
    let namespace = inventory.namespaces.named(NAMESPACE);
    let is_open = namespace.is_some_and(|one| one.metadata.deletion_timestamp.is_none());
    let has_definition = inventory.network_attachment_definitions.get(&key).is_some();
    if has_definition || !(is_open || is_certain) {
        return;
    }
    let spec = NetworkAttachmentDefinitionSpec { config: Some(CONFIG.to_owned()) };
    let mut nad = NetworkAttachmentDefinition::new(NAME, spec);
    nad.metadata.namespace = Some(NAMESPACE.to_owned());
    inventory.network_attachment_definitions.insert(Sourced {
        object: nad,
        origin: Origin::Rendered("the default network".to_owned()),
        position: 0,
    });
}
