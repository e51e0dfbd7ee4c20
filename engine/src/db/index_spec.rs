//! Declarations of indexes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::typed::{Column, Field, TableRow, Value};

use super::index_key::IndexKey;

/// Declaration of an index over one table. [`Index`] is the typed form.
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

/// Source of one part of an index key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyPart {
    /// Value of a column.
    Column(Arc<str>),
    /// Value of a map for one key. The index does not contain rows without the key.
    MapKey {
        /// Column of the map.
        column: Arc<str>,
        /// Key in the map.
        key: Arc<str>,
    },
    /// Each element of a set or key of a map. The index contains the row once for each of them.
    Element(Arc<str>),
}

impl IndexSpec {
    /// Creates the declaration of an index over a table.
    ///
    /// A part is `name` for the value of a column, `external_ids:k8s.ovn.org/id` for the value of a
    /// map for a key, or `ports[]` for each element of a set.
    pub fn new<'a>(table: &str, parts: impl IntoIterator<Item = &'a str>) -> Self {
        Self::from_parts(table, parts.into_iter().map(KeyPart::from).collect())
    }

    fn from_parts(table: &str, parts: Arc<[KeyPart]>) -> Self {
        Self { table: table.into(), parts, unique: false }
    }

    /// Declares that no two rows have the same key.
    ///
    /// The index does not enforce this. The replica of a client logs a warning when two rows have
    /// one key.
    #[must_use]
    pub fn unique(self) -> Self {
        Self { unique: true, ..self }
    }

    /// `true` if both indexes have the same table and parts. Uniqueness does not matter.
    pub(super) fn has_same_keys(&self, other: &Self) -> bool {
        self.table == other.table && self.parts == other.parts
    }

    /// Name of the table.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Parts of the key.
    pub fn parts(&self) -> &[KeyPart] {
        &self.parts
    }

    /// `true` if the index was declared [`unique`](Self::unique).
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
    /// Name of the column.
    pub fn column(&self) -> &str {
        match self {
            Self::Column(column) | Self::MapKey { column, .. } | Self::Element(column) => column,
        }
    }
}

impl From<&str> for KeyPart {
    fn from(text: &str) -> Self {
        // Column names are identifiers, so they contain neither `:` nor `[`.
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

/// Declaration of an index over the table of `T`.
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
    fn from_parts(parts: impl IntoIterator<Item = KeyPart>) -> Self {
        Self {
            spec: IndexSpec::from_parts(T::TABLE, parts.into_iter().collect()),
            table: PhantomData,
        }
    }

    /// Creates an index by the value of a column.
    pub fn by<C: Column>(field: Field<T, C>) -> Self {
        Self::from_parts([KeyPart::Column(field.name().into())])
    }

    /// Creates an index by the value of a map for a key. The index does not contain rows without
    /// the key.
    pub fn by_key<V: Value>(field: Field<T, BTreeMap<String, V>>, key: &str) -> Self {
        Self::from_parts([map_key(field, key)])
    }

    /// Creates an index by each element of a set. Over a set of references, it finds the rows that
    /// refer to a row.
    pub fn by_element<V: Value + Ord>(field: Field<T, BTreeSet<V>>) -> Self {
        Self::from_parts([KeyPart::Element(field.name().into())])
    }

    /// Adds the value of a column to the key.
    #[must_use]
    pub fn and<C: Column>(self, field: Field<T, C>) -> Self {
        self.and_part(KeyPart::Column(field.name().into()))
    }

    /// Adds the value of a map for a key to the key of the index.
    #[must_use]
    pub fn and_key<V: Value>(self, field: Field<T, BTreeMap<String, V>>, key: &str) -> Self {
        self.and_part(map_key(field, key))
    }

    fn and_part(self, part: KeyPart) -> Self {
        let unique = self.spec.unique;
        let mut this = Self::from_parts(self.spec.parts.iter().cloned().chain([part]));
        this.spec.unique = unique;
        this
    }

    /// Declares that no two rows have the same key, see [`IndexSpec::unique`].
    #[must_use]
    pub fn unique(self) -> Self {
        Self { spec: self.spec.unique(), ..self }
    }

    /// Key of a row. `None`: the index does not contain the row, or has a part for each element of
    /// a set.
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

    /// Untyped form of the declaration.
    pub fn spec(&self) -> &IndexSpec {
        &self.spec
    }
}

fn map_key<T, V>(field: Field<T, BTreeMap<String, V>>, key: &str) -> KeyPart {
    KeyPart::MapKey { column: field.name().into(), key: key.into() }
}

impl<T> Clone for Index<T> {
    fn clone(&self) -> Self {
        Self { spec: self.spec.clone(), table: PhantomData }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_parsed_and_displayed_in_the_same_notation() {
        let parts = ["name", "external_ids:k8s.ovn.org/id:x", "ports[]"];
        let spec = IndexSpec::new("T", parts);
        assert_eq!(
            spec.parts()[1],
            KeyPart::MapKey { column: "external_ids".into(), key: "k8s.ovn.org/id:x".into() }
        );
        assert_eq!(
            spec.parts().iter().map(KeyPart::column).collect::<Vec<_>>(),
            ["name", "external_ids", "ports"]
        );
        assert_eq!(spec.to_string(), format!("T by {}", parts.join(", ")));
    }
}
