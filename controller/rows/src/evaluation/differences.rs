//! Steps from the rows of the database to wanted ones.

use patchbay_schemas::datum::{Datum, Set};
use patchbay_schemas::row::Row;
use smallvec::SmallVec;
use uuid::Uuid;

use super::Evaluation;
use crate::capability::Capability;
use crate::index::{Index, OwnedRow};
use crate::part_rows::WantedRow;
use crate::parts::PartId;
use crate::resolved::ResolvedTable;
use crate::steps::{Action, Membership, Step, Target};
use crate::table::{Holding, Phase, Phases};

/// A wanted row beside the row of the database that is to be it.
pub(super) struct Match<'a> {
    pub(super) wanted: &'a WantedRow,
    pub(super) row: &'a Row,
    pub(super) held_by: &'a [(Holding, Target)],
    pub(super) holds: &'a [(Holding, Target)],
}

impl<C: Capability> Evaluation<C> {
    /// Notes what is to be done about an existing row.
    pub(super) fn compare(&mut self, part: PartId, matched: &Match<'_>, index: &Index<C::Part>) {
        let Match { wanted, row, held_by, holds } = *matched;
        let table = index.layout.table(wanted.table);
        let phases = wanted.phases.unwrap_or(table.phases);
        self.update(part, matched, phases, table);
        let this = Target::There(row.uuid);
        let come = (phases.come, wanted.together);
        for holding in table.held_by.iter().copied() {
            let have: SmallVec<[Uuid; 2]> = index.holders(holding).of(row.uuid).collect();
            let of_holding = held_by.iter().filter(|(of, _)| *of == holding);
            let wanted: SmallVec<[Target; 2]> = of_holding.map(|(_, holder)| *holder).collect();
            for holder in &wanted {
                if !have.iter().any(|have| holder.is(*have)) {
                    let membership = Membership { holding, holder: *holder, held: this };
                    self.step(part, come, Action::Attach(membership));
                }
            }
            if !index.layout.holding(holding).spec.is_exclusive {
                continue;
            }
            for holder in have {
                if !wanted.iter().any(|wanted| wanted.is(holder)) {
                    let action = Action::Detach { holding, holder, held: row.uuid, goes: false };
                    self.step(part, (phases.go, None), action);
                }
            }
        }
        for (holding, held) in holds.iter().copied() {
            let is_held = match held {
                Target::There(held) => index.holders(holding).has(row.uuid, held),
                Target::New(_) => false,
            };
            if !is_held {
                let membership = Membership { holding, holder: this, held };
                self.step(part, come, Action::Attach(membership));
            }
        }
    }

    /// Notes how the columns of an existing row change. A staged column changes in two steps: it
    /// grows with the other columns, and shrinks in the phase in which rows go.
    fn update(&mut self, part: PartId, matched: &Match<'_>, phases: Phases, table: &ResolvedTable) {
        let Match { wanted, row, .. } = *matched;
        let mut columns: Vec<_> = table.differences(row, &wanted.data).collect();
        let staged = columns.iter().position(|(name, ..)| table.staged == Some(*name));
        let mut shrinks = None;
        if let Some((name, have, wanted)) = staged.map(|place| columns.swap_remove(place)) {
            let shrinks_first = phases.go < phases.change;
            let between = match (&have, &wanted) {
                (Datum::Set(have), Datum::Set(wanted)) => {
                    let (mut lost, mut gained) = (Vec::new(), Vec::new());
                    have.diff(
                        wanted,
                        |atom| lost.push(atom.clone()),
                        |atom| gained.push(atom.clone()),
                    );
                    let mut between = have.clone();
                    if shrinks_first {
                        between.remove_all(&Set::from_vec(lost));
                    } else if !gained.is_empty() {
                        between.extend(&Set::from_vec(gained));
                    }
                    Datum::Set(between)
                }
                _ => wanted.clone(),
            };
            let first = (between != have).then(|| (name, have, between.clone()));
            let second = (between != wanted).then_some((name, between, wanted));
            let (grows, later) = if shrinks_first { (second, first) } else { (first, second) };
            columns.extend(grows);
            shrinks = later;
        }
        let update = |columns| Action::Update { table: wanted.table, row: row.uuid, columns };
        if !columns.is_empty() {
            let place = (phases.change, wanted.together);
            self.step(part, place, update(columns));
        }
        if let Some(shrinks) = shrinks {
            self.step(part, (phases.go, None), update(vec![shrinks]));
        }
    }

    pub(super) fn remove(&mut self, owned: OwnedRow, index: &Index<C::Part>) {
        let table = index.layout.table(owned.table);
        let place = (table.phases.go, None);
        for holding in table.held_by.iter().copied() {
            for holder in index.holders(holding).of(owned.uuid) {
                let action = Action::Detach { holding, holder, held: owned.uuid, goes: true };
                self.step(owned.part, place, action);
            }
        }
        if table.is_root {
            let action = Action::Delete { table: owned.table, row: owned.uuid };
            self.step(owned.part, place, action);
        }
    }

    pub(super) fn step(
        &mut self,
        part: PartId,
        (phase, together): (Phase, Option<u32>),
        action: Action,
    ) {
        self.steps.push(Step { phase, together, part, action });
    }
}
