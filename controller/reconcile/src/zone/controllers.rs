//! Controllers of one zone, and the transactions that they plan.
//!
//! They know the database as a [`DynNorthbound`], so that their code is compiled once, and not with
//! each program for each kind of database.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::SignedDuration;
use patchbay_connects::{Inputs, RowDifference, RowPurpose, ZoneController, ZonePlan};
use patchbay_egress::EgressController;
use patchbay_engine::db::Snapshot;
use patchbay_model::{NetworkActivity, RenderedNetworks, format_address};
use patchbay_networks::{
    NetworkController, SkippedNetwork, SkippedNetworks, has_waiting_rows, skipped_networks,
};
use patchbay_pods::PodController;
use patchbay_policies::PolicyController;
use patchbay_policies::admin::AdminPolicyController;
use patchbay_rows::{Change, KeptRow, ObjectName, Scope};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::nb::LogicalSwitchPort;
use patchbay_schemas::typed::TableRow as _;
use patchbay_schemas::uuids::UuidSource;
use patchbay_services::ServiceController;
use patchbay_zone::ZoneObjects;

use super::connects::commit_connects;
use super::held::HeldRows;
use super::pass::Pass;
use super::{ZoneError, ZoneOutcome};
use crate::Cluster;
use crate::activity::FollowedActivity;
use crate::northbound::dynamic::DynNorthbound;
use crate::zone_inputs::ZoneInputs;

/// Number of passes over the rows of networks of which some wait for others: address sets come
/// first, then the networks that refer to them, and then what refers to the networks' ports.
const NETWORK_PASSES: usize = 3;

/// Subject of errors and warnings about the rows of the networks.
const NETWORKS: &str = "networks";
/// Subject of errors and warnings about the rows of pods.
const PODS: &str = "pods";
/// Subject of errors and warnings about the rows of policies.
const POLICIES: &str = "policies";
/// Subject of errors and warnings about the rows of administrators' policies.
const ADMIN_POLICIES: &str = "policies of administrators";
/// Subject of errors and warnings about the rows of services.
const SERVICES: &str = "services";
/// Subject of errors and warnings about the rows of EgressIPs.
const EGRESS: &str = "EgressIPs";

/// Controllers of all capabilities in one zone, and what they remember between two passes.
#[derive(Debug)]
pub(super) struct ZoneControllers {
    zone: String,
    networks: NetworkController,
    pods: PodController,
    policies: PolicyController,
    admin_policies: AdminPolicyController,
    services: ServiceController,
    egress: EgressController,
    connects: ZoneController,
    activity: FollowedActivity,
    rendered: RenderedNetworks,
    /// On the heap, because futures hold them.
    inputs: Box<ZoneInputs>,
    skipped: SkippedNetworks,
    /// Objects of earlier passes. `None`: all rows go that nothing wants.
    recorded: Option<Arc<BTreeSet<ObjectName>>>,
    /// `true`: only the rows of connects are written.
    has_only_connects: bool,
}

impl ZoneControllers {
    /// Controllers of the zone of a node. `uuids` are the placeholders of new rows.
    pub(super) fn new(zone: String, mut uuids: UuidSource) -> Self {
        let (networks, services) = uuids.next_uuid().as_u64_pair();
        Self {
            zone,
            networks: NetworkController::new(UuidSource::seeded(networks)),
            pods: PodController::new(UuidSource::seeded(networks.wrapping_add(services))),
            policies: PolicyController::new(UuidSource::seeded(networks ^ services)),
            admin_policies: AdminPolicyController::new(UuidSource::seeded(
                networks.wrapping_sub(services),
            )),
            services: ServiceController::new(UuidSource::seeded(services)),
            egress: EgressController::new(UuidSource::seeded(networks.wrapping_mul(services))),
            connects: ZoneController::new(uuids),
            activity: FollowedActivity::default(),
            rendered: RenderedNetworks::default(),
            inputs: Box::default(),
            skipped: SkippedNetworks::default(),
            recorded: None,
            has_only_connects: false,
        }
    }

    /// Restricts the controllers to the rows of connects.
    pub(super) fn set_only_connects(&mut self) {
        self.has_only_connects = true;
    }

    /// Name of the zone.
    pub(super) fn zone(&self) -> &str {
        &self.zone
    }

    /// Sets the objects of earlier passes, whose rows go if the objects are gone. `None`: all rows
    /// go that nothing wants.
    pub(super) fn set_recorded(&mut self, recorded: Option<Arc<BTreeSet<ObjectName>>>) {
        self.recorded = recorded;
    }

