//! CNI configuration of a custom resource's attachment definitions.

mod request;
#[cfg(test)]
mod tests;

pub(super) use request::{NetworkRequest, RequestError, TopologyConfig};

use patchbay_model::{
    CNI_PLUGIN, CNI_VERSION, ClusterSettings, CniConfig, USER_DEFINED_JOIN_SUBNETS, config_check,
    config_check::ConfigError,
};
use patchbay_resources::udn::{
    IpamConfig, IpamLifecycle, IpamMode, Layer3Subnet, NetworkRole, OutboundSnat, Transport,
};

/// Bytes that the MTU of overlay networks leaves for the Geneve header; localnet networks use them.
const OVERLAY_HEADER_BYTES: i64 = 100;

impl NetworkRequest<'_> {
    /// Renders the configuration of the attachment definition `nad` (`<namespace>/<name>`).
    ///
    /// # Errors
    /// [`ConfigError`], if this cluster cannot have the network.
    pub(super) fn render(
        &self,
        nad: &str,
        settings: &ClusterSettings,
    ) -> Result<String, ConfigError> {
        let is_primary = self.config.role() == NetworkRole::Primary;
        let common = CniConfig {
            cni_version: CNI_VERSION.into(),
            name: self.network.clone(),
            net_attach_def_name: nad.to_owned(),
            plugin: CNI_PLUGIN.to_owned(),
            role: if is_primary { "primary" } else { "secondary" }.to_owned(),
            join_subnet: is_primary.then(|| {
                join_with_commas(self.config.join_subnets()).unwrap_or_else(|| {
                    USER_DEFINED_JOIN_SUBNETS.map(|net| net.to_string()).join(",")
                })
            }),
            topology: self.config.topology().to_owned(),
            transport: self.transport.map(|transport| {
                match transport {
                    Transport::NoOverlay => "no-overlay",
                    Transport::Evpn => "evpn",
                }
                .to_owned()
            }),
            outbound_snat: self
                .no_overlay
                .map(|no_overlay| match no_overlay.outbound_snat {
                    OutboundSnat::Enabled => "enabled",
                    OutboundSnat::Disabled => "disabled",
                })
                .into(),
            evpn: self.fabric_ids.clone(),
            uplink: self.uplink.into(),
            ..CniConfig::default()
        };
        let config = match self.config {
            TopologyConfig::Layer3(layer3) => CniConfig {
                mtu: layer3.mtu.into(),
                subnets: Some(
                    layer3.subnets.iter().map(format_layer3_subnet).collect::<Vec<_>>().join(","),
                ),
                ..common
            },
            TopologyConfig::Layer2(layer2) => {
                check_ipam(layer2.ipam.as_ref(), layer2.subnets.is_some())?;
                let config = CniConfig {
                    allow_persistent_ips: persistent_ips(layer2.ipam.as_ref()).into(),
                    default_gateway_ips: join_with_commas(layer2.default_gateway_ips.as_ref())
                        .into(),
                    infrastructure_subnets: join_with_commas(
                        layer2.infrastructure_subnets.as_ref(),
                    )
                    .into(),
                    mtu: layer2.mtu.into(),
                    reserved_subnets: join_with_commas(layer2.reserved_subnets.as_ref()).into(),
                    subnets: join_with_commas(layer2.subnets.as_ref()),
                    ..common
                };
                let transit_subnet =
                    is_primary.then(|| config_check::transit_subnets(&config, settings));
                CniConfig { transit_subnet: transit_subnet.transpose()?, ..config }
            }
            TopologyConfig::Localnet(localnet) => CniConfig {
                allow_persistent_ips: persistent_ips(localnet.ipam.as_ref()).into(),
                exclude_subnets: join_with_commas(localnet.exclude_subnets.as_ref()).into(),
                mtu: localnet
                    .mtu
                    .map_or(i64::from(settings.mtu) + OVERLAY_HEADER_BYTES, i64::from)
                    .into(),
                physical_network_name: localnet.physical_network_name.as_str().into(),
                subnets: join_with_commas(localnet.subnets.as_ref()),
                vlan_id: localnet
                    .vlan
                    .as_ref()
                    .and_then(|vlan| vlan.access.as_ref())
                    .map(|access| access.id)
                    .into(),
                ..common
            },
        };
        config_check::check_config(nad, &config, settings)?;
        Ok(config.to_json())
    }
}

fn join_with_commas(texts: Option<&Vec<String>>) -> Option<String> {
    texts.map(|texts| texts.join(","))
}

fn format_layer3_subnet(subnet: &Layer3Subnet) -> String {
    match subnet.host_subnet {
        Some(host_subnet) => format!("{}/{host_subnet}", subnet.cidr),
        None => subnet.cidr.clone(),
    }
}

/// Checks the mode of a layer2 network against its subnets.
fn check_ipam(ipam: Option<&IpamConfig>, has_subnets: bool) -> Result<(), ConfigError> {
    let is_disabled = ipam.is_some_and(|ipam| ipam.mode == Some(IpamMode::Disabled));
    match (is_disabled, has_subnets) {
        (true, _) if persistent_ips(ipam).is_some() => Err(ConfigError::PersistentWithoutIpam),
        (true, true) => Err(ConfigError::SubnetsWithoutIpam),
        (false, false) => Err(ConfigError::SubnetsMissing),
        _ => Ok(()),
    }
}

/// The value of `allowPersistentIPs`; `None`: addresses are not persistent.
fn persistent_ips(ipam: Option<&IpamConfig>) -> Option<bool> {
    ipam.is_some_and(|ipam| ipam.lifecycle == Some(IpamLifecycle::Persistent)).then_some(true)
}
