//! From steps to a transaction.

use std::collections::{BTreeMap, HashMap, HashSet};

use foldhash::fast::RandomState;
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::{Datum, Set};
use patchbay_schemas::schema::ColumnId;
use patchbay_schemas::wire::Mutator;
use uuid::Uuid;

use crate::change::{Change, Counts, PlanError};
use crate::columns::Rule;
use crate::index::RowKey;
use crate::resolved::Resolved;
use crate::steps::{Action, Membership, NewRow, Step, Target};
use crate::table::{Holding, TablePlace};

type Keyed<V> = HashMap<RowKey, V, RandomState>;

/// Makes one transaction.
pub(crate) struct Writer<'a> {
    layout: &'a Resolved,
    snapshot: &'a Snapshot,
    txn: TxnBuilder,
    /// Placeholders of the new rows of this transaction that others can refer to.
    placeholders: Keyed<Uuid>,
    new_rows: Vec<(Uuid, Box<NewRow>)>,
    /// Identities of new rows to which steps refer: few, because most new rows are never named.
    referred: HashSet<RowKey, RandomState>,
    gains: BTreeMap<(Holding, Uuid), Vec<Atom>>,
    losses: BTreeMap<(Holding, Uuid), Vec<Atom>>,
    inserted: usize,
    changed: HashSet<Uuid, RandomState>,
    deleted: HashSet<Uuid, RandomState>,
    dissolved: HashSet<Uuid, RandomState>,
    /// Changes of rows with a staged column: the last step of a row decides.
    staged: BTreeMap<(TablePlace, Uuid), Vec<ColumnChange>>,
}

