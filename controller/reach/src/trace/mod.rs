//! Trace of one packet from switch to router to switch, stage by stage.

mod connection;
mod deployment;
mod egress;
mod limits;
mod lookup;
mod path;
mod resolution;
mod router;
mod router_nat;
mod router_output;
mod router_redirect;
mod router_tracking;
mod sender;
mod switch;

pub(crate) use connection::{Connection, Direction};
pub(crate) use deployment::{Dependences, Deployment};
pub(crate) use path::{End, Path};
pub use path::{Hop, HopKind};
pub(crate) use sender::Source;

use crate::answer::Verdict;
use crate::northbound::{
    Backend, Link, Northbound, PortId, RouterId, RouterPortId, SwitchId, SwitchPortId,
};
use crate::packet::{IpPacket, Packet, Payload, Transport};

/// Routers that a packet crosses at most: its time to live.
const ROUTERS_MAX: usize = 64;
/// Switches and routers that a packet crosses at most. Chains of switches have no time to live.
const HOPS_MAX: usize = 256;

/// Point at which a packet enters a switch or router.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    Switch(SwitchPortId),
    Router {
        port: RouterPortId,
        /// `true` if the router sent the packet to itself, because the destination is one of its
        /// own external addresses.
        is_looped: bool,
    },
    /// The packet comes out of a tunnel, behind the ingress pipeline. The other chassis has chosen
    /// the port by which it goes out.
    Tunnel(PortId),
}

/// Result of a switch or router.
pub(crate) enum Step {
    Next(Entry),
    End(End),
}

/// Packet on its way, and what happened to it.
pub(crate) struct Trace<'a> {
    northbound: &'a Northbound,
    /// Port that sent the packet. `None`: the packet came out of a tunnel.
    sender: Option<SwitchPortId>,
    packet: Packet,
    path: Path,
    /// Router that answered an echo request. `None`: the packet is still a request.
    answered_by: Option<RouterId>,
    /// Switches that have tracked the request when it came in.
    tracking: Vec<SwitchId>,
    direction: Direction,
    /// State of the connection. Answers and replies are translated back.
    connection: Connection,
    routers: usize,
    deployment: Deployment,
    /// The chassis to which a gateway port has brought the packet. `None`: that of the sender.
    chassis: Option<&'a str>,
}

/// Outcome of a trace.
pub(crate) struct Traced {
    pub(crate) end: End,
    pub(crate) path: Path,
    /// The packet as it is at the end.
    pub(crate) ip: IpPacket,
    /// End of the answer to an echo request. `None`: no router has answered.
    pub(crate) answer: Option<End>,
    pub(crate) connection: Connection,
}

impl<'a> Trace<'a> {
    /// Follows a packet from where it enters. `connection`: state that earlier packets, or the same
    /// packet in an earlier crossing, have left.
    pub(crate) fn run(
        northbound: &'a Northbound,
        entry: Entry,
        packet: Packet,
        path: Path,
        (direction, connection): (Direction, Connection),
        deployment: Deployment,
    ) -> Traced {
        let mut trace = Self {
            northbound,
            sender: match entry {
                Entry::Switch(port) => Some(port),
                Entry::Router { .. } | Entry::Tunnel(_) => None,
            },
            packet,
            path,
            answered_by: None,
            tracking: Vec::new(),
            direction,
            connection,
            routers: 0,
            deployment,
            chassis: None,
        };
        let reached = trace.follow(entry);
        let end = trace.judge_answer(reached.clone());
        let ip = match trace.packet.payload {
            Payload::Ip(ip) => ip,
            Payload::Arp(arp) => IpPacket {
                source: arp.source.into(),
                destination: arp.target.into(),
                transport: Transport::Echo { is_reply: false },
            },
        };
        Traced {
            end,
            answer: trace.answered_by.map(|_| reached),
            connection: trace.connection,
            path: trace.path,
            ip,
        }
    }

