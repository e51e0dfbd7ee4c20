//! The operations of a long request, decoded while it arrives: by several threads, and without its text ever being there
//! as a whole.

use std::sync::{Arc, Mutex, PoisonError};

use crate::json::{ArrivingElements, Reader, TextBuf};
use crate::schema::DatabaseSchema;
use crate::strings::Strings;
use crate::uuids::UuidSource;
use crate::wire::named_uuids::{NameKey, NamedUuids, TakenNames};

use super::DecodedTransaction;
use super::transaction::Part;

/// A `transact` request whose operations are decoded in parts, which were [taken](ArrivingElements::take) out of its text
/// while it arrived. The result is that of [`decode_transaction`](super::decode_transaction).
///
/// ```
/// use patchbay_schemas::json::{Framer, Reader};
/// use patchbay_schemas::nb;
/// use patchbay_schemas::uuids::UuidSource;
/// use patchbay_schemas::wire::ArrivingTransaction;
///
/// let mut framer = Framer::new(usize::MAX);
/// framer.push(br#"{"method":"transact","params":["OVN_Northbound",{"op":"abort"},{"op":"#);
/// assert!(framer.next_text()?.is_none());
/// let elements = framer.arriving_elements(1).unwrap();
/// let mut transaction = ArrivingTransaction::new(nb::schema(), &UuidSource::random(), &elements).unwrap();
/// let part = transaction.part(elements);
/// let decoded = std::thread::spawn(|| part.decode()).join().unwrap();
///
/// framer.push(br#""abort"}],"id":1}"#);
/// let rest = framer.next_text()?.unwrap();
/// let mut params = Reader::new(rest.as_text());
/// params.enter_object();
/// params.next_member();
/// params.skip();
/// params.next_member();
/// assert!(transaction.goes_on_in(params));
/// let rest = transaction.rest(params);
/// transaction.append(decoded);
/// assert_eq!(transaction.finish(rest).operations.len(), 2);
/// # Ok::<(), patchbay_schemas::json::JsonError>(())
/// ```
#[derive(Debug)]
pub struct ArrivingTransaction {
    schema: Arc<DatabaseSchema>,
    key: NameKey,
    /// Where the operations begin.
    place: usize,
    strings: IdleStrings,
    /// The names that the parts took.
    names: TakenNames,
    /// In their order.
    parts: Vec<DecodedTransaction>,
}

/// Operations that follow each other, still text.
#[derive(Debug)]
pub struct ArrivedOperations {
    text: TextBuf,
    schema: Arc<DatabaseSchema>,
    key: NameKey,
    strings: IdleStrings,
}

/// Operations that follow each other.
#[derive(Debug)]
pub struct DecodedOperations {
    part: Part,
    /// What they were decoded from: they may depend on those before them.
    text: TextBuf,
}

/// The operations that come last.
#[derive(Debug)]
pub struct LastOperations<'a> {
    part: Part,
    params: Reader<'a>,
}

impl ArrivingTransaction {
    /// A request for a database of this schema. None if new UUIDs come from a seed: then their order matters, and with it
    /// that of decoding.
    pub fn new(
        schema: Arc<DatabaseSchema>,
        uuids: &UuidSource,
        elements: &ArrivingElements<'_>,
    ) -> Option<Self> {
        (!uuids.is_seeded()).then(|| Self {
            schema,
            key: NameKey::new(&mut UuidSource::random()),
            place: elements.place(),
            strings: IdleStrings::default(),
            names: TakenNames::default(),
            parts: Vec::new(),
        })
    }

    /// The schema of the database.
    pub fn schema(&self) -> &Arc<DatabaseSchema> {
        &self.schema
    }

    /// The operations that have arrived, to be decoded by any thread.
    pub fn part(&self, elements: ArrivingElements<'_>) -> ArrivedOperations {
        ArrivedOperations {
            text: elements.take(),
            schema: self.schema.clone(),
            key: self.key,
            strings: self.strings.clone(),
        }
    }

    /// Whether these are the parameters out of which the parts were taken.
    pub fn goes_on_in(&self, params: Reader<'_>) -> bool {
        behind_first(params).is_some_and(|mut at| at.is_at_comma(self.place - 1))
    }

