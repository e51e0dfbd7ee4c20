//! Compares the pending parts of a connect with the database.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use foldhash::fast::RandomState;
use patchbay_schemas::nb::{Acl, AddressSet, Copp, LoadBalancerGroup};
use patchbay_schemas::row::Row;
use patchbay_schemas::typed::{Ref, TableRow, TypeError};
use smol_str::SmolStr;
use uuid::Uuid;

use super::ConnectState;
use super::frozen::FrozenRows;
use crate::desired::{self, Around, IsolationRows, Link, Member, PortRow};
use crate::index::{Holders, Kind, Owned};
use crate::reconcile::{Action, At, Child, Columns, Decided, Phase, Put, Step};
use crate::unit::{LinkId, Unit};
use patchbay_model::external_ids::key;
use patchbay_model::{Connect, DatapathKey, NetworkId, names};

/// One pass over the pending parts.
pub(super) struct Evaluation<'a, 'c> {
    /// Name of the connect.
    name: &'c str,
    around: Around<'a>,
    decided: &'c Decided,
    /// The part that is looked at.
    unit: Unit,
    /// Rows that stay.
    kept: HashSet<Uuid, RandomState>,
    /// Rows of the parts that were looked at so far and that nothing has asked for yet.
    rest: Vec<(Unit, Kind, Uuid)>,
    /// The parts that are not as they should be; some several times.
    pub(super) busy: Vec<Unit>,
    /// What is to be done.
    pub(super) steps: Vec<Step<'a>>,
    /// ACLs that come.
    pub(super) new_acls: Vec<Acl>,
}

impl<'a, 'c> Evaluation<'a, 'c> {
    pub(super) fn new(name: &'c str, around: Around<'a>, decided: &'c Decided) -> Self {
        Self {
            name,
            around,
            decided,
            unit: Unit::Stray,
            kept: HashSet::default(),
            rest: Vec::new(),
            busy: Vec::new(),
            steps: Vec::new(),
            new_acls: Vec::new(),
        }
    }

    /// All rows of the connect go.
    pub(super) fn remove_all(&mut self) {
        let owned = self.around.index.owned(self.name);
        self.rest
            .extend(owned.map(|row| (row.unit, row.kind, row.uuid)));
        self.remove_stale();
    }

