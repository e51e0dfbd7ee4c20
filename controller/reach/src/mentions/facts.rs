//! Facts about a machine in which it may differ from others.

use std::collections::{BTreeSet, HashMap};

use foldhash::fast::RandomState;

use super::words::{Word, replaced};
use super::{Mentions, Place, SET_TABLE, masked};
use crate::address::{Interface, Prefix};

/// Numbers of facts.
#[derive(Default)]
pub(crate) struct FactIds(HashMap<String, u32, RandomState>);

/// Facts about a machine, by number.
pub(crate) type Facts = BTreeSet<u32>;

/// Machine behind a switch port.
pub(crate) struct Machine<'a> {
    /// Name of the switch port.
    pub(crate) port: &'a str,
    /// Addresses of the switch port.
    pub(crate) interfaces: &'a [Interface],
}

impl FactIds {
    /// Number of a fact.
    pub(crate) fn number(&mut self, fact: String) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(fact).or_insert(next)
    }
}

impl Mentions {
    /// Adds the facts about a machine. `scope`: the zone and the network, which make them different
    /// from facts of another scope.
    pub(crate) fn add_facts(
        &self,
        scope: &str,
        machine: &Machine<'_>,
        (ids, facts): (&mut FactIds, &mut Facts),
    ) {
        let mut add = |fact: String| {
            facts.insert(ids.number(format!("{scope} {fact}")));
        };
        if self.is_unclear {
            add(format!("is {}", machine.port));
        }
        if let Some(own) = self.ports.get(machine.port) {
            add(format!("port {} {}", own.place, machine.in_text(&own.text)));
            for holder in &own.holders {
                add(format!("of {holder}"));
            }
        }
        for place in self.names.get(machine.port).into_iter().flatten() {
            add(self.fact(*place, Some(machine)));
        }
        for interface in machine.interfaces {
            for place in self.macs.get(&interface.mac).into_iter().flatten() {
                add(self.fact(*place, Some(machine)));
            }
            for own in &interface.addresses {
                let lengths = &self.lengths[usize::from(own.address.is_ipv6())];
                for length in lengths {
                    let network = masked(Prefix { address: own.address, length: *length });
                    let own = network.is_host().then_some(machine);
                    for place in self.networks.get(&network).into_iter().flatten() {
                        add(self.fact(*place, own));
                    }
                }
            }
        }
    }

    /// The fact that a word means a machine: all of its row, if the word means nothing else.
    fn fact(&self, place: Place, machine: Option<&Machine<'_>>) -> String {
        let row = &self.rows[place.row];
        match machine.filter(|_| !row.text.is_empty()) {
            Some(machine) => format!("{} {}", row.table, machine.in_text(&row.text)),
            None if &*row.table == SET_TABLE => format!("in {}", row.uuid),
            None => format!("in {} at {}", row.uuid, place.word),
        }
    }
}

impl Machine<'_> {
    /// A text of rows in which marks stand for the machine.
    fn in_text(&self, text: &str) -> String {
        replaced(text, |word| self.mark(word))
    }

    fn mark(&self, word: Word<'_>) -> Option<String> {
        match word {
            Word::Name(name) => (name == self.port).then(|| "<port>".to_owned()),
            Word::Mac(mac) => {
                self.place(|own| own.mac == mac).map(|place| format!("<mac {place}>"))
            }
            Word::Network(network) => self.address_mark(network),
            Word::Unclear => None,
        }
    }

    fn address_mark(&self, network: Prefix) -> Option<String> {
        let addresses = self.interfaces.iter().flat_map(|interface| &interface.addresses);
        let place = addresses.map(|own| own.address).position(|own| own == network.address)?;
        Some(format!("<address {place}/{}>", network.length))
    }

    fn place(&self, is_own: impl Fn(&Interface) -> bool) -> Option<usize> {
        self.interfaces.iter().position(is_own)
    }
}
