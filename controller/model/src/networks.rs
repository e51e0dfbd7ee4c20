//! Networks of the cluster, read from the attachment definitions of all namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use thiserror::Error;

use super::cni_config::CniConfig;
use super::config_check::{ConfigError, check_definition};
use super::ids::{IdError, NetworkId};
use super::names::network_prefix;
use super::net_conf::{NetConf, NetConfError};
use super::network::{Network, Role, Transport};
use super::settings::ClusterSettings;

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

/// The parts of an attachment definition from which networks are derived.
#[derive(Clone, Debug)]
pub struct AttachmentDefinition<'a> {
    /// Namespace and name.
    pub key: NadKey,
    /// `spec.config`.
    pub config: Option<&'a str>,
    /// The annotation [`NETWORK_ID`].
    pub network_id: Option<&'a str>,
    /// The annotation [`NETWORK_NAME`].
    pub network_name: Option<&'a str>,
    /// The annotation [`TUNNEL_KEYS`].
    pub tunnel_keys: Option<&'a str>,
    /// The annotation [`ROUTE_ADVERTISEMENTS`](super::ROUTE_ADVERTISEMENTS).
    pub advertisements: Option<&'a str>,
    /// Name of the network of the custom resource that controls the definition. `None`: no custom
    /// resource controls it.
    pub owner_network: Option<String>,
}

/// Reason why an attachment definition has no network.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NadProblem {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] NetConfError),
    /// The configuration names another definition.
    #[error("spec.config: net-attach-def name ({nad}) is inconsistent with config ({config})")]
    Misplaced {
        /// The definition.
        nad: NadKey,
        /// The definition that the configuration names.
        config: String,
    },
    /// The cluster cannot have the network.
    #[error("spec.config: {reason}")]
    Refused {
        /// Name of the network.
        network: String,
        /// The reason.
        reason: Box<ConfigError>,
    },
    /// The network has no id yet.
    #[error("network {network} has no id yet")]
    NoId {
        /// Name of the network.
        network: String,
        /// Role of the network.
        role: Role,
        /// Transport of the network.
        transport: Transport,
    },
    /// The id is not valid.
    #[error("network {network}: annotation {NETWORK_ID}: {source}")]
    BadId {
        /// Name of the network.
        network: String,
        /// Role of the network.
        role: Role,
        /// Transport of the network.
        transport: Transport,
        /// Error of the id.
        source: IdError,
    },
    /// Another definition of the same network has another configuration.
    #[error("network {network} is defined differently by {other}")]
    Differs {
        /// Name of the network.
        network: String,
        /// The definition that is used.
        other: NadKey,
    },
    /// Another network has the id.
    #[error("network {network} has id {id}, which is the id of network {other}")]
    IdTaken {
        /// Name of the network.
        network: String,
        /// The id.
        id: NetworkId,
        /// The network that has the id.
        other: String,
    },
    /// The namespace has another primary network.
    #[error("primary network already exist in namespace {namespace:?}: {other}")]
    SecondPrimary {
        /// The namespace.
        namespace: String,
        /// The definition that is used.
        other: NadKey,
    },
    /// The rows of another network have the same names.
    #[error(
        "network {network} conflicts with network {other} in OVN: routers and switches of both have names that \
         start with {:?}",
        network_prefix(network)
    )]
    NameTaken {
        /// Name of the network.
        network: String,
        /// The network that has these rows.
        other: String,
    },
}

/// Networks of the cluster, by name, id and attachment definition.
#[derive(Debug, Default)]
pub struct Networks {
    by_name: BTreeMap<String, Network>,
    by_id: BTreeMap<NetworkId, String>,
    by_nad: BTreeMap<NadKey, String>,
    /// By network, the definition that is used, and the canonical form of its configuration.
    definitions: BTreeMap<String, (NadKey, CniConfig)>,
    primary_nads: BTreeMap<String, NadKey>,
    problems: BTreeMap<NadKey, NadProblem>,
    /// Definitions with a problem that have had a network, with the names that it may have. Without
    /// names it may be any one.
    former_definitions: BTreeMap<NadKey, BTreeSet<String>>,
    /// Names of networks whose custom resources cannot be decoded.
    undecoded: BTreeSet<String>,
}

