//! `patchbay apply`: makes the rows of databases what manifests define.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use jiff::Timestamp;
use patchbay_engine::db::Snapshot;
use patchbay_model::Databases;
use patchbay_reconcile::northbound::{Northbound as _, NorthboundHandle};
use patchbay_reconcile::zone::{ZoneOutcome, ZoneReconciler};
use patchbay_reconcile::{Cluster, load};
use patchbay_resources::manifests::Inventory;
use patchbay_resources::state::StateFolder;
use patchbay_rows::ObjectName;

use super::applied::{AppliedObjects, may_hold_rows, record_folder};
use super::apply_report::ApplyReport;
use super::args::{self, Database, Format, Manifests};
use super::console::Console;
use super::failure::Failure;
use super::kept::{self, with_objects};
use super::prune::Prune;
use super::state::{folder, lock};
use super::watch::watch;
use super::zones::{check_length, complete_cluster, leave_to_exit, open_zone, reconcile_zone};

/// Applies the manifests to the databases of the zones and prints the resulting rows.
pub(super) async fn apply(
    arguments: &args::Apply,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let manifests = &arguments.manifests;
    let prune = Prune::of(arguments)?;
    if arguments.watch {
        return watch(manifests, prune, console).await;
    }
    let begin = Instant::now();
    let state = folder(manifests.state.as_ref(), &manifests.paths)?;
    let _lock = lock(state.as_ref(), console).await?;
    let inventory = load(
        &manifests.paths,
        console.input,
        state.as_ref(),
        manifests.input.manifest_limit.bytes(),
    )?;
    let mut session = ApplySession::default();
    let request =
        ApplyRequest { manifests, state: state.as_ref(), prune, is_watched: false, begin };
    let applied = session.apply(request, inventory, console).await;
    let cluster = session.cluster.as_ref();
    let refused = cluster.map_or(0, |cluster| cluster.inventory.refused.len());
    let refusals = cluster.map(Cluster::refusals);
    let zones = cluster.filter(|cluster| cluster.settings().databases == Databases::Zone);
    let vpcs: Vec<String> =
        zones.into_iter().flat_map(|one| one.inventory.kube_ovn_objects()).collect();
    leave_to_exit(session);
    applied?;
    let refusals = refusals.into_iter().flatten();
    let objects: Vec<String> = refusals.filter_map(|refusal| refusal.object).chain(vpcs).collect();
    if refused > 0 {
        Err(Failure::Refused { count: refused })
    } else if objects.is_empty() {
        Ok(())
    } else {
        Err(Failure::NotAccepted(objects))
    }
}

/// Reason to reconcile zones although no file has changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ZoneEvent {
    /// A database is live again after a lost connection.
    Resync,
    /// A network without users is to be removed.
    Removal,
}

/// How manifests are applied.
#[derive(Clone, Copy)]
pub(super) struct ApplyRequest<'a> {
    pub(super) manifests: &'a Manifests,
    pub(super) state: Option<&'a StateFolder>,
    pub(super) prune: Prune,
    /// The changes are printed, instead of all rows.
    pub(super) is_watched: bool,
    /// Time at which the work began.
    pub(super) begin: Instant,
}

/// Zone after a pass: its name, the objects that were applied in it before, and the outcome.
type ZonePass<'a> = (&'a String, Arc<BTreeSet<ObjectName>>, ZoneOutcome);

/// Open databases of the zones, and the cluster of the last apply.
#[derive(Default)]
pub(super) struct ApplySession {
    zones: BTreeMap<String, ZoneReconciler<NorthboundHandle>>,
    /// `None`: nothing was applied yet. It is set before the first transaction, because what was
    /// allocated must be kept even if the apply fails.
    cluster: Option<Cluster>,
    /// Time at which the next network without users is to be removed. `None`: there is none.
    next_removal: Option<Timestamp>,
    applied: AppliedObjects,
}

impl ApplySession {
    /// The completed objects of the last apply.
    pub(super) fn inventory(&self) -> Option<&Inventory> {
        self.cluster.as_ref().map(|cluster| &cluster.inventory)
    }

    /// Applies the objects to the databases of the zones and prints the resulting rows.
    pub(super) async fn apply(
        &mut self,
        request: ApplyRequest<'_>,
        inventory: Inventory,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        let ApplyRequest { manifests, state, prune, is_watched, begin } = request;
        let (cluster, names) = complete_cluster(manifests, inventory, console)?;
        if !is_watched {
            check_length(manifests, &names)?;
        }
        self.open_zones(manifests, &names, console).await?;
        // Saved before the first transaction, because rows refer to what was allocated.
        if let Some(folder) = state {
            folder.save(&cluster.inventory)?;
        }
        let objects = cluster.object_names();
        let records = record_folder(state, &manifests.nb);
        self.cluster = Some(cluster);
        self.next_removal = None;
        let mut outcomes = Vec::with_capacity(names.len());
        let mut before = Vec::with_capacity(names.len());
        console.begin("applying", "zone", names.len());
        for name in &names {
            let applied = self.applied.before(name, records)?;
            // Recorded before the first transaction: a row whose object is not recorded would stay.
            self.applied.add(name, &objects, records)?;
            let (snapshot, outcome) = self.reconcile(name, applied.clone(), console).await?;
            outcomes.push((name, applied, outcome));
            before.push(snapshot);
            console.step()?;
        }
        console.end()?;
        let is_refused = self.prune(&mut outcomes, prune, console).await?;
        let Some(cluster) = &mut self.cluster else {
            return Ok(());
        };
        let mut report =
            if is_watched { ApplyReport::watched(cluster) } else { ApplyReport::default() };
        for ((name, _, outcome), before) in outcomes.into_iter().zip(before) {
            if !is_refused {
                kept::report(name, &outcome.kept, console)?;
            }
            if !may_hold_rows(&cluster.inventory) {
                self.applied.replace(name, objects.clone(), records)?;
            }
            let removals = [self.next_removal, outcome.next_removal];
            self.next_removal = removals.into_iter().flatten().min();
            if let Some(zone) = self.zones.get(name) {
                if let Some(before) = before {
                    report.add_changes(zone, &before, &outcome);
                }
                report.add_zone(zone, outcome)?;
            }
        }
        report.set_connected_conditions(cluster);
        // Saved before the report is printed, because printing may fail.
        if let Some(folder) = state {
            folder.save(&cluster.inventory)?;
        }
        report.print(cluster, manifests.output, console)?;
        if manifests.output == Format::Text {
            let is_kept = manifests.nb != Database::Embedded;
            report.print_summary(begin.elapsed(), is_kept, console)?;
        }
        Ok(())
    }

