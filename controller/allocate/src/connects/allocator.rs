//! Allocation of the connect subnets of one ClusterNetworkConnect from its ranges.

use std::collections::BTreeMap;

use ipnet::IpNet;
use thiserror::Error;

use patchbay_model::{
    ConnectRanges, ConnectSubnetMap, ConnectSubnets, IpFamily, OwnerKey, SubnetPool, Topology,
};

/// Error: all subnets are allocated.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("no subnets available")]
pub(super) struct NoSubnets;

/// Allocator of the connect subnets of one connect.
///
/// A layer3 network has a block of every family, and keeps it. Layer2 networks have address pairs
/// in shared blocks. A shared block is opened when all pairs of the others are allocated, and
/// released with its last pair.
///
/// Each allocation for a layer2 network uses the first block with a free pair. The network thus
/// moves when a pair becomes free in a block before its own, as in OVN-Kubernetes' network-connect
/// controller. Its former pair stays reserved until the network is released or no other pair is
/// free.
#[derive(Debug)]
pub(super) struct ConnectAllocator {
    ranges: ConnectRanges,
    blocks: BTreeMap<IpFamily, SubnetPool>,
    shared: Vec<SharedBlock>,
    owners: BTreeMap<OwnerKey, ConnectSubnets>,
    /// Pairs from which layer2 networks have moved.
    former: Vec<FormerPair>,
}

#[derive(Debug)]
struct FormerPair {
    owner: OwnerKey,
    pair: IpNet,
}

/// Block of every family with the pairs of layer2 networks.
#[derive(Debug, Default)]
struct SharedBlock {
    subnets: ConnectSubnets,
    pairs: BTreeMap<IpFamily, SubnetPool>,
}

impl ConnectAllocator {
    /// Makes an allocator without allocations.
    ///
    /// Tunnel keys of ports follow from the subnet of the first family, so its blocks and pairs are
    /// limited to those with keys. The blocks of the other family are allocated independently.
    pub(super) fn new(ranges: ConnectRanges) -> Self {
        let mut blocks = BTreeMap::new();
        for range in ranges.iter() {
            let (cidr, prefix) = (range.cidr(), range.network_prefix());
            let pool = if blocks.is_empty() {
                SubnetPool::with_first_places(cidr, prefix, range.usable_blocks().into())
            } else {
                SubnetPool::new(cidr, prefix)
            };
            blocks.insert(range.family(), pool);
        }
        Self { ranges, blocks, shared: Vec::new(), owners: BTreeMap::new(), former: Vec::new() }
    }

    /// Owners of subnets.
    pub(super) fn owners(&self) -> impl Iterator<Item = OwnerKey> {
        self.owners.keys().copied()
    }

    /// Owners with their subnets.
    pub(super) fn iter(&self) -> impl Iterator<Item = (OwnerKey, &ConnectSubnets)> {
        self.owners.iter().map(|(owner, subnets)| (*owner, subnets))
    }

    /// Subnets of one owner, as a map of one entry.
    pub(super) fn entry(&self, owner: OwnerKey) -> Option<ConnectSubnetMap> {
        let subnets = self.owners.get(&owner)?;
        Some(std::iter::once((owner, *subnets)).collect())
    }

    /// Ranges of the subnets.
    pub(super) const fn ranges(&self) -> &ConnectRanges {
        &self.ranges
    }

    /// Number of owners.
    pub(super) fn len(&self) -> usize {
        self.owners.len()
    }

    /// `true` if the owner has subnets.
    pub(super) fn has(&self, owner: OwnerKey) -> bool {
        self.owners.contains_key(&owner)
    }

    /// All allocated subnets, as in the annotation.
    pub(super) fn to_map(&self) -> ConnectSubnetMap {
        self.iter().map(|(owner, subnets)| (owner, *subnets)).collect()
    }

    /// Allocated subnets and number of former pairs. While they change, another allocation may
    /// succeed.
    pub(super) fn progress(&self) -> (ConnectSubnetMap, usize) {
        (self.to_map(), self.former.len())
    }

