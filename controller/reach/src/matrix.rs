//! Reachability of networks or machines, pair by pair.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::answer::{Answer, Verdict};
use crate::northbound::{Northbound, PortId, SwitchPort, SwitchPortId, SwitchPortKind};
use crate::question::{Destination, Protocol, Question, Sender};

/// Verdicts of all pairs of networks or machines.
#[derive(Clone, Debug, Serialize)]
pub struct Matrix {
    /// Protocol of the packets.
    pub protocol: Protocol,
    /// Names of the networks or switch ports.
    pub names: Vec<String>,
    /// One row for each sender, with one cell for each destination. `None`: the pair cannot be
    /// asked, because there is no second machine or no common address family.
    pub rows: Vec<Vec<Option<Cell>>>,
}

/// Outcome of one pair.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// Switch port of the sender.
    pub from: String,
    /// Switch port of the destination.
    pub to: String,
    /// `true` if the packet arrives at the destination's port, not anywhere else.
    pub connected: bool,
    /// `true` if the packet leaves for another chassis, whose rows decide about the rest.
    pub other_chassis: bool,
    /// Outcome of the packet.
    pub verdict: Verdict,
    /// Place of the end, in words.
    pub at: String,
}

impl Northbound {
    /// Asks all pairs of networks, each with its first machine, and its second one as destination
    /// of the first.
    ///
    /// A network is the value of the external id `k8s.ovn.org/network`, or else a switch.
    pub fn network_matrix(&self, protocol: Protocol) -> Matrix {
        let mut networks: BTreeMap<String, Vec<SwitchPortId>> = BTreeMap::new();
        for (id, port) in self.machines() {
            let network = self
                .network_of(id)
                .unwrap_or(&self.switch(port.switch).name);
            networks.entry(network.to_owned()).or_default().push(id);
        }
        let ports: Vec<_> = networks
            .values_mut()
            .map(|ports| {
                ports.sort_by_key(|id| {
                    let port = self.switch_port(*id);
                    (!port.external_ids.contains_key("pod"), &port.name)
                });
                (ports[0], ports.get(1).copied())
            })
            .collect();
        let rows = ports
            .iter()
            .enumerate()
            .map(|(row, (sender, second))| {
                let targets = ports.iter().enumerate().map(|(column, (first, _))| {
                    let target = if row == column { *second } else { Some(*first) };
                    target.and_then(|target| self.cell(*sender, target, protocol))
                });
                targets.collect()
            })
            .collect();
        Matrix {
            protocol,
            names: networks.into_keys().collect(),
            rows,
        }
    }

    /// Asks all pairs of machines: pods, or all machines if no switch port is marked as a pod's.
    pub fn machine_matrix(&self, protocol: Protocol) -> Matrix {
        let mut ports: Vec<_> = self.machines().map(|(id, _)| id).collect();
        let is_pod = |id: &SwitchPortId| self.switch_port(*id).external_ids.contains_key("pod");
        if ports.iter().any(is_pod) {
            ports.retain(is_pod);
        }
        ports.sort_by_key(|id| &self.switch_port(*id).name);
        let rows = ports
            .iter()
            .map(|sender| {
                let targets = ports.iter().map(|target| {
                    (sender != target)
                        .then(|| self.cell(*sender, *target, protocol))
                        .flatten()
                });
                targets.collect()
            })
            .collect();
        let names = ports.iter().map(|id| self.switch_port(*id).name.clone());
        Matrix {
            protocol,
            names: names.collect(),
            rows,
        }
    }

    /// Switch ports of local machines with addresses.
    fn machines(&self) -> impl Iterator<Item = (SwitchPortId, &SwitchPort)> {
        self.switch_ports().filter(|(_, port)| {
            port.kind == SwitchPortKind::Machine
                && port
                    .interfaces
                    .iter()
                    .any(|interface| !interface.addresses.is_empty())
        })
    }

    fn cell(&self, from: SwitchPortId, to: SwitchPortId, protocol: Protocol) -> Option<Cell> {
        let (from, to) = (&self.switch_port(from).name, &self.switch_port(to).name);
        let question = Question {
            sender: Sender::port(from),
            destination: Destination::Port(to.clone()),
            protocol,
        };
        let answer = self.answer(&question).ok()?;
        Some(self.pair(from, (to, to), &answer))
    }

    /// Outcome of a question about a pair: names of sender and destination, and the name of the
    /// destination's port.
    pub fn pair(&self, from: &str, (to, port): (&str, &str), answer: &Answer) -> Cell {
        let is_arrival = answer.verdict == Verdict::Reaches;
        let out = answer.out.as_deref();
        let is_remote = || match out.and_then(|out| self.names.port(out)) {
            Some(PortId::Switch(out)) => self.switch_port(out).kind == SwitchPortKind::Remote,
            Some(PortId::Router(_)) => true,
            None => false,
        };
        let other_chassis = is_arrival && is_remote();
        Cell {
            from: from.to_owned(),
            to: to.to_owned(),
            connected: is_arrival && !other_chassis && out == Some(port),
            other_chassis,
            verdict: answer.verdict,
            at: answer.at.clone(),
        }
    }
}
