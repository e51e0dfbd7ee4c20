//! Tables of a capability with the columns of one database schema, and the keys of their rows.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;
use patchbay_schemas::datum::{Datum, Map};
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, DatabaseSchema, TableId};
use smallvec::SmallVec;
use uuid::Uuid;

use crate::columns::Rule;
use crate::sources::Source;
use crate::table::{Holding, HoldingSpec, Identity, Layout, Phases, TablePlace, TableSpec};

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
    /// Column that grows before it shrinks.
    pub(crate) staged: Option<&'static str>,
    /// Set column whose members parts contribute.
    pub(crate) members: Option<MembersColumn>,
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

/// Set column whose members parts contribute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MembersColumn {
    pub(crate) name: &'static str,
    /// Place in the row type.
    pub(crate) place: usize,
    /// `None`: the schema has no such column.
    pub(crate) column: Option<ColumnId>,
}

/// Values of the columns of an identity, mostly of one.
pub(crate) type IdentityValues = SmallVec<[Datum; 1]>;

#[derive(Debug)]
pub(crate) struct ResolvedIdentity {
    pub(crate) is_in_holder: bool,
    pub(crate) is_in_part: bool,
    /// For each column: its place in the row type and in the database.
    pub(crate) columns: Vec<(usize, ColumnId)>,
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
                ResolvedHolding { spec: *spec, column, is_single: ty.is_some_and(|ty| ty.max == 1) }
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
                    _ if spec.members == Some(name) => Rule::Leave,
                    true if spec.own_columns.contains(&name) => Rule::Replace,
                    true => Rule::Extend(spec.own_keys),
                    false => Rule::Replace,
                }
            };
            let members = spec.members.and_then(|name| {
                let place = spec.columns.iter().position(|have| *have == name)?;
                let column = column(name);
                Some(MembersColumn { name, place, column })
            });
            let columns = spec.columns.iter();
            ResolvedTable {
                name: spec.name,
                id: found.map(|(id, _)| id),
                is_root: found.is_none_or(|(_, table)| table.is_root),
                phases: spec.phases,
                staged: spec.staged,
                members,
                columns: columns.map(|name| (*name, column(name), rule(name))).collect(),
                identity: ResolvedIdentity::new(spec, schema),
                name_column: column("name"),
                external_ids: column("external_ids"),
                held_by: of(&|holding| holding.held == place),
                holds,
            }
        });
        Self { tables: tables.collect(), hasher: RandomState::default(), holdings }
    }

    /// Places of all tables.
    pub(crate) fn places(&self) -> impl Iterator<Item = TablePlace> + use<> {
        (0..self.tables.len()).map(|place| TablePlace(place as u16))
    }

    pub(crate) fn table(&self, place: TablePlace) -> &ResolvedTable {
        &self.tables[place.index()]
    }

    pub(crate) fn holding(&self, holding: Holding) -> &ResolvedHolding {
        &self.holdings[holding.index()]
    }

    /// Key of a wanted row: its identity among all rows of the table, or, for
    /// [`Identity::InHolder`], within a holder. `None`: it has none, or only in its part.
    pub(crate) fn wanted_key(&self, place: TablePlace, wanted: &[Datum]) -> Option<u64> {
        let identity = &self.table(place).identity;
        if identity.is_in_part {
            return None;
        }
        if identity.external_id.is_some() {
            return Some(self.text_key(self.table(place).wanted_external_id(wanted)?));
        }
        let columns = identity.columns.iter();
        Some(self.hash(columns.map(|(at, _)| &wanted[*at])))
    }

    /// Key of a row of the database, as in [`wanted_key`](Self::wanted_key).
    pub(crate) fn row_key(&self, place: TablePlace, row: &Row) -> Option<u64> {
        let table = self.table(place);
        if table.identity.is_in_part {
            return None;
        }
        if table.identity.external_id.is_some() {
            return Some(self.text_key(table.external_id(row)?));
        }
        let columns = table.identity.columns.iter();
        Some(self.hash(columns.filter_map(|(_, column)| row.values.get(*column))))
    }

    /// Key of the row whose identity is one text.
    pub(crate) fn text_key(&self, text: &str) -> u64 {
        self.hasher.hash_one(text)
    }

    /// Key of a row within a holder.
    pub(crate) fn key_in_holder(&self, holding: Holding, holder: Uuid, key: u64) -> u64 {
        self.hasher.hash_one((holding.0, holder, key))
    }

    pub(crate) fn cell_source(&self, cell: &impl Hash) -> Source {
        Source::new(self.hasher.hash_one((0_u8, cell)))
    }

    pub(crate) fn shared_source(&self, key: &impl Hash) -> Source {
        Source::new(self.hasher.hash_one((1_u8, key)))
    }

    pub(crate) fn report_source(&self, part: &impl Hash) -> Source {
        Source::new(self.hasher.hash_one((2_u8, part)))
    }

    pub(crate) fn claim_source(&self, space: &'static str, value: impl Hash) -> Source {
        Source::new(self.hasher.hash_one((3_u8, space, value)))
    }

    /// Key of the values of an identity's columns.
    fn hash<'d>(&self, data: impl Iterator<Item = &'d Datum>) -> u64 {
        let mut data = data.peekable();
        let first = data.next();
        let text = first.and_then(|datum| datum.as_scalar()?.as_str());
        if let (Some(text), None) = (text, data.peek()) {
            return self.text_key(text);
        }
        let all = first.into_iter().chain(data);
        all.fold(0, |key, datum| self.hasher.hash_one((key, datum)))
    }
}

impl ResolvedIdentity {
    fn new<P>(spec: &TableSpec<P>, schema: &DatabaseSchema) -> Self {
        let (names, external_id): (&[&str], _) = match spec.identity {
            Identity::Columns(names) | Identity::InHolder(names) => (names, None),
            Identity::ExternalId(key) | Identity::InPart(key) => (&[], Some(key)),
        };
        let is_in_part = matches!(spec.identity, Identity::InPart(_));
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
        Self { is_in_holder, is_in_part, columns, external_id, unique_index }
    }

    /// Values of a wanted row in the columns of the identity.
    pub(crate) fn values(&self, wanted: &[Datum]) -> IdentityValues {
        let columns = self.columns.iter();
        columns.map(|(at, _)| wanted[*at].clone()).collect()
    }
}

impl ResolvedTable {
    /// `true` if rows are found by keys or holders that the database does not index.
    pub(crate) fn is_indexed(&self) -> bool {
        self.has_keys() || !self.holds.is_empty()
    }

    /// `true` if rows are found by keys that the database does not index.
    pub(crate) fn has_keys(&self) -> bool {
        !self.identity.is_in_part && self.identity.unique_index.is_none()
    }

    /// Value of the identity's external id in a row of the database.
    pub(crate) fn external_id<'r>(&self, row: &'r Row) -> Option<&'r str> {
        self.external_ids(row)?.get_str(self.identity.external_id?)
    }

    /// Value of the identity's external id in a wanted row.
    pub(crate) fn wanted_external_id<'r>(&self, wanted: &'r [Datum]) -> Option<&'r str> {
        let mut columns = self.columns.iter();
        let place = columns.position(|(name, ..)| *name == "external_ids")?;
        wanted[place].as_map()?.get_str(self.identity.external_id?)
    }

    pub(crate) fn external_ids<'r>(&self, row: &'r Row) -> Option<&'r Map> {
        row.values.get(self.external_ids?)?.as_map()
    }
}