impl Networks {
    /// Reads all definitions. A definition without a network becomes a [problem](Self::problems).
    ///
    /// Definitions that the custom resource of their network controls come first, then the others,
    /// each in the order of their keys. Of contradicting definitions the first one is used, so that
    /// a foreign definition cannot take over the name of a network.
    ///
    /// `labelled` contains the namespaces with the label [`PRIMARY_NETWORK_LABEL`].
    pub fn from_definitions<'a>(
        definitions: impl IntoIterator<Item = AttachmentDefinition<'a>>,
        labelled: &BTreeSet<String>,
    ) -> Self {
        Self::read(definitions, labelled, None)
    }

    /// Reads all definitions as [`from_definitions`](Self::from_definitions) does. Networks that a
    /// cluster with these settings cannot have are problems, too.
    pub fn of_cluster<'a>(
        definitions: impl IntoIterator<Item = AttachmentDefinition<'a>>,
        labelled: &BTreeSet<String>,
        settings: &ClusterSettings,
    ) -> Self {
        Self::read(definitions, labelled, Some(settings))
    }

    fn read<'a>(
        definitions: impl IntoIterator<Item = AttachmentDefinition<'a>>,
        labelled: &BTreeSet<String>,
        settings: Option<&ClusterSettings>,
    ) -> Self {
        let definitions: BTreeMap<NadKey, AttachmentDefinition<'a>> = definitions
            .into_iter()
            .map(|definition| (definition.key.clone(), definition))
            .collect();
        let mut networks = Self::default();
        let mut foreign = Vec::new();
        for (key, definition) in definitions {
            match read_network(&definition, settings) {
                Ok(Some(read)) if definition.owner_network.as_ref() == Some(&read.0.name) => {
                    networks.add(key, read, labelled);
                }
                Ok(Some(read)) => foreign.push((key, read)),
                Ok(None) => {}
                Err(problem) => {
                    let annotated = definition.network_name.map(ToOwned::to_owned);
                    let names: BTreeSet<String> =
                        definition.owner_network.into_iter().chain(annotated).collect();
                    if definition.network_id.is_some() || !names.is_empty() {
                        networks.former_definitions.insert(key.clone(), names);
                    }
                    networks.problems.insert(key, problem);
                }
            }
        }
        for (key, read) in foreign {
            networks.add(key, read, labelled);
        }
        networks.remove_networks_with_shared_names();
        networks
    }

    /// Adds the names of networks whose custom resources cannot be decoded.
    #[must_use]
    pub fn with_undecoded(mut self, names: BTreeSet<String>) -> Self {
        self.undecoded = names;
        self
    }

    /// Names of networks that are not known, because their custom resources cannot be decoded.
    pub fn undecoded(&self) -> impl Iterator<Item = &str> {
        let names = self.undecoded.iter().map(String::as_str);
        names.filter(|name| self.by_name(name).is_none())
    }

    /// Removes networks whose rows would have the names of another network's rows. The network with
    /// the lower id stays, because ids never change. The namespaces of a removed network have no
    /// primary network.
    fn remove_networks_with_shared_names(&mut self) {
        let mut owners = BTreeMap::<String, &String>::new();
        let mut refused = Vec::new();
        for (id, name) in &self.by_id {
            let other = *owners.entry(network_prefix(name)).or_insert(name);
            if other != name {
                refused.push((*id, other.clone()));
            }
        }
        for (id, other) in refused {
            let Some(network) = self.by_id.remove(&id).and_then(|name| self.by_name.remove(&name))
            else {
                continue;
            };
            self.definitions.remove(&network.name);
            for nad in network.nads {
                self.by_nad.remove(&nad);
                let problem =
                    NadProblem::NameTaken { network: network.name.clone(), other: other.clone() };
                self.problems.insert(nad, problem);
            }
        }
    }

    /// Adds a definition, or the problem with it.
    fn add(
        &mut self,
        key: NadKey,
        (network, config): (Network, CniConfig),
        labelled: &BTreeSet<String>,
    ) {
        if let Some(problem) = self.find_problem(&key, &network, &config) {
            self.problems.insert(key, problem);
            return;
        }
        self.by_id.insert(network.id, network.name.clone());
        self.by_nad.insert(key.clone(), network.name.clone());
        self.definitions.entry(network.name.clone()).or_insert_with(|| (key.clone(), config));
        let network = self.by_name.entry(network.name.clone()).or_insert(network);
        network.nads.insert(key.clone());
        if network.role == Role::Primary {
            if labelled.contains(&key.namespace) {
                network.namespaces.insert(key.namespace.clone());
            }
            self.primary_nads.insert(key.namespace.clone(), key);
        }
    }

    /// Finds the problem of a definition with those that have been added before.
    fn find_problem(
        &self,
        key: &NadKey,
        network: &Network,
        config: &CniConfig,
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
        if let (Some(known), Some((definition, known_config))) =
            (self.by_name.get(&network.name), self.definitions.get(&network.name))
            && (known.id != network.id || known_config != config)
        {
            return Some(NadProblem::Differs { network: name(), other: definition.clone() });
        }
        let other = self.primary_nads.get(&key.namespace)?;
        (network.role == Role::Primary).then(|| NadProblem::SecondPrimary {
            namespace: key.namespace.clone(),
            other: other.clone(),
        })
    }

    /// Network of this name.
    pub fn by_name(&self, name: &str) -> Option<&Network> {
        self.by_name.get(name)
    }

    /// Network with this id.
    pub fn by_id(&self, id: NetworkId) -> Option<&Network> {
        self.by_id.get(&id).and_then(|name| self.by_name(name))
    }

    /// Network of an attachment definition. `None`: it has no network.
    pub fn by_nad(&self, nad: &NadKey) -> Option<&Network> {
        self.by_nad.get(nad).and_then(|name| self.by_name(name))
    }

    /// The definition that is used for the network.
    pub fn definition(&self, network: &str) -> Option<&NadKey> {
        self.definitions.get(network).map(|(nad, _)| nad)
    }

    /// The definition of the primary network in a namespace, with or without the label
    /// [`PRIMARY_NETWORK_LABEL`].
    pub fn primary_nad(&self, namespace: &str) -> Option<&NadKey> {
        self.primary_nads.get(namespace)
    }

    /// Definitions with a [problem](Self::problems) in a namespace, in the order of their names.
    pub fn problems_in(&self, namespace: &str) -> impl Iterator<Item = &NadKey> {
        let first = NadKey { namespace: namespace.to_owned(), name: String::new() };
        self.problems
            .range(&first..)
            .map(|(key, _)| key)
            .take_while(move |key| key.namespace == first.namespace)
    }

    /// Networks, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Network> {
        self.by_name.values()
    }

    /// Names that the network of a definition with a [problem](Self::problems) may have had. They
    /// are in the annotation and in the custom resource that controls the definition. Empty: the
    /// network may have had any name. `None`: the definition has had no network.
    pub fn former_names(&self, nad: &NadKey) -> Option<&BTreeSet<String>> {
        self.former_definitions.get(nad)
    }

    /// Definitions without a network, with their problems.
    pub fn problems(&self) -> &BTreeMap<NadKey, NadProblem> {
        &self.problems
    }
}

