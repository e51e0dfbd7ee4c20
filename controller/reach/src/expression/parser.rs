//! Parser of the expression language.

use std::sync::Arc;

use super::constant::{Constant, Notation};
use super::constants::Constants;
use super::lexer::{Token, next_token};
use super::names::{Names, PortGroupId};
use super::symbol::{Level, Symbol, SymbolKind};
use super::tree::{Expression, Relation};
use super::value_set::ValueSet;

/// Deepest nesting of parentheses that OVN accepts.
const PARENTHESES_MAX: usize = 100;

/// Elements of address sets whose bits one match may compare.
const COPIED_MAX: usize = 1 << 20;

/// Error: OVN rejects a match.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{reason} at byte {position}")]
pub(crate) struct MatchError {
    /// Reason.
    pub(crate) reason: &'static str,
    /// Position in the match as ovn-northd writes it, in bytes.
    pub(crate) position: usize,
}

/// Parser with its next token.
pub(crate) struct Parser<'a> {
    text: &'a str,
    names: &'a Names,
    token: Token<'a>,
    /// Position behind the token, in bytes.
    position: usize,
    groups: Vec<PortGroupId>,
    depth: usize,
    /// Elements of address sets whose bits are compared one by one.
    copied: usize,
    /// `true` inside an odd number of negations.
    is_negated: bool,
}

/// Bits of a symbol.
#[derive(Clone, Copy)]
struct Operand {
    symbol: Symbol,
    offset: u32,
    width: u32,
}

impl<'a> Parser<'a> {
    /// Parses a whole text.
    ///
    /// # Errors
    /// OVN rejects the text.
    pub(crate) fn parse(
        text: &'a str,
        names: &'a Names,
    ) -> Result<(Expression, Vec<PortGroupId>), MatchError> {
        let mut parser = Self {
            text,
            names,
            token: Token::End,
            position: 0,
            groups: Vec::new(),
            depth: 0,
            copied: 0,
            is_negated: false,
        };
        parser.advance()?;
        let expression = parser.expression()?;
        if parser.token != Token::End {
            return Err(parser.error("expected the end"));
        }
        Ok((expression, parser.groups))
    }

    fn error(&self, reason: &'static str) -> MatchError {
        MatchError {
            reason,
            position: self.position,
        }
    }

    fn advance(&mut self) -> Result<(), MatchError> {
        let (token, position) =
            next_token(self.text, self.position).map_err(|reason| self.error(reason))?;
        self.token = token;
        self.position = position;
        Ok(())
    }

    /// Skips a mark. Returns `true` if the next token was this mark.
    fn skip(&mut self, mark: &str) -> Result<bool, MatchError> {
        let is_mark = matches!(self.token, Token::Mark(found) if found == mark);
        if is_mark {
            self.advance()?;
        }
        Ok(is_mark)
    }

    fn require(&mut self, mark: &str, reason: &'static str) -> Result<(), MatchError> {
        if self.skip(mark)? {
            Ok(())
        } else {
            Err(self.error(reason))
        }
    }

    fn relation(&self) -> Option<Relation> {
        match self.token {
            Token::Mark(mark) => Relation::from_mark(mark),
            _ => None,
        }
    }

    fn require_relation(&mut self) -> Result<Relation, MatchError> {
        let relation = self
            .relation()
            .ok_or_else(|| self.error("expected a relational operator"))?;
        self.advance()?;
        Ok(relation)
    }

    fn expression(&mut self) -> Result<Expression, MatchError> {
        let mut expression = self.operand_of_logic()?;
        let Token::Mark(mark @ ("&&" | "||")) = self.token else {
            return Ok(expression);
        };
        while self.skip(mark)? {
            let next = self.operand_of_logic()?;
            expression = if mark == "&&" {
                expression.and(next)
            } else {
                expression.or(next)
            };
        }
        if matches!(self.token, Token::Mark("&&" | "||")) {
            return Err(self.error("&& and || need parentheses when used together"));
        }
        Ok(expression)
    }

    fn operand_of_logic(&mut self) -> Result<Expression, MatchError> {
        if !self.skip("!")? {
            return Ok(self.primary()?.0);
        }
        self.is_negated = !self.is_negated;
        let (mut expression, is_atomic) = self.primary()?;
        self.is_negated = !self.is_negated;
        if !is_atomic {
            return Err(self.error("the operand of ! needs parentheses"));
        }
        expression.negate();
        Ok(expression)
    }