    /// Allocates a subnet of every family, or moves the pair of a layer2 network to an earlier
    /// block.
    ///
    /// # Errors
    /// A family has no free subnet. The owner keeps its earlier subnets.
    pub(super) fn allocate(&mut self, owner: OwnerKey) -> Result<(), NoSubnets> {
        let held = self.owners.get(&owner).copied().unwrap_or_default();
        let subnets = match self.complete(owner, held) {
            Err(NoSubnets) if !self.former.is_empty() => {
                self.release_former(|_| true);
                self.complete(owner, held)
            }
            result => result,
        }?;
        self.owners.insert(owner, subnets);
        for family in IpFamily::BOTH {
            self.move_to_earlier_block(owner, family);
        }
        Ok(())
    }

    /// Releases all subnets of an owner.
    pub(super) fn release(&mut self, owner: OwnerKey) {
        self.release_former(|former| former.owner == owner);
        if let Some(subnets) = self.owners.remove(&owner) {
            self.return_subnets(owner.topology, subnets.iter().collect());
        }
    }

    /// Allocates subnets of the families that `held` lacks.
    fn complete(
        &mut self,
        owner: OwnerKey,
        held: ConnectSubnets,
    ) -> Result<ConnectSubnets, NoSubnets> {
        let mut subnets = held;
        let families: Vec<IpFamily> = self.blocks.keys().copied().collect();
        for family in families {
            if subnets.of(family).is_some() {
                continue;
            }
            if let Some(subnet) = self.take(owner.topology, family) {
                subnets.set(subnet);
            } else {
                let taken = subnets.iter().filter(|net| !held.iter().any(|kept| kept == *net));
                self.return_subnets(owner.topology, taken.collect());
                return Err(NoSubnets);
            }
        }
        Ok(subnets)
    }

    /// Moves a layer2 network to a block before its own if that has a free pair.
    fn move_to_earlier_block(&mut self, owner: OwnerKey, family: IpFamily) {
        let Some(subnets) = self.owners.get_mut(&owner) else {
            return;
        };
        let (Topology::Layer2 | Topology::Vpc, Some(pair)) = (owner.topology, subnets.of(family))
        else {
            return;
        };
        let mut earlier = self
            .shared
            .iter_mut()
            .take_while(|block| !block.subnets.iter().any(|subnet| subnet.contains(&pair)));
        let found = earlier.find_map(|block| block.pairs.get_mut(&family)?.allocate());
        if let Some(better) = found {
            subnets.set(better);
            self.former.push(FormerPair { owner, pair });
        }
    }

    fn release_former(&mut self, which: impl Fn(&FormerPair) -> bool) {
        let (released, kept) = std::mem::take(&mut self.former).into_iter().partition(which);
        self.former = kept;
        let pairs: Vec<FormerPair> = released;
        self.return_subnets(
            Topology::Layer2,
            pairs.into_iter().map(|former| former.pair).collect(),
        );
    }

    /// Restores the subnets of an owner from the annotation. Returns `false` if a subnet is outside
    /// of the ranges, has no tunnel keys or has another owner; that subnet is skipped.
    pub(super) fn restore(&mut self, owner: OwnerKey, annotated: &ConnectSubnets) -> bool {
        let mut restored = ConnectSubnets::default();
        for subnet in annotated.iter() {
            let reserved = match owner.topology {
                Topology::Layer3 => self
                    .blocks
                    .get_mut(&IpFamily::of_net(subnet))
                    .is_some_and(|pool| pool.reserve(subnet)),
                Topology::Layer2 | Topology::Vpc => self.reserve_pair(subnet, &restored),
            };
            if reserved {
                restored.set(subnet);
            }
        }
        if !restored.is_empty() {
            self.owners.insert(owner, restored);
        }
        self.close_unused_blocks();
        self.sort_blocks();
        restored == *annotated
    }

    /// Sorts the shared blocks in the order of allocation, which usually is the order in which they
    /// were opened, so that networks move to the same blocks as before a restart.
    fn sort_blocks(&mut self) {
        let blocks = &self.blocks;
        self.shared.sort_by_key(|shared| {
            let mut numbers =
                blocks.iter().map(|(family, pool)| pool.number_of(shared.subnets.of(*family)?));
            numbers.find_map(|number| number)
        });
    }

    fn take(&mut self, topology: Topology, family: IpFamily) -> Option<IpNet> {
        match topology {
            Topology::Layer3 => self.blocks.get_mut(&family)?.allocate(),
            Topology::Layer2 | Topology::Vpc => {
                if let Some(pair) = self.take_pair(family) {
                    return Some(pair);
                }
                self.open_block()?;
                self.take_pair(family)
            }
        }
    }

