//! The changed rows of a dry run, as `plan` prints them.

use std::fmt;

use patchbay_model::printable::printable;
use patchbay_reconcile::northbound::{DryRun, Northbound};
use patchbay_rows::KeptRow;
use serde::Serialize;

use super::kept::{KeptObject, by_object};
use super::row_changes::{ChangedRow, Kind, MAX_ELEMENT_BYTES, Snapshots};

/// The rows that would change in one zone.
#[derive(Debug, Serialize)]
pub(super) struct ZoneChanges {
    zone: String,
    rows: Vec<ChangedRow>,
    /// Rows that stay although nothing wants them, because the manifests do not name their objects.
    kept: Vec<KeptObject>,
}

impl ZoneChanges {
    /// Collects the rows that the transactions of the dry run have changed.
    pub(super) fn new(zone: &str, dry_run: &DryRun, kept: &[KeptRow]) -> Self {
        let snapshots = Snapshots { before: dry_run.original(), after: &dry_run.snapshot() };
        let changes = dry_run.changes();
        let rows = snapshots.changed_rows(&changes.rows);
        Self { zone: zone.to_owned(), rows, kept: by_object(kept) }
    }

    /// `true` if no row would change.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl fmt::Display for ZoneChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |kind| self.rows.iter().filter(|row| row.change == kind).count();
        writeln!(
            f,
            "# zone {}: rows to insert: {}, to change: {}, to delete: {}",
            printable(&self.zone, MAX_ELEMENT_BYTES),
            count(Kind::Insert),
            count(Kind::Change),
            count(Kind::Delete)
        )?;
        self.rows.iter().try_for_each(|row| row.fmt(f))?;
        self.kept.iter().try_for_each(|object| {
            let text = object.to_string();
            writeln!(f, "= kept: {}", printable(&text, MAX_ELEMENT_BYTES))
        })
    }
}
