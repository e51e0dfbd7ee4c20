//! `<monitor-requests>` (RFC 7047 section 4.1.5), including the requests of ovsdb-server's
//! `monitor_cond` and `monitor_cond_since`.

use std::collections::BTreeMap;

use crate::error::OvsdbError;
use crate::json::{Reader, ValueKind, write};
use crate::schema::{ColumnId, DatabaseSchema, TableId, TableSchema};
use crate::strings::StringCache;

use super::condition::Condition;
use super::notation::NotationReader;
use super::operation_members::OperationMembers;

/// Version of the monitor protocol. Each has its own form of updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MonitorVersion {
    /// `monitor` and `update`: old and new values.
    V1,
    /// `monitor_cond` and `update2`: conditions and differences.
    V2,
    /// `monitor_cond_since` and `update3`: conditions, differences and transaction ids.
    V3,
}

impl MonitorVersion {
    /// Returns the method that starts a monitor.
    pub fn method(self) -> &'static str {
        match self {
            Self::V1 => "monitor",
            Self::V2 => "monitor_cond",
            Self::V3 => "monitor_cond_since",
        }
    }

    /// Returns the method of the update notifications.
    pub fn update_method(self) -> &'static str {
        match self {
            Self::V1 => "update",
            Self::V2 => "update2",
            Self::V3 => "update3",
        }
    }
}

/// `<monitor-select>`: kinds of changes that a monitor reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "the members of the protocol's object")]
pub struct Select {
    /// Rows that exist when the monitor starts.
    pub initial: bool,
    /// Inserted rows.
    pub insert: bool,
    /// Deleted rows.
    pub delete: bool,
    /// Modified rows.
    pub modify: bool,
}

impl Select {
    /// All kinds, which is the default.
    pub const ALL: Self = Self { initial: true, insert: true, delete: true, modify: true };
    /// No kinds.
    pub const NONE: Self = Self { initial: false, insert: false, delete: false, modify: false };

    fn union(self, other: Self) -> Self {
        Self {
            initial: self.initial || other.initial,
            insert: self.insert || other.insert,
            delete: self.delete || other.delete,
            modify: self.modify || other.modify,
        }
    }

    fn decode(reader: &mut Reader<'_>, table: &str) -> Result<Self, OvsdbError> {
        let mut members = OperationMembers::new(reader, format!("table {table} select"));
        let mut flag = |name| {
            members.optional(name, ValueKind::Bool).is_none_or(|mut at| at.boolean() == Some(true))
        };
        let select = Self {
            initial: flag("initial"),
            insert: flag("insert"),
            delete: flag("delete"),
            modify: flag("modify"),
        };
        members.finish()?;
        Ok(select)
    }

    fn write_json(self, out: &mut Vec<u8>) {
        let members = [
            ("initial", self.initial),
            ("insert", self.insert),
            ("delete", self.delete),
            ("modify", self.modify),
        ];
        for (i, (name, value)) in members.into_iter().enumerate() {
            out.push(if i == 0 { b'{' } else { b',' });
            write::string(out, name.as_bytes());
            out.extend_from_slice(if value { b":true" } else { b":false" });
        }
        out.push(b'}');
    }
}

/// Request of a monitor for one table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MonitorTable {
    /// Requested columns, each with the kinds of changes that include it.
    pub columns: Vec<(ColumnId, Select)>,
    /// Kinds of changes that are reported at all, even without columns.
    pub select: Select,
    /// Condition on the rows. A row is reported if it satisfies at least one clause, or if there
    /// are no clauses.
    pub condition: Condition,
}

/// Requests of a monitor.
///
/// ```
/// use patchbay_schemas::nb;
/// use patchbay_schemas::wire::{Condition, MonitorRequests, MonitorTable, MonitorVersion};
///
/// let schema = nb::schema();
/// let (id, table) = schema.table_by_name("Logical_Switch").unwrap();
/// let name = table.column_id("name").unwrap();
/// let mut requests = MonitorRequests::default();
/// requests.tables.insert(id, MonitorTable::all_rows([name]));
///
/// let mut json = Vec::new();
/// requests.write_json(&schema, MonitorVersion::V3, &mut json);
/// assert_eq!(json, br#"{"Logical_Switch":[{"columns":["name"]}]}"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MonitorRequests {
    /// Requests by table.
    pub tables: BTreeMap<TableId, MonitorTable>,
}

