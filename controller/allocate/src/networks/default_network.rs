//! Attachment definition of the cluster's default network, which pods name to ask for addresses.

use patchbay_resources::manifests::{Inventory, ObjectKey, Origin, Sourced};
use patchbay_resources::nad::{NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec};

/// Namespace and name of the definition.
const NAMESPACE: &str = "ovn-kubernetes";
const NAME: &str = "default";
/// Configuration of the definition, with the spaces that OVN-Kubernetes writes.
const CONFIG: &str =
    r#"{"cniVersion": "1.1.0", "name": "ovn-kubernetes", "type": "ovn-k8s-cni-overlay"}"#;

/// Adds the definition, if there is none.
pub(super) fn define(inventory: &mut Inventory) {
    let key = ObjectKey::namespaced(NAMESPACE, NAME);
    if inventory.network_attachment_definitions.get(&key).is_some() {
        return;
    }
    let spec = NetworkAttachmentDefinitionSpec {
        config: Some(CONFIG.to_owned()),
    };
    let mut nad = NetworkAttachmentDefinition::new(NAME, spec);
    nad.metadata.namespace = Some(NAMESPACE.to_owned());
    inventory.network_attachment_definitions.insert(Sourced {
        object: nad,
        origin: Origin::Rendered("the default network".to_owned()),
        position: 0,
    });
}
