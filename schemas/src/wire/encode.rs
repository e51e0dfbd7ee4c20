//! Encoding of operations.

use uuid::Uuid;

use crate::atom::{Atom, write_uuid};
use crate::datum::Datum;
use crate::json::write;
use crate::schema::{ColumnId, DatabaseSchema, TableId, TableSchema};

use super::{ColumnValues, Operation};

/// Number of encoded operations from which the length of all others is estimated.
const SAMPLED_OPERATIONS: usize = 256;
/// Maximum number of bytes reserved because of that estimate.
const MAX_RESERVED_BYTES: usize = 64 << 20;

/// Encoder of operations. UUIDs of rows that the same transaction inserts become named-uuids.
pub struct OperationWriter<'a> {
    schema: &'a DatabaseSchema,
    is_placeholder: &'a dyn Fn(Uuid) -> bool,
}

impl<'a> OperationWriter<'a> {
    /// Returns an encoder for operations on a database with this schema.
    pub fn new(schema: &'a DatabaseSchema, is_placeholder: &'a dyn Fn(Uuid) -> bool) -> Self {
        Self { schema, is_placeholder }
    }

    /// Appends the parameters of `transact`: the name of the database and the operations.
    pub fn write_params(&self, operations: &[Operation], out: &mut Vec<u8>) {
        self.write_database(out);
        let start = out.len();
        let (sample, rest) = operations.split_at(operations.len().min(SAMPLED_OPERATIONS));
        self.write_operations(sample, usize::MAX, out);
        let estimate = (out.len() - start) / SAMPLED_OPERATIONS * rest.len();
        out.reserve(estimate.min(MAX_RESERVED_BYTES));
        self.write_operations(rest, usize::MAX, out);
        out.push(b']');
    }

    /// Appends the start of the parameters of `transact`, up to and including the name of the
    /// database.
    pub fn write_database(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        write::string(out, self.schema.name.as_bytes());
    }

    /// Appends operations, each with a leading comma, until `out` has at least `min_len` bytes.
    ///
    /// Returns the number of appended operations.
    pub fn write_operations(
        &self,
        operations: &[Operation],
        min_len: usize,
        out: &mut Vec<u8>,
    ) -> usize {
        let mut written = 0;
        for operation in operations {
            if out.len() >= min_len {
                break;
            }
            out.push(b',');
            self.write_operation(operation, out);
            written += 1;
        }
        written
    }

