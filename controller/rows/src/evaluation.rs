//! Comparison of pending parts with the database.

use std::collections::{BTreeMap, HashSet};

use foldhash::fast::RandomState;
use patchbay_schemas::row::Row;
use smol_str::SmolStr;
use uuid::Uuid;

use crate::capability::Capability;
use crate::dependencies::{Dependencies, Source};
use crate::index::{Index, OwnedRow, RowKey};
use crate::part_rows::{PartRows, WantedRow};
use crate::parts::{PartId, Parts};
use crate::reader::{CellOf, Reader};
use crate::steps::{Action, Membership, NewRow, Step, Target};
use crate::table::{Holding, Owner, Phases};

/// Reason why a wanted row is not made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refused<P> {
    /// Name of the table.
    pub table: &'static str,
    /// The part that wants the same row and comes first; `None`: the row belongs to another
    /// program.
    pub first: Option<P>,
}

/// One pass over pending parts.
pub(crate) struct Evaluation<'a, C: Capability> {
    pub(crate) capability: &'a C,
    pub(crate) inputs: &'a C::Inputs,
    pub(crate) index: &'a Index<C::Part>,
    pub(crate) parts: &'a Parts<C::Part>,
    pub(crate) dependencies: &'a mut Dependencies<CellOf<C>>,
    /// Parts to be evaluated. What parts leave to others makes those pending; they come later in
    /// the order.
    pub(crate) queue: BTreeMap<C::Part, PartId>,
    pub(crate) steps: Vec<Step>,
    /// Rows that stay.
    kept: HashSet<Uuid, RandomState>,
    evaluated: HashSet<PartId, RandomState>,
    /// Rows of evaluated parts that were not asked for when their part was evaluated.
    rest: Vec<OwnedRow>,
}

/// Outcome of one part.
pub(crate) struct Evaluated<C: Capability> {
    pub(crate) part: PartId,
    pub(crate) report: Option<C::Report>,
    pub(crate) refused: Vec<Refused<C::Part>>,
    /// `true` if the part wants no rows and has none.
    pub(crate) is_empty: bool,
}

impl<'a, C: Capability> Evaluation<'a, C> {
    pub(crate) fn new(
        capability: &'a C,
        inputs: &'a C::Inputs,
        index: &'a Index<C::Part>,
        parts: &'a Parts<C::Part>,
        dependencies: &'a mut Dependencies<CellOf<C>>,
        pending: impl Iterator<Item = PartId>,
    ) -> Self {
        let queue = pending.filter_map(|id| Some((parts.get(id)?.clone(), id)));
        Self {
            queue: queue.collect(),
            capability,
            inputs,
            index,
            parts,
            dependencies,
            steps: Vec::new(),
            kept: HashSet::default(),
            evaluated: HashSet::default(),
            rest: Vec::new(),
        }
    }

    /// Evaluates the next pending part.
    pub(crate) fn next(&mut self) -> Option<Evaluated<C>> {
        if self.queue.is_empty() {
            self.queue_claimants_of_rest();
        }
        let (key, part) = self.queue.pop_first()?;
        self.evaluated.insert(part);
        let reader = Reader::<C>::new(self.inputs, self.index, part);
        let mut rows = PartRows::new();
        self.capability.rows(&key, &reader, &mut rows);
        let mut read = reader.read.into_inner();
        let owned: Vec<OwnedRow> = self.index.owned(part).collect();
        let is_empty = owned.is_empty() && rows.wanted.is_empty();
        self.kept.extend(rows.kept);
        let mut refused = Vec::new();
        for wanted in rows.wanted {
            if let Err(reason) = self.settle((part, &key), wanted, &mut read) {
                refused.push(reason);
            }
        }
        self.rest
            .extend(owned.iter().filter(|row| !self.kept.contains(&row.uuid)));
        for released in self.dependencies.record(part, read) {
            self.release(released);
        }
        Some(Evaluated {
            part,
            report: rows.report,
            refused,
            is_empty,
        })
    }

