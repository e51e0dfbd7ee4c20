//! Compares the pending parts of a connect with the database.

mod isolation;
mod links;
mod policies;
mod removal;
mod services;

use std::collections::{BTreeMap, HashSet};

use foldhash::fast::RandomState;
use patchbay_schemas::nb::{Acl, Copp};
use patchbay_schemas::row::Row;
use patchbay_schemas::typed::{Ref, TableRow, TypeError};
use uuid::Uuid;

use super::ConnectState;
use crate::desired::{self, Link, PlanContext};
use crate::index::{ColumnHolders, Owned, TableKind};
use crate::part::{LinkId, Part};
use crate::reconcile::{Action, Child, Columns, ManagedColumns, Phase, Step, TargetRouter, Upsert};
use patchbay_model::external_ids::key;
use patchbay_model::{Connect, DatapathKey, NetworkId};

/// One pass over the pending parts.
pub(super) struct Evaluation<'a, 'c> {
    /// Name of the connect.
    name: &'c str,
    context: PlanContext<'a>,
    managed: &'c ManagedColumns,
    /// Part under evaluation.
    part: Part,
    /// Rows that are kept.
    kept: HashSet<Uuid, RandomState>,
    /// Rows of evaluated parts that match no wanted row so far.
    rest: Vec<(Part, TableKind, Uuid)>,
    /// Parts with at least one step. May hold a part more than once.
    pub(super) changed_parts: Vec<Part>,
    /// Planned steps.
    pub(super) steps: Vec<Step<'a>>,
    /// ACLs to insert.
    pub(super) new_acls: Vec<Acl>,
}

impl<'a, 'c> Evaluation<'a, 'c> {
    pub(super) fn new(
        name: &'c str,
        context: PlanContext<'a>,
        managed: &'c ManagedColumns,
    ) -> Self {
        Self {
            name,
            context,
            managed,
            part: Part::Stray,
            kept: HashSet::default(),
            rest: Vec::new(),
            changed_parts: Vec::new(),
            steps: Vec::new(),
            new_acls: Vec::new(),
        }
    }

