//! Reachability of networks or machines, pair by pair.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::places::{Place, networks_of};
use super::{Course, Outcome, Zones};
use crate::answer::Verdict;
use crate::northbound::{Northbound, SwitchPortId, SwitchPortKind};
use crate::question::{Destination, Protocol, Question, Sender};
use crate::resolve::addresses;

/// Verdicts of all pairs of networks or machines.
#[derive(Clone, Debug, Serialize)]
pub struct Matrix {
    /// Protocol of the packets.
    pub protocol: Protocol,
    /// Names of the networks, pods or switch ports.
    pub names: Vec<String>,
    /// One row for each sender, with one cell for each destination. `None`: the pair cannot be
    /// asked, because there is no second machine or no common address family.
    pub rows: Vec<Vec<Option<Cell>>>,
    /// Zones into which packets or replies go, and that have no database.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub not_asked: BTreeSet<String>,
}

/// Outcome of one pair.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// Sender: a pod or switch port.
    pub from: String,
    /// Destination: a pod or switch port.
    pub to: String,
    /// `true` if the packet arrives at the destination's port, not anywhere else, and the sender
    /// gets the reply.
    pub connected: bool,
    /// `true` if the packet or the reply goes into a zone that has no database.
    pub other_chassis: bool,
    /// Outcome of the packet in the last database.
    pub verdict: Verdict,
    /// Place of the end, in words.
    pub at: String,
}

/// Pairs of networks or machines whose packets can be asked about, by their places in a list.
pub struct Pairs<'z> {
    zones: &'z Zones,
    names: Vec<String>,
    /// Machines by the place of their network, the sender first; or all machines, one for each place.
    machines: Vec<Vec<Machine<'z>>>,
}

/// Packet between the machines of a pair.
#[derive(Clone, Debug)]
pub struct AskedPair {
    /// Sender: a pod or switch port.
    pub from: String,
    /// Destination: a pod or switch port.
    pub to: String,
    /// `true` if the packet arrives at the destination's port, and the sender gets the reply.
    pub is_connected: bool,
    /// Course of the packet and of the reply.
    pub course: Course,
}

/// Machine with one name and the ports that it has.
pub(crate) struct Machine<'a> {
    pub(crate) name: String,
    pub(crate) ports: Vec<Place<'a>>,
}

impl Zones {
    /// Asks all pairs of networks: see [`Zones::network_pairs`].
    pub fn network_matrix(&self, protocol: Protocol) -> Matrix {
        self.network_pairs().matrix(protocol)
    }

    /// Asks all pairs of machines: see [`Zones::machine_pairs`].
    pub fn machine_matrix(&self, protocol: Protocol) -> Matrix {
        self.machine_pairs().matrix(protocol)
    }

    /// Pairs of networks, each with its first pod, or else its first machine, and the second one as
    /// destination of the first. Those of the default zone come first.
    ///
    /// A network is the value of the external id `k8s.ovn.org/network`, or else a switch.
    pub fn network_pairs(&self) -> Pairs<'_> {
        let mut networks: BTreeMap<&str, Vec<Machine<'_>>> = BTreeMap::new();
        for place in self.machines() {
            let switch = place.database.switch_port(place.port).switch;
            let switch = &place.database.switch(switch).name;
            let network = place.network().unwrap_or(switch);
            networks
                .entry(network)
                .or_default()
                .push(Machine { name: place.name().to_owned(), ports: vec![place] });
        }
        let is_pod =
            |machine: &Machine<'_>| machine.ports.iter().any(|place| place.pod().is_some());
        let mut networks: Vec<_> = networks.into_iter().collect();
        for (_, machines) in &mut networks {
            machines.sort_by_cached_key(|machine| {
                let is_far = machine.ports.iter().all(|port| port.zone != self.default);
                (!is_pod(machine), is_far, natural_key(&machine.name))
            });
            // The port of another node may have the address of that of the sender's node.
            let zone = machines.first().and_then(|machine| Some(machine.ports.first()?.zone));
            if let Some(others) = machines.get_mut(1..) {
                others.sort_by_key(|machine| {
                    let is_near = machine.ports.iter().any(|port| Some(port.zone) == zone);
                    !is_pod(machine) && !is_near
                });
            }
            machines.truncate(2);
        }
        networks.sort_by_cached_key(|(name, _)| natural_key(name));
        let (names, machines) =
            networks.into_iter().map(|(name, machines)| (name.to_owned(), machines)).unzip();
        Pairs { zones: self, names, machines }
    }

    /// Pairs of machines: pods, or all machines if no switch port is marked as a pod's.
    pub fn machine_pairs(&self) -> Pairs<'_> {
        let machines = self.machine_list();
        Pairs {
            zones: self,
            names: machines.iter().map(|machine| machine.name.clone()).collect(),
            machines: machines.into_iter().map(|machine| vec![machine]).collect(),
        }
    }

    /// Pods, or all machines if no switch port is marked as a pod's, in the order of their names.
    pub(crate) fn machine_list(&self) -> Vec<Machine<'_>> {
        let mut pods: BTreeMap<String, Vec<Place<'_>>> = BTreeMap::new();
        let mut others = Vec::new();
        for place in self.machines() {
            match place.pod() {
                Some(pod) => pods.entry(pod).or_default().push(place),
                None => others.push(Machine { name: place.name().to_owned(), ports: vec![place] }),
            }
        }
        let pods = pods.into_iter();
        let mut machines: Vec<_> = pods.map(|(name, ports)| Machine { name, ports }).collect();
        if machines.is_empty() {
            machines = others;
        }
        machines.sort_by_cached_key(|machine| natural_key(&machine.name));
        machines
    }

    /// Follows the packet of a pair. Returns the port of the destination, too.
    pub(crate) fn ask_pair(
        &self,
        from: &Machine<'_>,
        to: &Machine<'_>,
        protocol: Protocol,
    ) -> Option<(Course, String)> {
        let networks = networks_of(&to.ports);
        let sender = *from.ports.first()?;
        let sender = self.choose(&from.name, sender, &from.ports, &networks).ok()?;
        let target = *to.ports.first()?;
        let network = [sender.network()];
        let target = self.choose(&to.name, target, &to.ports, &network).ok()?;
        let question = Question {
            sender: Sender::port(sender.name()),
            destination: Destination::Port(target.name().to_owned()),
            protocol,
        };
        let addresses = addresses(target.database.switch_port(target.port));
        let course = self.ask_between(&question, sender, &addresses, Some(target));
        Some((course.ok()?, target.name().to_owned()))
    }

    /// Machines with addresses, each on its own chassis.
    fn machines(&self) -> impl Iterator<Item = Place<'_>> {
        let zones = self.databases.iter();
        zones.flat_map(|(zone, database)| {
            let ports = database.machines();
            ports.map(move |port| Place { zone, database, port })
        })
    }
}

