//! Comparison of pending parts with the database.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use foldhash::fast::RandomState;
use patchbay_schemas::datum::{Datum, Set};
use patchbay_schemas::row::Row;
use smallvec::SmallVec;
use smol_str::SmolStr;
use uuid::Uuid;

use crate::capability::Capability;
use crate::dependencies::{Dependencies, Read, Source};
use crate::index::{Index, OwnRow, OwnRows, OwnedRow, RowKey};
use crate::members::{Contribution, Host};
use crate::part_rows::{PartRows, WantedRow};
use crate::parts::{PartId, Parts};
use crate::queue::Queue;
use crate::reader::{PartRow, Reader, Reads, Scene};
use crate::resolved::ResolvedTable;
use crate::steps::{Action, Membership, NewRow, Step, Target};
use crate::table::{Holding, Owner, Phase, Phases, TablePlace};

/// Reason why a wanted row is not made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refused<P> {
    /// Name of the table.
    pub table: &'static str,
    /// The part that wants the same row and comes first; `None`: the row belongs to another
    /// program.
    pub first: Option<P>,
}

/// One pass over pending parts.
pub(crate) struct Evaluation<C: Capability> {
    /// Parts to be evaluated. What parts leave to others makes those pending; they come later in
    /// the order.
    queue: Queue<C::Part>,
    steps: Vec<Step>,
    /// Rows that stay.
    kept: HashSet<Uuid, RandomState>,
    /// Rows of evaluated parts that were not asked for when their part was evaluated.
    rest: Vec<OwnedRow>,
    named: NamedTargets,
    /// Memory of what earlier parts have read and wanted.
    sources: Vec<Read>,
    wanted: Vec<WantedRow>,
}

/// Rows that others refer to by name. Many rows have the same holder.
#[derive(Debug, Default)]
struct NamedTargets {
    targets: HashMap<(TablePlace, SmolStr), (RowKey, Target), RandomState>,
    /// The last one. Rows that follow each other mostly have the same holder.
    last: Option<(TablePlace, SmolStr, (RowKey, Target))>,
}

impl NamedTargets {
    fn find<P: Clone + Eq + Hash>(
        &mut self,
        table: TablePlace,
        name: &SmolStr,
        index: &Index<P>,
    ) -> (RowKey, Target) {
        if let Some((of, last, target)) = &self.last
            && *of == table
            && last == name
        {
            return *target;
        }
        let target = self.targets.entry((table, name.clone()));
        let target = *target.or_insert_with(|| {
            let (key, row) = index.named(table, name);
            let target = row.map_or(Target::New(key), |row| Target::There(row.uuid));
            (key, target)
        });
        self.last = Some((table, name.clone(), target));
        target
    }
}

/// Outcome of one part.
pub(crate) struct Evaluated<C: Capability> {
    pub(crate) reads: Reads<C>,
    pub(crate) report: Option<C::Report>,
    pub(crate) refused: Vec<Refused<C::Part>>,
    /// Members of rows of any part.
    pub(crate) members: Vec<Contribution>,
    /// Rows with contributed members.
    pub(crate) hosts: Vec<Host>,
    /// `true` if the part wants no rows, has none and contributes no members.
    pub(crate) is_empty: bool,
}

/// The part that is evaluated, and its rows.
struct Current<'a, P> {
    part: PartId,
    key: &'a P,
    own: OwnRows<'a>,
}

/// A wanted row beside the row of the database that is to be it.
struct Match<'a> {
    wanted: &'a WantedRow,
    row: &'a Row,
    held_by: &'a [(Holding, Target)],
    holds: &'a [(Holding, Target)],
}

impl<C: Capability> Evaluation<C> {
    pub(crate) fn new(pending: Vec<PartId>, parts: &Parts<C::Part>) -> Self {
        let queue = Queue::new(pending, parts);
        Self {
            steps: Vec::new(),
            kept: HashSet::with_capacity_and_hasher(queue.len(), RandomState::default()),
            queue,
            rest: Vec::new(),
            named: NamedTargets::default(),
            sources: Vec::new(),
            wanted: Vec::new(),
        }
    }

