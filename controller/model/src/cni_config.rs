//! CNI configuration of OVN-Kubernetes' plugin: the JSON text in `spec.config` of a
//! NetworkAttachmentDefinition, as it is read and written.

mod canonical;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// Name of OVN-Kubernetes' CNI plugin, the value of `type`.
pub const CNI_PLUGIN: &str = "ovn-k8s-cni-overlay";
/// Version of the CNI specification, the value of `cniVersion` in configurations that are written.
pub const CNI_VERSION: &str = "1.1.0";
/// Network names that OVN-Kubernetes reserves for the cluster's default network.
const DEFAULT_NETWORK_NAMES: [&str; 2] = ["default", "ovn-kubernetes"];

/// CNI configuration of OVN-Kubernetes' plugin.
///
/// The fields have the order of their JSON names, because OVN-Kubernetes writes sorted keys.
/// [`NetConf`](super::NetConf) is the checked form of a layer2 or layer3 network.
///
/// ```
/// use patchbay_model::CniConfig;
///
/// let text = r#"{"type":"ovn-k8s-cni-overlay","name":"blue_l3","topology":"layer3","role":"primary"}"#;
/// let config = CniConfig::from_json(text).unwrap().unwrap();
/// assert_eq!(config.name, "blue_l3");
/// assert!(config.is_primary() && config.is_user_defined());
/// assert_eq!(CniConfig::from_json(r#"{"type":"bridge"}"#).unwrap(), None);
/// ```
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CniConfig {
    /// `allowPersistentIPs`: true if addresses of virtual machines are kept in IPAMClaims.
    #[serde(rename = "allowPersistentIPs", skip_serializing_if = "UninterpretedValue::is_absent")]
    pub allow_persistent_ips: UninterpretedValue,
    /// `cniVersion`.
    #[serde(skip_serializing_if = "UninterpretedValue::is_absent")]
    pub cni_version: UninterpretedValue,
    /// `defaultGatewayIPs`: comma-separated addresses.
    #[serde(rename = "defaultGatewayIPs", skip_serializing_if = "UninterpretedValue::is_absent")]
    pub default_gateway_ips: UninterpretedValue,
    /// `evpn`; transport `evpn` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evpn: Option<CniEvpn>,
    /// `excludeSubnets`: comma-separated subnets that pods get no addresses of.
    #[serde(skip_serializing_if = "UninterpretedValue::is_absent")]
    pub exclude_subnets: UninterpretedValue,
    /// `infrastructureSubnets`: comma-separated subnets for gateways and management ports.
    #[serde(skip_serializing_if = "UninterpretedValue::is_absent")]
    pub infrastructure_subnets: UninterpretedValue,
    /// `ipam`: another plugin for addresses, which this one refuses.
    #[serde(skip_serializing_if = "UninterpretedValue::is_absent")]
    pub ipam: UninterpretedValue,
    /// `joinSubnet`: comma-separated subnets between gateway routers and the cluster router.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join_subnet: Option<String>,
    /// `mtu`.
    #[serde(skip_serializing_if = "UninterpretedValue::is_absent")]
    pub mtu: UninterpretedValue,
    /// `name` of the network.
    pub name: String,
    /// `netAttachDefName`: the NetworkAttachmentDefinition, as `<namespace>/<name>`.
    pub net_attach_def_name: String,
    /// `outboundSNAT`: `enabled` or `disabled`; transport `no-overlay` only.
    #[serde(rename = "outboundSNAT", skip_serializing_if = "UninterpretedValue::is_absent")]
    pub outbound_snat: UninterpretedValue,
    /// `physicalNetworkName`; topology `localnet` only.
    #[serde(skip_serializing_if = "UninterpretedValue::is_absent")]
    pub physical_network_name: UninterpretedValue,
    /// `reservedSubnets`: comma-separated subnets for static addresses.
    #[serde(skip_serializing_if = "UninterpretedValue::is_absent")]
    pub reserved_subnets: UninterpretedValue,
    /// `role`: `primary` or `secondary`.
    pub role: String,
    /// `subnets`: comma-separated pod subnets; in layer3, each may end with `/<host prefix>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnets: Option<String>,
    /// `topology`: `layer2`, `layer3` or `localnet`; empty for the default network.
    pub topology: String,
    /// `transitSubnet`: comma-separated subnets around the transit router of a layer2 network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transit_subnet: Option<String>,
    /// `transport`: `no-overlay` or `evpn`; `None`: Geneve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// `type`: name of the CNI plugin.
    #[serde(rename = "type")]
    pub plugin: String,
    /// `uplink`.
    #[serde(skip_serializing_if = "UninterpretedValue::is_absent")]
    pub uplink: UninterpretedValue,
    /// `vlanID`; topology `localnet` only.
    #[serde(rename = "vlanID", skip_serializing_if = "UninterpretedValue::is_absent")]
    pub vlan_id: UninterpretedValue,
}