    fn take_pair(&mut self, family: IpFamily) -> Option<IpNet> {
        self.shared.iter_mut().find_map(|block| block.pairs.get_mut(&family)?.allocate())
    }

    /// Opens a block of every family for layer2 networks.
    fn open_block(&mut self) -> Option<()> {
        let mut subnets = ConnectSubnets::default();
        for pool in self.blocks.values_mut() {
            if let Some(subnet) = pool.allocate() {
                subnets.set(subnet);
            } else {
                self.return_subnets(Topology::Layer3, subnets.iter().collect());
                return None;
            }
        }
        let pairs = subnets
            .iter()
            .filter_map(|subnet| Some((IpFamily::of_net(subnet), self.pairs_of(subnet)?)))
            .collect();
        self.shared.push(SharedBlock { subnets, pairs });
        Some(())
    }

    /// The pairs of a block.
    fn pairs_of(&self, block: IpNet) -> Option<SubnetPool> {
        let family = IpFamily::of_net(block);
        let range = self.ranges.of(family)?;
        let pair_prefix = block.max_prefix_len() - 1;
        let pool = if self.blocks.keys().next() == Some(&family) {
            SubnetPool::with_first_places(block, pair_prefix, range.usable_pairs_of(&block)?.into())
        } else {
            SubnetPool::with_count(block, pair_prefix, range.usable_pairs(0).into())
        };
        Some(pool)
    }

    fn return_subnets(&mut self, topology: Topology, subnets: Vec<IpNet>) {
        for subnet in subnets {
            let family = IpFamily::of_net(subnet);
            match topology {
                Topology::Layer3 => {
                    if let Some(pool) = self.blocks.get_mut(&family) {
                        pool.release(subnet);
                    }
                }
                Topology::Layer2 | Topology::Vpc => {
                    self.shared.iter_mut().any(|block| {
                        let pool = block.pairs.get_mut(&family);
                        pool.is_some_and(|pool| pool.release(subnet))
                    });
                }
            }
        }
        self.close_unused_blocks();
    }

    fn close_unused_blocks(&mut self) {
        let (unused, used) = std::mem::take(&mut self.shared)
            .into_iter()
            .partition(|block: &SharedBlock| block.pairs.values().all(SubnetPool::is_unused));
        self.shared = used;
        for block in unused {
            for subnet in block.subnets.iter() {
                if let Some(pool) = self.blocks.get_mut(&IpFamily::of_net(subnet)) {
                    pool.release(subnet);
                }
            }
        }
    }

    /// Allocates this pair and opens its block if necessary. `beside` contains the owner's subnet
    /// of the other family, because the blocks of both families belong together.
    fn reserve_pair(&mut self, pair: IpNet, beside: &ConnectSubnets) -> bool {
        let family = IpFamily::of_net(pair);
        let Some(block) =
            self.ranges.of(family).and_then(|range| enclosing(pair, range.network_prefix()))
        else {
            return false;
        };
        let open = |shared: &SharedBlock| shared.subnets.of(family) == Some(block);
        let at = if let Some(at) = self.shared.iter().position(open) {
            at
        } else {
            let Some(pairs) = self.pairs_of(block) else {
                return false;
            };
            if !self.blocks.get_mut(&family).is_some_and(|pool| pool.reserve(block)) {
                return false;
            }
            let at = self.block_to_extend(family, beside);
            self.shared[at].subnets.set(block);
            self.shared[at].pairs.insert(family, pairs);
            at
        };
        self.shared[at].pairs.get_mut(&family).is_some_and(|pool| pool.reserve(pair))
    }

    /// Index of the shared block that lacks this family and has the owner's other subnet, or of a
    /// new one.
    fn block_to_extend(&mut self, family: IpFamily, beside: &ConnectSubnets) -> usize {
        let holds_other = |shared: &SharedBlock| {
            shared.subnets.of(family).is_none()
                && beside
                    .iter()
                    .any(|other| shared.subnets.iter().any(|block| block.contains(&other)))
        };
        self.shared.iter().position(holds_other).unwrap_or_else(|| {
            self.shared.push(SharedBlock::default());
            self.shared.len() - 1
        })
    }
}

/// The subnet of this prefix length around a pair.
fn enclosing(pair: IpNet, prefix: u8) -> Option<IpNet> {
    IpNet::new(pair.network(), prefix).ok().map(|block| block.trunc())
}

#[cfg(test)]
mod tests;
