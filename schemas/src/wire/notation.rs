//! `<value>`, `<atom>`, `<set>` and `<map>` (RFC 7047 section 5.1), decoded by the type of the
//! column.

mod elements;

use uuid::Uuid;

use crate::atom::{Atom, AtomType, Real, parse_uuid};
use crate::datum::{Datum, Key, MapBuffers, MapBuilder, Set};
use crate::error::OvsdbError;
use crate::json::{Number, Reader, ValueKind};
use crate::schema::{BaseType, ColumnType, Constraint, is_id};
use crate::strings::StringCache;
use crate::utf8::utf8;

use super::named_uuids::NamedUuids;

/// Decoder of values.
///
/// It shares strings through a [`StringCache`]. It accepts `named-uuid` only with [`NamedUuids`].
pub struct NotationReader<'s, 'n, 'u> {
    strings: &'s mut StringCache,
    named: Option<&'n mut NamedUuids<'u>>,
    /// Buffer for the elements of a set.
    atoms: Vec<Atom>,
    /// Buffers for the pairs of a map.
    pairs: MapBuffers,
}

impl<'s, 'n, 'u> NotationReader<'s, 'n, 'u> {
    /// Returns a decoder that refuses `named-uuid`.
    pub fn new(strings: &'s mut StringCache) -> Self {
        Self { strings, named: None, atoms: Vec::new(), pairs: MapBuffers::default() }
    }

    /// Returns a decoder for a `transact` request.
    pub fn with_named_uuids(strings: &'s mut StringCache, named: &'n mut NamedUuids<'u>) -> Self {
        Self { strings, named: Some(named), atoms: Vec::new(), pairs: MapBuffers::default() }
    }

