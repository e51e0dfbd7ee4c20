//! Ids and tunnel keys with their ranges, and the key of a network in the subnet annotation.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

use thiserror::Error;

/// Error of a number or text that is not a valid id.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum IdError {
    /// The text is not a decimal number.
    #[error("{what} {text:?} is not a number")]
    NotANumber {
        /// Name of the id.
        what: &'static str,
        /// The text.
        text: String,
    },
    /// The number is outside its range.
    #[error("{what} {value} is not in {min}..={max}")]
    OutOfRange {
        /// Name of the id.
        what: &'static str,
        /// The number.
        value: i64,
        /// Smallest valid value.
        min: i64,
        /// Largest valid value.
        max: i64,
    },
    /// The text is not `layer3_<id>`, `layer2_<id>` or `vpc_<id>`.
    #[error("owner key {0:?} is not layer3_<id>, layer2_<id> or vpc_<id>")]
    OwnerKey(String),
}

fn parse(what: &'static str, text: &str) -> Result<i64, IdError> {
    text.parse().map_err(|_| IdError::NotANumber { what, text: text.to_owned() })
}

fn check(what: &'static str, value: i64, min: i64, max: i64) -> Result<i64, IdError> {
    if (min..=max).contains(&value) {
        Ok(value)
    } else {
        Err(IdError::OutOfRange { what, value, min, max })
    }
}

/// Implements a checked number: conversion from `i64` and from text; `Display` prints the number.
macro_rules! checked_id {
    ($name:ident, $what:literal, $min:expr, $max:expr, $repr:ty) => {
        impl $name {
            /// Makes an id of a number in its range.
            ///
            /// # Errors
            /// [`IdError::OutOfRange`].
            pub fn try_new(value: i64) -> Result<Self, IdError> {
                // The range check makes the conversion exact.
                check($what, value, $min, $max).map(|checked| Self(checked as $repr))
            }

            /// The number.
            pub const fn get(self) -> $repr {
                self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                parse($what, text).and_then(Self::try_new)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }
    };
}

/// Id of a network in the cluster: `0..=4095`; 0 is the default network.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NetworkId(u16);
checked_id!(NetworkId, "network id", 0, 4095, u16);

impl NetworkId {
    /// The cluster's default network.
    pub const DEFAULT: Self = Self(0);
    /// Largest valid id.
    pub const MAX: Self = Self(4095);
}

/// Id of a node in the cluster: `0..=5000`. The cluster manager allocates ids from 2.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NodeId(u16);
checked_id!(NodeId, "node id", 0, 5000, u16);

impl NodeId {
    /// Largest valid id.
    pub const MAX: Self = Self(5000);
}

/// Tunnel key of a datapath (a router or a switch): 24 bits, `1..=16_777_215`.
///
/// Connect routers have keys in [`DatapathKey::ALLOCATABLE`].
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DatapathKey(u32);
checked_id!(DatapathKey, "datapath tunnel key", 1, 0xff_ffff, u32);

impl DatapathKey {
    /// Key of network id 0. Network id `n` has the key `FIRST_OF_NETWORKS + n`.
    pub const FIRST_OF_NETWORKS: Self = Self(16_711_683);
    /// Keys that are allocated one by one, after the 4096 keys that are derived from network ids.
    pub const ALLOCATABLE: std::ops::RangeInclusive<Self> = Self(16_715_779)..=Self(0xff_ffff);

    /// Key that is derived from the id of a network.
    pub const fn of_network(id: NetworkId) -> Self {
        Self(Self::FIRST_OF_NETWORKS.0 + id.0 as u32)
    }
}

/// Tunnel key of a port, unique on its router: 15 bits, `1..=32_767`.
///
/// Keys of datapaths have 24 bits and their own type, [`DatapathKey`].
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TunnelKey(NonZeroU16);

impl TunnelKey {
    /// Largest key that the Southbound database accepts for a router port.
    pub const MAX: Self = Self(NonZeroU16::new(32_767).expect("not zero"));

    /// Makes an id of a number in its range.
    ///
    /// # Errors
    /// [`IdError::OutOfRange`].
    pub fn try_new(value: i64) -> Result<Self, IdError> {
        match u16::try_from(value).ok().and_then(NonZeroU16::new) {
            Some(key) if key <= Self::MAX.0 => Ok(Self(key)),
            _ => Err(IdError::OutOfRange {
                what: "port tunnel key",
                value,
                min: 1,
                max: i64::from(Self::MAX.get()),
            }),
        }
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

impl fmt::Display for TunnelKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Topology of a network that can be connected.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Topology {
    /// One switch for all nodes, behind one distributed transit router.
    Layer2,
    /// One switch per node, behind one cluster router per zone.
    Layer3,
    /// Subnets of a VPC of Kube-OVN, each with a switch, behind the router of the VPC.
    Vpc,
}

impl Topology {
    /// The word in CNI configurations and owner keys.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Layer2 => "layer2",
            Self::Layer3 => "layer3",
            Self::Vpc => "vpc",
        }
    }

    /// All topologies, in the order of their words.
    pub const ALL: [Self; 3] = [Self::Layer2, Self::Layer3, Self::Vpc];
}

impl fmt::Display for Topology {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Key of a network in the subnet annotation: `layer3_<id>`, `layer2_<id>` or `vpc_<id>`.
///
/// Keys are ordered as their texts, because the annotation has sorted keys.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct OwnerKey {
    /// Topology of the network.
    pub topology: Topology,
    /// Id of the network.
    pub network_id: NetworkId,
}

impl Ord for OwnerKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.topology
            .cmp(&other.topology)
            .then_with(|| cmp_as_text(self.network_id.0, other.network_id.0))
    }
}

