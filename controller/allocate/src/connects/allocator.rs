//! Connect subnets: what the networks of one connect get out of its ranges.

use std::collections::BTreeMap;

use ipnet::IpNet;
use thiserror::Error;

use patchbay_model::{
    ConnectRange, ConnectRanges, ConnectSubnetMap, ConnectSubnets, IpFamily, OwnerKey, SubnetPool,
    Topology,
};

/// Everything is handed out.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("no subnets available")]
pub(super) struct NoSubnets;

/// Hands out the connect subnets of one connect.
///
/// A layer3 network gets a block of every family, and keeps it. Layer2 networks get pairs of addresses out of blocks they
/// share; a new block is opened only when all pairs of the open ones are taken, and is given back with its last pair.
///
/// A layer2 network that asks again gets a pair of the first block that has one for it. It thus moves when a pair becomes
/// free in a block before its own: networks gather in the blocks that were opened first, as they do with the controller
/// that this one takes the place of. The pair it came from stays its own until it is released or somebody needs it.
#[derive(Debug)]
pub(super) struct ConnectAllocator {
    ranges: ConnectRanges,
    blocks: BTreeMap<IpFamily, SubnetPool>,
    shared: Vec<SharedBlock>,
    owners: BTreeMap<OwnerKey, ConnectSubnets>,
    /// The pairs that layer2 networks moved away from.
    left: Vec<LeftPair>,
}

#[derive(Debug)]
struct LeftPair {
    owner: OwnerKey,
    pair: IpNet,
}

/// A block of every family, out of which layer2 networks get pairs.
#[derive(Debug, Default)]
struct SharedBlock {
    subnets: ConnectSubnets,
    pairs: BTreeMap<IpFamily, SubnetPool>,
}

