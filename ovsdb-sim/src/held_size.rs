//! Memory of what clients leave behind, in bytes: close to what an allocator needs for it, and
//! never much less.

use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::ColumnId;
use patchbay_schemas::wire::{
    Clause, Condition, DecodedTransaction, InsertRow, MonitorTable, Operation, RowTemplates,
};

use crate::update::MonitorSpec;

/// Bytes of an entry in maps and lists, without its content: keys, pointers, unused places.
pub(crate) const ENTRY_BYTES: usize = 256;
/// Bytes of the smallest allocation.
const ALLOCATION_BYTES: usize = 32;
/// Number of copies of a condition's clauses: the clauses and their indexes.
const CLAUSE_COPIES: usize = 3;

/// The bytes of a JSON value.
pub(crate) fn json_bytes(json: &Json) -> usize {
    let content = match json {
        Json::Null | Json::Bool(_) | Json::Integer(_) | Json::Real(_) => 0,
        Json::String(text) => ALLOCATION_BYTES + text.len(),
        Json::Array(elements) => ALLOCATION_BYTES + elements.iter().map(json_bytes).sum::<usize>(),
        Json::Object(members) => members
            .iter()
            .map(|(name, value)| 2 * ALLOCATION_BYTES + name.len() + json_bytes(value))
            .sum(),
    };
    size_of::<Json>() + content
}

/// The bytes of a monitor's request.
pub(crate) fn monitor_bytes(spec: &MonitorSpec) -> usize {
    let table = |table: &MonitorTable| {
        ENTRY_BYTES + size_of_val(&*table.columns) + condition_bytes(&table.condition)
    };
    spec.requests.tables.values().map(table).sum()
}

/// The bytes of a transaction.
pub(crate) fn transaction_bytes(transaction: &DecodedTransaction) -> usize {
    let failure = transaction.failure.as_ref().map_or(0, |failure| {
        let error = &failure.error;
        let texts = [&error.details, &error.syntax];
        texts.into_iter().flatten().map(|text| text.len()).sum()
    });
    let operations = transaction.operations.iter().map(operation_bytes);
    operations.sum::<usize>() + failure
}

fn operation_bytes(operation: &Operation) -> usize {
    let row = |values: &[(ColumnId, Datum)]| -> usize {
        let values = values.iter().map(|(_, value)| value_bytes(value));
        ALLOCATION_BYTES + values.sum::<usize>()
    };
    let content = match operation {
        Operation::Insert { given, row, .. } => {
            insert_row_bytes(row) + given.as_ref().map_or(0, String::len)
        }
        Operation::Select { condition, columns, sort, .. } => {
            condition_bytes(condition) + (columns.len() + sort.len()) * size_of::<ColumnId>()
        }
        Operation::Update { condition, row: values, .. } => {
            condition_bytes(condition) + row(values)
        }
        Operation::Mutate { condition, mutations, .. } => {
            let arguments = mutations.iter().map(|one| value_bytes(&one.argument));
            condition_bytes(condition) + arguments.sum::<usize>()
        }
        Operation::Delete { condition, .. } => condition_bytes(condition),
        Operation::Wait { condition, columns, rows, .. } => {
            let rows: usize = rows.iter().map(|values| row(values)).sum();
            condition_bytes(condition) + columns.len() * size_of::<ColumnId>() + rows
        }
        Operation::Comment(text) | Operation::Assert { lock: text } => text.len(),
        Operation::Commit { .. } | Operation::Abort => 0,
    };
    size_of::<Operation>() + content
}

/// The bytes of the rows that a session keeps as templates of the next ones.
pub(crate) fn template_bytes(templates: &RowTemplates) -> usize {
    templates.rows().map(insert_row_bytes).sum()
}

fn insert_row_bytes(row: &InsertRow) -> usize {
    let values: usize = row.iter().map(|(_, value)| value_bytes(value)).sum();
    ENTRY_BYTES + values
}

fn condition_bytes(condition: &Condition) -> usize {
    let clauses = condition.clauses().iter().map(|clause| match clause {
        Clause::Bool(_) => size_of::<Clause>(),
        Clause::Column { argument, .. } => size_of::<Clause>() + value_bytes(argument),
    });
    CLAUSE_COPIES * clauses.sum::<usize>()
}

/// The bytes of a value with its column.
fn value_bytes(value: &Datum) -> usize {
    let atoms = value.atoms();
    let atom = |atom: &Atom| size_of::<Atom>() + atom.as_str().map_or(0, str::len);
    size_of::<(ColumnId, Datum)>() + ALLOCATION_BYTES + atoms.map(atom).sum::<usize>()
}
