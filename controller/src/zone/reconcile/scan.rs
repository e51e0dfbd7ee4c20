//! One pass over a table.

use std::collections::HashMap;

use patchbay_engine::db::Snapshot;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::ColumnId;
use patchbay_schemas::typed::TableRow;

use crate::model::external_ids::{OWNER_CONTROLLER, OWNER_TYPE, key};

/// One table with the columns that tell whose a row is.
pub(super) struct Scan<'a> {
    pub(super) rows: Vec<&'a Row>,
    name: Option<ColumnId>,
    external_ids: Option<ColumnId>,
}

impl<'a> Scan<'a> {
    pub(super) fn new<T: TableRow>(snapshot: &'a Snapshot) -> Self {
        let table = snapshot.schema().table_by_name(T::TABLE);
        let column = |name| table.and_then(|(_, table)| table.column_id(name));
        Self {
            rows: snapshot.typed::<T>().rows().map(AsRef::as_ref).collect(),
            name: column("name"),
            external_ids: column("external_ids"),
        }
    }

    pub(super) fn name(&self, row: &'a Row) -> &'a str {
        let name = self.name.and_then(|column| row.values.get(column.index()));
        name.and_then(|name| name.as_scalar()?.as_str())
            .unwrap_or_default()
    }

    pub(super) fn external_id(&self, row: &'a Row, key: &str) -> Option<&'a str> {
        let ids = row.values.get(self.external_ids?.index())?;
        ids.as_map()?.get_str(key)
    }

    /// The connect that owns a row.
    pub(super) fn owner(&self, row: &'a Row) -> Option<&'a str> {
        (self.external_id(row, key::OWNER_CONTROLLER)? == OWNER_CONTROLLER
            && self.external_id(row, key::OWNER_TYPE)? == OWNER_TYPE)
            .then(|| self.external_id(row, key::NAME))?
    }

    pub(super) fn owned(&self) -> impl Iterator<Item = (&'a str, &'a Row)> {
        self.rows
            .iter()
            .filter_map(|row| Some((self.owner(row)?, *row)))
    }

    pub(super) fn by_name(&self) -> HashMap<&'a str, &'a Row> {
        self.rows.iter().map(|row| (self.name(row), *row)).collect()
    }

    pub(super) fn by_id<'s>(
        &'s self,
    ) -> impl Iterator<Item = (&'a str, &'a str, &'a Row)> + use<'a, 's> {
        self.owned().map(|(connect, row)| {
            let id = self.external_id(row, key::ID).unwrap_or_default();
            (connect, id, row)
        })
    }
}
