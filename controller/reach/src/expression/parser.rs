//! Parser of the expression language.

use super::comparison::{Comparison, Operand};
use super::constant::{Constant, Notation};
use super::constants::Constants;
use super::lexer::{Token, next_token};
use super::names::{Names, PortGroupId};
use super::symbol::{Level, Symbol};
use super::tree::{Expression, Relation};

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
        MatchError { reason, position: self.position }
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
        if self.skip(mark)? { Ok(()) } else { Err(self.error(reason)) }
    }

    fn relation(&self) -> Option<Relation> {
        match self.token {
            Token::Mark(mark) => Relation::from_mark(mark),
            _ => None,
        }
    }

    fn require_relation(&mut self) -> Result<Relation, MatchError> {
        let relation =
            self.relation().ok_or_else(|| self.error("expected a relational operator"))?;
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
            expression = if mark == "&&" { expression.and(next) } else { expression.or(next) };
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
        let zero = Constant { value: 0, mask: None, notation: Notation::Hexadecimal };
        let constants =
            Constants { integers: vec![zero], is_integer: true, count: 1, ..Constants::default() };
        Ok((self.compare(operand, Relation::NotEqual, constants)?, true))
    }

    /// Parses `0`, `1`, `constants RELATION field`, or `constant < field < constant`.
    fn constant_first(&mut self) -> Result<(Expression, bool), MatchError> {
        let first = self.constants()?;
        if let ([constant], None, false, false) =
            (&first.integers[..], self.relation(), first.is_in_braces, !first.shared.is_empty())
            && constant.notation == Notation::Decimal
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
        let whole = Operand { symbol, offset: 0, width: symbol.width };
        if !self.skip("[")? {
            return Ok(whole);
        }
        if symbol.width == 0 {
            return Err(self.error("a port has no bits"));
        }
        let low = self.bit_number()?;
        let high = if self.skip("..")? { self.bit_number()? } else { low };
        self.require("]", "expected ]")?;
        if low > high || high >= symbol.width {
            return Err(self.error("the field has no such bits"));
        }
        let is_whole = low == 0 && high == symbol.width - 1;
        if symbol.level == Level::Nominal && !is_whole {
            return Err(self.error("the field has no subfields"));
        }
        Ok(Operand { symbol, offset: low, width: high - low + 1 })
    }

    fn bit_number(&mut self) -> Result<u32, MatchError> {
        match self.token {
            Token::Constant(Constant { value, mask: None, notation: Notation::Decimal })
                if value < 128 =>
            {
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
                let group =
                    self.names.group(name).ok_or_else(|| self.error("unknown port group"))?;
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
        let comparison = Comparison::new(operand, relation, constants, self.is_negated)
            .map_err(|reason| self.error(reason))?;
        self.copied += comparison.copied_count();
        if self.copied > COPIED_MAX {
            return Err(self.error("bits of too many addresses are compared"));
        }
        Ok(comparison.into_expression())
    }
}