    /// Removes the rows that no part has asked for. Returns the steps of the whole pass.
    pub(crate) fn finish(mut self) -> Vec<Step> {
        for owned in std::mem::take(&mut self.rest) {
            if !self.kept.contains(&owned.uuid) {
                self.remove(owned);
            }
        }
        self.steps
    }

    /// Another part may have what one part does not want any more.
    fn release(&mut self, key: RowKey) {
        let claimants: Vec<PartId> = self.dependencies.claimants(key).collect();
        for part in claimants {
            self.queue_later(part);
        }
    }

    fn queue_later(&mut self, part: PartId) {
        if !self.evaluated.contains(&part)
            && let Some(key) = self.parts.get(part)
        {
            self.queue.insert(key.clone(), part);
        }
    }

    /// Makes parts pending that want the identity of a row that is about to go: it may be theirs.
    fn queue_claimants_of_rest(&mut self) {
        let mut claimants = Vec::new();
        for owned in self
            .rest
            .iter()
            .filter(|row| !self.kept.contains(&row.uuid))
        {
            let row = self.index.row(owned.table, owned.uuid);
            let keys = row.map(|row| self.index.keys_of(owned.table, row));
            for key in keys.into_iter().flatten() {
                claimants.extend(self.dependencies.claimants(key));
            }
        }
        for part in claimants {
            self.queue_later(part);
        }
    }

    /// Chooses the row of the database that is to be the wanted one, or a new one, and notes what
    /// is to be done.
    fn settle(
        &mut self,
        (part, key): (PartId, &C::Part),
        wanted: WantedRow,
        read: &mut Vec<(Source<CellOf<C>>, bool)>,
    ) -> Result<(), Refused<C::Part>> {
        let index = self.index;
        let table = index.layout.table(wanted.table);
        let mut target = |holding: Holding, name: &SmolStr, is_holder: bool| {
            let spec = index.layout.holding(holding).spec;
            let table = if is_holder { spec.holder } else { spec.held };
            let (key, row) = index.named(table, name);
            read.push((Source::Key(key), false));
            let target = row.map_or(Target::New(key), |row| Target::There(row.uuid));
            (holding, target)
        };
        let held_by = wanted.held_by.iter();
        let held_by: Vec<(Holding, Target)> = held_by
            .map(|(holding, name)| target(*holding, name, true))
            .collect();
        let holds = wanted.holds.iter();
        let holds: Vec<(Holding, Target)> = holds
            .map(|(holding, name)| target(*holding, name, false))
            .collect();
        let hash = index.layout.wanted_key(wanted.table, &wanted.data);
        let hash = match held_by.first() {
            _ if !table.identity.is_in_holder => hash,
            Some((holding, Target::There(holder))) => {
                hash.map(|hash| index.layout.key_in_holder(*holding, *holder, hash))
            }
            _ => None,
        };
        let row_key = hash.map(|hash| RowKey {
            table: wanted.table,
            hash,
        });
        let mut existing = None;
        if let Some(row_key) = row_key {
            read.push((Source::Key(row_key), true));
            if let Some(first) = self.claim(part, key, row_key) {
                let table = table.name;
                let first = Some(first);
                return Err(Refused { table, first });
            }
            existing = self.choose(row_key, &wanted)?;
        }
        let phases = wanted.phases.unwrap_or(table.phases);
        if let Some(row) = existing {
            self.kept.insert(row.uuid);
            self.compare(part, &wanted, row, phases, &held_by, &holds);
        } else {
            let row = NewRow {
                table: wanted.table,
                key: row_key,
                data: wanted.data,
                held_by,
                holds,
            };
            self.step(part, phases.come, Action::Insert(row));
        }
        Ok(())
    }

    /// Returns the part that has the first claim on a row, if that is another one.
    fn claim(&mut self, part: PartId, key: &C::Part, row: RowKey) -> Option<C::Part> {
        let others = self.dependencies.claimants(row);
        let others: Vec<PartId> = others.filter(|other| *other != part).collect();
        let first = others
            .iter()
            .filter_map(|other| self.parts.get(*other))
            .min();
        if let Some(first) = first.filter(|first| *first < key) {
            return Some(first.clone());
        }
        for other in others {
            self.queue_later(other);
        }
        None
    }

