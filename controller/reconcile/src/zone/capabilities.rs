//! Capabilities that a zone runs, one after the other.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use patchbay_egress::Egress;
use patchbay_engine::db::Snapshot;
use patchbay_model::{ObjectProblem, format_address};
use patchbay_networks::Topologies;
use patchbay_pods::Pods;
use patchbay_policies::Policies;
use patchbay_policies::admin::AdminPolicies;
use patchbay_rows::{Engine, KeptRow, ObjectName, Scope};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::nb::LogicalSwitchPort;
use patchbay_schemas::typed::TableRow as _;
use patchbay_schemas::uuids::UuidSource;
use patchbay_services::Services;
use patchbay_zone::{SubjectChange, ZoneCapability, ZoneObjects, ZoneRows};

use super::ZoneError;
use super::missing::{may_lack, specifies};
use super::pass::Pass;
use crate::Cluster;

/// Capabilities of a zone, in the order in which their rows are committed. `uuids`: placeholders of
/// new rows.
pub fn capabilities(uuids: &mut UuidSource) -> Vec<Box<dyn ZoneRows<ZoneObjects>>> {
    vec![
        rows::<Topologies>(uuids),
        rows::<Pods>(uuids),
        rows::<Policies>(uuids),
        rows::<AdminPolicies>(uuids),
        rows::<Services>(uuids),
        rows::<Egress>(uuids),
    ]
}

/// The rows of a capability, which nothing is known of yet.
pub fn rows<C>(uuids: &mut UuidSource) -> Box<dyn ZoneRows<C::Inputs>>
where
    C: ZoneCapability + 'static,
    Engine<C>: Send,
{
    Box::new(Engine::<C>::new(uuids.fork()))
}

/// Capabilities with the inputs `I`, and what goes of their rows.
#[derive(Debug)]
pub(super) struct Capabilities<I> {
    all: Vec<Box<dyn ZoneRows<I>>>,
    /// Objects of earlier passes. `None`: all rows go that nothing wants.
    recorded: Option<Arc<BTreeSet<ObjectName>>>,
}

impl<I: Sync> Capabilities<I> {
    pub(super) fn new(all: Vec<Box<dyn ZoneRows<I>>>) -> Self {
        Self { all, recorded: None }
    }

    /// Sets the objects of earlier passes, whose rows go if the objects are gone. `None`: all rows
    /// go that nothing wants.
    pub(super) fn set_recorded(&mut self, recorded: Option<Arc<BTreeSet<ObjectName>>>) {
        self.recorded = recorded;
    }

    /// Which rows go for the objects of a cluster. `None`: all that nothing wants.
    pub(super) fn scope(&self, cluster: &Cluster) -> Option<Scope> {
        let recorded = self.recorded.clone()?;
        Some(Scope { named: cluster.object_names(), recorded, members: Arc::default() })
    }

    /// Makes the rows of all capabilities what the inputs define. Returns the problems of objects.
    ///
    /// # Errors
    /// The database cannot be used.
    pub(super) async fn commit(
        &mut self,
        pass: &mut Pass<'_>,
        inputs: &I,
        cluster: &Cluster,
    ) -> Result<Vec<ObjectProblem>, ZoneError> {
        let scope = self.scope(cluster);
        let mut committed = BTreeSet::new();
        for index in 0..self.all.len() {
            self.set_scope(index, scope.as_ref(), &pass.northbound.snapshot());
            let (earlier, rest) = self.all.split_at_mut(index);
            let next = rest.first_mut();
            let Some(rows) = next.filter(|rows| !stays(&***rows, cluster)) else {
                continue;
            };
            let name = rows.name();
            if commit(&mut **rows, pass, inputs).await? {
                committed.insert(name);
            }
            let waiting = earlier.iter_mut().filter(|rows| {
                committed.contains(rows.name()) && rows.waits_for(inputs).contains(&name)
            });
            for rows in waiting {
                commit(&mut **rows, pass, inputs).await?;
            }
        }
        let planned = self.all.iter().filter(|rows| !stays(&***rows, cluster));
        Ok(planned.flat_map(|rows| rows.problems(inputs)).collect())
    }

    /// `true` if [`commit`](Self::commit) would commit nothing.
    pub(super) fn is_reconciled(
        &mut self,
        inputs: &I,
        cluster: &Cluster,
        snapshot: &Snapshot,
    ) -> bool {
        let scope = self.scope(cluster);
        (0..self.all.len()).all(|index| {
            self.set_scope(index, scope.as_ref(), snapshot);
            self.all.get_mut(index).is_none_or(|rows| {
                stays(&**rows, cluster)
                    || rows.plan(inputs, snapshot).iter().all(SubjectChange::is_empty)
            })
        })
    }

    /// Sets the scope of a capability. Ports of pods that stay are members of port groups for as
    /// long, and their addresses are members of address sets.
    fn set_scope(&mut self, index: usize, scope: Option<&Scope>, snapshot: &Snapshot) {
        let (earlier, rest) = self.all.split_at_mut(index);
        if let Some(rows) = rest.first_mut() {
            rows.set_scope(scope.map(|scope| {
                let kept = earlier.iter().flat_map(|rows| rows.kept());
                Arc::new(Scope { members: Arc::new(port_members(kept, snapshot)), ..scope.clone() })
            }));
        }
    }

    /// Rows of objects that are neither in the cluster nor recorded.
    pub(super) fn kept(&self) -> impl Iterator<Item = KeptRow> {
        self.all.iter().flat_map(|rows| rows.kept())
    }
}

/// Commits the rows of a capability. Returns `true` if all of them are committed.
pub(super) async fn commit<I: Sync>(
    rows: &mut dyn ZoneRows<I>,
    pass: &mut Pass<'_>,
    inputs: &I,
) -> Result<bool, ZoneError> {
    let is_waiting = rows.waits_for(inputs).contains(&rows.name());
    let mut plan = |snapshot: &Snapshot| rows.plan(inputs, snapshot);
    pass.commit(is_waiting, &mut plan).await
}

/// `true` if the rows of a capability stay as they are: objects that they follow from may be
/// missing, or the manifests specify nothing about them.
pub(super) fn stays<I>(rows: &dyn ZoneRows<I>, cluster: &Cluster) -> bool {
    let settings = cluster.settings();
    may_lack(cluster, &rows.needs(settings)) || !specifies(cluster, rows.specified_by(settings))
}

/// Ports of pods that stay, and their addresses.
fn port_members(kept: impl Iterator<Item = KeptRow>, snapshot: &Snapshot) -> BTreeSet<Atom> {
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
        let addresses =
            texts.flat_map(str::split_whitespace).filter_map(|text| text.parse::<IpAddr>().ok());
        members.extend(addresses.map(|address| format_address(address).into()));
    }
    members
}
