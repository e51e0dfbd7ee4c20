//! Reader of inputs and database for a part or a shared value. All reads are recorded.

use std::cell::RefCell;
use std::fmt;
use std::hash::Hash;
use std::ops::RangeInclusive;
use std::sync::Arc;

use patchbay_schemas::row::Row;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::typed::{TableRow, TypeError};
use smallvec::SmallVec;
use smol_str::SmolStr;

use crate::capability::{Capability, Inputs};
use crate::dependencies::Dependencies;
use crate::index::{Index, OwnRow, OwnRows, OwnedRow, RowKey};
use crate::parts::{PartId, Parts};
use crate::reports::Reports;
use crate::scope::Scope;
use crate::shared::SharedValues;
use crate::sources::{Read, Source};
use crate::table::{Holding, RowView, Table};

/// Sources that a part reads, on average.
const READS_OF_PART: usize = 12;

pub(crate) type CellOf<C> = <<C as Capability>::Inputs as Inputs>::Cell;

/// Inputs and database as one part or shared value sees them.
pub struct Reader<'a, C: Capability> {
    pub(crate) scene: Scene<'a, C>,
    /// The part that reads; `None`: a shared value.
    part: Option<(PartId, &'a C::Part)>,
    /// Rows of the part.
    own: OwnRows<'a>,
    reads: RefCell<Reads<C>>,
}

/// Everything that can be read.
pub(crate) struct Scene<'a, C: Capability> {
    pub(crate) capability: &'a C,
    pub(crate) inputs: &'a C::Inputs,
    pub(crate) index: &'a Index<C::Part>,
    pub(crate) parts: &'a Parts<C::Part>,
    pub(crate) dependencies: &'a Dependencies<C::Part>,
    pub(crate) reports: &'a Reports<C>,
    pub(crate) shared: &'a RefCell<SharedValues<C>>,
    pub(crate) scope: Option<&'a Scope>,
}

impl<C: Capability> Clone for Scene<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: Capability> Copy for Scene<'_, C> {}

/// Reads up to now, possibly with duplicates.
pub(crate) struct Reads<C: Capability> {
    pub(crate) sources: Vec<Read>,
    pub(crate) claims: Vec<Claim>,
    /// Identities that no row has.
    pub(crate) absent: SmallVec<[RowKey; 2]>,
    pub(crate) ranges: Vec<RangeInclusive<C::Part>>,
}

/// A value that the part has claimed through its reader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) source: Source,
    /// `true` if other parts claim it, too.
    pub(crate) is_contested: bool,
}

impl<C: Capability> Reads<C> {
    pub(crate) fn with_sources(sources: Vec<Read>) -> Self {
        Self { sources, claims: Vec::new(), absent: SmallVec::new(), ranges: Vec::new() }
    }

    /// `true` if the part has claimed a value that no other part claims.
    pub(crate) fn has_alone(&self, source: Source) -> bool {
        let mut claims = self.claims.iter();
        claims.any(|claim| claim.source == source && !claim.is_contested)
    }

    pub(crate) fn extend(&mut self, more: Self) {
        self.sources.extend(more.sources);
        self.claims.extend(more.claims);
        self.ranges.extend(more.ranges);
    }
}

impl<C: Capability> Default for Reads<C> {
    fn default() -> Self {
        Self::with_sources(Vec::with_capacity(READS_OF_PART))
    }
}

/// A row that belongs to a part, as its content shows.
#[derive(Clone, Copy, Debug)]
pub struct PartRow<'a> {
    pub(crate) owned: OwnedRow,
    view: RowView<'a>,
}

impl<'a> PartRow<'a> {
    pub(crate) fn new<P: Clone + Eq + Hash>(own: OwnRow<'a>, index: &'a Index<P>) -> Self {
        Self::of(own.owned, own.row, index)
    }

    pub(crate) fn of<P: Clone + Eq + Hash>(
        owned: OwnedRow,
        row: &'a Row,
        index: &'a Index<P>,
    ) -> Self {
        let view = index.view(owned.table, row);
        Self { owned, view }
    }

    /// Keys under which parts may want the row.
    pub(crate) fn keys<P: Clone + Eq + Hash>(&self, index: &Index<P>) -> Vec<RowKey> {
        index.keys_of(self.owned.table, self.view.row)
    }

