//! Elements of a `<set>`.

use memchr::memmem;

use super::NotationReader;
use crate::atom::{Atom, AtomType};
use crate::error::OvsdbError;
use crate::json::Reader;
use crate::schema::BaseType;
use crate::strings::StringCache;
use crate::uuids::UuidSource;
use crate::wire::named_uuids::{NameKey, NamedUuids};

/// Number of elements from which on room is reserved for the rest of a set, as if it were the rest
/// of the text. Room that is not used takes no memory.
const LONG_SET_ELEMENTS: usize = 1024;
/// Greatest number of elements for which room is reserved.
const MAX_RESERVED_ELEMENTS: usize = 1 << 16;
/// Least length in bytes of the rest of a set that two threads decode.
const MIN_SHARED_BYTES: usize = 1 << 16;

impl NotationReader<'_, '_, '_> {
    /// Decodes the elements of a set.
    pub(super) fn elements<const VALIDATING: bool>(
        &mut self,
        reader: &mut Reader<'_, VALIDATING>,
        key: &BaseType,
        out: &mut Vec<Atom>,
    ) -> Result<(), OvsdbError> {
        let start = reader.position();
        while reader.next_element() {
            out.push(self.checked_atom(reader, key, None)?);
            if out.len() == LONG_SET_ELEMENTS {
                let element_len = (reader.position() - start) / LONG_SET_ELEMENTS;
                let likely = reader.rest_len() / element_len.max(1);
                out.reserve(likely.min(MAX_RESERVED_ELEMENTS));
                let middle = reader.validated().and_then(middle);
                if let Some(middle) = middle.filter(|_| key.atom == AtomType::Uuid) {
                    return self.elements_on_two_threads(reader, middle, key, out);
                }
            }
        }
        Ok(())
    }

    /// Decodes the rest of a set of UUIDs, and at the same time elements from `middle` on.
    fn elements_on_two_threads<const VALIDATING: bool>(
        &mut self,
        reader: &mut Reader<'_, VALIDATING>,
        middle: Reader<'_>,
        key: &BaseType,
        out: &mut Vec<Atom>,
    ) -> Result<(), OvsdbError> {
        let names = self.named.as_ref().map(|named| named.shared_key());
        if names == Some(None) {
            return self.elements(reader, key, out);
        }
        let own_half = || {
            while reader.position() < middle.position() {
                if !reader.next_element() {
                    return Ok(true);
                }
                out.push(self.checked_atom(reader, key, None)?);
            }
            Ok(false)
        };
        let other_half = || compact_elements(middle, key, names.flatten());
        let (has_ended, (atoms, end)) = rayon::join(own_half, other_half);
        if has_ended? {
            return Ok(());
        }
        // Only invalid elements have brackets inside.
        if reader.position() == middle.position() {
            out.extend(atoms);
            reader.move_to(end);
        }
        // Errors, and what is not an element although it looks like one.
        self.elements(reader, key, out)
    }
}

/// Decodes elements, each behind a comma, up to the end of the set or to one that is invalid or not
/// compact. Returns them with the position behind the last one.
fn compact_elements(
    mut at: Reader<'_>,
    key: &BaseType,
    names: Option<NameKey>,
) -> (Vec<Atom>, usize) {
    let (mut strings, mut uuids) = (StringCache::default(), UuidSource::random());
    let mut named = names.map(|key| NamedUuids::with_key(&mut uuids, key));
    let mut notation =
        NotationReader { named: named.as_mut(), ..NotationReader::new(&mut strings) };
    let mut atoms = Vec::new();
    let mut end = at.position();
    while at.rest().first() == Some(&b',') {
        at.move_to(end + 1);
        let uuid = notation.compact_uuid(&mut at).map(Atom::Uuid);
        let Some(atom) = uuid.filter(|atom| key.check(atom).is_ok()) else {
            break;
        };
        atoms.push(atom);
        end = at.position();
    }
    (atoms, end)
}

