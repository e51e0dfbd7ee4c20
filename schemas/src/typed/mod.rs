//! Typed rows: structs generated from a schema, and what they are made of.

mod recent_maps;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use smol_str::SmolStr;
/// What columns hold that name a row without saying of which table.
pub use uuid::Uuid;

use crate::atom::Atom;
use crate::datum::{Datum, Map, Set};

use recent_maps::map_of;

/// A struct that stands for the rows of one table.
pub trait TableRow: Clone + fmt::Debug + Default + PartialEq + Send + Sync + 'static {
    /// Name of the table.
    const TABLE: &'static str;
    /// Names of the columns, in the order of [`to_data`](Self::to_data).
    const COLUMNS: &'static [&'static str];

    /// The values of all columns.
    fn to_data(&self) -> Vec<Datum>;

    /// A row from the values that `get` gives for the places in [`COLUMNS`](Self::COLUMNS). A column that is
    /// none (the server's schema lacks it) gets its default.
    ///
    /// # Errors
    /// A value is not what the column's type says (the server's schema differs there).
    fn from_data<'a>(get: impl FnMut(usize) -> Option<&'a Datum>) -> Result<Self, TypeError>
    where
        Self: Sized;
}

/// A column of `T`'s table whose values are `C`s. Generated types have one constant for each column.
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
    /// The column of a name.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            types: PhantomData,
        }
    }

    /// The column's name.
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

/// A value that a typed row cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column} of table {table} holds {value}, which its type does not allow")]
pub struct TypeError {
    /// Table.
    pub table: &'static str,
    /// Column.
    pub column: &'static str,
    /// The value as text.
    pub value: String,
}

/// A reference to a row of `T`'s table.
pub struct Ref<T> {
    /// The row's UUID; of a row that is made in the same transaction, its placeholder.
    pub uuid: Uuid,
    table: PhantomData<fn() -> T>,
}

impl<T> Ref<T> {
    /// A reference to the row of a UUID.
    pub const fn new(uuid: Uuid) -> Self {
        Self {
            uuid,
            table: PhantomData,
        }
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

/// A type that stands for an atom.
pub trait Value: Sized {
    /// The atom.
    fn to_atom(&self) -> Atom;
    /// From an atom of the right type.
    fn from_atom(atom: &Atom) -> Option<Self>;

    /// Whether it stands for this atom.
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

/// For rows that share strings.
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

/// A type that stands for a column's value.
pub trait Column: Sized {
    /// The value.
    fn to_datum(&self) -> Datum;
    /// From a value of the right type.
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

impl<V: Value> Column for Option<V> {
    fn to_datum(&self) -> Datum {
        let atom = self.as_ref().map(Value::to_atom);
        Datum::Set(atom.map_or(Set::EMPTY, Set::one))
    }

    fn from_datum(datum: &Datum) -> Option<Self> {
        match datum.as_set()?.iter().next() {
            None => Some(None),
            Some(atom) => V::from_atom(atom).map(Some),
        }
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

/// For rows that share sets.
impl Column for Set {
    fn to_datum(&self) -> Datum {
        Datum::Set(self.clone())
    }

    fn from_datum(datum: &Datum) -> Option<Self> {
        datum.as_set().cloned()
    }
}

/// For rows that share maps, or the keys of maps.
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
        Datum::Map(map_of(self.iter()))
    }

    fn from_datum(datum: &Datum) -> Option<Self> {
        datum
            .as_map()?
            .iter()
            .map(|(key, value)| Some((K::from_atom(key)?, V::from_atom(value)?)))
            .collect()
    }
}

/// Reads a column for a generated row; an absent column gives the default.
///
/// # Errors
/// The value is of another type.
pub fn read<C: Column + Default>(
    datum: Option<&Datum>,
    table: &'static str,
    column: &'static str,
) -> Result<C, TypeError> {
    let Some(datum) = datum else {
        return Ok(C::default());
    };
    C::from_datum(datum).ok_or_else(|| TypeError {
        table,
        column,
        value: datum.to_string(),
    })
}
