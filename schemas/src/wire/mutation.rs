//! `<mutation>` (RFC 7047 section 5.1) and its arithmetic.

use crate::atom::{Atom, AtomType, Real};
use crate::datum::{Datum, Set};
use crate::error::OvsdbError;
use crate::json::Reader;
use crate::schema::{ColumnId, ColumnType, Constraint, TableSchema};

use super::notation::NotationReader;
use super::triple::decode_triple;

/// `<mutator>`: operation of a mutation on a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutator {
    /// `+=`
    Add,
    /// `-=`
    Subtract,
    /// `*=`
    Multiply,
    /// `/=`
    Divide,
    /// `%=`
    Modulo,
    /// `insert`: adds elements or pairs. Existing keys keep their values.
    Insert,
    /// `delete`: removes elements, pairs or keys.
    Delete,
}

impl Mutator {
    const ALL: [Self; 7] = [
        Self::Add,
        Self::Subtract,
        Self::Multiply,
        Self::Divide,
        Self::Modulo,
        Self::Insert,
        Self::Delete,
    ];

    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Add => "+=",
            Self::Subtract => "-=",
            Self::Multiply => "*=",
            Self::Divide => "/=",
            Self::Modulo => "%=",
            Self::Insert => "insert",
            Self::Delete => "delete",
        }
    }

    fn from_name(name: &str) -> Result<Self, OvsdbError> {
        Self::ALL
            .into_iter()
            .find(|mutator| mutator.name() == name)
            .ok_or_else(|| OvsdbError::new("unknown mutator", format!("No mutator named {name}.")))
    }

    /// `true` for mutators of numbers.
    fn is_arithmetic(self) -> bool {
        !matches!(self, Self::Insert | Self::Delete)
    }

    /// Returns the type of the argument for a column of type `ty`. `None`: the mutator does not
    /// apply to the column.
    fn argument_type(self, ty: &ColumnType) -> Option<ColumnType> {
        let mut argument = ty.clone();
        if self.is_arithmetic() {
            let number = match ty.key.atom {
                AtomType::Integer => true,
                AtomType::Real => self != Self::Modulo,
                _ => false,
            };
            if !number || ty.is_map() {
                return None;
            }
            argument.key.constraint = Constraint::None;
            (argument.min, argument.max) = (1, 1);
        } else {
            if ty.is_scalar() {
                return None;
            }
            argument.min = 0;
            if self == Self::Delete {
                argument.max = ColumnType::UNLIMITED;
            }
        }
        Some(argument)
    }

    fn integer(self, value: i64, operand: i64) -> Result<i64, OvsdbError> {
        let result = match self {
            Self::Add => value.checked_add(operand),
            Self::Subtract => value.checked_sub(operand),
            Self::Multiply => value.checked_mul(operand),
            Self::Divide | Self::Modulo if operand == 0 => return Err(division_by_zero()),
            Self::Divide => value.checked_div(operand),
            _ => value.checked_rem(operand),
        };
        result.ok_or_else(|| self.out_of_range())
    }

    fn real(self, value: f64, operand: f64) -> Result<f64, OvsdbError> {
        let result = match self {
            Self::Add => value + operand,
            Self::Subtract => value - operand,
            Self::Multiply => value * operand,
            _ if operand == 0.0 => return Err(division_by_zero()),
            _ => value / operand,
        };
        if result.is_finite() { Ok(result) } else { Err(self.out_of_range()) }
    }

    fn out_of_range(self) -> OvsdbError {
        OvsdbError::new(
            "range error",
            format!("Result of \"{}\" operation is out of range.", self.name()),
        )
    }
}

fn division_by_zero() -> OvsdbError {
    OvsdbError::new("domain error", "Division by zero.")
}

/// Mutation of a column: `[column, mutator, value]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Mutation {
    /// The column.
    pub column: ColumnId,
    /// The mutator.
    pub mutator: Mutator,
    /// The value. For `delete` on a map: a map of pairs, or a set of keys.
    pub argument: Datum,
}

