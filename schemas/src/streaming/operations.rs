//! Operations of a `transact` request, decoded on several threads while the request is being
//! received.

use std::sync::Arc;

use crate::json::{Reader, TextBuf};
use crate::schema::DatabaseSchema;
use crate::strings::StringCache;
use crate::uuids::UuidSource;
use crate::wire::{
    DecodedTransaction, DefinedNames, NameKey, NamedUuids, OperationSequence, RowTemplates,
};

use super::OpenElements;

/// Operations of a `transact` request that are decoded in parts.
///
/// Each part is a run of operations that is removed from the request while it is being received.
/// The result is the same as that of [`decode_transaction`](crate::wire::decode_transaction) for
/// the complete request.
///
/// ```
/// use patchbay_schemas::json::{Framer, Reader};
/// use patchbay_schemas::nb;
/// use patchbay_schemas::streaming::StreamedOperations;
/// use patchbay_schemas::uuids::UuidSource;
///
/// let mut framer = Framer::new(usize::MAX);
/// framer.push(br#"{"method":"transact","params":["OVN_Northbound",{"op":"abort"},{"op":"#);
/// assert!(framer.next_text()?.is_none());
/// let elements = framer.open_elements(1).unwrap();
/// let uuids = UuidSource::random();
/// let mut transaction = StreamedOperations::new(nb::schema(), &uuids, &elements).unwrap();
/// let part = transaction.take(elements);
/// let decoded = std::thread::spawn(|| part.decode()).join().unwrap();
///
/// framer.push(br#""abort"}],"id":1}"#);
/// let rest = framer.next_text()?.unwrap();
/// let mut params = Reader::new(rest.as_text());
/// params.enter_object();
/// params.next_member();
/// params.skip();
/// params.next_member();
/// assert!(transaction.continues_in(params));
/// let rest = transaction.decode_rest(params);
/// transaction.append(decoded);
/// assert_eq!(transaction.finish(rest).operations.len(), 2);
/// # Ok::<(), patchbay_schemas::json::JsonError>(())
/// ```
#[derive(Debug)]
pub struct StreamedOperations {
    schema: Arc<DatabaseSchema>,
    key: NameKey,
    /// Index of the second parameter, the first operation, in the complete request.
    index: usize,
    /// Names that the inserts of the appended parts define.
    names: DefinedNames,
    /// Appended parts, in order.
    parts: Vec<DecodedTransaction>,
    /// Memory of the last appended text, for the next one.
    spare: Vec<u8>,
}

/// Text of consecutive operations.
#[derive(Debug)]
pub struct OperationsText {
    text: TextBuf,
    schema: Arc<DatabaseSchema>,
    key: NameKey,
}

/// Consecutive operations, decoded.
#[derive(Debug)]
pub struct DecodedOperations {
    part: OperationSequence,
    /// Text of the operations, which is decoded again if they depend on names in earlier parts.
    text: TextBuf,
}

/// Operations that remained in the request when it was complete, decoded.
#[derive(Debug)]
pub struct LastOperations<'a> {
    part: OperationSequence,
    params: Reader<'a>,
}

impl StreamedOperations {
    /// Returns a request without decoded operations, for a database with this schema.
    ///
    /// `None`: `uuids` is seeded. The UUIDs then depend on the order of decoding, which several
    /// threads would change.
    pub fn new(
        schema: Arc<DatabaseSchema>,
        uuids: &UuidSource,
        elements: &OpenElements<'_>,
    ) -> Option<Self> {
        (!uuids.is_seeded()).then(|| Self {
            schema,
            key: NameKey::new(&mut UuidSource::random()),
            index: elements.index(),
            names: DefinedNames::default(),
            parts: Vec::new(),
            spare: Vec::new(),
        })
    }

    /// Returns the schema of the database.
    pub fn schema(&self) -> &Arc<DatabaseSchema> {
        &self.schema
    }

    /// Returns the number of operations in the appended parts.
    pub fn operation_count(&self) -> usize {
        self.parts.iter().map(|part| part.operations.len()).sum()
    }

    /// Removes the received operations from the request. Any thread may decode them.
    pub fn take(&mut self, elements: OpenElements<'_>) -> OperationsText {
        OperationsText {
            text: elements.take_with_buffer(std::mem::take(&mut self.spare)),
            schema: self.schema.clone(),
            key: self.key,
        }
    }

    /// `true` if these are the parameters from which the operations were removed.
    pub fn continues_in(&self, params: Reader<'_>) -> bool {
        behind_first(params).is_some_and(|mut at| at.is_at_comma(self.index - 1))
    }

