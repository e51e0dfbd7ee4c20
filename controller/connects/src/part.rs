//! Parts of a connect's rows. Each part is computed and compared on its own.

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use patchbay_model::{Attachment, NetworkId, NodeId};
use smol_str::SmolStr;

/// Attachment of a network to the connect router: the network and the node id (0 for a layer2
/// network).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct LinkId {
    pub(super) network: NetworkId,
    pub(super) index: u16,
}

impl LinkId {
    pub(super) const fn new(network: NetworkId, attachment: Attachment) -> Self {
        Self { network, index: attachment.index() }
    }

    pub(super) const fn layer3(network: NetworkId, node: NodeId) -> Self {
        Self::new(network, Attachment::Layer3(node))
    }
}

/// Part of the rows of all connects. Parts are ordered by the name of the connect, then by kind.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct ConnectPart {
    /// Name of the connect. A part of a row shares the name with the row.
    pub(super) connect: SmolStr,
    pub(super) part: Part,
}

impl Ord for ConnectPart {
    fn cmp(&self, other: &Self) -> Ordering {
        self.connect.cmp(&other.connect).then_with(|| self.part.cmp(&other.part))
    }
}

impl PartialOrd for ConnectPart {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl ConnectPart {
    pub(super) fn new(connect: &SmolStr, part: Part) -> Self {
        Self { connect: connect.clone(), part }
    }

    /// All parts of a connect from one to another.
    pub(super) fn range(connect: &SmolStr, parts: RangeInclusive<Part>) -> RangeInclusive<Self> {
        let (first, last) = parts.into_inner();
        Self::new(connect, first)..=Self::new(connect, last)
    }
}

/// Part of a connect's rows. The external ids of a row identify its part.
///
/// Parts are ordered by variant, then by id.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Part {
    /// Connect router.
    Router,
    /// Ports and routes of one attachment.
    Link(LinkId),
    /// Policies on the source network's router that send traffic to the destination.
    Policies { source: NetworkId, destination: NetworkId },
    /// Load balancer group.
    Services,
    /// ACLs and address sets.
    Isolation,
    /// Rows owned by the connect whose external ids identify no other part. They are removed.
    Stray,
    /// Report of the connect without its links. It has no rows.
    Summary,
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
    /// Position in the order of all parts, as one number, because parts are compared often.
    fn sort_key(self) -> u64 {
        let (kind, high, low) = match self {
            Self::Router => (0, 0, 0),
            Self::Link(LinkId { network, index }) => (1, network.get(), index),
            Self::Policies { source, destination } => (2, source.get(), destination.get()),
            Self::Services => (3, 0, 0),
            Self::Isolation => (4, 0, 0),
            Self::Stray => (5, 0, 0),
            Self::Summary => (6, 0, 0),
        };
        kind << 32 | u64::from(high) << 16 | u64::from(low)
    }

    /// Range of all possible links.
    pub(super) fn all_links() -> RangeInclusive<Self> {
        let (first, _) = Self::links_of(NetworkId::DEFAULT).into_inner();
        let (_, last) = Self::links_of(NetworkId::MAX).into_inner();
        first..=last
    }

    /// Range of all possible links of a network.
    pub(super) fn links_of(network: NetworkId) -> RangeInclusive<Self> {
        let link = |index| Self::Link(LinkId { network, index });
        link(0)..=link(u16::MAX)
    }
}
