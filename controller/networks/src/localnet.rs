//! A localnet network: a switch that is part of a physical network.

use patchbay_model::VLAN_IDS;
use patchbay_model::external_ids::key;
use patchbay_model::names::network_prefix;
use patchbay_schemas::nb::{LogicalSwitch, LogicalSwitchPort};
use patchbay_zone::{DefinitionError, Localnet, entries};

use super::rows::{TextMap, address_config, texts};
use super::{NetworkRows, SkipReason, SwitchRows};

/// Topology of the network in external ids.
const TOPOLOGY: &str = "localnet";

/// The rows of a localnet network.
pub(super) fn rows(network: &Localnet) -> Result<NetworkRows, SkipReason> {
    if let Some(id) = network.vlan_id.filter(|id| !VLAN_IDS.contains(id)) {
        let problem = format!("vlanID {id} is not in {VLAN_IDS:?}");
        return Err(DefinitionError::Config(problem).into());
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
    let external_ids: TextMap =
        texts([(key::NETWORK, &network.name), (key::TOPOLOGY, TOPOLOGY), (key::ROLE, "secondary")]);
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