    /// Parses a comparison, a constant or an expression in parentheses. The second value is `true`
    /// if `!` may stand before it.
    fn primary(&mut self) -> Result<(Expression, bool), MatchError> {
        if self.skip("(")? {
            if self.depth == PARENTHESES_MAX {
                return Err(self.error("parentheses are nested too deeply"));
            }
            self.depth += 1;
            let expression = self.expression()?;
            self.depth -= 1;
            self.require(")", "expected )")?;
            return Ok((expression, true));
        }
        match &self.token {
            Token::Name("is_chassis_resident") => {
                self.advance()?;
                Ok((self.chassis_resident()?, true))
            }
            Token::Name(_) => self.field_first(),
            Token::Template => Err(self.error("the variable of a template is not known")),
            _ => self.constant_first(),
        }
    }

    fn chassis_resident(&mut self) -> Result<Expression, MatchError> {
        self.require("(", "expected (")?;
        let Token::Text(name) = &self.token else {
            return Err(self.error("expected a string"));
        };
        let is_resident = self.names.is_resident(name);
        self.advance()?;
        self.require(")", "expected )")?;
        Ok(Expression::Boolean(is_resident))
    }

    /// Parses `field`, or `field RELATION constants`.
    fn field_first(&mut self) -> Result<(Expression, bool), MatchError> {
        let operand = self.operand()?;
        if self.relation().is_some() {
            let relation = self.require_relation()?;
            let constants = self.constants()?;
            return Ok((self.compare(operand, relation, constants)?, false));
        }
        if operand.width == 0 {
            return Err(self.error("expected a relational operator"));
        }
        if operand.width > 1 && !self.is_negated {
            return Err(self.error("a field of several bits needs a comparison"));
        }
        let zero = Constant {
            value: 0,
            mask: None,
            notation: Notation::Hexadecimal,
        };
        let constants = Constants {
            integers: vec![zero],
            is_integer: true,
            count: 1,
            ..Constants::default()
        };
        Ok((self.compare(operand, Relation::NotEqual, constants)?, true))
    }

    /// Parses `0`, `1`, `constants RELATION field`, or `constant < field < constant`.
    fn constant_first(&mut self) -> Result<(Expression, bool), MatchError> {
        let first = self.constants()?;
        if let ([constant], None, false, false) = (
            &first.integers[..],
            self.relation(),
            first.is_in_braces,
            !first.shared.is_empty(),
        ) && constant.notation == Notation::Decimal
            && constant.mask.is_none()
            && constant.value <= 1
        {
            return Ok((Expression::Boolean(constant.value == 1), true));
        }
        let left = self.require_relation()?;
        let operand = self.operand()?;
        if self.relation().is_none() {
            return Ok((self.compare(operand, left.exchanged(), first)?, false));
        }
        let right = self.require_relation()?;
        let second = self.constants()?;
        let is_less = |relation| matches!(relation, Relation::Less | Relation::LessOrEqual);
        let is_greater =
            |relation| matches!(relation, Relation::Greater | Relation::GreaterOrEqual);
        let is_range = is_less(left) && is_less(right) || is_greater(left) && is_greater(right);
        if !is_range {
            return Err(self.error("a range has the form x < field < y"));
        }
        let lower = self.compare(operand, left.exchanged(), first)?;
        let upper = self.compare(operand, right, second)?;
        Ok((lower.and(upper), false))
    }

    fn operand(&mut self) -> Result<Operand, MatchError> {
        let Token::Name(name) = self.token else {
            return Err(self.error("expected a field"));
        };
        let symbol = Symbol::find(name).ok_or_else(|| self.error("unknown field"))?;
        self.advance()?;
        let whole = Operand {
            symbol,
            offset: 0,
            width: symbol.width,
        };
        if !self.skip("[")? {
            return Ok(whole);
        }
        if symbol.width == 0 {
            return Err(self.error("a port has no bits"));
        }
        let low = self.bit_number()?;
        let high = if self.skip("..")? {
            self.bit_number()?
        } else {
            low
        };
        self.require("]", "expected ]")?;
        if low > high || high >= symbol.width {
            return Err(self.error("the field has no such bits"));
        }
        let is_whole = low == 0 && high == symbol.width - 1;
        if symbol.level == Level::Nominal && !is_whole {
            return Err(self.error("the field has no subfields"));
        }
        Ok(Operand {
            symbol,
            offset: low,
            width: high - low + 1,
        })
    }

