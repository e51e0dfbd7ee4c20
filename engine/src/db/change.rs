//! Row changes of a transaction.

use std::sync::Arc;

use patchbay_schemas::row::Row;
use patchbay_schemas::schema::TableId;
use uuid::Uuid;

/// Rows that one transaction changed, each once.
#[derive(Clone, Debug, Default)]
pub struct ChangeSet {
    /// Changed rows in no particular order.
    pub rows: Vec<RowChange>,
}

/// Row before and after a transaction.
#[derive(Clone, Debug)]
pub struct RowChange {
    /// Table of the row.
    pub table: TableId,
    /// Version before the transaction. `None`: the transaction inserted the row.
    pub old: Option<Arc<Row>>,
    /// Version after the transaction. `None`: the transaction deleted the row.
    pub new: Option<Arc<Row>>,
}

impl RowChange {
    /// UUID of the row; nil if the change has neither version.
    pub fn uuid(&self) -> Uuid {
        self.new.as_ref().or(self.old.as_ref()).map_or(Uuid::nil(), |row| row.uuid)
    }
}
