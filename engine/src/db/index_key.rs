//! Keys of indexes.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};

use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::typed::Ref;
use uuid::Uuid;

/// Key of a row in an index: one value for each part of the index.
///
/// A key is made from a string, a number, a reference or a [`Datum`], or from an array of
/// [`Datum`]s for an index of several parts.
///
/// ```
/// use patchbay_engine::db::IndexKey;
/// use patchbay_schemas::datum::Datum;
///
/// let one = IndexKey::from("lrp0");
/// let several = IndexKey::from([Datum::scalar(10), Datum::scalar("ip4.dst == 10.0.0.0/24")]);
/// assert_eq!(one.to_string(), "lrp0");
/// assert_eq!(several.to_string(), "10, \"ip4.dst == 10.0.0.0/24\"");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexKey(KeyValues);

/// Values of a key. Most keys have one part and need no list.
#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyValues {
    One(Datum),
    Several(Box<[Datum]>),
}

impl IndexKey {
    /// Values of the key, one for each part of the index.
    pub fn values(&self) -> &[Datum] {
        match &self.0 {
            KeyValues::One(value) => std::slice::from_ref(value),
            KeyValues::Several(values) => values,
        }
    }
}

/// Hashes the key like the list of its values, because `Borrow<[Datum]>` allows look-ups by that
/// list.
impl Hash for IndexKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.values().hash(state);
    }
}

impl Borrow<[Datum]> for IndexKey {
    fn borrow(&self) -> &[Datum] {
        self.values()
    }
}

impl FromIterator<Datum> for IndexKey {
    fn from_iter<I: IntoIterator<Item = Datum>>(values: I) -> Self {
        let mut values = values.into_iter();
        Self(match (values.next(), values.next()) {
            (Some(value), None) => KeyValues::One(value),
            (first, second) => {
                let values = first.into_iter().chain(second).chain(values);
                KeyValues::Several(values.collect())
            }
        })
    }
}

impl From<Datum> for IndexKey {
    fn from(value: Datum) -> Self {
        Self(KeyValues::One(value))
    }
}

impl<const N: usize> From<[Datum; N]> for IndexKey {
    fn from(values: [Datum; N]) -> Self {
        values.into_iter().collect()
    }
}

impl<T> From<Ref<T>> for IndexKey {
    fn from(reference: Ref<T>) -> Self {
        reference.uuid.into()
    }
}

macro_rules! key_from_atom {
    ($($from:ty),*) => {$(
        impl From<$from> for IndexKey {
            fn from(value: $from) -> Self {
                Datum::scalar(Atom::from(value)).into()
            }
        }
    )*};
}

key_from_atom!(&str, String, i64, f64, bool, Uuid);

impl fmt::Display for IndexKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, value) in self.values().iter().enumerate() {
            write!(f, "{}{value}", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_one_value_is_as_large_as_the_value() {
        assert_eq!(size_of::<IndexKey>(), size_of::<Datum>());
    }
}
