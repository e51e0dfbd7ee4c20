//! The changed rows of a zone, as `plan --rows` prints them.

use std::io::{self, Write};

use patchbay_changes::{ChangeKind, ChangedRow, MAX_ELEMENT_BYTES, Snapshots};
use patchbay_engine::db::RowChange;
use patchbay_model::printable::printable;
use patchbay_rows::KeptRow;
use serde::Serialize;

use super::kept::{KeptObject, by_object};

/// The rows that would change in one zone.
#[derive(Debug, Serialize)]
pub(super) struct ZoneChanges {
    zone: String,
    rows: Vec<ChangedRow>,
    /// Rows that stay although nothing wants them, because the manifests do not name their objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept: Vec<KeptObject>,
}

impl ZoneChanges {
    /// Collects changed rows, of one table if it is named.
    pub(super) fn new(
        zone: &str,
        snapshots: Snapshots<'_>,
        changes: &[RowChange],
        table: Option<&str>,
        kept: &[KeptRow],
    ) -> Self {
        let mut rows = snapshots.changed_rows(changes);
        rows.retain(|row| table.is_none_or(|table| row.table == table));
        Self { zone: zone.to_owned(), rows, kept: by_object(kept) }
    }

    /// Writes the rows. `verbs`: what happens to rows that come, change and go.
    pub(super) fn write(&self, output: &mut dyn Write, verbs: [&str; 3]) -> io::Result<()> {
        let [insert, change, delete] = verbs;
        let count = |kind| self.rows.iter().filter(|row| row.change == kind).count();
        writeln!(
            output,
            "# zone {}: rows {insert}: {}, {change}: {}, {delete}: {}",
            printable(&self.zone, MAX_ELEMENT_BYTES),
            count(ChangeKind::Insert),
            count(ChangeKind::Change),
            count(ChangeKind::Delete)
        )?;
        self.rows.iter().try_for_each(|row| write!(output, "{row}"))?;
        self.kept.iter().try_for_each(|object| {
            let text = object.to_string();
            writeln!(output, "= kept: {}", printable(&text, MAX_ELEMENT_BYTES))
        })
    }
}
