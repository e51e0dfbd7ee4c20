//! Deserialization of JSON values that knows where in an object it is.
//!
//! There is one deserializer for all types, because each further one multiplies the functions that
//! the compiler makes of every type.

use std::cell::RefCell;
use std::iter::Enumerate;
use std::{fmt, slice};

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, Expected, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Value, map};

/// A value of a JSON object, or the object.
#[derive(Clone, Copy)]
enum Place<'p> {
    Root,
    Member(&'p Place<'p>, &'p str),
    Item(&'p Place<'p>, usize),
}

/// Step from a JSON value to one of its members or items.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Segment {
    Member(String),
    Item(usize),
}

impl Place<'_> {
    /// Steps that lead to the place.
    fn path(&self) -> Vec<Segment> {
        let (parent, segment) = match self {
            Self::Root => return Vec::new(),
            Self::Member(parent, key) => (parent, Segment::Member((*key).to_owned())),
            Self::Item(parent, index) => (parent, Segment::Item(*index)),
        };
        let mut path = parent.path();
        path.push(segment);
        path
    }
}

/// Error with the place of the value that does not fit.
#[derive(Debug)]
pub(super) struct PlaceError {
    error: serde_json::Error,
    path: Option<Vec<Segment>>,
}

impl PlaceError {
    fn at(mut self, place: &Place<'_>) -> Self {
        self.path.get_or_insert_with(|| place.path());
        self
    }

    /// Message without the place, as `serde_json` words it.
    pub(super) fn message(&self) -> String {
        self.error.to_string()
    }

    /// Error without the place.
    pub(super) fn into_json_error(self) -> serde_json::Error {
        self.error
    }

    /// Steps from the object to the value.
    pub(super) fn path(&self) -> &[Segment] {
        self.path.as_deref().unwrap_or_default()
    }
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for PlaceError {}

impl From<serde_json::Error> for PlaceError {
    fn from(error: serde_json::Error) -> Self {
        Self { error, path: None }
    }
}

impl de::Error for PlaceError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        serde_json::Error::custom(message).into()
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        serde_json::Error::invalid_type(unexpected, expected).into()
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        serde_json::Error::invalid_value(unexpected, expected).into()
    }
}

/// Decodes a JSON value, with the places of the members that its type ignores.
pub(super) fn decode<T: DeserializeOwned>(
    json: &Value,
) -> Result<(T, Vec<Vec<Segment>>), PlaceError> {
    let ignored = RefCell::default();
    let object = T::deserialize(Located { value: json, place: &Place::Root, ignored: &ignored })?;
    Ok((object, ignored.into_inner()))
}

/// A value at its place.
#[derive(Clone, Copy)]
struct Located<'de, 'p> {
    value: &'de Value,
    place: &'p Place<'p>,
    /// Places of ignored members so far.
    ignored: &'p RefCell<Vec<Vec<Segment>>>,
}

impl<'de> Located<'de, '_> {
    /// Reads a value inside this one.
    fn read<S: DeserializeSeed<'de>>(
        &self,
        seed: S,
        value: &'de Value,
        place: &Place<'_>,
    ) -> Result<S::Value, PlaceError> {
        seed.deserialize(Located { value, place, ignored: self.ignored })
    }
}

impl<'de> Deserializer<'de> for Located<'de, '_> {
    type Error = PlaceError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PlaceError> {
        let read = match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or_default()),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => {
                let length = items.len();
                let mut items = LocatedItems { items: items.iter().enumerate(), of: self };
                visitor.visit_seq(&mut items).and_then(|read| {
                    let is_read = items.items.len() == 0;
                    let error = || de::Error::invalid_length(length, &"fewer elements in array");
                    is_read.then_some(read).ok_or_else(error)
                })
            }
            Value::Object(members) => {
                visitor.visit_map(LocatedMembers { members: members.iter(), next: None, of: self })
            }
        };
        read.map_err(|error| error.at(self.place))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PlaceError> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, PlaceError> {
        visitor.visit_newtype_struct(self).map_err(|error| error.at(self.place))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, PlaceError> {
        self.value
            .deserialize_enum(name, variants, visitor)
            .map_err(|error| PlaceError::from(error).at(self.place))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PlaceError> {
        self.ignored.borrow_mut().push(self.place.path());
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier
    }
}

/// Items of an array at its place.
struct LocatedItems<'de, 'p> {
    items: Enumerate<slice::Iter<'de, Value>>,
    of: Located<'de, 'p>,
}

impl<'de> SeqAccess<'de> for LocatedItems<'de, '_> {
    type Error = PlaceError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, PlaceError> {
        let Some((index, value)) = self.items.next() else {
            return Ok(None);
        };
        let place = Place::Item(self.of.place, index);
        self.of.read(seed, value, &place).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

/// Members of an object at its place.
struct LocatedMembers<'de, 'p> {
    members: map::Iter<'de>,
    /// Member whose key was read, but not its value.
    next: Option<(&'de str, &'de Value)>,
    of: Located<'de, 'p>,
}

impl<'de> MapAccess<'de> for LocatedMembers<'de, '_> {
    type Error = PlaceError;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, PlaceError> {
        let Some((key, value)) = self.members.next() else {
            return Ok(None);
        };
        self.next = Some((key, value));
        let place = Place::Member(self.of.place, key);
        let key = seed.deserialize(BorrowedStrDeserializer::new(key));
        key.map(Some).map_err(|error: PlaceError| error.at(&place))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<S::Value, PlaceError> {
        let Some((key, value)) = self.next.take() else {
            return Err(de::Error::custom("value without a key"));
        };
        let place = Place::Member(self.of.place, key);
        self.of.read(seed, value, &place)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.members.len())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Sample {
        name: Option<String>,
        list: Vec<Inner>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Inner(u8, Kind);

    #[derive(Debug, Deserialize, PartialEq)]
    enum Kind {
        One,
        Two { size: i8 },
    }

    fn error(json: &Value) -> (String, String) {
        let located = decode::<Sample>(json).unwrap_err();
        let path = located.path().iter().map(|segment| match segment {
            Segment::Member(key) => format!(".{key}"),
            Segment::Item(index) => format!("[{index}]"),
        });
        (path.collect(), located.message())
    }

    #[test]
    fn values_and_errors_are_those_of_serde_json() {
        let good = json!({"list": [[1, "One"], [2, {"Two": {"size": -3}}]], "more": {"x": 1}});
        let (sample, ignored) = decode::<Sample>(&good).unwrap();
        assert_eq!(sample, Sample::deserialize(&good).unwrap());
        assert_eq!(ignored, [[Segment::Member("more".to_owned())]]);
        for (bad, path) in [
            (json!(null), ""),
            (json!(1.5), ""),
            (json!({"name": 5, "list": []}), ".name"),
            (json!({"name": "a"}), ""),
            (json!({"list": null}), ".list"),
            (json!({"list": [[1, "One"], [300, "One"]]}), ".list[1][0]"),
            (json!({"list": [[-1, "One"]]}), ".list[0][0]"),
            (json!({"list": [[1, "Three"]]}), ".list[0][1]"),
            (json!({"list": [[1, {"Two": {"size": "x"}}]]}), ".list[0][1]"),
            (json!({"list": [[1, "One", 2]]}), ".list[0]"),
            (json!({"list": [[1]]}), ".list[0]"),
        ] {
            let expected = Sample::deserialize(&bad).unwrap_err().to_string();
            assert_eq!(error(&bad), (path.to_owned(), expected), "{bad}");
        }
    }
}
