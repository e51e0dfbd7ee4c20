//! The capabilities of a zone, and what they read.

use patchbay_connects::ZoneController;
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::Transaction;
use patchbay_pods::{AllocationScope, PodAllocator};
use patchbay_reconcile::zone::capabilities;
use patchbay_schemas::uuids::UuidSource;
use patchbay_zone::{ZoneObjects, ZoneRows};

use super::connects;

/// The capabilities, in the order in which they plan.
pub(super) struct Controllers {
    pub(super) addresses: PodAllocator,
    capabilities: Vec<Box<dyn ZoneRows<ZoneObjects>>>,
    pub(super) connects: ZoneController,
}

impl Controllers {
    pub(super) fn new(seed: u64) -> Self {
        let mut uuids = UuidSource::seeded(seed);
        Self {
            addresses: PodAllocator::new(AllocationScope::Zone),
            capabilities: capabilities(&mut uuids),
            connects: ZoneController::default(),
        }
    }

    /// The first transaction that one of the capabilities wants.
    pub(super) fn plan(
        &mut self,
        inputs: &ZoneObjects,
        snapshot: &Snapshot,
    ) -> Result<Option<Transaction>, String> {
        for rows in &mut self.capabilities {
            for planned in rows.plan(inputs, snapshot) {
                let change = planned.change.map_err(|error| error.to_string())?;
                if change.transaction.is_some() {
                    return Ok(change.transaction);
                }
            }
        }
        connects::plan(&mut self.connects, inputs, snapshot)
    }
}
