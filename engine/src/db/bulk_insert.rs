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
use uuid::Uuid;

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

/// Insert whose UUID is taken.
pub(super) struct TakenUuid {
    /// Position of the operation in the transaction.
    pub(super) index: usize,
    pub(super) table: TableId,
    pub(super) uuid: Uuid,
    /// Text of the UUID in the operation. `None`: the operation has none.
    pub(super) given: Option<String>,
}

/// Rows and results of a block.
struct InsertedBlock {
    results: Vec<OperationResult>,
    /// Rows of each table, sorted by table.
    rows: Vec<(TableId, Vec<NewRow>)>,
    /// Texts of the UUIDs that inserts request, with the positions of the inserts.
    given: Vec<(usize, String)>,
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
/// # Errors
/// The first insert whose UUID is taken. The overlay is of no use any more, and `results` has results
/// of later inserts, too.
pub(super) fn insert_rows(
    overlay: &mut Overlay<'_>,
    uuids: &mut UuidSource,
    parts: Vec<Vec<Operation>>,
    results: &mut Vec<OperationResult>,
) -> Result<(), TakenUuid> {
    let mut start = 0;
    let parts: Vec<(usize, UuidSource, Vec<Operation>)> = parts
        .into_iter()
        .map(|inserts| {
            let part = (start, uuids.fork(), inserts);
            start += part.2.len();
            part
        })
        .collect();
    let blocks: Vec<Vec<InsertedBlock>> = parts
        .into_par_iter()
        .with_max_len(1)
        // The memory of a part is free for the tables when its rows have been made.
        .map(|(start, mut versions, mut inserts)| {
            let starts = (start..).step_by(BLOCK_OPERATIONS);
            let chunks = starts.zip(inserts.chunks_mut(BLOCK_OPERATIONS));
            let blocks: Vec<Block<'_>> = chunks
                .map(|(start, inserts)| Block { start, inserts, versions: versions.fork() })
                .collect();
            blocks.into_par_iter().map(Block::into_rows).collect()
        })
        .collect();
    let mut given = Vec::new();
    let mut by_table: BTreeMap<TableId, Vec<Vec<NewRow>>> = BTreeMap::new();
    for block in blocks.into_iter().flatten() {
        results.extend(block.results);
        given.extend(block.given);
        for (table, rows) in block.rows {
            by_table.entry(table).or_default().push(rows);
        }
    }
    for (table, rows) in &by_table {
        overlay.reserve(*table, rows.iter().map(Vec::len).sum());
    }
    let base = overlay.base;
    let tables: Vec<_> = overlay
        .tables
        .iter_mut()
        .filter_map(|touched| Some((by_table.remove(&touched.id)?, touched)))
        .collect();
    // A long transaction inserts into few tables, which must not be in one task.
    let taken = tables
        .into_par_iter()
        .with_max_len(1)
        .filter_map(|(rows, touched)| insert_into(touched, base, rows.into_iter().flatten()))
        .min_by_key(|(index, ..)| *index);
    let Some((index, table, uuid)) = taken else {
        return Ok(());
    };
    let given = given.into_iter().find(|(other, _)| *other == index);
    Err(TakenUuid { index, table, uuid, given: given.map(|(_, text)| text) })
}

impl Block<'_> {
    fn into_rows(mut self) -> InsertedBlock {
        let mut results = Vec::with_capacity(self.inserts.len());
        let mut rows: Vec<(TableId, Vec<NewRow>)> = Vec::new();
        let mut texts = Vec::new();
        for (index, operation) in (self.start..).zip(self.inserts) {
            let Operation::Insert { table, uuid, given, row } = operation else {
                continue;
            };
            texts.extend(given.take().map(|text| (index, text)));
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
        InsertedBlock { results, rows, given: texts }
    }
}

/// Inserts the rows of one table. Returns the first insert whose UUID is taken: its position, the
/// table and the UUID.
fn insert_into(
    touched: &mut TouchedTable,
    base: &Snapshot,
    rows: impl Iterator<Item = NewRow>,
) -> Option<(usize, TableId, Uuid)> {
    for NewRow { index, row } in rows {
        let uuid = row.uuid;
        let Entry::Vacant(entry) = touched.rows.entry(uuid) else {
            return Some((index, touched.id, uuid));
        };
        if base.row(touched.id, uuid).is_some() {
            return Some((index, touched.id, uuid));
        }
        entry.insert(TouchedRow::new(None, Some(row)));
    }
    None
}
