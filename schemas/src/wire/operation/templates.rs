//! Rows of earlier requests, with which the rows of the next one share what is equal.

use std::sync::Arc;

use crate::schema::{DatabaseSchema, TableId};

use super::{InsertRow, Operation, Operations};

/// A row of each table that a client has inserted.
///
/// Most clients insert rows of one kind again and again: with the same columns, the same keys of
/// maps and many equal values. Such a row is decoded faster with a template, and shares memory with
/// it. The result does not depend on the template.
#[derive(Debug, Default)]
pub struct RowTemplates {
    /// Schema of the rows. `None`: there are no rows.
    schema: Option<Arc<DatabaseSchema>>,
    rows: Vec<Option<InsertRow>>,
    revision: u64,
}

impl RowTemplates {
    /// Drops the rows if they are not rows of this schema.
    pub(super) fn set_schema(&mut self, schema: &Arc<DatabaseSchema>) {
        let own = self.schema.as_ref();
        if own.is_none_or(|own| !Arc::ptr_eq(own, schema)) {
            self.schema = Some(schema.clone());
            self.clear();
        }
    }

    /// Drops the rows.
    pub fn clear(&mut self) {
        self.rows = Vec::new();
        self.revision += 1;
    }

    /// Number of changes of the rows so far: they are the same as long as it is.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Iterates over the rows, of which each table has at most one.
    pub fn rows(&self) -> impl Iterator<Item = &InsertRow> {
        self.rows.iter().flatten()
    }

    /// Keeps inserted rows whose columns are not those of their table's template.
    pub(super) fn keep_rows_of(&mut self, operations: &Operations) {
        for operation in operations {
            let Operation::Insert { table, row, .. } = operation else {
                continue;
            };
            if self.rows.len() <= table.index() {
                self.rows.resize(table.index() + 1, None);
            }
            let template = &mut self.rows[table.index()];
            if template.as_ref().is_none_or(|template| !template.shares_columns_with(row)) {
                *template = Some(row.clone());
                self.revision += 1;
            }
        }
    }

    /// Returns the row of a table. `None`: there is none.
    pub(super) fn row(&self, table: TableId) -> Option<&InsertRow> {
        self.rows.get(table.index())?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Reader, TextBuf};
    use crate::nb;
    use crate::strings::StringCache;
    use crate::uuids::UuidSource;
    use crate::wire::{DecodedTransaction, decode_transaction, decode_with_templates};

    fn insert(table: &str, row: &str) -> TextBuf {
        let text = format!(r#"[{{"op":"insert","table":"{table}","row":{row}}}]"#);
        TextBuf::parse(text.into_bytes()).unwrap()
    }

    fn decode(text: &TextBuf, templates: Option<&mut RowTemplates>) -> DecodedTransaction {
        let (mut strings, mut uuids) = (StringCache::default(), UuidSource::seeded(1));
        let mut params = Reader::new(text.as_text());
        params.enter_array();
        let schema = nb::schema();
        match templates {
            Some(templates) => {
                decode_with_templates(params, &schema, &mut strings, &mut uuids, templates)
            }
            None => decode_transaction(params, &schema, &mut strings, &mut uuids),
        }
    }

    #[test]
    fn rows_of_earlier_requests_do_not_change_the_result() {
        let mut templates = RowTemplates::default();
        for (table, row) in [
            ("Address_Set", r#"{"name":"a","external_ids":["map",[["k","v"]]]}"#),
            ("Address_Set", r#"{"name":"b","external_ids":["map",[["k","w"]]]}"#),
            ("Address_Set", r#"{"name":"b","external_ids":["map",[["l","v"],["k","v"]]]}"#),
            ("Logical_Switch", r#"{"name":"a","external_ids":["map",[["k","v"]]]}"#),
            ("Address_Set", r#"{"name":"c","addresses":["set",["1","2"]]}"#),
            ("Address_Set", r#"{"name":5}"#),
            ("Address_Set", r#"{"name":"c","addresses":["set",["1","2"]]}"#),
        ] {
            let text = insert(table, row);
            let (alone, like) = (decode(&text, None), decode(&text, Some(&mut templates)));
            assert_eq!(like.operations, alone.operations, "{row}");
            assert_eq!(like.failure, alone.failure, "{row}");
        }
    }

    #[test]
    fn similar_rows_share_their_columns_and_another_schema_ends_that() {
        let mut templates = RowTemplates::default();
        let row = |name: &str, templates: &mut RowTemplates| {
            let text = insert("Address_Set", &format!(r#"{{"name":"{name}"}}"#));
            match decode(&text, Some(templates)).operations.get(0) {
                Some(Operation::Insert { table, row, .. }) => (*table, row.clone()),
                other => panic!("{other:?}"),
            }
        };
        let (table, first) = row("a", &mut templates);
        let (_, second) = row("b", &mut templates);
        assert!(first.shares_columns_with(&second));
        assert!(templates.row(table).is_some());
        let other = Arc::new((*nb::schema()).clone());
        templates.set_schema(&other);
        assert!(templates.row(table).is_none());
    }
}
