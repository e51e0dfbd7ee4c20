//! Networks as their pods see them, localnet networks among them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::cni_config::{CniConfig, UninterpretedValue};
use super::ids::Topology;
use super::names::{self, network_prefix};
use super::network::{Network, Role, Transport};
use super::networks::{AttachmentDefinition, NadKey, Networks};

/// Topology of a network that pods are attached to.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum AttachedTopology {
    /// A subnet that all nodes share.
    Layer2,
    /// A subnet on each node.
    Layer3,
    /// A physical network.
    Localnet,
}

impl AttachedTopology {
    /// Name in configurations and external ids.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Layer2 => "layer2",
            Self::Layer3 => "layer3",
            Self::Localnet => "localnet",
        }
    }
}

/// Network that pods are attached to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AttachedNetwork {
    /// Name.
    pub name: Arc<str>,
    /// Topology.
    pub topology: AttachedTopology,
    /// Role of the network for its pods.
    pub role: Role,
    /// Transport of packets between nodes.
    pub transport: Transport,
    /// Pod subnets, in the order of the configuration. Empty: addresses are not managed.
    pub subnets: Vec<IpNet>,
    /// Join subnets; primary networks only.
    pub join_subnets: Vec<IpNet>,
    /// Subnets that pods get no addresses of.
    pub excluded_subnets: Vec<IpNet>,
    /// Subnets whose addresses pods get on request only.
    pub reserved_subnets: Vec<IpNet>,
    /// Subnets for gateways and management ports.
    pub infrastructure_subnets: Vec<IpNet>,
    /// Gateways in place of the first addresses.
    pub default_gateways: Vec<IpAddr>,
    /// MTU in bytes. `None`: that of the cluster.
    pub mtu: Option<u32>,
    /// `true` if IPAMClaims keep addresses.
    pub keeps_addresses: bool,
}

impl AttachedNetwork {
    /// Name of the switch that has the ports of pods on a node.
    pub fn switch(&self, node: &str) -> String {
        match self.topology {
            AttachedTopology::Layer2 => names::network_switch(&self.name, Topology::Layer2, node),
            AttachedTopology::Layer3 => names::network_switch(&self.name, Topology::Layer3, node),
            AttachedTopology::Localnet => network_prefix(&self.name) + "ovn_localnet_switch",
        }
    }

    /// `true` if the ports of pods are in all zones, because their switches are one.
    pub fn has_remote_ports(&self) -> bool {
        self.topology == AttachedTopology::Layer2 && self.transport == Transport::Overlay
    }

    fn new(network: &Network, definition: &AttachmentDefinition<'_>) -> Option<Self> {
        let config = CniConfig::from_json(definition.config?).ok()??;
        Some(Self {
            name: network.name.as_str().into(),
            topology: match network.topology {
                Topology::Layer2 => AttachedTopology::Layer2,
                Topology::Layer3 => AttachedTopology::Layer3,
                // No definition of a network has it.
                Topology::Vpc => return None,
            },
            role: network.role,
            transport: network.transport,
            subnets: network.pod_subnets.iter().map(|subnet| subnet.cidr).collect(),
            join_subnets: network.join_subnets.clone(),
            ..details(&config).ok()?
        })
    }

    fn localnet(definition: &AttachmentDefinition<'_>) -> Option<Self> {
        definition.network_id?;
        let config = CniConfig::from_json(definition.config?).ok()??;
        let is_localnet = config.topology == "localnet" && !config.name.is_empty();
        is_localnet.then(|| details(&config).ok())?
    }
}

