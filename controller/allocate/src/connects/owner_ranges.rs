//! Ranges of connects, by the networks that have subnets in them.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use patchbay_model::OwnerKey;

use super::allocation::ConnectAllocation;

/// Index that finds the connects whose ranges overlap with others and that have a network, without
/// a look at the other connects.
#[derive(Debug, Default)]
pub(super) struct OwnerRanges(BTreeMap<OwnerKey, BTreeMap<IpNet, BTreeSet<String>>>);

impl OwnerRanges {
    /// Adds the networks of a connect.
    pub(super) fn insert(&mut self, connect: &str, allocation: &ConnectAllocation) {
        self.insert_owners(connect, allocation.allocator.owners(), &allocation.cidrs);
    }

    /// Adds networks of a connect with these ranges, which have no host bits.
    pub(super) fn insert_owners(
        &mut self,
        connect: &str,
        owners: impl IntoIterator<Item = OwnerKey>,
        cidrs: &[IpNet],
    ) {
        for owner in owners {
            let ranges = self.0.entry(owner).or_default();
            for cidr in cidrs {
                let connects = ranges.entry(*cidr).or_default();
                connects.insert(connect.to_owned());
            }
        }
    }

    /// Removes the networks of a connect, which are those that were added.
    pub(super) fn remove(&mut self, connect: &str, allocation: &ConnectAllocation) {
        for owner in allocation.allocator.owners() {
            let Some(ranges) = self.0.get_mut(&owner) else {
                continue;
            };
            for cidr in &allocation.cidrs {
                if let Some(connects) = ranges.get_mut(cidr) {
                    connects.remove(connect);
                    if connects.is_empty() {
                        ranges.remove(cidr);
                    }
                }
            }
            if ranges.is_empty() {
                self.0.remove(&owner);
            }
        }
    }

    /// Connects that have the network and a range with addresses in common with these.
    pub(super) fn overlapping(&self, owner: OwnerKey, cidrs: &[IpNet]) -> BTreeSet<&str> {
        let Some(ranges) = self.0.get(&owner) else {
            return BTreeSet::new();
        };
        let mut found = BTreeSet::new();
        for cidr in cidrs {
            // A range comes before the ranges that it contains.
            let within =
                ranges.range(cidr.trunc()..).take_while(|(range, _)| cidr.contains(*range));
            let around = (0..cidr.prefix_len()).filter_map(|prefix| {
                let range = IpNet::new(cidr.addr(), prefix).ok()?.trunc();
                ranges.get_key_value(&range)
            });
            let connects = within.chain(around).flat_map(|(_, connects)| connects);
            found.extend(connects.map(String::as_str));
        }
        found
    }
}
