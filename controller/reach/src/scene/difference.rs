//! Ways between machines that open or close between two states of databases.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Ports, Reached, Scene};
use crate::mentions::{FactIds, Facts};
use crate::northbound::RowRef;
use crate::question::{Destination, Protocol};
use crate::zones::{Course, natural_key};

/// Ways between machines that differ between two states.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// Machines that only the later state has.
    pub added: Vec<String>,
    /// Machines that only the earlier state has.
    pub removed: Vec<String>,
    /// Ways that open or close.
    pub changes: Vec<Change>,
    /// Number of machines in both states.
    pub machines: usize,
    /// Number of classes of machines: all of a class have equal ways.
    pub classes: usize,
    /// Number of questions that were asked of each state.
    pub questions: usize,
    /// Number of questions whose packets go into a zone that has no database.
    pub unknown: usize,
}

/// Way between the machines of two classes that opens or closes.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// What changes.
    pub change: Changed,
    /// Senders, each with the same outcome.
    pub from: Vec<String>,
    /// Destinations, each with the same outcome: machines, or one service as `service/NAMESPACE/NAME`.
    pub to: Vec<String>,
    /// Protocols and ports.
    pub protocols: Vec<Ports>,
    /// The packet of the first pair in the earlier state. `None`: it cannot be sent there, such as for
    /// want of a common address family.
    pub before: Option<Course>,
    /// The packet of the first pair in the later state, likewise.
    pub after: Option<Course>,
}

/// Change of a way.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Changed {
    /// The destination is reached in the later state only.
    Opens,
    /// The destination is reached in the earlier state only.
    Closes,
}

impl Changed {
    /// Word of the change.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Opens => "opens",
            Self::Closes => "closes",
        }
    }
}

impl Change {
    /// The row that stops the packet or the reply, in the state in which the way is closed. `None`:
    /// no row does.
    pub fn stopped_by(&self) -> Option<RowRef> {
        self.closed()?.stopped_by()
    }

    /// The zone and row that stop the packet or the reply, likewise.
    pub fn stopping_row(&self) -> Option<(&str, RowRef)> {
        self.closed()?.stopping_row()
    }

    /// The packet in the state in which the way is closed. `None`: it cannot be sent there.
    pub fn closed(&self) -> Option<&Course> {
        match self.change {
            Changed::Opens => self.before.as_ref(),
            Changed::Closes => self.after.as_ref(),
        }
    }

    /// Number of pairs.
    pub fn pairs(&self) -> usize {
        let is_same = self.from == self.to;
        self.from.len() * (self.to.len() - usize::from(is_same))
    }
}

/// Machines with equal facts in both states, in the order of their names.
type Class = Vec<String>;

impl Scene<'_> {
    /// The ways that open or close from this state to a later one. `protocols`: packets that are
    /// asked about; `None`: those that matches of either state distinguish.
    ///
    /// Asks one question of each state for each pair of classes, or of a class and a service, and
    /// protocol.
    pub fn difference(&self, later: &Scene<'_>, protocols: Option<&[Ports]>) -> Difference {
        let common: Vec<&String> =
            self.machines.keys().filter(|name| later.machines.contains_key(*name)).collect();
        let classes = self.common_classes(later, &common);
        let own = match protocols {
            Some(protocols) => protocols.to_vec(),
            None => Ports::of_both(&self.ports, &later.ports),
        };
        let mut difference = Difference {
            added: missing(later, self),
            removed: missing(self, later),
            changes: Vec::new(),
            machines: common.len(),
            classes: classes.len(),
            questions: 0,
            unknown: 0,
        };
        for senders in &classes {
            for receivers in &classes {
                let (Some(from), Some(to)) = (senders.first(), receiver(senders, receivers)) else {
                    continue;
                };
                for ports in &own {
                    let ask = |scene: &Scene<'_>| scene.ask(from, to, ports.sample());
                    difference.add(senders, receivers, *ports, (ask(self), ask(later)));
                }
            }
            for service in self.services.union(&later.services) {
                let Some(from) = senders.first() else {
                    continue;
                };
                let receivers = vec![format!("service/{service}")];
                let destination = Destination::Service(service.clone());
                for protocol in self.service_ports(later, service, protocols) {
                    let ask = |scene: &Scene<'_>| scene.ask_for(from, &destination, protocol);
                    let answers = (ask(self), ask(later));
                    difference.add(senders, &receivers, Ports::one(protocol), answers);
                }
            }
        }
        difference
    }

    /// Machines of both states by the facts of both.
    fn common_classes(&self, later: &Scene<'_>, common: &[&String]) -> Vec<Class> {
        let (mut ids, mut later_ids) = (FactIds::default(), FactIds::default());
        let mut classes: BTreeMap<(Facts, Facts), Class> = BTreeMap::new();
        for name in common {
            let facts = self.facts(&self.machines[*name], &mut ids);
            let later_facts = later.facts(&later.machines[*name], &mut later_ids);
            classes.entry((facts, later_facts)).or_default().push((*name).clone());
        }
        let mut classes: Vec<Class> = classes.into_values().collect();
        for class in &mut classes {
            class.sort_by_cached_key(|name| natural_key(name));
        }
        classes.sort_by_cached_key(|class| class.first().map(|name| natural_key(name)));
        classes
    }

    /// Protocols of a service in either state that are asked about.
    fn service_ports(
        &self,
        later: &Scene<'_>,
        service: &str,
        protocols: Option<&[Ports]>,
    ) -> BTreeSet<Protocol> {
        let databases = self.zones.databases().chain(later.zones.databases());
        let all = databases.filter_map(|database| database.service_protocols(service).ok());
        let is_asked = |protocol: &Protocol| {
            protocols.is_none_or(|asked| asked.contains(&Ports::one(*protocol)))
        };
        all.flatten().filter(is_asked).collect()
    }
}

impl Difference {
    /// `true` if both states have the same machines and ways.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changes.is_empty()
    }

    /// Adds the answers of both states to a question.
    fn add(
        &mut self,
        from: &Class,
        to: &Class,
        ports: Ports,
        (before, after): (Option<Reached>, Option<Reached>),
    ) {
        self.questions += 1;
        let answers = [before.as_ref(), after.as_ref()];
        if answers.into_iter().flatten().any(|answer| answer.course.is_unasked()) {
            self.unknown += 1;
            return;
        }
        let [was_open, is_open] =
            answers.map(|answer| answer.is_some_and(|reached| reached.is_connected));
        if was_open == is_open {
            return;
        }
        let added = Change {
            change: if is_open { Changed::Opens } else { Changed::Closes },
            from: from.clone(),
            to: to.clone(),
            protocols: vec![ports],
            before: before.map(|reached| reached.course),
            after: after.map(|reached| reached.course),
        };
        let mut last = self.changes.iter_mut().rev();
        let same = last.find(|other| {
            (other.change, &other.from, &other.to) == (added.change, &added.from, &added.to)
                && other.stopping_row() == added.stopping_row()
        });
        match same {
            Some(other) => other.protocols.push(ports),
            None => self.changes.push(added),
        }
    }
}

/// The machine of a class that gets the packet of the first of another, or of the same one.
fn receiver<'c>(senders: &Class, receivers: &'c Class) -> Option<&'c String> {
    receivers.get(usize::from(senders == receivers))
}

/// Machines that one state has and the other has not.
fn missing(one: &Scene<'_>, other: &Scene<'_>) -> Vec<String> {
    let names = one.machines.keys().filter(|name| !other.machines.contains_key(*name));
    let mut names: Vec<String> = names.cloned().collect();
    names.sort_by_cached_key(|name| natural_key(name));
    names
}
