//! One pass over all connects of a zone.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::db::Snapshot;
use patchbay_schemas::uuids::UuidSource;

use super::desired::{Outcome, desired};
use super::inputs::{Inputs, RouterKeys};
use super::reconcile::{Change, PlanError, Reconciler, topology};
use super::report::{ConnectReport, HeldReason, Notice};
use crate::model::{NetworkId, OwnerKey};
use crate::udn::topology::ZoneRows;

/// Plans the rows of all connects in one zone.
///
/// It reads nothing but what it is given, and keeps nothing but the keys that connect routers have: what is in the
/// database is seen in the database.
#[derive(Debug)]
pub struct ZoneController {
    router_keys: RouterKeys,
    uuids: UuidSource,
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
    pub report: Option<ConnectReport>,
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
        }
    }

    /// What makes the database right for these inputs.
    ///
    /// The transactions of different connects do not depend on each other.
    pub fn plan(&mut self, inputs: &Inputs, snapshot: &Snapshot) -> ZonePlan {
        self.router_keys.update(&inputs.connects);
        let reconciler = Reconciler::new(snapshot);
        let mut connects = Vec::with_capacity(inputs.connects.len());
        for name in reconciler.owners() {
            if !inputs.connects.contains_key(name) {
                connects.push(ConnectPlan {
                    connect: name.to_owned(),
                    change: reconciler.plan(name, None, self.next_uuids()),
                    report: None,
                });
            }
        }
        let shared = shared_networks(inputs);
        for (name, input) in &inputs.connects {
            let mut outcome = match &input.connect {
                Ok(connect) => {
                    let key = self.router_keys.get(name);
                    desired(connect, key, inputs, reconciler.surroundings())
                }
                Err(error) => Outcome {
                    rows: None,
                    report: ConnectReport::held(HeldReason::from(error)),
                },
            };
            let change = match &outcome.rows {
                Some(rows) => reconciler.plan(name, Some(rows), self.next_uuids()),
                None => Ok(Change::default()),
            };
            let notices = shared.get(&**name).into_iter().flatten().cloned();
            outcome.report.notices.extend(notices);
            connects.push(ConnectPlan {
                connect: name.clone(),
                change,
                report: Some(outcome.report),
            });
        }
        ZonePlan { connects }
    }

    /// What makes the networks' own routers and switches present in the database: connects attach to them.
    ///
    /// Rows are made and completed. What others have added to them stays, and nothing is removed.
    ///
    /// # Errors
    /// The database's schema cannot express the rows.
    pub fn plan_networks(
        &mut self,
        rows: &ZoneRows,
        snapshot: &Snapshot,
    ) -> Result<Change, PlanError> {
        topology(rows, snapshot, self.next_uuids())
    }

    fn next_uuids(&mut self) -> UuidSource {
        let (seed, _) = self.uuids.next_uuid().as_u64_pair();
        UuidSource::seeded(seed)
    }
}

/// Which connects join two or more of the same networks: their policies match the same traffic.
fn shared_networks(inputs: &Inputs) -> BTreeMap<&str, Vec<Notice>> {
    let members: Vec<(&str, BTreeSet<OwnerKey>)> = inputs
        .connects
        .iter()
        .filter_map(|(name, input)| {
            let connect = input.connect.as_ref().ok()?;
            Some((name.as_str(), connect.subnets.owners().collect()))
        })
        .collect();
    let network = |id: NetworkId| {
        let network = inputs.networks.by_id(id);
        network.map_or_else(|| id.to_string(), |network| network.name.clone())
    };
    let mut notices = BTreeMap::<&str, Vec<Notice>>::new();
    for (connect, owners) in &members {
        for (other, of_other) in members.iter().filter(|(other, _)| other != connect) {
            let shared: Vec<OwnerKey> = owners.intersection(of_other).copied().collect();
            if shared.len() >= 2 {
                notices
                    .entry(*connect)
                    .or_default()
                    .push(Notice::SharedNetworks {
                        connect: (*other).to_owned(),
                        networks: shared
                            .into_iter()
                            .map(|owner| network(owner.network_id))
                            .collect(),
                    });
            }
        }
    }
    notices
}
