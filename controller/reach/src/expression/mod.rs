//! Expression language of OVN's matches: parser and evaluation on one packet.
//!
//! The language is that of the column `match` of `Logical_Flow` (ovn-sb(5)). A match that OVN
//! rejects is rejected here, because OVN then ignores its row.

mod constant;
mod constants;
mod field;
mod lexer;
mod names;
mod parser;
mod symbol;
mod tree;
mod value_set;

pub(crate) use value_set::ValueSet;

pub(crate) use names::{Names, PortGroupId};
pub(crate) use parser::MatchError;
use parser::Parser;
use tree::Expression;

use crate::northbound::SwitchId;
use crate::packet::Packet;

/// Parsed match of a row.
#[derive(Clone, Debug)]
pub(crate) struct Match {
    expression: Expression,
    /// Port groups that the match names.
    groups: Vec<PortGroupId>,
}

impl Match {
    /// Parses a match as ovn-northd puts it into a logical flow: in parentheses, behind other
    /// conditions.
    ///
    /// # Errors
    /// OVN rejects the match.
    pub(crate) fn parse_nested(text: &str, names: &Names) -> Result<Self, MatchError> {
        Self::parse(&format!("1 && ({text})"), names)
    }

    /// Parses a match that is a whole expression.
    ///
    /// # Errors
    /// OVN rejects the match.
    pub(crate) fn parse(text: &str, names: &Names) -> Result<Self, MatchError> {
        let text = names.expand_templates(text);
        let (expression, groups) = Parser::parse(&text, names)?;
        Ok(Self { expression, groups })
    }

    /// A port group of the match that has no port on a switch. OVN does not know the group there,
    /// and ignores the match. `None`: there is no such group.
    pub(crate) fn missing_group<'a>(&self, switch: SwitchId, names: &'a Names) -> Option<&'a str> {
        let missing = self
            .groups
            .iter()
            .find(|group| !names.is_group_on(**group, switch))?;
        Some(names.group_name(*missing))
    }

    /// A port group of the match. Routers know no port groups. `None`: the match has no group.
    pub(crate) fn first_group<'a>(&self, names: &'a Names) -> Option<&'a str> {
        self.groups.first().map(|group| names.group_name(*group))
    }

    /// `true` if a packet matches.
    pub(crate) fn matches(&self, packet: &Packet) -> bool {
        self.expression.matches(packet)
    }
}
