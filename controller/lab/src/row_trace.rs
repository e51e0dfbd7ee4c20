//! Courses of packets by the rows of the Northbound databases.

mod address_trace;

use std::fmt;
use std::net::IpAddr;

use patchbay_model::{Databases, IpFamily};
use patchbay_reach::{
    Course, Destination, Northbound, Outcome, RowRef, Sender, Verdict, ZoneAnswer, Zones,
};

use super::lab::Lab;
use super::pods::{Pod, PodName};
use super::questions::{Protocol, QuestionError};

pub use address_trace::{AddressDiagnosis, AddressEnd};

/// Course of a packet by the rows of one node.
#[derive(Clone, Debug)]
pub struct RowTrace {
    /// Name of the node.
    pub node: String,
    /// Path through the rows of the Northbound database, or the reason why there is none.
    pub path: Result<patchbay_reach::Answer, patchbay_reach::QuestionError>,
    /// Obstacle in the rows. `None`: the rows let the packet pass.
    pub obstacle: Option<Obstacle>,
}

/// Course of a packet and of its answer by rows.
#[derive(Clone, Debug)]
pub struct RowDiagnosis {
    /// The packet, in the database of its sender's node.
    pub request: RowTrace,
    /// The packet behind the tunnel, in the database of the asked pod's node. `None`: it enters no
    /// tunnel, or does not get there.
    pub arrival: Option<RowTrace>,
    /// The answer, in the database of the asked pod's node. `None`: the packet does not arrive.
    pub answer: Option<RowTrace>,
    /// The answer behind the tunnel, in the database of the asking pod's node. `None`: it enters no
    /// tunnel, or does not get there.
    pub return_arrival: Option<RowTrace>,
}

/// Reason why rows do not let a packet pass.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Obstacle {
    /// Reason in words.
    pub reason: String,
    /// The last row that decided. `None`: no row did.
    pub row: Option<RowRef>,
}

impl Obstacle {
    /// The obstacle at the end of a path.
    fn after(path: &patchbay_reach::Answer, reason: String) -> Self {
        Self { reason, row: path.hops.iter().rev().find_map(|hop| hop.row) }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        match &self.row {
            Some(row) => write!(f, " [{} {}]", row.table, row.uuid),
            None => Ok(()),
        }
    }
}

/// The rows of all nodes at one time.
#[derive(Debug)]
pub struct LabRows<'a> {
    lab: &'a Lab,
    /// Rows of the nodes. `None`: no node has a database.
    zones: Option<Zones>,
}

impl RowDiagnosis {
    /// `true` if rows deliver the packet to the asked pod, with or without an answer.
    pub fn is_reached(&self) -> bool {
        let arrival = self.arrival.as_ref();
        self.request.obstacle.is_none() && arrival.is_none_or(|trace| trace.obstacle.is_none())
    }

    /// The first obstacle of the packet, or else that of its answer, with the node.
    pub fn obstacle(&self) -> Option<(&str, &Obstacle)> {
        let behind = [&self.arrival, &self.answer, &self.return_arrival].into_iter().flatten();
        let mut traces = std::iter::once(&self.request).chain(behind);
        traces.find_map(|trace| Some((trace.node.as_str(), trace.obstacle.as_ref()?)))
    }

    /// The course of a packet for the port of a pod.
    fn new(course: Course, target: &Pod) -> Self {
        let mut request = RowTrace::new(course.zone, course.answer);
        let mut arrival = course.end.map(RowTrace::from);
        let has_answer = course.reply.is_some();
        let mut replies = course.reply_between.into_iter().chain(course.reply).map(RowTrace::from);
        let mut answer = replies.next();
        let mut return_arrival = replies.next_back();
        let unknown = unknown_node(&course.outcome);
        let last = arrival.as_mut().unwrap_or(&mut request);
        last.stop(|path| match &unknown {
            Some(reason) if !has_answer => Some(reason.clone()),
            _ => delivery_obstacle(path, target),
        });
        if let Some(last) = return_arrival.as_mut().or(answer.as_mut()) {
            last.stop(|path| unknown.or_else(|| return_obstacle(path)));
        }
        Self { request, arrival, answer, return_arrival }
    }
}

