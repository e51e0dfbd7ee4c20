//! Controllers of one zone, and the transactions that they plan.
//!
//! They know the database as a [`DynNorthbound`], so that their code is compiled once, and not with
//! each program for each kind of database.

use futures_util::future::BoxFuture;
use jiff::SignedDuration;
use patchbay_connects::{Inputs, ZoneController, ZonePlan};
use patchbay_egress::{EgressController, ZoneEgress};
use patchbay_engine::db::Snapshot;
use patchbay_model::{NetworkActivity, RenderedNetworks};
use patchbay_networks::{NetworkController, SkippedNetwork, SkippedNetworks, ZoneNetworks};
use patchbay_pods::{PodController, ZonePods};
use patchbay_policies::admin::{AdminPolicyController, ZoneAdminPolicies};
use patchbay_policies::{PolicyController, ZonePolicies};
use patchbay_rows::Counts;
use patchbay_schemas::uuids::UuidSource;
use patchbay_services::{ServiceController, ZoneServices};

use super::held::HeldRows;
use super::rows::{commit_rows, wait_for_database, wait_for_outcome};
use super::{ZoneError, ZoneOutcome};
use crate::Cluster;
use crate::activity::FollowedActivity;
use crate::northbound::CommitError;
use crate::northbound::dynamic::DynNorthbound;
use crate::zone_inputs::ZoneInputs;
use crate::zone_view::ZoneView;