    /// Plans the changes of all pending parts.
    ///
    /// # Errors
    /// An existing row holds a value that its typed table cannot represent.
    pub(super) fn connect(
        &mut self,
        state: &mut ConnectState,
        connect: &Connect,
        (key, copp): (DatapathKey, Option<Ref<Copp>>),
        links: Vec<(LinkId, Link<'a>)>,
    ) -> Result<(), TypeError> {
        let router = TargetRouter::Connect(self.connect_router());
        let retained = state.retained_rows(self.name, &self.context);
        let mut local = BTreeMap::new();
        let mut links = links.into_iter().peekable();
        let mut owned = self.context.index.owned_parts(self.name);
        for part in state.pending.parts.clone() {
            self.part = part;
            let rows = self.rows_of(owned.part(part));
            match part {
                Part::Router => self.router(connect, key, copp),
                Part::Link(id) => {
                    if let Some((_, link)) = links.next_if(|(link, _)| *link == id) {
                        let member = &state.members[&id.network];
                        self.link(connect, member, &link, router, &rows);
                    } else if state.retains_link(id, &self.context) {
                        self.keep(&rows);
                    }
                }
                Part::Policies {
                    source,
                    destination,
                } => {
                    let link = local
                        .entry(source)
                        .or_insert_with(|| state.local_link(source, connect, &self.context));
                    let is_linked = link.is_some() || state.retains_local_link(source);
                    let members = (state.members.get(&source), state.members.get(&destination));
                    if let (Some(link), (Some(source), Some(destination))) = (&*link, members)
                        && source.id != destination.id
                    {
                        self.policies(connect, source, link, destination, &rows);
                    } else if state.retains_policies(
                        connect,
                        (source, destination),
                        is_linked,
                        &retained,
                    ) {
                        self.keep(&rows);
                    }
                }
                Part::Services => {
                    let wanted = desired::services(connect, state.members(), &self.context);
                    state.service_notices.clear();
                    if let Some((wanted, notices)) = wanted {
                        state.service_notices = notices;
                        self.services(wanted, &rows, &retained)?;
                    }
                }
                Part::Isolation => {
                    let members = state.members.values();
                    if let Some(wanted) = desired::isolation(connect, members, &self.context) {
                        self.isolation(&wanted, &rows, &retained)?;
                    }
                }
                Part::Stray => {}
            }
            let rest = rows
                .iter()
                .filter(|(_, row)| !self.kept.contains(&row.uuid));
            self.rest
                .extend(rest.map(|(kind, row)| (part, *kind, row.uuid)));
        }
        self.remove_stale();
        Ok(())
    }

    fn rows_of(&self, owned: &[Owned]) -> Vec<(TableKind, &'a Row)> {
        let index = self.context.index;
        let rows = owned.iter();
        rows.filter_map(|row| Some((row.kind, &**index.get(row.kind, row.uuid)?)))
            .collect()
    }

    fn step(&mut self, phase: Phase, batch: Option<NetworkId>, action: Action<'a>) {
        if self.changed_parts.last() != Some(&self.part) {
            self.changed_parts.push(self.part);
        }
        self.steps.push(Step {
            phase,
            batch,
            action,
        });
    }

    /// Matches the wanted row with one of the candidates, or with a new row. The second value is
    /// `true` if the row must be written.
    fn match_existing<T: TableRow>(
        &mut self,
        columns: &Columns<T>,
        candidates: impl Iterator<Item = &'a Row>,
        wanted: T,
    ) -> (Upsert<'a, T>, bool) {
        let mut candidates = candidates
            .filter(|row| !self.kept.contains(&row.uuid))
            .peekable();
        let data = candidates.peek().map(|_| wanted.to_data());
        let differs = |row: &Row| data.as_ref().is_none_or(|data| columns.differ(row, data));
        // Of several rows with one identity, a row without differences is kept.
        let existing = candidates
            .map(|row| (differs(row), row))
            .min_by_key(|(differs, row)| (*differs, row.uuid));
        let (differs, existing) =
            existing.map_or((true, None), |(differs, row)| (differs, Some(row)));
        self.kept.extend(existing.map(|row| row.uuid));
        (Upsert { existing, wanted }, differs)
    }

    /// Plans a row that a router refers to. `None`: nothing to change.
    fn child<T: TableRow>(
        &mut self,
        columns: &Columns<T>,
        candidates: impl Iterator<Item = &'a Row>,
        wanted: T,
        router: TargetRouter<'a>,
        holders: &ColumnHolders,
    ) -> Option<Child<'a, T>> {
        let (upsert, differs) = self.match_existing(columns, candidates, wanted);
        let at = router.row().map(|row| row.uuid);
        let existing = upsert.existing.map(|row| row.uuid);
        let held = || existing.into_iter().flat_map(|row| holders.of(row));
        let enters = at.is_none_or(|at| held().all(|holder| holder != at));
        let leaves: Vec<&'a Row> = held()
            .filter(|holder| Some(*holder) != at)
            .filter_map(|holder| self.context.index.get(TableKind::Router, holder))
            .map(AsRef::as_ref)
            .collect();
        (differs || enters || !leaves.is_empty()).then_some(Child {
            upsert,
            router,
            enters,
            leaves,
        })
    }

    /// Keeps all rows of a part unchanged.
    fn keep(&mut self, rows: &[(TableKind, &'a Row)]) {
        self.kept.extend(rows.iter().map(|(_, row)| row.uuid));
    }
}

/// Rows of a table with an identity (`k8s.ovn.org/id`).
fn rows_with_id<'r, 'a>(
    rows: &'r [(TableKind, &'a Row)],
    wanted: TableKind,
    context: PlanContext<'a>,
    id: &'r str,
) -> impl Iterator<Item = &'a Row> + use<'r, 'a> {
    let identity = context.index.identity(wanted);
    let rows = rows.iter().filter(move |(kind, _)| *kind == wanted);
    rows.map(|(_, row)| *row)
        .filter(move |row| identity.id(row) == id)
}

/// Identity of a wanted row.
fn desired_id(external_ids: &BTreeMap<String, String>) -> &str {
    external_ids.get(key::ID).map_or("", String::as_str)
}

/// True if a port belongs to another owner.
pub(super) fn is_foreign_port(port: &Row, connect: &str, context: &PlanContext<'_>) -> bool {
    let identity = context.index.identity(TableKind::Port);
    identity.owner(port) != Some(connect) && identity.has_owner(port)
}
