//! Networks and nodes once they have their ids.

use std::collections::BTreeSet;

use patchbay_model::Networks;
use patchbay_resources::manifests::Problem;

use super::nodes::NodeIds;

/// Networks with their ids, as all later steps of a pass read them, and ids of nodes.
#[derive(Debug)]
pub struct NumberedNetworks {
    /// Networks of the attachment definitions.
    pub networks: Networks,
    /// Ids of the nodes.
    pub node_ids: NodeIds,
    /// Networks whose definitions are refused.
    pub(super) refused: BTreeSet<String>,
    /// Networks that have left all their namespaces in this pass.
    pub(super) left: BTreeSet<String>,
    /// Annotations that cannot be read or contradict each other. They stay as they are.
    pub(super) problems: Vec<Problem>,
}
