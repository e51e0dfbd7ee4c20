//! Switches that ports of type `switch` link with a switch of machines.

use serde_json::json;

use super::rows::{Rows, map};
use super::{Families, Machine, Topology};
use crate::ovn::LearnedNeighbor;
use crate::random::Random;

/// Number of the first machine on a linked switch.
const FIRST_HOST: usize = 110;

/// Switch with the rows of its ports.
pub(super) struct LinkedSwitch {
    pub(super) name: String,
    pub(super) ports: Vec<String>,
}

impl Topology {
    /// Adds machines of the network with a number behind ports of type `switch`: on one switch, or
    /// on two in a row. Returns the switches, and the row of the port by which they are linked.
    pub(super) fn linked_switches(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        index: usize,
    ) -> (Vec<LinkedSwitch>, String) {
        let count = 1 + random.below(2);
        let mut switches = Vec::new();
        for number in 0..count {
            let name = self.name(&format!("l{index}{number}"));
            let mut ports = vec![self.link(rows, (index, number), "up", "down")];
            if number + 1 < count {
                ports.push(self.link(rows, (index, number + 1), "down", "up"));
            }
            for place in 0..=random.below(2) {
                let host = FIRST_HOST + 2 * number + place;
                ports.push(self.linked_machine(random, rows, (&name, index), host));
            }
            switches.push(LinkedSwitch { name, ports });
        }
        let first = self.link(rows, (index, 0), "down", "up");
        (switches, first)
    }

    /// Adds one of the two ports between the linked switch with a number and the one before it:
    /// `up` on the linked switch, `down` on the other.
    fn link(
        &self,
        rows: &mut Rows,
        (index, number): (usize, usize),
        own: &str,
        other: &str,
    ) -> String {
        let name = |end: &str| self.name(&format!("l{index}{number}-{end}"));
        let row = json!({"name": name(own), "type": "switch", "peer": name(other)});
        rows.insert("Logical_Switch_Port", row)
    }

    fn linked_machine(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        (switch, index): (&str, usize),
        host: usize,
    ) -> String {
        let number: usize = self.prefix[1..].parse().expect("topologies are numbered");
        let mac = |host: usize| format!("0a:{number:02x}:00:00:{index:02x}:{host:02x}");
        let (port, address) = (format!("{switch}-v{host}"), format!("10.{index}.0.{host}"));
        let mut row = json!({"name": port, "addresses": format!("{} {address}", mac(host)),
            "options": map::<&str, &str>(&[])});
        self.vary_machine(random, rows, &mut row, false);
        self.check_machine(random, rows, &mut row, &address);
        // Of the others ovn-trace follows the request of a router, but not the packet.
        let hears = !row.to_string().contains("receive_multicast");
        let is_learned = hears && (self.families != Families::Ipv4 || random.chance(60));
        let row = rows.insert("Logical_Switch_Port", row);
        self.learned.extend(is_learned.then(|| LearnedNeighbor {
            router_port: self.name(&format!("rp{index}")),
            address: address.clone(),
            mac: mac(host),
        }));
        let addresses = [address.clone(), address.clone()];
        self.destinations.extend(addresses);
        self.machines.push(Machine {
            port,
            switch: switch.to_owned(),
            mac: mac(host),
            address,
            gateway_address: format!("10.{index}.0.1"),
            gateway_mac: mac(1),
            has_unknown: false,
            row: row.clone(),
        });
        row
    }
}
