//! Allocations of one ClusterNetworkConnect.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use patchbay_model::{
    ClusterSettings, ConnectRange, ConnectRangeError, ConnectRanges, ConnectSubnetMap,
    ConnectSubnets, IpFamily, Network, NodeIdCapacity, OwnerKey, SubnetAnnotationError, Topology,
};
use patchbay_resources::cnc::{ClusterNetworkConnect, ConnectSubnet};
use patchbay_resources::object::Object;
use thiserror::Error;

use super::allocator::{ConnectAllocator, NoSubnets};
use super::report::AllocationWarning;
use super::selection::Selection;

/// Reason why the subnets of a connect cannot be restored.
#[derive(Debug, Error)]
pub(super) enum AllocatorError {
    #[error(transparent)]
    Cidr(#[from] ConnectRangeError),
    /// The annotation contains the subnets of networks, so nothing is allocated until it can be
    /// read.
    #[error(transparent)]
    Annotation(#[from] SubnetAnnotationError),
    #[error(
        "failed to add {} network range {range} to cluster network connect {connect} subnet allocator: {source}",
        IpFamily::of_net(*range).long_name().to_uppercase()
    )]
    Range { range: IpNet, connect: String, source: ConnectRangeError },
}

/// Reason why a network has no connect subnets.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub(super) enum SubnetError {
    #[error(
        "failed to allocate Layer3 subnet for network {network}: Layer3 allocation failed for {owner}: {source}"
    )]
    Layer3 { network: String, owner: OwnerKey, source: NoSubnets },
    #[error(
        "failed to allocate Layer2 subnet for network {network}: failed to expand Layer2 allocator: failed to allocate layer2 blocks: {source}"
    )]
    Layer2 { network: String, source: NoSubnets },
    #[error("network id is invalid for network {network}")]
    NoId { network: String },
    #[error(
        "failed to allocate subnet for network {network}: annotation {} would have more than {MAX_ANNOTATION_BYTES} bytes",
        ConnectSubnetMap::ANNOTATION
    )]
    AnnotationFull { network: String },
}

/// Limit of the subnet annotation in bytes. Kubernetes limits all annotations of an object to 256
/// KiB; this leaves 16 KiB for the others.
const MAX_ANNOTATION_BYTES: usize = 240 * 1024;

/// Allocations of one ClusterNetworkConnect.
#[derive(Debug)]
pub(super) struct ConnectAllocation {
    /// Uid, which differs between objects of the same name.
    pub(super) uid: Option<String>,
    /// CIDRs of the spec, including those of families that the cluster does not run.
    pub(super) cidrs: Vec<IpNet>,
    /// Connect subnets of the networks.
    pub(super) allocator: ConnectAllocator,
    /// Names of the owners' networks that have been seen.
    names: BTreeMap<OwnerKey, String>,
    /// The subnet annotation. `None`: no network has ever been connected.
    ///
    /// It is updated from the allocator only when networks come or go, so that links do not change
    /// their addresses without need.
    annotation: Option<ConnectSubnetMap>,
}

impl ConnectAllocation {
    /// Restores the allocations of a connect from its annotation.
    pub(super) fn restore(
        name: &str,
        object: &ClusterNetworkConnect,
        settings: &ClusterSettings,
        warnings: &mut Vec<AllocationWarning>,
    ) -> Result<Self, AllocatorError> {
        let entries = &object.spec.connect_subnets;
        let cidrs = entries
            .iter()
            .map(|entry| ConnectRange::parse_cidr(&entry.cidr))
            .collect::<Result<Vec<_>, _>>()?;
        let mut allocation = Self {
            uid: object.uid(),
            allocator: ConnectAllocator::new(usable_ranges(name, entries, &cidrs, settings)?),
            cidrs: cidrs.iter().map(IpNet::trunc).collect(),
            names: BTreeMap::new(),
            annotation: None,
        };
        if let Some(text) = object.annotations().get(ConnectSubnetMap::ANNOTATION) {
            allocation.restore_subnets(name, text, warnings)?;
            allocation.annotation = Some(allocation.allocator.to_map());
        }
        Ok(allocation)
    }