impl MonitorTable {
    /// Returns a request for all changes of these columns in all rows.
    pub fn all_rows(columns: impl IntoIterator<Item = ColumnId>) -> Self {
        Self {
            columns: columns.into_iter().map(|column| (column, Select::ALL)).collect(),
            select: Select::ALL,
            condition: Condition::default(),
        }
    }
}

impl MonitorRequests {
    /// Decodes an object of requests.
    ///
    /// # Errors
    /// The requests are invalid; worded like in ovsdb-server. The position of the reader is then
    /// unspecified.
    pub fn decode(
        reader: &mut Reader<'_>,
        schema: &DatabaseSchema,
        version: MonitorVersion,
        strings: &mut StringCache,
    ) -> Result<Self, OvsdbError> {
        let start = *reader;
        if !reader.enter_object() {
            return Err(OvsdbError::syntax_at(start, "monitor-requests must be object"));
        }
        // The last of several members with one name is used.
        let mut by_name = BTreeMap::new();
        while let Some(name) = reader.next_member() {
            by_name.insert(name, *reader);
            reader.skip();
        }
        let mut tables = BTreeMap::new();
        for (name, at) in by_name {
            let name = String::from_utf8_lossy(&name);
            let (id, table) = schema
                .table_by_name(&name)
                .ok_or_else(|| OvsdbError::new("syntax error", format!("no table named {name}")))?;
            tables.insert(id, MonitorTable::decode(at, table, version, strings)?);
        }
        Ok(Self { tables })
    }

    /// Appends the object of requests. [`MonitorVersion::V1`] has no conditions, so that they are
    /// omitted.
    pub fn write_json(&self, schema: &DatabaseSchema, version: MonitorVersion, out: &mut Vec<u8>) {
        out.push(b'{');
        for (i, (id, requests)) in self.tables.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            let table = schema.table(*id);
            write::string(out, table.name.as_bytes());
            out.push(b':');
            requests.write_json(table, version, out);
        }
        out.push(b'}');
    }

    /// Appends the parameter of `monitor_cond_change` that sets the conditions of these tables.
    ///
    /// Tables without a request are omitted.
    pub fn write_conditions(&self, schema: &DatabaseSchema, tables: &[TableId], out: &mut Vec<u8>) {
        out.push(b'{');
        let requests = tables.iter().filter_map(|id| Some((*id, self.tables.get(id)?)));
        for (i, (id, request)) in requests.enumerate() {
            if i > 0 {
                out.push(b',');
            }
            let table = schema.table(id);
            write::string(out, table.name.as_bytes());
            out.extend_from_slice(b":[{\"where\":");
            request.condition.write_json(table, out, &|datum, out| datum.write_json(out));
            out.extend_from_slice(b"}]");
        }
        out.push(b'}');
    }
}

impl MonitorTable {
    /// Decodes a request or an array of requests.
    fn decode(
        mut at: Reader<'_>,
        table: &TableSchema,
        version: MonitorVersion,
        strings: &mut StringCache,
    ) -> Result<Self, OvsdbError> {
        let mut requests = Self { select: Select::NONE, ..Self::all_rows([]) };
        if at.kind() != ValueKind::Array {
            requests.condition = requests.add(&mut at, table, version, strings)?;
            return Ok(requests);
        }
        at.enter_array();
        let mut condition = None;
        while at.next_element() {
            let this = requests.add(&mut at, table, version, strings)?;
            condition.get_or_insert(this);
        }
        requests.condition = condition.unwrap_or_default();
        Ok(requests)
    }

    /// Adds one request to this table and returns its condition.
    fn add(
        &mut self,
        reader: &mut Reader<'_>,
        table: &TableSchema,
        version: MonitorVersion,
        strings: &mut StringCache,
    ) -> Result<Condition, OvsdbError> {
        let mut members = OperationMembers::new(reader, format!("table {}", table.name));
        let condition = match version {
            MonitorVersion::V1 => None,
            _ => members.optional("where", ValueKind::Array),
        };
        let columns = members.optional("columns", ValueKind::Array);
        let select = members.optional("select", ValueKind::Object);
        members.finish()?;

        let select =
            select.map_or(Ok(Select::ALL), |mut at| Select::decode(&mut at, &table.name))?;
        self.select = self.select.union(select);
        match columns {
            Some(at) => {
                for column in named_columns(at, table)? {
                    self.add_column(column, select, table)
                        .map_err(|details| OvsdbError::syntax_at(at, details))?;
                }
            }
            None => {
                for column in table.column_ids().chain([ColumnId::VERSION]) {
                    self.add_column(column, select, table)
                        .map_err(|details| OvsdbError::new("syntax error", details))?;
                }
            }
        }
        condition.map_or(Ok(Condition::default()), |mut at| {
            Condition::decode(&mut at, table, &mut NotationReader::new(strings))
        })
    }

