//! `<value>`, `<atom>`, `<set>` and `<map>` (RFC 7047 §5.1), directed by the column's type.

use std::borrow::Cow;

use uuid::Uuid;

use crate::atom::{Atom, AtomType, Real, parse_uuid};
use crate::datum::{Datum, Key, MapBuffers, MapBuilder, Set};
use crate::error::OvsdbError;
use crate::json::{Kind, Number, Reader};
use crate::schema::{BaseType, ColumnType, is_id};
use crate::strings::Strings;
use crate::utf8::utf8;

use super::named_uuids::NamedUuids;

/// Decodes values. Strings are shared through a [`Strings`]; `named-uuid` is understood when there are [`NamedUuids`].
pub struct NotationReader<'s, 'n, 'u> {
    strings: &'s mut Strings,
    named: Option<&'n mut NamedUuids<'u>>,
    /// Emptied and used again for each set and map.
    atoms: Vec<Atom>,
    pairs: MapBuffers,
}

impl<'s, 'n, 'u> NotationReader<'s, 'n, 'u> {
    /// A reader that refuses `named-uuid`.
    pub fn new(strings: &'s mut Strings) -> Self {
        Self {
            strings,
            named: None,
            atoms: Vec::new(),
            pairs: MapBuffers::default(),
        }
    }

    /// A reader for a `transact` request.
    pub fn with_named_uuids(strings: &'s mut Strings, named: &'n mut NamedUuids<'u>) -> Self {
        Self {
            strings,
            named: Some(named),
            atoms: Vec::new(),
            pairs: MapBuffers::default(),
        }
    }

