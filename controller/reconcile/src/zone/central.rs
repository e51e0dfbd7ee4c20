//! Capabilities of the one database of all nodes.

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
use patchbay_rows::ObjectName;
use patchbay_schemas::uuids::UuidSource;
use patchbay_vpcs::{Vpcs, ZoneVpcs};

use super::capabilities::{Capabilities, rows};
use super::pass::Pass;
use super::{ZoneError, ZoneOutcome};
use crate::Cluster;
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

/// Capabilities of the one database of all nodes.
#[derive(Debug)]
pub(super) struct CentralControllers(Capabilities<ZoneVpcs>);

impl CentralControllers {
    /// Capabilities that take the placeholders of new rows from `uuids`.
    pub(super) fn new(mut uuids: UuidSource) -> Self {
        Self(Capabilities::new(vec![rows::<Vpcs>(&mut uuids)]))
    }

    /// Sets the objects of earlier passes, whose rows go if the objects are gone. `None`: all rows
    /// go that nothing wants.
    pub(super) fn set_recorded(&mut self, recorded: Option<Arc<BTreeSet<ObjectName>>>) {
        self.0.set_recorded(recorded);
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
            let mut pass = Pass::new(northbound);
            let inputs = inputs(&cluster.inventory);
            let problems = self.0.commit(&mut pass, &inputs, cluster).await?;
            pass.end()?;
            Ok(ZoneOutcome {
                problems,
                warnings: pass.warnings,
                kept: self.0.kept().collect(),
                ..ZoneOutcome::default()
            })
        })
    }

    /// `true` if [`reconcile`](Self::reconcile) would commit nothing.
    pub(super) fn is_reconciled(&mut self, cluster: &Cluster, snapshot: &Snapshot) -> bool {
        let inputs = inputs(&cluster.inventory);
        self.0.is_reconciled(&inputs, cluster, snapshot)
    }
}

fn inputs(inventory: &Inventory) -> ZoneVpcs {
    ZoneVpcs::new(&vpc_scene(inventory), inventory.lacks(&KINDS))
}
