//! Rows of equal priority that match the same packet and decide otherwise.

use std::collections::HashSet;
use std::sync::Arc;

use super::Northbound;
use super::acl::Acl;
use super::note::RowRef;
use super::policy::Policy;
use crate::packet::{Packet, Payload, Transport};

/// Pairs of one priority that are compared in a list of ACLs or policies, and in all lists.
const PAIRS_OF_LIST: usize = 4_096;
const PAIRS_OF_DATABASE: usize = 200_000;

/// Rows of equal priority that match the same packet and decide otherwise. OVN leaves open which
/// of them counts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Conflict {
    /// The row that comes first in the order of the UUIDs.
    pub first: RowRef,
    /// The other row.
    pub second: RowRef,
    /// Priority of both.
    pub priority: i64,
    /// A packet that both match, such as `tcp 10.0.0.1:40000 > 10.0.0.2:80`.
    pub packet: String,
}

impl Northbound {
    /// Pairs of ACLs of a switch or port group, and of policies of a router, that decide otherwise
    /// on the same packet although their priority is equal. A packet of each pair was found; other
    /// pairs may exist, because at most 200,000 are compared.
    pub fn conflicts(&self) -> Vec<Conflict> {
        let mut search = Search { left: PAIRS_OF_DATABASE, found: Vec::new() };
        let mut seen = HashSet::new();
        for switch in &self.switches {
            for list in switch.acls.lists() {
                if seen.insert(Arc::as_ptr(list)) {
                    search.acls(&list.acls);
                }
            }
        }
        for router in &self.routers {
            search.policies(router.policies.all());
        }
        search.found
    }
}

struct Search {
    left: usize,
    found: Vec<Conflict>,
}

impl Search {
    fn acls(&mut self, acls: &[Arc<Acl>]) {
        let is_level = |a: &Arc<Acl>, b: &Arc<Acl>| {
            (a.place as usize, a.tier, a.priority) == (b.place as usize, b.tier, b.priority)
        };
        let mut sorted: Vec<_> = acls.iter().map(Arc::clone).collect();
        sorted.sort_by_key(|acl| (acl.place as usize, acl.tier, -acl.priority, acl.row.uuid));
        for level in sorted.chunk_by(is_level) {
            self.pairs(
                level,
                |first, second| first.has_other_outcome(second),
                |acl| (acl.row, acl.priority),
                |first, second| first.matches.common_packet(&second.matches),
            );
        }
    }

    fn policies(&mut self, policies: &[Policy]) {
        let is_level = |a: &Policy, b: &Policy| a.priority == b.priority;
        for level in policies.chunk_by(is_level) {
            self.pairs(
                level,
                Policy::contradicts,
                |policy| (policy.row, policy.priority),
                Policy::common_packet,
            );
        }
    }

    fn pairs<T>(
        &mut self,
        level: &[T],
        differ: impl Fn(&T, &T) -> bool,
        row: impl Fn(&T) -> (RowRef, i64),
        common: impl Fn(&T, &T) -> Option<Packet>,
    ) {
        let mut of_list = PAIRS_OF_LIST.min(self.left);
        for (place, first) in level.iter().enumerate() {
            for second in &level[place + 1..] {
                if of_list == 0 {
                    return;
                }
                of_list -= 1;
                self.left -= 1;
                if !differ(first, second) {
                    continue;
                }
                if let Some(packet) = common(first, second) {
                    let (reference, priority) = row(first);
                    self.found.push(Conflict {
                        first: reference,
                        second: row(second).0,
                        priority,
                        packet: describe(&packet),
                    });
                }
            }
        }
    }
}

/// Protocol, addresses and ports of a packet.
fn describe(packet: &Packet) -> String {
    let Payload::Ip(ip) = &packet.payload else {
        return "arp".to_owned();
    };
    let (name, has_ports) = match ip.transport {
        Transport::Echo { .. } => ("icmp", false),
        Transport::Tcp { .. } => ("tcp", true),
        Transport::Udp { .. } => ("udp", true),
        Transport::Sctp { .. } => ("sctp", true),
    };
    if !has_ports {
        return format!("{name} {} > {}", ip.source, ip.destination);
    }
    let end = |address, port| std::net::SocketAddr::new(address, port);
    format!(
        "{name} {} > {}",
        end(ip.source, ip.transport.source_port()),
        end(ip.destination, ip.transport.destination_port())
    )
}
