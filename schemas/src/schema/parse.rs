//! Parsing of `.ovsschema` files.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::datum::Datum;
use crate::error::OvsdbError;
use crate::hash_order;
use crate::json::{Json, Reader, TextBuf};

use super::order::WrittenOrder;
use super::parse_type::{is_id_string, is_type};
use super::{
    BaseType, ColumnId, ColumnSchema, ColumnType, Constraint, DatabaseSchema, Defaults, Members,
    RefType, TableId, TableSchema, is_id,
};

/// Maximum number of tables, and of columns without `_uuid` and `_version`, because ids have 16
/// bits.
const MAX_IDS: usize = ColumnId::VERSION.0 as usize;

impl DatabaseSchema {
    /// Parses the text of an `.ovsschema` file. The order of [`to_text`](Self::to_text) is that of an
    /// ovsdb-server with a file that ovsdb-tool has created from it.
    ///
    /// # Errors
    /// The JSON is malformed, or the schema is invalid; worded like in ovsdb-server.
    ///
    /// ```
    /// # use patchbay_schemas::schema::DatabaseSchema;
    /// let schema = DatabaseSchema::parse(
    ///     br#"{"name":"Play","tables":{"Toy":{"columns":{"name":{"type":"string"}}}}}"#,
    /// )?;
    /// assert!(schema.table_by_name("Toy").unwrap().1.is_root);
    /// # Ok::<(), patchbay_schemas::error::OvsdbError>(())
    /// ```
    pub fn parse(text: &[u8]) -> Result<Self, OvsdbError> {
        let text = TextBuf::parse(text.to_vec())
            .map_err(|e| OvsdbError::new("syntax error", e.to_string()))?;
        let mut schema = Self::read(&mut Reader::new(text.as_text()))?;
        schema.reorder_as_created();
        Ok(schema)
    }

    /// Parses the schema in a message or in a record of a file, the reader's next value. The order of
    /// [`to_text`](Self::to_text) is that of an ovsdb-server that has read it there.
    ///
    /// # Errors
    /// The schema is invalid; worded like in ovsdb-server.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, OvsdbError> {
        let written = WrittenOrder::read(*reader);
        let mut schema = Self::from_json(&Json::read(reader))?;
        schema.order_as_written(&written);
        Ok(schema)
    }

    /// Parses the object of an `.ovsschema` file, whose members were sorted.
    ///
    /// # Errors
    /// The schema is invalid; worded like in ovsdb-server.
    pub fn from_json(json: &Json) -> Result<Self, OvsdbError> {
        let mut members = Members::new(json, "database schema");
        let name = members.required("name", is_id_string);
        let version = members.optional("version", Json::is_string);
        let cksum = members.optional("cksum", Json::is_string);
        let tables_json = members.required("tables", Json::is_object);
        members.finish()?;
        let has_version = version.is_some();
        let version = text(version);
        if has_version && !is_version(&version) {
            return Err(OvsdbError::syntax(
                json,
                format!("schema version \"{version}\" not in format x.y.z"),
            ));
        }
        let mut tables = Vec::new();
        for (table_name, table) in named(json, tables_json)? {
            tables.push(TableSchema::from_json(&table_name, table)?);
        }
        if tables.len() > MAX_IDS {
            let details = format!("no more than {MAX_IDS} tables are supported");
            return Err(OvsdbError::new("syntax error", details));
        }
        if !tables.iter().any(|table| table.is_root) {
            for table in &mut tables {
                table.is_root = true;
            }
        }
        let tables_by_name = tables
            .iter()
            .enumerate()
            .map(|(i, table)| (table.name.clone(), TableId(i as u16)))
            .collect();
        let mut schema = Self {
            name: text(name),
            version,
            cksum: text(cksum),
            tables,
            tables_by_name,
            table_order: Vec::new(),
        };
        let names: Vec<_> = schema.tables.iter().map(|table| table.name.clone()).collect();
        schema.order_tables(hash_order::key_order(names.iter().map(|name| &**name)));
        schema.resolve_references()?;
        Ok(schema)
    }

    /// Resolves the tables of references, and sets the properties that references imply.
    fn resolve_references(&mut self) -> Result<(), OvsdbError> {
        let is_root: Vec<bool> = self.tables.iter().map(|table| table.is_root).collect();
        for column in self.tables.iter_mut().flat_map(|table| &mut table.columns) {
            let bases = [("key", Some(&mut column.ty.key)), ("value", column.ty.value.as_mut())];
            for (part, base) in bases {
                let Some(BaseType { constraint: Constraint::Reference(reference), .. }) = base
                else {
                    continue;
                };
                let Some(target) = self.tables_by_name.get(&reference.table_name) else {
                    let details = format!(
                        "column {} {part} refers to undefined table {}",
                        column.name, reference.table_name
                    );
                    return Err(OvsdbError::new("syntax error", details));
                };
                reference.table = *target;
                match reference.ref_type {
                    RefType::Weak => column.mutable = true,
                    RefType::Strong if !is_root[target.index()] => column.ephemeral = false,
                    RefType::Strong => {}
                }
            }
        }
        Ok(())
    }
}