impl CniConfig {
    /// Reads a configuration, also one of a list with one plugin. `None`: it belongs to another CNI
    /// plugin.
    ///
    /// # Errors
    /// The text is not a JSON object, a field has another type, or other plugins follow this one.
    pub fn from_json(text: &str) -> Result<Option<Self>, serde_json::Error> {
        if let Ok(list) = serde_json::from_str::<PluginList>(text) {
            return list.into_config();
        }
        let mut fields: Map<String, Value> = serde_json::from_str(text)?;
        // A field that is `null` keeps the zero value of its type in Go.
        fields.retain(|_, value| !value.is_null());
        // Plugins may give other types to fields of the same name.
        let plugin = fields.get("type").unwrap_or(&Value::Null);
        if plugin.is_null() || plugin.as_str().is_some_and(|plugin| plugin != CNI_PLUGIN) {
            return Ok(None);
        }
        check_types(&fields)?;
        serde_json::from_value(Value::Object(fields)).map(Some)
    }

    /// Writes the configuration as one flat JSON object with sorted keys and no spaces.
    ///
    /// # Panics
    /// Never: all fields have a JSON form.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts and JSON values have a JSON form")
    }

    /// `true` if the configuration is that of a user-defined network, not of the default network.
    pub fn is_user_defined(&self) -> bool {
        !self.topology.is_empty() && !DEFAULT_NETWORK_NAMES.contains(&self.name.as_str())
    }

    /// `true` if the network has the role `primary`.
    pub fn is_primary(&self) -> bool {
        self.role == "primary"
    }
}

/// Place of a network on an EVPN fabric.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct CniEvpn {
    /// Name of the VTEP object.
    pub vtep: String,
    /// MAC-VRF, the layer2 service.
    #[serde(rename = "macVRF", skip_serializing_if = "Option::is_none")]
    pub mac_vrf: Option<CniVrf>,
    /// IP-VRF, the layer3 service.
    #[serde(rename = "ipVRF", skip_serializing_if = "Option::is_none")]
    pub ip_vrf: Option<CniVrf>,
}

/// VRF of a network on an EVPN fabric.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CniVrf {
    /// VXLAN network identifier.
    pub vni: u32,
    /// BGP route target; empty: the fabric's default.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub route_target: String,
    /// VLAN id on each node. `None`: not allocated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vid: Option<u16>,
}

/// List of plugins (`NetworkConfigurationList` of the CNI specification).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PluginList {
    #[serde(default)]
    cni_version: UninterpretedValue,
    #[serde(default)]
    name: String,
    plugins: Vec<Value>,
}

impl PluginList {
    /// The configuration of the only plugin, with name and version of the list.
    fn into_config(self) -> Result<Option<CniConfig>, serde_json::Error> {
        let count = self.plugins.len();
        let Some(plugin) = self.plugins.into_iter().next() else {
            let message =
                format!("error parsing configuration list {:?}: no plugins found", self.name);
            return Err(serde_json::Error::custom(message));
        };
        let Some(config) = CniConfig::from_json(&plugin.to_string())? else {
            return Ok(None);
        };
        if count > 1 {
            return Err(serde_json::Error::custom("CNI plugin chaining is not supported"));
        }
        Ok(Some(CniConfig { name: self.name, cni_version: self.cni_version, ..config }))
    }
}

/// The field `type` alone.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PluginName {
    #[serde(rename = "type")]
    plugin: String,
}

/// Checks the types of the fields that [`CniConfig`] does not interpret.
fn check_types(fields: &Map<String, Value>) -> Result<(), serde_json::Error> {
    check::<bool>(fields, "allowPersistentIPs")?;
    check::<i64>(fields, "mtu")?;
    check::<i64>(fields, "vlanID")?;
    check::<PluginName>(fields, "ipam")?;
    let mut texts = [
        "cniVersion",
        "defaultGatewayIPs",
        "excludeSubnets",
        "infrastructureSubnets",
        "outboundSNAT",
        "physicalNetworkName",
        "reservedSubnets",
        "uplink",
    ]
    .into_iter();
    texts.try_for_each(|field| check::<String>(fields, field))
}

/// Checks that a field is a `T`, if it is there.
fn check<T: DeserializeOwned>(
    fields: &Map<String, Value>,
    field: &str,
) -> Result<(), serde_json::Error> {
    let Some(value) = fields.get(field) else {
        return Ok(());
    };
    let named = |error| serde_json::Error::custom(format!("{field}: {error}"));
    T::deserialize(value).map(drop).map_err(named)
}

/// JSON value of a field that is written, and compared between the definitions of a network, but
/// not interpreted.
///
/// `false`, `0`, `""` and `null` are read as absent, because they are the zero values of Go, in
/// which the other readers and writers of the configuration are written.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct UninterpretedValue(Value);

impl UninterpretedValue {
    /// `true` if the field is absent.
    pub fn is_absent(&self) -> bool {
        self.0.is_null()
    }

    /// Interprets the value as a `T`. `None`: the field is absent.
    ///
    /// # Errors
    /// The value has another type.
    pub fn interpret<T: DeserializeOwned>(&self) -> Result<Option<T>, serde_json::Error> {
        if self.is_absent() {
            return Ok(None);
        }
        T::deserialize(&self.0).map(Some)
    }

    /// The JSON value; `null` if the field is absent.
    pub const fn as_value(&self) -> &Value {
        &self.0
    }
}

impl<T: Into<Value>> From<T> for UninterpretedValue {
    fn from(value: T) -> Self {
        Self(value.into())
    }
}

impl<'de> Deserialize<'de> for UninterpretedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let is_zero = match &value {
            Value::Bool(value) => !value,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            _ => false,
        };
        Ok(Self(if is_zero { Value::Null } else { value }))
    }
}

#[cfg(test)]
mod tests;