    fn write_operation(&self, operation: &Operation, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"op\":\"");
        out.extend_from_slice(operation.name().as_bytes());
        out.push(b'"');
        match operation {
            Operation::Insert { table, uuid, given, row } => {
                let table = self.write_table(*table, out);
                if given.is_some() {
                    out.extend_from_slice(b",\"uuid\":\"");
                    write_uuid(out, *uuid);
                    out.push(b'"');
                }
                if (self.is_placeholder)(*uuid) {
                    out.extend_from_slice(b",\"uuid-name\":");
                    write_name(out, *uuid);
                }
                self.write_row(b",\"row\":", table, row.iter(), out);
            }
            Operation::Select { table, condition, columns, sort } => {
                let table = self.write_table(*table, out);
                self.write_condition(table, condition, out);
                write_columns(b",\"columns\":", table, columns, out);
                if !sort.is_empty() {
                    write_columns(b",\"sort\":", table, sort, out);
                }
            }
            Operation::Update { table, condition, row } => {
                let table = self.write_table(*table, out);
                self.write_condition(table, condition, out);
                self.write_row(b",\"row\":", table, pairs(row), out);
            }
            Operation::Mutate { table, condition, mutations } => {
                let table = self.write_table(*table, out);
                self.write_condition(table, condition, out);
                out.extend_from_slice(b",\"mutations\":[");
                for (i, mutation) in mutations.iter().enumerate() {
                    out.extend_from_slice(if i > 0 { b",[" } else { b"[" });
                    write::string(out, table.column_name(mutation.column).as_bytes());
                    out.extend_from_slice(b",\"");
                    out.extend_from_slice(mutation.mutator.name().as_bytes());
                    out.extend_from_slice(b"\",");
                    self.write_datum(&mutation.argument, out);
                    out.push(b']');
                }
                out.push(b']');
            }
            Operation::Delete { table, condition } => {
                let table = self.write_table(*table, out);
                self.write_condition(table, condition, out);
            }
            Operation::Wait { table, timeout, condition, columns, equal, rows } => {
                let table = self.write_table(*table, out);
                if let Some(timeout) = timeout {
                    out.extend_from_slice(b",\"timeout\":");
                    write::unsigned(out, *timeout);
                }
                self.write_condition(table, condition, out);
                write_columns(b",\"columns\":", table, columns, out);
                out.extend_from_slice(if *equal {
                    b",\"until\":\"==\""
                } else {
                    b",\"until\":\"!=\""
                });
                out.extend_from_slice(b",\"rows\":[");
                for (i, row) in rows.iter().enumerate() {
                    self.write_row(if i > 0 { b"," } else { b"" }, table, pairs(row), out);
                }
                out.push(b']');
            }
            Operation::Commit { durable } => {
                out.extend_from_slice(if *durable {
                    b",\"durable\":true"
                } else {
                    b",\"durable\":false"
                });
            }
            Operation::Abort => {}
            Operation::Comment(text) => {
                out.extend_from_slice(b",\"comment\":");
                write::string(out, text.as_bytes());
            }
            Operation::Assert { lock } => {
                out.extend_from_slice(b",\"lock\":");
                write::string(out, lock.as_bytes());
            }
        }
        out.push(b'}');
    }

    /// Appends the member `table`.
    fn write_table(&self, table: TableId, out: &mut Vec<u8>) -> &'a TableSchema {
        let table = self.schema.table(table);
        out.extend_from_slice(b",\"table\":");
        write::string(out, table.name.as_bytes());
        table
    }

    /// Appends the member `where`.
    fn write_condition(
        &self,
        table: &TableSchema,
        condition: &super::Condition,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(b",\"where\":");
        condition.write_json(table, out, &|datum, out| self.write_datum(datum, out));
    }

    /// Appends `lead` and an object of columns.
    fn write_row<'r>(
        &self,
        lead: &[u8],
        table: &TableSchema,
        row: impl Iterator<Item = (ColumnId, &'r Datum)>,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(lead);
        out.push(b'{');
        for (i, (column, datum)) in row.enumerate() {
            if i > 0 {
                out.push(b',');
            }
            write::string(out, table.column_name(column).as_bytes());
            out.push(b':');
            self.write_datum(datum, out);
        }
        out.push(b'}');
    }

    fn write_datum(&self, datum: &Datum, out: &mut Vec<u8>) {
        match datum {
            datum if !has_uuids(datum) => datum.write_json(out),
            Datum::Set(set) if set.len() == 1 => {
                set.iter().for_each(|atom| self.write_atom(atom, out));
            }
            Datum::Set(set) => {
                out.extend_from_slice(b"[\"set\",[");
                for (i, atom) in set.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    self.write_atom(atom, out);
                }
                out.extend_from_slice(b"]]");
            }
            Datum::Map(map) => {
                out.extend_from_slice(b"[\"map\",[");
                for (i, (key, value)) in map.iter().enumerate() {
                    out.extend_from_slice(if i > 0 { b",[" } else { b"[" });
                    self.write_atom(key, out);
                    out.push(b',');
                    self.write_atom(value, out);
                    out.push(b']');
                }
                out.extend_from_slice(b"]]");
            }
        }
    }

    fn write_atom(&self, atom: &Atom, out: &mut Vec<u8>) {
        match atom {
            Atom::Uuid(uuid) if (self.is_placeholder)(*uuid) => {
                out.extend_from_slice(b"[\"named-uuid\",");
                write_name(out, *uuid);
                out.push(b']');
            }
            atom => atom.write_json(out),
        }
    }
}

/// `true` if a value contains UUIDs. Checking one element is enough, because all have the same
/// type.
fn has_uuids(datum: &Datum) -> bool {
    let is_uuid = |atom: &Atom| matches!(atom, Atom::Uuid(_));
    match datum {
        Datum::Set(set) => set.iter().next().is_some_and(is_uuid),
        Datum::Map(map) => {
            let first = map.iter().next();
            first.is_some_and(|(key, value)| is_uuid(key) || is_uuid(value))
        }
    }
}

fn pairs(row: &ColumnValues) -> impl Iterator<Item = (ColumnId, &Datum)> {
    row.iter().map(|(column, datum)| (*column, datum))
}

/// Appends `lead` and an array of column names.
fn write_columns(lead: &[u8], table: &TableSchema, columns: &[ColumnId], out: &mut Vec<u8>) {
    out.extend_from_slice(lead);
    out.push(b'[');
    for (i, column) in columns.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write::string(out, table.column_name(*column).as_bytes());
    }
    out.push(b']');
}

/// Appends the name of a placeholder, an `<id>` derived from its UUID.
fn write_name(out: &mut Vec<u8>, uuid: Uuid) {
    out.extend_from_slice(b"\"row");
    let start = out.len();
    write_uuid(out, uuid);
    out[start..].iter_mut().filter(|b| **b == b'-').for_each(|b| *b = b'_');
    out.push(b'"');
}