impl TableSchema {
    fn from_json(name: &str, json: &Json) -> Result<Self, OvsdbError> {
        let mut members = Members::new(json, format!("table schema for table {name}"));
        let columns_json = members.required("columns", Json::is_object);
        let mutable = members.optional("mutable", Json::is_bool);
        let max_rows = members.optional("maxRows", Json::is_integer);
        let is_root = members.optional("isRoot", Json::is_bool);
        let indexes_json = members.optional("indexes", Json::is_array);
        members.finish()?;
        let max_rows = match max_rows {
            Some(Json::Integer(rows)) if *rows <= 0 => {
                return Err(OvsdbError::syntax(json, "maxRows must be at least 1"));
            }
            Some(Json::Integer(rows)) => u32::try_from(*rows).unwrap_or(u32::MAX),
            _ => u32::MAX,
        };
        let mut columns = Vec::new();
        for (column_name, column) in named(json, columns_json)? {
            columns.push(ColumnSchema::from_json(&column_name, column)?);
        }
        if columns.len() > MAX_IDS {
            let details = format!("table {name} has more than {MAX_IDS} columns");
            return Err(OvsdbError::new("syntax error", details));
        }
        if columns.is_empty() {
            return Err(OvsdbError::syntax(json, "table must have at least one column"));
        }
        let columns_by_name: HashMap<_, _, RandomState> = columns
            .iter()
            .enumerate()
            .map(|(i, column)| (column.name.clone(), ColumnId(i as u16)))
            .collect();
        let defaults: Box<[Datum]> =
            columns.iter().map(|column| column.ty.default_datum()).collect();
        let refused_defaults = (0..)
            .map(ColumnId)
            .zip(columns.iter().zip(&defaults))
            .filter(|(_, (column, default))| column.ty.check(default).is_err())
            .map(|(id, _)| id)
            .collect();
        let mut table = Self {
            name: Arc::from(name),
            columns,
            defaults: Arc::new(Defaults(defaults)),
            refused_defaults,
            mutable: flag(mutable, true),
            max_rows,
            is_root: flag(is_root, false),
            indexes: Vec::new(),
            columns_by_name,
            column_order: Vec::new(),
        };
        let names: Vec<_> = table.columns.iter().map(|column| column.name.clone()).collect();
        table.order_columns(hash_order::key_order(names.iter().map(|name| &**name)));
        if let Some(Json::Array(indexes)) = indexes_json {
            for index in indexes {
                table.indexes.push(table.index_from_json(json, index)?);
            }
        }
        Ok(table)
    }

    /// Parses one element of `indexes`.
    fn index_from_json(&self, json: &Json, index: &Json) -> Result<Vec<ColumnId>, OvsdbError> {
        let columns = self.column_set_from_json(index)?;
        if columns.is_empty() {
            return Err(OvsdbError::syntax(json, "index must have at least one column"));
        }
        for column in &columns {
            if *column == ColumnId::VERSION
                || self.column(*column).is_some_and(|column| column.ephemeral)
            {
                let name = self.column_name(*column);
                let details = format!("ephemeral columns (such as {name}) may not be indexed");
                return Err(OvsdbError::syntax(json, details));
            }
        }
        Ok(columns)
    }

    /// Parses an array of column names.
    ///
    /// # Errors
    /// The value is not an array of distinct names of columns of this table.
    pub fn column_set_from_json(&self, json: &Json) -> Result<Vec<ColumnId>, OvsdbError> {
        let distinct = || OvsdbError::syntax(json, "array of distinct column names expected");
        let Json::Array(names) = json else {
            return Err(distinct());
        };
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            let Json::String(name) = name else {
                return Err(distinct());
            };
            let name = String::from_utf8_lossy(name);
            let column = self.column_id(&name).ok_or_else(|| {
                OvsdbError::syntax(json, format!("{name} is not a valid column name"))
            })?;
            columns.push(column);
        }
        let unique: BTreeSet<_> = columns.iter().collect();
        if unique.len() != columns.len() {
            return Err(distinct());
        }
        Ok(columns)
    }
}

impl ColumnSchema {
    fn from_json(name: &str, json: &Json) -> Result<Self, OvsdbError> {
        let mut members = Members::new(json, format!("schema for column {name}"));
        let mutable = members.optional("mutable", Json::is_bool);
        let ephemeral = members.optional("ephemeral", Json::is_bool);
        let ty = members.required("type", is_type);
        members.finish()?;
        Ok(Self {
            name: Arc::from(name),
            ty: ColumnType::from_json(ty.unwrap_or(&Json::Null))?,
            mutable: flag(mutable, true),
            ephemeral: flag(ephemeral, false),
        })
    }
}