impl Lab {
    /// The rows of all nodes, as they are now.
    pub fn rows(&self) -> LabRows<'_> {
        if self.central.is_some() {
            let snapshot = self.northbound(Databases::CENTRAL).ok();
            let zones = snapshot
                .map(|snapshot| Zones::new(Databases::CENTRAL, Northbound::new(&snapshot, None)));
            return LabRows { lab: self, zones };
        }
        let mut zones: Option<Zones> = None;
        for node in self.nodes() {
            let Ok(snapshot) = self.northbound(node) else {
                continue;
            };
            let chassis = self.chassis(node);
            let index = Northbound::new(&snapshot, chassis);
            let zones = match &mut zones {
                // Names of nodes are unique.
                Some(zones) => zones.add(node, index).map(|()| zones),
                None => Ok(zones.insert(Zones::new(node, index))),
            };
            if let (Ok(zones), Some(chassis)) = (zones, chassis) {
                zones.set_chassis(node, chassis);
            }
        }
        LabRows { lab: self, zones }
    }
}

impl LabRows<'_> {
    /// Follows a packet and its answer through the rows of their nodes. `family`: IP family;
    /// `None`: the first common one.
    ///
    /// # Errors
    /// There is no such pod, or the pods have no common family.
    pub fn diagnose(
        &self,
        from: &PodName,
        to: &PodName,
        protocol: Protocol,
        family: Option<IpFamily>,
    ) -> Result<RowDiagnosis, QuestionError> {
        let (source, target) = (self.lab.known_pod(from)?, self.lab.known_pod(to)?);
        let (_, address) = common_addresses(source, target, family)?;
        Ok(match self.ask(source, address, protocol) {
            Ok(course) => RowDiagnosis::new(course, target),
            Err(error) => RowDiagnosis {
                request: RowTrace::unasked(self.lab.zone_name(&source.node).to_owned(), error),
                arrival: None,
                answer: None,
                return_arrival: None,
            },
        })
    }

    /// Follows a packet of a pod to an address, and the reply.
    fn ask(
        &self,
        source: &Pod,
        address: IpAddr,
        protocol: Protocol,
    ) -> Result<Course, patchbay_reach::QuestionError> {
        let zones = self.zones.as_ref().ok_or(patchbay_reach::NameError::NoSender)?;
        zones.ask(&patchbay_reach::Question {
            sender: Sender::port(source.port.as_str()),
            destination: Destination::Address(address),
            protocol: protocol.into(),
        })
    }
}

impl RowTrace {
    /// The course on a node, without an obstacle.
    fn new(node: String, path: patchbay_reach::Answer) -> Self {
        Self { node, path: Ok(path), obstacle: None }
    }

    /// The course of a packet that cannot be asked for.
    fn unasked(node: String, error: patchbay_reach::QuestionError) -> Self {
        Self {
            node,
            obstacle: Some(Obstacle { reason: error.to_string(), row: None }),
            path: Err(error),
        }
    }

    /// Adds the obstacle at the end of the path, if there is one.
    fn stop(&mut self, reason: impl FnOnce(&patchbay_reach::Answer) -> Option<String>) {
        if let Ok(path) = &self.path {
            self.obstacle = reason(path).map(|reason| Obstacle::after(path, reason));
        }
    }
}

impl From<ZoneAnswer> for RowTrace {
    fn from(answer: ZoneAnswer) -> Self {
        Self::new(answer.zone, answer.answer)
    }
}

/// Reason why a packet is lost in a tunnel to a node without rows. `None`: it enters none.
fn unknown_node(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Unasked { other, .. } => {
            Some(format!("leaves for {other}, which has no such port"))
        }
        _ => None,
    }
}

/// Reason why rows do not deliver a packet to the port of the asked pod.
fn delivery_obstacle(path: &patchbay_reach::Answer, target: &Pod) -> Option<String> {
    match (path.verdict, &path.out) {
        (Verdict::Reaches, Some(out)) if *out == target.port => None,
        (Verdict::Reaches, Some(out)) => Some(format!("reaches {out}, and not {}", target.port)),
        (verdict, _) => Some(format!("{verdict}: {}", path.at)),
    }
}

/// Reason why rows do not deliver an answer.
fn return_obstacle(path: &patchbay_reach::Answer) -> Option<String> {
    let is_back = matches!(path.verdict, Verdict::Reaches | Verdict::Leaves);
    (!is_back).then(|| format!("{}: {}", path.verdict, path.at))
}

/// Addresses of two pods in the first common family.
pub(crate) fn common_addresses(
    source: &Pod,
    target: &Pod,
    family: Option<IpFamily>,
) -> Result<(IpAddr, IpAddr), QuestionError> {
    let pairs = target.ips().filter_map(|other| {
        let own = source.ips().find(|own| own.is_ipv4() == other.is_ipv4())?;
        Some((own, other))
    });
    let mut wanted = pairs.filter(|(own, _)| family.is_none_or(|f| IpFamily::of(*own) == f));
    wanted.next().ok_or_else(|| QuestionError::NoCommonFamily {
        from: source.name.clone(),
        to: target.name.clone(),
    })
}