    fn bit_number(&mut self) -> Result<u32, MatchError> {
        match self.token {
            Token::Constant(Constant {
                value,
                mask: None,
                notation: Notation::Decimal,
            }) if value < 128 => {
                self.advance()?;
                Ok(value as u32)
            }
            _ => Err(self.error("expected the number of a bit")),
        }
    }

    fn constants(&mut self) -> Result<Constants, MatchError> {
        let mut constants = Constants::default();
        if !self.skip("{")? {
            self.constant(&mut constants)?;
            return Ok(constants);
        }
        constants.is_in_braces = true;
        loop {
            self.constant(&mut constants)?;
            self.skip(",")?;
            if self.skip("}")? {
                return Ok(constants);
            }
        }
    }

    fn constant(&mut self, constants: &mut Constants) -> Result<(), MatchError> {
        let token = std::mem::replace(&mut self.token, Token::End);
        let has_elements = constants.count > 0;
        let (is_text, is_integer) = match &token {
            Token::Text(_) | Token::PortGroup(_) => (true, has_elements && constants.is_integer),
            Token::Constant(_) | Token::AddressSet(_) => (has_elements && constants.is_text, true),
            Token::Template => return Err(self.error("the variable of a template is not known")),
            _ => return Err(self.error("expected a constant")),
        };
        if is_text && is_integer {
            return Err(self.error("strings and integers are mixed"));
        }
        (constants.is_text, constants.is_integer) = (is_text, is_integer);
        match token {
            Token::Text(name) => {
                constants.ports.extend(self.names.port(&name));
                constants.count += 1;
            }
            Token::PortGroup(name) => {
                let group = self
                    .names
                    .group(name)
                    .ok_or_else(|| self.error("unknown port group"))?;
                self.groups.push(group);
                constants.add_group(self.names.group_ports(group));
            }
            Token::Constant(constant) => {
                constants.integers.push(constant);
                constants.count += 1;
            }
            Token::AddressSet(name) => {
                let set = self
                    .names
                    .address_set(name)
                    .ok_or_else(|| self.error("unknown address set"))?;
                constants.add_shared(set);
            }
            _ => {}
        }
        self.advance()
    }

    fn compare(
        &mut self,
        operand: Operand,
        relation: Relation,
        constants: Constants,
    ) -> Result<Expression, MatchError> {
        let symbol = operand.symbol;
        if constants.is_text != (symbol.width == 0) {
            return Err(self.error("the field and the constant have different types"));
        }
        if constants.width() > symbol.width {
            return Err(self.error("the constant has more bits than the field"));
        }
        let is_equality = matches!(relation, Relation::Equal | Relation::NotEqual);
        if !is_equality {
            let has_mask = constants.first_mask().is_some();
            if constants.is_in_braces
                || constants.count == 0
                || has_mask
                || symbol.level != Level::Ordinal
            {
                return Err(self.error("only == and != are possible here"));
            }
        }
        if !compares_sets(operand, relation) {
            self.copied += constants.shared_count();
            if self.copied > COPIED_MAX {
                return Err(self.error("bits of too many addresses are compared"));
            }
        }
        if symbol.level == Level::Nominal {
            self.check_is_positive(symbol, relation, &constants)?;
        }
        if constants.count == 0 {
            return Ok(Expression::Boolean(relation == Relation::NotEqual));
        }
        Ok(match symbol.kind {
            SymbolKind::InputPort | SymbolKind::OutputPort => {
                let is_input = matches!(symbol.kind, SymbolKind::InputPort);
                let sets = constants.into_ports().into_iter();
                let parts = sets.map(|ports| Expression::Port { is_input, ports });
                // The parser accepts tests for equality only, with the enclosing negations.
                join(parts, !self.is_negated)
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
        })
    }

    /// Fails if a nominal symbol is tested for anything but equality, with the enclosing negations.
    fn check_is_positive(
        &self,
        symbol: Symbol,
        relation: Relation,
        constants: &Constants,
    ) -> Result<(), MatchError> {
        let is_equal = (relation == Relation::Equal) != self.is_negated;
        let is_positive = match symbol.kind {
            SymbolKind::Predicate(_) => constants
                .integers
                .iter()
                .all(|constant| (constant.value & 1 == 1) == is_equal),
            _ => is_equal,
        };
        if is_positive {
            Ok(())
        } else {
            Err(self.error("the field can be tested for equality only"))
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
    parts.fold(
        first,
        |all, part| {
            if is_any { all.or(part) } else { all.and(part) }
        },
    )
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
        let rest = Constants {
            shared: Vec::new(),
            ..constants
        };
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