    fn choose(&self, key: RowKey, wanted: &WantedRow) -> Result<Option<&'a Row>, Refused<C::Part>> {
        let index = self.index;
        let table = index.layout.table(wanted.table);
        let values = || table.identity.values(&wanted.data);
        let mut is_taken = false;
        let candidates = index.find(key, values).filter(|row| {
            let is_same = table.identity.is_in_holder
                || index.layout.row_key(wanted.table, row)
                    == index.layout.wanted_key(wanted.table, &wanted.data);
            is_same && !self.kept.contains(&row.uuid)
        });
        let candidates: Vec<&Row> = candidates
            .filter(|row| {
                let is_foreign = matches!(index.owner(wanted.table, row), Owner::Other);
                is_taken |= is_foreign;
                !is_foreign
            })
            .map(AsRef::as_ref)
            .collect();
        // Of several rows of one identity the one that is right already stays.
        let chosen = candidates
            .into_iter()
            .min_by_key(|row| (table.differs(row, &wanted.data), row.uuid));
        if chosen.is_none() && is_taken && !table.identity.is_in_holder {
            return Err(Refused {
                table: table.name,
                first: None,
            });
        }
        Ok(chosen)
    }

    /// Notes what is to be done about an existing row.
    fn compare(
        &mut self,
        part: PartId,
        wanted: &WantedRow,
        row: &Row,
        phases: Phases,
        held_by: &[(Holding, Target)],
        holds: &[(Holding, Target)],
    ) {
        let index = self.index;
        let table = index.layout.table(wanted.table);
        let columns: Vec<_> = table.differences(row, &wanted.data).collect();
        if !columns.is_empty() {
            let action = Action::Update {
                table: wanted.table,
                row: row.uuid,
                columns,
            };
            self.step(part, phases.change, action);
        }
        let this = Target::There(row.uuid);
        let holders = held_by
            .iter()
            .map(|(holding, holder)| (*holding, *holder, this));
        let held = holds.iter().map(|(holding, held)| (*holding, this, *held));
        for (holding, holder, held) in holders.chain(held) {
            let is_held = match (holder, held) {
                (Target::There(holder), Target::There(held)) => {
                    index.holders(holding).has(holder, held)
                }
                _ => false,
            };
            if !is_held {
                let membership = Membership {
                    holding,
                    holder,
                    held,
                };
                self.step(part, phases.come, Action::Attach(membership));
            }
        }
        for holding in table.held_by.iter().copied() {
            if !index.layout.holding(holding).spec.is_exclusive {
                continue;
            }
            for holder in index.holders(holding).of(row.uuid) {
                let is_wanted = held_by.iter().any(|(of, target)| {
                    *of == holding && matches!(target, Target::There(uuid) if *uuid == holder)
                });
                if !is_wanted {
                    let action = Action::Detach {
                        holding,
                        holder,
                        held: row.uuid,
                        goes: false,
                    };
                    self.step(part, phases.go, action);
                }
            }
        }
    }

    fn remove(&mut self, owned: OwnedRow) {
        let index = self.index;
        let table = index.layout.table(owned.table);
        let phase = table.phases.go;
        for holding in table.held_by.iter().copied() {
            for holder in index.holders(holding).of(owned.uuid) {
                let action = Action::Detach {
                    holding,
                    holder,
                    held: owned.uuid,
                    goes: true,
                };
                self.step(owned.part, phase, action);
            }
        }
        if table.is_root {
            let action = Action::Delete {
                table: owned.table,
                row: owned.uuid,
            };
            self.step(owned.part, phase, action);
        }
    }

    fn step(&mut self, part: PartId, phase: crate::table::Phase, action: Action) {
        self.steps.push(Step {
            phase,
            part,
            action,
        });
    }
}