impl FromIterator<Network> for Networks {
    /// Collects networks that were not read from attachment definitions.
    fn from_iter<I: IntoIterator<Item = Network>>(networks: I) -> Self {
        let mut collected = Self::default();
        for network in networks {
            collected.by_id.insert(network.id, network.name.clone());
            for nad in &network.nads {
                collected.by_nad.insert(nad.clone(), network.name.clone());
                if network.role == Role::Primary {
                    collected.primary_nads.insert(nad.namespace.clone(), nad.clone());
                }
            }
            collected.by_name.insert(network.name.clone(), network);
        }
        collected
    }
}

/// Reads one definition. `None`: it is not that of a layer2 or layer3 network of OVN-Kubernetes.
fn read_network(
    definition: &AttachmentDefinition<'_>,
    settings: Option<&ClusterSettings>,
) -> Result<Option<(Network, CniConfig)>, NadProblem> {
    let text = definition.config.ok_or(NetConfError::Missing)?;
    let config = CniConfig::from_json(text).map_err(NetConfError::Json)?;
    let Some(config) = config.filter(|config| !config.topology.is_empty()) else {
        return Ok(None);
    };
    let key = definition.key.clone();
    let checked =
        settings.map_or(Ok(()), |settings| check_definition(&key.to_string(), &config, settings));
    let name = config.name.clone();
    let refused =
        |reason: ConfigError| NadProblem::Refused { network: name, reason: Box::new(reason) };
    let Some(conf) = NetConf::from_config(config)? else {
        return checked.map(|()| None).map_err(refused);
    };
    if conf.definition != key.to_string() {
        return Err(NadProblem::Misplaced { nad: key, config: conf.definition });
    }
    checked.map_err(refused)?;
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
    Ok(Some((network, conf.canonical)))
}
