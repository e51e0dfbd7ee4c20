//! All operations of a `transact` request, from text.

use crate::error::OvsdbError;
use crate::json::Reader;
use crate::schema::DatabaseSchema;
use crate::strings::Strings;
use crate::uuids::UuidSource;
use crate::wire::named_uuids::{NamedUuids, TakenNames};
use crate::wire::notation::NotationReader;

use super::decode::{CONTEXT, decode_operation};
use super::insert::{LastInserts, insert_at_once};
use super::{DecodedTransaction, Failure};

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
    Part::decode(params, schema, strings, NamedUuids::new(uuids)).into_whole()
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

    /// Puts the operations of the next part behind these.
    pub(super) fn append(&mut self, next: DecodedTransaction) {
        self.decoded.total += next.total;
        if self.decoded.failure.is_none() {
            self.decoded.operations.extend(next.operations);
            self.decoded.failure = next.failure;
        }
    }

    /// The transaction, of which this is all.
    pub(super) fn into_whole(self) -> DecodedTransaction {
        let mut decoded = self.decoded;
        if let Some(Failure {
            error:
                OvsdbError {
                    details: Some(details),
                    ..
                },
            ..
        }) = &mut decoded.failure
        {
            name_operation(details, decoded.operations.len() + 1, decoded.total);
        }
        decoded
    }
}

fn name_operation(details: &mut String, i: usize, n: usize) {
    let vague = format!("Parsing {CONTEXT} failed:");
    if let Some(rest) = details.strip_prefix(&vague) {
        *details = format!("Parsing {CONTEXT} {i} of {n} failed:{rest}");
    }
}
