//! All operations of a `transact` request, from text; those of a long one in several threads.

use std::panic::resume_unwind;
use std::thread;

use crate::error::OvsdbError;
use crate::json::Reader;
use crate::schema::DatabaseSchema;
use crate::strings::Strings;
use crate::uuids::UuidSource;
use crate::wire::named_uuids::{NameKey, NamedUuids, TakenNames};
use crate::wire::notation::NotationReader;

use super::decode::{CONTEXT, decode_operation};
use super::insert::{LastInserts, insert_at_once};
use super::{DecodedTransaction, Failure};

/// A thread of its own is worth while for so many bytes.
const PART: usize = 1 << 20;
/// As many parts at most: more threads would wait for memory.
const MAX_PARTS: usize = 4;

/// Decodes the operations of a `transact` request. `params` is in the array of parameters, behind the
/// name of the database; `cuts` are those of the [text](crate::json::TextBuf::cuts), or none to decode it as a whole.
///
/// A long request is decoded in several threads, unless UUIDs come from a seed: then their order matters.
pub fn decode_transaction(
    params: Reader<'_>,
    cuts: &[usize],
    schema: &DatabaseSchema,
    strings: &mut Strings,
    uuids: &mut UuidSource,
) -> DecodedTransaction {
    let cuts = equal_parts(params, cuts);
    let in_parts = (!cuts.is_empty() && !uuids.is_seeded())
        .then(|| decode_parts(params, &cuts, schema, strings, uuids))
        .flatten();
    let mut decoded = in_parts.unwrap_or_else(|| {
        let names = NamedUuids::new(uuids);
        decode_part(params, None, schema, strings, names).decoded
    });
    if let Some(Failure {
        error: OvsdbError {
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

/// Operations that follow each other.
struct Part {
    decoded: DecodedTransaction,
    names: TakenNames,
    /// Whether it ends where the next one begins, and not with the array.
    is_followed: bool,
}

/// The cuts that make parts of about the same length.
fn equal_parts(params: Reader<'_>, cuts: &[usize]) -> Vec<usize> {
    let cuts = &cuts[cuts.partition_point(|cut| *cut <= params.place())..];
    let Some(last) = cuts.last() else {
        return Vec::new();
    };
    let len = last - params.place();
    let parts = (len / PART).clamp(1, MAX_PARTS);
    let ends = (1..parts).map(|part| params.place() + len / parts * part);
    let mut chosen: Vec<usize> = ends
        .map(|end| cuts[cuts.partition_point(|cut| *cut < end)])
        .collect();
    chosen.dedup();
    chosen
}

/// Decodes parts at the same time; none when they depend on each other, or there are no threads to be had.
fn decode_parts(
    params: Reader<'_>,
    cuts: &[usize],
    schema: &DatabaseSchema,
    strings: &mut Strings,
    uuids: &mut UuidSource,
) -> Option<DecodedTransaction> {
    let key = NameKey::new(uuids);
    let names = NamedUuids::with_key(uuids, key);
    let ends = cuts.iter().skip(1).map(Some).chain([None]);
    let (first, later) = thread::scope(|scope| {
        let spawn = |(cut, end): (&usize, Option<&usize>)| {
            let (start, end) = (params.at_comma(*cut), end.copied());
            let decode = move || {
                let mut source = UuidSource::random();
                let names = NamedUuids::with_key(&mut source, key);
                decode_part(start, end, schema, &mut Strings::default(), names)
            };
            thread::Builder::new().spawn_scoped(scope, decode)
        };
        let threads: Vec<_> = cuts.iter().zip(ends).map(spawn).collect();
        let first = decode_part(params, cuts.first().copied(), schema, strings, names);
        let join = |thread: thread::ScopedJoinHandle<'_, Part>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        let later: Vec<_> = threads.into_iter().map(|thread| thread.map(join)).collect();
        (first, later)
    });
    let mut whole = first;
    for part in later {
        if whole.is_followed && !whole.append(part.ok()?) {
            return None;
        }
    }
    Some(whole.decoded)
}

impl Part {
    /// Puts the next part behind this one; false when the two had to be decoded one after the other.
    fn append(&mut self, next: Self) -> bool {
        if !self.names.agree_with(&next.names) {
            return false;
        }
        self.is_followed = next.is_followed;
        self.names.extend(next.names);
        self.decoded.total += next.decoded.total;
        if self.decoded.failure.is_none() {
            self.decoded.operations.extend(next.decoded.operations);
            self.decoded.failure = next.decoded.failure;
        }
        true
    }
}

/// Decodes the operations up to a cut, or to the end of the array.
fn decode_part(
    mut reader: Reader<'_>,
    end: Option<usize>,
    schema: &DatabaseSchema,
    strings: &mut Strings,
    mut names: NamedUuids<'_>,
) -> Part {
    let mut notation = NotationReader::with_named_uuids(strings, &mut names);
    let mut decoded = DecodedTransaction::default();
    let mut last_inserts = LastInserts::default();
    let mut is_followed = false;
    loop {
        is_followed = is_followed || end.is_some_and(|end| reader.is_at_comma(end));
        if is_followed || !reader.next_element() {
            break;
        }
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
    Part {
        decoded,
        names: names.into_taken(),
        is_followed,
    }
}

fn name_operation(details: &mut String, i: usize, n: usize) {
    let vague = format!("Parsing {CONTEXT} failed:");
    if let Some(rest) = details.strip_prefix(&vague) {
        *details = format!("Parsing {CONTEXT} {i} of {n} failed:{rest}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::TextBuf;
    use crate::nb;
    use crate::wire::Operation;

    fn insert(name: &str, text: &str) -> String {
        format!(
            r#"{{"op":"insert","table":"Logical_Router_Port","uuid-name":"{name}","row":{{"name":"{text}"}}}}"#
        )
    }

    /// Long enough to be cut: the operations, and an `id` that can be cut too.
    fn request(operations: &[String]) -> TextBuf {
        let id = vec!["1"; PART].join(", ");
        let text = format!(
            r#"{{"method":"transact","params":["OVN_Northbound" , {}],"id":[{id}]}}"#,
            operations.join(" , ")
        );
        TextBuf::parse(text.into_bytes()).unwrap()
    }

    /// As a whole, and in parts if these do not depend on each other.
    fn decode(operations: &[String]) -> (DecodedTransaction, Option<DecodedTransaction>) {
        let text = request(operations);
        let mut params = Reader::new(text.as_text());
        params.enter_object();
        params.next_member();
        params.skip();
        params.next_member();
        params.enter_array();
        params.next_element();
        params.skip();
        let (schema, mut strings) = (nb::schema(), Strings::default());
        let mut uuids = UuidSource::random();
        let whole = decode_transaction(params, &[], &schema, &mut strings, &mut uuids);
        let cuts = equal_parts(params, text.cuts());
        assert_eq!(cuts.len(), MAX_PARTS - 1);
        let parts = decode_parts(params, &cuts, &schema, &mut strings, &mut uuids);
        (whole, parts)
    }

    fn long_operations() -> Vec<String> {
        let text = "x".repeat(1000);
        (0..PART * MAX_PARTS / 1000)
            .map(|i| insert(&format!("p{i}"), &text))
            .collect()
    }

    fn uuids(decoded: &DecodedTransaction) -> Vec<uuid::Uuid> {
        let uuid = |operation: &Operation| match operation {
            Operation::Insert { uuid, .. } => *uuid,
            _ => uuid::Uuid::nil(),
        };
        decoded.operations.iter().map(uuid).collect()
    }

    #[test]
    fn parts_make_the_whole() {
        let mut operations = long_operations();
        let named: Vec<String> = (0..operations.len())
            .map(|i| format!(r#"["named-uuid","p{i}"]"#))
            .collect();
        operations.push(format!(
            r#"{{"op":"insert","table":"Logical_Router","row":{{"ports":["set",[{}]]}}}}"#,
            named.join(",")
        ));
        let (whole, parts) = decode(&operations);
        let parts = parts.unwrap();
        assert_eq!(parts.total, operations.len());
        assert_eq!(parts.operations.len(), whole.operations.len());
        let Some(Operation::Insert { row, .. }) = parts.operations.last() else {
            panic!("an insert")
        };
        let mut ports = uuids(&parts);
        ports.pop();
        let referred: crate::datum::Set = ports.into_iter().map(crate::atom::Atom::from).collect();
        assert_eq!(row[0].1, crate::datum::Datum::Set(referred));
    }

    #[test]
    fn a_name_that_two_parts_take_is_found() {
        let mut operations = long_operations();
        operations.push(insert("p0", "again"));
        let (whole, parts) = decode(&operations);
        assert!(parts.is_none());
        assert_eq!(whole.failure.unwrap().error.tag, "duplicate uuid-name");
    }

    #[test]
    fn the_first_failure_of_all_parts_counts() {
        for broken in [1, PART * MAX_PARTS / 1000 - 1] {
            let mut operations = long_operations();
            operations[broken] = r#"{"op":"nothing"}"#.to_owned();
            let (whole, parts) = decode(&operations);
            let parts = parts.unwrap();
            assert_eq!(parts.operations.len(), broken);
            assert_eq!(parts.total, whole.total);
            assert!(parts.failure.is_some());
            let details = whole.failure.unwrap().error.details.unwrap();
            let place = format!("operation {} of {}", broken + 1, operations.len());
            assert!(details.contains(&place), "{details}");
        }
    }
}
