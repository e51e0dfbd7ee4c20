//! Order of tables and columns in the hash tables of ovsdb-server, which its texts show.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use crate::hash_order;
use crate::json::{Reader, ValueKind};

use super::{DatabaseSchema, TableSchema};

/// Names of the tables and columns in the text of a schema, in the order of the text.
#[derive(Default)]
pub(super) struct WrittenOrder {
    /// Each table with its columns.
    tables: Vec<(String, Vec<String>)>,
}

impl WrittenOrder {
    /// Reads the names of the reader's next value. Whatever is not a schema has none.
    pub(super) fn read(schema: Reader<'_>) -> Self {
        let is_tables = |(name, _): &(Cow<'_, [u8]>, _)| **name == *b"tables";
        // As elsewhere, the last of several members with one name counts.
        let tables = members(schema).filter(is_tables).last();
        let mut order = Self::default();
        let mut places: HashMap<Cow<'_, [u8]>, usize> = HashMap::new();
        for (name, table) in tables.into_iter().flat_map(|(_, tables)| members(tables)) {
            let columns = columns(table);
            match places.entry(name) {
                Entry::Occupied(place) => order.tables[*place.get()].1 = columns,
                Entry::Vacant(place) => {
                    let name = String::from_utf8_lossy(place.key()).into_owned();
                    place.insert(order.tables.len());
                    order.tables.push((name, columns));
                }
            }
        }
        order
    }
}

/// Names of the columns of a table.
fn columns(table: Reader<'_>) -> Vec<String> {
    let is_columns = |(name, _): &(Cow<'_, [u8]>, _)| **name == *b"columns";
    let columns = members(table).filter(is_columns).last();
    let mut known = HashSet::new();
    columns
        .into_iter()
        .flat_map(|(_, columns)| members(columns))
        .filter(|(name, _)| known.insert(name.clone()))
        .map(|(name, _)| String::from_utf8_lossy(&name).into_owned())
        .collect()
}

/// Iterates over the members of an object. Other values have none.
fn members(mut object: Reader<'_>) -> impl Iterator<Item = (Cow<'_, [u8]>, Reader<'_>)> {
    let is_object = object.kind() == ValueKind::Object && object.enter_object();
    std::iter::from_fn(move || {
        let name = is_object.then(|| object.next_member())??;
        let value = object;
        object.skip();
        Some((name, value))
    })
}

impl DatabaseSchema {
    /// Sets the order of a schema that ovsdb-server has read from a text.
    pub(super) fn order_as_written(&mut self, written: &WrittenOrder) {
        let names = written.tables.iter().map(|(name, _)| &**name);
        self.order_tables(hash_order::key_order(names));
        for (name, columns) in &written.tables {
            if let Some(id) = self.table_id(name) {
                let columns = hash_order::key_order(columns.iter().map(|column| &**column));
                self.tables[id.index()].order_columns(columns);
            }
        }
    }

    /// Changes the order to that of ovsdb-server's copies of a schema, which databases have after a
    /// conversion, and in relays.
    pub fn reorder_as_copy(&mut self) {
        let names: Vec<_> = self.tables_in_hash_order().map(|table| table.name.clone()).collect();
        self.order_tables(names.iter().map(|name| &**name));
        for table in &mut self.tables {
            let names: Vec<_> = table
                .columns_in_hash_order()
                .iter()
                .filter_map(|column| Some(table.column(*column)?.name.clone()))
                .collect();
            table.order_columns(names.iter().map(|name| &**name));
        }
    }

    /// Changes the order to that of ovsdb-server with a file that ovsdb-tool has created from this
    /// schema.
    pub(super) fn reorder_as_created(&mut self) {
        let text = self.to_text();
        self.order_as_written(&WrittenOrder::read(Reader::new(text.as_text())));
    }

    /// Iterates over the tables in the order of ovsdb-server's [hash table](crate::hash_order).
    pub(super) fn tables_in_hash_order(&self) -> impl Iterator<Item = &TableSchema> {
        self.table_order.iter().map(|id| self.table(*id))
    }

    /// Inserts the tables into a hash table in the order of `names`.
    pub(super) fn order_tables<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        let order = hash_order::key_order(names).into_iter();
        self.table_order = order.filter_map(|name| self.table_id(name)).collect();
    }
}

impl TableSchema {
    /// Inserts the columns into a hash table in the order of `names`, after `_uuid` and `_version`.
    pub(super) fn order_columns<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        let order = hash_order::column_order(names).into_iter();
        self.column_order = order.filter_map(|name| self.column_id(name)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::TextBuf;

    fn columns(text: &str) -> String {
        let columns = text.split(r#""columns":"#).nth(1).unwrap();
        columns.replace(r#":{"type":"integer"}"#, "")
    }

    fn text(schema: &DatabaseSchema) -> String {
        String::from_utf8(schema.to_text().as_text().bytes().to_vec()).unwrap()
    }

    /// The orders are those of ovsdb-server 4.0.
    #[test]
    fn the_order_of_columns_depends_on_the_way_of_the_schema() {
        let written = r#"{"name":"D","tables":{"T":{"columns":{"g":{"type":"integer"},"b":{"type":"integer"},"a":{"type":"integer"},"f":{"type":"integer"},"e":{"type":"integer"},"c":{"type":"integer"},"d":{"type":"integer"}}}}}"#;
        let created = DatabaseSchema::parse(written.as_bytes()).unwrap();
        assert_eq!(columns(&text(&created)), r#"{"e","b","a","g","c","d","f"}}}}"#);
        let sent = TextBuf::parse(written.as_bytes().to_vec()).unwrap();
        let mut converted = DatabaseSchema::read(&mut Reader::new(sent.as_text())).unwrap();
        converted.reorder_as_copy();
        assert_eq!(columns(&text(&converted)), r#"{"e","b","a","c","g","d","f"}}}}"#);
        assert_eq!(created.to_json(), converted.to_json());
    }

    /// Of two rows with equal `number`, the one with the greater `name` is named first whatever the
    /// UUIDs are.
    #[test]
    fn columns_are_compared_as_the_tests_of_open_vswitch_expect() {
        let text = br#"{"name":"D","tables":{"T":{"columns":{
            "number":{"type":"integer"},"name":{"type":"string"}}}}}"#;
        let schema = DatabaseSchema::parse(text).unwrap();
        let (_, table) = schema.table_by_name("T").unwrap();
        let order = table.columns_in_hash_order();
        let place = |name| order.iter().position(|id| table.column_name(*id) == name);
        assert_eq!(order.len(), 4);
        assert!(place("name") < place("_uuid") && place("name") < place("_version"));
    }

    #[test]
    fn the_last_of_several_members_counts_in_the_place_of_the_first() {
        let text = TextBuf::parse(r#"{"name":"D","tables":{"X":{}},"tables":{"B":1,"A":{"columns":{"z":1,"y":2,"z":3}},"B":{"columns":{"x":0}}}}"#.as_bytes().to_vec()).unwrap();
        let order = WrittenOrder::read(Reader::new(text.as_text()));
        let table = |name: &str, columns: &[&str]| {
            (name.to_owned(), columns.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(order.tables, [table("B", &["x"]), table("A", &["z", "y"])]);
    }
}
