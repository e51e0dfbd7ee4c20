//! Log of the rows that transactions change, in tables that an operator has chosen
//! (`ovsdb-server/tlog-set` in ovsdb-server(1)).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use patchbay_engine::db::{ChangeSet, RowChange};
use patchbay_schemas::schema::{DatabaseSchema, TableId};

/// Tables of one database whose changed rows are logged.
#[derive(Debug, Default)]
pub(super) struct TransactionLog {
    tables: BTreeSet<TableId>,
}

impl TransactionLog {
    /// `true` if changed rows of the table are logged.
    pub(super) fn has(&self, table: TableId) -> bool {
        self.tables.contains(&table)
    }

    /// Switches the log of a table on or off.
    pub(super) fn set(&mut self, table: TableId, on: bool) {
        if on {
            self.tables.insert(table);
        } else {
            self.tables.remove(&table);
        }
    }

    /// Switches the log off for all tables, because the schema is replaced.
    pub(super) fn clear(&mut self) {
        self.tables.clear();
    }

    /// Logs the changed rows of the chosen tables, as ovsdb-server's module `transaction` does.
    pub(super) fn write(&self, schema: &DatabaseSchema, changes: &ChangeSet) {
        if self.tables.is_empty() {
            return;
        }
        let logged = changes.rows.iter().filter(|change| self.has(change.table));
        for text in logged.filter_map(|change| describe(schema, change)) {
            tracing::info!(target: "transaction", "{text}");
        }
    }
}

/// Text of a changed row: its version after the transaction, or before it if it is deleted.
/// `None`: the change has neither version.
fn describe(schema: &DatabaseSchema, change: &RowChange) -> Option<String> {
    let (operation, row) = match (&change.old, &change.new) {
        (None, Some(new)) => ("inserted", new),
        (Some(_), Some(new)) => ("updated", new),
        (Some(old), None) => ("deleted", old),
        (None, None) => return None,
    };
    let table = schema.table(change.table);
    let mut text = format!("table:{},op:{operation}", table.name);
    for &column in table.columns_in_hash_order() {
        let value = table.column_type(column).to_text(&row.get(column));
        // Writing to a string does not fail.
        let _ = write!(text, ",{}:{value}", table.column_name(column));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use patchbay_schemas::datum::Datum;
    use patchbay_schemas::row::Row;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn values_of_a_row_are_named() {
        let schema = DatabaseSchema::parse(
            br#"{"name":"D","tables":{"T":{"columns":{"i":{"type":"integer"},
                "s":{"type":{"key":"string","min":0,"max":"unlimited"}}}}}}"#,
        )
        .unwrap();
        let table = schema.table_id("T").unwrap();
        let columns = schema.table(table);
        let mut row = Row::new(Uuid::from_u128(1), columns);
        row.version = Uuid::from_u128(2);
        row.values[columns.column_id("i").unwrap()] = Datum::scalar(7);
        row.values[columns.column_id("s").unwrap()] = Datum::scalar("a b");
        let row = Arc::new(row);
        let change = |old: Option<&Arc<Row>>, new: Option<&Arc<Row>>| RowChange {
            table,
            old: old.cloned(),
            new: new.cloned(),
        };
        let inserted = describe(&schema, &change(None, Some(&row))).unwrap();
        let (head, columns) = inserted.split_once(",op:inserted,").unwrap();
        assert_eq!(head, "table:T");
        let mut columns: Vec<&str> = columns.split(',').collect();
        columns.sort_unstable();
        assert_eq!(
            columns,
            [
                "_uuid:00000000-0000-0000-0000-000000000001",
                "_version:00000000-0000-0000-0000-000000000002",
                "i:7",
                "s:[\"a b\"]",
            ]
        );
        let deleted = describe(&schema, &change(Some(&row), None)).unwrap();
        assert!(deleted.starts_with("table:T,op:deleted,"), "{deleted}");
        let updated = describe(&schema, &change(Some(&row), Some(&row))).unwrap();
        assert!(updated.starts_with("table:T,op:updated,"), "{updated}");
    }
}