impl Pairs<'_> {
    /// Names of the networks, pods or switch ports, by their places.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Follows the packet of a pair. `None`: the pair cannot be asked, because there is no second
    /// machine or no common address family, or because a place is not there.
    pub fn ask(&self, row: usize, column: usize, protocol: Protocol) -> Option<AskedPair> {
        // A network has a second machine, and a machine is alone at its place.
        let second = usize::from(row == column);
        let from = self.machines.get(row)?.first()?;
        let to = self.machines.get(column)?.get(second)?;
        let (course, port) = self.zones.ask_pair(from, to, protocol)?;
        let is_connected = course.connects(&port);
        Some(AskedPair { from: from.name.clone(), to: to.name.clone(), is_connected, course })
    }

    /// Asks all pairs.
    fn matrix(self, protocol: Protocol) -> Matrix {
        let count = self.names.len();
        let mut not_asked = BTreeSet::new();
        let mut rows = Vec::with_capacity(count);
        for row in 0..count {
            let cells = (0..count).map(|column| {
                let asked = self.ask(row, column, protocol)?;
                not_asked.extend(asked.course.zones.not_asked.iter().cloned());
                Some(Cell::new(asked))
            });
            rows.push(cells.collect());
        }
        Matrix { protocol, names: self.names, rows, not_asked }
    }
}

impl Cell {
    fn new(asked: AskedPair) -> Self {
        let AskedPair { from, to, is_connected, course } = asked;
        let last = course.last();
        let reply = course.reply.as_ref().filter(|_| course.outcome == Outcome::NoReply);
        let at = match reply {
            Some(reply) => format!("no reply: {}", reply.answer.at),
            None => last.at.clone(),
        };
        Self {
            from,
            to,
            connected: is_connected,
            other_chassis: course.is_unasked(),
            verdict: last.verdict,
            at,
        }
    }
}

impl Northbound {
    /// Switch ports of local machines with addresses.
    fn machines(&self) -> impl Iterator<Item = SwitchPortId> {
        let machines = self.switch_ports().filter(|(_, port)| {
            port.kind == SwitchPortKind::Machine
                && port.interfaces.iter().any(|interface| !interface.addresses.is_empty())
        });
        machines.map(|(id, _)| id)
    }
}

/// Key by which `pod-2` comes before `pod-10`: texts, and numbers by their lengths without leading
/// zeros.
pub(crate) fn natural_key(name: &str) -> Vec<(bool, usize, String)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let is_number = first.is_ascii_digit();
        let end = rest.find(|next: char| next.is_ascii_digit() != is_number);
        let (part, behind) = rest.split_at(end.unwrap_or(rest.len()));
        let digits = part.trim_start_matches('0');
        parts.push(if is_number {
            (false, digits.len(), digits.to_owned())
        } else {
            (true, 0, part.to_owned())
        });
        rest = behind;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_compared_as_numbers() {
        let mut names = vec!["b/pod-10", "b/pod-2", "a2/x", "a10/x", "b/pod-002", "b/pod"];
        names.sort_by_cached_key(|name| natural_key(name));
        let expected = ["a2/x", "a10/x", "b/pod", "b/pod-2", "b/pod-002", "b/pod-10"];
        assert_eq!(names, expected);
    }
}