    /// Gives the memory of what a part has read to the next part.
    pub(crate) fn reuse(&mut self, sources: Vec<Read>) {
        self.sources = sources;
        self.sources.clear();
    }

    /// Takes the next pending part.
    pub(crate) fn next_part(
        &mut self,
        index: &Index<C::Part>,
        parts: &Parts<C::Part>,
        dependencies: &Dependencies<C::Part>,
    ) -> Option<(C::Part, PartId)> {
        if self.queue.is_empty() {
            self.queue_claimants_of_rest(index, parts, dependencies);
        }
        self.queue.pop()
    }

    /// Evaluates a part.
    pub(crate) fn evaluate(
        &mut self,
        (part, key): (PartId, &C::Part),
        scene: Scene<'_, C>,
    ) -> Evaluated<C> {
        let reads = Reads::with_sources(std::mem::take(&mut self.sources));
        let reader = Reader::with_reads(scene, Some((part, key)), reads);
        let mut rows = PartRows::new(std::mem::take(&mut self.wanted));
        scene.capability.rows(key, &reader, &mut rows);
        let (own, mut reads) = reader.finish();
        for claim in reads.claims.iter().filter(|claim| claim.is_contested) {
            self.claim((part, key), claim.source, scene);
        }
        let is_empty = own.is_empty() && rows.wanted.is_empty() && rows.members.is_empty();
        let layout = &scene.index.layout;
        let members = rows.members.into_iter().map(|(table, name, member)| {
            let hash = layout.text_key(&name);
            (RowKey { table, hash }, member)
        });
        let members = members.collect();
        self.kept.extend(rows.kept.iter().copied());
        let mut asked_for = rows.kept;
        let current = Current { part, key, own };
        let (mut refused, mut hosts) = (Vec::new(), Vec::new());
        for wanted in rows.wanted.drain(..) {
            match self.settle(&current, wanted, scene, &mut reads, &mut hosts) {
                Ok(row) => asked_for.extend(row),
                Err(reason) => refused.push(reason),
            }
        }
        self.wanted = rows.wanted;
        if !rows.keeps_rest {
            let unwanted = current
                .own
                .iter()
                .filter(|own| !asked_for.contains(&own.row.uuid));
            self.leave(&current, unwanted, scene, &mut reads);
        }
        Evaluated {
            reads,
            report: rows.report,
            refused,
            members,
            hosts,
            is_empty,
        }
    }

    /// Removes the rows that no part has asked for. Returns the steps of the whole pass.
    pub(crate) fn finish(mut self, index: &Index<C::Part>) -> Vec<Step> {
        for owned in std::mem::take(&mut self.rest) {
            if !self.kept.contains(&owned.uuid) {
                self.remove(owned, index);
            }
        }
        self.steps
    }

    pub(crate) fn queue_later(&mut self, part: PartId, parts: &Parts<C::Part>) {
        self.queue.push(part, parts);
    }

    /// Looks for parts that want the identity of a row that is about to go: it may be theirs. A part
    /// that is not pending still wants what it wanted before. If several rows have the identity, the
    /// parts are pending.
    fn queue_claimants_of_rest(
        &mut self,
        index: &Index<C::Part>,
        parts: &Parts<C::Part>,
        dependencies: &Dependencies<C::Part>,
    ) {
        let mut wanted = Vec::new();
        let mut claimants = Vec::new();
        let rest = self.rest.iter();
        for owned in rest.filter(|row| !self.kept.contains(&row.uuid)) {
            let Some(row) = index.row(owned.table, owned.uuid) else {
                continue;
            };
            for key in index.keys_of(owned.table, row) {
                let others = dependencies.claimants(key.source());
                let others = others.filter(|part| !self.queue.has_evaluated(*part));
                let before = claimants.len();
                claimants.extend(others);
                if claimants.len() > before && index.is_only(key, row) {
                    claimants.truncate(before);
                    wanted.push(owned.uuid);
                }
            }
        }
        self.kept.extend(wanted);
        for part in claimants {
            self.queue_later(part, parts);
        }
    }

