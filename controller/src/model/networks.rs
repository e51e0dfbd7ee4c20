//! All networks of the cluster, read from the attachment definitions of all namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use thiserror::Error;

use super::ids::{IdError, NetworkId};
use super::names::network_prefix;
use super::net_conf::{NetConf, NetConfError};
use super::network::{Network, Role};
use crate::api::nad::NetworkAttachmentDefinition;

/// Annotation of an attachment definition: the id of its network.
pub const NETWORK_ID: &str = "k8s.ovn.org/network-id";
/// Annotation of an attachment definition: the name of its network.
pub const NETWORK_NAME: &str = "k8s.ovn.org/network-name";
/// Label of a namespace that has a primary user-defined network.
pub const PRIMARY_NETWORK_LABEL: &str = "k8s.ovn.org/primary-user-defined-network";

/// Namespace and name of an attachment definition. `Display` prints `<namespace>/<name>`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NadKey {
    /// Namespace of the definition.
    pub namespace: String,
    /// Name of the definition.
    pub name: String,
}

impl NadKey {
    /// The key of an object.
    pub fn of(nad: &NetworkAttachmentDefinition) -> Self {
        Self {
            namespace: nad.namespace().unwrap_or_default(),
            name: nad.name_any(),
        }
    }
}

impl fmt::Display for NadKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

/// Why an attachment definition does not lead to a network.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NadProblem {
    /// The configuration cannot be understood.
    #[error(transparent)]
    Config(#[from] NetConfError),
    /// The id has not been handed out yet.
    #[error("network {network} has no id yet")]
    NoId {
        /// Name of the network.
        network: String,
    },
    /// The id is not valid.
    #[error("network {network}: annotation {NETWORK_ID}: {source}")]
    BadId {
        /// Name of the network.
        network: String,
        /// What is wrong with the id.
        source: IdError,
    },
    /// Another definition of the same network says something else.
    #[error("network {network} is defined differently by {other}")]
    Differs {
        /// Name of the network.
        network: String,
        /// The definition that counts.
        other: NadKey,
    },
    /// Another network has the id.
    #[error("network {network} has id {id}, which is the id of network {other}")]
    IdTaken {
        /// Name of the network.
        network: String,
        /// The id.
        id: NetworkId,
        /// The network that keeps the id.
        other: String,
    },
    /// The namespace has another primary network.
    #[error("primary network already exist in namespace {namespace:?}: {other}")]
    SecondPrimary {
        /// The namespace.
        namespace: String,
        /// The definition that counts.
        other: NadKey,
    },
    /// The rows of another network have the same names.
    #[error(
        "network {network} cannot be told from network {other} in OVN: routers and switches of both have names that \
         start with {:?}",
        network_prefix(network)
    )]
    NameTaken {
        /// Name of the network.
        network: String,
        /// The network that the rows are of.
        other: String,
    },
}

/// All networks with their ids, and which definition leads to which.
#[derive(Debug, Default)]
pub struct Networks {
    by_name: BTreeMap<String, Network>,
    by_id: BTreeMap<NetworkId, String>,
    by_nad: BTreeMap<NadKey, String>,
    primary_nads: BTreeMap<String, NadKey>,
    problems: BTreeMap<NadKey, NadProblem>,
}

