//! What a connect's rows in a zone are made of: parts that can be computed and compared on their own.

use std::cmp::Ordering;

use patchbay_model::{Attachment, NetworkId, NodeId};

/// Where a network is attached to the connect router: the network, and the id of the node (0 for a layer2 network).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct LinkId {
    pub(super) network: NetworkId,
    pub(super) index: u16,
}

impl LinkId {
    pub(super) const fn new(network: NetworkId, attachment: Attachment) -> Self {
        Self {
            network,
            index: attachment.index(),
        }
    }

    pub(super) const fn layer3(network: NetworkId, node: NodeId) -> Self {
        Self::new(network, Attachment::Layer3(node))
    }
}

/// A part of a connect's rows. Which part a row belongs to is seen in its external ids.
///
/// Parts are in the order in which they stand here, those of one kind in the order of their ids.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Part {
    /// The connect router itself.
    Router,
    /// The ports and routes of one attachment.
    Link(LinkId),
    /// What sends traffic from one network to another, on the router of the first.
    Policies {
        source: NetworkId,
        destination: NetworkId,
    },
    /// The load balancer group.
    Services,
    /// ACLs and address sets.
    Isolation,
    /// Rows that say that they are the connect's, but not what they are for: nothing is.
    Stray,
}

impl Ord for Part {
    fn cmp(&self, other: &Self) -> Ordering {
        self.sort_key().cmp(&other.sort_key())
    }
}

impl PartialOrd for Part {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Part {
    /// Its place in the order of all parts, as one number: there are many of them, which are compared often.
    fn sort_key(self) -> u64 {
        let (kind, high, low) = match self {
            Self::Router => (0, 0, 0),
            Self::Link(LinkId { network, index }) => (1, network.get(), index),
            Self::Policies {
                source,
                destination,
            } => (2, source.get(), destination.get()),
            Self::Services => (3, 0, 0),
            Self::Isolation => (4, 0, 0),
            Self::Stray => (5, 0, 0),
        };
        kind << 32 | u64::from(high) << 16 | u64::from(low)
    }

    /// All possible links of a network.
    pub(super) fn links_of(network: NetworkId) -> std::ops::RangeInclusive<Self> {
        let link = |index| Self::Link(LinkId { network, index });
        link(0)..=link(u16::MAX)
    }

    /// All possible policies of a source.
    pub(super) fn policies_from(source: NetworkId) -> std::ops::RangeInclusive<Self> {
        let policies = |destination| Self::Policies {
            source,
            destination,
        };
        policies(NetworkId::DEFAULT)..=policies(NetworkId::MAX)
    }
}
