//! The controllers of a zone, and what they read.

use patchbay_connects::ZoneController;
use patchbay_egress::EgressController;
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::Transaction;
use patchbay_networks::NetworkController;
use patchbay_pods::{AllocationScope, PodAllocator, PodController};
use patchbay_policies::PolicyController;
use patchbay_policies::admin::AdminPolicyController;
use patchbay_rows::PlanError;
use patchbay_schemas::uuids::UuidSource;
use patchbay_services::ServiceController;
use patchbay_zone::ZoneObjects;

use super::connects;

/// The controllers, in the order in which they plan.
pub(super) struct Controllers {
    pub(super) networks: NetworkController,
    pub(super) pods: PodController,
    pub(super) addresses: PodAllocator,
    pub(super) policies: PolicyController,
    pub(super) admin_policies: AdminPolicyController,
    pub(super) services: ServiceController,
    pub(super) egress: EgressController,
    pub(super) connects: ZoneController,
}

/// Inputs of the controllers.
pub(super) struct Inputs {
    pub(super) objects: ZoneObjects,
    pub(super) connects: patchbay_connects::Inputs,
}

impl Controllers {
    pub(super) fn new(seed: u64) -> Self {
        // Rows of one table must not get the same UUIDs.
        let mut seeds = UuidSource::seeded(seed);
        let mut uuids = || UuidSource::seeded(seeds.next_uuid().as_u64_pair().0);
        Self {
            networks: NetworkController::new(uuids()),
            pods: PodController::new(uuids()),
            addresses: PodAllocator::new(AllocationScope::Zone),
            policies: PolicyController::new(uuids()),
            admin_policies: AdminPolicyController::new(uuids()),
            services: ServiceController::new(uuids()),
            egress: EgressController::new(uuids()),
            connects: ZoneController::default(),
        }
    }

    /// The first transaction that one of the controllers wants.
    pub(super) fn plan(
        &mut self,
        inputs: &Inputs,
        snapshot: &Snapshot,
    ) -> Result<Option<Transaction>, String> {
        let planned = self.plan_objects(inputs, snapshot);
        match planned.map_err(|error| error.to_string())? {
            Some(transaction) => Ok(Some(transaction)),
            None => connects::plan(&mut self.connects, &inputs.connects, snapshot),
        }
    }

    fn plan_objects(
        &mut self,
        inputs: &Inputs,
        snapshot: &Snapshot,
    ) -> Result<Option<Transaction>, PlanError> {
        let plan = self.networks.plan(&inputs.objects, snapshot)?;
        if plan.transaction.is_some() {
            return Ok(plan.transaction);
        }
        let plan = self.pods.plan(&inputs.objects, snapshot)?;
        if plan.transaction.is_some() {
            return Ok(plan.transaction);
        }
        let plan = self.policies.plan(&inputs.objects, snapshot)?;
        if plan.transaction.is_some() {
            return Ok(plan.transaction);
        }
        let plan = self.admin_policies.plan(&inputs.objects, snapshot)?;
        if plan.transaction.is_some() {
            return Ok(plan.transaction);
        }
        let plan = self.egress.plan(&inputs.objects, snapshot)?;
        if plan.transaction.is_some() {
            return Ok(plan.transaction);
        }
        let plan = self.services.plan(&inputs.objects, snapshot)?;
        Ok(plan.transaction)
    }
}
