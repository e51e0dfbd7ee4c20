//! The engine: one pass after the other.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::uuids::UuidSource;

use crate::capability::{Capability, Inputs};
use crate::change::Plan;
use crate::dependencies::{Dependencies, Node};
use crate::difference::{RowDifference, differences};
use crate::evaluation::{Evaluation, Refused};
use crate::index::{Index, OwnedRow};
use crate::members::Members;
use crate::parts::{PartId, Parts};
use crate::reader::{PartRow, Reader, Scene};
use crate::reports::{ChangedReport, Reports};
use crate::scope::{KeptRow, Scope};
use crate::shared::{SharedId, SharedValues};
use crate::steps::Step;
use crate::table::Layout;
use crate::writer::{Writer, drop_waiting};

/// Rows of a transaction at most, unless another number is set: more than any change but the first
/// one.
pub const TRANSACTION_ROWS: usize = 250_000;

/// Keeps the rows of one capability as they should be.
///
/// A plan is a function of inputs and snapshot: a new engine comes to the same plan as one that has
/// made a thousand. What is remembered makes a plan cost as much as what has changed since the last
/// one (see `docs/design/rows.md`).
pub struct Engine<C: Capability> {
    capability: C,
    layout: Layout<C::Part>,
    uuids: UuidSource,
    transaction_rows: usize,
    scope: Option<Arc<Scope>>,
    /// `None`: it has seen nothing, or is idle.
    memory: Option<Memory<C>>,
    /// `true`: the capability is off, and no rows were there when it was looked for them.
    is_idle: bool,
    evaluated: usize,
}

/// Results of the last pass.
struct Memory<C: Capability> {
    inputs: C::Inputs,
    index: Index<C::Part>,
    parts: Parts<C::Part>,
    dependencies: Dependencies<C::Part>,
    shared: RefCell<SharedValues<C>>,
    /// Parts whose rows may not be as they should be, some of them several times.
    pending: Vec<PartId>,
    members: Members,
    reports: Reports<C>,
    refused: BTreeMap<C::Part, Vec<Refused<C::Part>>>,
    scope: Option<Arc<Scope>>,
    /// Rows of each part that stay because of the scope. Their parts are pending.
    kept: BTreeMap<PartId, Vec<KeptRow>>,
}

impl<C: Capability> fmt::Debug for Engine<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.memory.as_ref().map(|memory| memory.parts.len());
        f.debug_struct("Engine").field("parts", &parts).finish_non_exhaustive()
    }
}

impl<C: Capability> Default for Engine<C> {
    fn default() -> Self {
        Self::new(UuidSource::random())
    }
}

impl<C: Capability> Engine<C> {
    /// An engine that has seen nothing.
    pub fn new(uuids: UuidSource) -> Self {
        let mut layout = Layout::default();
        Self {
            capability: C::declare(&mut layout),
            layout,
            uuids,
            transaction_rows: TRANSACTION_ROWS,
            scope: None,
            memory: None,
            is_idle: false,
            evaluated: 0,
        }
    }

    /// Sets the number of rows that a transaction changes at most, but at least one. Larger changes
    /// take several plans ([`Change::more`](crate::Change::more)). Steps that stay together may
    /// exceed it.
    #[must_use]
    pub fn with_transaction_rows(mut self, rows: usize) -> Self {
        self.transaction_rows = rows;
        self
    }

    /// Forgets former inputs and snapshots: the next plan evaluates every part.
    pub fn resync(&mut self) {
        self.memory = None;
    }

    /// Sets which rows go that no part wants. `None`: all of them. With another scope the engine
    /// forgets what [`resync`](Self::resync) forgets.
    pub fn set_scope(&mut self, scope: Option<Arc<Scope>>) {
        if self.scope != scope {
            self.scope = scope;
            self.resync();
        }
    }