    /// The named-uuids, where they are understood.
    pub(super) fn named_uuids(&mut self) -> Option<&mut NamedUuids<'u>> {
        self.named.as_deref_mut()
    }

    /// Decodes a value and checks it against its type.
    ///
    /// # Errors
    /// ovsdb-server's complaint. The reader's position is then undefined.
    pub fn datum<const PROVING: bool>(
        &mut self,
        reader: &mut Reader<'_, PROVING>,
        ty: &ColumnType,
    ) -> Result<Datum, OvsdbError> {
        self.datum_like(reader, ty, None)
    }

    /// As [`datum`](Self::datum). What is equal in a value that is `likely` to be the same or similar, such as that of
    /// the same column in another row, is shared with it, at less cost than that of decoding it.
    ///
    /// # Errors
    /// As of [`datum`](Self::datum).
    pub fn datum_like<const PROVING: bool>(
        &mut self,
        reader: &mut Reader<'_, PROVING>,
        ty: &ColumnType,
        likely: Option<&Datum>,
    ) -> Result<Datum, OvsdbError> {
        let start = *reader;
        match &ty.value {
            Some(value) => {
                let inner = enter_tagged(reader, "map", start)?;
                let mut pairs = std::mem::take(&mut self.pairs);
                let likely = likely.and_then(Datum::as_map);
                let mut builder = MapBuilder::new(&mut pairs, likely);
                let outcome = self.pairs(reader, &ty.key, value, &mut builder);
                leave_tagged(reader, "map", start, outcome.is_ok())?;
                check_count(
                    ty,
                    "map",
                    outcome.is_ok().then_some(builder.len()),
                    inner,
                    start,
                )?;
                outcome?;
                let map = builder.finish();
                self.pairs = pairs;
                map.map(Datum::Map)
                    .ok_or_else(|| OvsdbError::new("ovsdb error", "map contains duplicate key"))
            }
            None if is_set(*reader) => {
                let inner = enter_tagged(reader, "set", start)?;
                let mut atoms = std::mem::take(&mut self.atoms);
                let outcome = self.elements(reader, &ty.key, &mut atoms);
                leave_tagged(reader, "set", start, outcome.is_ok())?;
                check_count(
                    ty,
                    "set",
                    outcome.is_ok().then_some(atoms.len()),
                    inner,
                    start,
                )?;
                outcome?;
                let likely = likely.and_then(Datum::as_set);
                let set = match likely.filter(|likely| likely.iter().eq(&atoms)) {
                    Some(likely) => {
                        atoms.clear();
                        Some(likely.clone())
                    }
                    None => Set::from_distinct(&mut atoms),
                };
                self.atoms = atoms;
                set.map(Datum::Set)
                    .ok_or_else(|| OvsdbError::new("ovsdb error", "set contains duplicate"))
            }
            None => {
                let likely = likely.and_then(Datum::as_scalar);
                Ok(Datum::Set(Set::one(
                    self.checked_atom(reader, &ty.key, likely)?,
                )))
            }
        }
    }

    /// Reads `[string, string,` of a clause or mutation; none where the value does not begin so.
    pub(super) fn triple_head<'a>(reader: &mut Reader<'a>) -> Option<(Cow<'a, str>, Cow<'a, str>)> {
        let word = |reader: &mut Reader<'a>| Some(lossy(reader.string()?));
        if !reader.enter_array() || !reader.next_element() {
            return None;
        }
        let first = word(reader)?;
        if !reader.next_element() {
            return None;
        }
        let second = word(reader)?;
        reader.next_element().then_some((first, second))
    }

    fn elements<const PROVING: bool>(
        &mut self,
        reader: &mut Reader<'_, PROVING>,
        key: &BaseType,
        out: &mut Vec<Atom>,
    ) -> Result<(), OvsdbError> {
        while reader.next_element() {
            out.push(self.checked_atom(reader, key, None)?);
        }
        Ok(())
    }

    fn pairs<const PROVING: bool>(
        &mut self,
        reader: &mut Reader<'_, PROVING>,
        key: &BaseType,
        value: &BaseType,
        builder: &mut MapBuilder<'_, '_>,
    ) -> Result<(), OvsdbError> {
        while reader.next_element() {
            let start = *reader;
            // That it is a pair matters before what is wrong in it.
            let likely = builder.expected();
            match self.pair(reader, key, value, likely, builder.expects_plain()) {
                Ok(Some((key, value))) => builder.push(key, value),
                Err(error) if array_len(start) == Some(2) => return Err(error),
                Ok(None) | Err(_) => {
                    return Err(OvsdbError::syntax_at(start, "expected 2-element array"));
                }
            }
        }
        Ok(())
    }

    /// None for what is no array of two elements.
    fn pair<'l, const PROVING: bool>(
        &mut self,
        reader: &mut Reader<'_, PROVING>,
        key: &BaseType,
        value: &BaseType,
        likely: Option<(&'l Atom, &'l Atom)>,
        is_plain: bool,
    ) -> Result<Option<(Key<'l>, Atom)>, OvsdbError> {
        if !reader.enter_array() || !reader.next_element() {
            return Ok(None);
        }
        let key = match likely {
            Some((likely @ Atom::String(text), _)) if is_plain && reader.is_plain_string(text) => {
                Key::Expected(likely)
            }
            _ => Key::Other(self.checked_atom(reader, key, None)?),
        };
        if !reader.next_element() {
            return Ok(None);
        }
        let value = self.checked_atom(reader, value, likely.map(|(_, value)| value))?;
        Ok((!reader.next_element()).then_some((key, value)))
    }

    fn checked_atom<const PROVING: bool>(
        &mut self,
        reader: &mut Reader<'_, PROVING>,
        base: &BaseType,
        likely: Option<&Atom>,
    ) -> Result<Atom, OvsdbError> {
        let atom = self.atom(reader, base.atom, likely)?;
        base.check(&atom)?;
        Ok(atom)
    }

    /// Decodes one atom.
    fn atom<const PROVING: bool>(
        &mut self,
        reader: &mut Reader<'_, PROVING>,
        ty: AtomType,
        likely: Option<&Atom>,
    ) -> Result<Atom, OvsdbError> {
        let start = *reader;
        let atom = match ty {
            AtomType::Integer => reader.integer().map(Atom::Integer),
            AtomType::Real => reader.number().map(|number| {
                Atom::Real(Real(match number {
                    Number::Integer(integer) => integer as f64,
                    Number::Real(real) => real,
                }))
            }),
            AtomType::Boolean => reader.boolean().map(Atom::Boolean),
            AtomType::String => match (reader.string(), likely) {
                (Some(bytes), Some(Atom::String(text))) if *bytes == *text.as_bytes() => {
                    Some(Atom::String(text.clone()))
                }
                (Some(bytes), _) => Some(Atom::String(self.strings.share(utf8(&bytes)?))),
                (None, _) => None,
            },
            AtomType::Uuid => return self.uuid(reader).map(Atom::Uuid),
        };
        atom.ok_or_else(|| OvsdbError::syntax_at(start, format!("expected {}", ty.name())))
    }

    fn uuid<const PROVING: bool>(
        &mut self,
        reader: &mut Reader<'_, PROVING>,
    ) -> Result<Uuid, OvsdbError> {
        let start = *reader;
        let malformed = || OvsdbError::syntax_at(start, "expected [\"uuid\", <string>]");
        if !reader.enter_array() || !reader.next_element() {
            return Err(malformed());
        }
        let tag = reader.string().ok_or_else(malformed)?;
        if !reader.next_element() {
            return Err(malformed());
        }
        let text = reader.string().ok_or_else(malformed)?;
        if reader.next_element() {
            return Err(malformed());
        }
        match (&tag[..], &mut self.named) {
            (b"uuid", _) => parse_uuid(&text).ok_or_else(|| {
                let text = String::from_utf8_lossy(&text);
                OvsdbError::syntax_at(start, format!("\"{text}\" is not a valid UUID"))
            }),
            (b"named-uuid", Some(named)) => match std::str::from_utf8(&text) {
                Ok(name) if is_id(name) => Ok(named.mention(name)),
                _ => Err(OvsdbError::syntax_at(
                    start,
                    "named-uuid string is not a valid <id>",
                )),
            },
            _ => Err(malformed()),
        }
    }
}

