//! Notices of connects that join two or more of the same networks, because their policies match the
//! same traffic.
//!
//! The cost is linear in the connects when many join the same networks: those of equal networks are
//! one group, and the search for others ends at the number that is reported.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use patchbay_model::OwnerKey;
use patchbay_zone::ZoneObjects;

use crate::report::Notice;

/// Number of other connects that a connect's notices name. Further ones have one notice in all.
const MAX_NAMED_CONNECTS: usize = 10;

/// Number of networks that two connects share at least if their policies can match the same
/// traffic.
const MIN_SHARED_NETWORKS: usize = 2;

/// Connects that join the same networks.
struct Group<'a> {
    /// Networks, sorted.
    owners: Vec<OwnerKey>,
    /// Names of the connects, sorted.
    connects: Vec<&'a str>,
}

/// Another connect with the networks that it shares with a group.
#[derive(Clone, Copy)]
struct Sharing<'a, 'g> {
    connect: &'a str,
    /// Names of the shared networks.
    networks: &'g [String],
}

/// Returns the notices about connects that join two or more of the same networks, by connect.
pub(crate) fn shared_networks(objects: &ZoneObjects) -> BTreeMap<String, Vec<Notice>> {
    let groups = group_connects(objects);
    let mut groups_of = BTreeMap::<OwnerKey, Vec<usize>>::new();
    for (place, group) in groups.iter().enumerate() {
        for owner in &group.owners {
            groups_of.entry(*owner).or_default().push(place);
        }
    }
    let mut notices = BTreeMap::new();
    for group in &groups {
        let shared = sharing_groups(group, &groups, &groups_of);
        let named: Vec<(&[&str], Vec<String>)> = shared
            .into_iter()
            .map(|(connects, owners)| (connects, network_names(objects, &owners)))
            .collect();
        let mut others: Vec<Sharing<'_, '_>> = named
            .iter()
            .flat_map(|(connects, networks)| {
                // One of them may be the connect itself, and one more shows that there are further
                // ones.
                let connects = connects.iter().take(MAX_NAMED_CONNECTS + 2);
                connects.map(|connect| Sharing { connect, networks })
            })
            .collect();
        others.sort_unstable_by_key(|other| other.connect);
        for connect in &group.connects {
            let notices_of = notices_about(&others, connect);
            if !notices_of.is_empty() {
                notices.insert((*connect).to_owned(), notices_of);
            }
        }
    }
    notices
}

/// The name of a network, or its id if no known network has that.
pub(crate) fn network_name(objects: &ZoneObjects, owner: OwnerKey) -> String {
    let network = objects.connectable_network(owner.network_id);
    network.map_or_else(|| owner.network_id.to_string(), |network| network.name.clone())
}

/// Connects by their networks, ordered by the name of each group's first connect.
fn group_connects(objects: &ZoneObjects) -> Vec<Group<'_>> {
    let mut connects_of = BTreeMap::<Vec<OwnerKey>, Vec<&str>>::new();
    for (name, input) in objects.connects() {
        let Ok(connect) = &input.connect else {
            continue;
        };
        if connect.subnets.len() >= MIN_SHARED_NETWORKS {
            let owners = connect.subnets.owners().collect();
            connects_of.entry(owners).or_default().push(name);
        }
    }
    let mut groups: Vec<Group<'_>> =
        connects_of.into_iter().map(|(owners, connects)| Group { owners, connects }).collect();
    groups.sort_unstable_by_key(|group| group.connects.first().copied());
    groups
}

/// Groups that share networks with a group, itself included, each with the shared networks.
///
/// They are in the order of their first connects, and end when no further group can have one of the
/// connects that are reported.
fn sharing_groups<'a, 'g>(
    group: &Group<'a>,
    groups: &'g [Group<'a>],
    groups_of: &BTreeMap<OwnerKey, Vec<usize>>,
) -> Vec<(&'g [&'a str], Vec<OwnerKey>)> {
    let mut places: Vec<&[usize]> =
        group.owners.iter().filter_map(|owner| groups_of.get(owner)).map(Vec::as_slice).collect();
    // A group that shares two networks shares one besides the network that most groups have.
    places.sort_unstable_by_key(|places| places.len());
    places.pop();
    let mut next: BinaryHeap<Reverse<(usize, &[usize])>> = places
        .into_iter()
        .filter_map(|places| {
            let (first, rest) = places.split_first()?;
            Some(Reverse((*first, rest)))
        })
        .collect();
    let mut sharing = Vec::new();
    let mut last = None;
    while let Some(Reverse((place, rest))) = next.pop() {
        if let Some((first, rest)) = rest.split_first() {
            next.push(Reverse((*first, rest)));
        }
        if last.replace(place) == Some(place) {
            continue;
        }
        // Every group found so far has a first connect, and those come before all that follow.
        if sharing.len() >= MAX_NAMED_CONNECTS + 2 {
            break;
        }
        let other = &groups[place];
        let owners = intersect(&group.owners, &other.owners);
        if owners.len() >= MIN_SHARED_NETWORKS {
            sharing.push((other.connects.as_slice(), owners));
        }
    }
    sharing
}

