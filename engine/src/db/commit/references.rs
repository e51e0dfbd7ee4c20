//! Reference checks of a commit: strong references, garbage collection, weak references.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{RefType, TableId};
use rayon::prelude::*;
use uuid::Uuid;

use super::{Commit, StrongDeltas};
use crate::db::overlay::{TouchedRow, TouchedTable};
use crate::db::references::{ReferenceColumn, RowId};

/// Number of tasks among which the targets of a column's references are divided.
const TARGET_SHARES: u8 = 4;

impl Commit<'_, '_> {
    /// Counts the strong references that the touched rows gained and lost, and checks that each new
    /// one has a target. Returns the counts of rows outside the overlay.
    pub(super) fn count_strong_references(&self) -> Result<StrongDeltas, OvsdbError> {
        let mut outside = StrongDeltas::default();
        for (touched, reference) in self.strong_columns() {
            self.count_column(touched, reference, |_| true, &mut outside)?;
        }
        Ok(outside)
    }

    /// Counts like [`count_strong_references`](Self::count_strong_references), on several threads.
    ///
    /// One column of one row may refer to most rows of the transaction, so the targets are split,
    /// not the rows.
    pub(super) fn count_strong_references_in_parallel(&self) -> Result<StrongDeltas, OvsdbError> {
        let columns: Vec<_> = self.strong_columns().collect();
        let shares = columns
            .par_iter()
            .flat_map(|column| (0..TARGET_SHARES).into_par_iter().map(move |i| (column, i)));
        let counted: Option<Vec<StrongDeltas>> = shares
            .map(|((touched, reference), share)| {
                let mut outside = StrongDeltas::default();
                let is_own = |target: Uuid| target.as_bytes()[0] % TARGET_SHARES == share;
                let counted = self.count_column(touched, *reference, is_own, &mut outside);
                counted.ok().map(|()| outside)
            })
            .collect();
        let Some(counted) = counted else {
            // The first error in the order of the rows, not the first one that was found.
            return self.count_strong_references();
        };
        let mut sums = StrongDeltas::default();
        for (row, delta) in counted.into_iter().flatten() {
            *sums.entry(row).or_default() += delta;
        }
        Ok(sums)
    }

    /// Columns of touched tables that hold strong references.
    fn strong_columns(&self) -> impl Iterator<Item = (&TouchedTable, ReferenceColumn)> {
        let tables = self.overlay.tables.iter();
        tables.flat_map(|touched| {
            let columns = self.columns.of(touched.id, RefType::Strong);
            columns.map(move |reference| (touched, reference))
        })
    }

    /// Counts the references of one column to targets that are `counted`, in `outside` those to
    /// rows outside the overlay.
    fn count_column(
        &self,
        touched: &TouchedTable,
        reference: ReferenceColumn,
        counted: impl Fn(Uuid) -> bool,
        outside: &mut StrongDeltas,
    ) -> Result<(), OvsdbError> {
        for (uuid, row) in &touched.rows {
            let referrer = RowId::new(touched.id, *uuid);
            let mut missing = None;
            reference.diff(row.old.as_deref(), row.new.as_deref(), |target, delta| {
                let is_counted = counted(target);
                let target = RowId::new(reference.target, target);
                if !is_counted || target == referrer {
                    return;
                }
                if let Some(touched) = self.overlay.touched(target) {
                    touched.add_strong_delta(delta);
                    return;
                }
                if delta > 0 && self.overlay.base.row(target.table, target.uuid).is_none() {
                    missing.get_or_insert(target.uuid);
                }
                *outside.entry(target).or_default() += delta;
            });
            if let Some(target) = missing {
                return Err(self.missing_target_error(referrer, reference, target));
            }
        }
        Ok(())
    }

    fn missing_target_error(
        &self,
        row: RowId,
        reference: ReferenceColumn,
        target: Uuid,
    ) -> OvsdbError {
        let table = self.schema.table(row.table);
        let details = format!(
            "Table {} column {} row {} references nonexistent row {target} in table {}.",
            table.name,
            table.column_name(reference.column),
            row.uuid,
            self.schema.table(reference.target).name
        );
        OvsdbError::new("referential integrity violation", details)
    }

