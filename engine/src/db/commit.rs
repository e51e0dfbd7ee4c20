//! What happens between the last operation and the new snapshot.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, DatabaseSchema, RefType, TableId};
use patchbay_schemas::uuids::UuidSource;
use uuid::Uuid;

use super::change::{ChangeSet, RowChange};
use super::index::Index;
use super::overlay::{Overlay, Touched, TouchedRows};
use super::references::{ReferenceColumn, ReferenceColumns, References, RowId, StrongDeltas};

type RowMap<V> = HashMap<RowId, V, RandomState>;

/// Checks a transaction's constraints in ovsdb-server's order and turns its overlay into changes.
pub(super) struct Commit<'a, 'o> {
    pub(super) schema: &'a DatabaseSchema,
    pub(super) columns: &'a ReferenceColumns,
    pub(super) references: &'a References,
    pub(super) overlay: &'o mut Overlay<'a>,
    /// Strong references that rows gained or lost which the transaction had not touched itself by then; those of the
    /// others are counted where they are.
    strong: RowMap<i64>,
}

impl<'a, 'o> Commit<'a, 'o> {
    pub(super) fn new(
        schema: &'a DatabaseSchema,
        columns: &'a ReferenceColumns,
        references: &'a References,
        overlay: &'o mut Overlay<'a>,
    ) -> Self {
        Self {
            schema,
            columns,
            references,
            overlay,
            strong: RowMap::default(),
        }
    }

    /// Runs all checks.
    ///
    /// # Errors
    /// The first violation.
    pub(super) fn check(&mut self) -> Result<(), OvsdbError> {
        self.drop_unchanged();
        if self.overlay.tables.iter().all(TouchedRows::is_empty) {
            return Ok(());
        }
        self.count_strong_references()?;
        self.collect_garbage();
        self.check_max_rows()?;
        // What a map loses with a weak key may have been the last strong reference to a row.
        while self.remove_dangling_weak_references()? {
            self.collect_garbage();
        }
        self.check_indexes()
    }

    /// The changes, with new versions. Call after [`check`](Self::check) succeeded.
    pub(super) fn into_changes(self, uuids: &mut UuidSource) -> (ChangeSet, StrongDeltas) {
        // Each row once: those that were touched after they had been counted come with their own counts.
        let mut deltas = StrongDeltas::new();
        for ((table, uuid), delta) in self.strong {
            match self.overlay.touched(table, uuid) {
                Some(touched) => touched.strong.update(|strong| strong + delta),
                None => deltas.push(((table, uuid), delta)),
            }
        }
        let mut rows = Vec::with_capacity(self.overlay.tables.iter().map(TouchedRows::len).sum());
        for (table, touched) in self.schema.table_ids().zip(self.overlay.tables.iter_mut()) {
            for (uuid, row) in touched.drain(..) {
                let Touched {
                    old,
                    mut new,
                    strong,
                } = row;
                if let (Some(_), Some(new)) = (&old, &mut new) {
                    Arc::make_mut(new).version = uuids.next_uuid();
                }
                if strong.get() != 0 {
                    deltas.push(((table, uuid), strong.get()));
                }
                rows.push(RowChange { table, old, new });
            }
        }
        (ChangeSet { rows }, deltas)
    }

    fn drop_unchanged(&mut self) {
        for touched in &mut self.overlay.tables {
            touched.retain(|_, row| match (&row.old, &row.new) {
                (Some(old), Some(new)) => old.values != new.values,
                _ => true,
            });
        }
    }

