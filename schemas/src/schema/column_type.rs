//! Column types: what a datum must look like.

use std::sync::Arc;

use crate::atom::{Atom, AtomType};
use crate::datum::{Datum, Map, Set};
use crate::error::OvsdbError;

use super::TableId;

/// How a reference keeps its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefType {
    /// The target must exist and cannot be deleted.
    Strong,
    /// The reference vanishes with its target.
    Weak,
}

/// A uuid that refers to a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Name of the table that it refers to.
    pub table_name: Arc<str>,
    /// That table.
    pub table: TableId,
    /// Strong or weak.
    pub ref_type: RefType,
}

/// What an atom must satisfy besides having its type.
#[derive(Clone, Debug, PartialEq)]
pub enum Constraint {
    /// Nothing.
    None,
    /// One of these.
    Enum(Set),
    /// Between these, inclusive.
    Integer(i64, i64),
    /// Between these, inclusive; infinite when open.
    Real(f64, f64),
    /// So many Unicode code points.
    Length(u32, u32),
    /// A row of a table.
    Reference(Reference),
}

/// The type of a key or a value.
#[derive(Clone, Debug, PartialEq)]
pub struct BaseType {
    /// Atomic type.
    pub atom: AtomType,
    /// Constraint on it.
    pub constraint: Constraint,
}

/// The type of a column (RFC 7047 `<type>`).
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnType {
    /// Type of elements, or of the keys of a map.
    pub key: BaseType,
    /// Type of the values of a map.
    pub value: Option<BaseType>,
    /// 0 or 1.
    pub min: u32,
    /// 1 or more; [`ColumnType::UNLIMITED`] for any number.
    pub max: u32,
}

impl BaseType {
    /// Without constraint.
    pub const fn unconstrained(atom: AtomType) -> Self {
        Self {
            atom,
            constraint: Constraint::None,
        }
    }

    /// The reference, if atoms of this type refer to rows.
    pub fn reference(&self) -> Option<&Reference> {
        match &self.constraint {
            Constraint::Reference(reference) => Some(reference),
            _ => None,
        }
    }

    /// Whether atoms are references of this kind.
    pub fn is_ref(&self, ref_type: RefType) -> bool {
        self.reference()
            .is_some_and(|reference| reference.ref_type == ref_type)
    }

    /// Checks the constraint.
    ///
    /// # Errors
    /// `constraint violation` in ovsdb-server's words. References are checked at commit, not here.
    pub fn check(&self, atom: &Atom) -> Result<(), OvsdbError> {
        match (&self.constraint, atom) {
            (Constraint::Enum(allowed), atom) if !allowed.contains(atom) => {
                let allowed: Vec<String> = allowed.iter().map(Atom::to_string).collect();
                Err(OvsdbError::constraint(format!(
                    "{atom} is not one of the allowed values ([{}])",
                    allowed.join(", ")
                )))
            }
            (Constraint::Integer(min, max), Atom::Integer(value)) if value < min || value > max => {
                let (min_open, max_open) = (*min == i64::MIN, *max == i64::MAX);
                Err(range_error(
                    atom,
                    (min, min_open),
                    (max, max_open),
                    value < min,
                ))
            }
            (Constraint::Real(min, max), Atom::Real(value)) if value.0 < *min || value.0 > *max => {
                let bound = |real: f64| Atom::from(real);
                let (min_open, max_open) = (*min <= -f64::MAX, *max >= f64::MAX);
                Err(range_error(
                    atom,
                    (&bound(*min), min_open),
                    (&bound(*max), max_open),
                    value.0 < *min,
                ))
            }
            (Constraint::Length(min, max), Atom::String(text)) => {
                let len = text.chars().count();
                let error = |relation: &str, bound: &u32| {
                    Err(OvsdbError::constraint(format!(
                        "\"{text}\" length {len} is {relation} allowed length {bound}"
                    )))
                };
                if len < *min as usize {
                    error("less than minimum", min)
                } else if len > *max as usize {
                    error("greater than maximum", max)
                } else {
                    Ok(())
                }
            }
            _ => Ok(()),
        }
    }
}

fn range_error<T: std::fmt::Display>(
    value: &Atom,
    (min, min_open): (&T, bool),
    (max, max_open): (&T, bool),
    below: bool,
) -> OvsdbError {
    OvsdbError::constraint(if !min_open && !max_open {
        format!("{value} is not in the valid range {min} to {max} (inclusive)")
    } else if below {
        format!("{value} is less than minimum allowed value {min}")
    } else {
        format!("{value} is greater than maximum allowed value {max}")
    })
}

