//! A topology with each network as one place.

use std::collections::{BTreeMap, BTreeSet};

use super::topology::{Lit, Place, PlaceKind, Topology, short_network};

impl Topology {
    /// The topology with one place for each network: the devices that name it, or else linked
    /// devices that name none. Connect routers and networks outside stay.
    #[must_use]
    pub fn networks(&self) -> Self {
        let groups = self.groups();
        let mut places: BTreeMap<usize, usize> = BTreeMap::new();
        let mut networks = Self::default();
        let mut new_places = vec![0; self.places.len()];
        for (number, group) in groups.iter().enumerate() {
            let place = *places.entry(*group).or_insert_with(|| {
                let members = || (0..groups.len()).filter(|other| groups[*other] == *group);
                networks.add(self.joined(members), [])
            });
            new_places[number] = place;
        }
        for (name, numbers) in self.names() {
            let own = numbers.iter().map(|number| new_places[*number]);
            networks.set_name(name, own.collect());
        }
        for (one, other) in &self.links {
            networks.link(new_places[*one], new_places[*other]);
        }
        let mut lit: Vec<usize> = self.lit.places.iter().map(|place| new_places[*place]).collect();
        lit.dedup();
        networks.lit = Lit { places: lit, stopped_by: self.lit.stopped_by.clone() };
        networks
    }

    /// Group of each place, by the number of its first place.
    fn groups(&self) -> Vec<usize> {
        let mut groups: Vec<usize> = (0..self.places.len()).collect();
        let mut first_of: BTreeMap<(bool, &str), usize> = BTreeMap::new();
        for (number, place) in self.places.iter().enumerate() {
            // The routers of a connect in all zones are one place.
            let connect = (place.kind == PlaceKind::Connect).then_some(&place.name);
            if let Some(name) = connect.or(place.network.as_ref()) {
                let first = *first_of.entry((connect.is_some(), name)).or_insert(number);
                join(&mut groups, first, number);
            }
        }
        let is_fixed = |kind| matches!(kind, PlaceKind::Connect | PlaceKind::Outside);
        for (one, other) in &self.links {
            let (left, right) = (&self.places[*one], &self.places[*other]);
            // Routers of two networks that are linked are peers, not one network.
            let are_routers = (left.kind, right.kind) == (PlaceKind::Router, PlaceKind::Router);
            let is_machine = |kind| matches!(kind, PlaceKind::Machine | PlaceKind::Machines);
            let has_machine = is_machine(left.kind) || is_machine(right.kind);
            let is_one = left.network == right.network && !are_routers;
            if !is_fixed(left.kind) && !is_fixed(right.kind) && (has_machine || is_one) {
                join(&mut groups, *one, *other);
            }
        }
        (0..groups.len()).map(|number| root(&groups, number)).collect()
    }

    /// The place of a group.
    fn joined<I: Iterator<Item = usize>>(&self, members: impl Fn() -> I) -> Place {
        let of = |number: usize| &self.places[number];
        let mut own = members().map(of);
        let Some(first) = own.next() else {
            return self.places[0].clone();
        };
        if matches!(first.kind, PlaceKind::Connect | PlaceKind::Outside) {
            return Place { detail: String::new(), ..first.clone() };
        }
        let machines: usize = members()
            .map(of)
            .filter(|one| one.kind == PlaceKind::Switch)
            .map(|one| one.machines)
            .sum();
        let network = members().find_map(|number| of(number).network.clone());
        let router = members().map(of).find(|one| one.kind == PlaceKind::Router);
        let switch = members().map(of).find(|one| one.kind == PlaceKind::Switch);
        let device = router.or(switch).map_or_else(|| first.name.clone(), |one| one.name.clone());
        let name = network.as_deref().unwrap_or(&device);
        let subnets: BTreeSet<&str> = members()
            .map(of)
            .filter(|one| one.kind == PlaceKind::Switch && one.detail.contains('/'))
            .map(|one| one.detail.as_str())
            .collect();
        let subnet = match (subnets.first(), subnets.len()) {
            (Some(only), 1) => format!(", {only}"),
            (Some(_), count) => format!(", {count} subnets"),
            (None, _) => String::new(),
        };
        let plural = if machines == 1 { "" } else { "s" };
        Place {
            kind: PlaceKind::Network,
            name: short_network(name).to_owned(),
            detail: format!("{machines} machine{plural}{subnet}"),
            network,
            machines,
        }
    }
}

fn root(groups: &[usize], mut number: usize) -> usize {
    while groups[number] != number {
        number = groups[number];
    }
    number
}

fn join(groups: &mut [usize], one: usize, other: usize) {
    let (one, other) = (root(groups, one), root(groups, other));
    let (low, high) = (one.min(other), one.max(other));
    groups[high] = low;
}
