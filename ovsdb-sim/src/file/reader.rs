//! Replay of a standalone database file into a database.

use std::env;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use patchbay_engine::db::{Access, ChangeSet, Database, Execution, Snapshot};
use patchbay_schemas::atom::parse_uuid;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::delta::Delta;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, Reader, ValueKind};
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{DatabaseSchema, TableId, TableSchema};
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::wire::{
    ColumnValues, Condition, DecodedTransaction, InsertRow, NotationReader, Operation,
};

use super::growth::Extent;
use super::record::{FileKind, RecordError, Records};
use super::{Damage, FileError};

/// Bytes that are read from a file at once.
pub(super) const FILE_READ_BYTES: usize = 1 << 18;

/// Open standalone database file. Its schema is read, its transactions are not.
#[derive(Debug)]
pub(crate) struct DatabaseFile {
    path: PathBuf,
    schema: Arc<DatabaseSchema>,
    records: Records<BufReader<File>>,
}

impl DatabaseFile {
    /// Opens a file and reads its schema.
    pub(crate) fn open(path: &Path) -> Result<Self, FileError> {
        let file = File::open(path).map_err(|source| FileError::io(path, source))?;
        Self::from_file(path, file)
    }

    /// Reads the schema of an open file.
    pub(super) fn from_file(path: &Path, file: File) -> Result<Self, FileError> {
        let not_a_database = |problem: Damage| FileError::not_a_database(path, problem);
        let mut records =
            Records::new(BufReader::with_capacity(FILE_READ_BYTES, file), FileKind::Standalone);
        let text = match records.next() {
            Ok(Some(text)) => text,
            Ok(None) => return Err(not_a_database(Damage::Empty)),
            Err(RecordError::Io(source)) => return Err(FileError::io(path, source)),
            Err(RecordError::OtherKind) => {
                return Err(FileError::Clustered { path: path.to_owned() });
            }
            Err(RecordError::Damaged(problem)) => return Err(not_a_database(problem)),
        };
        let schema = DatabaseSchema::read(&mut Reader::new(text.as_text()))
            .map_err(|error| not_a_database(error.into()))?;
        Ok(Self { path: path.to_owned(), schema: Arc::new(schema), records })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn schema(&self) -> &Arc<DatabaseSchema> {
        &self.schema
    }

    /// Executes the file's transactions on an empty database with its schema, one record at a time.
    /// Returns the records up to the last one with a transaction.
    ///
    /// Like ovsdb-server, stops at the first damaged record, and leaves out records that are not
    /// transactions on the schema and transactions that violate a constraint. All are logged.
    pub(crate) fn replay(mut self, database: &mut Database) -> Result<Extent, FileError> {
        let mut strings = StringCache::default();
        let path = display_path(&self.path);
        let schema_end = self.records.offset();
        let mut extent = Extent { base: schema_end, end: schema_end, records: 1 };
        for record in 1_u64.. {
            let offset = self.records.offset();
            let text = match self.records.next() {
                Ok(Some(text)) => text,
                Ok(None) => break,
                Err(RecordError::Io(source)) => return Err(FileError::io(&self.path, source)),
                Err(RecordError::OtherKind) => {
                    tracing::warn!(%path, record, offset, "ignoring a record of a clustered database and all after it");
                    break;
                }
                Err(RecordError::Damaged(damage)) => {
                    let problem = damage.of_record(&path, offset);
                    tracing::error!(
                        record,
                        offset,
                        "{problem}: ignoring the record and all after it"
                    );
                    break;
                }
            };
            let transaction = Reader::new(text.as_text());
            match replay_transaction(database, transaction, &mut strings) {
                Ok(_) => {}
                Err(ReplayError::Malformed(error)) => {
                    let problem = error.with_syntax_first();
                    tracing::error!(%path, record, offset, "{problem}: leaving out the record");
                    continue;
                }
                Err(ReplayError::Refused(error)) => {
                    tracing::warn!(%path, record, offset, %error, "leaving out a transaction that violates a constraint");
                }
            }
            extent.end = self.records.offset();
            extent.records = record + 1;
            if record == 1 {
                extent.base = extent.end;
            }
        }
        Ok(extent)
    }
}

/// Error: a transaction of a file has no effect.
#[derive(Debug)]
pub(super) enum ReplayError {
    /// It is not a transaction on the schema.
    Malformed(OvsdbError),
    /// It violates a constraint.
    Refused(OvsdbError),
}

/// Executes a transaction of a file, a JSON object, and returns the changes.
pub(super) fn replay_transaction(
    database: &mut Database,
    transaction: Reader<'_>,
    strings: &mut StringCache,
) -> Result<ChangeSet, ReplayError> {
    let schema = database.schema().clone();
    // Drop the snapshot before the database changes, or shared parts of tables are copied.
    let content = database.snapshot();
    let mut decoder = RecordDecoder { schema: &schema, content: &content, strings };
    let decoded = decoder.decode(transaction);
    drop(content);
    let operations = decoded.map_err(ReplayError::Malformed)?;
    let mut transaction = DecodedTransaction {
        total: operations.len(),
        operations: operations.into(),
        failure: None,
    };
    match database.execute(&mut transaction, &Access::unrestricted()) {
        Execution::Committed { changes, .. } => Ok(changes),
        Execution::Failed { error, .. } => Err(ReplayError::Refused(error)),
        // There is no `wait` in a file.
        Execution::Waiting { .. } => Ok(ChangeSet::default()),
    }
}

/// Path of a file as a command line in the same folder names it.
pub(super) fn display_path(path: &Path) -> String {
    let folder = env::current_dir().unwrap_or_default();
    let path = path.strip_prefix(folder).unwrap_or(path);
    path.display().to_string()
}

/// Decoder of a record into operations with the same effect.
struct RecordDecoder<'a> {
    schema: &'a DatabaseSchema,
    /// Content before the record, with the rows that it changes or deletes.
    content: &'a Snapshot,
    strings: &'a mut StringCache,
}

