//! Provider networks.

use patchbay_model::FieldProblem;
use serde::{Deserialize, Serialize};

use crate::custom_resource;
use crate::object::LabelSelector;

use super::KubeOvnCondition;

/// Maximum length of an interface's name in characters, the limit of the kernel.
const MAX_INTERFACE_CHARS: usize = 15;

custom_resource! {
    /// Physical network that interfaces of the nodes lead to.
    #[derive(Default)]
    ProviderNetwork, #[serde(default)] ProviderNetworkSpec, status: ProviderNetworkStatus;
    "kubeovn.io", "v1", "provider-networks", namespaced: false
}

/// Specification of a [`ProviderNetwork`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderNetworkSpec {
    /// Interface of nodes without an own entry.
    pub default_interface: String,
    /// Interfaces of single nodes. The first entry with the node's name counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub custom_interfaces: Vec<CustomInterface>,
    /// Nodes of the network. `None`: all that are not excluded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// Names of nodes that are not of the network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude_nodes: Vec<String>,
    /// `true`: the bridge takes the interface's name, and the interface the bridge's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exchange_link_name: bool,
    /// `true`: missing VLAN devices of the nodes are created.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub auto_create_vlan_subinterfaces: bool,
    /// `true`: addresses and routes of VLAN devices are kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preserve_vlan_interfaces: bool,
    /// VLAN devices that are kept. Empty: those that are found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vlan_interfaces: Vec<String>,
}

impl ProviderNetworkSpec {
    /// Rules of the definition that the specification breaks. An object without a specification
    /// breaks none.
    pub fn violations(&self) -> Vec<FieldProblem> {
        if *self == Self::default() {
            return Vec::new();
        }
        let mut found = Vec::new();
        check_interface(&mut found, "spec.defaultInterface", &self.default_interface);
        for (index, custom) in self.custom_interfaces.iter().enumerate() {
            let field = format!("spec.customInterfaces[{index}].interface");
            if !custom.interface.is_empty() {
                check_interface(&mut found, &field, &custom.interface);
            }
        }
        found
    }
}

fn check_interface(found: &mut Vec<FieldProblem>, field: &str, name: &str) {
    if name.chars().count() > MAX_INTERFACE_CHARS {
        let message = format!("should be at most {MAX_INTERFACE_CHARS} chars long");
        found.push(FieldProblem::new(field, message));
    }
    if name.is_empty() || name.contains(|c: char| c == '/' || c.is_whitespace()) {
        found.push(FieldProblem::new(field, r"should match '^[^/\s]+$'"));
    }
}

/// Interface of single nodes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct CustomInterface {
    /// Name of the interface.
    pub interface: String,
    /// Names of the nodes.
    pub nodes: Vec<String>,
}

/// Status of a [`ProviderNetwork`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProviderNetworkStatus {
    /// `true` if all nodes of the network are ready.
    pub ready: bool,
    /// Nodes with a bridge.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ready_nodes: Vec<String>,
    /// Nodes without a bridge.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_ready_nodes: Vec<String>,
    /// Names of the `Vlan` objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vlans: Vec<String>,
    /// Conditions of the nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<KubeOvnCondition>,
}
