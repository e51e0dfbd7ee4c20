//! Loading of rows into the processor's caches before they are encoded.

use std::hint::black_box;

use crate::datum::Datum;

use super::Row;

/// Reads the values of rows that are encoded next, so that the memory of all of them is loaded at
/// the same time.
///
/// Rows that are sorted by UUID lie in memory in no order, and the processor waits for each of
/// them. It loads several at a time if no load depends on another one. Give 16 rows or so: their
/// values have to stay in the first cache until they are encoded.
///
/// ```
/// use patchbay_schemas::nb;
/// use patchbay_schemas::row::{Row, load_ahead};
/// use uuid::Uuid;
///
/// let schema = nb::schema();
/// let (_, table) = schema.table_by_name("Logical_Switch").ok_or("known")?;
/// let rows = [Row::new(Uuid::nil(), table), Row::new(Uuid::max(), table)];
/// let mut json = Vec::new();
/// let name = table.column_id("name").ok_or("known")?;
/// load_ahead(rows.iter());
/// for row in &rows {
///     row.values[name].write_json(&mut json);
/// }
/// # Ok::<(), &str>(())
/// ```
pub fn load_ahead<'a>(rows: impl Iterator<Item = &'a Row> + Clone) {
    // Each loop reads what the one before it has found.
    let values = rows.clone().map(|row| row.values.stored().len());
    black_box(values.fold(0, usize::wrapping_add));
    let data = rows.flat_map(|row| row.values.stored());
    let maps = data.clone().map(|datum| usize::from(datum.is_map()));
    black_box(maps.fold(0, usize::wrapping_add));
    black_box(data.clone().map(Datum::len).fold(0, usize::wrapping_add));
    let texts = data.map(Datum::first_bytes);
    black_box(texts.fold(0, usize::wrapping_add));
}
