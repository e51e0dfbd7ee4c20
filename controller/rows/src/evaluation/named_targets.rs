//! Rows that others refer to by name.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;
use smol_str::SmolStr;

use crate::index::{Index, RowKey};
use crate::steps::Target;
use crate::table::TablePlace;

/// Rows that others refer to by name. Many rows have the same holder.
#[derive(Debug, Default)]
pub(super) struct NamedTargets {
    targets: HashMap<(TablePlace, SmolStr), (RowKey, Target), RandomState>,
    /// The last one. Rows that follow each other mostly have the same holder.
    last: Option<(TablePlace, SmolStr, (RowKey, Target))>,
}

impl NamedTargets {
    /// Row of a name: the one of the database, or a new one.
    pub(super) fn find<P: Clone + Eq + Hash>(
        &mut self,
        table: TablePlace,
        name: &SmolStr,
        index: &Index<P>,
    ) -> (RowKey, Target) {
        if let Some((of, last, target)) = &self.last
            && *of == table
            && last == name
        {
            return *target;
        }
        let target = self.targets.entry((table, name.clone()));
        let target = *target.or_insert_with(|| {
            let (key, row) = index.named(table, name);
            let target = row.map_or(Target::New(key), |row| Target::There(row.uuid));
            (key, target)
        });
        self.last = Some((table, name.clone(), target));
        target
    }
}