impl PartialOrd for OwnerKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares the decimal texts of two numbers: 10 comes before 2.
fn cmp_as_text(left: u16, right: u16) -> std::cmp::Ordering {
    let aligned = |number: u16| {
        let digits = number.checked_ilog10().unwrap_or(0) + 1;
        // A u16 has at most five digits. Of equal aligned numbers the shorter text is a prefix.
        (u64::from(number) * 10_u64.pow(5 - digits), digits)
    };
    aligned(left).cmp(&aligned(right))
}

impl fmt::Display for OwnerKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}_{}", self.topology, self.network_id)
    }
}

impl FromStr for OwnerKey {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let invalid = || IdError::OwnerKey(text.to_owned());
        let (topology, id) = text.split_once('_').ok_or_else(invalid)?;
        let topology = match topology {
            "layer2" => Topology::Layer2,
            "layer3" => Topology::Layer3,
            "vpc" => Topology::Vpc,
            _ => return Err(invalid()),
        };
        let network_id: NetworkId = id.parse()?;
        let key = Self { topology, network_id };
        // `layer3_007` and `layer3_+7` would be other texts of `layer3_7`.
        if key.to_string() == text { Ok(key) } else { Err(invalid()) }
    }
}

/// Attachment of a network to a connect router. A layer3 network has one for each node, a layer2
/// network or a VPC has one.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Attachment {
    /// The only port of a layer2 network or of a VPC.
    Layer2,
    /// Port of a layer3 network for this node.
    Layer3(NodeId),
}

impl Attachment {
    /// Number of the attachment's address pair in the network's connect subnet.
    pub const fn index(self) -> u16 {
        match self {
            Self::Layer2 => 0,
            Self::Layer3(node) => node.get(),
        }
    }

    /// Topology of the network.
    pub const fn topology(self) -> Topology {
        match self {
            Self::Layer2 => Topology::Layer2,
            Self::Layer3(_) => Topology::Layer3,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_outside_of_their_range_are_errors() {
        assert!(NetworkId::try_new(4095).is_ok());
        assert!(NetworkId::try_new(4096).is_err());
        assert!(NetworkId::try_new(-2).is_err());
        assert!(NodeId::try_new(5000).is_ok());
        assert!(NodeId::try_new(5001).is_err());
        assert!(TunnelKey::try_new(0).is_err());
        assert!(TunnelKey::try_new(32_767).is_ok());
        assert!(TunnelKey::try_new(32_768).is_err());
        assert!(DatapathKey::try_new(0x0100_0000).is_err());
        assert_eq!(DatapathKey::of_network(NetworkId::try_new(11).unwrap()).get(), 16_711_694);
        assert_eq!(
            "seven".parse::<NodeId>().unwrap_err().to_string(),
            "node id \"seven\" is not a number"
        );
        assert_eq!(
            "9999".parse::<NodeId>().unwrap_err().to_string(),
            "node id 9999 is not in 0..=5000"
        );
    }

    #[test]
    fn an_owner_key_has_one_text() {
        let key: OwnerKey = "layer3_7".parse().unwrap();
        assert_eq!(key.topology, Topology::Layer3);
        assert_eq!(key.to_string(), "layer3_7");
        for bad in ["layer3_007", "layer3_+7", "layer1_7", "layer3", "layer2_9999", ""] {
            assert!(bad.parse::<OwnerKey>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn owner_keys_sort_as_their_text(left in 0_i64..4096, right in 0_i64..4096, topologies: (bool, bool)) {
            let key = |layer3, id| OwnerKey {
                topology: if layer3 { Topology::Layer3 } else { Topology::Layer2 },
                network_id: NetworkId::try_new(id).unwrap(),
            };
            let (left, right) = (key(topologies.0, left), key(topologies.1, right));
            prop_assert_eq!(left.cmp(&right), left.to_string().cmp(&right.to_string()));
        }
    }
}
