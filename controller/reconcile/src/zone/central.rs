//! Controllers of the one database of all nodes, and the transactions that they plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchbay_engine::db::Snapshot;
use patchbay_resources::conversion::vpc_scene;
use patchbay_resources::manifests::Inventory;
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::kube_ovn::{
    IP, OvnDnatRule, OvnEip, OvnFip, OvnSnatRule, ProviderNetwork, Subnet, Vlan, Vpc,
};
use patchbay_resources::object::{Node, Object as _, Pod};
use patchbay_rows::{ObjectName, Scope};
use patchbay_schemas::uuids::UuidSource;
use patchbay_vpcs::{VpcController, ZoneVpcs};

use super::pass::Pass;
use super::rows::{MAX_ATTEMPTS, applied_warning, wait_for_database, wait_for_outcome};
use super::{ZoneError, ZoneOutcome};
use crate::Cluster;
use crate::northbound::CommitError;
use crate::northbound::dynamic::DynNorthbound;

/// Kinds from which rows of VPCs follow. While one of them may lack an object, no row goes.
const KINDS: [&str; 12] = [
    ProviderNetwork::KIND,
    Vlan::KIND,
    Subnet::KIND,
    Vpc::KIND,
    OvnEip::KIND,
    OvnSnatRule::KIND,
    OvnDnatRule::KIND,
    OvnFip::KIND,
    IP::KIND,
    Node::KIND,
    Pod::KIND,
    NetworkAttachmentDefinition::KIND,
];

/// Controllers of all capabilities in the one database of all nodes.
#[derive(Debug)]
pub(super) struct CentralControllers {
    vpcs: VpcController,
    /// Objects of earlier passes. `None`: all rows go that nothing wants.
    recorded: Option<Arc<BTreeSet<ObjectName>>>,
}

/// Outcome of the commit of one plan.
#[derive(Default)]
struct Round {
    /// `true` if a transaction was applied, or its outcome is to be looked at.
    is_changed: bool,
    /// Errors about the rows of objects.
    errors: Vec<ZoneError>,
}

impl CentralControllers {
    /// Controllers that take the placeholders of new rows from `uuids`.
    pub(super) fn new(uuids: UuidSource) -> Self {
        Self {
            vpcs: VpcController::new(uuids),
            recorded: None,
        }
    }

    /// Sets the objects of earlier passes, whose rows go if the objects are gone. `None`: all rows
    /// go that nothing wants.
    pub(super) fn set_recorded(&mut self, recorded: Option<Arc<BTreeSet<ObjectName>>>) {
        self.recorded = recorded;
    }

    fn set_scope(&mut self, cluster: &Cluster) {
        let scope = self.recorded.clone().map(|recorded| Scope {
            named: cluster.object_names(),
            recorded,
            members: Arc::default(),
        });
        self.vpcs.set_scope(scope.map(Arc::new));
    }

    /// Makes the rows of VPCs what the objects of the cluster define. Each object has its own
    /// transaction. Rows that refer to those of other objects follow in the next plan.
    ///
    /// # Errors
    /// A plan does not fit the database, or a transaction is not applied: see [`ZoneError`].
    /// Rejected rows do not stop those of other objects.
    pub(super) fn reconcile<'a>(
        &'a mut self,
        northbound: &'a mut dyn DynNorthbound,
        cluster: &'a Cluster,
    ) -> BoxFuture<'a, Result<ZoneOutcome, ZoneError>> {
        Box::pin(async move {
            self.set_scope(cluster);
            let mut pass = Pass::new(northbound);
            let inputs = inputs(&cluster.inventory);
            self.commit(&mut pass, &inputs).await?;
            pass.end()?;
            Ok(ZoneOutcome {
                vpc_problems: self.vpcs.refused().collect(),
                warnings: pass.warnings,
                kept: self.vpcs.kept().cloned().collect(),
                ..ZoneOutcome::default()
            })
        })
    }

    async fn commit(&mut self, pass: &mut Pass<'_>, inputs: &ZoneVpcs) -> Result<(), ZoneError> {
        let mut attempt = 1;
        loop {
            let Round { is_changed, errors } = self.commit_round(pass, inputs).await?;
            if is_changed {
                continue;
            }
            if errors.is_empty() || attempt == MAX_ATTEMPTS {
                return errors.into_iter().try_for_each(|error| pass.keep(error));
            }
            for error in errors {
                tracing::info!(%error, attempt, "rows not committed, planning again");
            }
            attempt += 1;
        }
    }

    /// Commits the transactions of one plan.
    async fn commit_round(
        &mut self,
        pass: &mut Pass<'_>,
        inputs: &ZoneVpcs,
    ) -> Result<Round, ZoneError> {
        let mut round = Round::default();
        let plan = self.vpcs.plan(inputs, &pass.northbound.snapshot());
        for (part, change) in plan.changes {
            let subject = part.to_string();
            let transaction = match change {
                Ok(change) => change.transaction,
                Err(source) => {
                    round.errors.push(ZoneError::Plan { subject, source });
                    continue;
                }
            };
            let Some(transaction) = transaction else {
                continue;
            };
            match pass.northbound.commit(transaction).await {
                Ok(()) => round.is_changed = true,
                Err(CommitError::Unknown(reason)) => {
                    let waited = wait_for_outcome(pass.northbound, subject, &reason).await;
                    waited.or_else(|error| pass.keep(error))?;
                    let next = self.vpcs.plan(inputs, &pass.northbound.snapshot());
                    if !next.changes.contains_key(&part) {
                        let warning = applied_warning(&part.to_string(), &reason);
                        pass.warnings.push(warning);
                    }
                    round.is_changed = true;
                    return Ok(round);
                }
                Err(CommitError::NotSent(reason)) => {
                    let waited = wait_for_database(pass.northbound, subject, reason).await;
                    waited.or_else(|error| pass.keep(error))?;
                    round.is_changed = true;
                    return Ok(round);
                }
                Err(source) => {
                    let error = ZoneError::Commit { subject, source };
                    if error.is_of_rows() {
                        round.errors.push(error);
                    } else {
                        pass.keep(error)?;
                    }
                }
            }
        }
        Ok(round)
    }

    /// `true` if [`reconcile`](Self::reconcile) would commit nothing.
    pub(super) fn is_reconciled(&mut self, cluster: &Cluster, snapshot: &Snapshot) -> bool {
        self.set_scope(cluster);
        let plan = self.vpcs.plan(&inputs(&cluster.inventory), snapshot);
        plan.changes.is_empty()
    }
}

fn inputs(inventory: &Inventory) -> ZoneVpcs {
    ZoneVpcs::new(&vpc_scene(inventory), inventory.lacks(&KINDS))
}
