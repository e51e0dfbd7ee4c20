//! One pass over all connects of a zone.

use std::sync::Arc;

use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::TxnBuilder;
use patchbay_rows::{Change, PlanError};
use patchbay_schemas::uuids::UuidSource;

use super::connect::DesiredState;
use super::desired::{COPP, PlanContext};
use super::inputs::{Inputs, RouterKeys};
use super::part::Part;
use super::plan_cache::PlanCache;
use super::report::{ConnectReport, HeldReason};

/// Default upper bound of the rows that one transaction changes.
pub const TRANSACTION_ROWS: usize = 250_000;

/// Plans the rows of all connects in one zone.
///
/// A plan is a function of inputs and snapshot: a new controller makes the same plan as one that
/// has made earlier plans. The exception are tunnel keys of connect routers, which are remembered. The
/// controller also keeps the last inputs and snapshot with derived data. The cost of a plan is
/// therefore proportional to the changes since the last plan. See `docs/design/zone.md`.
#[derive(Debug)]
pub struct ZoneController {
    router_keys: RouterKeys,
    uuids: UuidSource,
    transaction_rows: usize,
    cache: Option<PlanCache>,
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
    /// True if the plan changes no row of the connect.
    pub fn is_done(&self, connect: &str) -> bool {
        let mut plans = self.connects.iter().filter(|plan| plan.connect == connect);
        plans.all(ConnectPlan::is_done)
    }

    /// True if the plan changes no row.
    pub fn is_empty(&self) -> bool {
        self.connects.iter().all(ConnectPlan::is_done)
    }

    /// True if the changes of a connect exceed its transaction. Make another plan after this one is
    /// committed.
    pub fn has_more(&self) -> bool {
        let mut changes = self
            .connects
            .iter()
            .filter_map(|plan| plan.change.as_ref().ok());
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
            router_keys: RouterKeys::default(),
            uuids,
            transaction_rows: TRANSACTION_ROWS,
            cache: None,
        }
    }

    /// Sets the approximate upper bound of the rows that one transaction changes; at least one.
    ///
    /// If all changes of a connect fit, they are one transaction. Otherwise several plans are
    /// needed ([`Change::more`]). No state between them permits traffic that is denied both before and
    /// after. Changes that must be atomic stay in one transaction, even above the bound.
    #[must_use]
    pub fn with_transaction_rows(mut self, rows: usize) -> Self {
        self.transaction_rows = rows;
        self
    }

    /// Drops all derived data, so that the next plan evaluates every part again.
    ///
    /// Correct operation does not need it, because the controller follows changes of all clients.
    pub fn resync(&mut self) {
        self.cache = None;
    }

    /// Plans the changes that bring the database to the state that the inputs require.
    ///
    /// The transactions of different connects are independent. A transaction that is not committed
    /// is planned again.
    pub fn plan(&mut self, inputs: &Inputs, snapshot: &Snapshot) -> ZonePlan {
        self.router_keys.update(&inputs.connects);
        let followed = self.cache.take().and_then(|mut cache| {
            let known = cache.update(inputs, snapshot);
            known.then_some(cache)
        });
        let mut cache = followed.unwrap_or_else(|| PlanCache::new(inputs, snapshot));
        let mut connects = Vec::with_capacity(cache.connects.len());
        let (context, managed, states) = cache.context_and_connects();
        let is_there = |name: &String| inputs.connects.contains_key(name);
        // A deleted connect is dropped when it has no rows left.
        states.retain(|name, _| is_there(name) || context.index.owned(name).next().is_some());
        let gone = states.iter_mut().filter(|(name, _)| !is_there(name));
        for (name, state) in gone {
            let (rows, uuids) = (self.transaction_rows, &mut self.uuids);
            let txn = || TxnBuilder::with_uuids(snapshot, next_uuids(uuids));
            connects.push(ConnectPlan {
                connect: name.clone(),
                change: state.plan(name, DesiredState::Absent, context, managed, rows, txn),
                report: None,
            });
        }
        for (name, state) in states.iter_mut().filter(|(name, _)| is_there(name)) {
            let (rows, uuids) = (self.transaction_rows, &mut self.uuids);
            let txn = || TxnBuilder::with_uuids(snapshot, next_uuids(uuids));
            let change = match desired_state(name, inputs, &self.router_keys, context) {
                Ok(desired) => state.plan(name, desired, context, managed, rows, txn),
                Err(reason) => {
                    state.hold(reason);
                    Ok(Change::default())
                }
            };
            connects.push(ConnectPlan {
                connect: name.clone(),
                change,
                report: state.report(),
            });
        }
        self.cache = Some(cache);
        ZonePlan { connects }
    }
}

fn next_uuids(uuids: &mut UuidSource) -> UuidSource {
    let (seed, _) = uuids.next_uuid().as_u64_pair();
    UuidSource::seeded(seed)
}

/// Returns the desired state of a connect, or the reason why it is unknown.
fn desired_state<'c>(
    name: &str,
    inputs: &'c Inputs,
    keys: &RouterKeys,
    context: PlanContext<'_>,
) -> Result<DesiredState<'c>, HeldReason> {
    let Some(input) = inputs.connects.get(name) else {
        return Ok(DesiredState::Absent);
    };
    let connect = input.connect.as_ref().map_err(HeldReason::from)?;
    let key = keys.get(name).ok_or(HeldReason::NoTunnelKey)?;
    let copp = context.index.copp();
    let mut routers = context.index.owned_of(name, Part::Router..=Part::Router);
    // Only a new router needs the Copp row.
    if copp.is_none() && routers.next().is_none() {
        return Err(HeldReason::NoCopp(COPP));
    }
    Ok(DesiredState::Present { connect, key, copp })
}