/// The network of a configuration, as a localnet network.
///
/// # Errors
/// A field has another type.
fn details(config: &CniConfig) -> Result<AttachedNetwork, serde_json::Error> {
    let mtu: Option<u32> = config.mtu.interpret()?;
    let keeps_addresses: Option<bool> = config.allow_persistent_ips.interpret()?;
    Ok(AttachedNetwork {
        name: config.name.as_str().into(),
        topology: AttachedTopology::Localnet,
        role: Role::Secondary,
        transport: Transport::Overlay,
        subnets: entries(config.subnets.as_deref().unwrap_or_default()),
        join_subnets: Vec::new(),
        excluded_subnets: list(&config.exclude_subnets)?,
        reserved_subnets: list(&config.reserved_subnets)?,
        infrastructure_subnets: list(&config.infrastructure_subnets)?,
        default_gateways: list(&config.default_gateway_ips)?,
        mtu,
        keeps_addresses: keeps_addresses.unwrap_or_default(),
    })
}

/// The entries of a field with a comma-separated list.
fn list<T: std::str::FromStr>(field: &UninterpretedValue) -> Result<Vec<T>, serde_json::Error> {
    let text: Option<String> = field.interpret()?;
    Ok(entries(&text.unwrap_or_default()))
}

/// The entries of a comma-separated list. Those that cannot be read are reported where the
/// network's own rows are made.
fn entries<T: std::str::FromStr>(list: &str) -> Vec<T> {
    let entries = list.split(',').map(str::trim);
    entries.filter_map(|entry| entry.parse().ok()).collect()
}

/// Networks by attachment definition and namespace.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AttachedNetworks {
    by_definition: BTreeMap<NadKey, Definition>,
    primary: BTreeMap<Arc<str>, Option<NadKey>>,
}

/// Target of an attachment definition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Definition {
    /// A network.
    Network(Arc<AttachedNetwork>),
    /// No network: that of another plugin, or one that is not complete.
    None,
}

impl AttachedNetworks {
    /// Reads attachment definitions, of which `networks` are the networks. `labelled` has the
    /// namespaces with the label [`PRIMARY_NETWORK_LABEL`](super::PRIMARY_NETWORK_LABEL).
    pub fn new<'a>(
        networks: &Networks,
        definitions: impl IntoIterator<Item = &'a AttachmentDefinition<'a>>,
        labelled: &BTreeSet<String>,
    ) -> Self {
        let mut known = BTreeMap::<Arc<str>, Arc<AttachedNetwork>>::new();
        let by_definition = definitions.into_iter().map(|definition| {
            let read = match networks.by_nad(&definition.key) {
                Some(network) => AttachedNetwork::new(network, definition),
                None if networks.problems().contains_key(&definition.key) => None,
                None => AttachedNetwork::localnet(definition),
            };
            // Definitions of one network share it.
            let network = read.map(|read| {
                let known = known.entry(read.name.clone()).or_insert_with(|| Arc::new(read));
                Definition::Network(known.clone())
            });
            (definition.key.clone(), network.unwrap_or(Definition::None))
        });
        let by_definition = by_definition.collect();
        let primary = labelled.iter().map(|namespace| {
            let key = networks.primary_nad(namespace);
            (namespace.as_str().into(), key.cloned())
        });
        Self { by_definition, primary: primary.collect() }
    }

    /// All definitions.
    pub fn definitions(&self) -> impl Iterator<Item = (&NadKey, &Definition)> {
        self.by_definition.iter()
    }

    /// Target of a definition. `None`: there is no such definition.
    pub fn definition(&self, key: &NadKey) -> Option<&Definition> {
        self.by_definition.get(key)
    }

    /// Namespaces whose pods have a primary network, each with the definition of that network.
    /// `None`: there is no such definition yet.
    pub fn primary(&self) -> impl Iterator<Item = (&Arc<str>, Option<&NadKey>)> {
        self.primary.iter().map(|(namespace, key)| (namespace, key.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_layer2_networks_with_an_overlay_have_the_ports_of_other_nodes() {
        let network = |topology, transport| AttachedNetwork {
            topology,
            transport,
            ..details(&CniConfig::default()).unwrap()
        };
        let layer2 = AttachedTopology::Layer2;
        assert!(network(layer2, Transport::Overlay).has_remote_ports());
        assert!(!network(layer2, Transport::Evpn).has_remote_ports());
        let layer3 = network(AttachedTopology::Layer3, Transport::Overlay);
        assert!(!layer3.has_remote_ports());
    }
}
