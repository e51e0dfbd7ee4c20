//! All operations of a `transact` request, from text.

use crate::json::Reader;
use crate::schema::DatabaseSchema;
use crate::strings::Strings;
use crate::uuids::UuidSource;
use crate::wire::named_uuids::{NamedUuids, TakenNames};
use crate::wire::notation::NotationReader;

use super::DecodedTransaction;
use super::decode::{CONTEXT, decode_operation};
use super::insert::{LastInserts, insert_at_once};

/// Decodes the operations of a `transact` request. `params` is in the array of parameters, behind the
/// name of the database.
///
/// For a long request see [`ArrivingTransaction`](super::ArrivingTransaction).
pub fn decode_transaction(
    params: Reader<'_>,
    schema: &DatabaseSchema,
    strings: &mut Strings,
    uuids: &mut UuidSource,
) -> DecodedTransaction {
    let part = Part::decode(params, schema, strings, NamedUuids::new(uuids));
    part.decoded.with_named_operation()
}

/// Operations that follow each other.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) decoded: DecodedTransaction,
    pub(super) names: TakenNames,
}

impl Part {
    /// Decodes the operations up to the end of the array.
    pub(super) fn decode(
        mut reader: Reader<'_>,
        schema: &DatabaseSchema,
        strings: &mut Strings,
        mut names: NamedUuids<'_>,
    ) -> Self {
        let mut notation = NotationReader::with_named_uuids(strings, &mut names);
        let mut decoded = DecodedTransaction::default();
        let mut last_inserts = LastInserts::default();
        while reader.next_element() {
            decoded.total += 1;
            if decoded.failure.is_some() {
                reader.skip();
                continue;
            }
            let at = reader;
            let earlier = (&decoded.operations[..], &last_inserts);
            let at_once = insert_at_once(&mut reader, schema, &mut notation, earlier);
            let operation = at_once.map_or_else(
                || {
                    reader = at;
                    decode_operation(&mut reader, schema, &mut notation)
                },
                Ok,
            );
            match operation {
                Ok(operation) => {
                    last_inserts.note(&operation, decoded.operations.len());
                    decoded.operations.push(operation);
                }
                Err(failure) => {
                    reader = at;
                    reader.skip();
                    decoded.failure = Some(failure);
                }
            }
        }
        Self {
            decoded,
            names: names.into_taken(),
        }
    }
}

impl DecodedTransaction {
    /// The whole, of parts that follow each other.
    pub(super) fn of_parts(parts: Vec<Self>) -> Self {
        let failed = parts.iter().position(|part| part.failure.is_some());
        let before_failure = failed.map_or(parts.len(), |failed| failed + 1);
        let count = parts[..before_failure]
            .iter()
            .map(|part| part.operations.len());
        let mut whole = Self {
            operations: Vec::with_capacity(count.sum()),
            failure: None,
            total: parts.iter().map(|part| part.total).sum(),
        };
        for part in parts.into_iter().take(before_failure) {
            whole.operations.extend(part.operations);
            whole.failure = part.failure;
        }
        whole.with_named_operation()
    }

    /// The number of the operation that failed, and of all, is known only now.
    fn with_named_operation(mut self) -> Self {
        let (i, n) = (self.operations.len() + 1, self.total);
        let error = self.failure.as_mut().map(|failure| &mut failure.error);
        if let Some(details) = error.and_then(|error| error.details.as_mut()) {
            let vague = format!("Parsing {CONTEXT} failed:");
            if let Some(rest) = details.strip_prefix(&vague) {
                *details = format!("Parsing {CONTEXT} {i} of {n} failed:{rest}");
            }
        }
        self
    }
}