    /// Decodes the operations that are left in the parameters.
    pub fn rest<'a>(&self, params: Reader<'a>) -> LastOperations<'a> {
        LastOperations {
            part: decode(behind_first(params), &self.schema, self.key, &self.strings),
            params,
        }
    }

    /// Puts the next part behind those before it.
    pub fn append(&mut self, next: DecodedOperations) {
        let mut elements = Reader::new(next.text.as_text());
        elements.enter_array();
        self.append_part(next.part, Some(elements));
    }

    /// All operations.
    pub fn finish(mut self, rest: LastOperations<'_>) -> DecodedTransaction {
        self.append_part(rest.part, behind_first(rest.params));
        DecodedTransaction::of_parts(self.parts)
    }

    /// `text` is what the part was decoded from. It is decoded again if what it means depends on what came before it.
    fn append_part(&mut self, next: Part, text: Option<Reader<'_>>) {
        let is_needless = self.parts.iter().any(|part| part.failure.is_some());
        if is_needless || self.names.agree_with(&next.names) {
            self.names.extend(next.names);
            self.parts.push(next.decoded);
        } else if let Some(text) = text {
            let mut uuids = UuidSource::random();
            let names = std::mem::take(&mut self.names);
            let names = NamedUuids::with_key(&mut uuids, self.key).with_taken(names);
            let decode = |strings: &mut Strings| Part::decode(text, &self.schema, strings, names);
            let Part { decoded, names } = self.strings.lend(decode);
            self.names = names;
            self.parts.push(decoded);
        }
    }
}

impl ArrivedOperations {
    /// Decodes them.
    pub fn decode(self) -> DecodedOperations {
        let mut elements = Reader::new(self.text.as_text());
        elements.enter_array();
        DecodedOperations {
            part: decode(Some(elements), &self.schema, self.key, &self.strings),
            text: self.text,
        }
    }
}

fn decode(
    elements: Option<Reader<'_>>,
    schema: &DatabaseSchema,
    key: NameKey,
    strings: &IdleStrings,
) -> Part {
    let mut uuids = UuidSource::random();
    let names = NamedUuids::with_key(&mut uuids, key);
    elements.map_or_else(Part::default, |elements| {
        strings.lend(|strings| Part::decode(elements, schema, strings, names))
    })
}

/// What the strings of a request are shared through, as many as parts are decoded at once.
#[derive(Clone, Debug, Default)]
struct IdleStrings(Arc<Mutex<Vec<Strings>>>);

impl IdleStrings {
    fn lend<T>(&self, with: impl FnOnce(&mut Strings) -> T) -> T {
        let idle = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut strings = idle().pop().unwrap_or_default();
        let result = with(&mut strings);
        idle().push(strings);
        result
    }
}

