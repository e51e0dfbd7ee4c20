//! Rows of connects that are not as the inputs require, for people.

use std::collections::BTreeMap;

use patchbay_engine::db::Snapshot;
use patchbay_model::NetworkId;
use patchbay_rows::RowDifference;
use patchbay_zone::ZoneObjects;

use super::controller::ZoneController;
use super::part::{ConnectPart, LinkId, Part};

/// What a row of a connect is for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum RowPurpose {
    /// Connect router.
    Router,
    /// Port or route of a network's attachment to the connect router.
    Link {
        /// Network.
        network: NetworkId,
        /// Id of the node; 0 for a layer2 network.
        index: u16,
    },
    /// Policy of a network's router that sends packets to another network.
    Policy {
        /// Network of the router.
        source: NetworkId,
        /// The other network.
        destination: NetworkId,
    },
    /// Load balancers of services.
    Services,
    /// ACLs and address sets that drop traffic between pods.
    Isolation,
    /// None: the row belongs to the connect and is not wanted.
    Nothing,
}

impl ZoneController {
    /// Rows of the snapshot that are not as the inputs require, by connect, each with its purpose.
    ///
    /// The rules are those of [`plan`](Self::plan). Nothing is remembered.
    pub fn differences(
        &self,
        objects: &ZoneObjects,
        snapshot: &Snapshot,
    ) -> BTreeMap<String, Vec<(RowPurpose, RowDifference)>> {
        let mut by_connect = BTreeMap::<String, Vec<_>>::new();
        for (ConnectPart { connect, part }, found) in self.part_differences(objects, snapshot) {
            let purpose = purpose(part);
            let found = found.into_iter().map(|difference| (purpose, difference));
            by_connect.entry(connect.to_string()).or_default().extend(found);
        }
        by_connect
    }
}

const fn purpose(part: Part) -> RowPurpose {
    match part {
        Part::Router => RowPurpose::Router,
        Part::Link(LinkId { network, index }) => RowPurpose::Link { network, index },
        Part::Policies { source, destination } => RowPurpose::Policy { source, destination },
        Part::Services => RowPurpose::Services,
        Part::Isolation => RowPurpose::Isolation,
        Part::Stray | Part::Summary => RowPurpose::Nothing,
    }
}
