//! Operations to text.

use uuid::Uuid;

use crate::atom::{Atom, write_uuid};
use crate::datum::Datum;
use crate::json::write;
use crate::schema::{ColumnId, DatabaseSchema, TableId, TableSchema};

use super::{ColumnValues, Operation};

/// So many operations tell how much room the others may take.
const SAMPLE: usize = 256;
/// More room is not made for what is not there yet.
const MAX_RESERVED: usize = 64 << 20;

/// Encodes operations; UUIDs of rows that the same transaction inserts become named-uuids.
pub struct OperationWriter<'a> {
    schema: &'a DatabaseSchema,
    is_placeholder: &'a dyn Fn(Uuid) -> bool,
}

impl<'a> OperationWriter<'a> {
    /// A writer for operations on a database of this schema.
    pub fn new(schema: &'a DatabaseSchema, is_placeholder: &'a dyn Fn(Uuid) -> bool) -> Self {
        Self {
            schema,
            is_placeholder,
        }
    }

    /// Appends the parameters of `transact`: the name of the database and the operations.
    pub fn params(&self, operations: &[Operation], out: &mut Vec<u8>) {
        self.database(out);
        let start = out.len();
        let (sample, rest) = operations.split_at(operations.len().min(SAMPLE));
        self.operations(sample, usize::MAX, out);
        let room = (out.len() - start) / SAMPLE * rest.len();
        out.reserve(room.min(MAX_RESERVED));
        self.operations(rest, usize::MAX, out);
        out.push(b']');
    }

    /// Appends how the parameters of `transact` begin, up to the name of the database.
    pub fn database(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        write::string(out, self.schema.name.as_bytes());
    }

    /// Appends operations, a comma before each, until `out` is of so many bytes or more; returns how many they are.
    pub fn operations(&self, operations: &[Operation], len: usize, out: &mut Vec<u8>) -> usize {
        let mut written = 0;
        for operation in operations {
            if out.len() >= len {
                break;
            }
            out.push(b',');
            self.operation(operation, out);
            written += 1;
        }
        written
    }

    fn operation(&self, operation: &Operation, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"op\":\"");
        out.extend_from_slice(operation.name().as_bytes());
        out.push(b'"');
        match operation {
            Operation::Insert {
                table,
                uuid,
                given,
                row,
            } => {
                let table = self.table(*table, out);
                if given.is_some() {
                    out.extend_from_slice(b",\"uuid\":\"");
                    write_uuid(out, *uuid);
                    out.push(b'"');
                }
                if (self.is_placeholder)(*uuid) {
                    out.extend_from_slice(b",\"uuid-name\":");
                    write_name(out, *uuid);
                }
                self.row(b",\"row\":", table, row.iter(), out);
            }
            Operation::Select {
                table,
                condition,
                columns,
                sort,
            } => {
                let table = self.table(*table, out);
                self.condition(table, condition, out);
                columns_of(b",\"columns\":", table, columns, out);
                if !sort.is_empty() {
                    columns_of(b",\"sort\":", table, sort, out);
                }
            }
            Operation::Update {
                table,
                condition,
                row,
            } => {
                let table = self.table(*table, out);
                self.condition(table, condition, out);
                self.row(b",\"row\":", table, pairs(row), out);
            }
            Operation::Mutate {
                table,
                condition,
                mutations,
            } => {
                let table = self.table(*table, out);
                self.condition(table, condition, out);
                out.extend_from_slice(b",\"mutations\":[");
                for (i, mutation) in mutations.iter().enumerate() {
                    out.extend_from_slice(if i > 0 { b",[" } else { b"[" });
                    write::string(out, table.column_name(mutation.column).as_bytes());
                    out.extend_from_slice(b",\"");
                    out.extend_from_slice(mutation.mutator.name().as_bytes());
                    out.extend_from_slice(b"\",");
                    self.datum(&mutation.argument, out);
                    out.push(b']');
                }
                out.push(b']');
            }
            Operation::Delete { table, condition } => {
                let table = self.table(*table, out);
                self.condition(table, condition, out);
            }
            Operation::Wait {
                table,
                timeout,
                condition,
                columns,
                equal,
                rows,
            } => {
                let table = self.table(*table, out);
                if let Some(timeout) = timeout {
                    out.extend_from_slice(b",\"timeout\":");
                    write::unsigned(out, *timeout);
                }
                self.condition(table, condition, out);
                columns_of(b",\"columns\":", table, columns, out);
                out.extend_from_slice(if *equal {
                    b",\"until\":\"==\""
                } else {
                    b",\"until\":\"!=\""
                });
                out.extend_from_slice(b",\"rows\":[");
                for (i, row) in rows.iter().enumerate() {
                    self.row(if i > 0 { b"," } else { b"" }, table, pairs(row), out);
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

    fn table(&self, table: TableId, out: &mut Vec<u8>) -> &'a TableSchema {
        let table = self.schema.table(table);
        out.extend_from_slice(b",\"table\":");
        write::string(out, table.name.as_bytes());
        table
    }

    fn condition(&self, table: &TableSchema, condition: &super::Condition, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"where\":");
        condition.write_json(table, out, &|datum, out| self.datum(datum, out));
    }

    fn row<'r>(
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
            self.datum(datum, out);
        }
        out.push(b'}');
    }

    fn datum(&self, datum: &Datum, out: &mut Vec<u8>) {
        match datum {
            datum if !may_refer(datum) => datum.write_json(out),
            Datum::Set(set) if set.len() == 1 => set.iter().for_each(|atom| self.atom(atom, out)),
            Datum::Set(set) => {
                out.extend_from_slice(b"[\"set\",[");
                for (i, atom) in set.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    self.atom(atom, out);
                }
                out.extend_from_slice(b"]]");
            }
            Datum::Map(map) => {
                out.extend_from_slice(b"[\"map\",[");
                for (i, (key, value)) in map.iter().enumerate() {
                    out.extend_from_slice(if i > 0 { b",[" } else { b"[" });
                    self.atom(key, out);
                    out.push(b',');
                    self.atom(value, out);
                    out.push(b']');
                }
                out.extend_from_slice(b"]]");
            }
        }
    }

    fn atom(&self, atom: &Atom, out: &mut Vec<u8>) {
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

/// Whether there are UUIDs in it. All elements are of one type, and so are all keys, and all values.
fn may_refer(datum: &Datum) -> bool {
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

fn columns_of(lead: &[u8], table: &TableSchema, columns: &[ColumnId], out: &mut Vec<u8>) {
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

/// A placeholder's name: an `<id>` made of its UUID.
fn write_name(out: &mut Vec<u8>, uuid: Uuid) {
    out.extend_from_slice(b"\"row");
    let start = out.len();
    write_uuid(out, uuid);
    out[start..]
        .iter_mut()
        .filter(|b| **b == b'-')
        .for_each(|b| *b = b'_');
    out.push(b'"');
}
