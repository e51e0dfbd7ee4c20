//! Comparison of bits of a field with constants.

use std::sync::Arc;

use super::constant::Constant;
use super::constants::Constants;
use super::symbol::{Level, Symbol, SymbolKind};
use super::tree::{Expression, Relation};
use super::value_set::ValueSet;

/// Bits of a symbol.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    pub(super) symbol: Symbol,
    pub(super) offset: u32,
    pub(super) width: u32,
}

/// Comparison that OVN accepts.
pub(super) struct Comparison {
    operand: Operand,
    relation: Relation,
    constants: Constants,
    /// `true` inside an odd number of negations.
    is_negated: bool,
}

impl Comparison {
    /// Checks a comparison.
    ///
    /// # Errors
    /// OVN rejects the comparison; the error is the reason.
    pub(super) fn new(
        operand: Operand,
        relation: Relation,
        constants: Constants,
        is_negated: bool,
    ) -> Result<Self, &'static str> {
        let symbol = operand.symbol;
        if constants.is_text != (symbol.width == 0) {
            return Err("the field and the constant have different types");
        }
        if constants.width() > symbol.width {
            return Err("the constant has more bits than the field");
        }
        let is_equality = matches!(relation, Relation::Equal | Relation::NotEqual);
        if !is_equality {
            let has_mask = constants.first_mask().is_some();
            if constants.is_in_braces
                || constants.count == 0
                || has_mask
                || symbol.level != Level::Ordinal
            {
                return Err("only == and != are possible here");
            }
        }
        let comparison = Self { operand, relation, constants, is_negated };
        if symbol.level == Level::Nominal && !comparison.is_positive() {
            return Err("the field can be tested for equality only");
        }
        Ok(comparison)
    }

    /// Number of elements of address sets whose bits are compared one by one.
    pub(super) fn copied_count(&self) -> usize {
        if compares_sets(self.operand, self.relation) { 0 } else { self.constants.shared_count() }
    }

    pub(super) fn into_expression(self) -> Expression {
        let Self { operand, relation, constants, is_negated } = self;
        if constants.count == 0 {
            return Expression::Boolean(relation == Relation::NotEqual);
        }
        match operand.symbol.kind {
            SymbolKind::InputPort | SymbolKind::OutputPort => {
                let is_input = matches!(operand.symbol.kind, SymbolKind::InputPort);
                let sets = constants.into_ports().into_iter();
                let parts = sets.map(|ports| Expression::Port { is_input, ports });
                // Ports are tested for equality only, with the enclosing negations.
                join(parts, !is_negated)
            }
            SymbolKind::Predicate(condition) => {
                let parts = constants.into_integers().map(|constant| {
                    let is_set = constant.value & 1 == 1;
                    Expression::Holds {
                        condition,
                        is_negated: is_set == (relation == Relation::NotEqual),
                    }
                });
                join(parts, relation == Relation::Equal)
            }
            SymbolKind::Field { .. } => compare_field(operand, relation, constants),
        }
    }

    /// `true` if the comparison tests a nominal symbol for equality, with the enclosing negations.
    fn is_positive(&self) -> bool {
        let is_equal = (self.relation == Relation::Equal) != self.is_negated;
        match self.operand.symbol.kind {
            SymbolKind::Predicate(_) => {
                self.constants.integers.iter().all(|constant| (constant.value & 1 == 1) == is_equal)
            }
            _ => is_equal,
        }
    }
}

/// `true` if a comparison looks the whole field up in address sets.
fn compares_sets(operand: Operand, relation: Relation) -> bool {
    let SymbolKind::Field { offset, .. } = operand.symbol.kind else {
        return false;
    };
    let is_whole = offset + operand.offset == 0 && operand.width == operand.symbol.width;
    is_whole && matches!(relation, Relation::Equal | Relation::NotEqual)
}

/// Joins parts with `||` if one of them has to hold, or else with `&&`.
fn join(mut parts: impl Iterator<Item = Expression>, is_any: bool) -> Expression {
    let first = parts.next().unwrap_or(Expression::Boolean(true));
    parts.fold(first, |all, part| if is_any { all.or(part) } else { all.and(part) })
}

/// Compares bits of a field with constants. The first constant counts if there is only one.
fn compare_field(operand: Operand, relation: Relation, constants: Constants) -> Expression {
    let SymbolKind::Field { field, offset } = operand.symbol.kind else {
        return Expression::Boolean(false);
    };
    let prerequisite = operand.symbol.prerequisite;
    let shift = offset + operand.offset;
    let ones = u128::MAX >> (u128::BITS - operand.width);
    let is_equality = matches!(relation, Relation::Equal | Relation::NotEqual);
    let is_negated = relation == Relation::NotEqual;
    if compares_sets(operand, relation) && !constants.shared.is_empty() {
        let member = |values: &Arc<ValueSet>| Expression::Member {
            field,
            prerequisite,
            is_negated,
            values: Arc::clone(values),
        };
        let sets: Vec<_> = constants.shared.iter().map(member).collect();
        let rest = Constants { shared: Vec::new(), ..constants };
        let has_rest = !rest.integers.is_empty();
        let rest = has_rest.then(|| compare_field(operand, relation, rest));
        return join(sets.into_iter().chain(rest), !is_negated);
    }
    let mut integers = constants.into_integers().map(|constant| Constant {
        value: (constant.value & ones) << shift,
        mask: Some((constant.mask.unwrap_or(ones) & ones) << shift),
        ..constant
    });
    let Some(first) = integers.next() else {
        return Expression::Boolean(relation == Relation::NotEqual);
    };
    let compare = |constant: Constant| Expression::Compare {
        field,
        prerequisite,
        relation,
        value: constant.value,
        mask: constant.mask.unwrap_or(ones),
    };
    let rest: Vec<_> = integers.collect();
    if rest.is_empty() || !is_equality {
        return compare(first);
    }
    let mut values = ValueSet::default();
    for constant in std::iter::once(first).chain(rest) {
        values.insert(constant);
    }
    Expression::Member {
        field,
        prerequisite,
        is_negated: relation == Relation::NotEqual,
        values: Arc::new(values),
    }
}
