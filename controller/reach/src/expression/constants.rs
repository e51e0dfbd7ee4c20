//! Constants on one side of a comparison.

use std::sync::Arc;

use super::constant::{Constant, Notation};
use super::tree::PortSet;
use super::value_set::ValueSet;
use crate::northbound::PortId;

/// Constants on one side of a comparison.
#[derive(Default)]
pub(super) struct Constants {
    pub(super) integers: Vec<Constant>,
    /// Address sets, each once.
    pub(super) shared: Vec<Arc<ValueSet>>,
    pub(super) ports: Vec<PortId>,
    /// Ports of port groups, each group once.
    pub(super) groups: Vec<Arc<[PortId]>>,
    pub(super) is_text: bool,
    pub(super) is_integer: bool,
    pub(super) is_in_braces: bool,
    /// Number of elements, strings that name no port included.
    pub(super) count: usize,
}

impl Constants {
    pub(super) fn add_shared(&mut self, set: &Arc<ValueSet>) {
        if set.is_empty() {
            return;
        }
        if !self.shared.iter().any(|own| Arc::ptr_eq(own, set)) {
            self.shared.push(Arc::clone(set));
        }
        self.count += 1;
    }

    pub(super) fn add_group(&mut self, ports: &Arc<[PortId]>) {
        if ports.is_empty() {
            return;
        }
        if !self.groups.iter().any(|own| Arc::ptr_eq(own, ports)) {
            self.groups.push(Arc::clone(ports));
        }
        self.count += 1;
    }

    pub(super) fn width(&self) -> u32 {
        let shared = self.shared.iter().map(|set| set.width());
        let integers = self.integers.iter().map(Constant::width);
        shared.chain(integers).max().unwrap_or(0)
    }

    pub(super) fn first_mask(&self) -> Option<u128> {
        match self.shared.first() {
            Some(set) => set.iter().next()?.1,
            None => self.integers.first()?.mask,
        }
    }

    /// Number of values in the address sets.
    pub(super) fn shared_count(&self) -> usize {
        self.shared.iter().map(|set| set.iter().count()).sum()
    }

    pub(super) fn into_integers(self) -> impl Iterator<Item = Constant> {
        let shared = self.shared.iter().flat_map(|set| set.iter().map(to_constant));
        let mut integers: Vec<_> = shared.collect();
        integers.extend(self.integers);
        integers.into_iter()
    }

    /// Sets of ports, at least one: the comparison holds for the ports of any of them.
    pub(super) fn into_ports(mut self) -> Vec<PortSet> {
        let mut sets: Vec<_> = self.groups.into_iter().map(PortSet::Many).collect();
        match self.ports[..] {
            [] if !sets.is_empty() => {}
            [port] => sets.push(PortSet::One(port)),
            _ => {
                self.ports.sort_unstable();
                sets.push(PortSet::Many(self.ports.into()));
            }
        }
        sets
    }
}

/// The constant of an element of an address set. Its notation no longer matters, because its width
/// was compared with the field's.
fn to_constant((value, mask): (u128, Option<u128>)) -> Constant {
    Constant { value, mask, notation: Notation::Hexadecimal }
}