impl ConnectAllocator {
    /// An allocator with everything still to be handed out.
    ///
    /// Ports take their tunnel keys from the first family. Its blocks and pairs are limited to those for which there are
    /// keys. The blocks of the other family are numbered for themselves: who has given one back gets the next one, although
    /// the first family may have begun anew.
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
        Self {
            ranges,
            blocks,
            shared: Vec::new(),
            owners: BTreeMap::new(),
            left: Vec::new(),
        }
    }

    /// What has been handed out.
    pub(super) fn owners(&self) -> impl Iterator<Item = OwnerKey> {
        self.owners.keys().copied()
    }

    /// Owners and what they have.
    pub(super) fn iter(&self) -> impl Iterator<Item = (OwnerKey, &ConnectSubnets)> {
        self.owners.iter().map(|(owner, subnets)| (*owner, subnets))
    }

    /// What one owner has, by itself.
    pub(super) fn entry(&self, owner: OwnerKey) -> Option<ConnectSubnetMap> {
        let subnets = self.owners.get(&owner)?;
        Some(std::iter::once((owner, *subnets)).collect())
    }

    /// What subnets are taken from.
    pub(super) const fn ranges(&self) -> &ConnectRanges {
        &self.ranges
    }

    /// How many owners have something.
    pub(super) fn len(&self) -> usize {
        self.owners.len()
    }

    /// Whether the owner has anything.
    pub(super) fn has(&self, owner: OwnerKey) -> bool {
        self.owners.contains_key(&owner)
    }

    /// Everything that has been handed out, as the annotation has it.
    pub(super) fn to_map(&self) -> ConnectSubnetMap {
        self.iter()
            .map(|(owner, subnets)| (owner, *subnets))
            .collect()
    }

    /// What has been handed out and how many pairs have been left: as long as this changes, asking again may help.
    pub(super) fn progress(&self) -> (ConnectSubnetMap, usize) {
        (self.to_map(), self.left.len())
    }

    /// Gives the owner a subnet of every family: what it has, or for a layer2 network a pair of an earlier block.
    ///
    /// # Errors
    /// A family has nothing left. Then the owner has what it had before.
    pub(super) fn allocate(&mut self, owner: OwnerKey) -> Result<(), NoSubnets> {
        let held = self.owners.get(&owner).copied().unwrap_or_default();
        let subnets = match self.complete(owner, held) {
            Err(NoSubnets) if !self.left.is_empty() => {
                self.give_back_left(|_| true);
                self.complete(owner, held)
            }
            result => result,
        }?;
        self.owners.insert(owner, subnets);
        for family in IpFamily::BOTH {
            self.gather(owner, family);
        }
        Ok(())
    }

    /// Takes back everything the owner has.
    pub(super) fn release(&mut self, owner: OwnerKey) {
        self.give_back_left(|left| left.owner == owner);
        if let Some(subnets) = self.owners.remove(&owner) {
            self.give_back(owner.topology, subnets.iter().collect());
        }
    }

    /// Adds the families that `held` lacks.
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
                let taken = subnets
                    .iter()
                    .filter(|net| !held.iter().any(|kept| kept == *net));
                self.give_back(owner.topology, taken.collect());
                return Err(NoSubnets);
            }
        }
        Ok(subnets)
    }

    /// Moves a layer2 network to a block before its own if one has a pair.
    fn gather(&mut self, owner: OwnerKey, family: IpFamily) {
        let Some(subnets) = self.owners.get_mut(&owner) else {
            return;
        };
        let (Topology::Layer2, Some(pair)) = (owner.topology, subnets.of(family)) else {
            return;
        };
        let mut earlier = self
            .shared
            .iter_mut()
            .take_while(|block| !block.subnets.iter().any(|subnet| subnet.contains(&pair)));
        let found = earlier.find_map(|block| block.pairs.get_mut(&family)?.allocate());
        if let Some(better) = found {
            subnets.set(better);
            self.left.push(LeftPair { owner, pair });
        }
    }

    fn give_back_left(&mut self, which: impl Fn(&LeftPair) -> bool) {
        let (given_back, kept) = std::mem::take(&mut self.left).into_iter().partition(which);
        self.left = kept;
        let pairs: Vec<LeftPair> = given_back;
        self.give_back(
            Topology::Layer2,
            pairs.into_iter().map(|left| left.pair).collect(),
        );
    }

    /// Gives the owner what it had before, according to an annotation. False if some of it does not come from the ranges,
    /// cannot have tunnel keys or belongs to somebody else: that part is left out.
    pub(super) fn restore(&mut self, owner: OwnerKey, annotated: &ConnectSubnets) -> bool {
        let mut restored = ConnectSubnets::default();
        for subnet in annotated.iter() {
            let reserved = match owner.topology {
                Topology::Layer3 => self
                    .blocks
                    .get_mut(&IpFamily::of_net(subnet))
                    .is_some_and(|pool| pool.reserve(subnet)),
                Topology::Layer2 => self.reserve_pair(subnet, &restored),
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

    /// Puts the shared blocks into the order in which they are handed out, which mostly is the one in which they were
    /// opened: networks then gather in the same blocks as before a restart.
    fn sort_blocks(&mut self) {
        let blocks = &self.blocks;
        self.shared.sort_by_key(|shared| {
            let mut numbers = blocks
                .iter()
                .map(|(family, pool)| pool.number_of(shared.subnets.of(*family)?));
            numbers.find_map(|number| number)
        });
    }

    fn take(&mut self, topology: Topology, family: IpFamily) -> Option<IpNet> {
        match topology {
            Topology::Layer3 => self.blocks.get_mut(&family)?.allocate(),
            Topology::Layer2 => {
                if let Some(pair) = self.take_pair(family) {
                    return Some(pair);
                }
                self.open_block()?;
                self.take_pair(family)
            }
        }
    }

    fn take_pair(&mut self, family: IpFamily) -> Option<IpNet> {
        self.shared
            .iter_mut()
            .find_map(|block| block.pairs.get_mut(&family)?.allocate())
    }

    /// Opens a block of every family for layer2 networks.
    fn open_block(&mut self) -> Option<()> {
        let mut subnets = ConnectSubnets::default();
        for pool in self.blocks.values_mut() {
            if let Some(subnet) = pool.allocate() {
                subnets.set(subnet);
            } else {
                self.give_back(Topology::Layer3, subnets.iter().collect());
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
            SubnetPool::with_first_places(block, pair_prefix, usable_pairs(range, block)?.into())
        } else {
            SubnetPool::with_count(block, pair_prefix, range.usable_pairs(0).into())
        };
        Some(pool)
    }

    fn give_back(&mut self, topology: Topology, subnets: Vec<IpNet>) {
        for subnet in subnets {
            let family = IpFamily::of_net(subnet);
            match topology {
                Topology::Layer3 => {
                    if let Some(pool) = self.blocks.get_mut(&family) {
                        pool.release(subnet);
                    }
                }
                Topology::Layer2 => {
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

    /// Takes this very pair, opening the block around it if need be. `beside` is what the pair's owner has of the
    /// other family: the blocks of both families are kept together.
    fn reserve_pair(&mut self, pair: IpNet, beside: &ConnectSubnets) -> bool {
        let family = IpFamily::of_net(pair);
        let Some(block) = self
            .ranges
            .of(family)
            .and_then(|range| enclosing(pair, range.network_prefix()))
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
            if !self
                .blocks
                .get_mut(&family)
                .is_some_and(|pool| pool.reserve(block))
            {
                return false;
            }
            let at = self.block_to_extend(family, beside);
            self.shared[at].subnets.set(block);
            self.shared[at].pairs.insert(family, pairs);
            at
        };
        self.shared[at]
            .pairs
            .get_mut(&family)
            .is_some_and(|pool| pool.reserve(pair))
    }

    /// The shared block that lacks this family and has the owner's other subnet; or else a new one.
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
    IpNet::new(pair.network(), prefix)
        .ok()
        .map(|block| block.trunc())
}

/// How many pairs of the block can have tunnel keys.
pub(super) fn usable_pairs(range: ConnectRange, block: IpNet) -> Option<u32> {
    let offset = range.offset(block.network())?;
    let number = u32::try_from(offset >> range.host_bits()).ok()?;
    Some(range.usable_pairs(number))
}

#[cfg(test)]
mod tests;
