//! Rows that OVN ignores, with the reasons.

use std::fmt;

use patchbay_schemas::typed::TableRow;
use serde::{Serialize, Serializer};
use uuid::Uuid;

/// Row of a table.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct RowRef {
    /// Name of the table.
    pub table: &'static str,
    /// UUID of the row.
    #[serde(serialize_with = "write_uuid")]
    pub uuid: Uuid,
}

impl RowRef {
    /// Creates the reference to a row of the table of `T`.
    pub(crate) fn new<T: TableRow>(uuid: Uuid) -> Self {
        Self { table: T::TABLE, uuid }
    }
}

impl fmt::Display for RowRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.table, self.uuid)
    }
}

fn write_uuid<S: Serializer>(uuid: &Uuid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(uuid)
}

/// Row, or part of a row, that OVN ignores.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Note {
    /// The row.
    pub row: RowRef,
    /// Reason, such as "bad match: unknown field at byte 12".
    pub reason: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, reason } = self;
        write!(f, "{row}: {reason}")
    }
}

/// Notes about ignored rows, in the order in which the rows were read.
#[derive(Debug, Default)]
pub(crate) struct Notes(pub(crate) Vec<Note>);

impl Notes {
    pub(crate) fn add(&mut self, row: RowRef, reason: impl Into<String>) {
        let reason = reason.into();
        self.0.push(Note { row, reason });
    }
}
