//! A localnet network: a switch that is part of a physical network.

use patchbay_model::{AttachmentDefinition, CNI_PLUGIN};
use patchbay_schemas::nb::{LogicalSwitch, LogicalSwitchPort};
use serde::Deserialize;

use super::definition::entries;
use super::rows::{TextMap, address_config, texts};
use super::{NetworkRows, SkipReason, SwitchRows};
use patchbay_model::names::network_prefix;

/// Topology of the network, in configurations and in external ids.
const TOPOLOGY: &str = "localnet";

/// Configuration of a localnet network.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Localnet {
    /// Name of the network.
    pub(super) name: String,
    #[serde(rename = "type")]
    plugin: String,
    topology: String,
    physical_network_name: String,
    /// Comma-separated; empty if addresses of pods are not managed.
    subnets: String,
    #[serde(rename = "vlanID")]
    vlan_id: i64,
}

impl Localnet {
    /// Reads a definition. `None`: it is not that of a localnet network with an id.
    pub(super) fn read(definition: &AttachmentDefinition<'_>) -> Option<Self> {
        definition.network_id?;
        let conf: Self = serde_json::from_str(definition.config?).ok()?;
        let is_localnet = conf.plugin == CNI_PLUGIN && conf.topology == TOPOLOGY;
        (is_localnet && !conf.name.is_empty()).then_some(conf)
    }
}

/// The rows of a localnet network.
pub(super) fn rows(network: &Localnet) -> Result<NetworkRows, SkipReason> {
    let prefix = network_prefix(&network.name);
    let physical = match network.physical_network_name.as_str() {
        "" => &network.name,
        name => name,
    };
    let port = LogicalSwitchPort {
        name: format!("{prefix}ovn_localnet_port"),
        r#type: "localnet".to_owned(),
        addresses: ["unknown".to_owned()].into(),
        options: texts([("network_name", physical)]),
        tag_request: Some(network.vlan_id).filter(|id| *id != 0),
        ..LogicalSwitchPort::default()
    };
    let external_ids: TextMap = texts([
        ("k8s.ovn.org/network", &network.name),
        ("k8s.ovn.org/topology", TOPOLOGY),
        ("k8s.ovn.org/role", "secondary"),
    ]);
    let mut subnets: Vec<ipnet::IpNet> = entries("subnets", &network.subnets)?;
    subnets.sort_by_key(|subnet| subnet.addr().is_ipv6());
    let switch = SwitchRows {
        switch: LogicalSwitch {
            name: format!("{prefix}ovn_localnet_switch"),
            external_ids,
            other_config: address_config(&subnets),
            ..LogicalSwitch::default()
        },
        ports: vec![port],
        ..SwitchRows::default()
    };
    Ok(NetworkRows {
        network: network.name.clone(),
        switches: vec![switch],
        ..NetworkRows::default()
    })
}