    /// Plans what makes the database right for these inputs.
    ///
    /// A transaction that is not committed is planned again.
    pub fn plan(&mut self, inputs: &C::Inputs, snapshot: &Snapshot) -> Plan<C::Group> {
        self.is_idle = C::is_off(inputs) && (self.is_idle || !C::has_rows(snapshot));
        if self.is_idle {
            self.resync();
            return Plan { changes: BTreeMap::new(), is_first: true };
        }
        let followed = self.memory.take().and_then(|mut memory| {
            let is_known = memory.follow(&self.capability, inputs, snapshot);
            is_known.then_some(memory)
        });
        let is_first = followed.is_none();
        let memory = self.memory.insert(
            followed
                .unwrap_or_else(|| Memory::new(&self.capability, &self.layout, inputs, snapshot)),
        );
        if is_first {
            memory.scope.clone_from(&self.scope);
        }
        memory.pending.extend(memory.kept.keys());
        memory.refresh_shared(&self.capability);
        self.evaluated = 0;
        let mut plan = Plan { changes: BTreeMap::new(), is_first };
        if memory.pending.is_empty() && !memory.members.is_outdated() {
            return plan;
        }
        memory.index.complete();
        let (steps, evaluated) = memory.evaluate(&self.capability);
        self.evaluated = evaluated;
        let mut pending = Vec::new();
        for (group, mut steps) in memory.by_group(&self.capability, steps) {
            let referred = drop_waiting(&memory.index.layout, &mut steps);
            if steps.is_empty() {
                continue;
            }
            // Steps of one part follow each other.
            for step in &steps {
                if pending.last() != Some(&step.part) {
                    pending.push(step.part);
                }
            }
            let new = steps.iter().filter(|step| step.is_insert()).count();
            let (seed, _) = self.uuids.next_uuid().as_u64_pair();
            let txn = TxnBuilder::with_uuids(snapshot, UuidSource::seeded(seed))
                .with_capacity(new.min(self.transaction_rows));
            let writer = Writer::new(&memory.index.layout, snapshot, txn, referred);
            let comment = self.capability.comment(&group);
            let change = writer.write(steps, self.transaction_rows, &comment);
            plan.changes.insert(group, change);
        }
        memory.pending = pending;
        plan
    }

    /// Rows that are not as these inputs require, by part, without a transaction. Rows that wait for
    /// those of other programs are not among them.
    ///
    /// Every part is evaluated, and nothing of it is remembered.
    pub fn differences(
        &self,
        inputs: &C::Inputs,
        snapshot: &Snapshot,
    ) -> BTreeMap<C::Part, Vec<RowDifference>> {
        let mut memory = Memory::new(&self.capability, &self.layout, inputs, snapshot);
        memory.refresh_shared(&self.capability);
        memory.index.complete();
        let (steps, _) = memory.evaluate(&self.capability);
        let mut by_part = BTreeMap::<C::Part, Vec<RowDifference>>::new();
        for mut steps in memory.by_group(&self.capability, steps).into_values() {
            drop_waiting(&memory.index.layout, &mut steps);
            for (part, difference) in differences(&steps, &memory.index) {
                if let Some(part) = memory.parts.get(part) {
                    by_part.entry(part.clone()).or_default().push(difference);
                }
            }
        }
        by_part
    }

    /// Number of parts that the last plan evaluated.
    pub fn evaluated_parts(&self) -> usize {
        self.evaluated
    }

    /// Number of parts that are known.
    pub fn part_count(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.parts.len())
    }

    /// Number of shared values that are remembered.
    pub fn shared_count(&self) -> usize {
        let memory = self.memory.as_ref();
        memory.map_or(0, |memory| memory.shared.borrow().len())
    }

    /// Report of a part.
    pub fn report(&self, part: &C::Part) -> Option<&C::Report> {
        let memory = self.memory.as_ref()?;
        memory.reports.get(memory.parts.find(part)?)
    }

    /// Reports of parts, in the order of the parts. The cost is that of the reports.
    pub fn reports(&self) -> impl Iterator<Item = (&C::Part, &C::Report)> {
        let memory = self.memory.iter();
        let reports = memory.flat_map(|memory| {
            let parts = memory.reports.reporting();
            parts.filter_map(|id| Some((memory.parts.get(id)?, memory.reports.get(id)?)))
        });
        reports.collect::<BTreeMap<_, _>>().into_iter()
    }

    /// Reports that the last plan changed. After the first plan ([`Plan::is_first`]) all of them.
    pub fn changed_reports(&self) -> impl Iterator<Item = ChangedReport<'_, C::Part, C::Report>> {
        let memory = self.memory.iter();
        memory.flat_map(|memory| memory.reports.changed(&memory.parts))
    }

    /// Rows that stay because of the scope, as the last plan has found them.
    pub fn kept(&self) -> impl Iterator<Item = &KeptRow> {
        let memory = self.memory.iter();
        memory.flat_map(|memory| memory.kept.values().flatten())
    }

    /// Parts of which some rows are not made, in their order, and why.
    pub fn refused(&self) -> impl Iterator<Item = (&C::Part, &[Refused<C::Part>])> {
        let memory = self.memory.iter();
        let refused = memory.flat_map(|memory| &memory.refused);
        refused.map(|(part, reasons)| (part, reasons.as_slice()))
    }
}

