//! Decoding of all operations of a `transact` request.

use std::sync::Arc;

use crate::json::Reader;
use crate::schema::DatabaseSchema;
use crate::strings::StringCache;
use crate::uuids::UuidSource;
use crate::wire::named_uuids::{DefinedNames, NamedUuids};
use crate::wire::notation::NotationReader;

use super::DecodedTransaction;
use super::decode::{CONTEXT, decode_operation};
use super::insert::{LastInserts, insert_in_one_pass};
use super::templates::RowTemplates;

/// Number of operations after which room is reserved for the rest.
const SAMPLE_OPERATIONS: usize = 64;
/// Number of operations from which on room is reserved for [`OWN_BLOCK_OPERATIONS`].
const PART_OPERATIONS: usize = 512;
/// Number of operations that take most of a megabyte. Any thread gives a block of this size back to
/// the system. A smaller one would stay with the idle thread that has decoded a part of a request.
const OWN_BLOCK_OPERATIONS: usize = 1 << 13;
/// Greatest number of operations for which room is reserved. What is not used takes no memory.
const MAX_RESERVED_OPERATIONS: usize = 1 << 16;

/// Decodes the operations of a `transact` request. `params` is in the array of parameters, behind
/// the name of the database.
///
/// [`StreamedOperations`](crate::streaming::StreamedOperations) decodes a long request while it is
/// being received.
pub fn decode_transaction(
    params: Reader<'_>,
    schema: &DatabaseSchema,
    strings: &mut StringCache,
    uuids: &mut UuidSource,
) -> DecodedTransaction {
    let (names, templates) = (NamedUuids::new(uuids), RowTemplates::default());
    let sequence = OperationSequence::decode(params, schema, strings, names, &templates);
    sequence.decoded.with_error_context()
}

/// Decodes a short request like [`decode_transaction`], with the rows of earlier requests as
/// templates. Rows of this request become templates.
pub fn decode_with_templates(
    params: Reader<'_>,
    schema: &Arc<DatabaseSchema>,
    strings: &mut StringCache,
    uuids: &mut UuidSource,
    templates: &mut RowTemplates,
) -> DecodedTransaction {
    templates.set_schema(schema);
    let names = NamedUuids::new(uuids);
    let sequence = OperationSequence::decode(params, schema, strings, names, templates);
    templates.keep_rows_of(&sequence.decoded.operations);
    sequence.decoded.with_error_context()
}

/// Consecutive operations of a request.
#[derive(Debug, Default)]
pub(crate) struct OperationSequence {
    pub(crate) decoded: DecodedTransaction,
    /// Names that their inserts define.
    pub(crate) names: DefinedNames,
}

impl OperationSequence {
    /// Decodes the operations up to the end of the array.
    pub(crate) fn decode(
        mut reader: Reader<'_>,
        schema: &DatabaseSchema,
        strings: &mut StringCache,
        mut names: NamedUuids<'_>,
        templates: &RowTemplates,
    ) -> Self {
        let mut notation = NotationReader::with_named_uuids(strings, &mut names);
        let (mut operations, mut failure, mut total) = (Vec::new(), None, 0);
        let mut last_inserts = LastInserts::new(templates);
        let start = reader.rest_len();
        while reader.next_element() {
            if total == SAMPLE_OPERATIONS {
                // As if the rest of the text were operations of the same length.
                let operation_len = (start - reader.rest_len()) / SAMPLE_OPERATIONS;
                let likely = reader.rest_len() / operation_len.max(1);
                let least = if likely < PART_OPERATIONS { 0 } else { OWN_BLOCK_OPERATIONS };
                operations.reserve(likely.clamp(least, MAX_RESERVED_OPERATIONS));
            }
            total += 1;
            if failure.is_some() {
                reader.skip();
                continue;
            }
            let at = reader;
            let earlier = (&operations[..], &last_inserts);
            let insert = insert_in_one_pass(&mut reader, schema, &mut notation, earlier);
            let operation = insert.map_or_else(
                || {
                    reader = at;
                    decode_operation(&mut reader, schema, &mut notation)
                },
                Ok,
            );
            match operation {
                Ok(operation) => {
                    last_inserts.record(&operation, operations.len());
                    operations.push(operation);
                }
                Err(error) => {
                    reader = at;
                    reader.skip();
                    failure = Some(error);
                }
            }
        }
        let decoded = DecodedTransaction { operations: operations.into(), failure, total };
        Self { decoded, names: names.into_defined() }
    }
}

impl DecodedTransaction {
    /// Concatenates consecutive parts of a request.
    pub(crate) fn from_parts(parts: Vec<Self>) -> Self {
        let failed = parts.iter().position(|part| part.failure.is_some());
        let used = failed.map_or(parts.len(), |failed| failed + 1);
        let mut whole =
            Self { total: parts.iter().map(|part| part.total).sum(), ..Self::default() };
        for part in parts.into_iter().take(used) {
            whole.operations.append(part.operations);
            whole.failure = part.failure;
        }
        whole.with_error_context()
    }

    /// Adds to the error the index of the failed operation and the number of operations, which are
    /// known only at the end.
    fn with_error_context(mut self) -> Self {
        let (i, n) = (self.operations.len() + 1, self.total);
        let error = self.failure.as_mut().map(|failure| &mut failure.error);
        if let Some(details) = error.and_then(|error| error.details.as_mut()) {
            let prefix = format!("Parsing {CONTEXT} failed:");
            if let Some(rest) = details.strip_prefix(&prefix) {
                *details = format!("Parsing {CONTEXT} {i} of {n} failed:{rest}").into();
            }
        }
        self
    }
}