    /// Sets which rows of all capabilities go, for the objects of a cluster. Returns the scope.
    fn set_scope(&mut self, cluster: &Cluster) -> Option<Scope> {
        let scope = self.recorded.clone().map(|recorded| Scope {
            named: cluster.object_names(),
            recorded,
            members: Arc::default(),
        });
        let shared = scope.clone().map(Arc::new);
        self.networks.set_scope(shared.clone());
        self.pods.set_scope(shared.clone());
        self.services.set_scope(shared.clone());
        self.connects.set_scope(shared);
        scope
    }

    /// Sets which rows of policies and EgressIPs go. Ports of pods that stay are members of port
    /// groups for as long, and their addresses are members of address sets.
    fn set_policy_scope(&mut self, scope: Option<Scope>, snapshot: &Snapshot) {
        let scope = scope.map(|scope| {
            let members = port_members(self.pods.kept(), snapshot);
            Arc::new(Scope {
                members: Arc::new(members),
                ..scope
            })
        });
        self.policies.set_scope(scope.clone());
        self.admin_policies.set_scope(scope.clone());
        self.egress.set_scope(scope);
    }

    /// Rows of objects that are neither in the cluster nor recorded, by object.
    fn kept(&self) -> Vec<KeptRow> {
        let networks = self.networks.kept().chain(self.pods.kept());
        let policies = self.policies.kept().chain(self.admin_policies.kept());
        let others = self.services.kept().chain(self.egress.kept());
        let kept = networks.chain(policies).chain(others);
        let mut kept: Vec<KeptRow> = kept.chain(self.connects.kept()).cloned().collect();
        kept.sort_by(|one, other| {
            let key = |row: &KeptRow| (row.object.clone(), row.table, row.row);
            key(one).cmp(&key(other))
        });
        kept
    }

