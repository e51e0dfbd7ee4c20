//! Places where packets are lost: by the rows of the Northbound databases, and by ovn-trace.
//!
//! A packet to a pod on another node meets the rows of both nodes. The sender's node decides up to
//! the tunnel, and its port there has to be the same one on the other node, which continues behind
//! that port. So does the answer on its way back.

use std::fmt;
use std::net::IpAddr;

use patchbay_model::IpFamily;

use super::lab::Lab;
use super::ovn_trace::{self, Connection, OvnTrace, TracedPacket};
use super::pods::{Pod, PodName};
use super::questions::{Protocol, QuestionError};
use super::row_trace::{Obstacle, RowTrace, common_addresses};
use super::tunnel_port;
use super::wire::endpoint::TTL;

/// Number of routers that a packet has passed when it comes out of a tunnel, at most. Nothing
/// depends on the exact number.
const PASSED_ROUTERS: u8 = 2;

/// Course of a packet and of its answer, by rows and by ovn-trace.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The packet, in the databases of its sender's node.
    pub request: NodeTrace,
    /// The packet behind the tunnel, in the databases of the asked pod's node. `None`: the pods are
    /// on one node, or the packet does not get there.
    pub arrival: Option<NodeTrace>,
    /// The answer, in the databases of the asked pod's node. `None`: the packet does not arrive.
    pub answer: Option<NodeTrace>,
    /// The answer behind the tunnel, in the databases of the asking pod's node. `None`: it enters no
    /// tunnel, or does not get there.
    pub return_arrival: Option<NodeTrace>,
}

/// Course of a packet in the databases of one node.
#[derive(Clone, Debug)]
pub struct NodeTrace {
    /// Name of the node, and its rows.
    pub rows: RowTrace,
    /// Path through the logical flows, or the reason why there is none.
    pub flows: Result<OvnTrace, String>,
}

impl Diagnosis {
    /// Courses on the nodes, each with the words for its packet.
    pub fn traces(&self) -> impl Iterator<Item = (&NodeTrace, &'static str)> {
        let packets = [Some(&self.request), self.arrival.as_ref()].into_iter().flatten();
        let answers = [self.answer.as_ref(), self.return_arrival.as_ref()].into_iter().flatten();
        packets.map(|trace| (trace, "packet")).chain(answers.map(|trace| (trace, "answer")))
    }

    /// Obstacles in the rows, each with the node.
    pub fn obstacles(&self) -> impl Iterator<Item = (&str, &Obstacle)> {
        self.traces()
            .filter_map(|(trace, _)| Some((&*trace.rows.node, trace.rows.obstacle.as_ref()?)))
    }

    /// `true` if the logical flows deliver the packet to a port, with or without an answer.
    pub fn is_delivered_by_flows(&self, port: &str) -> bool {
        let last = self.arrival.as_ref().unwrap_or(&self.request);
        let flows = last.flows.as_ref();
        flows.is_ok_and(|flows| flows.end.output.as_deref() == Some(port))
    }
}

impl fmt::Display for Diagnosis {
    /// A line for each obstacle, and the last table of ovn-trace beside it. Without an obstacle the
    /// tables of all courses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_passed = self.obstacles().next().is_none();
        if is_passed {
            f.write_str("no obstacle in the rows that the packet and its answer meet\n")?;
        }
        for (trace, packet) in self.traces() {
            let node = &trace.rows.node;
            if let Some(obstacle) = &trace.rows.obstacle {
                writeln!(f, "reach on {node}, {packet}: {obstacle}")?;
            }
            if is_passed || trace.rows.obstacle.is_some() {
                match &trace.flows {
                    Ok(flows) => writeln!(f, "ovn-trace on {node}, {packet}: {}", flows.end)?,
                    Err(reason) => writeln!(f, "ovn-trace on {node}, {packet}: {reason}")?,
                }
            }
        }
        Ok(())
    }
}