/// Returns a position near the middle of the rest of a long set. It is before a comma that follows
/// an element, if the elements are arrays of strings without brackets. `None`: the rest is short, or
/// written with white space.
fn middle(mut reader: Reader<'_>) -> Option<Reader<'_>> {
    let rest = reader.rest();
    let len = memmem::find(rest, b"]]")?;
    if len < MIN_SHARED_BYTES {
        return None;
    }
    let half = len / 2;
    let comma = half + memmem::find(&rest[half..len], b"],")? + 1;
    reader.move_to(reader.position() + comma);
    Some(reader)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::datum::Datum;
    use crate::json::TextBuf;
    use crate::schema::ColumnType;

    /// Number of elements that two threads decode.
    const ELEMENTS: usize = 10_000;

    fn names() -> Vec<String> {
        (0..ELEMENTS).map(|i| format!(r#"["named-uuid","n{i}"]"#)).collect()
    }

    /// Decodes the first of two values, and returns it with the position behind it.
    ///
    /// `is_shared`: two threads may decode it. `requested`: name whose insert requests a UUID.
    fn decode(
        text: &str,
        is_shared: bool,
        requested: Option<&str>,
    ) -> Result<(Datum, usize), OvsdbError> {
        let ty = ColumnType {
            key: BaseType::unconstrained(AtomType::Uuid),
            value: None,
            min: 0,
            max: u32::MAX,
        };
        let (mut strings, mut uuids) = (StringCache::default(), UuidSource::random());
        let key = NameKey::new(&mut UuidSource::seeded(1));
        let mut named = NamedUuids::with_key(&mut uuids, key);
        if let Some(name) = requested {
            named.define(name, Some(Uuid::max())).unwrap();
        }
        let mut notation = NotationReader::with_named_uuids(&mut strings, &mut named);
        if is_shared {
            let text = TextBuf::parse(text.as_bytes().to_vec()).unwrap();
            let mut reader = Reader::new(text.as_text());
            assert!(reader.enter_array() && reader.next_element());
            let set = notation.datum(&mut reader, &ty)?;
            return Ok((set, reader.position()));
        }
        // What a validating reader reads is decoded by one thread.
        let mut reader = Reader::validating(&text.as_bytes()[1..]);
        let set = notation.datum(&mut reader, &ty)?;
        Ok((set, reader.position() + 1))
    }

    #[test]
    fn two_threads_decode_what_one_decodes() {
        let uuid = r#"["uuid","550e8400-e29b-41d4-a716-446655440000"]"#;
        let all = || names().join(",");
        let with = |place: usize, element: &str| {
            let mut names = names();
            names[place] = element.to_owned();
            names.join(",")
        };
        let spaced = |place: usize| {
            let (first, second) = (names()[..place].join(","), names()[place..].join(","));
            format!("{first} , {second}")
        };
        let middle = ELEMENTS / 2;
        let cases = [all(), with(middle, uuid), with(ELEMENTS - 1, uuid)]
            .into_iter()
            .chain([10, middle, ELEMENTS - 10].map(spaced))
            .chain([format!("{} ", all()), names().join(" , ")]);
        for elements in cases {
            // The next value looks like more elements, and its middle may be that of both.
            let long = format!(r#"["set",[{0},{0}]]"#, all());
            for next in [r#"["set",[]]"#, uuid, &names()[0], &long] {
                for end in ["]]", "] ]"] {
                    let text = format!(r#"[["set",[{elements}{end},{next},{next}]"#);
                    let (set, position) = decode(&text, true, None).unwrap();
                    assert_eq!(set.len(), ELEMENTS);
                    assert_eq!((set, position), decode(&text, false, None).unwrap());
                    assert!(text[position..].starts_with(&format!(",{next}")));
                }
            }
        }
        let text = format!(r#"[["set",[{}]]]"#, all());
        let requested = decode(&text, true, Some("n9000")).unwrap();
        assert_eq!(requested, decode(&text, false, Some("n9000")).unwrap());
        assert_ne!(requested, decode(&text, true, None).unwrap());
    }

    #[test]
    fn the_first_error_is_that_of_one_thread() {
        let error = |places: &[(usize, &str)]| {
            let mut names = names();
            for (place, element) in places {
                names[*place] = (*element).to_owned();
            }
            let text = format!(r#"[["set",[{}]]]"#, names.join(","));
            assert!(decode(&text, false, None).is_err());
            decode(&text, true, None).unwrap_err()
        };
        let (early, late) = (2000, 9000);
        for element in [
            "5",
            r#"["uuid","x"]"#,
            r#"["uuid","],[\"]]"]"#,
            r#"["named-uuid","],["]"#,
            r#"["named-uuid","a",[[]],[]]"#,
            "[[]]",
        ] {
            for place in [early, ELEMENTS / 2, late, ELEMENTS - 1] {
                assert_eq!(error(&[(place, element)]).syntax.as_deref(), Some(element));
                let two = error(&[(place, element), (ELEMENTS - 1, element)]);
                assert_eq!(two.syntax.as_deref(), Some(element));
            }
            let two = error(&[(early, "7"), (late, element)]);
            assert_eq!(two.syntax.as_deref(), Some("7"));
        }
        let twice = error(&[(late, r#"["named-uuid","n5"]"#)]);
        assert_eq!(twice.details.as_deref(), Some("set contains duplicate"));
    }
}