/// Name, present value and wanted value of a column.
type ColumnChange = (&'static str, Datum, Datum);

/// Drops steps that cannot be taken, because they refer to rows that neither are there nor come:
/// they wait for them.
///
/// Returns the identities of new rows to which the steps refer.
pub(crate) fn drop_waiting(
    layout: &Resolved,
    steps: &mut Vec<Step>,
) -> HashSet<RowKey, RandomState> {
    let referred: HashSet<RowKey, RandomState> = steps.iter().flat_map(Step::targets).collect();
    loop {
        let new: HashSet<RowKey, RandomState> = steps
            .iter()
            .filter_map(|step| match &step.action {
                Action::Insert(row) => row.key.filter(|key| referred.contains(key)),
                _ => None,
            })
            .collect();
        let is_known = |target: &Target| match target {
            Target::There(_) => true,
            Target::New(key) => new.contains(key),
        };
        let before = steps.len();
        steps.retain_mut(|step| match &mut step.action {
            Action::Insert(row) => {
                row.held_by.retain(|(_, holder)| is_known(holder));
                row.holds.retain(|(_, held)| is_known(held));
                layout.table(row.table).is_root || !row.held_by.is_empty()
            }
            Action::Attach(membership) => {
                is_known(&membership.holder) && is_known(&membership.held)
            }
            _ => true,
        });
        if steps.len() == before {
            return referred;
        }
    }
}

impl<'a> Writer<'a> {
    pub(crate) fn new(
        layout: &'a Resolved,
        snapshot: &'a Snapshot,
        txn: TxnBuilder,
        referred: HashSet<RowKey, RandomState>,
    ) -> Self {
        Self {
            layout,
            snapshot,
            txn,
            placeholders: Keyed::default(),
            new_rows: Vec::new(),
            referred,
            gains: BTreeMap::new(),
            losses: BTreeMap::new(),
            inserted: 0,
            changed: HashSet::default(),
            deleted: HashSet::default(),
            dissolved: HashSet::default(),
            staged: BTreeMap::new(),
        }
    }

    /// Makes the transaction of the first steps: all of them, or about `limit` rows, but at least
    /// one.
    pub(crate) fn write(
        mut self,
        mut steps: Vec<Step>,
        limit: usize,
        comment: &str,
    ) -> Result<Change, PlanError> {
        steps.sort_by_key(|step| (step.phase, step.together));
        let inserts: Keyed<usize> = (0..)
            .zip(&steps)
            .filter_map(|(place, step)| match &step.action {
                Action::Insert(row) => {
                    Some((row.key.filter(|key| self.referred.contains(key))?, place))
                }
                _ => None,
            })
            .collect();
        let mut steps: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
        let mut taken = 0;
        let mut more = false;
        let mut last = None;
        for place in 0..steps.len() {
            let Some(step) = &steps[place] else {
                continue;
            };
            let batch = step.together.map(|number| (step.phase, number));
            if taken >= limit.max(1) && (batch.is_none() || batch != last) {
                more = true;
                break;
            }
            last = batch;
            taken += self.take(place, &mut steps, &inserts)?;
        }
        self.write_staged()?;
        self.write_rows()?;
        Ok(Change { more, ..self.finish(comment) })
    }

    /// Takes a step, and before it the new rows that it refers to. Returns how many steps were
    /// taken.
    fn take(
        &mut self,
        place: usize,
        steps: &mut [Option<Step>],
        inserts: &Keyed<usize>,
    ) -> Result<usize, PlanError> {
        let Some(step) = steps[place].take() else {
            return Ok(0);
        };
        let mut taken = 1;
        for key in step.targets() {
            if let Some(target) = inserts.get(&key) {
                taken += self.take(*target, steps, inserts)?;
            }
        }
        match step.action {
            Action::Insert(row) => self.insert(row),
            Action::Update { table, row, columns } => {
                if self.layout.table(table).staged.is_some() {
                    self.stage((table, row), columns);
                } else {
                    self.update((table, row), columns)?;
                }
            }
            Action::Attach(membership) => self.attach(membership),
            Action::Detach { holding, holder, held, goes } => {
                if goes {
                    self.deleted.insert(held);
                }
                let lost = self.losses.entry((holding, holder)).or_default();
                lost.push(Atom::Uuid(held));
            }
            Action::Delete { table, row } => {
                let name = self.layout.table(table).name;
                self.txn.delete_row(name, row)?;
                self.deleted.insert(row);
                self.dissolved.insert(row);
            }
            Action::Mutate { table, row, mutator, members } => {
                let table = self.layout.table(table);
                let column = table.members.map_or("", |members| members.name);
                let members = Datum::Set(Set::from_vec(members));
                self.txn.mutate_row(table.name, row, column, mutator, members)?;
                self.changed.insert(row);
            }
        }
        Ok(taken)
    }

    fn update(
        &mut self,
        (table, row): (TablePlace, Uuid),
        columns: Vec<ColumnChange>,
    ) -> Result<(), PlanError> {
        let name = self.layout.table(table).name;
        if self.txn.update_row(name, row, columns)? {
            self.changed.insert(row);
        }
        Ok(())
    }

    /// Adds changes to those of earlier steps of the row.
    fn stage(&mut self, row: (TablePlace, Uuid), columns: Vec<ColumnChange>) {
        let changes = self.staged.entry(row).or_default();
        for (name, have, wanted) in columns {
            match changes.iter_mut().find(|(of, ..)| *of == name) {
                Some((.., last)) => *last = wanted,
                None => changes.push((name, have, wanted)),
            }
        }
    }

    fn write_staged(&mut self) -> Result<(), PlanError> {
        for (row, columns) in std::mem::take(&mut self.staged) {
            self.update(row, columns)?;
        }
        Ok(())
    }

    fn insert(&mut self, mut row: Box<NewRow>) {
        let uuid = self.txn.reserve();
        let key = row.key.filter(|key| self.referred.contains(key));
        self.placeholders.extend(key.map(|key| (key, uuid)));
        self.inserted += 1;
        for (holding, holder) in std::mem::take(&mut row.held_by) {
            let held = Target::There(uuid);
            self.attach(Membership { holding, holder, held });
        }
        for (holding, held) in std::mem::take(&mut row.holds) {
            let holder = Target::There(uuid);
            self.attach(Membership { holding, holder, held });
        }
        self.new_rows.push((uuid, row));
    }

    fn attach(&mut self, membership: Membership) {
        let resolve = |target| match target {
            Target::There(uuid) => Some(uuid),
            Target::New(key) => self.placeholders.get(&key).copied(),
        };
        if let (Some(holder), Some(held)) = (resolve(membership.holder), resolve(membership.held)) {
            let gained = self.gains.entry((membership.holding, holder)).or_default();
            gained.push(Atom::Uuid(held));
        }
    }

    /// Puts new rows and changed references into the transaction.
    fn write_rows(&mut self) -> Result<(), PlanError> {
        for (uuid, row) in std::mem::take(&mut self.new_rows) {
            let table = self.layout.table(row.table);
            let mut data = row.data;
            let mut references: Vec<(&str, Option<ColumnId>, Datum)> = Vec::new();
            for holding in &table.holds {
                let Some(rows) = self.gains.remove(&(*holding, uuid)) else {
                    continue;
                };
                // Several holdings may be of one column.
                let resolved = self.layout.holding(*holding);
                let name = resolved.spec.column;
                let mut columns = table.columns.iter();
                let place = columns.position(|(column, ..)| *column == name);
                let known = match place {
                    Some(place) => Some(&mut data[place]),
                    None => references
                        .iter_mut()
                        .find(|(column, ..)| *column == name)
                        .map(|(.., gained)| gained),
                };
                match known {
                    Some(gained) => add_members(gained, rows),
                    None => {
                        references.push((name, resolved.column, Datum::Set(Set::from_vec(rows))));
                    }
                }
            }
            let columns =
                table.columns.iter().zip(data).map(|((name, id, _), value)| (*name, *id, value));
            if let Some(id) = table.id {
                let values = columns.chain(references);
                self.txn.insert_reserved(uuid, id, values)?;
            } else {
                // The builder finds the words for it.
                let values = columns.map(|(name, _, value)| (name, value));
                self.txn.insert_row(table.name, values).map(drop)?;
            }
        }
        self.write_references()
    }

    /// Puts changed references into the transaction. It fails as a whole if a row that gains one is
    /// gone by then: what was to be attached to it would silently be lost.
    fn write_references(&mut self) -> Result<(), PlanError> {
        for ((holding, holder), lost) in std::mem::take(&mut self.losses) {
            if self.dissolved.contains(&holder) {
                continue;
            }
            let spec = self.layout.holding(holding).spec;
            let table = self.layout.table(spec.holder).name;
            let lost = Datum::Set(Set::from_vec(lost));
            self.txn.mutate_row(table, holder, spec.column, Mutator::Delete, lost)?;
            self.changed.insert(holder);
        }
        for ((holding, holder), gained) in std::mem::take(&mut self.gains) {
            let resolved = self.layout.holding(holding);
            let table = self.layout.table(resolved.spec.holder).name;
            self.expect(resolved.spec.holder, holder)?;
            let gained = Datum::Set(Set::from_vec(gained));
            let column = resolved.spec.column;
            if resolved.is_single {
                self.txn.set_row(table, holder, [(column, gained)])?;
            } else {
                self.txn.mutate_row(table, holder, column, Mutator::Insert, gained)?;
            }
            self.changed.insert(holder);
        }
        Ok(())
    }

    /// Makes the transaction fail unless a row is there.
    fn expect(&mut self, table: TablePlace, row: Uuid) -> Result<(), PlanError> {
        let resolved = self.layout.table(table);
        let there = resolved.id.and_then(|id| self.snapshot.row(id, row));
        let columns = resolved.columns.iter();
        let values = columns.filter_map(|(name, id, rule)| {
            let value = there?.values.get((*id)?)?;
            (*rule != Rule::Leave).then(|| (*name, value.clone()))
        });
        // A name hardly ever changes: whatever else changes meanwhile does no harm.
        if let Some(value) = values.min_by_key(|(name, _)| *name != "name") {
            self.txn.expect_row(resolved.name, row, [value])?;
        }
        Ok(())
    }

    /// The transaction, unless there is nothing to do.
    fn finish(mut self, comment: &str) -> Change {
        if self.txn.is_empty() {
            return Change::default();
        }
        self.txn.comment(comment);
        Change {
            counts: Counts {
                inserted: self.inserted,
                changed: self.changed.len(),
                deleted: self.deleted.len(),
            },
            transaction: Some(self.txn.finish()),
            more: false,
        }
    }
}

/// Adds references to the column of a new row.
fn add_members(column: &mut Datum, members: Vec<Atom>) {
    if let Datum::Set(known) = column {
        let all = known.iter().cloned().chain(members);
        *column = Datum::Set(all.collect());
    }
}
