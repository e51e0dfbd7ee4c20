//! `ClusterNetworkConnect`: connects the networks that its selectors choose.

mod validation;

use crate::custom_resource;
use crate::object::{Condition, LabelSelector};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

custom_resource! {
    /// A connection of the networks that its selectors match.
    #[derive(Default)]
    ClusterNetworkConnect, ClusterNetworkConnectSpec, status: ClusterNetworkConnectStatus;
    "k8s.ovn.org", "v1", "clusternetworkconnects", namespaced: false
}

/// The `spec` of a [`ClusterNetworkConnect`] (group `k8s.ovn.org`, version `v1`).
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterNetworkConnectSpec {
    /// Selectors of the networks to connect. A network is selected if any of them matches.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 5)))]
    pub network_selectors: Vec<NetworkSelector>,
    /// Ranges for the links between the connect router and the networks: at most one of each IP family. Immutable.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 2)))]
    pub connect_subnets: Vec<ConnectSubnet>,
    /// Kinds of connectivity between the networks.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 2)))]
    pub connectivity: Vec<Connectivity>,
}

/// Selector of networks. Exactly the member that belongs to the type is set.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkSelector {
    /// Type of the selected networks.
    pub network_selection_type: NetworkSelectionType,
    /// Selector of cluster-wide networks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_user_defined_network_selector: Option<ClusterUserDefinedNetworkSelector>,
    /// Selector of primary networks of namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_user_defined_network_selector: Option<PrimaryUserDefinedNetworkSelector>,
    /// Selector of secondary networks of namespaces. Not supported for connects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secondary_user_defined_network_selector: Option<NamespacedNetworkSelector>,
    /// Selector of attachment definitions of Kube-OVN, which stand for the subnets of VPCs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_attachment_definition_selector: Option<NamespacedNetworkSelector>,
}

/// Type of the networks that a selector matches.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub enum NetworkSelectionType {
    /// The cluster's default network. Not supported for connects.
    DefaultNetwork,
    /// Networks made from `ClusterUserDefinedNetwork` objects.
    ClusterUserDefinedNetworks,
    /// Primary networks of namespaces.
    PrimaryUserDefinedNetworks,
    /// Secondary networks of namespaces. Not supported for connects.
    SecondaryUserDefinedNetworks,
    /// Subnets of VPCs of Kube-OVN, by their attachment definitions.
    NetworkAttachmentDefinitions,
}

impl NetworkSelectionType {
    /// Value of the field in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DefaultNetwork => "DefaultNetwork",
            Self::ClusterUserDefinedNetworks => "ClusterUserDefinedNetworks",
            Self::PrimaryUserDefinedNetworks => "PrimaryUserDefinedNetworks",
            Self::SecondaryUserDefinedNetworks => "SecondaryUserDefinedNetworks",
            Self::NetworkAttachmentDefinitions => "NetworkAttachmentDefinitions",
        }
    }
}

impl std::fmt::Display for NetworkSelectionType {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Selector of cluster-wide networks by their labels.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterUserDefinedNetworkSelector {
    /// Labels of the `ClusterUserDefinedNetwork`. An empty selector matches all.
    pub network_selector: LabelSelector,
}

/// Selector of primary networks by the labels of their namespaces.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PrimaryUserDefinedNetworkSelector {
    /// Labels of the namespace. An empty selector matches all.
    pub namespace_selector: LabelSelector,
}

/// Selector of networks by their labels and those of their namespaces.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamespacedNetworkSelector {
    /// Labels of the namespace.
    pub namespace_selector: LabelSelector,
    /// Labels of the network.
    pub network_selector: LabelSelector,
}

/// A range that is divided into blocks of one size.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConnectSubnet {
    /// The range, without host bits.
    #[cfg_attr(feature = "schema", schemars(length(max = 43)))]
    pub cidr: String,
    /// Prefix length of a block: longer than that of the range.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 127)))]
    pub network_prefix: i32,
}

/// Kind of connectivity between connected networks.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub enum Connectivity {
    /// Pods reach the pods of other networks.
    PodNetwork,
    /// Pods reach the cluster IPs of other networks.
    ServiceNetwork,
}

/// The `status` of a [`ClusterNetworkConnect`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetworkConnectStatus {
    /// Summary of the condition `Accepted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusType>,
    /// Conditions, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Summary of a status.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub enum StatusType {
    /// The connect is accepted.
    Success,
    /// The connect is not accepted; the conditions contain the reason.
    Failure,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_spelled_as_in_kubernetes() {
        let manifest = json!({
            "apiVersion": "k8s.ovn.org/v1",
            "kind": "ClusterNetworkConnect",
            "metadata": {"name": "connect-a"},
            "spec": {
                "networkSelectors": [
                    {
                        "networkSelectionType": "ClusterUserDefinedNetworks",
                        "clusterUserDefinedNetworkSelector": {"networkSelector": {"matchLabels": {"tier": "app"}}},
                    },
                    {
                        "networkSelectionType": "PrimaryUserDefinedNetworks",
                        "primaryUserDefinedNetworkSelector": {"namespaceSelector": {}},
                    },
                ],
                "connectSubnets": [{"cidr": "192.168.0.0/16", "networkPrefix": 24}],
                "connectivity": ["PodNetwork", "ServiceNetwork"],
            },
        });
        let object: ClusterNetworkConnect = serde_json::from_value(manifest.clone()).unwrap();
        assert_eq!(serde_json::to_value(&object).unwrap(), manifest);
    }

    #[test]
    fn unknown_fields_are_refused() {
        let subnet =
            json!({"cidr": "192.168.0.0/16", "networkPrefix": 24, "gateway": "192.168.0.1"});
        let error = serde_json::from_value::<ConnectSubnet>(subnet).unwrap_err();
        assert!(error.to_string().starts_with("unknown field `gateway`"), "{error}");
    }
}
