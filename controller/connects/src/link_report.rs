//! Outcome of a link between a connect router and a network.

use super::report::NodeSkip;

/// Outcome of a link that should be there.
#[derive(Debug, PartialEq)]
pub(super) enum LinkReport {
    /// The link has its ports, and routes.
    Made { is_local: bool, routes: u16 },
    /// The link has its ports and no route.
    Unrouted { is_local: bool, skip: Box<LinkSkip> },
    /// The link has no rows.
    Skipped(Box<LinkSkip>),
}

/// Reason why a link is not made, or not as a whole.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LinkSkip {
    /// Name of the node. `None`: the single link of a layer2 network.
    pub(super) node: Option<String>,
    pub(super) reason: NodeSkip,
}

impl LinkReport {
    /// `true` if the link has its ports.
    pub(super) fn has_ports(&self) -> bool {
        !matches!(self, Self::Skipped(_))
    }
}