impl Lab {
    /// Follows a packet and its answer through the rows and the logical flows of their nodes.
    /// `family`: IP family; `None`: the first common one.
    ///
    /// # Errors
    /// There is no such pod, or the pods have no common family.
    pub async fn diagnose(
        &self,
        from: &PodName,
        to: &PodName,
        protocol: Protocol,
        family: Option<IpFamily>,
    ) -> Result<Diagnosis, QuestionError> {
        let (source, target) = (self.known_pod(from)?, self.known_pod(to)?);
        let (own, other) = common_addresses(source, target, family)?;
        let rows = self.rows().diagnose(from, to, protocol, family)?;
        let request = self.trace_flows(source, other, protocol, Connection::New).await;
        let arrival = match rows.arrival {
            None => None,
            Some(arrival) => {
                let ends = (source, target);
                let flows = self
                    .trace_arrival_flows(
                        ends,
                        (own, other),
                        &rows.request,
                        protocol,
                        Connection::New,
                    )
                    .await;
                Some(NodeTrace { rows: arrival, flows })
            }
        };
        let return_arrival = match rows.answer.as_ref().zip(rows.return_arrival) {
            None => None,
            Some((answer, arrival)) => {
                let ends = (target, source);
                let known = Connection::Established;
                let flows =
                    self.trace_arrival_flows(ends, (other, own), answer, protocol, known).await;
                Some(NodeTrace { rows: arrival, flows })
            }
        };
        let answer = match rows.answer {
            None => None,
            Some(answer) => {
                let flows = self.trace_flows(target, own, protocol, Connection::Established).await;
                Some(NodeTrace { rows: answer, flows })
            }
        };
        Ok(Diagnosis {
            request: NodeTrace { rows: rows.request, flows: request },
            arrival,
            answer,
            return_arrival,
        })
    }

    async fn trace_flows(
        &self,
        source: &Pod,
        address: IpAddr,
        protocol: Protocol,
        connection: Connection,
    ) -> Result<OvnTrace, String> {
        let (_, asker) = self.asker(&source.name).ok_or("there is no such pod")?;
        let Some((own, mac)) = asker.resolve(address).await else {
            return Err("not asked, because nobody answers for the next hop".to_owned());
        };
        let packet = TracedPacket {
            port: source.port.clone(),
            source_mac: source.mac_text.clone(),
            destination_mac: super::underlay::format_mac(mac),
            source: own,
            destination: address,
            ttl: TTL,
            protocol,
        };
        self.run_ovn_trace(&source.node, &packet, connection).await
    }

    /// Follows a packet behind the tunnel that it enters at the end of `before`.
    async fn trace_arrival_flows(
        &self,
        (source, target): (&Pod, &Pod),
        (own, other): (IpAddr, IpAddr),
        before: &RowTrace,
        protocol: Protocol,
        connection: Connection,
    ) -> Result<OvnTrace, String> {
        let out = before.path.as_ref().ok();
        let out = out
            .and_then(|path| path.out.as_deref())
            .ok_or("not asked, because the packet enters no tunnel")?;
        let snapshot = self.northbound(&target.node).map_err(|error| error.to_string())?;
        let behind = tunnel_port::port_behind(&snapshot, out);
        let (port, mac) = behind.unwrap_or_else(|| {
            // In a layer2 network the packet goes straight to the pod's port, from the asking pod
            // or from the router.
            let beside = tunnel_port::router_beside(&snapshot, out)
                .filter(|_| source.network != target.network);
            let port = beside.unwrap_or_else(|| source.port.clone());
            (port, target.mac_text.clone())
        });
        let packet = TracedPacket {
            port,
            source_mac: source.mac_text.clone(),
            destination_mac: mac,
            source: own,
            destination: other,
            ttl: TTL - PASSED_ROUTERS,
            protocol,
        };
        self.run_ovn_trace(&target.node, &packet, connection).await
    }

    async fn run_ovn_trace(
        &self,
        node: &str,
        packet: &TracedPacket,
        connection: Connection,
    ) -> Result<OvnTrace, String> {
        let command = self.release().command("ovn-trace").map_err(|error| error.to_string())?;
        let environment = self.environment(node).map_err(|error| error.to_string())?;
        ovn_trace::run(command, environment, packet, connection).await
    }

    pub(crate) fn known_pod(&self, name: &PodName) -> Result<&Pod, QuestionError> {
        let found = self.pods().find(|pod| pod.name == *name);
        found
            .ok_or_else(|| QuestionError::NoSuchPod { name: name.to_string(), similar: Vec::new() })
    }
}
