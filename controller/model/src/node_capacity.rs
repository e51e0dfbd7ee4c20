//! Node ids for which a connect has addresses and tunnel keys.

use super::connect_range::{ConnectRange, ConnectRanges};
use super::connect_subnets::ConnectSubnets;
use super::ids::NodeId;
use super::network::IpFamily;

/// First id of a node: OVN-Kubernetes reserves lower ids.
pub const FIRST_NODE_ID: u16 = 2;

/// Node ids with addresses and tunnel keys in the blocks of all layer3 networks of a connect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NodeIdCapacity {
    /// Upper bound of the ids, exclusive.
    below: u64,
}

impl NodeIdCapacity {
    /// Capacity of the blocks that these layer3 networks have. `None`: there is no such network.
    pub fn of<'a>(
        ranges: &ConnectRanges,
        layer3: impl IntoIterator<Item = &'a ConnectSubnets>,
    ) -> Option<Self> {
        let bits = ranges.iter().map(ConnectRange::host_bits).min()?;
        let addresses = 1_u64.checked_shl(u32::from(bits) - 1);
        // Keys follow from the first subnet.
        let blocks = layer3.into_iter().filter_map(|subnets| subnets.iter().next());
        let keys = blocks.filter_map(|block| {
            let range = ranges.of(IpFamily::of_net(block))?;
            range.usable_pairs_of(&block)
        });
        Some(Self { below: u64::from(keys.min()?).min(addresses.unwrap_or(u64::MAX)) })
    }

    /// The highest id.
    pub const fn last(self) -> u64 {
        self.below.saturating_sub(1)
    }

    /// Number of ids that nodes can have.
    pub fn total(self) -> u64 {
        self.below.saturating_sub(FIRST_NODE_ID.into())
    }

    /// Number of ids above the highest one that a node has.
    pub fn left(self, highest: NodeId) -> u64 {
        self.below.saturating_sub(u64::from(highest.get()) + 1)
    }

    /// `true` if at most a tenth of the ids is left.
    pub fn is_short(self, highest: NodeId) -> bool {
        self.left(highest) <= self.below / 10
    }

    /// The capacity in words.
    ///
    /// ```
    /// use patchbay_model::{ConnectRange, ConnectRanges, ConnectSubnetMap, NodeId, NodeIdCapacity};
    ///
    /// let cidr = ConnectRange::parse_cidr("192.168.0.0/16")?;
    /// let ranges: ConnectRanges = [ConnectRange::try_new(cidr, 20)?].into_iter().collect();
    /// let (subnets, _) = ConnectSubnetMap::parse(r#"{"layer3_1": {"ipv4": "192.168.0.0/20"}}"#)?;
    /// let subnets = subnets.iter().map(|(_, subnets)| subnets);
    /// let capacity = NodeIdCapacity::of(&ranges, subnets).ok_or("no network")?;
    /// assert_eq!(capacity.describe(NodeId::try_new(2045)?), "2 of 2,046 node ids left");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn describe(self, highest: NodeId) -> String {
        let (left, total) = (grouped(self.left(highest)), grouped(self.total()));
        format!("{left} of {total} node ids left")
    }
}

/// A number with commas between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
