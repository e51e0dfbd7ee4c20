//! Courses of packets to addresses of services, nodes and hosts outside, by rows.

use std::fmt;
use std::net::IpAddr;

use patchbay_reach::{Answer, Arrival, Destination, Sender, Verdict};

use super::{LabRows, Obstacle, RowTrace};
use crate::pods::PodName;
use crate::questions::{Protocol, QuestionError};
use crate::tunnel_port::TunnelPort;

/// Maximum number of nodes on the way of a packet.
const MAX_NODES: usize = 4;

/// Course of a packet to any address, by the rows of the nodes that it passes.
#[derive(Clone, Debug)]
pub struct AddressDiagnosis {
    /// The packet in the database of each node, in order.
    pub traces: Vec<RowTrace>,
    /// The end of the last one.
    pub end: AddressEnd,
}

/// End of a packet to any address.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AddressEnd {
    /// A pod gets it.
    Pod(PodName),
    /// It leaves the cluster.
    Outside,
    /// A router answers it.
    Router,
    /// The packet is lost. The last course has the obstacle.
    Nobody,
}

/// Addresses and protocol of a packet that enters a tunnel.
struct TunnelPacket {
    source: IpAddr,
    destination: IpAddr,
    protocol: patchbay_reach::Protocol,
}

impl AddressDiagnosis {
    /// The obstacle of the packet, with the node.
    pub fn obstacle(&self) -> Option<(&str, &Obstacle)> {
        let last = self.traces.last()?;
        Some((last.node.as_str(), last.obstacle.as_ref()?))
    }

    /// Choices that OVN leaves open on the way, such as backends.
    pub fn choices(&self) -> impl Iterator<Item = &str> {
        let paths = self
            .traces
            .iter()
            .filter_map(|trace| trace.path.as_ref().ok());
        paths.flat_map(|path| path.open.iter().map(String::as_str))
    }
}

impl fmt::Display for AddressDiagnosis {
    /// A line with the end, and one for each choice that OVN leaves open.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((node, obstacle)) = self.obstacle() {
            writeln!(f, "reach on {node}, packet: {obstacle}")?;
        } else {
            let node = self.traces.last().map_or("", |last| &last.node);
            write!(
                f,
                "no obstacle in the rows that the packet meets: on {node} "
            )?;
            match &self.end {
                AddressEnd::Pod(pod) => writeln!(f, "it gets to {pod}")?,
                AddressEnd::Outside => f.write_str("it leaves the cluster\n")?,
                AddressEnd::Router => f.write_str("a router answers\n")?,
                AddressEnd::Nobody => f.write_str("nobody gets it\n")?,
            }
        }
        self.choices()
            .try_for_each(|choice| writeln!(f, "open: {choice}"))
    }
}

impl LabRows<'_> {
    /// Follows a packet to any address through the rows of the nodes that it passes. The answer is
    /// not followed.
    ///
    /// # Errors
    /// There is no such pod.
    pub fn diagnose_address(
        &self,
        from: &PodName,
        address: IpAddr,
        protocol: Protocol,
    ) -> Result<AddressDiagnosis, QuestionError> {
        let sender = self.lab.known_pod(from)?;
        let mut node = sender.node.clone();
        let own = sender.ips().find(|own| own.is_ipv4() == address.is_ipv4());
        let mut packet = TunnelPacket {
            source: own.unwrap_or(address),
            destination: address,
            protocol: protocol.into(),
        };
        let Some(rows) = self.nodes.get(&node) else {
            return Ok(AddressDiagnosis::at(RowTrace::unknown(node)));
        };
        let mut path = rows.index.answer(&patchbay_reach::Question {
            sender: Sender::port(sender.port.as_str()),
            destination: Destination::Address(address),
            protocol: packet.protocol,
        });
        let mut traces = Vec::new();
        loop {
            let (end, next) = self.end_of(&node, path.as_ref().ok());
            let obstacle = match (&path, &next, &end) {
                (Err(error), ..) => Some(Obstacle {
                    reason: error.to_string(),
                    row: None,
                }),
                (Ok(path), Err(reason), AddressEnd::Nobody) => {
                    Some(Obstacle::after(path, reason.clone()))
                }
                _ => None,
            };
            let out = path.as_ref().ok().and_then(|path| path.out.clone());
            if let Ok(path) = &path {
                packet.follow(path);
            }
            traces.push(RowTrace {
                node,
                path,
                obstacle,
            });
            let (Ok(next), Some(out)) = (next, out) else {
                return Ok(AddressDiagnosis { traces, end });
            };
            let Some(rows) = self.nodes.get(&next).filter(|_| traces.len() < MAX_NODES) else {
                traces.push(RowTrace::unknown(next));
                return Ok(AddressDiagnosis { traces, end });
            };
            node = next;
            let arrival = rows.index.follow_arrival(&Arrival {
                port: out,
                source: packet.source,
                destination: packet.destination,
                protocol: packet.protocol,
            });
            path = arrival.map_err(Into::into);
        }
    }

    /// The end of a path on a node, and the node to which a tunnel leads from there, or else the
    /// end in words.
    fn end_of(&self, node: &str, path: Option<&Answer>) -> (AddressEnd, Result<String, String>) {
        let Some(path) = path else {
            return (AddressEnd::Nobody, Err(String::new()));
        };
        let words = Err(format!("{}: {}", path.verdict, path.at));
        let out = match (path.verdict, &path.out) {
            (Verdict::Reaches, Some(out)) => out,
            (Verdict::Leaves, _) => return (AddressEnd::Outside, words),
            (Verdict::Answered, _) => return (AddressEnd::Router, words),
            _ => return (AddressEnd::Nobody, words),
        };
        let mut pods = self.lab.pods();
        if let Some(pod) = pods.find(|pod| pod.node == node && pod.port == *out) {
            return (AddressEnd::Pod(pod.name.clone()), words);
        }
        let port = self.nodes.get(node);
        let port = port.and_then(|rows| TunnelPort::find(&rows.snapshot, out));
        let next = port.as_ref().and_then(|port| {
            let chassis = port.chassis.as_deref()?;
            let mut nodes = self.lab.nodes();
            nodes.find(|name| *name != node && self.lab.chassis(name) == Some(chassis))
        });
        let (Some(port), Some(next)) = (port, next) else {
            return (
                AddressEnd::Nobody,
                Err(format!("reaches {out}, which is no pod")),
            );
        };
        let next = match self.tunnel_obstacle(&port, out, next) {
            None => Ok(next.to_owned()),
            Some(reason) => Err(reason),
        };
        (AddressEnd::Nobody, next)
    }
}

impl AddressDiagnosis {
    fn at(trace: RowTrace) -> Self {
        Self {
            traces: vec![trace],
            end: AddressEnd::Nobody,
        }
    }
}

impl TunnelPacket {
    /// Makes the packet the one at the end of a path.
    fn follow(&mut self, path: &Answer) {
        self.source = path.source.unwrap_or(self.source);
        self.destination = path.dest.unwrap_or(self.destination);
        if let Some(port) = path.dest_port {
            self.protocol = self.protocol.with_port(port);
        }
    }
}
