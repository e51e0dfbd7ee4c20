//! Typed rows: the traits and field types of structs that [`codegen`](crate::codegen) generates
//! from a schema.

mod map_cache;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use smol_str::SmolStr;
/// Type of columns that hold UUIDs without `refTable`.
pub use uuid::Uuid;

use crate::atom::Atom;
use crate::datum::{Datum, Map, Set};

use map_cache::build_map;

/// Struct for the rows of one table.
pub trait TableRow: Clone + fmt::Debug + Default + PartialEq + Send + Sync + 'static {
    /// Name of the table.
    const TABLE: &'static str;
    /// Names of the columns, in the order of [`to_data`](Self::to_data).
    const COLUMNS: &'static [&'static str];

    /// Returns the values of all columns.
    fn to_data(&self) -> Vec<Datum>;

    /// Builds a row from values; `get` is called with indices in [`COLUMNS`](Self::COLUMNS).
    ///
    /// `None` from `get`: the schema of the server lacks the column, and the field gets its
    /// default.
    ///
    /// # Errors
    /// A value does not fit the type of its field, because the schema of the server differs.
    fn from_data<'a>(get: impl FnMut(usize) -> Option<&'a Datum>) -> Result<Self, TypeError>
    where
        Self: Sized;
}

/// Column of the table of `T`, with values of type `C`. Generated types have one constant per
/// column.
///
/// ```
/// use patchbay_schemas::nb::LogicalRouterPort;
///
/// assert_eq!(LogicalRouterPort::NETWORKS.name(), "networks");
/// ```
pub struct Field<T, C> {
    name: &'static str,
    types: PhantomData<fn() -> (T, C)>,
}

impl<T, C> Field<T, C> {
    /// Returns the column with this name.
    pub const fn new(name: &'static str) -> Self {
        Self { name, types: PhantomData }
    }

    /// Returns the name of the column.
    pub const fn name(self) -> &'static str {
        self.name
    }
}

impl<T, C> Clone for Field<T, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, C> Copy for Field<T, C> {}

impl<T, C> fmt::Debug for Field<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Value that does not fit the field of a typed row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column} of table {table} holds {value}, which its type does not allow")]
pub struct TypeError {
    /// Table.
    pub table: &'static str,
    /// Column.
    pub column: &'static str,
    /// Text form of the value.
    pub value: String,
}

/// Reference to a row of the table of `T`.
pub struct Ref<T> {
    /// UUID of the row, or the placeholder of a row that the same transaction inserts.
    pub uuid: Uuid,
    table: PhantomData<fn() -> T>,
}

impl<T> Ref<T> {
    /// Returns a reference to the row with this UUID.
    pub const fn new(uuid: Uuid) -> Self {
        Self { uuid, table: PhantomData }
    }
}

impl<T> Clone for Ref<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ref<T> {}

impl<T> PartialEq for Ref<T> {
    fn eq(&self, other: &Self) -> bool {
        self.uuid == other.uuid
    }
}

impl<T> Eq for Ref<T> {}

impl<T> PartialOrd for Ref<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Ref<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.uuid.cmp(&other.uuid)
    }
}

impl<T> Hash for Ref<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.uuid.hash(state);
    }
}

impl<T> Default for Ref<T> {
    fn default() -> Self {
        Self::new(Uuid::nil())
    }
}

impl<T> fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.uuid, f)
    }
}

impl<T> fmt::Display for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.uuid, f)
    }
}

/// Rust type of an atom.
pub trait Value: Sized {
    /// Converts to an atom.
    fn to_atom(&self) -> Atom;
    /// Converts from an atom. `None`: the atom has another type, or is not a value of the enum.
    fn from_atom(atom: &Atom) -> Option<Self>;

    /// `true` if [`to_atom`](Self::to_atom) returns this atom.
    fn is(&self, atom: &Atom) -> bool {
        self.to_atom() == *atom
    }
}

macro_rules! value {
    ($ty:ty, $self:ident => $to:expr, $atom:ident => $from:expr) => {
        impl Value for $ty {
            fn to_atom(&$self) -> Atom {
                $to
            }
            fn from_atom($atom: &Atom) -> Option<Self> {
                $from
            }
        }
    };
}

value!(i64, self => Atom::Integer(*self), atom => atom.as_integer());
value!(bool, self => Atom::Boolean(*self), atom => atom.as_boolean());
value!(Uuid, self => Atom::Uuid(*self), atom => atom.as_uuid());
value!(f64, self => Atom::from(*self), atom => match atom {
    Atom::Real(real) => Some(real.0),
    _ => None,
});