    /// Decodes one request of `monitor_cond_change` and replaces the condition if the request has
    /// one.
    ///
    /// The condition of a [`MonitorVersion::V1`] monitor stays empty.
    ///
    /// # Errors
    /// The request is invalid; worded like in ovsdb-server. The position of the reader is then
    /// unspecified.
    pub fn change_condition(
        &mut self,
        reader: &mut Reader<'_>,
        table: &TableSchema,
        version: MonitorVersion,
        strings: &mut StringCache,
    ) -> Result<(), OvsdbError> {
        let start = *reader;
        let mut members = OperationMembers::new(reader, format!("table {}", table.name));
        let columns = members.optional("columns", ValueKind::Array);
        let condition = members.optional("where", ValueKind::Array);
        members.finish()?;
        if columns.is_some() {
            let details = "changing columns is unsupported";
            return Err(OvsdbError::syntax_at(start, details));
        }
        if version != MonitorVersion::V1
            && let Some(mut at) = condition
        {
            self.condition = Condition::decode(&mut at, table, &mut NotationReader::new(strings))?;
        }
        Ok(())
    }

    /// Adds a requested column, or returns the details of the error if the request names it twice.
    fn add_column(
        &mut self,
        column: ColumnId,
        select: Select,
        table: &TableSchema,
    ) -> Result<(), String> {
        if self.columns.iter().any(|(known, _)| *known == column) {
            return Err(format!("column {} mentioned more than once", table.column_name(column)));
        }
        self.columns.push((column, select));
        Ok(())
    }

    /// Appends one request per distinct [`Select`]; the first has the condition.
    fn write_json(&self, table: &TableSchema, version: MonitorVersion, out: &mut Vec<u8>) {
        let mut selects: Vec<Select> = Vec::new();
        for (_, select) in &self.columns {
            if !selects.contains(select) {
                selects.push(*select);
            }
        }
        // Kinds of changes that include no column still report rows.
        let of_columns = selects.iter().copied().fold(Select::NONE, Select::union);
        if of_columns != self.select {
            selects.push(self.select);
        }
        out.push(b'[');
        for (i, select) in selects.into_iter().enumerate() {
            out.extend_from_slice(if i == 0 { b"{\"columns\":[" } else { b",{\"columns\":[" });
            let columns = self.columns.iter().filter(|(_, own)| *own == select);
            for (j, (column, _)) in columns.enumerate() {
                if j > 0 {
                    out.push(b',');
                }
                write::string(out, table.column_name(*column).as_bytes());
            }
            out.push(b']');
            if select != Select::ALL {
                out.extend_from_slice(b",\"select\":");
                select.write_json(out);
            }
            if i == 0 && version != MonitorVersion::V1 && !self.condition.clauses().is_empty() {
                out.extend_from_slice(b",\"where\":");
                self.condition.write_json(table, out, &|datum, out| datum.write_json(out));
            }
            out.push(b'}');
        }
        out.push(b']');
    }
}

/// Decodes an array of column names.
fn named_columns(mut at: Reader<'_>, table: &TableSchema) -> Result<Vec<ColumnId>, OvsdbError> {
    let start = at;
    let mut columns = Vec::new();
    at.enter_array();
    while at.next_element() {
        let name = at
            .string()
            .ok_or_else(|| OvsdbError::syntax_at(start, "array of column names expected"))?;
        let name = String::from_utf8_lossy(&name);
        columns.push(table.column_id(&name).ok_or_else(|| {
            OvsdbError::syntax_at(start, format!("{name} is not a valid column name"))
        })?);
    }
    Ok(columns)
}

#[cfg(test)]
mod tests;
