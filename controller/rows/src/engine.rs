//! The engine: one pass after the other.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::uuids::UuidSource;

use crate::capability::{Capability, Inputs};
use crate::change::{Change, PlanError};
use crate::dependencies::Dependencies;
use crate::evaluation::{Evaluation, Refused};
use crate::index::Index;
use crate::parts::{PartId, Parts};
use crate::reader::CellOf;
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
    comment: String,
    uuids: UuidSource,
    transaction_rows: usize,
    memory: Option<Memory<C>>,
    evaluated: usize,
}

/// What follows from the last pass.
struct Memory<C: Capability> {
    inputs: C::Inputs,
    index: Index<C::Part>,
    parts: Parts<C::Part>,
    dependencies: Dependencies<CellOf<C>>,
    /// Parts whose rows may not be as they should be.
    pending: HashSet<PartId, RandomState>,
    reports: BTreeMap<C::Part, C::Report>,
    refused: BTreeMap<C::Part, Vec<Refused<C::Part>>>,
}

impl<C: Capability> fmt::Debug for Engine<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.memory.as_ref().map(|memory| memory.parts.len());
        f.debug_struct("Engine")
            .field("comment", &self.comment)
            .field("parts", &parts)
            .finish_non_exhaustive()
    }
}

impl<C: Capability> Engine<C> {
    /// An engine that has seen nothing. Its transactions carry the comment into the server's log.
    pub fn new(comment: impl Into<String>, uuids: UuidSource) -> Self {
        let mut layout = Layout::default();
        Self {
            capability: C::declare(&mut layout),
            layout,
            comment: comment.into(),
            uuids,
            transaction_rows: TRANSACTION_ROWS,
            memory: None,
            evaluated: 0,
        }
    }

    /// Sets the number of rows that a transaction changes at most, but at least one. Larger changes
    /// take several plans ([`Change::more`]).
    #[must_use]
    pub fn with_transaction_rows(mut self, rows: usize) -> Self {
        self.transaction_rows = rows;
        self
    }

    /// Forgets former inputs and snapshots: the next plan evaluates every part.
    pub fn resync(&mut self) {
        self.memory = None;
    }

    /// Plans what makes the database right for these inputs.
    ///
    /// A transaction that is not committed is planned again.
    ///
    /// # Errors
    /// The database's schema cannot express the rows. The next plan evaluates the same parts again.
    pub fn plan(&mut self, inputs: &C::Inputs, snapshot: &Snapshot) -> Result<Change, PlanError> {
        let followed = self.memory.take().and_then(|mut memory| {
            let is_known = memory.follow(&self.capability, inputs, snapshot);
            is_known.then_some(memory)
        });
        let memory = followed
            .unwrap_or_else(|| Memory::new(&self.capability, &self.layout, inputs, snapshot));
        let memory = self.memory.insert(memory);
        self.evaluated = 0;
        if memory.pending.is_empty() {
            return Ok(Change::default());
        }
        let pending = memory.pending.iter().copied();
        let mut evaluation = Evaluation::new(
            &self.capability,
            &memory.inputs,
            &memory.index,
            &memory.parts,
            &mut memory.dependencies,
            pending,
        );
        let mut empty = Vec::new();
        while let Some(evaluated) = evaluation.next() {
            self.evaluated += 1;
            let part = evaluated.part;
            if evaluated.is_empty {
                empty.push(part);
            }
            let Some(key) = memory.parts.get(part) else {
                continue;
            };
            match evaluated.report {
                Some(report) => {
                    memory.reports.insert(key.clone(), report);
                }
                None => {
                    memory.reports.remove(key);
                }
            }
            if evaluated.refused.is_empty() {
                memory.refused.remove(key);
            } else {
                memory.refused.insert(key.clone(), evaluated.refused);
            }
        }
        let mut steps = evaluation.finish();
        drop_waiting(&memory.index.layout, &mut steps);
        let busy = steps.iter().map(|step| step.part).collect();
        let change = if steps.is_empty() {
            Change::default()
        } else {
            let (seed, _) = self.uuids.next_uuid().as_u64_pair();
            let txn = TxnBuilder::with_uuids(snapshot, UuidSource::seeded(seed));
            let writer = Writer::new(&memory.index.layout, snapshot, txn);
            writer.write(steps, self.transaction_rows, &self.comment)?
        };
        memory.pending = busy;
        memory.forget(&self.capability, empty);
        Ok(change)
    }

    /// Number of parts that the last plan evaluated.
    pub fn evaluated_parts(&self) -> usize {
        self.evaluated
    }

    /// Number of parts that are known.
    pub fn part_count(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.parts.len())
    }

    /// What is to be known about parts, in their order.
    pub fn reports(&self) -> impl Iterator<Item = (&C::Part, &C::Report)> {
        self.memory.iter().flat_map(|memory| &memory.reports)
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
        let mut parts = Parts::default();
        let index = Index::new(layout, snapshot, &mut parts);
        // Parts that own rows are all parts so far.
        let mut pending: HashSet<PartId, RandomState> = parts.ids().collect();
        inputs.diff(None, &mut |cell| {
            capability.parts(&cell, inputs, &mut |part| {
                pending.insert(parts.id(part));
            });
        });
        Self {
            inputs: inputs.clone(),
            index,
            parts,
            dependencies: Dependencies::default(),
            pending,
            reports: BTreeMap::new(),
            refused: BTreeMap::new(),
        }
    }

    /// Notes the parts that may not be as they should be. Returns `false` if they are not known.
    fn follow(&mut self, capability: &C, inputs: &C::Inputs, snapshot: &Snapshot) -> bool {
        if !Arc::ptr_eq(self.index.snapshot().schema(), snapshot.schema()) {
            return false;
        }
        let Some(changes) = snapshot.changes_since(self.index.snapshot()) else {
            return false;
        };
        let touched = self.index.follow(snapshot, &changes, &mut self.parts);
        self.pending.extend(touched.parts);
        for key in touched.keys {
            self.pending.extend(self.dependencies.readers_of_key(key));
        }
        let earlier = std::mem::replace(&mut self.inputs, inputs.clone());
        let Self {
            parts,
            dependencies,
            pending,
            ..
        } = self;
        inputs.diff(Some(&earlier), &mut |cell| {
            capability.parts(&cell, inputs, &mut |part| {
                pending.insert(parts.id(part));
            });
            pending.extend(dependencies.readers_of_cell(&cell));
        });
        true
    }

    /// Forgets parts without rows that the inputs do not have any more.
    fn forget(&mut self, capability: &C, empty: Vec<PartId>) {
        for part in empty {
            let Some(key) = self.parts.get(part) else {
                continue;
            };
            if capability.exists(key, &self.inputs) {
                continue;
            }
            self.reports.remove(key);
            self.refused.remove(key);
            self.dependencies.record(part, []);
            self.pending.remove(&part);
            self.parts.forget(part);
        }
    }
}
