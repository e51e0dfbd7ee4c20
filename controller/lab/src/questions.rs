//! Questions to the packets of a lab, and their answers.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use patchbay_model::IpFamily;
use thiserror::Error;

use super::lab::Lab;
use super::outside::has_address;
use super::pods::PodName;
use super::wire::endpoint::{Request, RequestOutcome, RequestResult, TTL};
use super::wire::open_questions::{WireFrame, WireLoss};

/// Maximum number of similar names that an error lists.
const MAX_SIMILAR: usize = 3;

/// Protocol of a question.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Protocol {
    /// Echo request of ICMP, or that of IPv6.
    Icmp,
    /// A datagram to this port, which the pod sends back.
    Udp(u16),
    /// A connection to this port: handshake, data, and the same data back.
    Tcp(u16),
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Icmp => f.write_str("icmp"),
            Self::Udp(port) => write!(f, "udp {port}"),
            Self::Tcp(port) => write!(f, "tcp {port}"),
        }
    }
}

/// Error: the text is not a protocol.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{0:?} is not icmp, udp PORT or tcp PORT with a port from 1 to 49151")]
pub struct ProtocolError(String);

impl FromStr for Protocol {
    type Err = ProtocolError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ProtocolError(text.to_owned());
        if text == "icmp" {
            return Ok(Self::Icmp);
        }
        let (name, port) = text.split_once([' ', '/']).ok_or_else(error)?;
        let port =
            port.parse().ok().filter(|port| (1..=49_151).contains(port)).ok_or_else(error)?;
        match name {
            "udp" => Ok(Self::Udp(port)),
            "tcp" => Ok(Self::Tcp(port)),
            _ => Err(error()),
        }
    }
}

impl From<Protocol> for Request {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Icmp => Self::Echo,
            Protocol::Udp(port) => Self::Udp(port),
            Protocol::Tcp(port) => Self::Tcp(port),
        }
    }
}

impl From<Protocol> for patchbay_reach::Protocol {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Icmp => Self::Icmp,
            Protocol::Udp(port) => Self::Udp(port),
            Protocol::Tcp(port) => Self::Tcp(port),
        }
    }
}

/// Error: a question cannot be asked.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum QuestionError {
    /// There is no such pod.
    #[error("pod {name} not found{}", suggestion(.similar))]
    NoSuchPod {
        /// The name.
        name: String,
        /// Pods with similar names.
        similar: Vec<String>,
    },
    /// There is no such service.
    #[error("service {name} not found{}", suggestion(.similar))]
    NoSuchService {
        /// The name.
        name: String,
        /// Services with similar names.
        similar: Vec<String>,
    },
    /// The service has no cluster IP that the pod can ask.
    #[error("service {service} has no cluster IP of an IP family of {from}")]
    NoClusterIp {
        /// The asking pod.
        from: PodName,
        /// Namespace and name of the service.
        service: String,
    },
    /// Nobody answers for the next hop on the wire of the asking pod.
    #[error("nobody answers {from} for the next hop to {address}")]
    NoNextHop {
        /// The asking pod.
        from: PodName,
        /// The asked address.
        address: IpAddr,
    },
    /// There is no such subnet on a provider network.
    #[error("no underlay subnet {name}{}", list(.known))]
    NoSuchSubnet {
        /// The name.
        name: String,
        /// Names of all underlay subnets.
        known: Vec<String>,
    },
    /// A host is not in its subnet, and the subnet has no gateway on the wire.
    #[error("{host} is not in subnet {subnet}, whose gateway is a router of OVN")]
    NotInSubnet {
        /// Address of the host.
        host: IpAddr,
        /// Name of the subnet.
        subnet: String,
    },
    /// Both pods are there, but they have no common IP family.
    #[error("{from} and {to} have no common IP family")]
    NoCommonFamily {
        /// The asking pod.
        from: PodName,
        /// The asked pod.
        to: PodName,
    },
}

fn list(known: &[String]) -> String {
    match known {
        [] => "; there are none".to_owned(),
        names => format!("; there are {}", names.join(", ")),
    }
}

fn suggestion(similar: &[String]) -> String {
    match similar {
        [] => String::new(),
        names => format!("; did you mean {}?", names.join(" or ")),
    }
}

/// Passage of a packet from node to node in a tunnel.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Passage {
    /// Sending node.
    pub from: String,
    /// Receiving node.
    pub to: String,
    /// Geneve's virtual network identifier: the tunnel key of the datapath.
    pub vni: u32,
    /// `true`: the cable between the nodes lost the packet.
    pub is_lost: bool,
}

/// Outcome of a question.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The asked pod got a packet, and its answer came back. `routers`: number of routers on the
    /// way to the asked pod.
    Reached {
        /// Number of routers.
        routers: u8,
    },
    /// The asked pod got a packet, but its answer was lost.
    AnswerLost,
    /// A packet arrived at another pod.
    WrongPod(PodName),
    /// Somebody else has answered for the address, such as a router.
    AnsweredByOther,
    /// The packet was refused, with the reason.
    Refused(String),
    /// Nobody has the address, or that of the gateway, on the wire of the asking pod.
    NoNeighbour(IpAddr),
    /// The packet was lost without a trace.
    Lost,
}

