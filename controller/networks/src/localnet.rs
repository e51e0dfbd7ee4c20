//! A localnet network: a switch that is part of a physical network.

use patchbay_model::external_ids::key;
use patchbay_model::names::network_prefix;
use patchbay_model::{AttachmentDefinition, CniConfig, VLAN_IDS};
use patchbay_schemas::nb::{LogicalSwitch, LogicalSwitchPort};

use super::definition::entries;
use super::rows::{TextMap, address_config, texts};
use super::{NetworkRows, SkipReason, SwitchRows};

/// Topology of the network, in configurations and in external ids.
const TOPOLOGY: &str = "localnet";

/// Configuration of a localnet network.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Localnet {
    /// Name of the network.
    pub(super) name: String,
    /// Empty if it is the name of the network.
    physical_network_name: String,
    /// Comma-separated; empty if addresses of pods are not managed.
    subnets: String,
    /// `None`: packets have no VLAN tag.
    vlan_id: Option<i64>,
}

impl Localnet {
    /// Reads a definition. `None`: it is not that of a localnet network with an id.
    pub(super) fn read(definition: &AttachmentDefinition<'_>) -> Option<Self> {
        definition.network_id?;
        let config = CniConfig::from_json(definition.config?).ok()??;
        if config.topology != TOPOLOGY || config.name.is_empty() {
            return None;
        }
        let physical_network_name: Option<String> =
            config.physical_network_name.interpret().ok()?;
        Some(Self {
            name: config.name,
            physical_network_name: physical_network_name.unwrap_or_default(),
            subnets: config.subnets.unwrap_or_default(),
            vlan_id: config.vlan_id.interpret().ok()?,
        })
    }
}

/// The rows of a localnet network.
pub(super) fn rows(network: &Localnet) -> Result<NetworkRows, SkipReason> {
    if let Some(id) = network.vlan_id.filter(|id| !VLAN_IDS.contains(id)) {
        let problem = format!("vlanID {id} is not in {VLAN_IDS:?}");
        return Err(SkipReason::Config(problem));
    }
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
        tag_request: network.vlan_id,
        ..LogicalSwitchPort::default()
    };
    let external_ids: TextMap = texts([
        (key::NETWORK, &network.name),
        (key::TOPOLOGY, TOPOLOGY),
        (key::ROLE, "secondary"),
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