    /// Makes the rows of networks, pods, policies, services, EgressIPs and connects what the
    /// objects of the cluster define. A rejected transaction is planned and committed again, at
    /// most three times. After a lost connection it is planned and committed again for as long as
    /// the database comes back within its time limit.
    ///
    /// # Errors
    /// A plan does not fit the database, or a transaction is not applied: see [`ZoneError`].
    /// Rejected rows do not stop those of other subjects. Applied transactions stay; the next pass
    /// completes them.
    pub(super) fn reconcile<'a>(
        &'a mut self,
        northbound: &'a mut dyn DynNorthbound,
        cluster: &'a Cluster,
    ) -> BoxFuture<'a, Result<ZoneOutcome, ZoneError>> {
        Box::pin(async move {
            let mut pass = Pass::new(northbound);
            let outcome = self.commit(&mut pass, cluster).await?;
            pass.end()?;
            Ok(ZoneOutcome {
                warnings: pass.warnings,
                ..outcome
            })
        })
    }

    /// [`reconcile`](Self::reconcile) with the rejected rows in [`ZoneOutcome::rejections`].
    ///
    /// # Errors
    /// The database cannot be used. Applied transactions stay; the next pass completes them.
    pub(super) fn reconcile_watched<'a>(
        &'a mut self,
        northbound: &'a mut dyn DynNorthbound,
        cluster: &'a Cluster,
    ) -> BoxFuture<'a, Result<ZoneOutcome, ZoneError>> {
        Box::pin(async move {
            let mut pass = Pass::new(northbound);
            let outcome = self.commit(&mut pass, cluster).await?;
            Ok(ZoneOutcome {
                warnings: pass.warnings,
                rejections: pass.errors,
                ..outcome
            })
        })
    }

    /// Commits the rows of all capabilities that are written.
    async fn commit(
        &mut self,
        pass: &mut Pass<'_>,
        cluster: &Cluster,
    ) -> Result<ZoneOutcome, ZoneError> {
        let mut outcome = if self.has_only_connects {
            ZoneOutcome::default()
        } else {
            self.commit_objects(pass, cluster).await?
        };
        if !HeldRows::of(cluster).has_connects() {
            let activity = self.network_activity(cluster);
            let inputs = cluster.inputs(&self.zone, activity.as_ref());
            commit_connects(&mut self.connects, pass, &inputs, &mut outcome).await?;
        }
        outcome.next_removal = self.rendered.next_removal(grace_period(cluster));
        outcome.kept = self.kept();
        Ok(outcome)
    }

    async fn commit_objects(
        &mut self,
        pass: &mut Pass<'_>,
        cluster: &Cluster,
    ) -> Result<ZoneOutcome, ZoneError> {
        self.update_inputs(cluster);
        // If this future is dropped, the next pass reads the objects from nothing.
        let inputs = std::mem::take(&mut self.inputs);
        let outcome = self.commit_inputs(pass, &inputs, cluster).await;
        self.inputs = inputs;
        outcome
    }

    /// Inputs of the pods' rows. `None`: the objects contain no pods, and specify nothing about the
    /// ports of pods that are there.
    pub(super) fn pods(&mut self, cluster: &Cluster) -> Option<&ZoneObjects> {
        self.update_inputs(cluster);
        self.inputs.has_pods.then_some(&self.inputs.objects)
    }

    fn update_inputs(&mut self, cluster: &Cluster) {
        let activity = self.network_activity(cluster);
        self.inputs.update(cluster, &self.zone, activity);
    }

    /// Commits the rows of all inputs.
    async fn commit_inputs(
        &mut self,
        pass: &mut Pass<'_>,
        inputs: &ZoneInputs,
        cluster: &Cluster,
    ) -> Result<ZoneOutcome, ZoneError> {
        let held = HeldRows::of(cluster);
        let scope = self.set_scope(cluster);
        if !held.has_networks() {
            self.commit_networks(pass, &inputs.objects).await?;
        }
        let zone_pods = Some(&inputs.objects).filter(|_| inputs.has_pods && !held.has_pods());
        let policies = Some(&inputs.objects).filter(|_| inputs.has_policies && !held.has_pods());
        let mut committed_pods = None;
        if let Some(pods) = zone_pods {
            let mut plan = |snapshot: &Snapshot| self.pods.plan(pods, snapshot);
            committed_pods = pass.commit(PODS, &mut plan).await?.then_some(pods);
        }
        self.set_policy_scope(scope, &pass.northbound.snapshot());
        let mut policy_problems = Vec::new();
        if let Some(policies) = policies {
            let mut plan = |snapshot: &Snapshot| self.policies.plan(policies, snapshot);
            pass.commit(POLICIES, &mut plan).await?;
            // New ports have waited for the policies' port groups.
            if let Some(pods) = committed_pods {
                let mut plan = |snapshot: &Snapshot| self.pods.plan(pods, snapshot);
                pass.commit(PODS, &mut plan).await?;
            }
            policy_problems = self.policies.problems(policies);
        }
        if !held.has_admin_policies() {
            let admin_policies = &inputs.objects;
            let mut plan = |snapshot: &Snapshot| self.admin_policies.plan(admin_policies, snapshot);
            pass.commit(ADMIN_POLICIES, &mut plan).await?;
            policy_problems.extend(self.admin_policies.problems(admin_policies));
        }
        if !held.has_services() {
            let mut plan = |snapshot: &Snapshot| self.services.plan(&inputs.objects, snapshot);
            pass.commit(SERVICES, &mut plan).await?;
        }
        let mut egress_problems = Vec::new();
        if !held.has_egress() {
            let egress = &inputs.objects;
            let mut plan = |snapshot: &Snapshot| self.egress.plan(egress, snapshot);
            pass.commit(EGRESS, &mut plan).await?;
            egress_problems = self.egress.problems(egress);
        }
        let pod_problems = self.pods.problems().filter(|_| zone_pods.is_some());
        let problems = self.services.problems();
        Ok(ZoneOutcome {
            skipped_networks: self.skipped.update(&inputs.objects),
            pod_problems: pod_problems
                .map(|(pod, problem)| (pod.clone(), problem.clone()))
                .collect(),
            policy_problems,
            egress_problems,
            service_problems: problems
                .map(|(service, problem)| (service.clone(), problem.clone()))
                .collect(),
            ..ZoneOutcome::default()
        })
    }

    /// Makes only the rows of the networks what the objects of the cluster define. Returns the
    /// networks that have no rows of their own in the zone.
    ///
    /// # Errors
    /// As for [`reconcile`](Self::reconcile).
    pub(super) fn reconcile_networks<'a>(
        &'a mut self,
        northbound: &'a mut dyn DynNorthbound,
        cluster: &'a Cluster,
    ) -> BoxFuture<'a, Result<Vec<SkippedNetwork>, ZoneError>> {
        Box::pin(async move {
            let activity = self.network_activity(cluster);
            let inputs = ZoneInputs::read(cluster, &self.zone, activity);
            let mut pass = Pass::new(northbound);
            self.commit_networks(&mut pass, &inputs.objects).await?;
            pass.end()?;
            Ok(skipped_networks(&inputs.objects))
        })
    }

    /// Plans the rows of the connects for the present snapshot, and commits nothing.
    pub(super) fn plan_connects(&mut self, inputs: &Inputs, snapshot: &Snapshot) -> ZonePlan {
        self.connects.plan(inputs, snapshot)
    }

    /// Rows of connects that are not as the objects of the cluster define them, by connect.
    pub(super) fn connect_differences(
        &mut self,
        cluster: &Cluster,
        snapshot: &Snapshot,
    ) -> BTreeMap<String, Vec<(RowPurpose, RowDifference)>> {
        let activity = self.network_activity(cluster);
        let inputs = cluster.inputs(&self.zone, activity.as_ref());
        self.connects.differences(&inputs, snapshot)
    }

    /// `true` if [`reconcile`](Self::reconcile) would commit nothing. Rows that objects hold back do
    /// not count.
    pub(super) fn is_reconciled(&mut self, cluster: &Cluster, snapshot: &Snapshot) -> bool {
        let activity = self.network_activity(cluster);
        let zone = self.zone.clone();
        let mut inputs = self.inputs.clone();
        inputs.update(cluster, &zone, activity.clone());
        self.set_scope(cluster);
        let (held, objects) = (HeldRows::of(cluster), &inputs.objects);
        let has_pods = inputs.has_pods && !held.has_pods();
        let has_policies = inputs.has_policies && !held.has_pods();
        (held.has_networks() || is_empty(self.networks.plan(objects, snapshot)))
            && (!has_pods || is_empty(self.pods.plan(objects, snapshot)))
            && (!has_policies || is_empty(self.policies.plan(objects, snapshot)))
            && (held.has_admin_policies() || is_empty(self.admin_policies.plan(objects, snapshot)))
            && (held.has_egress() || is_empty(self.egress.plan(objects, snapshot)))
            && (held.has_services() || is_empty(self.services.plan(objects, snapshot)))
            && (held.has_connects()
                || self
                    .connects
                    .plan(&cluster.inputs(&zone, activity.as_ref()), snapshot)
                    .is_empty())
    }

    /// Nodes on which networks are rendered. `None`: all. A network that the zone has rendered
    /// stays for the grace period after its last user.
    fn network_activity(&mut self, cluster: &Cluster) -> Option<NetworkActivity> {
        let mut activity = self.activity.update(cluster)?;
        let grace_period = grace_period(cluster);
        let rendered = &mut self.rendered;
        rendered.update(&mut activity, &self.zone, grace_period, cluster.now());
        Some(activity)
    }

    /// Commits the rows of the networks.
    async fn commit_networks(
        &mut self,
        pass: &mut Pass<'_>,
        inputs: &ZoneObjects,
    ) -> Result<(), ZoneError> {
        let networks = &mut self.networks;
        let passes = if has_waiting_rows(inputs) {
            NETWORK_PASSES
        } else {
            1
        };
        for _ in 0..passes {
            let mut plan = |snapshot: &Snapshot| networks.plan(inputs, snapshot);
            if !pass.commit(NETWORKS, &mut plan).await? {
                break;
            }
        }
        Ok(())
    }
}

