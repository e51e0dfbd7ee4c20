//! What a transaction that somebody else has executed does to a copy of the database.

use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{DecodedTransaction, Operation};

use super::change::{ChangeSet, RowChange};
use super::execute::{Access, Executor};
use super::overlay::{Overlay, Touched};
use super::snapshot::Snapshot;

impl Snapshot {
    /// The changes that operations make by themselves. Constraints are not looked at, and no row goes because nothing
    /// refers to it any more: whoever has executed the operations has done that. None when they fail on this copy.
    pub(crate) fn expected(&self, operations: Vec<Operation>) -> Option<ChangeSet> {
        let mut transaction = DecodedTransaction {
            total: operations.len(),
            operations,
            failure: None,
        };
        let mut overlay = Overlay::new(self);
        let (mut versions, access) = (UuidSource::seeded(0), Access::unrestricted());
        Executor::new(self.schema(), &mut overlay, &mut versions, &access)
            .run(&mut transaction, &mut Vec::new())
            .ok()?;
        let tables = self.schema().table_ids().zip(overlay.tables);
        let rows = tables.flat_map(|(table, touched)| {
            touched.into_values().filter_map(move |row| {
                let Touched { old, new, .. } = row;
                let same =
                    matches!((&old, &new), (Some(old), Some(new)) if old.values == new.values);
                (!same).then_some(RowChange { table, old, new })
            })
        });
        Some(ChangeSet {
            rows: rows.collect(),
        })
    }
}
