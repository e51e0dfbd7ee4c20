//! What is held for one connect.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use kube::ResourceExt;
use thiserror::Error;

use super::allocator::{ConnectAllocator, NoSubnets};
use super::config::ClusterConfig;
use super::report::Warning;
use super::selection::Selection;
use crate::api::cnc::{ClusterNetworkConnect, ConnectSubnet};
use crate::model::{
    ConnectRange, ConnectRangeError, ConnectRanges, ConnectSubnetMap, IpFamily, Network, OwnerKey,
    Topology,
};

/// Why there is nothing to allocate from.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub(super) enum AllocatorError {
    #[error(transparent)]
    Cidr(#[from] ConnectRangeError),
    #[error(
        "failed to add {} network range {range} to cluster network connect {connect} subnet allocator: {source}",
        IpFamily::of_net(*range).long_name().to_uppercase()
    )]
    Range {
        range: IpNet,
        connect: String,
        source: ConnectRangeError,
    },
}

/// Why a network got no subnets.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub(super) enum SubnetError {
    #[error(
        "failed to allocate Layer3 subnet for network {network}: Layer3 allocation failed for {owner}: {source}"
    )]
    Layer3 {
        network: String,
        owner: OwnerKey,
        source: NoSubnets,
    },
    #[error(
        "failed to allocate Layer2 subnet for network {network}: failed to expand Layer2 allocator: failed to allocate layer2 blocks: {source}"
    )]
    Layer2 { network: String, source: NoSubnets },
    #[error("network id is invalid for network {network}")]
    NoId { network: String },
}

/// What is held for one connect.
#[derive(Debug)]
pub(super) struct Held {
    /// Tells an object from another one that took its name later.
    pub(super) uid: Option<String>,
    /// All CIDRs of the spec, also those of families that the cluster does not run.
    pub(super) cidrs: Vec<IpNet>,
    /// The subnets of the connect's networks.
    pub(super) allocator: ConnectAllocator,
    /// Names of the owners' networks, as far as they have been seen.
    names: BTreeMap<OwnerKey, String>,
    /// The subnet annotation is there, or has been.
    annotated: bool,
}

impl Held {
    /// Takes over a connect with what its annotation says its networks have.
    pub(super) fn adopt(
        name: &str,
        object: &ClusterNetworkConnect,
        config: &ClusterConfig,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, AllocatorError> {
        let entries = &object.spec.connect_subnets;
        let cidrs = entries
            .iter()
            .map(|entry| ConnectRange::parse_cidr(&entry.cidr))
            .collect::<Result<Vec<_>, _>>()?;
        let mut held = Self {
            uid: object.uid(),
            allocator: ConnectAllocator::new(usable_ranges(name, entries, &cidrs, config)?),
            cidrs: cidrs.iter().map(IpNet::trunc).collect(),
            names: BTreeMap::new(),
            annotated: false,
        };
        if let Some(text) = object.annotations().get(ConnectSubnetMap::ANNOTATION) {
            held.annotated = true;
            held.restore(name, text, warnings);
        }
        Ok(held)
    }

    fn restore(&mut self, name: &str, annotation: &str, warnings: &mut Vec<Warning>) {
        let (subnets, unknown) = match ConnectSubnetMap::parse(annotation) {
            Ok(parsed) => parsed,
            Err(source) => {
                warnings.push(Warning::Subnets {
                    connect: name.to_owned(),
                    source,
                });
                return;
            }
        };
        warnings.extend(unknown.into_iter().map(|source| Warning::Owner {
            connect: name.to_owned(),
            source,
        }));
        for (owner, subnets) in subnets.iter() {
            if !self.allocator.restore(owner, subnets) {
                warnings.push(Warning::NotRestored {
                    connect: name.to_owned(),
                    owner,
                });
            }
        }
    }

    /// Gives every selected network its subnets and takes back those of the others. New networks are served in the
    /// order of their ids.
    ///
    /// Returns what failed, by name of the network.
    pub(super) fn hand_out(&mut self, selection: &Selection<'_>) -> Vec<SubnetError> {
        let mut networks: Vec<&Network> = selection.networks.values().copied().collect();
        networks.sort_by_key(|network| network.id);
        let mut errors: Vec<SubnetError> = selection
            .unresolved
            .iter()
            .filter(|unresolved| unresolved.lacks_id)
            .filter_map(|unresolved| unresolved.network.clone())
            .map(|network| SubnetError::NoId { network })
            .collect();
        for network in &networks {
            let owner = network.owner_key();
            match self.allocator.allocate(owner) {
                Ok(()) => {
                    self.names.insert(owner, network.name.clone());
                }
                Err(source) => errors.push(SubnetError::new(network, source)),
            }
        }
        self.take_back(
            &networks.iter().map(|network| network.owner_key()).collect(),
            selection,
        );
        errors.sort_by(|left, right| left.network().cmp(right.network()));
        errors
    }

    /// Takes back the subnets of networks that are not selected any more.
    ///
    /// A network whose definition is selected but cannot be read at the moment keeps what it has: it would come back
    /// with other addresses and other keys, and everything that goes through them would be interrupted.
    fn take_back(&mut self, selected: &BTreeSet<OwnerKey>, selection: &Selection<'_>) {
        let unclear = |owner: OwnerKey| {
            let name = self.names.get(&owner);
            selection.unresolved.iter().any(|unresolved| {
                unresolved.id == Some(owner.network_id)
                    || (name.is_some() && unresolved.network.as_ref() == name)
            })
        };
        let gone: Vec<OwnerKey> = self
            .allocator
            .owners()
            .filter(|owner| !selected.contains(owner) && !unclear(*owner))
            .collect();
        for owner in gone {
            self.allocator.release(owner);
            self.names.remove(&owner);
        }
    }

    /// The subnet annotation; `None` while no network has ever been connected.
    pub(super) fn annotation(&mut self) -> Option<ConnectSubnetMap> {
        let subnets = self.allocator.to_map();
        self.annotated |= !subnets.is_empty();
        self.annotated.then_some(subnets)
    }
}

impl SubnetError {
    fn new(network: &Network, source: NoSubnets) -> Self {
        let name = network.name.clone();
        match network.topology {
            Topology::Layer3 => Self::Layer3 {
                network: name,
                owner: network.owner_key(),
                source,
            },
            Topology::Layer2 => Self::Layer2 {
                network: name,
                source,
            },
        }
    }

    fn network(&self) -> &str {
        match self {
            Self::Layer3 { network, .. }
            | Self::Layer2 { network, .. }
            | Self::NoId { network } => network,
        }
    }
}

/// The ranges of the families that the cluster runs.
fn usable_ranges(
    name: &str,
    entries: &[ConnectSubnet],
    cidrs: &[IpNet],
    config: &ClusterConfig,
) -> Result<ConnectRanges, AllocatorError> {
    entries
        .iter()
        .zip(cidrs)
        .filter(|(_, cidr)| config.runs(IpFamily::of_net(**cidr)))
        .map(|(entry, cidr)| {
            ConnectRange::try_new(*cidr, entry.network_prefix).map_err(|source| {
                AllocatorError::Range {
                    range: cidr.trunc(),
                    connect: name.to_owned(),
                    source,
                }
            })
        })
        .collect()
}