    /// The pending parts become what the connect says.
    ///
    /// # Errors
    /// A row that is there holds what its table's type does not allow.
    pub(super) fn connect(
        &mut self,
        state: &mut ConnectState,
        connect: &Connect,
        (key, copp): (DatapathKey, Option<Ref<Copp>>),
        links: Vec<(LinkId, Link<'a>)>,
    ) -> Result<(), TypeError> {
        let router = At::Connect(self.connect_router());
        let frozen = state.frozen_rows(self.name, &self.around);
        let mut local = BTreeMap::new();
        let mut links = links.into_iter().peekable();
        let mut owned = self.around.index.owned_parts(self.name);
        for unit in state.pending.units.clone() {
            self.unit = unit;
            let rows = self.rows_of(owned.part(unit));
            match unit {
                Unit::Router => self.router(connect, key, copp),
                Unit::Link(id) => {
                    if let Some((_, link)) = links.next_if(|(link, _)| *link == id) {
                        let member = &state.members[&id.network];
                        self.link(connect, member, &link, router, &rows);
                    } else if state.keeps_link(id, &self.around) {
                        self.keep(&rows);
                    }
                }
                Unit::Policies {
                    source,
                    destination,
                } => {
                    let link = local
                        .entry(source)
                        .or_insert_with(|| state.local_link(source, connect, &self.around));
                    let is_linked = link.is_some() || state.keeps_local_link(source);
                    let members = (state.members.get(&source), state.members.get(&destination));
                    if let (Some(link), (Some(source), Some(destination))) = (&*link, members)
                        && source.id != destination.id
                    {
                        self.policies(connect, source, link, destination, &rows);
                    } else if state.keeps_policies(
                        connect,
                        (source, destination),
                        is_linked,
                        &frozen,
                    ) {
                        self.keep(&rows);
                    }
                }
                Unit::Services => {
                    let wanted = desired::services(connect, state.members(), &self.around);
                    state.service_notices.clear();
                    if let Some((wanted, notices)) = wanted {
                        state.service_notices = notices;
                        self.services(wanted, &rows, &frozen)?;
                    }
                }
                Unit::Isolation => {
                    let members = state.members.values();
                    if let Some(wanted) = desired::isolation(connect, members, &self.around) {
                        self.isolation(&wanted, &rows, &frozen)?;
                    }
                }
                Unit::Stray => {}
            }
            let rest = rows
                .iter()
                .filter(|(_, row)| !self.kept.contains(&row.uuid));
            self.rest
                .extend(rest.map(|(kind, row)| (unit, *kind, row.uuid)));
        }
        self.remove_stale();
        Ok(())
    }

    /// The load balancer group that is there.
    pub(super) fn group(&self) -> Option<Uuid> {
        let name = names::load_balancer_group(self.name);
        let index = self.around.index;
        let rows = index.owned_of(self.name, Unit::Services..=Unit::Services);
        let marks = index.marks(Kind::Group);
        let mut groups = rows.filter_map(|row| index.get(row.kind, row.uuid));
        groups
            .find(|row| marks.name(row) == name)
            .map(|row| row.uuid)
    }

    fn rows_of(&self, owned: &[Owned]) -> Vec<(Kind, &'a Row)> {
        let index = self.around.index;
        let rows = owned.iter();
        rows.filter_map(|row| Some((row.kind, &**index.get(row.kind, row.uuid)?)))
            .collect()
    }

    /// The connect router, if there is one: ours, or one of its name that is nobody's.
    fn connect_router(&self) -> Option<&'a Row> {
        let index = self.around.index;
        let mut ours = index
            .owned_of(self.name, Unit::Router..=Unit::Router)
            .filter_map(|row| index.get(row.kind, row.uuid));
        let nobodys = || {
            let row = index.router(&names::connect_router(self.name))?;
            (!index.marks(Kind::Router).has_owner(row)).then_some(row)
        };
        ours.next().or_else(nobodys).map(AsRef::as_ref)
    }

    fn step(&mut self, phase: Phase, together: Option<NetworkId>, action: Action<'a>) {
        if self.busy.last() != Some(&self.unit) {
            self.busy.push(self.unit);
        }
        self.steps.push(Step {
            phase,
            together,
            action,
        });
    }

    /// Chooses one of the candidates to be the wanted row, or a new one. Returns whether there is something to do.
    fn settle<T: TableRow>(
        &mut self,
        columns: &Columns<T>,
        candidates: impl Iterator<Item = &'a Row>,
        wanted: T,
    ) -> (Put<'a, T>, bool) {
        let mut candidates = candidates
            .filter(|row| !self.kept.contains(&row.uuid))
            .peekable();
        let data = candidates.peek().map(|_| wanted.to_data());
        let differs = |row: &Row| data.as_ref().is_none_or(|data| columns.differ(row, data));
        // Of several rows with one identity the one that is right already stays.
        let existing = candidates
            .map(|row| (differs(row), row))
            .min_by_key(|(differs, row)| (*differs, row.uuid));
        let (differs, existing) =
            existing.map_or((true, None), |(differs, row)| (differs, Some(row)));
        self.kept.extend(existing.map(|row| row.uuid));
        (Put { existing, wanted }, differs)
    }