    /// Returns the named-uuids. `None`: they are refused.
    pub(super) fn named_uuids(&mut self) -> Option<&mut NamedUuids<'u>> {
        self.named.as_deref_mut()
    }

    /// Decodes a value and checks it against its type.
    ///
    /// # Errors
    /// The value is malformed or violates its type; worded like in ovsdb-server. The position of
    /// the reader is then unspecified.
    pub fn datum<const VALIDATING: bool>(
        &mut self,
        reader: &mut Reader<'_, VALIDATING>,
        ty: &ColumnType,
    ) -> Result<Datum, OvsdbError> {
        self.datum_with_template(reader, ty, None)
    }

    /// Like [`datum`](Self::datum), sharing equal parts with `template`.
    ///
    /// The template is a value that is probably equal or similar, such as that of the same column
    /// in the previous row. Sharing costs less than decoding.
    ///
    /// # Errors
    /// The same as those of [`datum`](Self::datum).
    pub fn datum_with_template<const VALIDATING: bool>(
        &mut self,
        reader: &mut Reader<'_, VALIDATING>,
        ty: &ColumnType,
        template: Option<&Datum>,
    ) -> Result<Datum, OvsdbError> {
        let start = *reader;
        match &ty.value {
            Some(value) => {
                let inner = enter_tagged(reader, "map", start)?;
                let mut pairs = std::mem::take(&mut self.pairs);
                let template = template.and_then(Datum::as_map);
                let mut builder = MapBuilder::new(&mut pairs, template);
                let outcome = self.pairs(reader, &ty.key, value, &mut builder);
                leave_tagged(reader, "map", start, outcome.is_ok())?;
                check_count(ty, "map", outcome.is_ok().then_some(builder.len()), inner, start)?;
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
                check_count(ty, "set", outcome.is_ok().then_some(atoms.len()), inner, start)?;
                outcome?;
                let template = template.and_then(Datum::as_set);
                let set = match template.filter(|template| template.iter().eq(&atoms)) {
                    Some(template) => {
                        atoms.clear();
                        Some(template.clone())
                    }
                    None => Set::from_distinct(&mut atoms),
                };
                self.atoms = atoms;
                set.map(Datum::Set)
                    .ok_or_else(|| OvsdbError::new("ovsdb error", "set contains duplicate"))
            }
            None => {
                let template = template.and_then(Datum::as_scalar);
                let atom = self.checked_atom(reader, &ty.key, template)?;
                Ok(Datum::Set(Set::one(atom)))
            }
        }
    }

    /// Decodes the pairs of a map.
    fn pairs<const VALIDATING: bool>(
        &mut self,
        reader: &mut Reader<'_, VALIDATING>,
        key: &BaseType,
        value: &BaseType,
        builder: &mut MapBuilder<'_, '_>,
    ) -> Result<(), OvsdbError> {
        while reader.next_element() {
            let start = *reader;
            // An error in the form of the pair precedes an error in its atoms.
            let expected = builder.expected();
            match self.pair(reader, key, value, expected, builder.expects_plain()) {
                Ok(Some((key, value))) => builder.push(key, value),
                Err(error) if array_len(start) == Some(2) => return Err(error),
                Ok(None) | Err(_) => {
                    return Err(OvsdbError::syntax_at(start, "expected 2-element array"));
                }
            }
        }
        Ok(())
    }

    /// Decodes a pair. `None`: not an array of two elements.
    ///
    /// `is_plain`: the expected key is a string without characters that JSON escapes.
    fn pair<'l, const VALIDATING: bool>(
        &mut self,
        reader: &mut Reader<'_, VALIDATING>,
        key: &BaseType,
        value: &BaseType,
        expected: Option<(&'l Atom, &'l Atom)>,
        is_plain: bool,
    ) -> Result<Option<(Key<'l>, Atom)>, OvsdbError> {
        if !reader.enter_array() || !reader.next_element() {
            return Ok(None);
        }
        let key = match expected {
            Some((key @ Atom::String(text), _)) if is_plain && reader.is_plain_string(text) => {
                Key::Expected(key)
            }
            _ => Key::Other(self.checked_atom(reader, key, None)?),
        };
        if !reader.next_element() {
            return Ok(None);
        }
        let value = self.checked_atom(reader, value, expected.map(|(_, value)| value))?;
        Ok((!reader.next_element()).then_some((key, value)))
    }

    /// Decodes an atom and checks its constraint.
    fn checked_atom<const VALIDATING: bool>(
        &mut self,
        reader: &mut Reader<'_, VALIDATING>,
        base: &BaseType,
        template: Option<&Atom>,
    ) -> Result<Atom, OvsdbError> {
        let atom = self.atom(reader, base, template)?;
        base.check(&atom)?;
        Ok(atom)
    }

    /// Decodes one atom.
    fn atom<const VALIDATING: bool>(
        &mut self,
        reader: &mut Reader<'_, VALIDATING>,
        base: &BaseType,
        template: Option<&Atom>,
    ) -> Result<Atom, OvsdbError> {
        let start = *reader;
        let atom = match base.atom {
            AtomType::Integer => reader.integer().map(Atom::Integer),
            AtomType::Real => reader.number().map(|number| {
                Atom::Real(Real(match number {
                    Number::Integer(integer) => integer as f64,
                    Number::Real(real) => real,
                }))
            }),
            AtomType::Boolean => reader.boolean().map(Atom::Boolean),
            AtomType::String => match (reader.string(), template) {
                (Some(bytes), Some(Atom::String(text))) if *bytes == *text.as_bytes() => {
                    Some(Atom::String(text.clone()))
                }
                (Some(bytes), _) => {
                    let text = utf8(&bytes).map_err(|error| invalid_text(&bytes, base, error))?;
                    Some(Atom::String(self.strings.share(text)))
                }
                (None, _) => None,
            },
            AtomType::Uuid => return self.uuid(reader).map(Atom::Uuid),
        };
        atom.ok_or_else(|| OvsdbError::syntax_at(start, format!("expected {}", base.atom.name())))
    }

    /// Decodes `["uuid","..."]` or `["named-uuid","..."]` in few steps, because long sets hold
    /// references. `None`: the value is written differently, or it is invalid.
    fn compact_uuid<const VALIDATING: bool>(
        &mut self,
        reader: &mut Reader<'_, VALIDATING>,
    ) -> Option<Uuid> {
        let mut ahead = *reader;
        let uuid = match (ahead.compact_pair("uuid"), &mut self.named) {
            (Some(text), _) => parse_uuid(text),
            (None, Some(named)) => {
                let name = std::str::from_utf8(ahead.compact_pair("named-uuid")?).ok()?;
                is_id(name).then(|| named.resolve(name))
            }
            (None, None) => None,
        };
        *reader = uuid.map(|_| ahead)?;
        uuid
    }

    /// Decodes `["uuid", ...]` or `["named-uuid", ...]`.
    fn uuid<const VALIDATING: bool>(
        &mut self,
        reader: &mut Reader<'_, VALIDATING>,
    ) -> Result<Uuid, OvsdbError> {
        if let Some(uuid) = self.compact_uuid(reader) {
            return Ok(uuid);
        }
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
                Ok(name) if is_id(name) => Ok(named.resolve(name)),
                _ => Err(OvsdbError::syntax_at(start, "named-uuid string is not a valid <id>")),
            },
            _ => Err(malformed()),
        }
    }
}

