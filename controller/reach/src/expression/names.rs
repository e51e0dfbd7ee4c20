//! Names that matches refer to: ports, port groups, address sets, variables of templates.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::lexer::{Token, next_token};
use super::value_set::ValueSet;
use crate::northbound::{PortId, SwitchId};

/// Length of the longest text that templates may expand to, in bytes.
const EXPANDED_MAX: usize = 16 << 20;

/// Number of a port group.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct PortGroupId(usize);

/// Names that matches refer to.
#[derive(Debug, Default)]
pub(crate) struct Names {
    ports: HashMap<String, PortId, RandomState>,
    /// Ports that some chassis has: switch ports, and gateway ports as `cr-NAME`.
    resident: HashSet<String, RandomState>,
    address_sets: HashMap<String, Arc<ValueSet>, RandomState>,
    group_ids: HashMap<String, PortGroupId, RandomState>,
    groups: Vec<PortGroup>,
    /// Variables of the chassis, in the order of their names.
    variables: BTreeMap<String, String>,
    /// `true` if another chassis has other variables, and none was chosen.
    has_guessed_variables: bool,
}

#[derive(Debug)]
struct PortGroup {
    name: String,
    ports: Arc<[PortId]>,
    switches: HashSet<SwitchId, RandomState>,
}

impl Names {
    pub(crate) fn add_port(&mut self, name: &str, port: PortId) {
        self.ports.insert(name.to_owned(), port);
    }

    /// Adds a port that some chassis has.
    pub(crate) fn add_resident(&mut self, name: String) {
        self.resident.insert(name);
    }

    /// Adds a port group with its ports and their switches.
    pub(crate) fn add_group(&mut self, name: &str, members: &[(PortId, SwitchId)]) {
        let mut ports: Vec<_> = members.iter().map(|(port, _)| *port).collect();
        ports.sort_unstable();
        let id = PortGroupId(self.groups.len());
        self.groups.push(PortGroup {
            name: name.to_owned(),
            ports: ports.into(),
            switches: members.iter().map(|(_, switch)| *switch).collect(),
        });
        self.group_ids.insert(name.to_owned(), id);
    }

    /// Adds an address set. Of each element, the first constant counts; an element without one is
    /// left out.
    pub(crate) fn add_address_set<'a>(
        &mut self,
        name: &str,
        addresses: impl IntoIterator<Item = &'a str>,
    ) {
        let mut values = ValueSet::default();
        for address in addresses {
            if let Ok((Token::Constant(constant), _)) = next_token(address, 0) {
                values.insert(constant);
            }
        }
        self.address_sets.insert(name.to_owned(), values.into());
    }

    /// Sets the variables of templates. `is_guess`: another chassis has other ones, and none was
    /// chosen.
    pub(crate) fn set_variables(&mut self, variables: BTreeMap<String, String>, is_guess: bool) {
        self.variables = variables;
        self.has_guessed_variables = is_guess;
    }

    pub(crate) fn has_guessed_variables(&self) -> bool {
        self.has_guessed_variables
    }

    /// Replaces `^VARIABLE` by its value; unknown variables stay, and all of a text that would
    /// become longer than `EXPANDED_MAX` bytes.
    pub(crate) fn expand_templates<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.variables.is_empty() || !text.contains('^') {
            return Cow::Borrowed(text);
        }
        let mut parts = text.split('^');
        let mut expanded = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part
                .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.'))
                .unwrap_or(part.len());
            if let Some(value) = self.variables.get(&part[..end]) {
                expanded.push_str(value);
            } else {
                expanded.push('^');
                expanded.push_str(&part[..end]);
            }
            expanded.push_str(&part[end..]);
            if expanded.len() > EXPANDED_MAX {
                return Cow::Borrowed(text);
            }
        }
        Cow::Owned(expanded)
    }

    pub(crate) fn port(&self, name: &str) -> Option<PortId> {
        self.ports.get(name).copied()
    }

    /// `true` if a chassis has the port. Every gateway chassis counts as the local one.
    pub(crate) fn is_resident(&self, name: &str) -> bool {
        self.resident.contains(name)
    }

    pub(crate) fn address_set(&self, name: &str) -> Option<&Arc<ValueSet>> {
        self.address_sets.get(name)
    }

    pub(crate) fn group(&self, name: &str) -> Option<PortGroupId> {
        self.group_ids.get(name).copied()
    }

    pub(crate) fn group_name(&self, group: PortGroupId) -> &str {
        &self.groups[group.0].name
    }

    pub(crate) fn group_ports(&self, group: PortGroupId) -> &Arc<[PortId]> {
        &self.groups[group.0].ports
    }

    /// `true` if a port of the group is on a switch.
    pub(crate) fn is_group_on(&self, group: PortGroupId, switch: SwitchId) -> bool {
        self.groups[group.0].switches.contains(&switch)
    }
}