    /// A row of a router; none if it is there as it should be.
    fn child<T: TableRow>(
        &mut self,
        columns: &Columns<T>,
        candidates: impl Iterator<Item = &'a Row>,
        wanted: T,
        router: At<'a>,
        holders: &Holders,
    ) -> Option<Child<'a, T>> {
        let (put, differs) = self.settle(columns, candidates, wanted);
        let at = router.row().map(|row| row.uuid);
        let existing = put.existing.map(|row| row.uuid);
        let held = || existing.into_iter().flat_map(|row| holders.of(row));
        let enters = at.is_none_or(|at| held().all(|holder| holder != at));
        let leaves: Vec<&'a Row> = held()
            .filter(|holder| Some(*holder) != at)
            .filter_map(|holder| self.around.index.get(Kind::Router, holder))
            .map(AsRef::as_ref)
            .collect();
        (differs || enters || !leaves.is_empty()).then_some(Child {
            put,
            router,
            enters,
            leaves,
        })
    }

    fn router(&mut self, connect: &Connect, key: DatapathKey, copp: Option<Ref<Copp>>) {
        let existing = self.connect_router();
        let Some(copp) = copp else {
            self.kept.extend(existing.map(|row| row.uuid));
            return;
        };
        let wanted = desired::router(connect, key, copp);
        let (put, differs) = self.settle(&self.decided.router, existing.into_iter(), wanted);
        if differs {
            self.step(Phase::Link, None, Action::Router(put));
        }
    }

    fn link(
        &mut self,
        connect: &Connect,
        member: &Member,
        link: &Link<'a>,
        router: At<'a>,
        rows: &[(Kind, &'a Row)],
    ) {
        let index = self.around.index;
        self.port(link.connect_port(connect, member), link.existing, router);
        if let Some(port) = link.network_port(connect, member)
            && let Some(router) = index.router(&member.router)
        {
            let existing = index.port(&port.name).map(AsRef::as_ref);
            self.port(port, existing, At::Network(router));
        }
        if link.has_unreadable_subnets(member) {
            let routes = rows.iter().filter(|(kind, _)| *kind == Kind::Route);
            self.kept.extend(routes.map(|(_, row)| row.uuid));
        }
        for route in desired::routes(member, link) {
            let id = route.external_ids.get_str(key::ID).unwrap_or_default();
            let candidates: Vec<&'a Row> = identical(rows, Kind::Route, self.around, id).collect();
            let child = self.child(
                &self.decided.route,
                candidates.into_iter(),
                route,
                router,
                &index.routes,
            );
            if let Some(child) = child {
                self.step(Phase::Link, None, Action::Route(child));
            }
        }
    }

    fn port(&mut self, port: PortRow, existing: Option<&'a Row>, router: At<'a>) {
        let holders = &self.around.index.ports;
        let child = self.child(
            &self.decided.port,
            existing.into_iter(),
            port,
            router,
            holders,
        );
        if let Some(child) = child {
            self.step(Phase::Link, None, Action::Port(child));
        }
    }

    fn policies(
        &mut self,
        connect: &Connect,
        source: &Member,
        link: &Link<'a>,
        destination: &Member,
        rows: &[(Kind, &'a Row)],
    ) {
        let index = self.around.index;
        let decided = self.decided;
        // Members without a router get no rows.
        let Some(router) = index.router(&source.router) else {
            return;
        };
        for policy in desired::policies(connect, source, link, destination) {
            let id = identity(&policy.external_ids);
            let candidates: Vec<&'a Row> = identical(rows, Kind::Policy, self.around, id).collect();
            let child = self.child(
                &decided.policy,
                candidates.into_iter(),
                policy,
                At::Network(router),
                &index.policies,
            );
            if let Some(child) = child {
                let action = Action::Policy(Box::new(child));
                self.step(Phase::Connect, Some(source.id), action);
            }
        }
    }

    /// Leaves the rows of a part as they are.
    fn keep(&mut self, rows: &[(Kind, &'a Row)]) {
        self.kept.extend(rows.iter().map(|(_, row)| row.uuid));
    }

    /// The switches that frozen networks are attached to.
    fn frozen_switches(&self, frozen: &FrozenRows) -> BTreeSet<Uuid> {
        let switches = frozen.switches.iter();
        switches
            .filter_map(|name| self.around.index.switch(name))
            .map(|switch| switch.uuid)
            .collect()
    }

    fn services(
        &mut self,
        mut wanted: desired::ServiceRows,
        rows: &[(Kind, &'a Row)],
        frozen: &FrozenRows,
    ) -> Result<(), TypeError> {
        let index = self.around.index;
        let decided = self.decided;
        let existing: Vec<&'a Row> = rows.iter().map(|(_, row)| *row).collect();
        if !frozen.linked.is_empty() {
            let groups = index.snapshot().typed::<LoadBalancerGroup>();
            for row in &existing {
                let there = groups.read(row)?.load_balancer;
                wanted.group.load_balancer.extend(there);
            }
        }
        let (put, differs) = self.settle(&decided.group, existing.into_iter(), wanted.group);
        let group = put.existing.map(|row| row.uuid);
        if differs {
            self.step(Phase::Serve, None, Action::Group(put));
        }
        let mut switches = self.frozen_switches(frozen);
        let served = wanted.switches.iter();
        for switch in served.filter_map(|name| index.switch(name)) {
            switches.insert(switch.uuid);
            if group.is_none_or(|group| !index.groups.has(switch.uuid, group)) {
                self.step(Phase::Serve, None, Action::Serve { switch });
            }
        }
        if let Some(group) = group {
            self.leave_others(Kind::Group, group, &switches, Phase::Disconnect);
        }
        Ok(())
    }

    fn isolation(
        &mut self,
        rows: &IsolationRows,
        there: &[(Kind, &'a Row)],
        frozen: &FrozenRows,
    ) -> Result<(), TypeError> {
        let index = self.around.index;
        let decided = self.decided;
        let names = index.marks(Kind::AddressSet);
        for set in &rows.address_sets {
            let candidates = there
                .iter()
                .filter(|(kind, row)| *kind == Kind::AddressSet && names.name(row) == set.name);
            // One that has lost its owner is still known by its name, which no other row can have.
            let ownerless = index.address_set(&SmolStr::new(&set.name));
            let ownerless = ownerless.filter(|row| !names.has_owner(row));
            let candidates: Vec<&'a Row> = candidates
                .map(|(_, row)| *row)
                .chain(ownerless.map(AsRef::as_ref))
                .collect();
            let mut set = set.clone();
            if !frozen.linked.is_empty() {
                let sets = index.snapshot().typed::<AddressSet>();
                for row in &candidates {
                    set.addresses.extend(sets.read(row)?.addresses);
                }
            }
            let (put, differs) = self.settle(&decided.address_set, candidates.into_iter(), set);
            if differs {
                self.address_set(put)?;
            }
        }
        // For each ACL, the row that is there or the place among those that come.
        let mut shared = Vec::with_capacity(rows.shared.len());
        for acl in &rows.shared {
            shared.push(self.acl(there, acl, Phase::Isolate, None));
        }
        let mut wanted: BTreeMap<Uuid, BTreeSet<Uuid>> = shared
            .iter()
            .filter_map(|acl| Some((acl.ok()?, BTreeSet::new())))
            .collect();
        for isolated in &rows.switches {
            let network = Some(isolated.network);
            let own = self.acl(there, &isolated.pass_own, Phase::Connect, network);
            let Some(switch) = index.switch(&isolated.name) else {
                continue;
            };
            let (mut has, mut new) = (Vec::new(), Vec::new());
            for acl in shared.iter().chain([&own]) {
                match *acl {
                    Ok(acl) => {
                        wanted.entry(acl).or_default().insert(switch.uuid);
                        has.extend((!index.acls.has(switch.uuid, acl)).then_some(acl));
                    }
                    Err(place) => new.push(place),
                }
            }
            if !(has.is_empty() && new.is_empty()) {
                let there = has;
                let action = Action::Attach { switch, there, new };
                self.step(Phase::Isolate, None, action);
            }
        }
        let frozen = self.frozen_switches(frozen);
        // What is on the switches of frozen networks stays there, and only there.
        for (_, acl) in there.iter().filter(|(kind, _)| *kind == Kind::Acl) {
            let mut holders = index.acls.of(acl.uuid);
            if holders.any(|holder| frozen.contains(&holder)) && self.kept.insert(acl.uuid) {
                wanted.insert(acl.uuid, BTreeSet::new());
            }
        }
        for (acl, mut switches) in wanted {
            switches.extend(&frozen);
            self.leave_others(Kind::Acl, acl, &switches, Phase::Release);
        }
        Ok(())
    }

    /// The row of an ACL, or its place among those that come.
    fn acl(
        &mut self,
        there: &[(Kind, &'a Row)],
        acl: &Acl,
        phase: Phase,
        network: Option<NetworkId>,
    ) -> Result<Uuid, usize> {
        let id = identity(&acl.external_ids);
        let candidates: Vec<&'a Row> = identical(there, Kind::Acl, self.around, id).collect();
        let decided = self.decided;
        let (put, differs) = self.settle(&decided.acl, candidates.into_iter(), acl.clone());
        let Some(existing) = put.existing else {
            self.new_acls.push(put.wanted);
            return Err(self.new_acls.len() - 1);
        };
        if differs {
            self.step(phase, network, Action::Acl(Box::new(put)));
        }
        Ok(existing.uuid)
    }

    fn address_set(&mut self, put: Put<'a, AddressSet>) -> Result<(), TypeError> {
        let Some(existing) = put.existing else {
            let meanwhile = put.wanted.clone();
            self.step(Phase::Isolate, None, Action::Grow { put, meanwhile });
            return Ok(());
        };
        let have = self.around.index.snapshot().typed::<AddressSet>();
        let have = have.read(existing)?;
        let mut meanwhile = put.wanted.clone();
        meanwhile.addresses.extend(have.addresses.iter().cloned());
        let shrinks = meanwhile.addresses != put.wanted.addresses;
        let grows = meanwhile.addresses != have.addresses || !shrinks;
        if shrinks {
            let put = Put {
                existing: put.existing,
                wanted: put.wanted.clone(),
            };
            let action = Action::Shrink { put, grown: grows };
            self.step(Phase::Release, None, action);
        }
        if grows {
            self.step(Phase::Isolate, None, Action::Grow { put, meanwhile });
        }
        Ok(())
    }

    /// Lets only the wanted switches hold a row.
    fn leave_others(&mut self, kind: Kind, row: Uuid, wanted: &BTreeSet<Uuid>, phase: Phase) {
        let index = self.around.index;
        let holders = match kind {
            Kind::Group => &index.groups,
            _ => &index.acls,
        };
        for holder in holders.of(row).filter(|holder| !wanted.contains(holder)) {
            if let Some(holder) = index.get(Kind::Switch, holder) {
                let held = kind;
                self.step(phase, None, Action::Leave { held, holder, row });
            }
        }
    }

    /// Removes the rows that nothing has asked for.
    fn remove_stale(&mut self) {
        let index = self.around.index;
        for (unit, kind, row) in std::mem::take(&mut self.rest) {
            if self.kept.contains(&row) {
                continue;
            }
            self.unit = unit;
            let (phase, holders) = match kind {
                Kind::Policy => (Phase::Disconnect, Some(&index.policies)),
                Kind::Port => (Phase::Unlink, Some(&index.ports)),
                Kind::Route => (Phase::Unlink, Some(&index.routes)),
                Kind::Acl => (Phase::Release, Some(&index.acls)),
                Kind::Group => (Phase::Disconnect, Some(&index.groups)),
                Kind::Router => (Phase::Dissolve, None),
                _ => (Phase::Release, None),
            };
            self.remove(kind, row, phase, holders);
        }
    }

    fn remove(&mut self, kind: Kind, row: Uuid, phase: Phase, holders: Option<&'a Holders>) {
        let held_in = match kind {
            Kind::Acl | Kind::Group => Kind::Switch,
            _ => Kind::Router,
        };
        for holder in holders.into_iter().flat_map(|holders| holders.of(row)) {
            if let Some(holder) = self.around.index.get(held_in, holder) {
                let held = kind;
                self.step(phase, None, Action::Leave { held, holder, row });
            }
        }
        if matches!(kind, Kind::Router | Kind::AddressSet | Kind::Group) {
            self.step(phase, None, Action::Delete { kind, row });
        }
    }
}

/// The rows with an identity.
fn identical<'r, 'a>(
    rows: &'r [(Kind, &'a Row)],
    wanted: Kind,
    around: Around<'a>,
    id: &'r str,
) -> impl Iterator<Item = &'a Row> + use<'r, 'a> {
    let marks = around.index.marks(wanted);
    let rows = rows.iter().filter(move |(kind, _)| *kind == wanted);
    rows.map(|(_, row)| *row)
        .filter(move |row| marks.id(row) == id)
}

/// The identity that a row is to have.
fn identity(external_ids: &BTreeMap<String, String>) -> &str {
    external_ids.get(key::ID).map_or("", String::as_str)
}

/// Whether a port is none that the connect can have, because it is somebody else's.
pub(super) fn is_foreign_port(port: &Row, connect: &str, around: &Around<'_>) -> bool {
    let marks = around.index.marks(Kind::Port);
    marks.owner(port) != Some(connect) && marks.has_owner(port)
}
