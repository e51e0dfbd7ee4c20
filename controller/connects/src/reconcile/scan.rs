//! One pass over a table.

use patchbay_engine::db::Snapshot;
use patchbay_schemas::row::Row;
use patchbay_schemas::typed::TableRow;

use crate::index::Marks;

/// One table with the columns that tell whose a row is.
pub(super) struct Scan<'a> {
    pub(super) rows: Vec<&'a Row>,
    marks: Marks,
}

impl<'a> Scan<'a> {
    pub(super) fn new<T: TableRow>(snapshot: &'a Snapshot) -> Self {
        Self {
            rows: snapshot.typed::<T>().rows().map(AsRef::as_ref).collect(),
            marks: Marks::of::<T>(snapshot.schema()),
        }
    }

    pub(super) fn name(&self, row: &'a Row) -> &'a str {
        self.marks.name(row)
    }

    pub(super) fn id(&self, row: &'a Row) -> &'a str {
        self.marks.id(row)
    }
}
