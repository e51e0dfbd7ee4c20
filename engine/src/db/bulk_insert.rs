//! Execution of many inserts at once, the rows of each table in a task of their own.

use std::mem;
use std::sync::Arc;

use indexmap::map::Entry;
use patchbay_schemas::row::Row;
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{InsertRow, Operation};
use rayon::prelude::*;
use uuid::Uuid;

use super::execution::OperationResult;
use super::overlay::{Overlay, TouchedRow, TouchedTable};
use super::snapshot::Snapshot;

/// Row to be inserted.
struct NewRow<'t> {
    /// Position of the operation in the transaction.
    index: usize,
    uuid: Uuid,
    version: Uuid,
    row: &'t mut InsertRow,
}

/// Moves the rows of inserts into the overlay of a transaction, of which they are the first
/// operations, and appends their results.
///
/// Returns the position of the first insert whose UUID is taken. `results` has the results before
/// it, and the overlay is of no use any more.
pub(super) fn insert_rows(
    overlay: &mut Overlay<'_>,
    uuids: &mut UuidSource,
    inserts: &mut [Operation],
    results: &mut Vec<OperationResult>,
) -> Option<usize> {
    let mut by_table: Vec<Vec<NewRow<'_>>> = Vec::new();
    let count = inserts.len();
    for (index, operation) in inserts.iter_mut().enumerate() {
        if let Operation::Insert {
            table, uuid, row, ..
        } = operation
        {
            results.push(OperationResult::Inserted(*uuid));
            if by_table.len() <= table.index() {
                by_table.resize_with(table.index() + 1, Vec::new);
            }
            let rows = &mut by_table[table.index()];
            if rows.is_empty() {
                overlay.touch_table(*table);
                // Room that is not used takes no memory.
                rows.reserve_exact(count - index);
            }
            rows.push(NewRow {
                index,
                uuid: *uuid,
                version: uuids.next_uuid(),
                row,
            });
        }
    }
    let base = overlay.base;
    let tables = overlay.tables.iter_mut().filter_map(|touched| {
        let rows = by_table.get_mut(touched.id.index()).map(mem::take)?;
        Some((touched, rows))
    });
    let tables: Vec<_> = tables.collect();
    // A long transaction inserts into few tables, which must not be in one task.
    let taken = tables
        .into_par_iter()
        .with_max_len(1)
        .filter_map(|(touched, rows)| insert_into(touched, base, rows))
        .min();
    if let Some(index) = taken {
        results.truncate(index);
    }
    taken
}

/// Inserts rows of one table. Returns the position of the first insert whose UUID is taken.
fn insert_into(
    touched: &mut TouchedTable,
    base: &Snapshot,
    rows: Vec<NewRow<'_>>,
) -> Option<usize> {
    for new in rows {
        let Entry::Vacant(entry) = touched.rows.entry(new.uuid) else {
            return Some(new.index);
        };
        if base.row(touched.id, new.uuid).is_some() {
            return Some(new.index);
        }
        let row = Row {
            uuid: new.uuid,
            version: new.version,
            values: new.row.take_values(),
        };
        entry.insert(TouchedRow::new(None, Some(Arc::new(row))));
    }
    None
}
