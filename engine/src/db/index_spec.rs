//! Which rows an index finds by what.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::sync::Arc;

use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::typed::{Column, Field, Ref, TableRow, Value};
use uuid::Uuid;

/// The declaration of an index over one table. [`Index`] is the typed one.
///
/// ```
/// use patchbay_engine::db::IndexSpec;
///
/// let by_id = IndexSpec::new("Logical_Router_Policy", ["external_ids:k8s.ovn.org/id"]);
/// let by_place = IndexSpec::new("Logical_Router_Policy", ["priority", "match"]);
/// let by_name = IndexSpec::new("Logical_Router_Port", ["name"]).unique();
/// assert_eq!(by_id.to_string(), "Logical_Router_Policy by external_ids:k8s.ovn.org/id");
/// assert_ne!(by_id, by_place);
/// assert!(by_name.is_unique());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexSpec {
    table: Arc<str>,
    parts: Arc<[KeyPart]>,
    unique: bool,
}

/// What one part of an index's key is taken from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyPart {
    /// The whole value of a column.
    Column(Arc<str>),
    /// The value that a map has for a key. Rows without the key are not in the index.
    MapKey {
        /// The column.
        column: Arc<str>,
        /// The key.
        key: Arc<str>,
    },
    /// Each element of a set, or key of a map: the row is found by all of them.
    Element(Arc<str>),
}

impl IndexSpec {
    /// An index over a table by columns: `name`, `external_ids:k8s.ovn.org/id` for the value of a map's key, or
    /// `ports[]` for each element of a set.
    pub fn new<'a>(table: &str, parts: impl IntoIterator<Item = &'a str>) -> Self {
        Self::of_parts(table, parts.into_iter().map(KeyPart::from).collect())
    }

    fn of_parts(table: &str, parts: Arc<[KeyPart]>) -> Self {
        Self {
            table: table.into(),
            parts,
            unique: false,
        }
    }

    /// Says that no two rows have the same key. A replica cannot enforce that: it logs a warning when there are two.
    #[must_use]
    pub fn unique(self) -> Self {
        Self {
            unique: true,
            ..self
        }
    }

    /// Whether both are over the same keys, unique or not.
    pub(super) fn same_keys(&self, other: &Self) -> bool {
        self.table == other.table && self.parts == other.parts
    }

    /// The table.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// What the key is made of.
    pub fn parts(&self) -> &[KeyPart] {
        &self.parts
    }

    /// Whether it was said that no two rows have the same key.
    pub fn is_unique(&self) -> bool {
        self.unique
    }
}

impl fmt::Display for IndexSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by ", self.table)?;
        for (i, part) in self.parts.iter().enumerate() {
            write!(f, "{}{part}", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

impl KeyPart {
    /// The column.
    pub fn column(&self) -> &str {
        match self {
            Self::Column(column) | Self::MapKey { column, .. } | Self::Element(column) => column,
        }
    }
}

impl From<&str> for KeyPart {
    fn from(text: &str) -> Self {
        // Columns are identifiers: they have neither `:` nor `[`.
        if let Some((column, key)) = text.split_once(':') {
            let (column, key) = (column.into(), key.into());
            Self::MapKey { column, key }
        } else if let Some(column) = text.strip_suffix("[]") {
            Self::Element(column.into())
        } else {
            Self::Column(text.into())
        }
    }
}

impl fmt::Display for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(column) => f.write_str(column),
            Self::MapKey { column, key } => write!(f, "{column}:{key}"),
            Self::Element(column) => write!(f, "{column}[]"),
        }
    }
}

/// The declaration of an index over the table of `T`.
///
/// ```
/// use patchbay_engine::db::Index;
/// use patchbay_schemas::nb::{LogicalRouter, LogicalRouterPolicy, LogicalRouterPort};
///
/// let by_name = Index::by(LogicalRouterPort::NAME).unique();
/// let by_id = Index::by_key(LogicalRouterPolicy::EXTERNAL_IDS, "k8s.ovn.org/id");
/// let by_place = Index::by(LogicalRouterPolicy::PRIORITY).and(LogicalRouterPolicy::MATCH);
/// let router_of_port = Index::by_element(LogicalRouter::PORTS);
/// # let _ = (by_name, by_id, by_place, router_of_port);
/// ```
pub struct Index<T> {
    spec: IndexSpec,
    table: PhantomData<fn() -> T>,
}