/// The error of a clause or mutation at `start`: its shape (three elements, the first two strings) matters first.
pub(super) fn triple_error(
    start: Reader<'_>,
    error: Option<OvsdbError>,
    malformed: &str,
) -> OvsdbError {
    match error {
        Some(error) if array_len(start) == Some(3) => error,
        _ => OvsdbError::syntax_at(start, malformed),
    }
}

/// Names that are not UTF-8 match nothing; messages show them with replacement characters.
fn lossy(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    match bytes {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// Whether the value is an array that begins with `"set"`, and so must be a `<set>`.
fn is_set<const PROVING: bool>(mut at: Reader<'_, PROVING>) -> bool {
    at.enter_array() && at.next_element() && at.string().as_deref() == Some(b"set")
}

/// Enters `[tag, [`; returns the position of the inner array.
fn enter_tagged<'a, const PROVING: bool>(
    reader: &mut Reader<'a, PROVING>,
    tag: &str,
    start: Reader<'a, PROVING>,
) -> Result<Reader<'a, PROVING>, OvsdbError> {
    let entered = reader.enter_array()
        && reader.next_element()
        && reader.string().as_deref() == Some(tag.as_bytes())
        && reader.next_element();
    let inner = *reader;
    if entered && reader.enter_array() {
        return Ok(inner);
    }
    Err(OvsdbError::syntax_at(
        start,
        format!("expected [\"{tag}\", <array>]"),
    ))
}

/// Leaves `[tag, [...]]`. That nothing follows the inner array matters before what is wrong in it, where the reader has
/// stopped in the middle then.
fn leave_tagged<const PROVING: bool>(
    reader: &mut Reader<'_, PROVING>,
    tag: &str,
    start: Reader<'_, PROVING>,
    at_end: bool,
) -> Result<(), OvsdbError> {
    let is_longer = if at_end {
        reader.next_element()
    } else {
        array_len(start) != Some(2)
    };
    if is_longer {
        return Err(OvsdbError::syntax_at(
            start,
            format!("expected [\"{tag}\", <array>]"),
        ));
    }
    Ok(())
}

/// The number of elements of an array.
fn array_len<const PROVING: bool>(mut at: Reader<'_, PROVING>) -> Option<usize> {
    if at.kind() != Kind::Array {
        return None;
    }
    at.enter_array();
    let mut len = 0;
    while at.next_element() {
        at.skip();
        len += 1;
    }
    Some(len)
}

