//! Rows that the connects of a scenario of networks want.

use patchbay_connects::ZoneController;
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::Transaction;
use patchbay_zone::ZoneObjects;

/// The first transaction that a connect wants.
pub(super) fn plan(
    controller: &mut ZoneController,
    objects: &ZoneObjects,
    snapshot: &Snapshot,
) -> Result<Option<Transaction>, String> {
    for connect in controller.plan(objects, snapshot).connects {
        let change = connect.change.map_err(|error| error.to_string())?;
        if change.transaction.is_some() {
            return Ok(change.transaction);
        }
    }
    Ok(None)
}
