//! Atomic values (RFC 7047 section 5.1, `<atom>`).

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smol_str::SmolStr;
use uuid::Uuid;

use crate::json::{format_real, write};

/// Atomic type (RFC 7047 section 3.2, `<atomic-type>`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AtomType {
    /// A signed 64-bit integer.
    Integer,
    /// A double-precision floating-point number.
    Real,
    /// `true` or `false`.
    Boolean,
    /// A UTF-8 string.
    String,
    /// A 128-bit UUID.
    Uuid,
}

impl AtomType {
    /// Returns the name in schemas and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Real => "real",
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Uuid => "uuid",
        }
    }

    /// Returns the type with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Integer, Self::Real, Self::Boolean, Self::String, Self::Uuid]
            .into_iter()
            .find(|t| t.name() == name)
    }

    /// Returns the default value (RFC 7047 section 5.2.1): 0, 0.0, false, "" or the all-zero UUID.
    pub fn default_atom(self) -> Atom {
        match self {
            Self::Integer => Atom::Integer(0),
            Self::Real => Atom::Real(Real(0.0)),
            Self::Boolean => Atom::Boolean(false),
            Self::String => Atom::String(SmolStr::default()),
            Self::Uuid => Atom::Uuid(Uuid::nil()),
        }
    }
}

/// A double that is never NaN. It is compared like a C double, so `-0` equals `0`.
#[derive(Clone, Copy, Debug)]
pub struct Real(pub f64);

impl PartialEq for Real {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Real {}

impl PartialOrd for Real {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Real {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal)
    }
}

impl Hash for Real {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Adding zero turns -0 into 0, so that equal values have equal hashes.
        (self.0 + 0.0).to_bits().hash(state);
    }
}

/// Atomic value.
///
/// Atoms of one type are ordered like in ovsdb-server: numbers by value, `false` before `true`,
/// strings bytewise, UUIDs by their 128-bit value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Atom {
    /// An integer.
    Integer(i64),
    /// A real.
    Real(Real),
    /// A boolean.
    Boolean(bool),
    /// A string. Clones share the allocation of a long string; a short one is stored inline.
    String(SmolStr),
    /// A UUID.
    Uuid(Uuid),
}

impl Atom {
    /// Returns the type of this atom.
    pub fn atom_type(&self) -> AtomType {
        match self {
            Self::Integer(_) => AtomType::Integer,
            Self::Real(_) => AtomType::Real,
            Self::Boolean(_) => AtomType::Boolean,
            Self::String(_) => AtomType::String,
            Self::Uuid(_) => AtomType::Uuid,
        }
    }

    /// `true` if this is the default of its type.
    pub fn is_default(&self) -> bool {
        match self {
            Self::Integer(value) => *value == 0,
            Self::Real(value) => value.0 == 0.0,
            Self::Boolean(value) => !value,
            Self::String(value) => value.is_empty(),
            Self::Uuid(value) => value.is_nil(),
        }
    }

    /// Returns the string. `None`: the atom has another type.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the UUID. `None`: the atom has another type.
    pub fn as_uuid(&self) -> Option<Uuid> {
        match self {
            Self::Uuid(uuid) => Some(*uuid),
            _ => None,
        }
    }

    /// Returns the integer. `None`: the atom has another type.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the boolean. `None`: the atom has another type.
    pub fn as_boolean(&self) -> Option<bool> {
        match self {
            Self::Boolean(value) => Some(*value),
            _ => None,
        }
    }

    /// Appends the atom in RFC 7047 notation.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Self::Integer(value) => write::integer(out, *value),
            Self::Real(value) => write::real(out, value.0),
            Self::Boolean(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            Self::String(text) => write::string(out, text.as_bytes()),
            Self::Uuid(uuid) => {
                out.extend_from_slice(b"[\"uuid\",\"");
                write_uuid(out, *uuid);
                out.extend_from_slice(b"\"]");
            }
        }
    }
}

/// Appends the 36 characters of a UUID.
pub fn write_uuid(out: &mut Vec<u8>, uuid: Uuid) {
    let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
    out.extend_from_slice(uuid.as_hyphenated().encode_lower(&mut text).as_bytes());
}

/// Parses a UUID of 8-4-4-4-12 hexadecimal digits in upper or lower case, the only form that OVSDB
/// accepts.
pub fn parse_uuid(text: &[u8]) -> Option<Uuid> {
    if text.len() != uuid::fmt::Hyphenated::LENGTH {
        return None;
    }
    Uuid::try_parse_ascii(text).ok()
}

/// Text form in error messages: strings that look like identifiers are not quoted.
impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Real(value) => f.write_str(&format_real(value.0)),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Uuid(uuid) => write!(f, "{uuid}"),
            Self::String(text) if is_bare(text) => f.write_str(text),
            Self::String(text) => {
                let mut quoted = Vec::with_capacity(text.len() + 2);
                write::string(&mut quoted, text.as_bytes());
                f.write_str(&String::from_utf8_lossy(&quoted))
            }
        }
    }
}

/// `true` if ovsdb-server prints a string without quotes.
fn is_bare(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    let first = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    text.as_bytes().first().is_some_and(|b| first(*b))
        && text.bytes().all(word)
        && text != "true"
        && text != "false"
        && parse_uuid(text.as_bytes()).is_none()
}

macro_rules! atom_from {
    ($($from:ty => |$value:ident| $atom:expr),* $(,)?) => {$(
        impl From<$from> for Atom {
            fn from($value: $from) -> Self {
                $atom
            }
        }
    )*};
}

atom_from! {
    i64 => |value| Self::Integer(value),
    f64 => |value| Self::Real(Real(value)),
    bool => |value| Self::Boolean(value),
    &str => |value| Self::String(SmolStr::new(value)),
    String => |value| Self::String(SmolStr::from(value)),
    Arc<str> => |value| Self::String(SmolStr::from(value)),
    SmolStr => |value| Self::String(value),
    Uuid => |value| Self::Uuid(value),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_atom_is_three_words() {
        assert_eq!(size_of::<Atom>(), 24);
    }

    #[test]
    fn strings_are_ordered_bytewise() {
        let mut atoms: Vec<Atom> = ["é", "a", "_", "B", "9", "10", ""].map(Atom::from).to_vec();
        atoms.sort();
        assert_eq!(atoms, ["", "10", "9", "B", "_", "a", "é"].map(Atom::from));
    }

    #[test]
    fn messages_quote_strings_that_are_not_identifiers() {
        for (text, shown) in [
            ("a-b.c", "a-b.c"),
            ("9a", "\"9a\""),
            ("true", "\"true\""),
            ("", "\"\""),
            ("a b", "\"a b\""),
        ] {
            assert_eq!(Atom::from(text).to_string(), shown);
        }
    }

    #[test]
    fn uuids_have_one_form() {
        assert!(parse_uuid(b"550E8400-e29b-41d4-a716-446655440000").is_some());
        assert!(parse_uuid(b"550e8400e29b41d4a716446655440000").is_none());
        assert!(parse_uuid(b"{550e8400-e29b-41d4-a716-44665544000}").is_none());
    }
}
