//! What a transaction changed.

use std::sync::Arc;

use patchbay_schemas::row::Row;
use patchbay_schemas::schema::TableId;
use uuid::Uuid;

/// The rows that one transaction changed, each once.
#[derive(Clone, Debug, Default)]
pub struct ChangeSet {
    /// In no particular order.
    pub rows: Vec<RowChange>,
}

/// One row before and after a transaction.
#[derive(Clone, Debug)]
pub struct RowChange {
    /// Its table.
    pub table: TableId,
    /// None when the transaction inserted it.
    pub old: Option<Arc<Row>>,
    /// None when the transaction deleted it.
    pub new: Option<Arc<Row>>,
}

impl RowChange {
    /// The row's UUID.
    pub fn uuid(&self) -> Uuid {
        self.new
            .as_ref()
            .or(self.old.as_ref())
            .map_or(Uuid::nil(), |row| row.uuid)
    }
}
