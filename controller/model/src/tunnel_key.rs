//! Tunnel keys of the ports on a connect router.
//!
//! Every zone computes the same key for the same port, without communication, from the connect
//! range, the connect subnet of the network and the id of the node.
//!
//! A connect range is divided into blocks. A block has *h* host bits and *S* = 2^(h−1) address
//! pairs, and begins at the distance *o* from the start of the range. Its pair *i* is that of the
//! node id *i*, or the place of a layer2 network's `/31` or `/127`. Keys have 15 bits and are
//! unique on the router, so:
//!
//! | blocks | key | pairs with a key |
//! |---|---|---|
//! | 2^h ≤ 5000, o < 32768 | o + i + 1 | all: the keys o + 1 … o + S |
//! | 2^h ≤ 5000, 32768 ≤ o < 65536 | o − 32768 + S + i + 1 | all but the last pair of the last block |
//! | 2^h > 5000 (a stride of 5000 per block) | block number · 5000 + i + 1 | i ≤ 4999, if the key has at most 15 bits |
//!
//! The second row is the *fold*: a block at *o* has 2·S addresses but only S pairs. The keys
//! o + S + 1 … o + 2·S are therefore free, and the block at o + 32768 uses them.

use ipnet::IpNet;
use thiserror::Error;

use super::connect_range::{ConnectRange, ConnectRanges};
use super::connect_subnets::ConnectSubnets;
use super::ids::{Attachment, TunnelKey};
use super::network::IpFamily;

/// Number of pairs of a block that have keys: the number of nodes that a cluster can have.
const MAX_PAIRS_WITH_KEYS: u128 = 5000;
/// Distance from the start of the range, in addresses, from which blocks use the keys that lower
/// blocks leave free. It is 2^15, because keys have 15 bits.
const FOLD_OFFSET: u128 = 1 << 15;

/// Reason why a port has no tunnel key.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum TunnelKeyError {
    /// The network has no connect subnet.
    #[error("no connect subnet is allocated")]
    NoSubnet,
    /// The connect has no range of the family that the network's subnet has.
    #[error("no connect range for the {family} subnet {subnet}")]
    NoRange {
        /// The network's first subnet.
        subnet: IpNet,
        /// Family of the subnet.
        family: IpFamily,
    },
    /// The network's subnet is outside of the connect's range.
    #[error("subnet {subnet} is not inside of the connect range {range}")]
    Outside {
        /// The network's first subnet.
        subnet: IpNet,
        /// The range of the subnet's family.
        range: IpNet,
    },
    /// The key would have more than 15 bits.
    #[error(
        "subnet {subnet}, pair {pair}: no port tunnel key up to 32767 is left in the connect range {range}"
    )]
    OutOfKeys {
        /// The network's first subnet.
        subnet: IpNet,
        /// Number of the pair: a node id, or the place of the subnet in its block.
        pair: u128,
        /// The range of the subnet's family.
        range: IpNet,
    },
}

/// Computes the key of a network's port on the connect router.
///
/// Only the network's first subnet is used: IPv4 if there is one.
///
/// # Errors
/// [`TunnelKeyError`]: the port cannot have a key and must not be created.
pub fn port_tunnel_key(
    ranges: &ConnectRanges,
    subnets: &ConnectSubnets,
    attachment: Attachment,
) -> Result<TunnelKey, TunnelKeyError> {
    let subnet = subnets.first().ok_or(TunnelKeyError::NoSubnet)?;
    let family = IpFamily::of_net(subnet);
    let range = ranges.of(family).ok_or(TunnelKeyError::NoRange { subnet, family })?;
    let offset = range
        .offset(subnet.network())
        .ok_or(TunnelKeyError::Outside { subnet, range: range.cidr() })?;
    let block = offset >> range.host_bits();
    let pair = match attachment {
        Attachment::Layer3(node) => u128::from(node.get()),
        Attachment::Layer2 => (offset - (block << range.host_bits())) / 2,
    };
    pair_key(range, block, pair).ok_or(TunnelKeyError::OutOfKeys {
        subnet,
        pair,
        range: range.cidr(),
    })
}

/// Computes the key of an address pair of a block. `None`: the pair has no key.
fn pair_key(range: ConnectRange, block: u128, pair: u128) -> Option<TunnelKey> {
    let stride = 1_u128 << range.host_bits();
    let pairs = stride / 2;
    let start = if stride > MAX_PAIRS_WITH_KEYS {
        (pair < MAX_PAIRS_WITH_KEYS).then(|| block.saturating_mul(MAX_PAIRS_WITH_KEYS))?
    } else {
        // The block is in the address space, so the shift does not overflow.
        let offset = block << range.host_bits();
        match offset {
            0..FOLD_OFFSET => offset,
            _ if offset < 2 * FOLD_OFFSET => offset - FOLD_OFFSET + pairs,
            _ => return None,
        }
    };
    if pair >= pairs {
        return None;
    }
    let key = start.checked_add(pair)?.checked_add(1)?;
    TunnelKey::try_new(i64::try_from(key).ok()?).ok()
}

impl ConnectRange {
    /// Number of blocks with at least one key. They are the first blocks of the range, and only
    /// they are allocated.
    pub fn usable_blocks(self) -> u32 {
        let blocks = 1_u128 << (self.network_prefix() - self.cidr().prefix_len());
        // Each block with a key has at least one of the 32767 keys for itself.
        count_leading(blocks.min(FOLD_OFFSET), |block| pair_key(self, block, 0).is_some())
    }

    /// Number of pairs of a block that have a key. They are the first pairs of the block.
    pub fn usable_pairs(self, block: u32) -> u32 {
        let pairs = 1_u128 << (self.host_bits() - 1);
        count_leading(pairs.min(FOLD_OFFSET), |pair| pair_key(self, block.into(), pair).is_some())
    }

    /// [`usable_pairs`](Self::usable_pairs) of the block with this subnet. `None`: the subnet is
    /// outside of the range.
    pub fn usable_pairs_of(self, subnet: &IpNet) -> Option<u32> {
        let offset = self.offset(subnet.network())?;
        let number = u32::try_from(offset >> self.host_bits()).ok()?;
        Some(self.usable_pairs(number))
    }
}

/// Counts the numbers below `end` that have a property, if they come before all others.
fn count_leading(end: u128, has: impl Fn(u128) -> bool) -> u32 {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = u128::midpoint(low, high);
        if has(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low as u32
}

#[cfg(test)]
mod tests;
