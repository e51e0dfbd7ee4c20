//! Machines of databases in classes, and the ways that differ between two states of them.

mod difference;
mod expectation;
mod ports;

pub use difference::{Change, Changed, Difference};
pub use expectation::{Checked, Expectation, ExpectationError, Violation};
pub use ports::Ports;

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::db::Snapshot;

use crate::mentions::{FactIds, Facts, Machine as OwnMachine, Mentions};
use crate::northbound::Northbound;
use crate::question::{Destination, Protocol, Question, Sender};
use crate::zones::{Course, Machine, Zones};

/// Databases of zones, with what their rows say about each machine.
///
/// Machines about which the rows say the same are a class: packets of all pairs of two classes have
/// the same outcome, so one pair is asked.
pub struct Scene<'z> {
    zones: &'z Zones,
    mentions: BTreeMap<&'z str, Mentions>,
    machines: BTreeMap<String, Machine<'z>>,
    services: BTreeSet<String>,
    ports: Vec<Ports>,
}

/// Answer to a question, and whether the destination is reached.
struct Reached {
    course: Course,
    is_connected: bool,
}

impl<'z> Scene<'z> {
    /// Reads the databases of zones. `snapshots`: the rows of each, by the name of the zone.
    ///
    /// O(bytes of all rows).
    pub fn new(zones: &'z Zones, snapshots: &BTreeMap<String, Snapshot>) -> Self {
        let named = |(zone, _): (&'z str, _)| Some((zone, Mentions::new(snapshots.get(zone)?)));
        let machines = zones.machine_list().into_iter();
        Self {
            zones,
            mentions: zones.by_zone().filter_map(named).collect(),
            machines: machines.map(|machine| (machine.name.clone(), machine)).collect(),
            services: zones.databases().flat_map(Northbound::services).collect(),
            ports: Ports::of_matches(snapshots.values()),
        }
    }

    /// Names of the machines: pods, or switch ports if no port is marked as a pod's.
    pub fn machines(&self) -> impl Iterator<Item = &str> {
        self.machines.keys().map(String::as_str)
    }

    /// Ranges of ports that matches distinguish.
    pub fn ports(&self) -> &[Ports] {
        &self.ports
    }

    /// Numbers of the facts about a machine. Machines of one class have equal facts.
    fn facts(&self, machine: &Machine<'z>, ids: &mut FactIds) -> Facts {
        let mut facts = Facts::new();
        for place in &machine.ports {
            let port = place.database.switch_port(place.port);
            let network = place.network().unwrap_or_default();
            let own = OwnMachine { port: &port.name, interfaces: &port.interfaces };
            let mut add = |fact: String| {
                facts.insert(ids.number(format!("{network} {fact}")));
            };
            add(format!("zone {} gateways {:?}", place.zone, port.given_gateways));
            let is_twice = |address| place.database.machines_with(address).len() > 1;
            let mut addresses = own.interfaces.iter().flat_map(|interface| &interface.addresses);
            if addresses.any(|own| is_twice(own.address)) {
                add(format!("is {}", port.name));
            }
            for (zone, mentions) in &self.mentions {
                mentions.add_facts(&format!("{network} {zone}"), &own, (ids, &mut facts));
            }
        }
        facts
    }

    /// Follows the packet between two machines. `None`: the pair cannot be asked.
    fn ask(&self, from: &str, to: &str, protocol: Protocol) -> Option<Reached> {
        let (from, to) = (self.machines.get(from)?, self.machines.get(to)?);
        let (course, port) = self.zones.ask_pair(from, to, protocol)?;
        Some(Reached { is_connected: course.connects(&port), course })
    }

    /// Follows the packet of a machine to a service or an address. `None`: the pair cannot be asked.
    fn ask_for(&self, from: &str, to: &Destination, protocol: Protocol) -> Option<Reached> {
        let sender = self.machines.get(from)?.ports.first()?;
        let question = Question {
            sender: match sender.pod() {
                Some(pod) => Sender::pod(pod),
                None => Sender::port(sender.name()),
            },
            destination: to.clone(),
            protocol,
        };
        let course = self.zones.ask(&question).ok()?;
        Some(Reached { is_connected: course.outcome.is_arrival(), course })
    }
}