impl Verdict {
    /// `true` if the asked pod has answered.
    pub fn is_reached(&self) -> bool {
        matches!(self, Self::Reached { .. })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reached { routers: 1 } => f.write_str("reached through 1 router"),
            Self::Reached { routers } => write!(f, "reached through {routers} routers"),
            Self::AnswerLost => f.write_str("arrived, but the answer was lost"),
            Self::WrongPod(pod) => write!(f, "arrived at {pod} instead"),
            Self::AnsweredByOther => f.write_str("answered, but not by a pod"),
            Self::Refused(reason) => write!(f, "refused: {reason}"),
            Self::NoNeighbour(address) => write!(f, "nobody answers for {address} on the wire"),
            Self::Lost => f.write_str("lost"),
        }
    }
}

/// Answer to a question.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Address that was asked.
    pub address: IpAddr,
    /// Outcome of the packets.
    pub verdict: Verdict,
    /// Time from the last packet to its answer.
    pub time: Duration,
    /// Number of packets sent.
    pub attempts: u8,
    /// Address of the sender as a host outside of the cluster saw it. `None`: no such host was
    /// asked, or nothing arrived there.
    pub source: Option<IpAddr>,
    /// Pod that was reached. `None`: no pod was.
    pub pod: Option<PodName>,
    /// Passages of packets and answers between nodes, in order.
    pub passages: Vec<Passage>,
    /// Frames of packets and answers that nodes sent to wires of provider networks, in order.
    pub frames: Vec<WireFrame>,
    /// Frames that nodes sent to such wires meanwhile, and that nobody there read.
    pub losses: Vec<WireLoss>,
}

impl Lab {
    /// Finds a pod by `NAMESPACE/NAME`, or by its name if that is unique.
    ///
    /// # Errors
    /// There is no such pod; the error names similar ones.
    pub fn find_pod(&self, name: &str) -> Result<PodName, QuestionError> {
        let names: Vec<&PodName> = self.pods().map(|pod| &pod.name).collect();
        let mut exact = names.iter().filter(|pod| pod.to_string() == name);
        if let Some(pod) = exact.next() {
            return Ok((*pod).clone());
        }
        let same: Vec<_> = names.iter().filter(|pod| pod.name == name).collect();
        if let [pod] = same[..] {
            return Ok((*pod).clone());
        }
        let similar = if same.is_empty() {
            similar(name, names.iter().map(ToString::to_string))
        } else {
            same.iter().map(ToString::to_string).collect()
        };
        Err(QuestionError::NoSuchPod { name: name.to_owned(), similar })
    }

    /// Asks one pod from another. `family`: IP family; `None`: the first common one.
    ///
    /// # Errors
    /// There is no such pod, or the pods have no common family.
    pub async fn ask(
        &self,
        from: &PodName,
        to: &PodName,
        protocol: Protocol,
        family: Option<IpFamily>,
    ) -> Result<Answer, QuestionError> {
        let no_pod =
            |pod: &PodName| QuestionError::NoSuchPod { name: pod.to_string(), similar: Vec::new() };
        let (source, asker) = self.asker(from).ok_or_else(|| no_pod(from))?;
        let (target, _) = self.asker(to).ok_or_else(|| no_pod(to))?;
        let mut families = target.ips().filter(|ip| {
            family.is_none_or(|family| IpFamily::of(*ip) == family)
                && source.ips().any(|own| own.is_ipv4() == ip.is_ipv4())
        });
        let Some(address) = families.next() else {
            return Err(QuestionError::NoCommonFamily { from: from.clone(), to: to.clone() });
        };
        let outcome = asker.ask(address, protocol.into()).await;
        Ok(self.judge(address, &[to], outcome))
    }

    /// Asks a host outside of the cluster, behind the gateway of the pod's node. Hosts outside have
    /// the addresses of documentation: 192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24 and
    /// `2001:db8::/32`.
    ///
    /// # Errors
    /// There is no such pod.
    pub async fn ask_outside(
        &self,
        from: &PodName,
        address: IpAddr,
        protocol: Protocol,
    ) -> Result<Answer, QuestionError> {
        let (_, asker) = self.asker(from).ok_or_else(|| QuestionError::NoSuchPod {
            name: from.to_string(),
            similar: Vec::new(),
        })?;
        let outcome = asker.ask(address, protocol.into()).await;
        let mut arrivals = outcome.seen.arrivals.iter();
        let outside = arrivals.find(|arrival| self.is_outside(arrival.endpoint)).copied();
        let mut answer = self.judge(address, &[], outcome);
        answer.source = outside.map(|arrival| arrival.source);
        match (outside, &answer.verdict) {
            (Some(arrival), Verdict::AnsweredByOther) => {
                let routers = TTL.saturating_sub(arrival.ttl);
                answer.verdict = Verdict::Reached { routers };
            }
            (Some(_), Verdict::Lost) => answer.verdict = Verdict::AnswerLost,
            _ => {}
        }
        Ok(answer)
    }