impl ColumnType {
    /// [`max`](Self::max) of a set or map of any size.
    pub const UNLIMITED: u32 = u32::MAX;

    /// A scalar without constraint.
    pub const fn scalar(atom: AtomType) -> Self {
        Self {
            key: BaseType::unconstrained(atom),
            value: None,
            min: 1,
            max: 1,
        }
    }

    /// The type of `_uuid` and `_version`.
    pub fn uuid() -> &'static Self {
        static UUID: ColumnType = ColumnType::scalar(AtomType::Uuid);
        &UUID
    }

    /// Exactly one atom.
    pub fn is_scalar(&self) -> bool {
        self.value.is_none() && self.min == 1 && self.max == 1
    }

    /// None or one atom.
    pub fn is_optional_scalar(&self) -> bool {
        self.value.is_none() && self.min == 0 && self.max == 1
    }

    /// Keys and values.
    pub fn is_map(&self) -> bool {
        self.value.is_some()
    }

    /// More than one element or pair is possible.
    pub fn is_composite(&self) -> bool {
        self.max > 1
    }

    /// Key type and, in a map, value type.
    pub fn base_types(&self) -> impl Iterator<Item = &BaseType> {
        std::iter::once(&self.key).chain(&self.value)
    }

    /// What a column holds when nothing was said.
    pub fn default_datum(&self) -> Datum {
        match (&self.value, self.min) {
            (None, 0) => Datum::EMPTY_SET,
            (Some(_), 0) => Datum::EMPTY_MAP,
            (None, _) => Datum::Set(Set::one(self.key.atom.default_atom())),
            (Some(value), _) => {
                let pair = (self.key.atom.default_atom(), value.atom.default_atom());
                Datum::Map([pair].into_iter().collect::<Map>())
            }
        }
    }

    /// Whether a datum of any type is what a column holds of which nothing was said, and that is nothing.
    pub fn is_nothing(&self, datum: &Datum) -> bool {
        self.min == 0 && datum.is_empty() && self.is_map() == datum.as_map().is_some()
    }

    /// Whether a datum of this type is what [`default_datum`](Self::default_datum) gives.
    pub fn is_default(&self, datum: &Datum) -> bool {
        if let Some(atom) = datum.as_scalar() {
            return self.min == 1 && atom.is_default();
        }
        datum.len() == self.min as usize && (self.min == 0 || datum.atoms().all(Atom::is_default))
    }

    /// Checks the constraints of all atoms of a datum.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self, datum: &Datum) -> Result<(), OvsdbError> {
        let is_free = |base: &BaseType| matches!(base.constraint, Constraint::None);
        if self.base_types().all(is_free) {
            return Ok(());
        }
        match datum {
            Datum::Set(set) => set.iter().try_for_each(|atom| self.key.check(atom)),
            Datum::Map(map) => map.iter().try_for_each(|(key, value)| {
                self.key.check(key)?;
                self.value.as_ref().map_or(Ok(()), |base| base.check(value))
            }),
        }
    }

    /// The type in English, as errors name it: `integer`, `set of up to 1 strings`, ...
    pub fn to_english(&self) -> String {
        if self.is_scalar() {
            return self.key.atom.name().to_owned();
        }
        let kind = if self.is_map() { "map" } else { "set" };
        let count = match (self.min, self.max) {
            (0, Self::UNLIMITED) => " of".to_owned(),
            (min, Self::UNLIMITED) => format!(" of {min} or more"),
            (0, max) => format!(" of up to {max}"),
            (min, max) => format!(" of {min} to {max}"),
        };
        let what = match &self.value {
            Some(value) => format!("({}, {}) pairs", self.key.atom.name(), value.atom.name()),
            None => format!("{}s", self.key.atom.name()),
        };
        format!("{kind}{count} {what}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_in_english() {
        let mut ty = ColumnType::scalar(AtomType::Integer);
        assert_eq!(ty.to_english(), "integer");
        ty.min = 0;
        assert_eq!(ty.to_english(), "set of up to 1 integers");
        ty.max = ColumnType::UNLIMITED;
        assert_eq!(ty.to_english(), "set of integers");
        ty.value = Some(BaseType::unconstrained(AtomType::String));
        ty.min = 1;
        assert_eq!(ty.to_english(), "map of 1 or more (integer, string) pairs");
    }
}
