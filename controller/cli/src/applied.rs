//! Objects that were applied in each zone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_resources::manifests::Inventory;
use patchbay_resources::state::{StateError, StateFolder};
use patchbay_rows::ObjectName;

use super::args::Database;

/// Names of the objects that this process has applied, by zone. With a state folder, and a database
/// that stays, also those that earlier runs have.
#[derive(Debug, Default)]
pub(super) struct AppliedObjects(BTreeMap<String, Arc<BTreeSet<ObjectName>>>);

impl AppliedObjects {
    /// The objects that were applied in a zone before.
    pub(super) fn before(
        &mut self,
        zone: &str,
        folder: Option<&StateFolder>,
    ) -> Result<Arc<BTreeSet<ObjectName>>, StateError> {
        let known = self.0.entry(zone.to_owned()).or_default();
        if let Some(folder) = folder {
            let recorded = folder.applied(zone)?;
            let recorded = recorded.iter().map(|name| name.as_str().into());
            *known = Arc::new(recorded.collect());
        }
        Ok(known.clone())
    }

    /// Adds objects before rows are made for them.
    pub(super) fn add(
        &mut self,
        zone: &str,
        names: &BTreeSet<ObjectName>,
        folder: Option<&StateFolder>,
    ) -> Result<(), StateError> {
        let known = self.0.entry(zone.to_owned()).or_default();
        *known = Arc::new(known.union(names).cloned().collect());
        record(zone, known, folder)
    }

    /// Replaces the objects, after the rows of all others are deleted.
    pub(super) fn replace(
        &mut self,
        zone: &str,
        names: Arc<BTreeSet<ObjectName>>,
        folder: Option<&StateFolder>,
    ) -> Result<(), StateError> {
        record(zone, &names, folder)?;
        self.0.insert(zone.to_owned(), names);
        Ok(())
    }
}

fn record(
    zone: &str,
    names: &BTreeSet<ObjectName>,
    folder: Option<&StateFolder>,
) -> Result<(), StateError> {
    folder
        .map_or(Ok(()), |folder| folder.record_applied(zone, names.iter().map(ObjectName::as_str)))
}

/// The folder with the records of a database. `None`: an embedded database does not stay.
pub(super) fn record_folder<'a>(
    state: Option<&'a StateFolder>,
    database: &Database,
) -> Option<&'a StateFolder> {
    state.filter(|_| *database != Database::Embedded)
}

/// `true` if rows of objects that are gone may have stayed, because of objects that cannot be read.
pub(super) fn may_hold_rows(inventory: &Inventory) -> bool {
    !inventory.undecoded.is_empty() || !inventory.unlisted.is_empty()
}