    fn count_strong_references(&mut self) -> Result<(), OvsdbError> {
        for table in self.schema.table_ids() {
            for reference in self.columns.of(table, RefType::Strong) {
                for (uuid, row) in &self.overlay.tables[table.index()] {
                    let mut missing = None;
                    reference.diff(row.old.as_deref(), row.new.as_deref(), |target, delta| {
                        if (reference.target, target) == (table, *uuid) {
                            return;
                        }
                        if let Some(touched) = self.overlay.touched(reference.target, target) {
                            touched.strong.update(|strong| strong + delta);
                            return;
                        }
                        if delta > 0 && self.overlay.base.row(reference.target, target).is_none() {
                            missing.get_or_insert(target);
                        }
                        *self.strong.entry((reference.target, target)).or_default() += delta;
                    });
                    if let Some(target) = missing {
                        let (table, target_table) = (
                            self.schema.table(table),
                            self.schema.table(reference.target),
                        );
                        return Err(OvsdbError::new(
                            "referential integrity violation",
                            format!(
                                "Table {} column {} row {uuid} references nonexistent row {target} in table {}.",
                                table.name,
                                table.column_name(reference.column),
                                target_table.name
                            ),
                        ));
                    }
                }
            }
        }
        for table in self.schema.table_ids() {
            let deleted = self.overlay.tables[table.index()]
                .iter()
                .filter(|(_, row)| row.new.is_none());
            for (uuid, _) in deleted {
                let remaining = self.strong_count((table, *uuid));
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

    fn strong_count(&self, row: RowId) -> i64 {
        let touched = self.overlay.touched(row.0, row.1);
        i64::from(self.references.strong_count(row))
            + touched.map_or(0, |touched| touched.strong.get())
            + self.strong.get(&row).copied().unwrap_or(0)
    }

    fn collect_garbage(&mut self) {
        let mut work: Vec<RowId> = Vec::new();
        for table in self
            .schema
            .table_ids()
            .filter(|table| !self.schema.table(*table).is_root)
        {
            let touched = self.overlay.tables[table.index()].iter();
            work.extend(
                touched
                    .filter(|(_, row)| row.new.is_some() && !row.is_new_and_referred_to())
                    .map(|(uuid, _)| (table, *uuid)),
            );
        }
        work.extend(
            self.strong
                .iter()
                .filter(|(_, delta)| **delta < 0)
                .map(|(row, _)| *row),
        );
        while let Some((table, uuid)) = work.pop() {
            if self.schema.table(table).is_root || self.strong_count((table, uuid)) > 0 {
                continue;
            }
            let Some(row) = self.overlay.get(table, uuid).cloned() else {
                continue;
            };
            self.overlay.delete(table, uuid);
            for reference in self.columns.of(table, RefType::Strong) {
                reference.diff(Some(&row), None, |target, delta| {
                    let target = (reference.target, target);
                    if target != (table, uuid) {
                        *self.strong.entry(target).or_default() += delta;
                        work.push(target);
                    }
                });
            }
        }
    }

    fn check_max_rows(&self) -> Result<(), OvsdbError> {
        for table in self
            .schema
            .table_ids()
            .filter(|table| !self.overlay.tables[table.index()].is_empty())
        {
            let (schema, rows) = (self.schema.table(table), self.overlay.len(table));
            if rows > schema.max_rows as usize {
                return Err(OvsdbError::constraint(format!(
                    "transaction causes \"{}\" table to contain {rows} rows, greater than the schema-defined limit of {} \
                     row(s)",
                    schema.name, schema.max_rows
                )));
            }
        }
        Ok(())
    }

    /// Whether strong references were lost on the way.
    fn remove_dangling_weak_references(&mut self) -> Result<bool, OvsdbError> {
        // Rows whose weak references must be looked at, with the targets that they are known to have lost.
        let mut suspects: RowMap<Vec<RowId>> = RowMap::default();
        for table in self.schema.table_ids() {
            for (uuid, row) in &self.overlay.tables[table.index()] {
                if let Some(row) = &row.new {
                    if self.columns.has_weak(table, row) {
                        suspects.entry((table, *uuid)).or_default();
                    }
                } else {
                    for referrer in self.references.weak_referrers((table, *uuid)) {
                        suspects.entry(referrer).or_default().push((table, *uuid));
                    }
                }
            }
        }
        let mut lost_strong = false;
        for ((table, uuid), lost) in suspects {
            for reference in self.columns.of(table, RefType::Weak) {
                let Some(row) = self.overlay.get(table, uuid) else {
                    continue;
                };
                let base = self.overlay.base.row(table, uuid);
                let gained = self.gained_nothing(reference, base.map(|row| &**row), row);
                let lost = lost
                    .iter()
                    .filter(|(table, _)| *table == reference.target)
                    .map(|(_, uuid)| *uuid);
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

    /// The targets of references that a row gained and that are not there.
    fn gained_nothing(
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

    /// Removes references to what is not there. Whether strong ones, in the other half of a map, went with them.
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
        let value = &mut row.values[reference.column];
        let removed = reference.remove(value, dangling);
        if value.len() >= schema.column_type(reference.column).min as usize {
            let mut lost_strong = false;
            if let (Some(partner), Some(before)) = (partner, before) {
                partner.diff(Some(&before), Some(row), |target, delta| {
                    let target = (partner.target, target);
                    if target != (table, uuid) {
                        *self.strong.entry(target).or_default() += delta;
                        lost_strong = true;
                    }
                });
            }
            return Ok(lost_strong);
        }
        let (column, table) = (schema.column_name(reference.column), &schema.name);
        Err(OvsdbError::constraint(
            if inserted && dangling.iter().any(Uuid::is_nil) {
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
                    if inserted {
                        "(inserted within this transaction) "
                    } else {
                        ""
                    }
                )
            },
        ))
    }

    fn check_indexes(&self) -> Result<(), OvsdbError> {
        for table in self.schema.table_ids() {
            let touched = &self.overlay.tables[table.index()];
            for index in &self.overlay.base.table(table).indexes {
                let mut keys: HashMap<Cow<'_, [Datum]>, Uuid, RandomState> =
                    HashMap::with_capacity_and_hasher(touched.len(), RandomState::default());
                for (uuid, row) in touched {
                    let Some(new) = &row.new else { continue };
                    let key = index.key(new);
                    let committed = index
                        .get(&key)
                        .filter(|other| self.keeps_key(table, *other, index));
                    let other = committed
                        .filter(|other| other != uuid)
                        .or_else(|| keys.get(&key).copied());
                    if let Some(other) = other {
                        return Err(self.index_violation(table, index, &key, *uuid, other));
                    }
                    keys.insert(key, *uuid);
                }
            }
        }
        Ok(())
    }

    /// Whether a committed row is still there with the same index key.
    fn keeps_key(&self, table: TableId, uuid: Uuid, index: &Index) -> bool {
        match self.overlay.tables[table.index()].get(&uuid) {
            None => true,
            Some(Touched {
                old: Some(old),
                new: Some(new),
                ..
            }) => index.same_key(old, new),
            Some(_) => false,
        }
    }

    fn index_violation(
        &self,
        table: TableId,
        index: &Index,
        key: &[Datum],
        first: Uuid,
        second: Uuid,
    ) -> OvsdbError {
        let schema = self.schema.table(table);
        let (first, second) = self.greater_first(table, first, second);
        let names: Vec<String> = index
            .columns
            .iter()
            .map(|column| format!("\"{}\"", schema.column_name(*column)))
            .collect();
        let plural = if names.len() > 1 { "columns" } else { "column" };
        OvsdbError::constraint(format!(
            "Transaction causes multiple rows in \"{}\" table to have identical values ({}) for index on {plural} {}.  \
             First row, with UUID {first}, {}  Second row, with UUID {second}, {}",
            schema.name,
            self.values(table, index, key),
            and(&names),
            self.provenance(table, index, first),
            self.provenance(table, index, second),
        ))
    }

    /// Two rows in the order in which ovsdb-server names them.
    fn greater_first(&self, table: TableId, a: Uuid, b: Uuid) -> (Uuid, Uuid) {
        let (Some(row), Some(other)) = (self.overlay.get(table, a), self.overlay.get(table, b))
        else {
            return (a, b);
        };
        let columns = self.schema.table(table).columns_in_hash_order();
        let orders = columns
            .iter()
            .map(|column| row.get(*column).cmp(&other.get(*column)));
        if orders.fold(Ordering::Equal, Ordering::then).is_lt() {
            (b, a)
        } else {
            (a, b)
        }
    }

    fn values(&self, table: TableId, index: &Index, key: &[Datum]) -> String {
        let schema = self.schema.table(table);
        let show = |(column, datum): (&ColumnId, &Datum)| {
            let ty = schema.column_type(*column);
            match datum {
                Datum::Set(set) if set.len() == 1 && ty.is_composite() => format!("[{datum}]"),
                _ => datum.to_string(),
            }
        };
        and(&index.columns.iter().zip(key).map(show).collect::<Vec<_>>())
    }

    fn provenance(&self, table: TableId, index: &Index, uuid: Uuid) -> String {
        const EXISTED: &str = "existed in the database before this transaction";
        match self.overlay.tables[table.index()].get(&uuid) {
            None => format!("{EXISTED} and was not modified by the transaction."),
            Some(Touched { old: None, .. }) => "was inserted by this transaction.".to_owned(),
            Some(Touched {
                old: Some(old),
                new: Some(new),
                ..
            }) if index.same_key(old, new) => format!(
                "{EXISTED}, which modified some of the row's columns but not any columns in this index."
            ),
            Some(Touched { old: Some(old), .. }) => format!(
                "had the following index values before the transaction: {}.",
                self.values(table, index, &index.key(old))
            ),
        }
    }
}

/// `a`, `a and b`, `a, b, and c`
fn and(parts: &[String]) -> String {
    match parts {
        [a, b] => format!("{a} and {b}"),
        parts => {
            let mut text = String::new();
            for (i, part) in parts.iter().enumerate() {
                let separator = if i == 0 {
                    ""
                } else if i + 1 == parts.len() {
                    ", and "
                } else {
                    ", "
                };
                let _ = write!(text, "{separator}{part}");
            }
            text
        }
    }
}
