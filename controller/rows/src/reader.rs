//! How a part reads inputs and database: everything it reads is recorded.

use std::cell::RefCell;

use patchbay_schemas::typed::{Ref, TableRow, TypeError};
use smol_str::SmolStr;
use uuid::Uuid;

use crate::capability::{Capability, Inputs};
use crate::dependencies::Source;
use crate::index::{Index, OwnedRow};
use crate::parts::PartId;
use crate::table::{Holding, RowView, Table};

pub(crate) type CellOf<C> = <<C as Capability>::Inputs as Inputs>::Cell;

/// Inputs and database as one part sees them.
#[derive(Debug)]
pub struct Reader<'a, C: Capability> {
    pub(crate) inputs: &'a C::Inputs,
    pub(crate) index: &'a Index<C::Part>,
    pub(crate) part: PartId,
    /// What was read so far; some of it several times.
    pub(crate) read: RefCell<Vec<(Source<CellOf<C>>, bool)>>,
}

/// A row that belongs to the part, as its content shows.
#[derive(Clone, Copy, Debug)]
pub struct PartRow<'a> {
    pub(crate) owned: OwnedRow,
    view: RowView<'a>,
}

impl<'a> PartRow<'a> {
    /// The row.
    pub fn view(&self) -> RowView<'a> {
        self.view
    }

    /// Returns `true` for a row of this table.
    pub fn is_of<T>(&self, table: Table<T>) -> bool {
        self.owned.table == table.place
    }
}

impl<'a, C: Capability> Reader<'a, C> {
    pub(crate) fn new(inputs: &'a C::Inputs, index: &'a Index<C::Part>, part: PartId) -> Self {
        Self {
            inputs,
            index,
            part,
            read: RefCell::default(),
        }
    }

    /// The inputs, of which the part reads this cell and no other.
    pub fn read(&self, cell: CellOf<C>) -> &'a C::Inputs {
        self.record(Source::Cell(cell), false);
        self.inputs
    }

    /// The row whose identity is one text (mostly its name), whoever owns it. Of several it is the
    /// first by UUID.
    pub fn row<T>(&self, table: Table<T>, name: &str) -> Option<RowView<'a>> {
        let (key, row) = self.index.named(table.place, &SmolStr::new(name));
        self.record(Source::Key(key), false);
        Some(self.index.view(table.place, row?))
    }

    /// References to all rows whose identity is one text, by UUID.
    pub fn rows<T: TableRow>(&self, table: Table<T>, name: &str) -> Vec<Ref<T>> {
        let (key, rows) = self.index.all_named(table.place, &SmolStr::new(name));
        self.record(Source::Key(key), false);
        rows.into_iter().map(Ref::new).collect()
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

    /// Rows of the database that belong to the part.
    pub fn owned(&self) -> impl Iterator<Item = PartRow<'a>> {
        let (index, part) = (self.index, self.part);
        index.owned(part).filter_map(move |owned| {
            let row = index.row(owned.table, owned.uuid)?;
            let view = index.view(owned.table, row);
            Some(PartRow { owned, view })
        })
    }

    /// Rows that hold a row of the part.
    pub fn holders(&self, holding: Holding, row: PartRow<'_>) -> impl Iterator<Item = RowView<'a>> {
        let index = self.index;
        let holder = index.layout.holding(holding).spec.holder;
        let holders: Vec<Uuid> = index.holders(holding).of(row.owned.uuid).collect();
        holders.into_iter().filter_map(move |uuid| {
            let row = index.row(holder, uuid)?;
            Some(index.view(holder, row))
        })
    }

    /// Returns `true` if the database's schema has this column.
    pub fn has_column<T>(&self, table: Table<T>, column: &str) -> bool {
        let columns = &self.index.layout.table(table.place).columns;
        columns
            .iter()
            .any(|(name, id, _)| *name == column && id.is_some())
    }

    pub(crate) fn record(&self, source: Source<CellOf<C>>, is_wanted: bool) {
        self.read.borrow_mut().push((source, is_wanted));
    }
}