    /// The row.
    pub fn view(&self) -> RowView<'a> {
        self.view
    }

    /// Returns `true` for a row of this table.
    pub fn is_of<T>(&self, table: Table<T>) -> bool {
        self.owned.table == table.place
    }
}

impl<C: Capability> fmt::Debug for Reader<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("part", &self.part).finish_non_exhaustive()
    }
}

impl<'a, C: Capability> Reader<'a, C> {
    pub(crate) fn new(scene: Scene<'a, C>, part: Option<(PartId, &'a C::Part)>) -> Self {
        Self::with_reads(scene, part, Reads::default())
    }

    /// A reader that adds to earlier reads.
    pub(crate) fn with_reads(
        scene: Scene<'a, C>,
        part: Option<(PartId, &'a C::Part)>,
        reads: Reads<C>,
    ) -> Self {
        let own = part.map(|(part, _)| OwnRows::new(part, scene.index));
        Self { scene, part, own: own.unwrap_or_default(), reads: RefCell::new(reads) }
    }

    /// Rows of the part, and what it has read.
    pub(crate) fn finish(self) -> (OwnRows<'a>, Reads<C>) {
        (self.own, self.reads.into_inner())
    }

    pub(crate) fn into_reads(self) -> Reads<C> {
        self.reads.into_inner()
    }

    /// The inputs, of which this cell is read and no other.
    pub fn read(&self, cell: &CellOf<C>) -> &'a C::Inputs {
        debug_assert!(
            C::KINDS.contains(&<C::Inputs as Inputs>::kind(cell)),
            "cell {cell:?} is of no kind that the capability reads"
        );
        self.record(self.scene.index.layout.cell_source(cell));
        self.scene.inputs
    }

    /// Limit of what goes. `None`: everything that no part wants. With another one the engine
    /// forgets everything.
    pub fn scope(&self) -> Option<&'a Scope> {
        self.scene.scope
    }

    /// A value that many parts read. It is computed when it is first read, and again when something
    /// changed that it has read. Only if the new value differs, its readers are pending.
    pub fn shared(&self, key: &C::SharedKey) -> Arc<C::Shared> {
        let Scene { capability, index, shared, .. } = self.scene;
        let source = index.layout.shared_source(key);
        self.record(source);
        if let Some(value) = shared.borrow().get(source, key) {
            return value.clone();
        }
        let reader = Self::new(self.scene, None);
        let value = Arc::new(capability.shared(key, &reader));
        let reads = reader.into_reads();
        let mut shared = shared.borrow_mut();
        shared.add((source, key.clone()), value.clone(), reads);
        value
    }

    /// Claims a value, such as a tunnel key in one router. Returns the part that has it, if that is
    /// another one: the first in the order of all parts that claim it.
    ///
    /// `space` distinguishes values of different kinds. A shared value cannot claim.
    pub fn claim(&self, space: &'static str, value: impl Hash) -> Option<&'a C::Part> {
        self.claim_source(self.scene.index.layout.claim_source(space, value))
    }

    /// Claims the row of an identity that is one text, as a part does that wants this row. Returns
    /// the part that has it, if that is another one.
    pub fn claim_row<T>(&self, table: Table<T>, name: &str) -> Option<&'a C::Part> {
        let hash = self.scene.index.layout.text_key(name);
        let table = table.place;
        self.claim_source(RowKey { table, hash }.source())
    }

    fn claim_source(&self, source: Source) -> Option<&'a C::Part> {
        let (part, key) = self.part?;
        let dependencies = self.scene.dependencies;
        let is_alone = dependencies.claims_alone(part, source);
        let claimants = (!is_alone).then(|| dependencies.claimants(source));
        let mut others = claimants.into_iter().flatten().filter(|other| *other != part).peekable();
        let mut reads = self.reads.borrow_mut();
        reads.sources.push(Read::new(source, true));
        reads.claims.push(Claim { source, is_contested: others.peek().is_some() });
        let first = others.filter_map(|other| self.scene.parts.get(other)).min()?;
        (first < key).then_some(first)
    }

    /// The report of a part that comes before this one in the order of parts. A changed report
    /// makes its readers pending in the same pass.
    pub fn report(&self, part: &C::Part) -> Option<&'a C::Report> {
        debug_assert!(
            self.part.is_some_and(|(_, key)| part < key),
            "only parts read reports, those of parts before them"
        );
        self.record(self.scene.index.layout.report_source(part));
        self.scene.reports.get(self.scene.parts.find(part)?)
    }

    /// The row whose identity is one text (mostly its name), whoever owns it. Of several it is the
    /// first by UUID.
    pub fn row<T>(&self, table: Table<T>, name: &str) -> Option<RowView<'a>> {
        let index = self.scene.index;
        let key = index.named_key(table.place, name);
        self.record(key.source());
        // Parts mostly look for their own rows.
        let find = || index.find_named(key, &SmolStr::new(name)).map(|row| &**row);
        let row = self.own.find(key).or_else(find);
        if row.is_none() {
            self.reads.borrow_mut().absent.push(key);
        }
        Some(index.view(table.place, row?))
    }

    /// Returns `true` if a row belongs to the part, as its content shows.
    pub fn is_own(&self, row: RowView<'_>) -> bool {
        self.own.iter().any(|own| own.row.uuid == row.uuid())
    }

    /// All rows whose identity is one text, by UUID.
    pub fn rows<T>(&self, table: Table<T>, name: &str) -> impl Iterator<Item = RowView<'a>> {
        let index = self.scene.index;
        let (key, rows) = index.all_named(table.place, &SmolStr::new(name));
        self.record(key.source());
        let rows = rows.into_iter();
        rows.filter_map(move |uuid| {
            let row = index.row(table.place, uuid)?;
            Some(index.view(table.place, row))
        })
    }

    /// A row as a typed row, with the managed columns.
    ///
    /// # Errors
    /// The row holds a value that `T` does not allow.
    pub fn typed<T: TableRow>(&self, row: RowView<'_>) -> Result<T, TypeError> {
        T::from_data(|place| {
            let (_, column, _) = row.table.columns.get(place)?;
            row.row.values.get((*column)?)
        })
    }

    /// Rows of the database that belong to the part. A shared value has none.
    pub fn owned(&self) -> impl Iterator<Item = PartRow<'a>> {
        let index = self.scene.index;
        self.own.iter().map(|own| PartRow::new(own, index))
    }

    /// Rows of the database that belong to parts of a range, by part. It takes as long as there are
    /// parts of any kind.
    pub fn owned_in(
        &self,
        range: RangeInclusive<C::Part>,
    ) -> impl Iterator<Item = (&'a C::Part, PartRow<'a>)> + use<'a, C> {
        let Scene { index, parts, .. } = self.scene;
        let mut found: Vec<(&C::Part, PartId)> =
            parts.iter().filter(|(part, _)| range.contains(part)).collect();
        found.sort_unstable();
        self.reads.borrow_mut().ranges.push(range);
        found.into_iter().flat_map(|(part, id)| rows_of(index, id).map(move |row| (part, row)))
    }

    /// Rows that hold a row of a part.
    pub fn holders(&self, holding: Holding, row: PartRow<'_>) -> impl Iterator<Item = RowView<'a>> {
        let index = self.scene.index;
        let holder = index.layout.holding(holding).spec.holder;
        let holders: Vec<RowView<'a>> = index
            .holders(holding)
            .of(row.owned.uuid)
            .filter_map(|uuid| Some(index.view(holder, index.row(holder, uuid)?)))
            .collect();
        // A holder may get another name.
        for key in holders.iter().flat_map(|row| index.keys_of(holder, row.row)) {
            self.record(key.source());
        }
        holders.into_iter()
    }

    /// The database's schema. With another one the engine forgets everything.
    pub fn schema(&self) -> &'a DatabaseSchema {
        self.scene.index.snapshot().schema()
    }

    /// Returns `true` if the database's schema has this column.
    pub fn has_column<T>(&self, table: Table<T>, column: &str) -> bool {
        let columns = &self.scene.index.layout.table(table.place).columns;
        columns.iter().any(|(name, id, _)| *name == column && id.is_some())
    }

    pub(crate) fn record(&self, source: Source) {
        self.reads.borrow_mut().sources.push(Read::new(source, false));
    }
}

fn rows_of<P: Clone + Eq + Hash>(
    index: &Index<P>,
    part: PartId,
) -> impl Iterator<Item = PartRow<'_>> {
    let own = OwnRows::new(part, index);
    own.into_iter().map(move |own| PartRow::new(own, index))
}