    /// Decodes the operations that remain in the parameters of the complete request.
    pub fn decode_rest<'a>(&self, params: Reader<'a>) -> LastOperations<'a> {
        LastOperations { part: decode(behind_first(params), &self.schema, self.key), params }
    }

    /// Appends the part that follows the parts appended so far.
    pub fn append(&mut self, next: DecodedOperations) {
        let mut elements = Reader::new(next.text.as_text());
        elements.enter_array();
        self.append_part(next.part, Some(elements));
        self.spare = next.text.into_buffer();
    }

    /// Appends the last operations and returns the transaction.
    pub fn finish(mut self, rest: LastOperations<'_>) -> DecodedTransaction {
        self.append_part(rest.part, behind_first(rest.params));
        DecodedTransaction::from_parts(self.parts)
    }

    /// Appends a part that was decoded from `text`. It is decoded again if its names depend on
    /// earlier parts.
    fn append_part(&mut self, next: OperationSequence, text: Option<Reader<'_>>) {
        let has_failed = self.parts.iter().any(|part| part.failure.is_some());
        if has_failed || self.names.extend_if_independent(&next.names) {
            self.parts.push(next.decoded);
        } else if let Some(text) = text {
            let mut uuids = UuidSource::random();
            let names = NamedUuids::with_key(&mut uuids, self.key)
                .with_defined(std::mem::take(&mut self.names));
            let OperationSequence { decoded, names } = StringCache::with_thread(|strings| {
                let templates = RowTemplates::default();
                OperationSequence::decode(text, &self.schema, strings, names, &templates)
            });
            self.names = names;
            self.parts.push(decoded);
        }
    }
}

impl OperationsText {
    /// Decodes the operations.
    pub fn decode(self) -> DecodedOperations {
        let mut elements = Reader::new(self.text.as_text());
        elements.enter_array();
        DecodedOperations { part: decode(Some(elements), &self.schema, self.key), text: self.text }
    }
}

/// Decodes operations without knowledge of earlier parts. `None`: no operations.
fn decode(
    elements: Option<Reader<'_>>,
    schema: &DatabaseSchema,
    key: NameKey,
) -> OperationSequence {
    let mut uuids = UuidSource::random();
    let names = NamedUuids::with_key(&mut uuids, key);
    elements.map_or_else(OperationSequence::default, |elements| {
        StringCache::with_thread(|strings| {
            let templates = RowTemplates::default();
            OperationSequence::decode(elements, schema, strings, names, &templates)
        })
    })
}

