//! Tables of a capability: how their rows are found, who owns them, and which of their content is
//! managed.

use std::fmt;
use std::hash::BuildHasher;
use std::marker::PhantomData;

use foldhash::fast::RandomState;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::{Datum, Map};
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, DatabaseSchema, TableId};
use patchbay_schemas::typed::{Field, TableRow};
use smol_str::SmolStr;
use uuid::Uuid;

use crate::columns::Rule;

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
    pub(crate) phases: Phases,
    pub(crate) owner: Option<OwnerOf<P>>,
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
        Self {
            tables: Vec::new(),
            holdings: Vec::new(),
        }
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
            phases: Phases::default(),
            owner: None,
        });
        Declared {
            layout: self,
            table: Table {
                place,
                row: PhantomData,
            },
        }
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
        self.holdings.push(HoldingSpec {
            column,
            holder,
            held,
            is_exclusive,
        });
        Holding(u8::try_from(self.holdings.len() - 1).unwrap_or(u8::MAX))
    }
}

/// A table that is being declared. It converts into the finished [`Table`].
#[derive(Debug)]
pub struct Declared<'l, P, T> {
    layout: &'l mut Layout<P>,
    table: Table<T>,
}

impl<P, T> Declared<'_, P, T> {
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

    /// Returns the table.
    pub fn declare(self) -> Table<T> {
        self.table
    }
}

/// A [`Layout`] with the columns of one database schema.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) tables: Vec<ResolvedTable>,
    pub(crate) holdings: Vec<ResolvedHolding>,
    pub(crate) hasher: RandomState,
}

#[derive(Debug)]
pub(crate) struct ResolvedTable {
    pub(crate) name: &'static str,
    /// `None`: the schema has no such table.
    pub(crate) id: Option<TableId>,
    pub(crate) is_root: bool,
    pub(crate) phases: Phases,
    /// Managed columns, in the order of the row type.
    pub(crate) columns: Vec<(&'static str, Option<ColumnId>, Rule)>,
    pub(crate) identity: ResolvedIdentity,
    pub(crate) name_column: Option<ColumnId>,
    pub(crate) external_ids: Option<ColumnId>,
    /// Holdings whose column is in this table.
    pub(crate) holds: Vec<Holding>,
    /// Holdings whose members are rows of this table.
    pub(crate) held_by: Vec<Holding>,
}

#[derive(Debug)]
pub(crate) struct ResolvedIdentity {
    pub(crate) is_in_holder: bool,
    /// For each column: its place in the row type and in the database.
    columns: Vec<(usize, ColumnId)>,
    external_id: Option<&'static str>,
    /// Place of the unique index over exactly the identity's columns.
    pub(crate) unique_index: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ResolvedHolding {
    pub(crate) spec: HoldingSpec,
    pub(crate) column: Option<ColumnId>,
    /// `true` if the column holds at most one row.
    pub(crate) is_single: bool,
}

impl Resolved {
    pub(crate) fn new<P>(layout: &Layout<P>, schema: &DatabaseSchema) -> Self {
        let holdings: Vec<ResolvedHolding> = layout
            .holdings
            .iter()
            .map(|spec| {
                let holder = layout.tables[spec.holder.index()].name;
                let table = schema.table_by_name(holder).map(|(_, table)| table);
                let column = table.and_then(|table| table.column_id(spec.column));
                let ty = table.zip(column).map(|(table, id)| table.column_type(id));
                ResolvedHolding {
                    spec: *spec,
                    column,
                    is_single: ty.is_some_and(|ty| ty.max == 1),
                }
            })
            .collect();
        let tables = (0..).zip(&layout.tables).map(|(place, spec)| {
            let place = TablePlace(place);
            let found = schema.table_by_name(spec.name);
            let column = |name: &str| found.and_then(|(_, table)| table.column_id(name));
            let of = |is_it: &dyn Fn(&HoldingSpec) -> bool| -> Vec<Holding> {
                let places = (0..).zip(&holdings);
                let these = places.filter(|(_, holding)| is_it(&holding.spec));
                these.map(|(place, _)| Holding(place)).collect()
            };
            let holds = of(&|holding| holding.holder == place);
            let rule = |name: &str| {
                let is_holding = |holding: &Holding| {
                    let spec = &holdings[holding.index()].spec;
                    spec.column == name
                };
                match spec.is_shared {
                    _ if holds.iter().any(is_holding) => Rule::Leave,
                    true => Rule::Extend,
                    false => Rule::Replace,
                }
            };
            let columns = spec.columns.iter();
            ResolvedTable {
                name: spec.name,
                id: found.map(|(id, _)| id),
                is_root: found.is_none_or(|(_, table)| table.is_root),
                phases: spec.phases,
                columns: columns
                    .map(|name| (*name, column(name), rule(name)))
                    .collect(),
                identity: ResolvedIdentity::new(spec, schema),
                name_column: column("name"),
                external_ids: column("external_ids"),
                held_by: of(&|holding| holding.held == place),
                holds,
            }
        });
        Self {
            tables: tables.collect(),
            hasher: RandomState::default(),
            holdings,
        }
    }

