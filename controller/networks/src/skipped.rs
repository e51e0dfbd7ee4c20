//! Networks without rows of their own, kept up to date at the cost of what changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_rows::Inputs as _;

use super::SkippedNetwork;
use super::inputs::{NetworkCell, ZoneNetworks};

/// The skipped networks of the inputs that it has seen last.
#[derive(Debug, Default)]
pub struct SkippedNetworks {
    /// `None`: it has seen nothing.
    seen: Option<ZoneNetworks>,
    by_prefix: BTreeMap<Arc<str>, SkippedNetwork>,
}

impl SkippedNetworks {
    /// Networks that have no place in the zone or are incomplete there, and why. The cost is that
    /// of the changed networks, unless the zone, its node or what all networks read has changed.
    pub fn update(&mut self, networks: &ZoneNetworks) -> Vec<SkippedNetwork> {
        let (mut are_all_changed, mut changed) = (false, BTreeSet::new());
        networks.diff(self.seen.as_ref(), &[()], &mut |cell| match cell {
            NetworkCell::Network(prefix) => {
                changed.insert(prefix);
            }
            NetworkCell::Zone | NetworkCell::Services | NetworkCell::OlderLayout => {
                are_all_changed = true;
            }
            NetworkCell::Node(name) => are_all_changed |= name == *networks.zone(),
            NetworkCell::Networks
            | NetworkCell::Unread
            | NetworkCell::Nodes
            | NetworkCell::Hosts => {}
        });
        if are_all_changed {
            changed.extend(networks.prefixes().cloned());
        }
        for prefix in changed {
            match networks.skipped_network(&prefix) {
                Some(skipped) => self.by_prefix.insert(prefix, skipped),
                None => self.by_prefix.remove(&prefix),
            };
        }
        self.seen = Some(networks.clone());
        let skipped = self.by_prefix.values().cloned();
        skipped
            .chain(networks.without_names().iter().cloned())
            .collect()
    }
}