    /// Chooses the row of the database that is to be the wanted one, or a new one, and notes what
    /// is to be done. Returns the row of the database.
    fn settle<'a>(
        &mut self,
        current: &Current<'a, C::Part>,
        wanted: WantedRow,
        scene: Scene<'a, C>,
        reads: &mut Reads<C>,
        hosts: &mut Vec<Host>,
    ) -> Result<Option<Uuid>, Refused<C::Part>> {
        let index = scene.index;
        let table = index.layout.table(wanted.table);
        let mut target = |holding: Holding, name: &SmolStr, is_holder: bool| {
            let spec = index.layout.holding(holding).spec;
            let table = if is_holder { spec.holder } else { spec.held };
            let (key, target) = self.named.find(table, name, index);
            reads.sources.push(Read::new(key.source(), false));
            (holding, target)
        };
        let held_by: SmallVec<[(Holding, Target); 1]> = wanted
            .held_by
            .iter()
            .map(|(holding, name)| target(*holding, name, true))
            .collect();
        let holds: Vec<(Holding, Target)> = wanted
            .holds
            .iter()
            .map(|(holding, name)| target(*holding, name, false))
            .collect();
        let identity = index.layout.wanted_key(wanted.table, &wanted.data);
        let key = match held_by.first() {
            _ if !table.identity.is_in_holder => identity,
            Some((holding, Target::There(holder))) => {
                identity.map(|hash| index.layout.key_in_holder(*holding, *holder, hash))
            }
            _ => None,
        };
        let row_key = key.map(|hash| RowKey {
            table: wanted.table,
            hash,
        });
        let mut existing = None;
        if let Some(row_key) = row_key {
            let source = row_key.source();
            if !reads.has_alone(source) {
                reads.sources.push(Read::new(source, true));
                if let Some(first) = self.claim((current.part, current.key), source, scene) {
                    let table = table.name;
                    let first = Some(first.clone());
                    return Err(Refused { table, first });
                }
            }
            if !reads.absent.contains(&row_key) {
                existing = self.choose(current, row_key, &wanted, index)?;
            }
        } else if table.identity.is_in_part {
            existing = self.choose_in_part(&current.own, &wanted, index);
        }
        let phases = wanted.phases.unwrap_or(table.phases);
        let host = row_key.filter(|_| table.members.is_some());
        hosts.extend(host.map(|key| Host {
            part: current.part,
            key,
            row: existing.map(|row| row.uuid),
            phases,
            together: wanted.together,
        }));
        if let Some(row) = existing {
            self.kept.insert(row.uuid);
            let matched = Match {
                wanted: &wanted,
                row,
                held_by: &held_by,
                holds: &holds,
            };
            self.compare(current.part, &matched, index);
            Ok(Some(row.uuid))
        } else {
            let together = wanted.together;
            let row = NewRow {
                table: wanted.table,
                key: row_key,
                data: wanted.data,
                held_by,
                holds,
            };
            let action = Action::Insert(Box::new(row));
            self.step(current.part, (phases.come, together), action);
            Ok(None)
        }
    }

    /// Keeps rows of a part that it does not want, or leaves them to other parts. Those that no
    /// part asks for go. If another part has asked for one until now, this part is pending again.
    fn leave<'r>(
        &mut self,
        current: &Current<'_, C::Part>,
        unwanted: impl Iterator<Item = OwnRow<'r>>,
        scene: Scene<'_, C>,
        reads: &mut Reads<C>,
    ) {
        let index = scene.index;
        let mut unwanted = unwanted.peekable();
        if unwanted.peek().is_none() {
            return;
        }
        let reader = Reader::new(scene, Some((current.part, current.key)));
        for own in unwanted {
            let OwnRow { owned, .. } = own;
            let row = PartRow::new(own, index);
            if scene.capability.keeps(current.key, row, &reader) {
                self.kept.insert(owned.uuid);
                continue;
            }
            for key in row.keys(index) {
                reader.record(key.source());
            }
            if !self.kept.contains(&owned.uuid) {
                self.rest.push(owned);
            }
        }
        reads.extend(reader.into_reads());
    }

    /// Claims a source for a part. Returns the part that has it, if that is another one. Otherwise,
    /// if the claim is new, the other claimants are pending.
    fn claim<'a>(
        &mut self,
        (part, key): (PartId, &C::Part),
        source: Source,
        scene: Scene<'a, C>,
    ) -> Option<&'a C::Part> {
        let claimants = scene.dependencies.claimants(source);
        let mut others: SmallVec<[PartId; 4]> = claimants.collect();
        let count = others.len();
        others.retain(|other| *other != part);
        let is_new = others.len() == count;
        let keys = others.iter().filter_map(|other| scene.parts.get(*other));
        let first = keys.min().filter(|first| *first < key);
        if first.is_none() && is_new {
            for other in others {
                self.queue_later(other, scene.parts);
            }
        }
        first
    }

    /// Row of the part that is to be the wanted one: of several the one that is right already.
    fn choose_in_part<'a>(
        &self,
        own: &OwnRows<'a>,
        wanted: &WantedRow,
        index: &Index<C::Part>,
    ) -> Option<&'a Row> {
        let table = index.layout.table(wanted.table);
        let id = table.wanted_external_id(&wanted.data);
        let candidates = own
            .iter()
            .filter(|own| own.owned.table == wanted.table && table.external_id(own.row) == id)
            .map(|own| own.row)
            .filter(|row| !self.kept.contains(&row.uuid));
        candidates.min_by_key(|row| (table.differs(row, &wanted.data), row.uuid))
    }

    /// Row of an identity that is to be the wanted one: of several the one that is right already.
    fn choose<'a>(
        &self,
        current: &Current<'a, C::Part>,
        key: RowKey,
        wanted: &WantedRow,
        index: &'a Index<C::Part>,
    ) -> Result<Option<&'a Row>, Refused<C::Part>> {
        let own = current.own.find(key);
        if let Some(row) = own.filter(|row| !self.kept.contains(&row.uuid)) {
            return Ok(Some(row));
        }
        let table = index.layout.table(wanted.table);
        let values = || table.identity.values(&wanted.data);
        let mut is_taken = false;
        let mut candidates: Vec<&Row> = Vec::new();
        for row in index.find(key, values) {
            let is_same = table.identity.is_in_holder
                || index.layout.row_key(wanted.table, row) == Some(key.hash);
            if !is_same || self.kept.contains(&row.uuid) {
                continue;
            }
            let is_own = current.own.contains((wanted.table, row.uuid));
            if !is_own && matches!(index.owner(wanted.table, row), Owner::Other) {
                is_taken = true;
            } else {
                candidates.push(row);
            }
        }
        let chosen = match *candidates {
            [row] => Some(row),
            _ => candidates
                .into_iter()
                .min_by_key(|row| (table.differs(row, &wanted.data), row.uuid)),
        };
        if chosen.is_none() && is_taken && !table.identity.is_in_holder {
            return Err(Refused {
                table: table.name,
                first: None,
            });
        }
        Ok(chosen)
    }

    /// Notes what is to be done about an existing row.
    fn compare(&mut self, part: PartId, matched: &Match<'_>, index: &Index<C::Part>) {
        let Match {
            wanted,
            row,
            held_by,
            holds,
        } = *matched;
        let table = index.layout.table(wanted.table);
        let phases = wanted.phases.unwrap_or(table.phases);
        self.update(part, matched, phases, table);
        let this = Target::There(row.uuid);
        let come = (phases.come, wanted.together);
        for holding in table.held_by.iter().copied() {
            let have: SmallVec<[Uuid; 2]> = index.holders(holding).of(row.uuid).collect();
            let of_holding = held_by.iter().filter(|(of, _)| *of == holding);
            let wanted: SmallVec<[Target; 2]> = of_holding.map(|(_, holder)| *holder).collect();
            for holder in &wanted {
                if !have.iter().any(|have| holder.is(*have)) {
                    let membership = Membership {
                        holding,
                        holder: *holder,
                        held: this,
                    };
                    self.step(part, come, Action::Attach(membership));
                }
            }
            if !index.layout.holding(holding).spec.is_exclusive {
                continue;
            }
            for holder in have {
                if !wanted.iter().any(|wanted| wanted.is(holder)) {
                    let action = Action::Detach {
                        holding,
                        holder,
                        held: row.uuid,
                        goes: false,
                    };
                    self.step(part, (phases.go, None), action);
                }
            }
        }
        for (holding, held) in holds.iter().copied() {
            let is_held = match held {
                Target::There(held) => index.holders(holding).has(row.uuid, held),
                Target::New(_) => false,
            };
            if !is_held {
                let membership = Membership {
                    holding,
                    holder: this,
                    held,
                };
                self.step(part, come, Action::Attach(membership));
            }
        }
    }

    /// Notes how the columns of an existing row change. A staged column changes in two steps: it
    /// grows with the other columns, and shrinks in the phase in which rows go.
    fn update(&mut self, part: PartId, matched: &Match<'_>, phases: Phases, table: &ResolvedTable) {
        let Match { wanted, row, .. } = *matched;
        let mut columns: Vec<_> = table.differences(row, &wanted.data).collect();
        let staged = columns
            .iter()
            .position(|(name, ..)| table.staged == Some(*name));
        let mut shrinks = None;
        if let Some((name, have, wanted)) = staged.map(|place| columns.swap_remove(place)) {
            let shrinks_first = phases.go < phases.change;
            let between = match (&have, &wanted) {
                (Datum::Set(have), Datum::Set(wanted)) => {
                    let (mut lost, mut gained) = (Vec::new(), Vec::new());
                    have.diff(
                        wanted,
                        |atom| lost.push(atom.clone()),
                        |atom| gained.push(atom.clone()),
                    );
                    let mut between = have.clone();
                    if shrinks_first {
                        between.remove_all(&Set::from_vec(lost));
                    } else if !gained.is_empty() {
                        between.extend(&Set::from_vec(gained));
                    }
                    Datum::Set(between)
                }
                _ => wanted.clone(),
            };
            let first = (between != have).then(|| (name, have, between.clone()));
            let second = (between != wanted).then_some((name, between, wanted));
            let (grows, later) = if shrinks_first {
                (second, first)
            } else {
                (first, second)
            };
            columns.extend(grows);
            shrinks = later;
        }
        let update = |columns| Action::Update {
            table: wanted.table,
            row: row.uuid,
            columns,
        };
        if !columns.is_empty() {
            let place = (phases.change, wanted.together);
            self.step(part, place, update(columns));
        }
        if let Some(shrinks) = shrinks {
            self.step(part, (phases.go, None), update(vec![shrinks]));
        }
    }

    fn remove(&mut self, owned: OwnedRow, index: &Index<C::Part>) {
        let table = index.layout.table(owned.table);
        let place = (table.phases.go, None);
        for holding in table.held_by.iter().copied() {
            for holder in index.holders(holding).of(owned.uuid) {
                let action = Action::Detach {
                    holding,
                    holder,
                    held: owned.uuid,
                    goes: true,
                };
                self.step(owned.part, place, action);
            }
        }
        if table.is_root {
            let action = Action::Delete {
                table: owned.table,
                row: owned.uuid,
            };
            self.step(owned.part, place, action);
        }
    }

    fn step(&mut self, part: PartId, (phase, together): (Phase, Option<u32>), action: Action) {
        self.steps.push(Step {
            phase,
            together,
            part,
            action,
        });
    }
}