    pub(crate) fn table(&self, place: TablePlace) -> &ResolvedTable {
        &self.tables[place.index()]
    }

    pub(crate) fn holding(&self, holding: Holding) -> &ResolvedHolding {
        &self.holdings[holding.index()]
    }

    /// Key of a wanted row: its identity among all rows of the table, or, for
    /// [`Identity::InHolder`], within a holder.
    pub(crate) fn wanted_key(&self, place: TablePlace, wanted: &[Datum]) -> Option<u64> {
        let identity = &self.table(place).identity;
        if let Some(key) = identity.external_id {
            let columns = &self.table(place).columns;
            let at = columns
                .iter()
                .position(|(name, ..)| *name == "external_ids")?;
            return Some(self.hash_text(wanted[at].as_map()?.get_str(key)?));
        }
        let columns = identity.columns.iter();
        Some(self.hash(columns.map(|(at, _)| &wanted[*at])))
    }

    /// Key of a row of the database, as in [`wanted_key`](Self::wanted_key).
    pub(crate) fn row_key(&self, place: TablePlace, row: &Row) -> Option<u64> {
        let table = self.table(place);
        if let Some(key) = table.identity.external_id {
            return Some(self.hash_text(table.external_ids(row)?.get_str(key)?));
        }
        let columns = table.identity.columns.iter();
        Some(self.hash(columns.filter_map(|(_, column)| row.values.get(*column))))
    }

    /// Key of the row whose identity is one text.
    pub(crate) fn text_key(&self, place: TablePlace, text: &SmolStr) -> u64 {
        if self.table(place).identity.external_id.is_some() {
            return self.hash_text(text);
        }
        self.hash([&Datum::scalar(Atom::String(text.clone()))].into_iter())
    }

    /// Key of a row within a holder.
    pub(crate) fn key_in_holder(&self, holding: Holding, holder: Uuid, key: u64) -> u64 {
        self.hasher.hash_one((holding.0, holder, key))
    }

    fn hash_text(&self, text: &str) -> u64 {
        self.hasher.hash_one(text)
    }

    fn hash<'d>(&self, data: impl Iterator<Item = &'d Datum>) -> u64 {
        data.fold(0, |key, datum| self.hasher.hash_one((key, datum)))
    }
}

impl ResolvedIdentity {
    fn new<P>(spec: &TableSpec<P>, schema: &DatabaseSchema) -> Self {
        let (names, external_id): (&[&str], _) = match spec.identity {
            Identity::Columns(names) | Identity::InHolder(names) => (names, None),
            Identity::ExternalId(key) => (&[], Some(key)),
        };
        let is_in_holder = matches!(spec.identity, Identity::InHolder(_));
        let table = schema.table_by_name(spec.name).map(|(_, table)| table);
        let column = |name: &&str| {
            let at = spec.columns.iter().position(|column| column == name)?;
            Some((at, table?.column_id(name)?))
        };
        let columns: Vec<(usize, ColumnId)> = names.iter().filter_map(column).collect();
        let ids: Vec<ColumnId> = columns.iter().map(|(_, id)| *id).collect();
        let unique_index = table.and_then(|table| {
            let mut indexes = table.indexes.iter();
            indexes.position(|index| !is_in_holder && !ids.is_empty() && *index == ids)
        });
        Self {
            is_in_holder,
            columns,
            external_id,
            unique_index,
        }
    }

    /// Values of a wanted row in the columns of the identity.
    pub(crate) fn values(&self, wanted: &[Datum]) -> Vec<Datum> {
        let columns = self.columns.iter();
        columns.map(|(at, _)| wanted[*at].clone()).collect()
    }
}

impl ResolvedTable {
    fn external_ids<'r>(&self, row: &'r Row) -> Option<&'r Map> {
        row.values.get(self.external_ids?)?.as_map()
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
        let name = self
            .table
            .name_column
            .and_then(|id| self.row.values.get(id));
        name.and_then(|name| name.as_scalar()?.as_str())
            .unwrap_or_default()
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
