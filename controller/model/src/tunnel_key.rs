//! Tunnel keys of the ports on a connect router.
//!
//! Every zone computes the same key for the same port, without talking to the others, from what all of them know:
//! the connect range, the subnet of the network and the id of the node.
//!
//! A connect range is cut into blocks. Let *h* be the host bits of a block, *S* = 2^(h−1) the pairs of addresses
//! in it, *o* the distance of a block from the start of the range and *i* the pair inside of the block (the node id, or
//! where a layer2 network's `/31` or `/127` is). Keys are 15 bits wide and unique on the router, so:
//!
//! | blocks | key | fits for |
//! |---|---|---|
//! | 2^h ≤ 5000, o < 32768 | o + i + 1 | every pair: the keys o + 1 … o + S |
//! | 2^h ≤ 5000, 32768 ≤ o < 65536 | o − 32768 + S + i + 1 | every pair but the very last one |
//! | 2^h > 5000 (a stride of 5000 per block) | block number · 5000 + i + 1 | i ≤ 4999, as far as 15 bits reach |
//!
//! The second row is the *fold*: a block at *o* has 2·S addresses but only S pairs, so the keys o + S + 1 … o + 2·S stay
//! unused, and the block at o + 32768 takes them.

use ipnet::IpNet;
use thiserror::Error;

use super::connect_range::{ConnectRange, ConnectRanges};
use super::connect_subnets::ConnectSubnets;
use super::ids::{Attachment, TunnelKey};
use super::network::IpFamily;

/// Most pairs of a block that can have keys: no more nodes than this can be in a cluster.
const MAX_STRIDE: u128 = 5000;
/// Where the blocks start that use the keys which the lower blocks leave free.
const FOLD: u128 = 1 << 15;

/// Why a port has no tunnel key.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum TunnelKeyError {
    /// The network has no connect subnet at all.
    #[error("no connect subnet is allocated")]
    NoSubnet,
    /// The connect has no range of the family that the network's subnet has.
    #[error("no connect range for the {family} subnet {subnet}")]
    NoRange {
        /// The network's first subnet.
        subnet: IpNet,
        /// Its family.
        family: IpFamily,
    },
    /// The network's subnet does not come from the connect's range.
    #[error("subnet {subnet} is not inside of the connect range {range}")]
    Outside {
        /// The network's first subnet.
        subnet: IpNet,
        /// The range of its family.
        range: IpNet,
    },
    /// The 15 bits of a port key do not reach this far into the range.
    #[error(
        "subnet {subnet}, pair {pair}: no port tunnel key up to 32767 is left in the connect range {range}"
    )]
    OutOfKeys {
        /// The network's first subnet.
        subnet: IpNet,
        /// The pair: a node id, or the place of the subnet in its block.
        pair: u128,
        /// The range of the subnet's family.
        range: IpNet,
    },
}

/// The key of the port by which a network is attached to the connect router.
///
/// Only the network's first subnet counts: IPv4 if there is one.
///
/// # Errors
/// The port cannot have a key and must not be created.
pub fn port_tunnel_key(
    ranges: &ConnectRanges,
    subnets: &ConnectSubnets,
    attachment: Attachment,
) -> Result<TunnelKey, TunnelKeyError> {
    let subnet = subnets.first().ok_or(TunnelKeyError::NoSubnet)?;
    let family = IpFamily::of_net(subnet);
    let range = ranges
        .of(family)
        .ok_or(TunnelKeyError::NoRange { subnet, family })?;
    let offset = range
        .offset(subnet.network())
        .ok_or(TunnelKeyError::Outside {
            subnet,
            range: range.cidr(),
        })?;
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

/// The key of a pair of addresses of a block, if it has one.
fn pair_key(range: ConnectRange, block: u128, pair: u128) -> Option<TunnelKey> {
    let stride = 1_u128 << range.host_bits();
    let pairs = stride / 2;
    let start = if stride > MAX_STRIDE {
        (pair < MAX_STRIDE).then(|| block.saturating_mul(MAX_STRIDE))?
    } else {
        // Blocks lie inside of the address space, so the shift loses nothing.
        let offset = block << range.host_bits();
        match offset {
            0..FOLD => offset,
            _ if offset < 2 * FOLD => offset - FOLD + pairs,
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
    /// How many blocks from the start of the range on have at least one key: the blocks worth handing out.
    ///
    /// Keys run out towards the end of a range, so the blocks with keys are the first ones.
    pub fn usable_blocks(self) -> u32 {
        let blocks = 1_u128 << (self.network_prefix() - self.cidr().prefix_len());
        // 32768 blocks need as many keys, even with a single pair each.
        first_without(blocks.min(FOLD), |block| pair_key(self, block, 0).is_some())
    }

    /// How many pairs of a block, from its start on, have a key.
    pub fn usable_pairs(self, block: u32) -> u32 {
        let pairs = 1_u128 << (self.host_bits() - 1);
        first_without(pairs.min(FOLD), |pair| {
            pair_key(self, block.into(), pair).is_some()
        })
    }
}

/// The first number below `end` without the property, given that all numbers with it come first; `end` if all have it.
fn first_without(end: u128, has: impl Fn(u128) -> bool) -> u32 {
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