impl<C: Capability> Memory<C> {
    fn new(
        capability: &C,
        layout: &Layout<C::Part>,
        inputs: &C::Inputs,
        snapshot: &Snapshot,
    ) -> Self {
        // Parts of the inputs get the first numbers, in their order, so that what is remembered of
        // them is side by side. They share their names with the inputs; those of rows do not.
        let mut parts = Parts::default();
        inputs.diff(None, C::KINDS, &mut |cell| {
            capability.parts(&cell, inputs, &mut |part| {
                parts.id(part);
            });
        });
        let index = Index::new(layout, snapshot, &mut parts);
        let pending: Vec<PartId> = parts.iter().map(|(_, id)| id).collect();
        Self {
            inputs: inputs.clone(),
            index,
            parts,
            dependencies: Dependencies::of_first_pass(pending.len()),
            shared: RefCell::default(),
            pending,
            members: Members::default(),
            reports: Reports::default(),
            refused: BTreeMap::new(),
            scope: None,
            kept: BTreeMap::new(),
        }
    }

    /// Notes the parts that may not be as they should be. Returns `false` if they are not known.
    fn follow(&mut self, capability: &C, inputs: &C::Inputs, snapshot: &Snapshot) -> bool {
        self.reports.begin();
        self.dependencies.end_first_pass();
        if !Arc::ptr_eq(self.index.snapshot().schema(), snapshot.schema()) {
            return false;
        }
        let Some(changes) = snapshot.changes_since(self.index.snapshot()) else {
            return false;
        };
        let touched = self.index.follow(snapshot, &changes, &mut self.parts);
        for (row, members) in touched.members {
            self.members.touch(row, members);
        }
        let shared = self.shared.get_mut();
        let mut mark = |node| mark(node, &mut self.pending, shared);
        for part in touched.parts {
            mark(Node::Part(part));
            if self.dependencies.has_ranges()
                && let Some(part) = self.parts.get(part)
            {
                self.dependencies.readers_of_rows(part).for_each(&mut mark);
            }
        }
        for key in touched.keys {
            let readers = self.dependencies.readers(key.source());
            readers.for_each(&mut mark);
        }
        let earlier = std::mem::replace(&mut self.inputs, inputs.clone());
        let layout = &self.index.layout;
        let (parts, dependencies) = (&mut self.parts, &self.dependencies);
        inputs.diff(Some(&earlier), C::KINDS, &mut |cell| {
            capability.parts(&cell, inputs, &mut |part| {
                // A known part is pending because of what it has read, or because it ends.
                if parts.find(&part).is_none() || !capability.exists(&part, inputs) {
                    mark(Node::Part(parts.id(part)));
                }
            });
            let readers = dependencies.readers(layout.cell_source(&cell));
            readers.for_each(&mut mark);
        });
        true
    }

    fn scene<'a>(&'a self, capability: &'a C) -> Scene<'a, C> {
        Scene {
            capability,
            inputs: &self.inputs,
            index: &self.index,
            parts: &self.parts,
            dependencies: &self.dependencies,
            reports: &self.reports,
            shared: &self.shared,
            scope: self.scope.as_deref(),
        }
    }