/// Moves behind the first element of an array. `None`: not an array, or an empty one.
fn behind_first(mut params: Reader<'_>) -> Option<Reader<'_>> {
    let is_there = params.enter_array() && params.next_element();
    is_there.then(|| {
        params.skip();
        params
    })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::atom::Atom;
    use crate::datum::{Datum, Set};
    use crate::json::Framer;
    use crate::nb;
    use crate::wire::{Operation, decode_transaction};

    fn insert(name: &str, more: &str) -> String {
        format!(
            r#"{{"op":"insert","table":"Logical_Router_Port","uuid-name":"{name}"{more},"row":{{"name":"{name}"}}}}"#
        )
    }

    fn inserts(count: usize) -> Vec<String> {
        (0..count).map(|i| insert(&format!("p{i}"), "")).collect()
    }

    fn request(operations: &[String]) -> String {
        let operations = operations.join(" , ");
        format!(
            r#"{{"id":[1,[2],3],"params":["OVN_Northbound" , {operations}],"method":"transact"}}"#
        )
    }

    fn params(text: &TextBuf) -> Reader<'_> {
        let mut members = Reader::members(text);
        members.find(|(name, _)| **name == *b"params").unwrap().1
    }

    /// Decodes a request that is received in chunks of `chunk_len` bytes. Returns the number of
    /// parts, too.
    fn decode_streamed(operations: &[String], chunk_len: usize) -> (DecodedTransaction, usize) {
        let (mut framer, uuids) = (Framer::new(usize::MAX), UuidSource::random());
        let (mut transaction, mut parts) = (None, Vec::new());
        let text = request(operations);
        for bytes in text.as_bytes().chunks(chunk_len) {
            framer.push(bytes);
            if let Some(text) = framer.next_text().unwrap() {
                let params = params(&text);
                let Some(mut transaction): Option<StreamedOperations> = transaction.take() else {
                    let mut params = behind_first(params).unwrap();
                    return (decode_params(&mut params), 0);
                };
                assert!(transaction.continues_in(params));
                let (rest, count) = (transaction.decode_rest(params), parts.len());
                for part in parts {
                    transaction.append(part);
                }
                return (transaction.finish(rest), count);
            }
            if let Some(elements) = framer.open_elements(1)
                && elements.head().unwrap().as_text().bytes().contains(&b'N')
            {
                let transaction = transaction.get_or_insert_with(|| {
                    StreamedOperations::new(nb::schema(), &uuids, &elements).unwrap()
                });
                parts.push(transaction.take(elements).decode());
            }
        }
        panic!("the text does not end");
    }

    fn decode_params(params: &mut Reader<'_>) -> DecodedTransaction {
        let (mut strings, mut uuids) = (StringCache::default(), UuidSource::random());
        decode_transaction(*params, &nb::schema(), &mut strings, &mut uuids)
    }

    fn decode_whole(operations: &[String]) -> DecodedTransaction {
        let text = TextBuf::parse(request(operations).into_bytes()).unwrap();
        decode_params(&mut behind_first(params(&text)).unwrap())
    }

    fn uuids(decoded: &DecodedTransaction) -> Vec<Uuid> {
        let uuid = |operation: &Operation| match operation {
            Operation::Insert { uuid, .. } => Some(*uuid),
            _ => None,
        };
        decoded.operations.iter().filter_map(uuid).collect()
    }

    /// Compares everything except UUIDs with the result of decoding the complete request.
    fn assert_equal_to_whole(operations: &[String]) {
        let whole = decode_whole(operations);
        for chunk_len in [1, 100, 1000] {
            let (streamed, _) = decode_streamed(operations, chunk_len);
            assert_eq!(streamed.total, whole.total);
            assert_eq!(streamed.failure, whole.failure);
            assert_eq!(streamed.operations.len(), whole.operations.len());
        }
    }

    #[test]
    fn parts_are_decoded_to_the_whole_transaction() {
        let mut operations = inserts(100);
        let named: Vec<String> = (0..100).map(|i| format!(r#"["named-uuid","p{i}"]"#)).collect();
        operations.push(format!(
            r#"{{"op":"insert","table":"Logical_Router","row":{{"ports":["set",[{}]]}}}}"#,
            named.join(",")
        ));
        assert_equal_to_whole(&operations);
        for (chunk_len, parts) in [(1, 100), (100, 50), (1 << 20, 0)] {
            let (streamed, count) = decode_streamed(&operations, chunk_len);
            assert!(count >= parts, "{count}");
            let Some(Operation::Insert { row, .. }) = streamed.operations.iter().last() else {
                panic!("an insert")
            };
            let mut ports = uuids(&streamed);
            ports.pop();
            let referred: Set = ports.into_iter().map(Atom::from).collect();
            assert_eq!(row.iter().next().unwrap().1, &Datum::Set(referred));
        }
    }

    #[test]
    fn a_name_that_two_parts_define_is_an_error() {
        for again in [1, 50, 100] {
            let mut operations = inserts(100);
            operations.insert(again, insert("p0", ""));
            assert_equal_to_whole(&operations);
            let (streamed, _) = decode_streamed(&operations, 100);
            assert_eq!(streamed.failure.unwrap().error.tag, "duplicate uuid-name");
        }
    }

    #[test]
    fn later_parts_refer_to_the_uuid_that_an_insert_requests() {
        let uuid = "550e8400-e29b-41d4-a716-446655440000";
        let mut operations = inserts(50);
        operations.insert(10, insert("chosen", &format!(r#","uuid":"{uuid}""#)));
        let refer =
            r#"{"op":"insert","table":"Logical_Router","row":{"ports":["named-uuid","chosen"]}}"#;
        operations.push(refer.to_owned());
        assert_equal_to_whole(&operations);
        let (streamed, _) = decode_streamed(&operations, 100);
        let Some(Operation::Insert { row, .. }) = streamed.operations.iter().last() else {
            panic!("an insert")
        };
        let chosen = Datum::scalar(uuid.parse::<Uuid>().unwrap());
        assert_eq!(row.iter().next().unwrap().1, &chosen);
    }

    #[test]
    fn the_first_failure_of_all_parts_is_returned() {
        for broken in [0, 1, 70, 99] {
            let mut operations = inserts(100);
            operations[99] = r#"{"op":"never"}"#.to_owned();
            operations[broken] = r#"{"op":"nothing"}"#.to_owned();
            assert_equal_to_whole(&operations);
            let (streamed, _) = decode_streamed(&operations, 100);
            let details = streamed.failure.unwrap().error.details.unwrap();
            let position = format!("operation {} of 100", broken + 1);
            assert!(details.contains(&position), "{details}");
        }
    }

    #[test]
    fn other_parameters_are_distinguished() {
        let mut framer = Framer::new(usize::MAX);
        framer.push(br#"{"params":["D",{},{}"#);
        assert!(framer.next_text().unwrap().is_none());
        let elements = framer.open_elements(1).unwrap();
        let operations =
            StreamedOperations::new(nb::schema(), &UuidSource::random(), &elements).unwrap();
        elements.take();
        framer.push(br#"],"others":["D",{}]}"#);
        let text = framer.next_text().unwrap().unwrap();
        let continues: Vec<bool> =
            Reader::members(&text).map(|(_, at)| operations.continues_in(at)).collect();
        assert_eq!(continues, [true, false]);
    }
}
