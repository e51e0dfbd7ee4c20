//! Rows of objects that the manifests do not name, by object.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use patchbay_rows::{KeptRow, ObjectName};
use serde::Serialize;

use super::console::Console;
use super::failure::Failure;

/// Maximum number of tables in the text of an object, so that it is a line.
const MAX_LISTED_TABLES: usize = 2;

/// Rows of one object that the manifests do not name.
#[derive(Debug, Serialize)]
pub(super) struct KeptObject {
    object: String,
    /// Number of rows by table.
    rows: BTreeMap<&'static str, usize>,
}

impl KeptObject {
    /// Number of rows.
    pub(super) fn count(&self) -> usize {
        self.rows.values().sum()
    }
}

/// The object and its rows: `Pod blue/web: 2 rows (ACL 1, Logical_Switch_Port 1)`, or with many
/// tables `network blue: 62 rows in 14 tables`.
impl fmt::Display for KeptObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, tables) = (self.count(), &self.rows);
        write!(f, "{}: {count} {}", self.object, rows(count))?;
        if tables.len() > MAX_LISTED_TABLES {
            return write!(f, " in {} tables", tables.len());
        }
        let tables = tables.iter().map(|(table, count)| format!("{table} {count}"));
        write!(f, " ({})", tables.collect::<Vec<_>>().join(", "))
    }
}

/// `row` or `rows`.
pub(super) fn rows(count: usize) -> &'static str {
    if count == 1 { "row" } else { "rows" }
}

/// Rows by object.
pub(super) fn by_object(kept: &[KeptRow]) -> Vec<KeptObject> {
    let mut objects = BTreeMap::<&ObjectName, BTreeMap<&'static str, usize>>::new();
    for row in kept {
        let tables = objects.entry(&row.object).or_default();
        *tables.entry(row.table).or_default() += 1;
    }
    let objects =
        objects.into_iter().map(|(object, rows)| KeptObject { object: object.to_string(), rows });
    objects.collect()
}

/// Adds the rows of a zone to those of other zones.
pub(super) fn merge(known: &mut BTreeMap<String, KeptObject>, kept: &[KeptRow]) {
    for object in by_object(kept) {
        let entry = known.entry(object.object.clone());
        let all = entry
            .or_insert_with(|| KeptObject { object: object.object.clone(), rows: BTreeMap::new() });
        for (table, count) in object.rows {
            *all.rows.entry(table).or_default() += count;
        }
    }
}

/// Recorded objects, and those of these rows.
pub(super) fn with_objects(
    recorded: &BTreeSet<ObjectName>,
    kept: &[KeptRow],
) -> Arc<BTreeSet<ObjectName>> {
    let objects = kept.iter().map(|row| row.object.clone());
    Arc::new(recorded.iter().cloned().chain(objects).collect())
}

/// Names the objects whose rows stay in a zone, and the flag that deletes them.
pub(super) fn report(
    zone: &str,
    kept: &[KeptRow],
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    for object in by_object(kept) {
        let warning = format!("zone {zone}: kept, because the manifests do not name it: {object}");
        console.warn("objects that the manifests do not name", &warning)?;
    }
    if !kept.is_empty() {
        console.report("--prune deletes the rows of objects that the manifests do not name")?;
    }
    Ok(())
}