/// Maximum number of attempts to commit a plan. After a rejected transaction the rows are planned
/// again, because another client may have changed them concurrently.
pub(super) const MAX_ATTEMPTS: usize = 4;

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
        }
    }

    /// Name of the zone.
    pub(super) fn zone(&self) -> &str {
        &self.zone
    }

    /// Makes the rows of networks, pods, policies, services, EgressIPs and connects what the
    /// objects of the cluster define. A rejected transaction is planned and committed again, at
    /// most three times. After a lost connection it is planned and committed again for as long as
    /// the database comes back within its time limit.
    ///
    /// # Errors
    /// A plan does not fit the database, or a transaction is not applied: see [`ZoneError`].
    /// Earlier transactions of the pass stay applied; the next pass completes it.
    pub(super) fn reconcile<'a>(
        &'a mut self,
        northbound: &'a mut dyn DynNorthbound,
        cluster: &'a Cluster,
    ) -> BoxFuture<'a, Result<ZoneOutcome, ZoneError>> {
        Box::pin(async move {
            let mut outcome = self.commit_objects(northbound, cluster).await?;
            let activity = self.network_activity(cluster);
            let inputs = cluster.inputs(&self.zone, activity.as_ref());
            self.commit_connects(northbound, &inputs, &mut outcome)
                .await?;
            Ok(outcome)
        })
    }

    /// Makes the rows of networks, pods, policies, services and EgressIPs what the objects of the
    /// cluster define, and leaves those of connects as they are. If the objects are
    /// [watched](Cluster::watched), the inputs of a later pass cost as much as the objects have
    /// changed.
    ///
    /// # Errors
    /// As for [`reconcile`](Self::reconcile).
    pub(super) fn reconcile_without_connects<'a>(
        &'a mut self,
        northbound: &'a mut dyn DynNorthbound,
        cluster: &'a Cluster,
    ) -> BoxFuture<'a, Result<ZoneOutcome, ZoneError>> {
        Box::pin(self.commit_objects(northbound, cluster))
    }

    async fn commit_objects(
        &mut self,
        northbound: &mut dyn DynNorthbound,
        cluster: &Cluster,
    ) -> Result<ZoneOutcome, ZoneError> {
        self.update_inputs(cluster);
        // If this future is dropped, the next pass reads the objects from nothing.
        let inputs = std::mem::take(&mut self.inputs);
        let outcome = self.commit_inputs(northbound, &inputs, cluster).await;
        self.inputs = inputs;
        outcome
    }

    /// Inputs of the pods' rows. `None`: the objects contain no pods, and specify nothing about the
    /// ports of pods that are there.
    pub(super) fn pods(&mut self, cluster: &Cluster) -> Option<&ZonePods> {
        self.update_inputs(cluster);
        self.inputs.pods.as_ref()
    }

    fn update_inputs(&mut self, cluster: &Cluster) {
        let activity = self.network_activity(cluster);
        self.inputs.update(cluster, &self.zone, activity);
    }

    /// Commits the rows of all inputs.
    async fn commit_inputs(
        &mut self,
        northbound: &mut dyn DynNorthbound,
        inputs: &ZoneInputs,
        cluster: &Cluster,
    ) -> Result<ZoneOutcome, ZoneError> {
        let held = HeldRows::of(&cluster.inventory);
        let mut warnings = Vec::new();
        if !held.has_networks() {
            warnings.extend(self.commit_networks(northbound, &inputs.networks).await?);
        }
        let zone_pods = inputs.pods.as_ref().filter(|_| !held.has_pods());
        let policies = inputs.policies.as_ref().filter(|_| !held.has_pods());
        if let Some(pods) = zone_pods {
            warnings.extend(self.commit_pods(northbound, pods).await?);
        }
        let mut policy_problems = Vec::new();
        if let Some(policies) = policies {
            warnings.extend(self.commit_policies(northbound, policies).await?);
            // New ports have waited for the policies' port groups.
            if let Some(pods) = zone_pods {
                warnings.extend(self.commit_pods(northbound, pods).await?);
            }
            policy_problems = policies.problems();
            policy_problems.extend(self.policies.problems().cloned());
        }
        if !held.has_admin_policies() {
            let admin_policies = &inputs.admin_policies;
            warnings.extend(
                self.commit_admin_policies(northbound, admin_policies)
                    .await?,
            );
            policy_problems.extend(self.admin_policies.problems(admin_policies));
        }
        if !held.has_services() {
            warnings.extend(self.commit_services(northbound, &inputs.services).await?);
        }
        let mut egress_problems = Vec::new();
        if !held.has_egress() {
            let egress = &inputs.egress;
            warnings.extend(self.commit_egress(northbound, egress).await?);
            egress_problems = self.egress.problems(egress);
        }
        let pod_problems = self.pods.problems().filter(|_| zone_pods.is_some());
        let problems = self.services.problems();
        Ok(ZoneOutcome {
            warnings,
            skipped_networks: self.skipped.update(&inputs.networks),
            pod_problems: pod_problems
                .map(|(pod, problem)| (pod.clone(), problem.clone()))
                .collect(),
            policy_problems,
            egress_problems,
            next_removal: self.rendered.next_removal(grace_period(cluster)),
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
            let zone = self.zone.clone();
            let (zone_networks, _) = ZoneView::new(cluster, &zone, activity).networks();
            self.commit_networks(northbound, &zone_networks).await?;
            Ok(zone_networks.skipped())
        })
    }

    /// Plans the rows of the connects for the present snapshot, and commits nothing.
    pub(super) fn plan_connects(&mut self, inputs: &Inputs, snapshot: &Snapshot) -> ZonePlan {
        self.connects.plan(inputs, snapshot)
    }

    /// `true` if [`reconcile`](Self::reconcile) would commit nothing.
    pub(super) fn is_reconciled(&mut self, cluster: &Cluster, snapshot: &Snapshot) -> bool {
        let activity = self.network_activity(cluster);
        let zone = self.zone.clone();
        let mut inputs = ZoneInputs::read(cluster, &zone, activity.clone());
        inputs.follow(&self.inputs);
        self.networks
            .plan(&inputs.networks, snapshot)
            .is_ok_and(|change| change.transaction.is_none())
            && inputs.pods.is_none_or(|pods| {
                let change = self.pods.plan(&pods, snapshot);
                change.is_ok_and(|change| change.transaction.is_none())
            })
            && inputs.policies.is_none_or(|policies| {
                let change = self.policies.plan(&policies, snapshot);
                change.is_ok_and(|change| change.transaction.is_none())
            })
            && self
                .admin_policies
                .plan(&inputs.admin_policies, snapshot)
                .is_ok_and(|change| change.transaction.is_none())
            && self
                .egress
                .plan(&inputs.egress, snapshot)
                .is_ok_and(|change| change.transaction.is_none())
            && self
                .services
                .plan(&inputs.services, snapshot)
                .is_ok_and(|change| change.transaction.is_none())
            && self
                .connects
                .plan(&cluster.inputs(&zone, activity.as_ref()), snapshot)
                .is_empty()
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

    /// Commits the rows of the networks. Returns warnings about lost replies.
    async fn commit_networks(
        &mut self,
        northbound: &mut dyn DynNorthbound,
        inputs: &ZoneNetworks,
    ) -> Result<Vec<String>, ZoneError> {
        let networks = &mut self.networks;
        let mut warnings = Vec::new();
        let passes = if inputs.has_waiting_rows() {
            NETWORK_PASSES
        } else {
            1
        };
        for _ in 0..passes {
            let mut plan = |snapshot: &Snapshot| networks.plan(inputs, snapshot);
            warnings.extend(commit_rows(northbound, NETWORKS, &mut plan).await?);
        }
        Ok(warnings)
    }

    /// Commits the rows of the pods. Returns warnings about lost replies.
    async fn commit_pods(
        &mut self,
        northbound: &mut dyn DynNorthbound,
        inputs: &ZonePods,
    ) -> Result<Vec<String>, ZoneError> {
        let pods = &mut self.pods;
        commit_rows(northbound, PODS, &mut |snapshot| {
            pods.plan(inputs, snapshot)
        })
        .await
    }

    /// Commits the rows of the policies. Returns warnings about lost replies.
    async fn commit_policies(
        &mut self,
        northbound: &mut dyn DynNorthbound,
        inputs: &ZonePolicies,
    ) -> Result<Vec<String>, ZoneError> {
        let policies = &mut self.policies;
        commit_rows(northbound, POLICIES, &mut |snapshot| {
            policies.plan(inputs, snapshot)
        })
        .await
    }

    /// Commits the rows of administrators' policies. Returns warnings about lost replies.
    async fn commit_admin_policies(
        &mut self,
        northbound: &mut dyn DynNorthbound,
        inputs: &ZoneAdminPolicies,
    ) -> Result<Vec<String>, ZoneError> {
        let policies = &mut self.admin_policies;
        commit_rows(northbound, ADMIN_POLICIES, &mut |snapshot| {
            policies.plan(inputs, snapshot)
        })
        .await
    }

    /// Commits the rows of the EgressIPs. Returns warnings about lost replies.
    async fn commit_egress(
        &mut self,
        northbound: &mut dyn DynNorthbound,
        inputs: &ZoneEgress,
    ) -> Result<Vec<String>, ZoneError> {
        let egress = &mut self.egress;
        commit_rows(northbound, EGRESS, &mut |snapshot| {
            egress.plan(inputs, snapshot)
        })
        .await
    }

    /// Commits the rows of the services. Returns warnings about lost replies.
    async fn commit_services(
        &mut self,
        northbound: &mut dyn DynNorthbound,
        inputs: &ZoneServices,
    ) -> Result<Vec<String>, ZoneError> {
        let services = &mut self.services;
        commit_rows(northbound, SERVICES, &mut |snapshot| {
            services.plan(inputs, snapshot)
        })
        .await
    }

    /// Commits the rows of the connects, and plans again after rejected transactions and lost
    /// connections.
    async fn commit_connects(
        &mut self,
        northbound: &mut dyn DynNorthbound,
        inputs: &Inputs,
        outcome: &mut ZoneOutcome,
    ) -> Result<(), ZoneError> {
        let mut attempt = 1;
        loop {
            let plan = self.plan_connects(inputs, &northbound.snapshot());
            let has_more = plan.has_more();
            match self.commit_plan(northbound, inputs, plan, outcome).await? {
                PlanEnd::Committed if !has_more => return Ok(()),
                PlanEnd::Committed | PlanEnd::Interrupted => {}
                PlanEnd::Rejected(error) if attempt == MAX_ATTEMPTS => return Err(error),
                PlanEnd::Rejected(error) => {
                    tracing::info!(%error, attempt, "transaction rejected, planning again");
                    attempt += 1;
                }
            }
        }
    }

    /// Commits each transaction of a plan, until one is not applied because the connection was
    /// lost.
    async fn commit_plan(
        &mut self,
        northbound: &mut dyn DynNorthbound,
        inputs: &Inputs,
        plan: ZonePlan,
        outcome: &mut ZoneOutcome,
    ) -> Result<PlanEnd, ZoneError> {
        let mut end = PlanEnd::Committed;
        for connect in plan.connects {
            let subject = || format!("ClusterNetworkConnect {}", connect.connect);
            let change = connect.change.map_err(|source| ZoneError::Plan {
                subject: subject(),
                source,
            })?;
            outcome.reports.extend(
                connect
                    .report
                    .map(|report| (connect.connect.clone(), report)),
            );
            let Some(transaction) = change.transaction else {
                outcome.counts.entry(connect.connect).or_default();
                continue;
            };
            match northbound.commit(transaction).await {
                Ok(()) => {}
                Err(source @ CommitError::Rejected(_)) => {
                    end = PlanEnd::Rejected(ZoneError::Commit {
                        subject: subject(),
                        source,
                    });
                    continue;
                }
                Err(CommitError::Unknown(reason)) => {
                    wait_for_outcome(northbound, subject(), &reason).await?;
                    // The next plan completes a partial change, whether it is applied or not.
                    if !change.more {
                        let next = self.plan_connects(inputs, &northbound.snapshot());
                        if !next.is_done(&connect.connect) {
                            return Ok(PlanEnd::Interrupted);
                        }
                        let warning = applied_warning(&subject(), &reason);
                        outcome.warnings.push(warning);
                    }
                }
                Err(CommitError::NotSent(reason)) => {
                    wait_for_database(northbound, subject(), reason).await?;
                    return Ok(PlanEnd::Interrupted);
                }
                Err(source) => {
                    return Err(ZoneError::Commit {
                        subject: subject(),
                        source,
                    });
                }
            }
            let Counts {
                inserted,
                changed,
                deleted,
            } = change.counts;
            tracing::info!(
                connect = connect.connect,
                inserted,
                changed,
                deleted,
                "committed"
            );
            *outcome.counts.entry(connect.connect).or_default() += change.counts;
        }
        Ok(end)
    }
}

fn grace_period(cluster: &Cluster) -> SignedDuration {
    cluster.settings().udn_deletion_grace_period
}

/// Outcome of the commit of a plan.
enum PlanEnd {
    /// All transactions are committed.
    Committed,
    /// A transaction is not applied, because the connection was lost.
    Interrupted,
    /// Error of the last rejected transaction.
    Rejected(ZoneError),
}

/// Returns the warning about a transaction whose reply was lost, and which is applied.
pub(super) fn applied_warning(subject: &str, reason: &str) -> String {
    format!("{subject}: {reason}; the database shows that the transaction is applied")
}