/// `true` if a plan fits the database and changes nothing.
fn is_empty<E>(plan: Result<Change, E>) -> bool {
    plan.is_ok_and(|change| change.transaction.is_none())
}

/// Ports of pods that stay, and their addresses.
fn port_members<'a>(
    kept: impl Iterator<Item = &'a KeptRow>,
    snapshot: &Snapshot,
) -> BTreeSet<Atom> {
    let ports = kept.filter(|row| row.table == LogicalSwitchPort::TABLE);
    let table = snapshot.schema().table_by_name(LogicalSwitchPort::TABLE);
    let mut members = BTreeSet::new();
    for port in ports {
        members.insert(Atom::Uuid(port.row));
        let row = table.and_then(|(id, table)| {
            let column = table.column_id(LogicalSwitchPort::ADDRESSES.name())?;
            snapshot.row(id, port.row)?.values.get(column)?.as_set()
        });
        let texts = row.into_iter().flatten().filter_map(Atom::as_str);
        let addresses = texts.flat_map(str::split_whitespace);
        let addresses = addresses.filter_map(|text| text.parse::<IpAddr>().ok());
        members.extend(addresses.map(|address| format_address(address).into()));
    }
    members
}

fn grace_period(cluster: &Cluster) -> SignedDuration {
    cluster.settings().udn_deletion_grace_period
}
