//! Types of columns (RFC 7047 section 3.2, `<type>` and `<base-type>`).

use std::sync::Arc;

use crate::atom::{Atom, AtomType};
use crate::datum::{Datum, Map, Set};
use crate::error::OvsdbError;

use super::TableId;

/// Kind of a reference (`refType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefType {
    /// The target must exist, and cannot be deleted while the reference exists.
    Strong,
    /// The server removes the reference when its target is deleted.
    Weak,
}

/// Constraint of UUIDs that refer to rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Name of the target table (`refTable`).
    pub table_name: Arc<str>,
    /// Id of the target table.
    pub table: TableId,
    /// Kind of the reference.
    pub ref_type: RefType,
}

/// Constraint on atoms of a base type.
#[derive(Clone, Debug, PartialEq)]
pub enum Constraint {
    /// No constraint.
    None,
    /// Allowed atoms (`enum`).
    Enum(Set),
    /// Minimum and maximum, inclusive (`minInteger`, `maxInteger`).
    Integer(i64, i64),
    /// Minimum and maximum, inclusive (`minReal`, `maxReal`).
    Real(f64, f64),
    /// Minimum and maximum number of Unicode code points, inclusive (`minLength`, `maxLength`).
    Length(u32, u32),
    /// UUID of a row of a table (`refTable`).
    Reference(Reference),
}

/// Type of elements, keys or values (`<base-type>`).
#[derive(Clone, Debug, PartialEq)]
pub struct BaseType {
    /// Atomic type.
    pub atom: AtomType,
    /// Constraint on the atoms.
    pub constraint: Constraint,
}

/// Type of a column (`<type>`).
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnType {
    /// Type of elements, or of the keys of a map.
    pub key: BaseType,
    /// Type of the values of a map. `None`: the column is a set.
    pub value: Option<BaseType>,
    /// Minimum number of elements or pairs: 0 or 1.
    pub min: u32,
    /// Maximum number of elements or pairs, at least 1; [`ColumnType::UNLIMITED`]: no maximum.
    pub max: u32,
}

impl BaseType {
    /// Returns a base type without constraint.
    pub const fn unconstrained(atom: AtomType) -> Self {
        Self { atom, constraint: Constraint::None }
    }

    /// Returns the reference. `None`: atoms of this type do not refer to rows.
    pub fn reference(&self) -> Option<&Reference> {
        match &self.constraint {
            Constraint::Reference(reference) => Some(reference),
            _ => None,
        }
    }

    /// Checks the constraint. References are not checked here, but at commit.
    ///
    /// # Errors
    /// `constraint violation`, worded like in ovsdb-server.
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
                Err(range_error(atom, (min, min_open), (max, max_open), value < min))
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

/// Returns the error of a number outside its range. `below` is true if the number is less than the
/// minimum.
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
    /// [`max`](Self::max) of a set or map without maximum.
    pub const UNLIMITED: u32 = u32::MAX;

    /// Returns the type of a scalar without constraint.
    pub const fn scalar(atom: AtomType) -> Self {
        Self { key: BaseType::unconstrained(atom), value: None, min: 1, max: 1 }
    }

    /// Returns the type of `_uuid` and `_version`.
    pub fn uuid() -> &'static Self {
        static UUID: ColumnType = ColumnType::scalar(AtomType::Uuid);
        &UUID
    }

    /// `true` for a scalar: exactly one atom.
    pub fn is_scalar(&self) -> bool {
        self.value.is_none() && self.min == 1 && self.max == 1
    }

    /// `true` for an optional scalar: at most one atom.
    pub fn is_optional_scalar(&self) -> bool {
        self.value.is_none() && self.min == 0 && self.max == 1
    }

    /// `true` for a map.
    pub fn is_map(&self) -> bool {
        self.value.is_some()
    }

    /// `true` if more than one element or pair is allowed.
    pub fn is_composite(&self) -> bool {
        self.max > 1
    }

    /// Iterates over the type of elements or keys and, for a map, the type of values.
    pub fn base_types(&self) -> impl Iterator<Item = &BaseType> {
        std::iter::once(&self.key).chain(&self.value)
    }

    /// Returns the value of an omitted column (RFC 7047 section 5.2.1).
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

    /// `true` if the default of this type is the empty set or map, and `datum` is equal to it.
    pub fn is_empty_default(&self, datum: &Datum) -> bool {
        self.min == 0 && datum.is_empty() && self.is_map() == datum.as_map().is_some()
    }

    /// `true` if a value of this type equals [`default_datum`](Self::default_datum).
    pub fn is_default(&self, datum: &Datum) -> bool {
        if let Some(atom) = datum.as_scalar() {
            return self.min == 1 && atom.is_default();
        }
        datum.len() == self.min as usize && (self.min == 0 || datum.atoms().all(Atom::is_default))
    }

    /// Checks the constraints of all atoms of a value.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self, datum: &Datum) -> Result<(), OvsdbError> {
        let is_unconstrained = |base: &BaseType| matches!(base.constraint, Constraint::None);
        if self.base_types().all(is_unconstrained) {
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

    /// Returns the text of a value in messages: `[a]` for one element if there may be several.
    pub fn to_text(&self, datum: &Datum) -> String {
        match datum {
            Datum::Set(set) if set.len() == 1 && self.is_composite() => format!("[{datum}]"),
            _ => datum.to_string(),
        }
    }

    /// Returns the type in the words of error messages: `integer`, `set of up to 1 strings`, ...
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
        let content = match &self.value {
            Some(value) => format!("({}, {}) pairs", self.key.atom.name(), value.atom.name()),
            None => format!("{}s", self.key.atom.name()),
        };
        format!("{kind}{count} {content}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_in_english() {
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
