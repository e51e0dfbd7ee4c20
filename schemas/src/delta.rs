//! Differences of column values, as in `update2` and `update3` notifications.

use crate::atom::Atom;
use crate::datum::{Datum, Map, Set};
use crate::error::OvsdbError;
use crate::json::Reader;
use crate::schema::ColumnType;
use crate::wire::NotationReader;

/// Difference between two values of a column, in the form of `<row-update2>` member `modify`.
///
/// The content depends on the type of the column:
///
/// | column | content |
/// |---|---|
/// | at most one element or pair | the complete new value |
/// | set | the elements that only one of the two values contains |
/// | map | removed pairs with the old value, added pairs, changed keys with the new value |
///
/// ```
/// use patchbay_schemas::atom::{Atom, AtomType};
/// use patchbay_schemas::datum::Datum;
/// use patchbay_schemas::delta::Delta;
/// use patchbay_schemas::schema::{BaseType, ColumnType};
///
/// let key = BaseType::unconstrained(AtomType::String);
/// let ty = ColumnType { key, value: None, min: 0, max: ColumnType::UNLIMITED };
/// let set = |elements: &[&str]| Datum::Set(elements.iter().map(|e| Atom::from(*e)).collect());
/// let (old, new) = (set(&["a", "b", "c"]), set(&["b", "c", "d"]));
///
/// let delta = Delta::between(&old, &new, &ty).unwrap();
/// let mut json = Vec::new();
/// delta.write_json(&mut json);
/// assert_eq!(json, br#"["set",["a","d"]]"#);
/// assert_eq!(delta.apply(&old, &ty)?, new);
/// # Ok::<(), patchbay_schemas::error::OvsdbError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta(Datum);

impl Delta {
    /// Returns the difference of two values of a column of type `ty`. `None`: the values are equal.
    ///
    /// The comparison skips parts that share storage. After few changes to a long set or map, its
    /// cost is proportional to the changes.
    pub fn between(old: &Datum, new: &Datum, ty: &ColumnType) -> Option<Self> {
        let difference = match (old, new) {
            _ if !ty.is_composite() => return (old != new).then(|| Self(new.clone())),
            (Datum::Map(old), Datum::Map(new)) => {
                let mut pairs = Vec::new();
                old.diff(new, |key, old, new| {
                    pairs.extend(new.or(old).map(|value| (key.clone(), value.clone())));
                });
                Datum::Map(pairs.into_iter().collect())
            }
            (old, new) => {
                let (mut removed, mut added) = (Vec::new(), Vec::new());
                if let (Datum::Set(old), Datum::Set(new)) = (old, new) {
                    old.diff(
                        new,
                        |atom| removed.push(atom.clone()),
                        |atom| added.push(atom.clone()),
                    );
                }
                removed.append(&mut added);
                Datum::Set(Set::from_vec(removed))
            }
        };
        (!difference.is_empty()).then_some(Self(difference))
    }

    /// Applies the difference to `old`. For a long set or map the cost is O(changes · log size).
    ///
    /// # Errors
    /// The result has fewer or more elements than the type allows, or the difference belongs to
    /// another type.
    pub fn apply(&self, old: &Datum, ty: &ColumnType) -> Result<Datum, OvsdbError> {
        let new = match (old, &self.0) {
            (_, new) if !ty.is_composite() => new.clone(),
            (Datum::Set(old), Datum::Set(delta)) => Datum::Set(toggle(old, delta)),
            (Datum::Map(old), Datum::Map(delta)) => Datum::Map(apply_to_map(old, delta)),
            _ => {
                let details = format!("Difference does not belong to {}.", ty.to_english());
                return Err(OvsdbError::new("ovsdb error", details));
            }
        };
        let len = new.len();
        if len < ty.min as usize || len > ty.max as usize {
            return Err(OvsdbError::constraint(format!(
                "Difference leaves {len} elements in {}.",
                ty.to_english()
            )));
        }
        Ok(new)
    }

    /// Decodes a difference of a column of type `ty`.
    ///
    /// # Errors
    /// The text is malformed, or an element violates the constraints of the type. The number of
    /// elements is checked by [`apply`](Self::apply).
    pub fn decode<const VALIDATING: bool>(
        reader: &mut Reader<'_, VALIDATING>,
        ty: &ColumnType,
        notation: &mut NotationReader<'_, '_, '_>,
    ) -> Result<Self, OvsdbError> {
        let any_count = ty.min == 0 && ty.max == ColumnType::UNLIMITED;
        let datum = if any_count || !ty.is_composite() {
            notation.datum(reader, ty)
        } else {
            let (min, max) = (0, ColumnType::UNLIMITED);
            notation.datum(reader, &ColumnType { min, max, ..ty.clone() })
        };
        datum.map(Self)
    }

    /// Appends the difference in RFC 7047 notation.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        self.0.write_json(out);
    }
}

/// Returns the elements that are in exactly one of the two sets.
fn toggle(old: &Set, delta: &Set) -> Set {
    if delta.len() >= old.len() {
        let kept = old.iter().filter(|atom| !delta.contains(atom));
        let added = delta.iter().filter(|atom| !old.contains(atom));
        return kept.chain(added).cloned().collect();
    }
    let mut new = old.clone();
    for atom in delta {
        if !new.remove(atom) {
            new.insert(atom.clone());
        }
    }
    new
}

