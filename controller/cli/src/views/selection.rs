//! Selection of rows by their network, pod, switch, router or owner.

use std::collections::HashSet;

use uuid::Uuid;

use super::args::Filters;
use super::index::Index;
use super::table::Line;

/// Keys of external ids with the name of a network.
const NETWORK_KEYS: [&str; 2] = ["k8s.ovn.org/network", "neutron:network_name"];

/// Filters, with what a database says about the pod.
pub(super) struct Selection<'a> {
    filters: &'a Filters,
    index: &'a Index<'a>,
    /// Switches, groups and groups of load balancers of the pod's ports.
    places: HashSet<Uuid>,
    /// Addresses of the pod.
    addresses: Vec<String>,
}

impl<'a> Selection<'a> {
    pub(super) fn new(filters: &'a Filters, index: &'a Index<'a>) -> Self {
        let mut selection = Self { filters, index, places: HashSet::new(), addresses: Vec::new() };
        let Some(pod) = &filters.pod else {
            return selection;
        };
        for port in index.rows("Logical_Switch_Port") {
            if port.owner().is_none_or(|owner| owner.kind != "pod" || owner.name != *pod) {
                continue;
            }
            for holder in index.holders(port.uuid()) {
                selection.places.insert(holder.uuid());
                // A switch refers to its groups of load balancers.
                selection.places.extend(
                    holder
                        .references()
                        .into_iter()
                        .filter(|uuid| index.row("Load_Balancer_Group", *uuid).is_some()),
                );
            }
            let words = port.texts("addresses");
            let words = words.iter().flat_map(|text| text.split_ascii_whitespace().skip(1));
            selection.addresses.extend(words.map(str::to_owned));
        }
        selection
    }

    /// `true` if a line has everything that the filters ask for.
    pub(super) fn accepts(&self, line: &Line<'_>) -> bool {
        let Filters { network, pod, switch, router, owner } = self.filters;
        network.as_ref().is_none_or(|name| self.is_of_network(line, name))
            && pod.as_ref().is_none_or(|name| self.is_of_pod(line, name))
            && switch.as_ref().is_none_or(|name| self.is_in(line, "Logical_Switch", name))
            && router.as_ref().is_none_or(|name| self.is_in(line, "Logical_Router", name))
            && owner.as_ref().is_none_or(|name| is_of_owner(line, name))
    }

    fn is_of_network(&self, line: &Line<'_>, network: &str) -> bool {
        let holders = self.index.holders(line.row.uuid()).iter().copied();
        holders.chain([line.row]).any(|row| {
            let names = NETWORK_KEYS.map(|key| row.value("external_ids", key));
            names.iter().any(|name| name == network)
                || HAS_NETWORK_NAME.contains(&row.table_name()) && row.name() == network
        })
    }

    fn is_of_pod(&self, line: &Line<'_>, pod: &str) -> bool {
        if let Some(owner) = line.owner.as_ref().filter(|owner| owner.kind == "pod") {
            return owner.name == pod;
        }
        let is_port = line.row.table_name().ends_with("_Port");
        let mut holders = self.index.holders(line.row.uuid()).iter();
        let mut cells = line.cells.iter();
        !is_port && holders.any(|holder| self.places.contains(&holder.uuid()))
            || cells.any(|cell| self.addresses.iter().any(|address| names(cell, address)))
    }

    fn is_in(&self, line: &Line<'_>, table: &str, name: &str) -> bool {
        let holders = self.index.holders(line.row.uuid()).iter().copied();
        holders.chain([line.row]).filter(|row| row.table_name() == table).any(|row| {
            row.name() == name
                || row.owner().is_some_and(|owner| owner.name == name)
                || row.uuid().to_string() == name
        })
    }
}

/// Tables whose rows are networks by themselves.
const HAS_NETWORK_NAME: [&str; 1] = ["Logical_Switch"];

fn is_of_owner(line: &Line<'_>, name: &str) -> bool {
    line.owner.as_ref().is_some_and(|owner| {
        owner.name == name || owner.kind.eq_ignore_ascii_case(name) || owner.to_string() == name
    })
}

/// `true` if a text names an address, and not only one that begins or ends like it.
fn names(text: &str, address: &str) -> bool {
    let is_part = |c: char| c.is_ascii_hexdigit() || matches!(c, '.' | ':');
    text.match_indices(address).any(|(place, _)| {
        let before = text[..place].chars().next_back();
        let after = &text[place + address.len()..];
        // Behind an address may stand the colon of a port.
        let is_end =
            !after.starts_with(|c: char| is_part(c) && (c != ':' || address.contains(':')));
        is_end && !before.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn an_address_is_named_as_a_whole() {
        assert!(names("10.0.0.1:80,10.0.0.2:80", "10.0.0.2"));
        assert!(names("ip4.src == 10.0.0.2 && tcp", "10.0.0.2"));
        assert!(names("10.0.0.2/32", "10.0.0.2"));
        assert!(!names("10.0.0.21", "10.0.0.2"));
        assert!(!names("110.0.0.2", "10.0.0.2"));
        assert!(!names("fd00::12", "fd00::1"));
    }
}