    fn follow(&mut self, entry: Entry) -> End {
        let mut entry = entry;
        for _ in 0..HOPS_MAX {
            let step = match entry {
                Entry::Switch(port) => self.cross_switch(port),
                Entry::Router { port, is_looped } => {
                    self.routers += 1;
                    if self.routers > ROUTERS_MAX {
                        break;
                    }
                    self.cross_router(port, is_looped)
                }
                Entry::Tunnel(PortId::Switch(port)) => {
                    let switch = self.northbound.switch_port(port).switch;
                    self.leave_switch(self.northbound.switch(switch), port)
                }
                Entry::Tunnel(PortId::Router(port)) => Ok(self.deliver_from_router(port)),
            };
            match step {
                Ok(Step::Next(next)) => entry = next,
                Ok(Step::End(end)) | Err(end) => return end,
            }
        }
        self.path.cut_repetition();
        End::dropped("hop limit: the packet runs in a circle")
    }

    /// Replaces the outcome of an echo reply by that of its request.
    fn judge_answer(&self, end: End) -> End {
        let Some(router) = self.answered_by else {
            return end;
        };
        let name = &self.northbound.router(router).name;
        let gets_back = match self.sender {
            Some(sender) => end.verdict != Verdict::Dropped && end.out == Some(sender),
            // The sender is on another chassis, to which a tunnel leads.
            None => end.verdict == Verdict::Reaches,
        };
        if gets_back {
            return End { verdict: Verdict::Answered, out: None, at: format!("router {name}") };
        }
        let at = match end.verdict {
            Verdict::Dropped => end.at,
            _ => format!("the answer of router {name} does not get back"),
        };
        End::dropped(at)
    }

    /// The IP packet.
    ///
    /// # Errors
    /// The packet is an ARP packet, which no router forwards.
    fn ip(&self) -> Result<&IpPacket, End> {
        match &self.packet.payload {
            Payload::Ip(ip) => Ok(ip),
            Payload::Arp(_) => Err(End::dropped("not an IP packet")),
        }
    }

    fn ip_mut(&mut self) -> Result<&mut IpPacket, End> {
        match &mut self.packet.payload {
            Payload::Ip(ip) => Ok(ip),
            Payload::Arp(_) => Err(End::dropped("not an IP packet")),
        }
    }

    /// Makes a backend the destination, one of `count`. `label` names the load balancer.
    fn send_to_backend(
        &mut self,
        label: &str,
        count: usize,
        (backend, port): Backend,
    ) -> Result<&IpPacket, End> {
        if count > 1 {
            self.path.leave_open(format!("{label} has {count} backends"));
        }
        let ip = self.ip_mut()?;
        ip.destination = backend;
        if port != 0 {
            ip.transport.set_destination_port(port);
        }
        Ok(ip)
    }

    /// Delivers a packet behind a switch port.
    fn deliver(&mut self, port: SwitchPortId) -> Step {
        use crate::northbound::SwitchPortKind::{
            Indirect, Layer2Gateway, Machine, Outside, Ramp, Remote, Router, Switch,
        };
        let target = self.northbound.switch_port(port);
        let end = |verdict| Step::End(End { verdict, out: Some(port), at: target.name.clone() });
        match (target.kind, target.peer) {
            (Machine | Remote, _) => end(Verdict::Reaches),
            (Outside | Layer2Gateway | Ramp, _) => end(Verdict::Leaves),
            (Router, Some(PortId::Router(port))) => {
                Step::Next(Entry::Router { port, is_looped: false })
            }
            (Switch, Some(PortId::Switch(port))) => Step::Next(Entry::Switch(port)),
            (Router | Switch | Indirect, _) => {
                Step::End(End::dropped(format!("switch port {} leads nowhere", target.name)))
            }
        }
    }

    /// Delivers a packet behind a router port.
    fn deliver_from_router(&mut self, port: RouterPortId) -> Step {
        let own = self.northbound.router_port(port);
        match own.link {
            Link::Switch(port) => Step::Next(Entry::Switch(port)),
            Link::Router(port) => Step::Next(Entry::Router { port, is_looped: false }),
            Link::Remote => {
                Step::End(End { verdict: Verdict::Reaches, out: None, at: own.name.clone() })
            }
            Link::Missing => {
                Step::End(End::dropped(format!("router port {} leads nowhere", own.name)))
            }
        }
    }
}