/// Returns the members of an object, whose names must be valid names of tables or columns.
fn named<'a>(
    enclosing: &Json,
    object: Option<&'a Json>,
) -> Result<Vec<(String, &'a Json)>, OvsdbError> {
    let Some(Json::Object(members)) = object else {
        return Ok(Vec::new());
    };
    let check = |(name, value): (&Vec<u8>, &'a Json)| {
        let name = String::from_utf8_lossy(name).into_owned();
        if name.starts_with('_') {
            return Err(OvsdbError::syntax(enclosing, "names beginning with \"_\" are reserved"));
        }
        if !is_id(&name) {
            return Err(OvsdbError::syntax(enclosing, "name must be a valid id"));
        }
        Ok((name, value))
    };
    members.iter().map(check).collect()
}

/// `true` for three numbers separated by points.
///
/// Leading white space and signs are allowed, because ovsdb-server reads the numbers with `scanf`.
fn is_version(version: &str) -> bool {
    let is_number = |part: &str| {
        let part = part.trim_ascii_start();
        let digits = part.strip_prefix(['-', '+']).unwrap_or(part);
        !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
    };
    let parts: Vec<&str> = version.split('.').collect();
    parts.len() == 3 && parts.into_iter().all(is_number)
}

/// Returns the text of a string; empty if absent.
fn text(json: Option<&Json>) -> String {
    json.and_then(Json::as_str).unwrap_or_default().to_owned()
}

/// Returns a boolean, or the default if absent.
fn flag(json: Option<&Json>, default: bool) -> bool {
    match json {
        Some(Json::Bool(value)) => *value,
        _ => default,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(column: &str) -> OvsdbError {
        let schema = format!(r#"{{"name":"D","tables":{{"T":{{"columns":{{"c":{column}}}}}}}}}"#);
        DatabaseSchema::parse(schema.as_bytes()).unwrap_err()
    }

    /// Further ids would start again at 0, or be those of `_uuid` and `_version`.
    #[test]
    fn more_tables_or_columns_than_ids_are_refused() {
        let members = |count: usize, value: &str| {
            let members: Vec<String> = (0..count).map(|i| format!("\"m{i}\":{value}")).collect();
            members.join(",")
        };
        let column = r#"{"type":"string"}"#;
        let schema = |tables: &str| format!(r#"{{"name":"D","tables":{{{tables}}}}}"#);
        let table = |columns: &str| format!(r#"{{"columns":{{{columns}}}}}"#);
        for (count, accepted) in [(MAX_IDS, true), (MAX_IDS + 1, false)] {
            let wide = format!("\"T\":{}", table(&members(count, column)));
            let many = members(count, &table(&members(1, column)));
            for tables in [wide, many] {
                let parsed = DatabaseSchema::parse(schema(&tables).as_bytes());
                assert_eq!(parsed.is_ok(), accepted, "{count}");
            }
        }
    }

    #[test]
    fn errors_are_worded_like_those_of_ovsdb_server() {
        for (column, details) in [
            (r#"{"type":"foo"}"#, "\"foo\" is not an atomic-type"),
            (r#"{"type":{"key":"string","min":2}}"#, "ovsdb type fails constraint checks"),
            (r#"{"type":{"key":"string","max":4294967295}}"#, "bad min or max value"),
            (
                r#"{"type":{"key":{"type":"integer","minInteger":2,"maxInteger":1}}}"#,
                "minInteger exceeds maxInteger",
            ),
            (
                r#"{"type":{"key":{"type":"string","maxLength":-1}}}"#,
                "maxLength out of valid range 0 to 4294967295",
            ),
            (
                r#"{"type":{"key":{"type":"uuid","refTable":"X"}}}"#,
                "column c key refers to undefined table X",
            ),
            (
                r#"{"type":{"key":{"type":"string","enum":["set",["a","a"]]}}}"#,
                "set contains duplicate",
            ),
            (
                r#"{"type":"string","nope":1}"#,
                "Parsing schema for column c failed: Member 'nope' is present but not allowed here.",
            ),
            ("{}", "Parsing schema for column c failed: Required 'type' member is missing."),
        ] {
            assert_eq!(error(column).details.unwrap(), details.into());
        }
    }

    #[test]
    fn references_determine_properties_of_their_columns() {
        let schema = DatabaseSchema::parse(
            br#"{"name":"D","tables":{
                "R":{"isRoot":true,"columns":{
                    "w":{"type":{"key":{"type":"uuid","refTable":"C","refType":"weak"}},"mutable":false},
                    "s":{"type":{"key":{"type":"uuid","refTable":"C"}},"ephemeral":true}}},
                "C":{"columns":{"n":{"type":"integer"}}}}}"#,
        )
        .unwrap();
        let (_, table) = schema.table_by_name("R").unwrap();
        assert!(table.column(table.column_id("w").unwrap()).unwrap().mutable);
        assert!(!table.column(table.column_id("s").unwrap()).unwrap().ephemeral);
        assert!(!schema.table_by_name("C").unwrap().1.is_root);
    }
}
