//! Parsed expressions and their evaluation.

use std::sync::Arc;

use super::field::{Condition, Field};
use super::value_set::ValueSet;
use crate::northbound::PortId;
use crate::packet::Packet;

/// Parsed expression, without negations except in comparisons.
#[derive(Clone, Debug)]
pub(crate) enum Expression {
    Boolean(bool),
    And(Vec<Self>),
    Or(Vec<Self>),
    /// Comparison of the bits of `mask` with a value that has no other bits.
    Compare {
        field: Field,
        prerequisite: Condition,
        relation: Relation,
        value: u128,
        mask: u128,
    },
    /// `true` if the field is, or is not, one of the values.
    Member {
        field: Field,
        prerequisite: Condition,
        is_negated: bool,
        values: Arc<ValueSet>,
    },
    Holds {
        condition: Condition,
        is_negated: bool,
    },
    /// `true` if the input port, or the output port, is one of the ports.
    Port {
        is_input: bool,
        ports: PortSet,
    },
}

/// Ports that an expression names.
#[derive(Clone, Debug)]
pub(crate) enum PortSet {
    One(PortId),
    /// Sorted ports.
    Many(Arc<[PortId]>),
}

impl PortSet {
    pub(super) fn contains(&self, port: PortId) -> bool {
        match self {
            Self::One(one) => *one == port,
            Self::Many(many) => many.binary_search(&port).is_ok(),
        }
    }
}

/// Relational operator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Relation {
    /// The operator of a mark. `None`: another mark.
    pub(crate) fn from_mark(mark: &str) -> Option<Self> {
        match mark {
            "==" => Some(Self::Equal),
            "!=" => Some(Self::NotEqual),
            "<" => Some(Self::Less),
            "<=" => Some(Self::LessOrEqual),
            ">" => Some(Self::Greater),
            ">=" => Some(Self::GreaterOrEqual),
            _ => None,
        }
    }

    /// The operator that holds with exchanged operands.
    pub(crate) fn exchanged(self) -> Self {
        match self {
            Self::Equal | Self::NotEqual => self,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
        }
    }

    /// The operator that holds where this one does not.
    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
        }
    }

    fn holds(self, left: u128, right: u128) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }
}

impl Expression {
    /// Combines two expressions with `&&`.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::And(mut parts), Self::And(more)) => {
                parts.extend(more);
                Self::And(parts)
            }
            (Self::And(mut parts), one) => {
                parts.push(one);
                Self::And(parts)
            }
            (one, other) => Self::And(vec![one, other]),
        }
    }

    /// Combines two expressions with `||`.
    pub(crate) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Or(mut parts), Self::Or(more)) => {
                parts.extend(more);
                Self::Or(parts)
            }
            (Self::Or(mut parts), one) => {
                parts.push(one);
                Self::Or(parts)
            }
            (one, other) => Self::Or(vec![one, other]),
        }
    }

    /// Negates the expression. Prerequisites of fields are not negated: `!(tcp.dst == 80)` holds
    /// for TCP packets only.
    pub(crate) fn negate(&mut self) {
        match self {
            Self::Boolean(value) => *value = !*value,
            Self::And(parts) => {
                let mut parts = std::mem::take(parts);
                parts.iter_mut().for_each(Self::negate);
                *self = Self::Or(parts);
            }
            Self::Or(parts) => {
                let mut parts = std::mem::take(parts);
                parts.iter_mut().for_each(Self::negate);
                *self = Self::And(parts);
            }
            Self::Compare { relation, .. } => *relation = relation.negated(),
            Self::Member { is_negated, .. } | Self::Holds { is_negated, .. } => {
                *is_negated = !*is_negated;
            }
            // The parser accepts ports only where they are tested for equality in the end, so it
            // builds this node with the enclosing negations applied.
            Self::Port { .. } => {}
        }
    }

    /// `true` if the expression matches a packet.
    pub(crate) fn matches(&self, packet: &Packet) -> bool {
        match self {
            Self::Boolean(value) => *value,
            Self::And(parts) => parts.iter().all(|part| part.matches(packet)),
            Self::Or(parts) => parts.iter().any(|part| part.matches(packet)),
            Self::Compare { field, prerequisite, relation, value, mask } => {
                prerequisite.holds(packet) && relation.holds(field.value(packet) & mask, *value)
            }
            Self::Member { field, prerequisite, is_negated, values } => {
                prerequisite.holds(packet) && values.contains(field.value(packet)) != *is_negated
            }
            Self::Holds { condition, is_negated } => condition.holds(packet) != *is_negated,
            Self::Port { is_input, ports } => {
                let port = if *is_input { Some(packet.input) } else { packet.output };
                port.is_some_and(|port| ports.contains(port))
            }
        }
    }
}