impl<T: TableRow> Index<T> {
    fn of(parts: impl IntoIterator<Item = KeyPart>) -> Self {
        Self {
            spec: IndexSpec::of_parts(T::TABLE, parts.into_iter().collect()),
            table: PhantomData,
        }
    }

    /// By the value of a column.
    pub fn by<C: Column>(field: Field<T, C>) -> Self {
        Self::of([KeyPart::Column(field.name().into())])
    }

    /// By the value that a map has for a key. Rows without the key are not in the index.
    pub fn by_key<V: Value>(field: Field<T, BTreeMap<String, V>>, key: &str) -> Self {
        Self::of([map_key(field, key)])
    }

    /// By each element of a set: back from what is referred to, to the rows that refer.
    pub fn by_element<V: Value + Ord>(field: Field<T, BTreeSet<V>>) -> Self {
        Self::of([KeyPart::Element(field.name().into())])
    }

    /// And by the value of another column.
    #[must_use]
    pub fn and<C: Column>(self, field: Field<T, C>) -> Self {
        self.and_part(KeyPart::Column(field.name().into()))
    }

    /// And by the value that a map has for a key.
    #[must_use]
    pub fn and_key<V: Value>(self, field: Field<T, BTreeMap<String, V>>, key: &str) -> Self {
        self.and_part(map_key(field, key))
    }

    fn and_part(self, part: KeyPart) -> Self {
        let unique = self.spec.unique;
        let mut this = Self::of(self.spec.parts.iter().cloned().chain([part]));
        this.spec.unique = unique;
        this
    }

    /// See [`IndexSpec::unique`].
    #[must_use]
    pub fn unique(self) -> Self {
        Self {
            spec: self.spec.unique(),
            ..self
        }
    }

    /// The key of a row; none when it is not in the index, or is found by several.
    pub fn key_of(&self, row: &T) -> Option<IndexKey> {
        let data = row.to_data();
        let value = |part: &KeyPart| {
            let place = T::COLUMNS.iter().position(|name| *name == part.column())?;
            let value = data.get(place)?;
            match part {
                KeyPart::Column(_) => Some(value.clone()),
                KeyPart::MapKey { key, .. } => {
                    let key = Atom::from(&**key);
                    value.as_map()?.get(&key).cloned().map(Datum::scalar)
                }
                KeyPart::Element(_) => None,
            }
        };
        self.spec.parts.iter().map(value).collect()
    }

    /// The declaration without its type.
    pub fn spec(&self) -> &IndexSpec {
        &self.spec
    }
}

fn map_key<T, V>(field: Field<T, BTreeMap<String, V>>, key: &str) -> KeyPart {
    KeyPart::MapKey {
        column: field.name().into(),
        key: key.into(),
    }
}

impl<T> Clone for Index<T> {
    fn clone(&self) -> Self {
        Self {
            spec: self.spec.clone(),
            table: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Index<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({})", self.spec)
    }
}

impl<T> From<Index<T>> for IndexSpec {
    fn from(index: Index<T>) -> Self {
        index.spec
    }
}

impl<T> From<&Index<T>> for IndexSpec {
    fn from(index: &Index<T>) -> Self {
        index.spec.clone()
    }
}

/// What a row is looked up by: one value for each part of the index.
///
/// It is made from a string, a number, a reference, a [`Datum`], or an array of those for an index of several parts.
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
pub struct IndexKey(pub(super) KeyValues);

/// Most keys have one part and need no list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyValues {
    One(Datum),
    Several(Box<[Datum]>),
}

impl IndexKey {
    /// The values, one for each part.
    pub fn values(&self) -> &[Datum] {
        match &self.0 {
            KeyValues::One(value) => std::slice::from_ref(value),
            KeyValues::Several(values) => values,
        }
    }
}

/// As the list of the values, which finds keys, too.
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
    fn a_key_of_one_value_is_no_larger_than_the_value() {
        assert_eq!(size_of::<IndexKey>(), size_of::<Datum>());
    }

    #[test]
    fn parts_are_written_as_people_write_them() {
        let parts = ["name", "external_ids:k8s.ovn.org/id:x", "ports[]"];
        let spec = IndexSpec::new("T", parts);
        assert_eq!(
            spec.parts()[1],
            KeyPart::MapKey {
                column: "external_ids".into(),
                key: "k8s.ovn.org/id:x".into()
            }
        );
        assert_eq!(
            spec.parts().iter().map(KeyPart::column).collect::<Vec<_>>(),
            ["name", "external_ids", "ports"]
        );
        assert_eq!(spec.to_string(), format!("T by {}", parts.join(", ")));
    }
}