impl RecordDecoder<'_> {
    fn decode(&mut self, mut reader: Reader<'_>) -> Result<Vec<Operation>, OvsdbError> {
        let mut whole = reader;
        if !reader.enter_object() {
            return Err(OvsdbError::new("syntax error", "object expected"));
        }
        let mut tables = Vec::new();
        let mut is_diff = false;
        while let Some(name) = reader.next_member() {
            let at = reader;
            match (&*name, reader.kind()) {
                (b"_is_diff", ValueKind::Bool) => is_diff = reader.boolean() == Some(true),
                (b"_date", ValueKind::Number) | (b"_comment", ValueKind::String) => {
                    reader.skip();
                }
                _ => {
                    let name = String::from_utf8_lossy(&name);
                    let table = self.schema.table_id(&name).ok_or_else(|| {
                        let details = format!("No table named {name}.");
                        let record = Json::read(&mut whole);
                        OvsdbError::new("unknown table", details).with_syntax(&record)
                    })?;
                    reader.skip();
                    tables.push((table, at));
                }
            }
        }
        let mut operations = Vec::new();
        for (table, rows) in tables {
            self.decode_table(table, rows, is_diff, &mut operations)?;
        }
        Ok(operations)
    }

    fn decode_table(
        &mut self,
        table: TableId,
        mut rows: Reader<'_>,
        is_diff: bool,
        operations: &mut Vec<Operation>,
    ) -> Result<(), OvsdbError> {
        let schema = self.schema.table(table);
        if !rows.enter_object() {
            return Err(with_place(
                OvsdbError::new("syntax error", "object expected"),
                &schema.name,
            ));
        }
        while let Some(name) = rows.next_member() {
            let operation = self.decode_row(table, &name, &mut rows, is_diff);
            operations.push(operation.map_err(|error| {
                let row = String::from_utf8_lossy(&name);
                with_place(error, &format!("{} row {row}", schema.name))
            })?);
        }
        Ok(())
    }

    fn decode_row(
        &mut self,
        table: TableId,
        uuid: &[u8],
        reader: &mut Reader<'_>,
        is_diff: bool,
    ) -> Result<Operation, OvsdbError> {
        let uuid = parse_uuid(uuid)
            .ok_or_else(|| OvsdbError::new("syntax error", "not named by a valid UUID"))?;
        let schema = self.schema.table(table);
        let old = self.content.row(table, uuid);
        match (reader.kind(), old) {
            (ValueKind::Null, Some(_)) => {
                reader.skip();
                Ok(Operation::Delete { table, condition: Condition::uuid(uuid) })
            }
            (ValueKind::Null, None) => {
                let details = "the transaction deletes a row that does not exist";
                Err(OvsdbError::new("syntax error", details))
            }
            (ValueKind::Object, Some(old)) => Ok(Operation::Update {
                table,
                condition: Condition::uuid(uuid),
                row: self.decode_columns(schema, reader, is_diff.then_some(old))?,
            }),
            (ValueKind::Object, None) => Ok(Operation::Insert {
                table,
                uuid,
                given: None,
                row: InsertRow::new(schema, self.decode_columns(schema, reader, None)?),
            }),
            _ => Err(OvsdbError::new("syntax error", "row must be JSON object")),
        }
    }

    /// Decodes the values of columns. Differences are applied to those of `old`.
    fn decode_columns(
        &mut self,
        schema: &TableSchema,
        reader: &mut Reader<'_>,
        old: Option<&Arc<Row>>,
    ) -> Result<ColumnValues, OvsdbError> {
        let mut notation = NotationReader::new(self.strings);
        let mut values = ColumnValues::new();
        reader.enter_object();
        while let Some(name) = reader.next_member() {
            let name = String::from_utf8_lossy(&name);
            let column = schema.column_id(&name).ok_or_else(|| {
                let details = format!("No column {name} in table {}.", schema.name);
                OvsdbError::new("unknown column", details)
            })?;
            let ty = schema.column_type(column);
            let value = match old {
                None => notation.datum(reader, ty),
                Some(old) => Delta::decode(reader, ty, &mut notation)
                    .and_then(|delta| delta.apply(&old.get(column), ty)),
            };
            let value: Datum =
                value.map_err(|error| with_place(error, &format!("column {name}")))?;
            values.push((column, value));
        }
        Ok(values)
    }
}

/// Adds the place to the details of an error.
fn with_place(mut error: OvsdbError, place: &str) -> OvsdbError {
    error.details = Some(match error.details {
        Some(details) => format!("{place}: {details}").into(),
        None => place.into(),
    });
    error
}
