//! Commit of a transaction: the work between its last operation and the new snapshot.
//!
//! [`Commit::check`] runs the checks in ovsdb-server's order, because the first violation decides
//! the error that clients see.

mod references;
mod unique_indexes;

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::uuids::UuidSource;

use super::change::{ChangeSet, RowChange};
use super::overlay::{Overlay, TouchedRow};
use super::references::{ReferenceColumns, References, RowId};
use super::snapshot::PARALLEL_MIN_CHANGES;
use super::unique_index::KeyHashes;

/// Checks a transaction's constraints in ovsdb-server's order and turns its overlay into changes.
pub(super) struct Commit<'a, 'o> {
    schema: &'a DatabaseSchema,
    columns: &'a ReferenceColumns,
    references: &'a References,
    overlay: &'o mut Overlay<'a>,
    /// Changes of the numbers of strong references to rows outside the overlay. Rows in the overlay
    /// have theirs in [`TouchedRow::strong_delta`]. A row that entered the overlay later has both.
    strong_deltas: StrongDeltas,
    /// `true` if the checks have deleted or changed rows.
    has_changed_rows: bool,
    key_hashes: KeyHashes,
}

/// Changes of a transaction that may be committed.
pub(super) struct CheckedChanges {
    /// Changed rows, with new versions.
    pub(super) rows: ChangeSet,
    /// Changes of the numbers of strong references to rows, each row once.
    pub(super) strong_deltas: Vec<(RowId, i64)>,
    pub(super) key_hashes: KeyHashes,
}

/// Changes of the numbers of strong references to rows.
type StrongDeltas = HashMap<RowId, i64, RandomState>;

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
            strong_deltas: StrongDeltas::default(),
            has_changed_rows: false,
            key_hashes: KeyHashes::default(),
        }
    }

    /// Runs all checks, collects garbage and removes dangling weak references.
    ///
    /// # Errors
    /// The first violation of a constraint.
    pub(super) fn check(&mut self) -> Result<(), OvsdbError> {
        self.drop_unchanged();
        if self.overlay.tables.is_empty() {
            return Ok(());
        }
        // The keys of a long transaction are compared while its references are counted, although
        // errors of references come first.
        let (counted, unique) = if self.overlay.touched_count() < PARALLEL_MIN_CHANGES {
            (self.count_strong_references(), None)
        } else {
            let unique = || Some(self.check_unique_indexes());
            rayon::join(|| self.count_strong_references_in_parallel(), unique)
        };
        self.strong_deltas = counted?;
        self.check_deleted_rows()?;
        self.collect_garbage();
        self.check_max_rows()?;
        // A pair that a map loses with its weak key may hold the last strong reference to a row.
        while self.remove_dangling_weak_references()? {
            self.collect_garbage();
        }
        self.key_hashes = match unique {
            Some(checked) if !self.has_changed_rows => checked?,
            _ => self.check_unique_indexes()?,
        };
        Ok(())
    }

    /// Returns the changes. Call this after [`check`](Self::check) succeeded.
    pub(super) fn into_changes(self, uuids: &mut UuidSource) -> CheckedChanges {
        let count = self.overlay.touched_count();
        // Each row occurs once in the result, so the deltas of rows in the overlay are added up
        // first.
        let mut strong_deltas = Vec::with_capacity(count);
        for (row, delta) in self.strong_deltas {
            match self.overlay.touched(row) {
                Some(touched) => touched.add_strong_delta(delta),
                None => strong_deltas.push((row, delta)),
            }
        }
        let mut rows = Vec::with_capacity(count);
        for touched in &mut self.overlay.tables {
            let table = touched.id;
            for (uuid, row) in touched.rows.drain(..) {
                let strong_delta = row.strong_delta();
                let TouchedRow { old, mut new, .. } = row;
                if let (Some(_), Some(new)) = (&old, &mut new) {
                    Arc::make_mut(new).version = uuids.next_uuid();
                }
                if strong_delta != 0 {
                    strong_deltas.push((RowId::new(table, uuid), strong_delta));
                }
                rows.push(RowChange { table, old, new });
            }
        }
        CheckedChanges { rows: ChangeSet { rows }, strong_deltas, key_hashes: self.key_hashes }
    }

    /// Removes rows from the overlay whose values are as before the transaction.
    fn drop_unchanged(&mut self) {
        self.overlay.tables.retain_mut(|touched| {
            touched.rows.retain(|_, row| match (&row.old, &row.new) {
                (Some(old), Some(new)) => old.values != new.values,
                _ => true,
            });
            !touched.rows.is_empty()
        });
    }

    /// Checks the row limits of touched tables.
    fn check_max_rows(&self) -> Result<(), OvsdbError> {
        let touched = self.overlay.tables.iter();
        for table in touched.filter(|touched| !touched.rows.is_empty()).map(|touched| touched.id) {
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
}
