//! Capabilities of the one database of all nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchbay_engine::db::Snapshot;
use patchbay_model::{CniConfig, Databases};
use patchbay_networks::{COPP, Topologies};
use patchbay_pods::Pods;
use patchbay_policies::Policies;
use patchbay_policies::admin::AdminPolicies;
use patchbay_resources::conversion::vpc_scene;
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::kube_ovn::{
    IP, OvnDnatRule, OvnEip, OvnFip, OvnSnatRule, ProviderNetwork, RouterLBRule, SecurityGroup,
    Subnet, SwitchLBRule, Vlan, Vpc,
};
use patchbay_resources::object::{EndpointSlice, Node, Object as _, Pod, Service};
use patchbay_rows::ObjectName;
use patchbay_schemas::nb::Copp;
use patchbay_schemas::uuids::UuidSource;
use patchbay_vpcs::{Vpcs, ZoneVpcs};

use super::capabilities::{Capabilities, rows};
use super::controllers::ZoneControllers;
use super::pass::Pass;
use super::{ZoneError, ZoneOutcome};
use crate::Cluster;
use crate::northbound::dynamic::DynNorthbound;

/// Kinds from which rows of VPCs follow. While one of them may lack an object, no row goes.
const KINDS: [&str; 17] = [
    ProviderNetwork::KIND,
    Vlan::KIND,
    Subnet::KIND,
    Vpc::KIND,
    OvnEip::KIND,
    OvnSnatRule::KIND,
    OvnDnatRule::KIND,
    OvnFip::KIND,
    IP::KIND,
    SwitchLBRule::KIND,
    RouterLBRule::KIND,
    SecurityGroup::KIND,
    Service::KIND,
    EndpointSlice::KIND,
    Node::KIND,
    Pod::KIND,
    NetworkAttachmentDefinition::KIND,
];

/// Capabilities of the one database of all nodes.
#[derive(Debug)]
pub(super) struct CentralControllers {
    vpcs: Capabilities<ZoneVpcs>,
    /// Networks and connects, in a zone of all nodes.
    zone: ZoneControllers,
}

impl CentralControllers {
    /// Capabilities that take the placeholders of new rows from `uuids`.
    pub(super) fn new(mut uuids: UuidSource) -> Self {
        let of_networks = vec![
            rows::<Topologies>(&mut uuids),
            rows::<Pods>(&mut uuids),
            rows::<Policies>(&mut uuids),
            rows::<AdminPolicies>(&mut uuids),
        ];
        Self {
            vpcs: Capabilities::new(vec![rows::<Vpcs>(&mut uuids)]),
            zone: ZoneControllers::new(Databases::CENTRAL.to_owned(), uuids, of_networks),
        }
    }

    /// Sets the objects of earlier passes, whose rows go if the objects are gone. `None`: all rows
    /// go that nothing wants.
    pub(super) fn set_recorded(&mut self, recorded: Option<Arc<BTreeSet<ObjectName>>>) {
        self.vpcs.set_recorded(recorded.clone());
        self.zone.set_recorded(recorded);
    }

    /// Makes the rows of VPCs, networks and connects what the objects of the cluster define. Each
    /// object of a VPC has its own transaction. Rows that refer to those of other objects follow in the next plan.
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
            let inputs = inputs(cluster);
            self.vpcs.commit(&mut pass, &inputs, cluster).await?;
            let mut outcome = if has_networks(cluster, &pass.northbound.snapshot()) {
                self.zone.commit(&mut pass, cluster).await?
            } else {
                ZoneOutcome::default()
            };
            // Routers of former VPCs go after the ports of connects.
            let problems = self.vpcs.commit(&mut pass, &inputs, cluster).await?;
            pass.end()?;
            outcome.problems.extend(problems);
            outcome.warnings.extend(pass.warnings);
            outcome.kept.extend(self.vpcs.kept());
            Ok(outcome)
        })
    }

    /// `true` if [`reconcile`](Self::reconcile) would commit nothing.
    pub(super) fn is_reconciled(&mut self, cluster: &Cluster, snapshot: &Snapshot) -> bool {
        let inputs = inputs(cluster);
        self.vpcs.is_reconciled(&inputs, cluster, snapshot)
            && (!has_networks(cluster, snapshot) || self.zone.is_reconciled(cluster, snapshot))
    }
}

/// `true` if there are networks or connects, or were: then the database has rows for all of them,
/// which VPCs do not need.
fn has_networks(cluster: &Cluster, snapshot: &Snapshot) -> bool {
    let inventory = &cluster.inventory;
    let is_network = |config: &str| !matches!(CniConfig::from_json(config), Ok(None));
    let definitions = inventory.network_attachment_definitions.iter();
    let mut configs = definitions.filter_map(|(_, nad)| nad.object.spec.config.as_deref());
    configs.any(is_network)
        || !inventory.user_defined_networks.is_empty()
        || !inventory.cluster_user_defined_networks.is_empty()
        || !inventory.cluster_network_connects.is_empty()
        || snapshot.typed::<Copp>().iter().flatten().any(|(_, copp)| copp.name == COPP)
}

fn inputs(cluster: &Cluster) -> ZoneVpcs {
    let inventory = &cluster.inventory;
    let scene = vpc_scene(inventory);
    let inputs = ZoneVpcs::new(&scene, inventory.lacks(&KINDS));
    if cluster.settings().is_northd_stock { inputs } else { inputs.with_fallback_routes(&scene) }
}
