//! What is held for one connect.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use patchbay_resources::object::Object;
use thiserror::Error;

use super::allocator::{ConnectAllocator, NoSubnets, usable_pairs};
use super::report::Warning;
use super::selection::Selection;
use patchbay_model::{
    ClusterSettings, ConnectRange, ConnectRangeError, ConnectRanges, ConnectSubnetMap,
    ConnectSubnets, IpFamily, Network, NodeId, OwnerKey, SubnetAnnotationError, Topology,
};
use patchbay_resources::cnc::{ClusterNetworkConnect, ConnectSubnet};

/// Why a connect cannot be taken over.
#[derive(Debug, Error)]
pub(super) enum AllocatorError {
    #[error(transparent)]
    Cidr(#[from] ConnectRangeError),
    /// It says what networks have, but nobody can read it: what is handed out meanwhile might be theirs.
    #[error(transparent)]
    Annotation(#[from] SubnetAnnotationError),
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
    #[error(
        "failed to allocate subnet for network {network}: annotation {} would have more than {ANNOTATION_LIMIT} bytes",
        ConnectSubnetMap::ANNOTATION
    )]
    AnnotationFull { network: String },
}

/// The longest subnet annotation, in bytes. All annotations of an object together have at most 256 KiB; this leaves
/// 16 KiB for the others.
const ANNOTATION_LIMIT: usize = 240 * 1024;

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
    /// The subnet annotation; `None` while no network has ever been connected. It follows the allocator only when networks
    /// come or go, so that no link changes its addresses for nothing.
    annotation: Option<ConnectSubnetMap>,
}

impl Held {
    /// Takes over a connect with what its annotation says its networks have.
    pub(super) fn adopt(
        name: &str,
        object: &ClusterNetworkConnect,
        settings: &ClusterSettings,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, AllocatorError> {
        let entries = &object.spec.connect_subnets;
        let cidrs = entries
            .iter()
            .map(|entry| ConnectRange::parse_cidr(&entry.cidr))
            .collect::<Result<Vec<_>, _>>()?;
        let mut held = Self {
            uid: object.uid(),
            allocator: ConnectAllocator::new(usable_ranges(name, entries, &cidrs, settings)?),
            cidrs: cidrs.iter().map(IpNet::trunc).collect(),
            names: BTreeMap::new(),
            annotation: None,
        };
        if let Some(text) = object.annotations().get(ConnectSubnetMap::ANNOTATION) {
            held.restore(name, text, warnings)?;
            held.annotation = Some(held.allocator.to_map());
        }
        Ok(held)
    }

    fn restore(
        &mut self,
        name: &str,
        annotation: &str,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), SubnetAnnotationError> {
        let (subnets, unknown) = ConnectSubnetMap::parse(annotation)?;
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
        Ok(())
    }

    /// Gives every selected network its subnets and takes back those of the others. New networks are served first, in the
    /// order of their ids: a layer2 network that is connected already moves only into a place that they leave free.
    ///
    /// Returns what failed, by name of the network.
    pub(super) fn hand_out(&mut self, selection: &Selection<'_>) -> Vec<SubnetError> {
        let mut networks: Vec<&Network> = selection.networks.values().copied().collect();
        networks.sort_by_key(|network| (self.allocator.has(network.owner_key()), network.id));
        let mut errors: Vec<SubnetError> = selection
            .unresolved
            .iter()
            .filter(|unresolved| unresolved.lacks_id)
            .filter_map(|unresolved| unresolved.network.clone())
            .map(|network| SubnetError::NoId { network })
            .collect();
        let mut length = self.allocator.to_map().to_string().len();
        for network in &networks {
            match self.serve(network, &mut length) {
                Ok(()) => {
                    self.names.insert(network.owner_key(), network.name.clone());
                }
                Err(error) => errors.push(error),
            }
        }
        self.take_back(
            &networks.iter().map(|network| network.owner_key()).collect(),
            selection,
        );
        self.annotate();
        errors.sort_by(|left, right| left.network().cmp(right.network()));
        errors
    }

    /// Gives a network its subnets, if the annotation, of this `length` so far, has room for them.
    fn serve(&mut self, network: &Network, length: &mut usize) -> Result<(), SubnetError> {
        let owner = network.owner_key();
        let is_new = !self.allocator.has(owner);
        let allocated = self.allocator.allocate(owner);
        allocated.map_err(|source| SubnetError::new(network, source))?;
        let entry = self.allocator.entry(owner).filter(|_| is_new);
        // The braces of an entry that stands alone are the comma of one among others, and one byte more.
        let longer = *length + entry.map_or(0, |entry| entry.to_string().len());
        if is_new && longer > ANNOTATION_LIMIT {
            self.allocator.release(owner);
            let network = network.name.clone();
            return Err(SubnetError::AnnotationFull { network });
        }
        *length = longer;
        Ok(())
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

    /// How many nodes each network of layer3 can be connected on: ids from 0 have addresses and a tunnel key in its block.
    /// None if there are no such networks.
    fn node_capacity(&self) -> Option<u64> {
        let ranges = self.allocator.ranges();
        let bits = ranges.iter().map(ConnectRange::host_bits).min()?;
        let addresses = 1_u64.checked_shl(u32::from(bits) - 1);
        let of_nodes = |owner: OwnerKey| owner.topology == Topology::Layer3;
        let networks = self.allocator.iter().filter(|(owner, _)| of_nodes(*owner));
        // The subnet that keys are made of.
        let blocks = networks.filter_map(|(_, subnets)| subnets.first());
        let keys = blocks.filter_map(|block| {
            let range = ranges.of(IpFamily::of_net(block))?;
            usable_pairs(range, block)
        });
        Some(u64::from(keys.min()?).min(addresses.unwrap_or(u64::MAX)))
    }

    /// Whether a network has, or soon will have, no room for new nodes: a tenth of it or less is left above the highest id.
    pub(super) fn lacks_room_for(&self, highest: NodeId) -> Option<u64> {
        let capacity = self.node_capacity()?;
        let left = capacity.saturating_sub(u64::from(highest.get()) + 1);
        (left <= capacity / 10).then_some(capacity)
    }

    /// The subnet annotation as it should be; `None` while no network has ever been connected.
    pub(super) const fn annotation(&self) -> Option<&ConnectSubnetMap> {
        self.annotation.as_ref()
    }

    /// Takes the allocator's subnets into the annotation if networks came or went, or one got a family that it lacked.
    fn annotate(&mut self) {
        let has_families = |(owner, subnets): (OwnerKey, &ConnectSubnets)| {
            let annotated = self.annotation.as_ref().and_then(|map| map.get(owner));
            annotated.is_some_and(|annotated| annotated.iter().count() == subnets.iter().count())
        };
        let annotated = self.annotation.as_ref().map_or(0, ConnectSubnetMap::len);
        if annotated != self.allocator.len() || !self.allocator.iter().all(has_families) {
            self.annotation = Some(self.allocator.to_map());
        }
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
            | Self::NoId { network }
            | Self::AnnotationFull { network } => network,
        }
    }
}

/// The ranges of the families that the cluster runs.
fn usable_ranges(
    name: &str,
    entries: &[ConnectSubnet],
    cidrs: &[IpNet],
    settings: &ClusterSettings,
) -> Result<ConnectRanges, AllocatorError> {
    entries
        .iter()
        .zip(cidrs)
        .filter(|(_, cidr)| settings.has_family(IpFamily::of_net(**cidr)))
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