/// Behind the first element of an array.
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

    use super::super::{Operation, decode_transaction};
    use super::*;
    use crate::atom::Atom;
    use crate::datum::{Datum, Set};
    use crate::json::Framer;
    use crate::nb;

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

    /// As it arrives in pieces of so many bytes, of which all is taken that can be.
    fn arrive(operations: &[String], piece: usize) -> (DecodedTransaction, usize) {
        let (mut framer, uuids) = (Framer::new(usize::MAX), UuidSource::random());
        let (mut transaction, mut parts) = (None, Vec::new());
        let text = request(operations);
        for bytes in text.as_bytes().chunks(piece) {
            framer.push(bytes);
            if let Some(text) = framer.next_text().unwrap() {
                let params = params(&text);
                let Some(mut transaction): Option<ArrivingTransaction> = transaction.take() else {
                    let mut params = behind_first(params).unwrap();
                    return (part(&mut params), 0);
                };
                assert!(transaction.goes_on_in(params));
                let (rest, count) = (transaction.rest(params), parts.len());
                for part in parts {
                    transaction.append(part);
                }
                return (transaction.finish(rest), count);
            }
            if let Some(elements) = framer.arriving_elements(1)
                && elements.head().unwrap().as_text().bytes().contains(&b'N')
            {
                let transaction = transaction.get_or_insert_with(|| {
                    ArrivingTransaction::new(nb::schema(), &uuids, &elements).unwrap()
                });
                parts.push(transaction.part(elements).decode());
            }
        }
        panic!("the text has no end");
    }

    fn part(params: &mut Reader<'_>) -> DecodedTransaction {
        let (mut strings, mut uuids) = (Strings::default(), UuidSource::random());
        decode_transaction(*params, &nb::schema(), &mut strings, &mut uuids)
    }

    fn whole(operations: &[String]) -> DecodedTransaction {
        let text = TextBuf::parse(request(operations).into_bytes()).unwrap();
        part(&mut behind_first(params(&text)).unwrap())
    }

    fn uuids(decoded: &DecodedTransaction) -> Vec<Uuid> {
        let uuid = |operation: &Operation| match operation {
            Operation::Insert { uuid, .. } => Some(*uuid),
            _ => None,
        };
        decoded.operations.iter().filter_map(uuid).collect()
    }

    /// With other UUIDs it is the same.
    fn assert_same(operations: &[String]) {
        let whole = whole(operations);
        for piece in [1, 100, 1000] {
            let (arrived, _) = arrive(operations, piece);
            assert_eq!(arrived.total, whole.total);
            assert_eq!(arrived.failure, whole.failure);
            assert_eq!(arrived.operations.len(), whole.operations.len());
        }
    }

    #[test]
    fn parts_make_the_whole() {
        let mut operations = inserts(100);
        let named: Vec<String> = (0..100)
            .map(|i| format!(r#"["named-uuid","p{i}"]"#))
            .collect();
        operations.push(format!(
            r#"{{"op":"insert","table":"Logical_Router","row":{{"ports":["set",[{}]]}}}}"#,
            named.join(",")
        ));
        assert_same(&operations);
        for (piece, parts) in [(1, 100), (100, 50), (1 << 20, 0)] {
            let (arrived, count) = arrive(&operations, piece);
            assert!(count >= parts, "{count}");
            let Some(Operation::Insert { row, .. }) = arrived.operations.last() else {
                panic!("an insert")
            };
            let mut ports = uuids(&arrived);
            ports.pop();
            let referred: Set = ports.into_iter().map(Atom::from).collect();
            assert_eq!(row.iter().next().unwrap().1, &Datum::Set(referred));
        }
    }

    #[test]
    fn a_name_that_two_parts_take_is_found() {
        for again in [1, 50, 100] {
            let mut operations = inserts(100);
            operations.insert(again, insert("p0", ""));
            assert_same(&operations);
            let (arrived, _) = arrive(&operations, 100);
            assert_eq!(arrived.failure.unwrap().error.tag, "duplicate uuid-name");
        }
    }

    #[test]
    fn what_an_insert_chose_is_what_later_parts_refer_to() {
        let uuid = "550e8400-e29b-41d4-a716-446655440000";
        let mut operations = inserts(50);
        operations.insert(10, insert("chosen", &format!(r#","uuid":"{uuid}""#)));
        let refer =
            r#"{"op":"insert","table":"Logical_Router","row":{"ports":["named-uuid","chosen"]}}"#;
        operations.push(refer.to_owned());
        assert_same(&operations);
        let (arrived, _) = arrive(&operations, 100);
        let Some(Operation::Insert { row, .. }) = arrived.operations.last() else {
            panic!("an insert")
        };
        let chosen = Datum::scalar(uuid.parse::<Uuid>().unwrap());
        assert_eq!(row.iter().next().unwrap().1, &chosen);
    }

    #[test]
    fn the_first_failure_of_all_parts_counts() {
        for broken in [0, 1, 70, 99] {
            let mut operations = inserts(100);
            operations[99] = r#"{"op":"never"}"#.to_owned();
            operations[broken] = r#"{"op":"nothing"}"#.to_owned();
            assert_same(&operations);
            let (arrived, _) = arrive(&operations, 100);
            let details = arrived.failure.unwrap().error.details.unwrap();
            let place = format!("operation {} of 100", broken + 1);
            assert!(details.contains(&place), "{details}");
        }
    }

    #[test]
    fn other_parameters_are_told_apart() {
        let mut framer = Framer::new(usize::MAX);
        framer.push(br#"{"params":["D",{},{}"#);
        assert!(framer.next_text().unwrap().is_none());
        let elements = framer.arriving_elements(1).unwrap();
        let arriving =
            ArrivingTransaction::new(nb::schema(), &UuidSource::random(), &elements).unwrap();
        elements.take();
        framer.push(br#"],"others":["D",{}]}"#);
        let text = framer.next_text().unwrap().unwrap();
        let goes_on: Vec<bool> = Reader::members(&text)
            .map(|(_, at)| arriving.goes_on_in(at))
            .collect();
        assert_eq!(goes_on, [true, false]);
    }
}