/// Removes the pairs of `delta` that are in `old`, and sets its other pairs.
fn apply_to_map(old: &Map, delta: &Map) -> Map {
    let owned = |(key, value): (&Atom, &Atom)| (key.clone(), value.clone());
    if delta.len() >= old.len() {
        let kept = old.iter().filter(|(key, _)| delta.get(key).is_none());
        let set = delta.iter().filter(|(key, value)| old.get(key) != Some(value));
        return kept.chain(set).map(owned).collect();
    }
    let mut new = old.clone();
    for (key, value) in delta {
        if new.get(key) == Some(value) {
            new.remove(key);
        } else {
            new.insert(key.clone(), value.clone());
        }
    }
    new
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::atom::AtomType;
    use crate::json::TextBuf;
    use crate::schema::BaseType;
    use crate::strings::StringCache;

    fn ty(value: Option<AtomType>, min: u32, max: u32) -> ColumnType {
        ColumnType {
            key: BaseType::unconstrained(AtomType::Integer),
            value: value.map(BaseType::unconstrained),
            min,
            max,
        }
    }

    fn set(elements: &[i64]) -> Datum {
        Datum::Set(elements.iter().copied().map(Atom::from).collect())
    }

    fn map(pairs: &[(i64, &str)]) -> Datum {
        let atoms = |(key, value): &(i64, &str)| (Atom::from(*key), Atom::from(*value));
        Datum::Map(pairs.iter().map(atoms).collect())
    }

    fn json(delta: &Delta) -> String {
        let mut out = Vec::new();
        delta.write_json(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn decode(value: &str, ty: &ColumnType) -> Result<Delta, OvsdbError> {
        let text = TextBuf::parse(format!("[{value}]").into_bytes()).unwrap();
        let mut reader = Reader::new(text.as_text());
        reader.enter_array();
        reader.next_element();
        Delta::decode(&mut reader, ty, &mut NotationReader::new(&mut StringCache::default()))
    }

    const ANY: u32 = ColumnType::UNLIMITED;

    #[test]
    fn differences_are_written_like_those_of_ovsdb_server() {
        let string = Some(AtomType::String);
        for (old, new, ty, expected) in [
            (set(&[1]), set(&[2]), ty(None, 1, 1), "2"),
            (set(&[1]), set(&[]), ty(None, 0, 1), r#"["set",[]]"#),
            (map(&[(1, "a")]), map(&[]), ty(string, 0, 1), r#"["map",[]]"#),
            (set(&[1, 2]), set(&[2]), ty(None, 0, ANY), "1"),
            (set(&[1, 2]), set(&[2, 3]), ty(None, 1, 2), r#"["set",[1,3]]"#),
            (
                map(&[(1, "gone"), (2, "old"), (4, "kept")]),
                map(&[(2, "new"), (3, "more"), (4, "kept")]),
                ty(string, 0, ANY),
                r#"["map",[[1,"gone"],[2,"new"],[3,"more"]]]"#,
            ),
        ] {
            assert_eq!(json(&Delta::between(&old, &new, &ty).unwrap()), expected);
        }
        assert_eq!(Delta::between(&set(&[1]), &set(&[1]), &ty(None, 0, ANY)), None);
        assert_eq!(Delta::between(&set(&[1]), &set(&[1]), &ty(None, 1, 1)), None);
    }

    #[test]
    fn the_result_must_have_a_number_of_elements_that_the_type_allows() {
        let pair = ty(None, 1, 2);
        let toggles = decode("1", &pair).unwrap();
        assert!(toggles.apply(&set(&[1]), &pair).is_err());
        assert!(toggles.apply(&set(&[2, 3]), &pair).is_err());
        assert_eq!(toggles.apply(&set(&[2]), &pair).unwrap(), set(&[1, 2]));
        let three = decode(r#"["set",[1,2,3]]"#, &pair).unwrap();
        assert_eq!(three.apply(&set(&[1, 2]), &pair).unwrap(), set(&[3]));
        assert!(decode(r#"["set",[]]"#, &ty(None, 1, 1)).is_err());
    }

    #[test]
    fn a_difference_of_another_type_is_an_error() {
        let sets = ty(None, 0, ANY);
        let delta = Delta::between(&set(&[]), &set(&[1]), &sets).unwrap();
        assert!(delta.apply(&map(&[(1, "a")]), &ty(Some(AtomType::String), 0, ANY)).is_err());
    }

    fn sets() -> impl Strategy<Value = Datum> {
        prop::collection::vec(0..80_i64, 0..60).prop_map(|elements| set(&elements))
    }

    fn maps() -> impl Strategy<Value = Datum> {
        let pairs =
            prop::collection::vec((0..80_i64, prop::sample::select(vec!["", "a", "b"])), 0..60);
        pairs.prop_map(|pairs| map(&pairs))
    }

    fn optionals() -> impl Strategy<Value = Datum> {
        prop::option::of(0..3_i64).prop_map(|element| set(element.as_slice()))
    }

    fn two_values() -> impl Strategy<Value = (Datum, Datum, ColumnType)> {
        let string = Some(AtomType::String);
        prop_oneof![
            (sets(), sets(), Just(ty(None, 0, ANY))),
            (maps(), maps(), Just(ty(string, 0, ANY))),
            (optionals(), optionals(), Just(ty(None, 0, 1))),
        ]
    }

    proptest! {
        #[test]
        fn the_difference_of_two_values_turns_the_old_into_the_new((old, new, ty) in two_values()) {
            match Delta::between(&old, &new, &ty) {
                None => prop_assert_eq!(old, new),
                Some(delta) => {
                    prop_assert_eq!(delta.apply(&old, &ty).unwrap(), new);
                    prop_assert_eq!(decode(&json(&delta), &ty).unwrap(), delta);
                }
            }
        }
    }
}
