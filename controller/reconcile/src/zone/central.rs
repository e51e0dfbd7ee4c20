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
use patchbay_resources::manifests::{Inventory, InventoryKind};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::kube_ovn::{
    IP, IPPool, OvnDnatRule, OvnEip, OvnFip, OvnSnatRule, ProviderNetwork, RouterLBRule,
    SecurityGroup, Subnet, SwitchLBRule, Vip, Vlan, Vpc,
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
const KINDS: [&str; 19] = [
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
    Vip::KIND,
    IPPool::KIND,
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
    /// What follows from the objects of the last pass. `None`: there was none.
    followed: Option<Followed>,
}

/// Objects, and what follows from them.
#[derive(Debug)]
struct Followed {
    inventory: Inventory,
    is_northd_stock: bool,
    inputs: ZoneVpcs,
    /// `true`: an attachment definition is one of a network.
    has_definitions: bool,
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
            followed: None,
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
            let mut pass = Pass::new(northbound, self.zone.zone());
            let followed = Followed::of(cluster, self.followed.take());
            let Followed { inputs, has_definitions, .. } = self.followed.insert(followed);
            self.vpcs.commit(&mut pass, inputs, cluster).await?;
            let snapshot = pass.northbound.snapshot();
            let mut outcome = if *has_definitions || has_networks(cluster, &snapshot) {
                self.zone.commit(&mut pass, cluster).await?
            } else {
                ZoneOutcome::default()
            };
            // Routers of former VPCs go after the ports of connects.
            let problems = self.vpcs.commit(&mut pass, inputs, cluster).await?;
            pass.end()?;
            outcome.problems.extend(problems);
            outcome.warnings.extend(pass.warnings);
            outcome.kept.extend(self.vpcs.kept());
            Ok(outcome)
        })
    }

    /// `true` if [`reconcile`](Self::reconcile) would commit nothing.
    pub(super) fn is_reconciled(&mut self, cluster: &Cluster, snapshot: &Snapshot) -> bool {
        let followed = Followed::of(cluster, self.followed.take());
        let Followed { inputs, has_definitions, .. } = self.followed.insert(followed);
        self.vpcs.is_reconciled(inputs, cluster, snapshot)
            && (!*has_definitions && !has_networks(cluster, snapshot)
                || self.zone.is_reconciled(cluster, snapshot))
    }
}

impl Followed {
    /// What follows from the objects of a cluster. The last pass has it if no object has changed.
    fn of(cluster: &Cluster, last: Option<Self>) -> Self {
        let inventory = &cluster.inventory;
        let is_northd_stock = cluster.settings().is_northd_stock;
        let is_same = |last: &Self| {
            last.is_northd_stock == is_northd_stock && has_equal_kinds(&last.inventory, inventory)
        };
        if let Some(last) = last.filter(is_same) {
            return last;
        }
        let scene = vpc_scene(inventory);
        let inputs = ZoneVpcs::new(&scene, inventory.lacks(&KINDS));
        let inputs = if is_northd_stock { inputs } else { inputs.with_fallback_routes(&scene) };
        let is_network = |config: &str| !matches!(CniConfig::from_json(config), Ok(None));
        let definitions = inventory.network_attachment_definitions.iter();
        let mut configs = definitions.filter_map(|(_, nad)| nad.object.spec.config.as_deref());
        Self {
            has_definitions: configs.any(is_network),
            inventory: inventory.clone(),
            is_northd_stock,
            inputs,
        }
    }
}

/// `true` if the objects of [`KINDS`] are equal. What two inventories share is not compared.
fn has_equal_kinds(one: &Inventory, other: &Inventory) -> bool {
    fn is_same<T: InventoryKind + PartialEq>(one: &Inventory, other: &Inventory) -> bool {
        T::objects(one) == T::objects(other)
    }
    let kinds: [fn(&Inventory, &Inventory) -> bool; KINDS.len()] = [
        is_same::<ProviderNetwork>,
        is_same::<Vlan>,
        is_same::<Subnet>,
        is_same::<Vpc>,
        is_same::<OvnEip>,
        is_same::<OvnSnatRule>,
        is_same::<OvnDnatRule>,
        is_same::<OvnFip>,
        is_same::<IP>,
        is_same::<SwitchLBRule>,
        is_same::<RouterLBRule>,
        is_same::<SecurityGroup>,
        is_same::<Vip>,
        is_same::<IPPool>,
        is_same::<Service>,
        is_same::<EndpointSlice>,
        is_same::<Node>,
        is_same::<Pod>,
        is_same::<NetworkAttachmentDefinition>,
    ];
    kinds.iter().all(|is_same| is_same(one, other)) && one.lacks(&KINDS) == other.lacks(&KINDS)
}

/// `true` if there are custom resources of networks or connects, or were any networks: then the
/// database has rows for all of them, which VPCs do not need.
fn has_networks(cluster: &Cluster, snapshot: &Snapshot) -> bool {
    let inventory = &cluster.inventory;
    !inventory.user_defined_networks.is_empty()
        || !inventory.cluster_user_defined_networks.is_empty()
        || !inventory.cluster_network_connects.is_empty()
        || snapshot.typed::<Copp>().iter().flatten().any(|(_, copp)| copp.name == COPP)
}
