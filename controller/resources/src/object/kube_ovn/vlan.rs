//! VLANs of provider networks.

use patchbay_model::FieldProblem;
use serde::{Deserialize, Serialize};

use crate::custom_resource;

use super::KubeOvnCondition;

/// Highest VLAN id of the definition.
const MAX_VLAN_ID: i64 = 4095;

custom_resource! {
    /// VLAN of a provider network.
    #[derive(Default)]
    Vlan, #[serde(default)] VlanSpec, status: VlanStatus;
    "kubeovn.io", "v1", "vlans", namespaced: false
}

/// Specification of a [`Vlan`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VlanSpec {
    /// VLAN id; 0: frames without a tag.
    #[serde(default)]
    pub id: i64,
    /// Name of the provider network.
    pub provider: String,
    /// Former name of `id`, without effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan_id: Option<i64>,
    /// Former name of `provider`, without effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_interface_name: Option<String>,
}

impl VlanSpec {
    /// Rules of the definition that the specification breaks.
    pub fn violations(&self) -> Vec<FieldProblem> {
        let ids = [("spec.id", Some(self.id)), ("spec.vlanId", self.vlan_id)];
        let violations = ids.into_iter().filter_map(|(field, id)| {
            let message = match id? {
                ..0 => "should be greater than or equal to 0".to_owned(),
                0..=MAX_VLAN_ID => return None,
                _ => format!("should be less than or equal to {MAX_VLAN_ID}"),
            };
            Some(FieldProblem::new(field, message))
        });
        violations.collect()
    }
}

/// Status of a [`Vlan`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct VlanStatus {
    /// Names of the subnets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<String>,
    /// `true` if another VLAN of the provider network has the id.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub conflict: bool,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<KubeOvnCondition>,
}
