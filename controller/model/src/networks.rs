//! All networks of the cluster, read from the attachment definitions of all namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use thiserror::Error;

use super::ids::{IdError, NetworkId};
use super::names::network_prefix;
use super::net_conf::{NetConf, NetConfError, OtherFields};
use super::network::{Network, Role, Transport};

/// Annotation of an attachment definition: the id of its network.
pub const NETWORK_ID: &str = "k8s.ovn.org/network-id";
/// Annotation of an attachment definition: the name of its network.
pub const NETWORK_NAME: &str = "k8s.ovn.org/network-name";
/// Annotation of an attachment definition: the tunnel keys of its network's datapaths, a JSON list.
pub const TUNNEL_KEYS: &str = "k8s.ovn.org/tunnel-keys";
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

impl fmt::Display for NadKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

/// The parts of an attachment definition that networks follow from.
#[derive(Clone, Debug)]
pub struct AttachmentDefinition<'a> {
    /// Namespace and name.
    pub key: NadKey,
    /// `spec.config`.
    pub config: Option<&'a str>,
    /// The annotation [`NETWORK_ID`].
    pub network_id: Option<&'a str>,
    /// The annotation [`TUNNEL_KEYS`].
    pub tunnel_keys: Option<&'a str>,
    /// Name of the network of the custom resource that controls the definition; `None`: no custom resource does.
    pub made_for: Option<String>,
}

/// Why an attachment definition does not lead to a network.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NadProblem {
    /// The configuration cannot be understood.
    #[error(transparent)]
    Config(#[from] NetConfError),
    /// The configuration is that of another definition.
    #[error("spec.config: net-attach-def name ({nad}) is inconsistent with config ({config})")]
    Misplaced {
        /// The definition.
        nad: NadKey,
        /// The definition that the configuration names.
        config: String,
    },
    /// The id has not been handed out yet.
    #[error("network {network} has no id yet")]
    NoId {
        /// Name of the network.
        network: String,
        /// What the network is to its pods.
        role: Role,
        /// How its packets travel.
        transport: Transport,
    },
    /// The id is not valid.
    #[error("network {network}: annotation {NETWORK_ID}: {source}")]
    BadId {
        /// Name of the network.
        network: String,
        /// What the network is to its pods.
        role: Role,
        /// How its packets travel.
        transport: Transport,
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
    /// By network, the definition that counts, and what it says beside what is known of the network.
    definitions: BTreeMap<String, (NadKey, OtherFields)>,
    primary_nads: BTreeMap<String, NadKey>,
    problems: BTreeMap<NadKey, NadProblem>,
}

impl Networks {
    /// Reads all definitions. A definition that leads nowhere is kept as a [problem](Self::problems). Where definitions
    /// contradict each other, those count that were made for the custom resource of their network, then the first one in
    /// the order of their keys: a stranger does not take over the name of a network.
    ///
    /// `served` names the namespaces with the label [`PRIMARY_NETWORK_LABEL`].
    pub fn read<'a>(
        definitions: impl IntoIterator<Item = AttachmentDefinition<'a>>,
        served: &BTreeSet<String>,
    ) -> Self {
        let definitions: BTreeMap<NadKey, AttachmentDefinition<'a>> = definitions
            .into_iter()
            .map(|definition| (definition.key.clone(), definition))
            .collect();
        let mut networks = Self::default();
        let mut strangers = Vec::new();
        for (key, definition) in definitions {
            match read_network(&definition) {
                Ok(Some(read)) if definition.made_for.as_ref() == Some(&read.0.name) => {
                    networks.add(key, read, served);
                }
                Ok(Some(read)) => strangers.push((key, read)),
                Ok(None) => {}
                Err(problem) => {
                    networks.problems.insert(key, problem);
                }
            }
        }
        for (key, read) in strangers {
            networks.add(key, read, served);
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
            self.definitions.remove(&network.name);
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

    /// Adds what one definition says, unless something is wrong with it.
    fn add(
        &mut self,
        key: NadKey,
        (network, others): (Network, OtherFields),
        served: &BTreeSet<String>,
    ) {
        if let Some(problem) = self.problem_of(&key, &network, &others) {
            self.problems.insert(key, problem);
            return;
        }
        self.by_id.insert(network.id, network.name.clone());
        self.by_nad.insert(key.clone(), network.name.clone());
        self.definitions
            .entry(network.name.clone())
            .or_insert_with(|| (key.clone(), others));
        let network = self.by_name.entry(network.name.clone()).or_insert(network);
        network.nads.insert(key.clone());
        if network.role == Role::Primary {
            if served.contains(&key.namespace) {
                network.namespaces.insert(key.namespace.clone());
            }
            self.primary_nads.insert(key.namespace.clone(), key);
        }
    }

    /// What is wrong with a definition beside those that are there already.
    fn problem_of(
        &self,
        key: &NadKey,
        network: &Network,
        others: &OtherFields,
    ) -> Option<NadProblem> {
        let name = || network.name.clone();
        let other = self.by_id.get(&network.id);
        if let Some(other) = other.filter(|other| **other != network.name) {
            return Some(NadProblem::IdTaken {
                network: name(),
                id: network.id,
                other: other.clone(),
            });
        }
        if let (Some(known), Some((definition, known_others))) = (
            self.by_name.get(&network.name),
            self.definitions.get(&network.name),
        ) {
            let same = Network {
                namespaces: known.namespaces.clone(),
                nads: known.nads.clone(),
                ..network.clone()
            };
            if *known != same || known_others != others {
                return Some(NadProblem::Differs {
                    network: name(),
                    other: definition.clone(),
                });
            }
        }
        let other = self.primary_nads.get(&key.namespace)?;
        (network.role == Role::Primary).then(|| NadProblem::SecondPrimary {
            namespace: key.namespace.clone(),
            other: other.clone(),
        })
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

    /// The definition that says what the network is.
    pub fn definition(&self, network: &str) -> Option<&NadKey> {
        self.definitions.get(network).map(|(nad, _)| nad)
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
fn read_network(
    definition: &AttachmentDefinition<'_>,
) -> Result<Option<(Network, OtherFields)>, NadProblem> {
    let config = definition.config.ok_or(NetConfError::Missing)?;
    let Some(conf) = NetConf::parse(config)? else {
        return Ok(None);
    };
    let key = definition.key.clone();
    if conf.definition != key.to_string() {
        return Err(NadProblem::Misplaced {
            nad: key,
            config: conf.definition,
        });
    }
    let id = match definition.network_id.map(str::parse) {
        None => {
            return Err(NadProblem::NoId {
                network: conf.name,
                role: conf.role,
                transport: conf.transport,
            });
        }
        Some(Err(source)) => {
            return Err(NadProblem::BadId {
                network: conf.name,
                role: conf.role,
                transport: conf.transport,
                source,
            });
        }
        Some(Ok(id)) => id,
    };
    let network = Network {
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
    };
    Ok(Some((network, conf.others)))
}