/// Returns the error of a string that is not UTF-8. ovsdb-server looks it up in the allowed values
/// first.
#[cold]
fn invalid_text(bytes: &[u8], base: &BaseType, error: OvsdbError) -> OvsdbError {
    let shown = Atom::from(String::from_utf8_lossy(bytes).into_owned());
    match &base.constraint {
        Constraint::Enum(_) => base.check(&shown).err().unwrap_or(error),
        _ => error,
    }
}

/// `true` if the value is an array that starts with `"set"`, and must therefore be a `<set>`.
fn is_set<const VALIDATING: bool>(mut at: Reader<'_, VALIDATING>) -> bool {
    at.enter_array() && at.next_element() && at.string().as_deref() == Some(b"set")
}

/// Enters `[tag, [` and returns the position of the inner array.
fn enter_tagged<'a, const VALIDATING: bool>(
    reader: &mut Reader<'a, VALIDATING>,
    tag: &str,
    start: Reader<'a, VALIDATING>,
) -> Result<Reader<'a, VALIDATING>, OvsdbError> {
    let entered = reader.enter_array()
        && reader.next_element()
        && reader.string().as_deref() == Some(tag.as_bytes())
        && reader.next_element();
    let inner = *reader;
    if entered && reader.enter_array() {
        return Ok(inner);
    }
    Err(OvsdbError::syntax_at(start, format!("expected [\"{tag}\", <array>]")))
}

/// Leaves `[tag, [...]]`.
///
/// An element behind the inner array is an error that precedes errors of the inner array. `at_end`
/// is false if the reader stopped within the inner array because of such an error.
fn leave_tagged<const VALIDATING: bool>(
    reader: &mut Reader<'_, VALIDATING>,
    tag: &str,
    start: Reader<'_, VALIDATING>,
    at_end: bool,
) -> Result<(), OvsdbError> {
    let is_longer = if at_end { reader.next_element() } else { array_len(start) != Some(2) };
    if is_longer {
        return Err(OvsdbError::syntax_at(start, format!("expected [\"{tag}\", <array>]")));
    }
    Ok(())
}

/// Returns the number of elements of an array. `None`: the value is not an array.
pub(super) fn array_len<const VALIDATING: bool>(mut at: Reader<'_, VALIDATING>) -> Option<usize> {
    if at.kind() != ValueKind::Array {
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

/// Checks the number of elements. Its error precedes errors of elements; `decoded` is `None` if
/// there was such an error.
fn check_count<const VALIDATING: bool>(
    ty: &ColumnType,
    class: &str,
    decoded: Option<usize>,
    inner: Reader<'_, VALIDATING>,
    start: Reader<'_, VALIDATING>,
) -> Result<(), OvsdbError> {
    let n = decoded.or_else(|| array_len(inner)).unwrap_or(0);
    if n >= ty.min as usize && n <= ty.max as usize {
        return Ok(());
    }
    let details = if (ty.min, ty.max) == (1, 1) {
        format!("{class} must have exactly one member but {n} are present")
    } else {
        format!("{class} must have {} to {} members but {n} are present", ty.min, ty.max)
    };
    Err(OvsdbError::syntax_at(start, details))
}

#[cfg(test)]
mod tests;