/// Elements that two sorted lists have in common.
fn intersect(left: &[OwnerKey], right: &[OwnerKey]) -> Vec<OwnerKey> {
    let mut right = right.iter().peekable();
    left.iter()
        .filter(|owner| {
            while right.next_if(|other| other < owner).is_some() {}
            right.next_if_eq(owner).is_some()
        })
        .copied()
        .collect()
}

fn network_names(objects: &ZoneObjects, owners: &[OwnerKey]) -> Vec<String> {
    let names = owners.iter().map(|owner| network_name(objects, *owner));
    names.collect()
}

/// Notices of a connect about the first of the others.
fn notices_about(others: &[Sharing<'_, '_>], connect: &str) -> Vec<Notice> {
    let mut others = others.iter().filter(|other| other.connect != connect);
    let named = others.by_ref().take(MAX_NAMED_CONNECTS);
    let mut notices: Vec<Notice> = named
        .map(|other| Notice::SharedNetworks {
            connect: other.connect.to_owned(),
            networks: other.networks.to_vec(),
        })
        .collect();
    if others.next().is_some() {
        notices.push(Notice::FurtherSharedNetworks);
    }
    notices
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use patchbay_model::{Connect, ConnectInput};
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;

    /// Connects named by number, each with networks named by id.
    fn inputs(connects: &[BTreeSet<u16>]) -> ZoneObjects {
        let mut inputs = ZoneObjects::default();
        for (number, networks) in connects.iter().enumerate() {
            let entries = networks.iter().map(|network| {
                let owner: OwnerKey = format!("layer3_{network}").parse().unwrap();
                (owner, ["10.0.0.0/24".parse().unwrap()].into_iter().collect())
            });
            let connect = Connect { subnets: entries.collect(), ..Connect::default() };
            let input = ConnectInput { uid: None, refusal: None, connect: Ok(connect) };
            inputs.put_connect(&format!("c{number:04}"), input);
        }
        inputs
    }

    /// Notices by comparison of all connects with each other.
    fn compare_all(objects: &ZoneObjects) -> BTreeMap<String, Vec<Notice>> {
        let owners = |name: &str| -> BTreeSet<OwnerKey> {
            objects.connect(name).unwrap().subnets.owners().collect()
        };
        let mut notices = BTreeMap::<String, Vec<Notice>>::new();
        for (name, _) in objects.connects() {
            let mut all = Vec::new();
            for (other, _) in objects.connects().filter(|(other, _)| *other != name) {
                let shared: Vec<OwnerKey> =
                    owners(name).intersection(&owners(other)).copied().collect();
                if shared.len() >= 2 {
                    all.push(Notice::SharedNetworks {
                        connect: other.to_string(),
                        networks: network_names(objects, &shared),
                    });
                }
            }
            if all.len() > MAX_NAMED_CONNECTS {
                all.truncate(MAX_NAMED_CONNECTS);
                all.push(Notice::FurtherSharedNetworks);
            }
            if !all.is_empty() {
                notices.insert(name.to_string(), all);
            }
        }
        notices
    }

    proptest! {
        #[test]
        fn notices_are_those_of_a_comparison_of_all_pairs(
            connects in vec(btree_set(1_u16..7, 0..5), 0..40),
        ) {
            let inputs = inputs(&connects);
            prop_assert_eq!(shared_networks(&inputs), compare_all(&inputs));
        }
    }

    #[test]
    fn many_connects_of_the_same_networks_have_few_notices_each() {
        let inputs = inputs(&vec![BTreeSet::from([1, 2]); 1_000]);
        let notices = shared_networks(&inputs);
        assert_eq!(notices.len(), 1_000);
        for of_one in notices.values() {
            assert_eq!(of_one.len(), MAX_NAMED_CONNECTS + 1);
            assert_eq!(of_one.last(), Some(&Notice::FurtherSharedNetworks));
        }
    }
}
