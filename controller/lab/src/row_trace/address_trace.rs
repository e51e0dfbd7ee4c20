//! Courses of packets to addresses of services, nodes and hosts outside, by rows.

use std::fmt;
use std::net::IpAddr;

use patchbay_reach::{Answer, Course, Verdict};

use super::{LabRows, Obstacle, RowTrace, return_obstacle, unknown_node};
use crate::pods::{Pod, PodName};
use crate::questions::{Protocol, QuestionError};

/// Course of a packet to any address, by the rows of the nodes that it passes.
#[derive(Clone, Debug)]
pub struct AddressDiagnosis {
    /// The packet in the database of each node, in order.
    pub traces: Vec<RowTrace>,
    /// The answer of a pod in the database of each node, in order. Empty: the packet does not
    /// arrive at one.
    pub answers: Vec<RowTrace>,
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

impl AddressDiagnosis {
    /// The obstacle of the packet, with the node.
    pub fn obstacle(&self) -> Option<(&str, &Obstacle)> {
        let last = self.traces.last()?;
        Some((last.node.as_str(), last.obstacle.as_ref()?))
    }

    /// `true` if rows stop the packet or the answer of a pod.
    pub fn is_stopped(&self) -> bool {
        let last = self.answers.last();
        self.obstacle().is_some() || last.is_some_and(|last| last.obstacle.is_some())
    }

    /// Choices that OVN leaves open on the way, such as backends.
    pub fn choices(&self) -> impl Iterator<Item = &str> {
        let paths = self.traces.iter().filter_map(|trace| trace.path.as_ref().ok());
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
            write!(f, "no obstacle in the rows that the packet meets: on {node} ")?;
            match &self.end {
                AddressEnd::Pod(pod) => writeln!(f, "it gets to {pod}")?,
                AddressEnd::Outside => f.write_str("it leaves the cluster\n")?,
                AddressEnd::Router => f.write_str("a router answers\n")?,
                AddressEnd::Nobody => f.write_str("nobody gets it\n")?,
            }
        }
        if let Some(last) = self.answers.last()
            && let Some(obstacle) = &last.obstacle
        {
            writeln!(f, "reach on {}, answer: {obstacle}", last.node)?;
        }
        self.choices().try_for_each(|choice| writeln!(f, "open: {choice}"))
    }
}

impl LabRows<'_> {
    /// Follows a packet to any address, and the answer of a pod, through the rows of the nodes that
    /// they pass.
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
        Ok(match self.ask(sender, address, protocol) {
            Ok(course) => self.address_diagnosis(course),
            Err(error) => AddressDiagnosis {
                traces: vec![RowTrace::unasked(self.lab.zone_name(&sender.node).to_owned(), error)],
                answers: Vec::new(),
                end: AddressEnd::Nobody,
            },
        })
    }

    fn address_diagnosis(&self, course: Course) -> AddressDiagnosis {
        let unknown = unknown_node(&course.outcome);
        let behind = course.between.into_iter().chain(course.end);
        let first = RowTrace::new(course.zone, course.answer);
        let behind = behind.map(RowTrace::from);
        let mut traces: Vec<_> = std::iter::once(first).chain(behind).collect();
        let replies = course.reply_between.into_iter().chain(course.reply);
        let mut answers: Vec<_> = replies.map(RowTrace::from).collect();
        let mut end = AddressEnd::Nobody;
        if let Some(last) = traces.last_mut() {
            let node = last.node.clone();
            last.stop(|path| match &unknown {
                Some(reason) if answers.is_empty() => Some(reason.clone()),
                _ => {
                    let found = self.end_of(&node, path);
                    let reason = found.as_ref().err().cloned();
                    end = found.unwrap_or(AddressEnd::Nobody);
                    reason
                }
            });
        }
        if let Some(last) = answers.last_mut() {
            last.stop(|path| unknown.or_else(|| return_obstacle(path)));
        }
        AddressDiagnosis { traces, answers, end }
    }

    /// The end of a path on a node. The error is the reason why no pod gets the packet.
    fn end_of(&self, node: &str, path: &Answer) -> Result<AddressEnd, String> {
        match (path.verdict, &path.out) {
            (Verdict::Leaves, _) => Ok(AddressEnd::Outside),
            (Verdict::Answered, _) => Ok(AddressEnd::Router),
            (Verdict::Reaches, Some(out)) => {
                let mut pods = self.lab.pods();
                let is_there =
                    |pod: &&Pod| self.lab.zone_name(&pod.node) == node && pod.port == *out;
                let pod = pods.find(is_there);
                let pod = pod.ok_or_else(|| format!("reaches {out}, which is no pod"));
                pod.map(|pod| AddressEnd::Pod(pod.name.clone()))
            }
            _ => Err(format!("{}: {}", path.verdict, path.at)),
        }
    }
}
