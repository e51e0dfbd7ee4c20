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
    /// Address set, if it is the only constant.
    pub(super) shared: Option<Arc<ValueSet>>,
    pub(super) ports: Vec<PortId>,
    /// Port group, if it is the only constant.
    pub(super) group: Option<Arc<[PortId]>>,
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
        if self.count == 0 {
            self.shared = Some(Arc::clone(set));
        } else {
            self.split_shared();
            self.integers.extend(set.iter().map(to_constant));
        }
        self.count += 1;
    }

    pub(super) fn split_shared(&mut self) {
        if let Some(set) = self.shared.take() {
            self.integers.extend(set.iter().map(to_constant));
        }
    }

    pub(super) fn add_group(&mut self, ports: &Arc<[PortId]>) {
        if ports.is_empty() {
            return;
        }
        if self.count == 0 {
            self.group = Some(Arc::clone(ports));
        } else {
            self.split_group();
            self.ports.extend(ports.iter());
        }
        self.count += 1;
    }

    pub(super) fn split_group(&mut self) {
        if let Some(ports) = self.group.take() {
            self.ports.extend(ports.iter());
        }
    }

    pub(super) fn width(&self) -> u32 {
        let shared = self.shared.as_ref().map_or(0, |set| set.width());
        let integers = self.integers.iter().map(Constant::width).max();
        shared.max(integers.unwrap_or(0))
    }

    pub(super) fn first_mask(&self) -> Option<u128> {
        match &self.shared {
            Some(set) => set.iter().next()?.1,
            None => self.integers.first()?.mask,
        }
    }

    pub(super) fn into_integers(mut self) -> impl Iterator<Item = Constant> {
        self.split_shared();
        self.integers.into_iter()
    }

    pub(super) fn into_ports(mut self) -> PortSet {
        if let Some(group) = self.group {
            return PortSet::Many(group);
        }
        if let [port] = self.ports[..] {
            return PortSet::One(port);
        }
        self.ports.sort_unstable();
        PortSet::Many(self.ports.into())
    }
}

/// The constant of an element of an address set. Its notation no longer matters, because its width
/// was compared with the field's.
fn to_constant((value, mask): (u128, Option<u128>)) -> Constant {
    Constant {
        value,
        mask,
        notation: Notation::Hexadecimal,
    }
}