    /// Checks that no deleted row is still referred to.
    pub(super) fn check_deleted_rows(&self) -> Result<(), OvsdbError> {
        for TouchedTable { id: table, rows } in &self.overlay.tables {
            let table = *table;
            let deleted = rows.iter().filter(|(_, row)| row.new.is_none());
            for (uuid, _) in deleted {
                let remaining = self.strong_count(RowId::new(table, *uuid));
                if remaining > 0 {
                    let name = &self.schema.table(table).name;
                    return Err(OvsdbError::new(
                        "referential integrity violation",
                        format!(
                            "cannot delete {name} row {uuid} because of {remaining} remaining reference(s)"
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Number of strong references to a row after the transaction.
    fn strong_count(&self, row: RowId) -> i64 {
        let touched = self.overlay.touched(row);
        i64::from(self.references.strong_count(row))
            + touched.map_or(0, TouchedRow::strong_delta)
            + self.strong_deltas.get(&row).copied().unwrap_or(0)
    }

    /// Deletes rows of non-root tables without strong references, and rows that only they referred
    /// to.
    pub(super) fn collect_garbage(&mut self) {
        let mut candidates: Vec<RowId> = Vec::new();
        for TouchedTable { id: table, rows } in &self.overlay.tables {
            let table = *table;
            if self.schema.table(table).is_root {
                continue;
            }
            candidates.extend(
                rows.iter()
                    .filter(|(_, row)| row.new.is_some() && !row.is_new_and_referred_to())
                    .map(|(uuid, _)| RowId::new(table, *uuid)),
            );
        }
        candidates.extend(
            self.strong_deltas.iter().filter(|(_, delta)| **delta < 0).map(|(row, _)| *row),
        );
        while let Some(candidate) = candidates.pop() {
            let RowId { table, uuid } = candidate;
            if self.schema.table(table).is_root || self.strong_count(candidate) > 0 {
                continue;
            }
            let Some(row) = self.overlay.get(table, uuid).cloned() else {
                continue;
            };
            self.overlay.delete(table, uuid);
            self.has_changed_rows = true;
            for reference in self.columns.of(table, RefType::Strong) {
                reference.diff(Some(&row), None, |target, delta| {
                    let target = RowId::new(reference.target, target);
                    if target != candidate {
                        *self.strong_deltas.entry(target).or_default() += delta;
                        candidates.push(target);
                    }
                });
            }
        }
    }

    /// Removes weak references to rows that do not exist. Returns `true` if strong references went
    /// with them, as the values of map pairs.
    pub(super) fn remove_dangling_weak_references(&mut self) -> Result<bool, OvsdbError> {
        // Rows whose weak references must be checked, with the targets that they have lost for
        // certain.
        let mut suspects: HashMap<RowId, Vec<RowId>, RandomState> = HashMap::default();
        for TouchedTable { id: table, rows } in &self.overlay.tables {
            let table = *table;
            for (uuid, row) in rows {
                let id = RowId::new(table, *uuid);
                if let Some(row) = &row.new {
                    if self.columns.has_weak(table, row) {
                        suspects.entry(id).or_default();
                    }
                } else {
                    for referrer in self.references.weak_referrers(id) {
                        suspects.entry(referrer).or_default().push(id);
                    }
                }
            }
        }
        let mut lost_strong = false;
        for (suspect, lost) in suspects {
            let RowId { table, uuid } = suspect;
            for reference in self.columns.of(table, RefType::Weak) {
                let Some(row) = self.overlay.get(table, uuid) else {
                    continue;
                };
                let base = self.overlay.base.row(table, uuid);
                let gained = self.gained_dangling(reference, base.map(|row| &**row), row);
                let lost = lost
                    .iter()
                    .filter(|target| target.table == reference.target)
                    .map(|target| target.uuid);
                let mut dangling: Vec<Uuid> = gained.into_iter().chain(lost).collect();
                dangling.sort_unstable();
                dangling.dedup();
                if !dangling.is_empty() {
                    lost_strong |= self.remove_weak(table, uuid, reference, &dangling)?;
                }
            }
        }
        Ok(lost_strong)
    }

    /// Targets of references that a row gained and that do not exist.
    fn gained_dangling(
        &self,
        reference: ReferenceColumn,
        base: Option<&Row>,
        row: &Row,
    ) -> Vec<Uuid> {
        let mut dangling = Vec::new();
        reference.diff(base, Some(row), |target, delta| {
            if delta > 0 && self.overlay.get(reference.target, target).is_none() {
                dangling.push(target);
            }
        });
        dangling
    }

    /// Removes weak references to the rows `dangling` from a column. Returns `true` if strong
    /// references in the same map pairs were removed too.
    fn remove_weak(
        &mut self,
        table: TableId,
        uuid: Uuid,
        reference: ReferenceColumn,
        dangling: &[Uuid],
    ) -> Result<bool, OvsdbError> {
        let schema = self.schema.table(table);
        let inserted = self.overlay.base.row(table, uuid).is_none();
        let mut strong = self.columns.of(table, RefType::Strong);
        let partner = strong.find(|strong| strong.column == reference.column);
        let before = partner.and_then(|_| self.overlay.get(table, uuid).cloned());
        let Some(row) = self.overlay.modify(table, uuid) else {
            return Ok(false);
        };
        self.has_changed_rows = true;
        let value = &mut row.values[reference.column];
        let removed = reference.remove(value, dangling);
        if value.len() >= schema.column_type(reference.column).min as usize {
            let mut lost_strong = false;
            if let (Some(partner), Some(before)) = (partner, before) {
                partner.diff(Some(&before), Some(row), |target, delta| {
                    let target = RowId::new(partner.target, target);
                    if target != RowId::new(table, uuid) {
                        *self.strong_deltas.entry(target).or_default() += delta;
                        lost_strong = true;
                    }
                });
            }
            return Ok(lost_strong);
        }
        let (column, table) = (schema.column_name(reference.column), &schema.name);
        Err(OvsdbError::constraint(if inserted && dangling.iter().any(Uuid::is_nil) {
            format!(
                "Weak reference column \"{column}\" in \"{table}\" row {uuid} (inserted within this transaction) contained \
                 all-zeros UUID (probably as the default value for this column) but deleting this value caused a \
                 constraint volation because this column is not allowed to be empty."
            )
        } else {
            format!(
                "Deletion of {removed} weak reference(s) to deleted (or never-existing) rows from column \"{column}\" in \
                 \"{table}\" row {uuid} {}caused this column to become empty, but constraints on this column disallow an \
                 empty column.",
                if inserted { "(inserted within this transaction) " } else { "" }
            )
        }))
    }
}