/// The count of elements matters before any fault of an element; `decoded` is none when one had a fault.
fn check_count<const PROVING: bool>(
    ty: &ColumnType,
    class: &str,
    decoded: Option<usize>,
    inner: Reader<'_, PROVING>,
    start: Reader<'_, PROVING>,
) -> Result<(), OvsdbError> {
    let n = decoded.or_else(|| array_len(inner)).unwrap_or(0);
    if n >= ty.min as usize && n <= ty.max as usize {
        return Ok(());
    }
    let details = if (ty.min, ty.max) == (1, 1) {
        format!("{class} must have exactly one member but {n} are present")
    } else {
        format!(
            "{class} must have {} to {} members but {n} are present",
            ty.min, ty.max
        )
    };
    Err(OvsdbError::syntax_at(start, details))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::TextBuf;

    fn decode(value: &str, ty: &ColumnType) -> Result<Datum, OvsdbError> {
        let bytes = [b"[", value.as_bytes(), b"]"].concat();
        let text = TextBuf::parse(bytes).unwrap();
        let mut reader = Reader::new(text.as_text());
        reader.enter_array();
        reader.next_element();
        NotationReader::new(&mut Strings::default()).datum(&mut reader, ty)
    }

    fn set_of(atom: AtomType, min: u32, max: u32) -> ColumnType {
        ColumnType {
            key: BaseType::unconstrained(atom),
            value: None,
            min,
            max,
        }
    }

    #[test]
    fn values_round_trip() {
        let map = ColumnType {
            value: Some(BaseType::unconstrained(AtomType::Integer)),
            ..set_of(AtomType::String, 0, u32::MAX)
        };
        for (value, canonical, ty) in [
            ("1.0", "1", set_of(AtomType::Integer, 1, 1)),
            (r#"["set",["a"]]"#, r#""a""#, set_of(AtomType::String, 1, 1)),
            (
                r#"["set",["b","a"]]"#,
                r#"["set",["a","b"]]"#,
                set_of(AtomType::String, 0, u32::MAX),
            ),
            (
                r#"["set",[]]"#,
                r#"["set",[]]"#,
                set_of(AtomType::Real, 0, 1),
            ),
            (r#"["map",[["k",1e1]]]"#, r#"["map",[["k",10]]]"#, map),
        ] {
            let mut out = Vec::new();
            decode(value, &ty).unwrap().write_json(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), canonical);
        }
    }

    #[test]
    fn complaints_are_ovsdb_servers() {
        let int = set_of(AtomType::Integer, 1, 1);
        let strings = set_of(AtomType::String, 0, 2);
        let uuid = set_of(AtomType::Uuid, 1, 1);
        for (value, ty, error) in [
            ("\"x\"", &int, "syntax error: expected integer (in \"x\")"),
            ("1.5", &int, "syntax error: expected integer (in 1.5)"),
            (
                "9223372036854775808",
                &int,
                "syntax error: expected integer (in 9.22337203685478e+18)",
            ),
            (
                r#"["set",[1,2]]"#,
                &int,
                "syntax error: set must have exactly one member but 2 are present (in [\"set\",[1,2]])",
            ),
            (
                r#"["set",["a","b","c"]]"#,
                &strings,
                "syntax error: set must have 0 to 2 members but 3 are present (in [\"set\",[\"a\",\"b\",\"c\"]])",
            ),
            (
                r#"["set",["a","a"]]"#,
                &strings,
                "ovsdb error: set contains duplicate",
            ),
            (
                r#"["set"]"#,
                &strings,
                "syntax error: expected [\"set\", <array>] (in [\"set\"])",
            ),
            (
                r#"["zet",[]]"#,
                &strings,
                "syntax error: expected string (in [\"zet\",[]])",
            ),
            (
                r#"["uuid","x"]"#,
                &uuid,
                "syntax error: \"x\" is not a valid UUID (in [\"uuid\",\"x\"])",
            ),
            (
                r#"["named-uuid","x"]"#,
                &uuid,
                "syntax error: expected [\"uuid\", <string>] (in [\"named-uuid\",\"x\"])",
            ),
        ] {
            assert_eq!(decode(value, ty).unwrap_err().to_string(), error);
        }
    }
}
