//! Comparison of pending parts with the database.

mod choice;
mod differences;
mod named_targets;

use std::collections::HashSet;

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use smol_str::SmolStr;
use uuid::Uuid;

use crate::capability::Capability;
use crate::dependencies::Dependencies;
use crate::index::{Index, OwnRow, OwnRows, OwnedRow, RowKey};
use crate::members::{Contribution, Host};
use crate::part_rows::{PartRows, WantedRow};
use crate::parts::{PartId, Parts};
use crate::queue::Queue;
use crate::reader::{PartRow, Reader, Reads, Scene};
use crate::sources::{Read, Source};
use crate::steps::{Action, NewRow, Step, Target};
use crate::table::Holding;

use differences::Match;
use named_targets::NamedTargets;

/// Number of parts whose rows are loaded into the processor's caches at a time.
const PARTS_AHEAD: usize = 8;
/// Rows that a part wants, on average.
const ROWS_OF_PART: usize = 2;
/// Number of rows that are loaded of one part.
const ROWS_AHEAD: usize = 4;

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
    /// Number of next parts whose rows are in the processor's caches.
    loaded: usize,
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

impl<C: Capability> Evaluation<C> {
    pub(crate) fn new(pending: Vec<PartId>, parts: &Parts<C::Part>) -> Self {
        let queue = Queue::new(pending, parts);
        Self {
            steps: Vec::new(),
            kept: HashSet::with_capacity_and_hasher(
                queue.len() * ROWS_OF_PART,
                RandomState::default(),
            ),
            queue,
            loaded: 0,
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
        self.load_rows(index);
        self.queue.pop()
    }

    /// Loads the rows of the next parts, which lie in memory in no order, at the same time.
    fn load_rows(&mut self, index: &Index<C::Part>) {
        if self.loaded == 0 {
            self.loaded = PARTS_AHEAD;
            let parts = self.queue.next_parts(PARTS_AHEAD);
            index.load_ahead(parts.flat_map(|part| index.owned(part).take(ROWS_AHEAD)));
        }
        self.loaded -= 1;
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
        let members = rows
            .members
            .into_iter()
            .map(|(table, name, member)| {
                let hash = layout.text_key(&name);
                (RowKey { table, hash }, member)
            })
            .collect();
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
            let unwanted = current.own.iter().filter(|own| !asked_for.contains(&own.row.uuid));
            self.leave(&current, unwanted, scene, &mut reads);
        }
        Evaluated { reads, report: rows.report, refused, members, hosts, is_empty }
    }

    /// Takes the rows that no part has asked for.
    pub(crate) fn take_rest(&mut self) -> Vec<OwnedRow> {
        let mut rest = std::mem::take(&mut self.rest);
        rest.retain(|owned| !self.kept.contains(&owned.uuid));
        rest
    }

    /// Removes rows. Returns the steps of the whole pass.
    pub(crate) fn finish(mut self, unwanted: Vec<OwnedRow>, index: &Index<C::Part>) -> Vec<Step> {
        for owned in unwanted {
            self.remove(owned, index);
        }
        self.steps
    }

    pub(crate) fn queue_later(&mut self, part: PartId, parts: &Parts<C::Part>) {
        self.queue.push(part, parts);
    }

    /// Looks for parts that want the identity of a row that is about to go: it may be theirs. A
    /// part that is not pending still wants what it wanted before. If several rows have the
    /// identity, the parts are pending.
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
                let others = dependencies
                    .claimants(key.source())
                    .filter(|part| !self.queue.has_evaluated(*part));
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
        let held_by: SmallVec<[(Holding, Target); 1]> =
            wanted.held_by.iter().map(|(holding, name)| target(*holding, name, true)).collect();
        let holds: Vec<(Holding, Target)> =
            wanted.holds.iter().map(|(holding, name)| target(*holding, name, false)).collect();
        let identity = index.layout.wanted_key(wanted.table, &wanted.data);
        let key = match held_by.first() {
            _ if !table.identity.is_in_holder => identity,
            Some((holding, Target::There(holder))) => {
                identity.map(|hash| index.layout.key_in_holder(*holding, *holder, hash))
            }
            _ => None,
        };
        let row_key = key.map(|hash| RowKey { table: wanted.table, hash });
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
            let matched = Match { wanted: &wanted, row, held_by: &held_by, holds: &holds };
            self.compare(current.part, &matched, index);
            Ok(Some(row.uuid))
        } else {
            let together = wanted.together;
            let row =
                NewRow { table: wanted.table, key: row_key, data: wanted.data, held_by, holds };
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
}
