//! Networks without rows of their own, kept up to date at the cost of what changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_rows::Inputs as _;
use patchbay_zone::{Cell, Kind, ZoneObjects};

use super::views::skipped_network;
use super::{SkipReason, SkippedNetwork};

/// The skipped networks of the inputs that it has seen last.
#[derive(Debug, Default)]
pub struct SkippedNetworks {
    /// `None`: it has seen nothing.
    seen: Option<ZoneObjects>,
    by_prefix: BTreeMap<Arc<str>, SkippedNetwork>,
}

impl SkippedNetworks {
    /// Networks that have no place in the zone or are incomplete there, and why. The cost is that
    /// of the changed networks, unless the zone, its node or what all networks read has changed.
    pub fn update(&mut self, objects: &ZoneObjects) -> Vec<SkippedNetwork> {
        let (mut are_all_changed, mut changed) = (false, BTreeSet::new());
        let kinds = [Kind::Zone, Kind::Nodes, Kind::Networks];
        objects.diff(self.seen.as_ref(), &kinds, &mut |cell| match cell {
            Cell::Network(prefix) => {
                changed.insert(prefix);
            }
            Cell::Zone | Cell::OlderLayout => are_all_changed = true,
            Cell::Node(name) | Cell::NodeSubnets(name) => {
                are_all_changed |= name == *objects.zone();
            }
            _ => {}
        });
        if are_all_changed {
            let prefixes = objects.networks().map(|(prefix, _)| prefix);
            changed.extend(prefixes.cloned());
        }
        for prefix in changed {
            match skipped_network(objects, &prefix) {
                Some(skipped) => self.by_prefix.insert(prefix, skipped),
                None => self.by_prefix.remove(&prefix),
            };
        }
        self.seen = Some(objects.clone());
        let conflicts = objects.name_conflicts().iter();
        let without_names = conflicts.map(|(network, other)| SkippedNetwork {
            network: network.clone(),
            reason: SkipReason::NameTaken(other.clone()),
        });
        let skipped = self.by_prefix.values().cloned();
        skipped.chain(without_names).collect()
    }
}
