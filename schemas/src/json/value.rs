//! JSON values as trees.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use super::framer::{JsonError, Text, TextBuf};
use super::number::Number;
use super::reader::{Reader, ValueKind};
use super::write;

/// JSON value as a tree. Members of objects are sorted bytewise; the last of several members with
/// one name is kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number with an integral value.
    Integer(i64),
    /// A number without an integral value, or outside the range of `i64`.
    Real(f64),
    /// A string, normally UTF-8.
    String(Vec<u8>),
    /// An array.
    Array(Vec<Json>),
    /// An object.
    Object(BTreeMap<Vec<u8>, Json>),
}

/// Equality is total because JSON has no NaN.
impl Eq for Json {}

impl Hash for Json {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Null => {}
            Self::Bool(value) => value.hash(state),
            Self::Integer(value) => value.hash(state),
            // Adding zero turns -0 into 0, so that equal values have equal hashes.
            Self::Real(value) => (value + 0.0).to_bits().hash(state),
            Self::String(bytes) => bytes.hash(state),
            Self::Array(elements) => elements.hash(state),
            Self::Object(members) => members.hash(state),
        }
    }
}

impl Json {
    /// Returns a string value.
    pub fn string(text: impl AsRef<str>) -> Self {
        Self::String(text.as_ref().as_bytes().to_vec())
    }

    /// Returns an object value.
    pub fn object<const N: usize>(members: [(&str, Json); N]) -> Self {
        Self::Object(
            members.into_iter().map(|(name, value)| (name.as_bytes().to_vec(), value)).collect(),
        )
    }

    /// Parses one text, which is an object or an array.
    ///
    /// # Errors
    /// The text is malformed.
    pub fn parse(bytes: &[u8]) -> Result<Self, JsonError> {
        Ok(Self::from_text(TextBuf::parse(bytes.to_vec())?.as_text()))
    }

    /// Builds the tree of a validated text.
    pub fn from_text(text: Text<'_>) -> Self {
        Self::read(&mut Reader::new(text))
    }

    /// Builds the tree of the reader's next value.
    pub fn read(reader: &mut Reader<'_>) -> Self {
        match reader.kind() {
            ValueKind::Null => {
                reader.skip();
                Self::Null
            }
            ValueKind::Bool => Self::Bool(reader.boolean().unwrap_or_default()),
            ValueKind::Number => match reader.number() {
                Some(Number::Real(real)) => Self::Real(real),
                Some(Number::Integer(integer)) => Self::Integer(integer),
                None => Self::Null,
            },
            ValueKind::String => Self::String(reader.string().unwrap_or_default().into_owned()),
            ValueKind::Array => {
                reader.enter_array();
                let mut elements = Vec::new();
                while reader.next_element() {
                    elements.push(Self::read(reader));
                }
                Self::Array(elements)
            }
            ValueKind::Object => {
                reader.enter_object();
                let mut members = BTreeMap::new();
                while let Some(name) = reader.next_member() {
                    let value = Self::read(reader);
                    members.insert(name.into_owned(), value);
                }
                Self::Object(members)
            }
        }
    }

    /// Returns a member of an object. `None`: no such member, or not an object.
    pub fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Self::Object(members) => members.get(name.as_bytes()),
            _ => None,
        }
    }

    /// Returns the text of a string. `None`: not a string, or not UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Appends the compact text with sorted members.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            Self::Integer(value) => write::integer(out, *value),
            Self::Real(value) => write::real(out, *value),
            Self::String(bytes) => write::string(out, bytes),
            Self::Array(elements) => {
                out.push(b'[');
                for (i, element) in elements.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    element.write(out);
                }
                out.push(b']');
            }
            Self::Object(members) => {
                out.push(b'{');
                for (i, (name, value)) in members.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    write::string(out, name);
                    out.push(b':');
                    value.write(out);
                }
                out.push(b'}');
            }
        }
    }

    /// Returns the compact text with sorted members, which is the form of an error's `syntax`
    /// member.
    pub fn to_text(&self) -> String {
        let mut out = Vec::new();
        self.write(&mut out);
        String::from_utf8(out)
            .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_compact_and_sorted_and_the_last_duplicate_is_kept() {
        let json =
            Json::parse(br#" { "b" : [1.0, 2.5, "x/\u0001"], "a":null, "b2":{}, "a":true } "#)
                .unwrap();
        assert_eq!(json.to_text(), r#"{"a":true,"b":[1,2.5,"x/\u0001"],"b2":{}}"#);
    }
}