impl Networks {
    /// Reads all definitions. A definition that leads nowhere is kept as a [problem](Self::problems); where definitions
    /// contradict each other, the first one in the order of their keys counts.
    pub fn read<'a>(
        nads: impl IntoIterator<Item = &'a NetworkAttachmentDefinition>,
        namespaces: impl IntoIterator<Item = &'a Namespace>,
    ) -> Self {
        let served: BTreeSet<String> = namespaces
            .into_iter()
            .filter(|namespace| namespace.labels().contains_key(PRIMARY_NETWORK_LABEL))
            .map(ResourceExt::name_any)
            .collect();
        let nads: BTreeMap<NadKey, &NetworkAttachmentDefinition> =
            nads.into_iter().map(|nad| (NadKey::of(nad), nad)).collect();
        let mut networks = Self::default();
        for (key, nad) in nads {
            let added = read_network(nad).and_then(|network| match network {
                Some(network) => networks.add(&key, network, &served),
                None => Ok(()),
            });
            if let Err(problem) = added {
                networks.problems.insert(key, problem);
            }
        }
        networks.refuse_shared_names();
        networks
    }

    /// Takes away networks whose rows would have the names of those of another one, which has a lower id: an id stays
    /// what it is. Their namespaces have no other primary network instead.
    fn refuse_shared_names(&mut self) {
        let mut owners = BTreeMap::<String, &String>::new();
        let mut refused = Vec::new();
        for (id, name) in &self.by_id {
            let other = *owners.entry(network_prefix(name)).or_insert(name);
            if other != name {
                refused.push((*id, other.clone()));
            }
        }
        for (id, other) in refused {
            let network = self.by_id.remove(&id);
            let Some(network) = network.and_then(|name| self.by_name.remove(&name)) else {
                continue;
            };
            for nad in network.nads {
                self.by_nad.remove(&nad);
                let problem = NadProblem::NameTaken {
                    network: network.name.clone(),
                    other: other.clone(),
                };
                self.problems.insert(nad, problem);
            }
        }
    }

    /// Adds what one definition says. The network's own lists of definitions and namespaces are extended.
    fn add(
        &mut self,
        key: &NadKey,
        network: Network,
        served: &BTreeSet<String>,
    ) -> Result<(), NadProblem> {
        let primary = network.role == Role::Primary;
        if let Some(other) = self
            .by_id
            .get(&network.id)
            .filter(|name| **name != network.name)
        {
            return Err(NadProblem::IdTaken {
                network: network.name,
                id: network.id,
                other: other.clone(),
            });
        }
        if let Some(known) = self.by_name.get(&network.name) {
            let same = Network {
                namespaces: known.namespaces.clone(),
                nads: known.nads.clone(),
                ..network.clone()
            };
            if *known != same
                && let Some(other) = known.nads.first()
            {
                return Err(NadProblem::Differs {
                    network: network.name,
                    other: other.clone(),
                });
            }
        }
        if let Some(other) = self.primary_nads.get(&key.namespace).filter(|_| primary) {
            return Err(NadProblem::SecondPrimary {
                namespace: key.namespace.clone(),
                other: other.clone(),
            });
        }
        self.by_id.insert(network.id, network.name.clone());
        self.by_nad.insert(key.clone(), network.name.clone());
        let network = self.by_name.entry(network.name.clone()).or_insert(network);
        network.nads.insert(key.clone());
        if primary {
            self.primary_nads.insert(key.namespace.clone(), key.clone());
            if served.contains(&key.namespace) {
                network.namespaces.insert(key.namespace.clone());
            }
        }
        Ok(())
    }

    /// The network of this name.
    pub fn by_name(&self, name: &str) -> Option<&Network> {
        self.by_name.get(name)
    }

    /// The network with this id.
    pub fn by_id(&self, id: NetworkId) -> Option<&Network> {
        self.by_id.get(&id).and_then(|name| self.by_name(name))
    }

    /// The network that the definition leads to.
    pub fn by_nad(&self, nad: &NadKey) -> Option<&Network> {
        self.by_nad.get(nad).and_then(|name| self.by_name(name))
    }

    /// The definition of the primary network in a namespace, whether the namespace asks for one or not.
    pub fn primary_nad(&self, namespace: &str) -> Option<&NadKey> {
        self.primary_nads.get(namespace)
    }

    /// All networks, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Network> {
        self.by_name.values()
    }

    /// The definitions that lead to no network, and why.
    pub fn problems(&self) -> &BTreeMap<NadKey, NadProblem> {
        &self.problems
    }
}

impl FromIterator<Network> for Networks {
    /// Networks from elsewhere than attachment definitions, with all their fields given.
    fn from_iter<I: IntoIterator<Item = Network>>(networks: I) -> Self {
        let mut collected = Self::default();
        for network in networks {
            collected.by_id.insert(network.id, network.name.clone());
            for nad in &network.nads {
                collected.by_nad.insert(nad.clone(), network.name.clone());
                if network.role == Role::Primary {
                    collected
                        .primary_nads
                        .insert(nad.namespace.clone(), nad.clone());
                }
            }
            collected.by_name.insert(network.name.clone(), network);
        }
        collected
    }
}

/// What one definition says; `None` if it is not about a network of ours.
fn read_network(nad: &NetworkAttachmentDefinition) -> Result<Option<Network>, NadProblem> {
    let config = nad.spec.config.as_deref().ok_or(NetConfError::Missing)?;
    let Some(conf) = NetConf::parse(config)? else {
        return Ok(None);
    };
    let id = match nad.annotations().get(NETWORK_ID).map(|text| text.parse()) {
        None => return Err(NadProblem::NoId { network: conf.name }),
        Some(Err(source)) => {
            return Err(NadProblem::BadId {
                network: conf.name,
                source,
            });
        }
        Some(Ok(id)) => id,
    };
    Ok(Some(Network {
        name: conf.name,
        id,
        topology: conf.topology,
        role: conf.role,
        transport: conf.transport,
        pod_subnets: conf.pod_subnets,
        join_subnets: conf.join_subnets,
        transit_subnets: conf.transit_subnets,
        namespaces: BTreeSet::new(),
        nads: BTreeSet::new(),
    }))
}

#[cfg(test)]
mod tests;