    /// Computes outdated shared values again. The readers of those that differ are pending or
    /// outdated, too. Values of which many others are made have low numbers and come first.
    fn refresh_shared(&mut self, capability: &C) {
        while let Some(id) = self.shared.get_mut().outdated.pop_first() {
            let Some(key) = self.shared.get_mut().key(id).cloned() else {
                continue;
            };
            let source = self.index.layout.shared_source(&key);
            if self.dependencies.readers(source).next().is_none() {
                self.forget_shared(id);
                continue;
            }
            let reader = Reader::new(self.scene(capability), None);
            let value = capability.shared(&key, &reader);
            let mut reads = reader.into_reads();
            self.dependencies.record(Node::Shared(id), &mut reads.sources, reads.ranges);
            self.record_fresh();
            let shared = self.shared.get_mut();
            if shared.replace(id, value) {
                for node in self.dependencies.readers(source) {
                    mark(node, &mut self.pending, shared);
                }
            }
        }
    }

    /// Records what new shared values have read.
    fn record_fresh(&mut self) {
        for (id, mut reads) in std::mem::take(&mut self.shared.get_mut().fresh) {
            self.dependencies.record(Node::Shared(id), &mut reads.sources, reads.ranges);
        }
    }

    fn forget_shared(&mut self, id: SharedId) {
        self.shared.get_mut().forget(id);
        self.dependencies.record(Node::Shared(id), &mut Vec::new(), Vec::new());
    }

    /// Evaluates the pending parts, and leaves none pending. Returns the steps of all of them, and
    /// how many they were.
    fn evaluate(&mut self, capability: &C) -> (Vec<Step>, usize) {
        let mut evaluation = Evaluation::new(std::mem::take(&mut self.pending), &self.parts);
        let mut count = 0;
        let mut empty = Vec::new();
        while let Some((key, part)) =
            evaluation.next_part(&self.index, &self.parts, &self.dependencies)
        {
            count += 1;
            self.kept.remove(&part);
            let evaluated = evaluation.evaluate((part, &key), self.scene(capability));
            self.record_fresh();
            let mut sources = evaluated.reads.sources;
            let released =
                self.dependencies.record(Node::Part(part), &mut sources, evaluated.reads.ranges);
            evaluation.reuse(sources);
            self.members.contribute(part, evaluated.members);
            self.members.host(part, &evaluated.hosts);
            if evaluated.is_empty {
                empty.push(part);
            }
            let reported = self
                .reports
                .set((part, &key), evaluated.report)
                .then(|| self.index.layout.report_source(&key));
            for source in released.into_iter().chain(reported) {
                for node in self.dependencies.readers(source) {
                    if let Node::Part(part) = node {
                        evaluation.queue_later(part, &self.parts);
                    }
                }
            }
            if evaluated.refused.is_empty() {
                self.refused.remove(&key);
            } else {
                self.refused.insert(key, evaluated.refused);
            }
        }
        let unwanted = self.keep_rest(capability, evaluation.take_rest());
        let mut steps = evaluation.finish(unwanted, &self.index);
        let (scope, kept, parts) = (self.scope.as_deref(), &self.kept, &self.parts);
        self.members.finish(&self.index, &mut steps, |host, member| {
            let host = || parts.get(host);
            let is_needed = || host().is_some_and(|host| is_needed(capability, host, kept, parts));
            scope.is_some_and(|scope| scope.members.contains(member) || is_needed())
        });
        self.forget(capability, empty);
        (steps, count)
    }

    /// Keeps rows that no part wants because of the scope. Returns the others.
    fn keep_rest(&mut self, capability: &C, rest: Vec<OwnedRow>) -> Vec<OwnedRow> {
        let Some(scope) = self.scope.clone() else {
            return rest;
        };
        let mut undecided = Vec::new();
        for owned in rest {
            match self.keeper(capability, &scope, &owned) {
                Some(kept) => self.kept.entry(owned.part).or_default().push(kept),
                None => undecided.push(owned),
            }
        }
        self.record_fresh();
        let mut needed = Vec::new();
        undecided.retain(|owned| {
            let part = self.parts.get(owned.part);
            let needs = part.and_then(|part| {
                let mut kept = self.kept.iter();
                let (_, rows) = kept.find(|(other, _)| {
                    let other = self.parts.get(**other);
                    other.is_some_and(|other| capability.is_needed_by(part, other))
                })?;
                rows.first()
            });
            needed.extend(needs.map(|needs| {
                let kept = KeptRow {
                    object: needs.object.clone(),
                    table: self.index.layout.table(owned.table).name,
                    row: owned.uuid,
                };
                (owned.part, kept)
            }));
            needs.is_none()
        });
        for (part, kept) in needed {
            self.kept.entry(part).or_default().push(kept);
        }
        undecided
    }

