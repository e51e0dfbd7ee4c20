//! Unique indexes at commit, with ovsdb-server's error texts.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt::Write as _;

use foldhash::fast::RandomState;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::{ColumnId, TableId};
use rayon::slice::ParallelSliceMut;
use uuid::Uuid;

use super::Commit;
use crate::db::overlay::{TouchedRow, TouchedRows, TouchedTable};
use crate::db::references::RowId;
use crate::db::snapshot::PARALLEL_MIN_CHANGES;
use crate::db::unique_index::{KeyHashes, UniqueIndex};

impl Commit<'_, '_> {
    /// Checks that no two rows have the same key of a unique index. Rows may swap keys. Returns the
    /// hashes of keys that it has computed.
    pub(super) fn check_unique_indexes(&self) -> Result<KeyHashes, OvsdbError> {
        let mut key_hashes = KeyHashes::default();
        for TouchedTable { id: table, rows: touched } in &self.overlay.tables {
            let table = *table;
            let indexes = &self.overlay.base.table(table).unique_indexes;
            for (place, index) in indexes.iter().enumerate() {
                if let Some(hashes) = hashes_of_distinct_keys(touched, index) {
                    key_hashes.push(table, place, hashes);
                    continue;
                }
                let mut keys: HashMap<Cow<'_, [Datum]>, Uuid, RandomState> =
                    HashMap::with_capacity_and_hasher(touched.len(), RandomState::default());
                for (uuid, row) in touched {
                    let Some(new) = &row.new else { continue };
                    let key = index.key(new);
                    let committed = index
                        .get(&key)
                        .map(|row| row.uuid)
                        .filter(|other| self.keeps_key(table, *other, index));
                    let other =
                        committed.filter(|other| other != uuid).or_else(|| keys.get(&key).copied());
                    if let Some(other) = other {
                        return Err(self.index_violation(table, index, &key, *uuid, other));
                    }
                    keys.insert(key, *uuid);
                }
            }
        }
        Ok(key_hashes)
    }

    /// `true` if a committed row still exists with the same index key.
    fn keeps_key(&self, table: TableId, uuid: Uuid, index: &UniqueIndex) -> bool {
        match self.overlay.touched(RowId::new(table, uuid)) {
            None => true,
            Some(TouchedRow { old: Some(old), new: Some(new), .. }) => index.has_same_key(old, new),
            Some(_) => false,
        }
    }

    fn index_violation(
        &self,
        table: TableId,
        index: &UniqueIndex,
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
            self.key_text(table, index, key),
            join_with_and(&names),
            self.provenance(table, index, first),
            self.provenance(table, index, second),
        ))
    }

    /// Orders two rows as ovsdb-server does in the error: the greater one comes first.
    fn greater_first(&self, table: TableId, a: Uuid, b: Uuid) -> (Uuid, Uuid) {
        let (Some(row), Some(other)) = (self.overlay.get(table, a), self.overlay.get(table, b))
        else {
            return (a, b);
        };
        let columns = self.schema.table(table).columns_in_hash_order();
        let orders = columns.iter().map(|column| row.get(*column).cmp(&other.get(*column)));
        if orders.fold(Ordering::Equal, Ordering::then).is_lt() { (b, a) } else { (a, b) }
    }

    /// Text of an index key.
    fn key_text(&self, table: TableId, index: &UniqueIndex, key: &[Datum]) -> String {
        let schema = self.schema.table(table);
        let show =
            |(column, datum): (&ColumnId, &Datum)| schema.column_type(*column).to_text(datum);
        join_with_and(&index.columns.iter().zip(key).map(show).collect::<Vec<_>>())
    }

    /// Text that describes how the transaction changed a row.
    fn provenance(&self, table: TableId, index: &UniqueIndex, uuid: Uuid) -> String {
        const EXISTED: &str = "existed in the database before this transaction";
        match self.overlay.touched(RowId::new(table, uuid)) {
            None => format!("{EXISTED} and was not modified by the transaction."),
            Some(TouchedRow { old: None, .. }) => "was inserted by this transaction.".to_owned(),
            Some(TouchedRow { old: Some(old), new: Some(new), .. })
                if index.has_same_key(old, new) =>
            {
                format!(
                    "{EXISTED}, which modified some of the row's columns but not any columns in this index."
                )
            }
            Some(TouchedRow { old: Some(old), .. }) => format!(
                "had the following index values before the transaction: {}.",
                self.key_text(table, index, &index.key(old))
            ),
        }
    }
}

/// The hashes of the keys of rows, in their order, if a long transaction inserts the first rows of
/// their table and all keys differ. `None`: the keys have to be compared.
///
/// Sorting hashes takes less time and memory than a table of the keys.
fn hashes_of_distinct_keys(touched: &TouchedRows, index: &UniqueIndex) -> Option<Vec<u64>> {
    if touched.len() < PARALLEL_MIN_CHANGES || !index.is_empty() {
        return None;
    }
    let new = touched.values().filter_map(|row| row.new.as_deref());
    let hashes: Vec<u64> = new.map(|row| index.key_hash(row)).collect();
    let mut sorted = hashes.clone();
    sorted.par_sort_unstable();
    let is_distinct = sorted.windows(2).all(|pair| pair[0] != pair[1]);
    is_distinct.then_some(hashes)
}

/// Joins parts as ovsdb-server does: `a`, `a and b`, `a, b, and c`.
fn join_with_and(parts: &[String]) -> String {
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