impl Value for String {
    fn to_atom(&self) -> Atom {
        Atom::from(self.as_str())
    }

    fn from_atom(atom: &Atom) -> Option<Self> {
        atom.as_str().map(str::to_owned)
    }

    fn is(&self, atom: &Atom) -> bool {
        atom.as_str() == Some(self)
    }
}

/// For rows that share strings with the database.
impl Value for SmolStr {
    fn to_atom(&self) -> Atom {
        Atom::String(self.clone())
    }

    fn from_atom(atom: &Atom) -> Option<Self> {
        match atom {
            Atom::String(text) => Some(text.clone()),
            _ => None,
        }
    }

    fn is(&self, atom: &Atom) -> bool {
        atom.as_str() == Some(self)
    }
}

impl<T> Value for Ref<T> {
    fn to_atom(&self) -> Atom {
        Atom::Uuid(self.uuid)
    }

    fn from_atom(atom: &Atom) -> Option<Self> {
        atom.as_uuid().map(Self::new)
    }
}

/// Rust type of a column's value.
pub trait Column: Sized {
    /// Converts to a value.
    fn to_datum(&self) -> Datum;
    /// Converts from a value. `None`: the value has another type.
    fn from_datum(datum: &Datum) -> Option<Self>;
}

impl<V: Value> Column for V {
    fn to_datum(&self) -> Datum {
        Datum::Set(Set::one(self.to_atom()))
    }

    fn from_datum(datum: &Datum) -> Option<Self> {
        V::from_atom(datum.as_scalar()?)
    }
}

/// A set with several values is of another type. A row that is written back would lose some of them.
impl<V: Value> Column for Option<V> {
    fn to_datum(&self) -> Datum {
        let atom = self.as_ref().map(Value::to_atom);
        Datum::Set(atom.map_or(Set::EMPTY, Set::one))
    }

    fn from_datum(datum: &Datum) -> Option<Self> {
        let set = datum.as_set()?;
        if set.is_empty() {
            return Some(None);
        }
        V::from_atom(set.as_one()?).map(Some)
    }
}

impl<V: Value + Ord> Column for BTreeSet<V> {
    fn to_datum(&self) -> Datum {
        Datum::Set(self.iter().map(Value::to_atom).collect())
    }

    fn from_datum(datum: &Datum) -> Option<Self> {
        datum.as_set()?.iter().map(V::from_atom).collect()
    }
}

/// For rows that share sets with the database.
impl Column for Set {
    fn to_datum(&self) -> Datum {
        Datum::Set(self.clone())
    }

    fn from_datum(datum: &Datum) -> Option<Self> {
        datum.as_set().cloned()
    }
}

/// For rows that share maps, or the keys of maps, with the database.
impl Column for Map {
    fn to_datum(&self) -> Datum {
        Datum::Map(self.clone())
    }

    fn from_datum(datum: &Datum) -> Option<Self> {
        datum.as_map().cloned()
    }
}

impl Column for Vec<f64> {
    fn to_datum(&self) -> Datum {
        Datum::Set(self.iter().map(Value::to_atom).collect())
    }

    fn from_datum(datum: &Datum) -> Option<Self> {
        datum.as_set()?.iter().map(f64::from_atom).collect()
    }
}

impl<K: Value + Ord, V: Value> Column for BTreeMap<K, V> {
    fn to_datum(&self) -> Datum {
        Datum::Map(build_map(self.iter()))
    }

    fn from_datum(datum: &Datum) -> Option<Self> {
        datum
            .as_map()?
            .iter()
            .map(|(key, value)| Some((K::from_atom(key)?, V::from_atom(value)?)))
            .collect()
    }
}

/// Converts a column's value for a generated row. `None` becomes the default of the field.
///
/// # Errors
/// The value has another type.
pub fn read_column<C: Column + Default>(
    datum: Option<&Datum>,
    table: &'static str,
    column: &'static str,
) -> Result<C, TypeError> {
    let Some(datum) = datum else {
        return Ok(C::default());
    };
    C::from_datum(datum).ok_or_else(|| TypeError { table, column, value: datum.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optional_value_is_none_or_one_of_its_type() {
        let set =
            |values: &[i64]| Datum::Set(values.iter().map(|value| Atom::from(*value)).collect());
        assert_eq!(Option::<i64>::from_datum(&set(&[])), Some(None));
        assert_eq!(Option::<i64>::from_datum(&set(&[7])), Some(Some(7)));
        assert_eq!(Option::<i64>::from_datum(&set(&[7, 8])), None);
        assert_eq!(Option::<bool>::from_datum(&set(&[7])), None);
    }
}