    fn restore_subnets(
        &mut self,
        name: &str,
        annotation: &str,
        warnings: &mut Vec<AllocationWarning>,
    ) -> Result<(), SubnetAnnotationError> {
        let (subnets, unknown) = ConnectSubnetMap::parse(annotation)?;
        warnings.extend(
            unknown
                .into_iter()
                .map(|source| AllocationWarning::Owner { connect: name.to_owned(), source }),
        );
        for (owner, subnets) in subnets.iter() {
            if !self.allocator.restore(owner, subnets) {
                warnings.push(AllocationWarning::NotRestored { connect: name.to_owned(), owner });
            }
        }
        Ok(())
    }

    /// Allocates the subnets of every selected network and releases those of the others.
    ///
    /// New networks come first, in the order of their ids. A layer2 network that is connected
    /// already moves only to a place that they leave free. Returns the errors, by name of the
    /// network.
    pub(super) fn allocate(&mut self, selection: &Selection<'_>) -> Vec<SubnetError> {
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
            match self.allocate_network(network, &mut length) {
                Ok(()) => {
                    self.names.insert(network.owner_key(), network.name.clone());
                }
                Err(error) => errors.push(error),
            }
        }
        self.release_deselected(
            &networks.iter().map(|network| network.owner_key()).collect(),
            selection,
        );
        self.update_annotation();
        errors.sort_by(|left, right| left.network().cmp(right.network()));
        errors
    }

    /// Allocates the subnets of a network, if they fit into the annotation. `length` is its length
    /// in bytes so far.
    fn allocate_network(
        &mut self,
        network: &Network,
        length: &mut usize,
    ) -> Result<(), SubnetError> {
        let owner = network.owner_key();
        let is_new = !self.allocator.has(owner);
        let allocated = self.allocator.allocate(owner);
        allocated.map_err(|source| SubnetError::new(network, source))?;
        let entry = self.allocator.entry(owner).filter(|_| is_new);
        // A map of one entry has two braces instead of a comma, so this is one byte too long.
        let longer = *length + entry.map_or(0, |entry| entry.to_string().len());
        if is_new && longer > MAX_ANNOTATION_BYTES {
            self.allocator.release(owner);
            let network = network.name.clone();
            return Err(SubnetError::AnnotationFull { network });
        }
        *length = longer;
        Ok(())
    }

    /// Releases the subnets of networks that are not selected any more, and allocates nothing.
    /// Returns the subnet annotation if it has to be written because of that.
    ///
    /// OVN-Kubernetes releases nothing while a connect is refused. Whoever makes one network that
    /// overlaps could then keep all others connected that are taken out of the connect.
    pub(super) fn close(
        &mut self,
        object: &ClusterNetworkConnect,
        selection: &Selection<'_>,
    ) -> Option<ConnectSubnetMap> {
        let selected = selection.networks.values().map(|network| network.owner_key()).collect();
        self.release_deselected(&selected, selection);
        let text = object.annotations().get(ConnectSubnetMap::ANNOTATION)?;
        let (annotated, _) = ConnectSubnetMap::parse(text).ok()?;
        let has_released = annotated.owners().any(|owner| !self.allocator.has(owner));
        if has_released {
            self.update_annotation();
        }
        self.annotation.clone().filter(|_| has_released)
    }

    /// Releases the subnets of networks that are not selected any more.
    ///
    /// A network whose definition is selected but cannot be read keeps its subnets. Otherwise it
    /// would come back with other addresses and keys, which interrupts connections.
    fn release_deselected(&mut self, selected: &BTreeSet<OwnerKey>, selection: &Selection<'_>) {
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

    /// Node ids with addresses and tunnel keys in the blocks of the layer3 networks. `None`: there
    /// are no layer3 networks.
    pub(super) fn node_capacity(&self) -> Option<NodeIdCapacity> {
        let networks = self.allocator.iter();
        let layer3 = networks.filter(|(owner, _)| owner.topology == Topology::Layer3);
        NodeIdCapacity::of(self.allocator.ranges(), layer3.map(|(_, subnets)| subnets))
    }

    /// The desired subnet annotation. `None`: no network has ever been connected.
    pub(super) const fn annotation(&self) -> Option<&ConnectSubnetMap> {
        self.annotation.as_ref()
    }

    /// Updates the annotation from the allocator if networks came or went, or one got another
    /// family.
    fn update_annotation(&mut self) {
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
            Topology::Layer3 => Self::Layer3 { network: name, owner: network.owner_key(), source },
            Topology::Layer2 | Topology::Vpc => Self::Layer2 { network: name, source },
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

/// Ranges of the families that the cluster runs.
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
                AllocatorError::Range { range: cidr.trunc(), connect: name.to_owned(), source }
            })
        })
        .collect()
}
