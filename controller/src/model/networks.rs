//! All networks of the cluster, read from the attachment definitions of all namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use thiserror::Error;

use super::ids::{IdError, NetworkId};
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
        networks
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
mod tests {
    use serde_json::json;

    use super::*;

    fn nad(
        namespace: &str,
        name: &str,
        network: &str,
        id: Option<&str>,
        subnets: &str,
    ) -> NetworkAttachmentDefinition {
        let config = json!({
            "type": "ovn-k8s-cni-overlay", "name": network, "topology": "layer3", "role": "primary", "subnets": subnets,
        });
        let mut annotations = serde_json::Map::new();
        if let Some(id) = id {
            annotations.insert(NETWORK_ID.to_owned(), id.into());
        }
        serde_json::from_value(json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
            "spec": {"config": config.to_string()},
        }))
        .unwrap()
    }

    fn namespace(name: &str, labelled: bool) -> Namespace {
        let labels = if labelled {
            json!({PRIMARY_NETWORK_LABEL: ""})
        } else {
            json!({})
        };
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
    }

    fn problems(networks: &Networks) -> Vec<String> {
        networks
            .problems()
            .iter()
            .map(|(key, problem)| format!("{key}: {problem}"))
            .collect()
    }

    #[test]
    fn definitions_of_one_network_are_one_network() {
        let nads = [
            nad("a", "red", "cluster_udn_red", Some("1"), "10.0.0.0/16"),
            nad("b", "red", "cluster_udn_red", Some("1"), "10.0.0.0/16"),
        ];
        let namespaces = [namespace("a", true), namespace("b", false)];
        let networks = Networks::read(&nads, &namespaces);
        let network = networks.by_name("cluster_udn_red").unwrap();
        assert_eq!(network.nads.len(), 2);
        assert_eq!(network.namespaces.iter().collect::<Vec<_>>(), ["a"]);
        assert_eq!(networks.by_id(network.id), Some(network));
        assert_eq!(networks.by_nad(&NadKey::of(&nads[1])), Some(network));
        assert_eq!(problems(&networks), Vec::<String>::new());
    }

    #[test]
    fn what_leads_nowhere_is_told_with_its_name() {
        let mut broken = nad("f", "broken", "f_broken", Some("9"), "");
        broken.spec.config = Some("{".to_owned());
        let nads = [
            nad("a", "red", "cluster_udn_red", Some("1"), "10.0.0.0/16"),
            nad("b", "red", "cluster_udn_red", Some("1"), "10.1.0.0/16"),
            nad("c", "blue", "c_blue", Some("1"), "10.2.0.0/16"),
            nad("d", "green", "d_green", None, "10.3.0.0/16"),
            nad("e", "grey", "e_grey", Some("-2"), "10.4.0.0/16"),
            nad("a", "second", "a_second", Some("3"), "10.5.0.0/16"),
            broken,
        ];
        let networks = Networks::read(&nads, []);
        assert_eq!(networks.iter().count(), 1);
        let told = problems(&networks);
        assert_eq!(
            told[..5],
            [
                "a/second: primary network already exist in namespace \"a\": a/red",
                "b/red: network cluster_udn_red is defined differently by a/red",
                "c/blue: network c_blue has id 1, which is the id of network cluster_udn_red",
                "d/green: network d_green has no id yet",
                "e/grey: network e_grey: annotation k8s.ovn.org/network-id: network id -2 is not in 0..=4095",
            ]
        );
        assert!(
            told[5].starts_with("f/broken: spec.config: "),
            "{}",
            told[5]
        );
    }
}