    /// The row, if it stays because of the scope.
    fn keeper(&self, capability: &C, scope: &Scope, owned: &OwnedRow) -> Option<KeptRow> {
        let part = self.parts.get(owned.part)?;
        let row = self.index.row(owned.table, owned.uuid)?;
        // What is read here need not be recorded: parts with kept rows are pending.
        let reader = Reader::new(self.scene(capability), Some((owned.part, part)));
        let row = PartRow::of(*owned, row, &self.index);
        Some(KeptRow {
            object: scope.keeper(capability.objects(part, row, &reader))?,
            table: self.index.layout.table(owned.table).name,
            row: owned.uuid,
        })
    }

    /// Steps of each group, in the order in which parts were evaluated.
    fn by_group(&self, capability: &C, steps: Vec<Step>) -> BTreeMap<C::Group, Vec<Step>> {
        // Lengths of runs of one group.
        let mut runs: Vec<(Option<C::Group>, usize)> = Vec::new();
        for of_part in steps.chunk_by(|one, other| one.part == other.part) {
            let part = of_part.first().and_then(|step| self.parts.get(step.part));
            let group = part.map(|part| capability.group(part));
            match runs.last_mut() {
                Some((last, length)) if *last == group => *length += of_part.len(),
                _ => runs.push((group, of_part.len())),
            }
        }
        if let [(Some(_), _)] = *runs {
            let groups = runs.into_iter().filter_map(|(group, _)| group);
            return groups.zip([steps]).collect();
        }
        let mut groups = BTreeMap::<C::Group, Vec<Step>>::new();
        let mut rest = steps.into_iter();
        for (group, length) in runs {
            let steps = rest.by_ref().take(length);
            match group {
                Some(group) => groups.entry(group).or_default().extend(steps),
                None => steps.for_each(drop),
            }
        }
        groups
    }

    /// Forgets parts without rows that the inputs do not have any more, and then shared values that
    /// no part reads.
    fn forget(&mut self, capability: &C, empty: Vec<PartId>) {
        let mut is_changed = false;
        for part in empty {
            let Some(key) = self.parts.get(part).cloned() else {
                continue;
            };
            if capability.exists(&key, &self.inputs) {
                continue;
            }
            self.reports.set((part, &key), None);
            self.refused.remove(&key);
            self.dependencies.record(Node::Part(part), &mut Vec::new(), Vec::new());
            self.parts.forget(part);
            is_changed = true;
        }
        while std::mem::take(&mut is_changed) {
            for id in self.shared.get_mut().ids() {
                let shared = self.shared.get_mut();
                let source = shared.source(id).into_iter();
                let mut readers = source.flat_map(|of| self.dependencies.readers(of));
                if readers.next().is_none() {
                    drop(readers);
                    self.forget_shared(id);
                    is_changed = true;
                }
            }
        }
    }
}

/// Returns `true` if unwanted members of a part's rows stay, because kept rows of another part need
/// them.
fn is_needed<C: Capability>(
    capability: &C,
    host: &C::Part,
    kept: &BTreeMap<PartId, Vec<KeptRow>>,
    parts: &Parts<C::Part>,
) -> bool {
    let mut kept = kept.keys().filter_map(|part| parts.get(*part));
    kept.any(|other| capability.is_needed_by(host, other))
}

/// Marks a part pending, or a shared value outdated.
fn mark<C: Capability>(node: Node, pending: &mut Vec<PartId>, shared: &mut SharedValues<C>) {
    match node {
        Node::Part(part) => pending.push(part),
        Node::Shared(id) => {
            shared.outdated.insert(id);
        }
    }
}
