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

/// How many rows a transaction changes at most, unless something else is said.
pub const TRANSACTION_ROWS: usize = 250_000;

/// Plans the rows of all connects in one zone.
///
/// A plan is a function of inputs and snapshot: a controller that is new comes to the same as one that has made a
/// thousand plans. What is remembered are the keys that connect routers have, and, so that a plan costs as much as what
/// has changed and not as much as what there is, the last inputs and snapshot with what follows from them (see
/// `docs/design/zone.md`).
#[derive(Debug)]
pub struct ZoneController {
    router_keys: RouterKeys,
    uuids: UuidSource,
    transaction_rows: usize,
    cache: Option<PlanCache>,
}

/// What is to be done in a zone: first for connects that are gone, then for the others, each in the order of names.
#[derive(Debug)]
pub struct ZonePlan {
    /// One entry for each connect that there is, and for each that still has rows.
    pub connects: Vec<ConnectPlan>,
}

/// What is to be done for one connect.
#[derive(Debug)]
pub struct ConnectPlan {
    /// Name of the connect.
    pub connect: String,
    /// What changes.
    pub change: Result<Change, PlanError>,
    /// What is connected after that; none for a connect that is gone.
    pub report: Option<Arc<ConnectReport>>,
}

impl ZonePlan {
    /// Whether there is nothing to do for this connect.
    pub fn is_done(&self, connect: &str) -> bool {
        let mut plans = self.connects.iter().filter(|plan| plan.connect == connect);
        plans.all(ConnectPlan::is_done)
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.connects.iter().all(ConnectPlan::is_done)
    }

    /// Whether some connect has more to do than its transaction does: then another plan is to be made once this one is
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
    /// A controller that takes the placeholders of new rows from `uuids`.
    pub fn new(uuids: UuidSource) -> Self {
        Self {
            router_keys: RouterKeys::default(),
            uuids,
            transaction_rows: TRANSACTION_ROWS,
            cache: None,
        }
    }

    /// The same controller with transactions of about this many rows at most, but one row at least.
    ///
    /// All changes of a connect are one transaction as long as they fit. If not, several plans are needed
    /// ([`Change::more`]), in an order in which nothing is let through in between that is let through neither before nor
    /// afterwards. What has to be changed together is, even if that is more rows.
    #[must_use]
    pub fn with_transaction_rows(mut self, rows: usize) -> Self {
        self.transaction_rows = rows;
        self
    }

    /// Forgets what follows from former inputs and snapshots: the next plan looks at everything again.
    ///
    /// There is no need for it, other than distrust: changes of the database are followed, whoever makes them.
    pub fn resync(&mut self) {
        self.cache = None;
    }

    /// What makes the database right for these inputs.
    ///
    /// The transactions of different connects do not depend on each other. A transaction that is not committed is
    /// planned again.
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
        // Those that are gone have left when nothing of them is left.
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

/// What a connect should come to, or why that cannot be said.
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
    // Only a new router needs it.
    if copp.is_none() && routers.next().is_none() {
        return Err(HeldReason::NoCopp(COPP));
    }
    Ok(DesiredState::Present { connect, key, copp })
}