    /// Reconciles a zone. Rows of objects that are neither in the cluster nor `applied` stay.
    /// Returns the rows before, too.
    async fn reconcile(
        &mut self,
        name: &str,
        applied: Arc<BTreeSet<ObjectName>>,
        console: &mut Console<'_>,
    ) -> Result<(Option<Snapshot>, ZoneOutcome), Failure> {
        let (Some(zone), Some(cluster)) = (self.zones.get_mut(name), &self.cluster) else {
            return Ok((None, ZoneOutcome::default()));
        };
        wait_until_live(zone).await?;
        let before = zone.northbound().snapshot();
        zone.set_recorded(Some(applied));
        match reconcile_zone(zone, cluster, console).await {
            Err(failure) if failure.is_timeout() => {
                // The next apply opens another connection, because this server does not reply.
                self.zones.remove(name);
                Err(failure)
            }
            done => Ok((Some(before), done?)),
        }
    }

    /// Deletes the rows that have stayed, if that is wanted. Returns `true` if the user has refused,
    /// and knows the rows.
    async fn prune(
        &mut self,
        outcomes: &mut [ZonePass<'_>],
        prune: Prune,
        console: &mut Console<'_>,
    ) -> Result<bool, Failure> {
        let kept: Vec<_> = outcomes
            .iter()
            .map(|(name, _, outcome)| (name.as_str(), outcome.kept.as_slice()))
            .filter(|(_, kept)| !kept.is_empty())
            .collect();
        if kept.is_empty() || prune == Prune::Never {
            return Ok(false);
        }
        if !prune.is_agreed(&kept, console).await? {
            return Ok(true);
        }
        for (name, applied, outcome) in outcomes {
            if outcome.kept.is_empty() {
                continue;
            }
            let pruned = with_objects(applied, &outcome.kept);
            let (_, mut later) = self.reconcile(name, pruned, console).await?;
            for (connect, counts) in std::mem::take(&mut outcome.counts) {
                *later.counts.entry(connect).or_default() += counts;
            }
            *outcome = later;
        }
        Ok(false)
    }

    /// Closes the databases of zones that are gone and opens those of new zones.
    async fn open_zones(
        &mut self,
        manifests: &Manifests,
        names: &[String],
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        self.zones.retain(|name, _| names.contains(name));
        for (index, name) in names.iter().enumerate() {
            if !self.zones.contains_key(name) {
                let (keys, limit) = (&manifests.input.keys, manifests.input.limit);
                let zone = open_zone(name, index, &manifests.nb, (keys, limit), console).await?;
                self.zones.insert(name.clone(), zone);
            }
        }
        Ok(())
    }

    /// `true` if the databases still have the rows of the last apply.
    pub(super) async fn is_reconciled(&mut self) -> Result<bool, Failure> {
        let Some(cluster) = &self.cluster else {
            return Ok(false);
        };
        for zone in self.zones.values_mut() {
            wait_until_live(zone).await?;
            if !zone.is_reconciled(cluster) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits for the next reason to reconcile the zones although no file has changed.
    ///
    /// # Cancel safety
    /// No event is lost if the future is dropped.
    pub(super) async fn wait_for_event(&mut self) -> ZoneEvent {
        let removal = self.next_removal;
        tokio::select! {
            () = self.wait_for_resync() => ZoneEvent::Resync,
            () = wait_until(removal) => ZoneEvent::Removal,
        }
    }

    /// Waits for the next resync of any of the databases after a lost connection.
    ///
    /// # Cancel safety
    /// No resync is lost if the future is dropped.
    async fn wait_for_resync(&mut self) {
        let mut resyncs: Vec<_> = self
            .zones
            .values_mut()
            .map(|zone| Box::pin(zone.northbound_mut().wait_for_resync()))
            .collect();
        poll_fn(|context| {
            let is_ready =
                resyncs.iter_mut().any(|resync| resync.as_mut().poll(context).is_ready());
            if is_ready { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Waits until a time. `None`: forever.
async fn wait_until(time: Option<Timestamp>) {
    let Some(time) = time else {
        return std::future::pending().await;
    };
    let wait = Timestamp::now().duration_until(time);
    tokio::time::sleep(wait.try_into().unwrap_or_default()).await;
}

/// Waits until the snapshot follows the database: a plan for an old snapshot may find nothing to
/// do.
async fn wait_until_live(zone: &ZoneReconciler<NorthboundHandle>) -> Result<(), Failure> {
    zone.northbound()
        .wait_until_live()
        .await
        .map_err(|source| Failure::Unreachable { zone: zone.zone().to_owned(), source })
}