    /// Asks an address of a pod, of a service or of a node, or a host outside as
    /// [`ask_outside`](Self::ask_outside) does. It is reached if a pod or that host answers. With a
    /// database of all nodes, hosts outside are those of the internet and those on the wires of
    /// provider networks.
    ///
    /// # Errors
    /// There is no such pod.
    pub async fn ask_address(
        &self,
        from: &PodName,
        address: IpAddr,
        protocol: Protocol,
    ) -> Result<Answer, QuestionError> {
        if self.central.is_some() {
            return self.ask_from_pod(from, address, protocol).await;
        }
        if has_address(address) {
            return self.ask_outside(from, address, protocol).await;
        }
        let (_, asker) = self.asker(from).ok_or_else(|| QuestionError::NoSuchPod {
            name: from.to_string(),
            similar: Vec::new(),
        })?;
        let outcome = asker.ask(address, protocol.into()).await;
        let arrivals = outcome.seen.arrivals.iter();
        let pods: Vec<&PodName> = arrivals
            .filter_map(|arrival| self.pod_of_endpoint(arrival.endpoint))
            .map(|pod| &pod.name)
            .collect();
        Ok(self.judge(address, &pods, outcome))
    }

    /// Compares where packets arrived with the pods that should get them.
    pub(super) fn judge(
        &self,
        address: IpAddr,
        targets: &[&PodName],
        outcome: RequestOutcome,
    ) -> Answer {
        let pod_of = |endpoint| self.pod_of_endpoint(endpoint).map(|pod| &pod.name);
        let arrivals: Vec<_> = outcome
            .seen
            .arrivals
            .iter()
            .filter_map(|arrival| Some((pod_of(arrival.endpoint)?, arrival.ttl)))
            .collect();
        let right = arrivals.iter().find(|(pod, _)| targets.contains(pod));
        let wrong = arrivals.iter().find(|(pod, _)| !targets.contains(pod));
        let verdict = match (outcome.result, wrong, right) {
            (_, Some((pod, _)), _) => Verdict::WrongPod((*pod).clone()),
            (RequestResult::Reply { .. }, _, Some((_, ttl))) => {
                Verdict::Reached { routers: TTL.saturating_sub(*ttl) }
            }
            (RequestResult::Reply { .. }, _, None) => Verdict::AnsweredByOther,
            (RequestResult::Refused(reason), ..) => Verdict::Refused(reason),
            (RequestResult::NoNeighbour(address), ..) => Verdict::NoNeighbour(address),
            (RequestResult::Silence, _, Some(_)) => Verdict::AnswerLost,
            (RequestResult::Silence | RequestResult::NoAddress, ..) => Verdict::Lost,
        };
        let name = |number| self.node_name(number).unwrap_or("?").to_owned();
        let passages = outcome.seen.passages.iter().map(|passage| Passage {
            from: name(passage.from),
            to: name(passage.to),
            vni: passage.vni,
            is_lost: passage.is_lost,
        });
        Answer {
            address,
            verdict,
            time: outcome.time,
            attempts: outcome.attempts,
            source: None,
            pod: right.map(|(pod, _)| (*pod).clone()),
            passages: passages.collect(),
            frames: outcome.seen.frames,
            losses: Vec::new(),
        }
    }
}

/// The names with the smallest distance, if it is small.
pub(super) fn similar(name: &str, known: impl Iterator<Item = String>) -> Vec<String> {
    let mut distances: Vec<(usize, String)> = known
        .map(|known| {
            let short = known.rsplit('/').next().unwrap_or(&known);
            (distance(name, short).min(distance(name, &known)), known)
        })
        .filter(|(distance, _)| *distance <= name.len() / 3 + 1)
        .collect();
    distances.sort();
    let names = distances.into_iter().map(|(_, name)| name);
    names.take(MAX_SIMILAR).collect()
}

/// The number of inserted, deleted and replaced bytes between two names (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_read_and_printed() {
        for text in ["icmp", "udp 53", "tcp 80"] {
            assert_eq!(text.parse::<Protocol>().unwrap().to_string(), text);
        }
        assert_eq!("tcp/80".parse(), Ok(Protocol::Tcp(80)));
        for text in ["sctp 80", "tcp", "tcp 0", "tcp 50000", "tcp x"] {
            assert!(text.parse::<Protocol>().is_err(), "{text}");
        }
    }

    #[test]
    fn similar_names_are_near_and_sorted() {
        assert_eq!(distance("blue-1", "blue-1"), 0);
        assert_eq!(distance("blue-1", "bleu-11"), 3);
        let known = ["blue/blue-1", "blue/blue-2", "green/green-1"].map(str::to_owned);
        assert_eq!(similar("blu-1", known.into_iter()), ["blue/blue-1", "blue/blue-2"]);
    }
}
