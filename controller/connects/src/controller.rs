//! One pass over all connects of a zone.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_engine::db::Snapshot;
use patchbay_model::{ClusterSettings, ObjectProblem, object_kind};
use patchbay_rows::{Change, Engine, KeptRow, PlanError, RowDifference, Scope};
use patchbay_schemas::uuids::UuidSource;
use patchbay_zone::{SubjectChange, ZoneObjects, ZoneRows, network_kinds};
use smol_str::SmolStr;

use super::capability::Connects;
use super::overlapping_networks::overlapping_networks;
use super::part::ConnectPart;
use super::report::ConnectReport;
use super::shared_networks::shared_networks;
use super::summary::ConnectReports;

/// Default upper bound of the rows that one transaction changes.
pub use patchbay_rows::TRANSACTION_ROWS;

/// Plans the rows of all connects in one zone.
///
/// A plan is a function of inputs and snapshot: a new controller makes the same plan as one that
/// has made earlier plans. The exception are tunnel keys of connect routers, which are remembered.
/// The cost of a plan is proportional to the changes since the last plan. See
/// `docs/design/zone.md`.
#[derive(Debug)]
pub struct ZoneController {
    /// Objects of the last plan.
    seen: ZoneObjects,
    engine: Engine<Connects>,
    reports: ConnectReports,
}

/// Changes of all connects in one zone.
///
/// Deleted connects come first, then the others, each ordered by name.
#[derive(Debug)]
pub struct ZonePlan {
    /// One entry for each connect in the inputs, and for each deleted connect that still has rows.
    pub connects: Vec<ConnectPlan>,
}

/// Changes of one connect.
#[derive(Debug)]
pub struct ConnectPlan {
    /// Name of the connect.
    pub connect: String,
    /// Row changes, or the reason why they cannot be planned.
    pub change: Result<Change, PlanError>,
    /// Report of the connect after the change. `None`: the connect is deleted.
    pub report: Option<Arc<ConnectReport>>,
}

impl ZonePlan {
    /// `true` if the plan changes no row of the connect.
    pub fn is_done(&self, connect: &str) -> bool {
        let mut plans = self.connects.iter().filter(|plan| plan.connect == connect);
        plans.all(ConnectPlan::is_done)
    }

    /// `true` if the plan changes no row.
    pub fn is_empty(&self) -> bool {
        self.connects.iter().all(ConnectPlan::is_done)
    }

    /// `true` if the changes of a connect exceed its transaction. Make another plan after this one
    /// is committed.
    pub fn has_more(&self) -> bool {
        let mut changes = self.connects.iter().filter_map(|plan| plan.change.as_ref().ok());
        changes.any(|change| change.more)
    }
}

impl ConnectPlan {
    fn is_done(&self) -> bool {
        matches!(&self.change, Ok(change) if change.transaction.is_none())
    }
}

impl Default for ZoneController {
    fn default() -> Self {
        Self::new(UuidSource::random())
    }
}

impl ZoneController {
    /// Creates a controller that takes the placeholders of new rows from `uuids`.
    pub fn new(uuids: UuidSource) -> Self {
        Self {
            seen: ZoneObjects::default(),
            engine: Engine::new(uuids),
            reports: ConnectReports::default(),
        }
    }

    /// Sets the approximate upper bound of the rows that one transaction changes; at least one.
    ///
    /// If all changes of a connect fit, they are one transaction. Otherwise several plans are
    /// needed ([`Change::more`]). No state between them permits traffic that is denied both before
    /// and after. Changes that must be atomic stay in one transaction, even above the bound.
    #[must_use]
    pub fn with_transaction_rows(mut self, rows: usize) -> Self {
        self.engine = self.engine.with_transaction_rows(rows);
        self
    }

    /// Reports of the connects in the inputs, as the last plan has made them.
    pub fn reports(&self) -> BTreeMap<String, Arc<ConnectReport>> {
        let connects = self.seen.connects();
        connects.filter_map(|(name, _)| Some((name.to_string(), self.reports.get(name)?))).collect()
    }

    /// Drops all derived data, so that the next plan evaluates every part again.
    ///
    /// Correct operation does not need it, because the controller follows changes of all clients.
    pub fn resync(&mut self) {
        self.engine.resync();
    }

    /// Rows of the snapshot that are not as the inputs require, by part.
    pub(super) fn part_differences(
        &self,
        objects: &ZoneObjects,
        snapshot: &Snapshot,
    ) -> BTreeMap<ConnectPart, Vec<RowDifference>> {
        self.engine.differences(objects, snapshot)
    }

    /// Plans the changes from the database's state to the one that the inputs require.
    ///
    /// The transactions of different connects are independent. A transaction that is not committed
    /// is planned again.
    pub fn plan(&mut self, objects: &ZoneObjects, snapshot: &Snapshot) -> ZonePlan {
        let has_other_networks = !objects.has_same_connects(&self.seen);
        self.seen = objects.clone();
        let mut plan = self.engine.plan(objects, snapshot);
        if has_other_networks {
            let mut notices = shared_networks(objects);
            for (connect, overlaps) in overlapping_networks(objects) {
                notices.entry(connect).or_default().extend(overlaps);
            }
            self.reports.set_shared(notices);
        }
        self.reports.follow(&self.engine, plan.is_first);
        let is_there = |name: &str| objects.connect_input(name).is_some();
        let gone: Vec<SmolStr> =
            plan.changes.keys().filter(|name| !is_there(name)).cloned().collect();
        let there = objects.connects().map(|(name, _)| name.clone());
        let connects = gone.into_iter().chain(there).map(|name: SmolStr| ConnectPlan {
            change: plan.changes.remove(&name).unwrap_or_else(|| Ok(Change::default())),
            report: self.reports.get(&name).filter(|_| is_there(&name)),
            connect: name.to_string(),
        });
        ZonePlan { connects: connects.collect() }
    }
}

impl ZoneRows<ZoneObjects> for ZoneController {
    fn name(&self) -> &'static str {
        "connects"
    }

    fn needs(&self, settings: &ClusterSettings) -> Vec<&'static str> {
        let services = [object_kind::SERVICE];
        network_kinds(settings).into_iter().chain(services).collect()
    }

    fn specified_by(&self, _: &ClusterSettings) -> &'static [&'static str] {
        &[]
    }

    fn waits_for(&self, _: &ZoneObjects) -> &'static [&'static str] {
        &[]
    }

    fn set_scope(&mut self, scope: Option<Arc<Scope>>) {
        self.engine.set_scope(scope);
    }

    fn plan(&mut self, objects: &ZoneObjects, snapshot: &Snapshot) -> Vec<SubjectChange> {
        let connects = self.plan(objects, snapshot).connects.into_iter();
        connects
            .map(|ConnectPlan { connect, change, .. }| SubjectChange {
                subject: format!("{} {connect}", object_kind::CONNECT),
                change,
            })
            .collect()
    }

    /// Reports say why networks are not connected: see [`ZoneController::reports`].
    fn problems(&self, _: &ZoneObjects) -> Vec<ObjectProblem> {
        Vec::new()
    }

    fn kept(&self) -> Vec<KeptRow> {
        self.engine.kept().cloned().collect()
    }
}
