//! Tables of a capability: how their rows are found, who owns them, and which of their content is
//! managed.

use std::fmt;
use std::marker::PhantomData;

use patchbay_schemas::datum::{Datum, Map};
use patchbay_schemas::row::Row;
use patchbay_schemas::typed::{Field, TableRow};
use uuid::Uuid;

use crate::resolved::ResolvedTable;

/// Content by which a row is recognised as a wanted one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Identity {
    /// Values of these columns, mostly of `name`.
    Columns(&'static [&'static str]),
    /// Value of this key of column `external_ids`. Rows without the key are not found.
    ExternalId(&'static str),
    /// Values of these columns among the rows of one holder. Without columns: a holder has one such
    /// row.
    InHolder(&'static [&'static str]),
    /// Value of this key of column `external_ids` among the rows of the part that wants it. No
    /// other part can want the row, and no name leads to it.
    InPart(&'static str),
}

impl Identity {
    /// Column `name`.
    pub const NAME: Self = Self::Columns(&["name"]);
}

/// Owner of a row, as the row's content shows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Owner<P> {
    /// A part of the capability. The row goes if the part does not want it.
    Part(P),
    /// Another program. The row is never changed.
    Other,
    /// None. The row is taken over if a part wants its identity, and stays otherwise.
    Unowned,
}

/// Place of a row's changes in the order of a plan. Smaller phases come first.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Phase(pub u8);

/// Phases of a table's rows.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Phases {
    /// New rows, and rows that a holder gains.
    pub come: Phase,
    /// Rows that change.
    pub change: Phase,
    /// Rows that go, and rows that a holder loses.
    pub go: Phase,
}

/// A table of a capability. `T`'s columns are the managed ones.
pub struct Table<T> {
    pub(crate) place: TablePlace,
    row: PhantomData<fn() -> T>,
}

impl<T> Clone for Table<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Table<T> {}

impl<T> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)
    }
}

/// A column of references: rows of one table that hold rows of another.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Holding(pub(crate) u8);

impl Holding {
    pub(crate) fn index(self) -> usize {
        self.0.into()
    }
}

/// Place of a table in a [`Layout`].
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct TablePlace(pub(crate) u16);

impl TablePlace {
    pub(crate) fn index(self) -> usize {
        self.0.into()
    }
}

pub(crate) type OwnerOf<P> = fn(&RowView<'_>) -> Owner<P>;

/// Tables and references of one capability.
#[derive(Debug)]
pub struct Layout<P> {
    pub(crate) tables: Vec<TableSpec<P>>,
    pub(crate) holdings: Vec<HoldingSpec>,
}

#[derive(Debug)]
pub(crate) struct TableSpec<P> {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [&'static str],
    pub(crate) identity: Identity,
    pub(crate) is_shared: bool,
    /// Keys of maps in shared rows that nobody else adds.
    pub(crate) own_keys: &'static [&'static str],
    /// Columns of shared rows that nobody else sets.
    pub(crate) own_columns: &'static [&'static str],
    pub(crate) phases: Phases,
    pub(crate) owner: Option<OwnerOf<P>>,
    /// Column that grows before it shrinks.
    pub(crate) staged: Option<&'static str>,
    /// Set column whose members parts contribute.
    pub(crate) members: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct HoldingSpec {
    pub(crate) column: &'static str,
    pub(crate) holder: TablePlace,
    pub(crate) held: TablePlace,
    pub(crate) is_exclusive: bool,
}

impl<P> Default for Layout<P> {
    fn default() -> Self {
        Self { tables: Vec::new(), holdings: Vec::new() }
    }
}

impl<P> Layout<P> {
    /// Declares a table. Its rows hold what is wanted and nothing else, in the columns of `T`.
    pub fn table<T: TableRow>(&mut self, identity: Identity) -> Declared<'_, P, T> {
        let place = TablePlace(u16::try_from(self.tables.len()).unwrap_or(u16::MAX));
        self.tables.push(TableSpec {
            name: T::TABLE,
            columns: T::COLUMNS,
            identity,
            is_shared: false,
            own_keys: &[],
            own_columns: &[],
            phases: Phases::default(),
            owner: None,
            staged: None,
            members: None,
        });
        Declared { layout: self, table: Table { place, row: PhantomData } }
    }

    /// Declares that rows of one table hold rows of another. Members of the column are managed one
    /// by one: those that others have added stay.
    pub fn holding<H: TableRow, C, R>(
        &mut self,
        holders: Table<H>,
        column: Field<H, C>,
        held: Table<R>,
    ) -> Holding {
        self.add_holding(holders.place, column.name(), held.place, false)
    }

    /// Like [`holding`](Self::holding), but a wanted row has the wanted holders and no others.
    pub fn exclusive_holding<H: TableRow, C, R>(
        &mut self,
        holders: Table<H>,
        column: Field<H, C>,
        held: Table<R>,
    ) -> Holding {
        self.add_holding(holders.place, column.name(), held.place, true)
    }

    fn add_holding(
        &mut self,
        holder: TablePlace,
        column: &'static str,
        held: TablePlace,
        is_exclusive: bool,
    ) -> Holding {
        self.holdings.push(HoldingSpec { column, holder, held, is_exclusive });
        Holding(u8::try_from(self.holdings.len() - 1).unwrap_or(u8::MAX))
    }
}