impl Mutation {
    /// Decodes a mutation.
    pub(crate) fn decode(
        reader: &mut Reader<'_>,
        table: &TableSchema,
        notation: &mut NotationReader<'_, '_, '_>,
    ) -> Result<Self, OvsdbError> {
        decode_triple(reader, table, "mutation", |head, reader| {
            let (column, ty) = (head.column, table.column_type(head.column));
            if !table.is_mutable(column) {
                let details = format!(
                    "Cannot mutate immutable column {} in table {}.",
                    head.column_name, table.name
                );
                return Err(head.error("constraint violation", details));
            }
            let mutator = Mutator::from_name(&head.operator)?;
            let argument_type =
                mutator.argument_type(ty).ok_or_else(|| head.type_mismatch(table))?;
            let start = *reader;
            let mut argument = notation.datum(reader, &argument_type);
            if argument.is_err() && mutator == Mutator::Delete && ty.is_map() {
                *reader = start;
                let keys = ColumnType { value: None, ..argument_type };
                argument = notation.datum(reader, &keys);
            }
            Ok(Self { column, mutator, argument: argument? })
        })
    }

    /// Applies the mutation to a value of a column of type `ty`.
    ///
    /// # Errors
    /// Overflow, division by zero, or a result that violates the type: constraints, number of
    /// elements, duplicates.
    pub fn apply(&self, value: &mut Datum, ty: &ColumnType) -> Result<(), OvsdbError> {
        match self.mutator {
            Mutator::Insert => {
                match (&mut *value, &self.argument) {
                    (Datum::Set(set), Datum::Set(argument)) => set.extend(argument),
                    (Datum::Map(map), Datum::Map(argument)) => map.insert_missing(argument),
                    _ => {}
                }
                check_count(value, ty)
            }
            Mutator::Delete => {
                match (&mut *value, &self.argument) {
                    (Datum::Set(set), Datum::Set(argument)) => set.remove_all(argument),
                    (Datum::Map(map), Datum::Map(argument)) => map.remove_pairs(argument),
                    (Datum::Map(map), Datum::Set(keys)) => map.remove_keys(keys),
                    (Datum::Set(_), Datum::Map(_)) => {}
                }
                check_count(value, ty)
            }
            _ => self.calculate(value, ty),
        }
    }

    /// Applies an arithmetic mutator to each element.
    fn calculate(&self, value: &mut Datum, ty: &ColumnType) -> Result<(), OvsdbError> {
        let (Datum::Set(set), Some(operand)) = (&*value, self.argument.as_scalar()) else {
            return Ok(());
        };
        let mut results = Vec::with_capacity(set.len());
        for atom in set {
            let result = match (atom, operand) {
                (Atom::Integer(value), Atom::Integer(operand)) => {
                    Atom::Integer(self.mutator.integer(*value, *operand)?)
                }
                (Atom::Real(value), Atom::Real(operand)) => {
                    Atom::Real(Real(self.mutator.real(value.0, operand.0)?))
                }
                _ => atom.clone(),
            };
            ty.key.check(&result)?;
            results.push(result);
        }
        let Some(set) = Set::from_distinct(&mut results) else {
            let name = self.mutator.name();
            let details = format!("Result of \"{name}\" operation contains duplicates.");
            return Err(OvsdbError::constraint(details));
        };
        *value = Datum::Set(set);
        Ok(())
    }
}

/// Checks the number of elements of a result.
fn check_count(value: &Datum, ty: &ColumnType) -> Result<(), OvsdbError> {
    let n = value.len();
    if n < ty.min as usize || n > ty.max as usize {
        let details = format!("Attempted to store {n} elements in {}.", ty.to_english());
        return Err(OvsdbError::constraint(details));
    }
    Ok(())
}
