//! The CNI configuration that a network's attachment definitions carry.

mod check;
mod request;
#[cfg(test)]
mod tests;

use ipnet::IpNet;
use serde::Serialize;

pub(super) use check::ConfigError;
pub(super) use request::{Config, NetworkRequest, RequestError};

use patchbay_model::arithmetic::overlap;
use patchbay_model::{ClusterSettings, IpFamily};
use patchbay_resources::udn::{
    IpamConfig, IpamLifecycle, Layer3Subnet, NetworkRole, OutboundSnat, Transport,
};

/// Join ranges of a primary network that names none.
const DEFAULT_JOIN_SUBNETS: &str = "100.65.0.0/16,fd99::/64";
/// How often a transit range moves on when the network itself is in its place.
const TRANSIT_TRIES: usize = 10;

/// One flat object, without spaces, its keys in alphabetical order. That is the order of the members here; nothing
/// sorts them. EVPN's member is missing: such networks are refused before they are rendered.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct CniConfig<'a> {
    #[serde(rename = "allowPersistentIPs", skip_serializing_if = "Option::is_none")]
    allow_persistent_ips: Option<bool>,
    cni_version: &'static str,
    #[serde(rename = "defaultGatewayIPs", skip_serializing_if = "Option::is_none")]
    default_gateway_ips: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exclude_subnets: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    infrastructure_subnets: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    join_subnet: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mtu: Option<i64>,
    name: &'a str,
    net_attach_def_name: &'a str,
    #[serde(rename = "outboundSNAT", skip_serializing_if = "Option::is_none")]
    outbound_snat: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    physical_network_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved_subnets: Option<String>,
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    subnets: Option<String>,
    topology: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    transit_subnet: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'static str>,
    #[serde(rename = "type")]
    plugin: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    uplink: Option<&'a str>,
    #[serde(rename = "vlanID", skip_serializing_if = "Option::is_none")]
    vlan_id: Option<i32>,
}

impl NetworkRequest<'_> {
    /// The configuration for the attachment definition of this key (`<namespace>/<name>`).
    ///
    /// # Errors
    /// The network cannot be had in this cluster.
    pub(super) fn render(
        &self,
        nad: &str,
        settings: &ClusterSettings,
    ) -> Result<String, ConfigError> {
        check::check(self, settings)?;
        let role = self.config.role();
        let common = CniConfig {
            cni_version: "1.1.0",
            name: &self.network,
            net_attach_def_name: nad,
            plugin: "ovn-k8s-cni-overlay",
            role: if role == NetworkRole::Primary {
                "primary"
            } else {
                "secondary"
            },
            join_subnet: (role == NetworkRole::Primary).then(|| {
                comma_joined(self.config.join_subnets())
                    .unwrap_or_else(|| DEFAULT_JOIN_SUBNETS.to_owned())
            }),
            topology: self.config.topology(),
            transport: self.transport.map(|transport| match transport {
                Transport::NoOverlay => "no-overlay",
                Transport::Evpn => "evpn",
            }),
            outbound_snat: self
                .no_overlay
                .map(|no_overlay| match no_overlay.outbound_snat {
                    OutboundSnat::Enabled => "enabled",
                    OutboundSnat::Disabled => "disabled",
                }),
            uplink: self.uplink,
            ..CniConfig::default()
        };
        let config = match self.config {
            Config::Layer3(layer3) => CniConfig {
                mtu: layer3.mtu.map(i64::from),
                subnets: Some(
                    layer3
                        .subnets
                        .iter()
                        .map(layer3_subnet)
                        .collect::<Vec<_>>()
                        .join(","),
                ),
                ..common
            },
            Config::Layer2(layer2) => CniConfig {
                allow_persistent_ips: persistent(layer2.ipam.as_ref()),
                default_gateway_ips: comma_joined(layer2.default_gateway_ips.as_ref()),
                infrastructure_subnets: comma_joined(layer2.infrastructure_subnets.as_ref()),
                mtu: layer2.mtu.map(i64::from),
                reserved_subnets: comma_joined(layer2.reserved_subnets.as_ref()),
                subnets: comma_joined(layer2.subnets.as_ref()),
                transit_subnet: (role == NetworkRole::Primary)
                    .then(|| transit_subnets(&self.config.subnets(), settings)),
                ..common
            },
            Config::Localnet(localnet) => CniConfig {
                allow_persistent_ips: persistent(localnet.ipam.as_ref()),
                exclude_subnets: comma_joined(localnet.exclude_subnets.as_ref()),
                // The physical network has room for what the overlay's header takes elsewhere.
                mtu: Some(
                    localnet
                        .mtu
                        .map_or(i64::from(settings.mtu) + 100, i64::from),
                ),
                physical_network_name: Some(&localnet.physical_network_name),
                subnets: comma_joined(localnet.subnets.as_ref()),
                vlan_id: localnet
                    .vlan
                    .as_ref()
                    .and_then(|vlan| vlan.access.as_ref())
                    .map(|access| access.id),
                ..common
            },
        };
        Ok(serde_json::to_string(&config).expect("a struct of texts and numbers has a JSON form"))
    }
}

fn comma_joined(texts: Option<&Vec<String>>) -> Option<String> {
    texts.map(|texts| texts.join(","))
}

fn layer3_subnet(subnet: &Layer3Subnet) -> String {
    match subnet.host_subnet {
        Some(host_subnet) => format!("{}/{host_subnet}", subnet.cidr),
        None => subnet.cidr.clone(),
    }
}

fn persistent(ipam: Option<&IpamConfig>) -> Option<bool> {
    let persistent = ipam.is_some_and(|ipam| ipam.lifecycle == Some(IpamLifecycle::Persistent));
    persistent.then_some(true)
}

/// The cluster's transit ranges of the network's families. A range that the network itself has addresses in gives way
/// to the next one of its length behind them.
fn transit_subnets(subnets: &[IpNet], settings: &ClusterSettings) -> String {
    let families: Vec<_> = subnets.iter().copied().map(IpFamily::of_net).collect();
    let ranges = settings
        .transit_subnets
        .iter()
        .filter(|range| families.contains(&IpFamily::of_net(**range)));
    let texts: Vec<_> = ranges
        .map(|range| beside(*range, subnets).to_string())
        .collect();
    texts.join(",")
}

fn beside(range: IpNet, subnets: &[IpNet]) -> IpNet {
    let mut found = range;
    for _ in 0..TRANSIT_TRIES {
        let Some(taken) = subnets.iter().find(|subnet| overlap(**subnet, found)) else {
            break;
        };
        let wider = if taken.prefix_len() < found.prefix_len() {
            *taken
        } else {
            found
        };
        match next_after(wider, found.prefix_len()) {
            Some(next) => found = next,
            None => break,
        }
    }
    found
}

/// The subnet of this length right behind `subnet`; `None` at the end of the address space.
fn next_after(subnet: IpNet, length: u8) -> Option<IpNet> {
    let next = match subnet {
        IpNet::V4(subnet) => {
            std::net::IpAddr::V4(u32::from(subnet.broadcast()).checked_add(1)?.into())
        }
        IpNet::V6(subnet) => {
            std::net::IpAddr::V6(u128::from(subnet.broadcast()).checked_add(1)?.into())
        }
    };
    IpNet::new(next, length).ok()
}