/// A table that is being declared. It converts into the finished [`Table`].
#[derive(Debug)]
pub struct Declared<'l, P, T> {
    layout: &'l mut Layout<P>,
    table: Table<T>,
}

impl<P, T: TableRow> Declared<'_, P, T> {
    fn spec(&mut self) -> &mut TableSpec<P> {
        &mut self.layout.tables[self.table.place.index()]
    }

    /// Others add to the rows: keys of maps that they add stay, and columns in which nothing is
    /// wanted.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.spec().is_shared = true;
        self
    }

    /// Keys of maps in shared rows that nobody else adds: they go when they are not wanted.
    #[must_use]
    pub fn own_keys(mut self, keys: &'static [&'static str]) -> Self {
        self.spec().own_keys = keys;
        self
    }

    /// Columns of shared rows that only the capability sets: they become empty when nothing is wanted
    /// in them.
    #[must_use]
    pub fn own_columns(mut self, columns: &'static [&'static str]) -> Self {
        self.spec().own_columns = columns;
        self
    }

    /// Sets the phases in which rows come, change and go.
    #[must_use]
    pub fn phases(mut self, phases: Phases) -> Self {
        self.spec().phases = phases;
        self
    }

    /// Sets the function that finds a row's owner. Without one, rows are unowned.
    #[must_use]
    pub fn owned_by(mut self, owner: fn(&RowView<'_>) -> Owner<P>) -> Self {
        self.spec().owner = Some(owner);
        self
    }

    /// Lets a set column of existing rows grow in the phase in which rows change, and shrink in the
    /// phase in which they go. Whichever phase is the earlier one comes first. In one transaction
    /// it is one change.
    #[must_use]
    pub fn staged<C>(mut self, column: Field<T, C>) -> Self {
        self.spec().staged = Some(column.name());
        self
    }

    /// Lets parts contribute the members of a set column ([`PartRows::member`]). The value of a
    /// wanted row is not used. As a staged column, it grows in the phase in which rows change and
    /// shrinks in the phase in which they go. A change costs as much as the members that come and
    /// go, however many there are.
    ///
    /// [`PartRows::member`]: crate::PartRows::member
    #[must_use]
    pub fn members<C>(mut self, column: Field<T, C>) -> Self {
        self.spec().members = Some(column.name());
        self
    }

    /// Returns the table.
    pub fn declare(self) -> Table<T> {
        self.table
    }
}

/// A row of the database, read by names of columns.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    pub(crate) row: &'a Row,
    pub(crate) table: &'a ResolvedTable,
}

impl<'a> RowView<'a> {
    /// UUID.
    pub fn uuid(&self) -> Uuid {
        self.row.uuid
    }

    /// Name of the table.
    pub fn table(&self) -> &'static str {
        self.table.name
    }

    /// Value of column `name`; empty if the table has none.
    pub fn name(&self) -> &'a str {
        let name = self.table.name_column.and_then(|id| self.row.values.get(id));
        name.and_then(|name| name.as_scalar()?.as_str()).unwrap_or_default()
    }

    /// Value of a key of column `external_ids`.
    pub fn external_id(&self, key: &str) -> Option<&'a str> {
        self.table.external_ids(self.row)?.get_str(key)
    }

    /// Column `external_ids`.
    pub fn external_ids(&self) -> Option<&'a Map> {
        self.table.external_ids(self.row)
    }

    /// Value of a managed column.
    pub fn column(&self, name: &str) -> Option<&'a Datum> {
        let mut columns = self.table.columns.iter();
        let (_, id, _) = columns.find(|(have, ..)| *have == name)?;
        self.row.values.get((*id)?)
    }
}
