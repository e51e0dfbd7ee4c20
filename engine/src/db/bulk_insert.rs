//! Execution of many inserts at once, on several threads.
//!
//! The operations are split into blocks, and each block is turned into rows by a task of its own.
//! The rows of each table are then moved into the overlay, in the order of the operations.

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::map::Entry;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::TableId;
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::Operation;
use rayon::prelude::*;

use super::execution::OperationResult;
use super::overlay::{Overlay, TouchedRow, TouchedTable};
use super::snapshot::Snapshot;

/// Greatest number of operations in a block. A block takes a task about a tenth of a millisecond.
const BLOCK_OPERATIONS: usize = 1024;

/// Consecutive inserts.
struct Block<'o> {
    /// Position of the first one in the transaction.
    start: usize,
    inserts: &'o mut [Operation],
    /// Source of the versions of the rows.
    versions: UuidSource,
}

/// Rows and results of a block.
struct InsertedBlock {
    results: Vec<OperationResult>,
    /// Rows of each table, sorted by table.
    rows: Vec<(TableId, Vec<NewRow>)>,
}

/// Row to be inserted.
struct NewRow {
    /// Position of the operation in the transaction.
    index: usize,
    row: Arc<Row>,
}

/// Moves the rows of inserts into the overlay of a transaction, of which they are the first
/// operations, and appends their results.
///
/// Returns the position of the first insert whose UUID is taken. `results` has the results before
/// it, and the overlay is of no use any more.
pub(super) fn insert_rows<'o>(
    overlay: &mut Overlay<'_>,
    uuids: &mut UuidSource,
    inserts: impl Iterator<Item = &'o mut [Operation]>,
    results: &mut Vec<OperationResult>,
) -> Option<usize> {
    let mut start = 0;
    let blocks = inserts.flat_map(|part| part.chunks_mut(BLOCK_OPERATIONS));
    let blocks: Vec<Block<'_>> = blocks
        .map(|inserts| {
            let block = Block {
                start,
                versions: uuids.fork(),
                inserts,
            };
            start += block.inserts.len();
            block
        })
        .collect();
    let blocks: Vec<InsertedBlock> = blocks.into_par_iter().map(Block::into_rows).collect();
    let mut by_table: BTreeMap<TableId, Vec<Vec<NewRow>>> = BTreeMap::new();
    for block in blocks {
        results.extend(block.results);
        for (table, rows) in block.rows {
            by_table.entry(table).or_default().push(rows);
        }
    }
    for (table, rows) in &by_table {
        overlay.reserve(*table, rows.iter().map(Vec::len).sum());
    }
    let base = overlay.base;
    let tables = overlay.tables.iter_mut();
    let tables: Vec<_> = tables
        .filter_map(|touched| Some((by_table.remove(&touched.id)?, touched)))
        .collect();
    // A long transaction inserts into few tables, which must not be in one task.
    let taken = tables
        .into_par_iter()
        .with_max_len(1)
        .filter_map(|(rows, touched)| insert_into(touched, base, rows.into_iter().flatten()))
        .min();
    if let Some(index) = taken {
        results.truncate(index);
    }
    taken
}

impl Block<'_> {
    fn into_rows(mut self) -> InsertedBlock {
        let mut results = Vec::with_capacity(self.inserts.len());
        let mut rows: Vec<(TableId, Vec<NewRow>)> = Vec::new();
        for (index, operation) in (self.start..).zip(self.inserts) {
            let Operation::Insert {
                table, uuid, row, ..
            } = operation
            else {
                continue;
            };
            results.push(OperationResult::Inserted(*uuid));
            let place = match rows.binary_search_by_key(table, |(table, _)| *table) {
                Ok(place) => place,
                Err(place) => {
                    rows.insert(place, (*table, Vec::new()));
                    place
                }
            };
            let row = Arc::new(Row {
                uuid: *uuid,
                version: self.versions.next_uuid(),
                values: row.take_values(),
            });
            rows[place].1.push(NewRow { index, row });
        }
        InsertedBlock { results, rows }
    }
}

/// Inserts the rows of one table. Returns the position of the first insert whose UUID is taken.
fn insert_into(
    touched: &mut TouchedTable,
    base: &Snapshot,
    rows: impl Iterator<Item = NewRow>,
) -> Option<usize> {
    for NewRow { index, row } in rows {
        let uuid = row.uuid;
        let Entry::Vacant(entry) = touched.rows.entry(uuid) else {
            return Some(index);
        };
        if base.row(touched.id, uuid).is_some() {
            return Some(index);
        }
        entry.insert(TouchedRow::new(None, Some(row)));
    }
    None
}
