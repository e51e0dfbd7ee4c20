//! Databases of several zones: packets that go on behind tunnels, and the replies.

mod course;
mod matrix;
mod places;

pub use course::{AskedZones, Course, Outcome, ZoneAnswer};
pub use matrix::{AskedPair, Cell, Matrix, Pairs};
pub(crate) use matrix::{Machine, natural_key};

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::answer::{Answer, Passage, QuestionError, Sent, Verdict};
use crate::northbound::{Northbound, PortId, SwitchPortId};
use crate::packet::{IpPacket, Transport};
use crate::question::{Destination, Question};
use crate::trace::{Connection, Direction, End, Source};
use places::Place;

/// Tunnels that a packet goes through at most.
const TUNNELS_MAX: usize = 8;
/// Zone in errors and outcomes, if a port on another chassis names neither a node nor a chassis.
const UNKNOWN_ZONE: &str = "another chassis";

/// Databases of zones by name, of which one counts for what no zone knows.
#[derive(Debug)]
pub struct Zones {
    databases: BTreeMap<String, Northbound>,
    /// Chassis of zones, as far as they are known.
    chassis: BTreeMap<String, String>,
    default: String,
}

/// Error: a zone has two databases.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("zone {0} has two databases")]
pub struct SecondDatabase(pub String);

/// Way of a packet through the databases.
struct Way {
    /// Answers in the databases before the last one, in order.
    before: Vec<ZoneAnswer>,
    last: ZoneAnswer,
    /// The packet at the end. `None`: it was not sent, or is lost in a tunnel.
    sent: Option<Sent>,
    /// The zone without a database into which the packet goes. `None`: it ends before.
    unasked: Option<String>,
}

/// State of a connection in the zones.
type Connections = BTreeMap<String, Connection>;

impl Zones {
    /// The zone that counts for senders that no database knows, with its database.
    pub fn new(name: impl Into<String>, database: Northbound) -> Self {
        let default = name.into();
        Self { databases: [(default.clone(), database)].into(), chassis: BTreeMap::new(), default }
    }

    /// Adds the database of another zone.
    ///
    /// # Errors
    /// The zone has a database.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        database: Northbound,
    ) -> Result<(), SecondDatabase> {
        let name = name.into();
        if self.databases.contains_key(&name) {
            return Err(SecondDatabase(name));
        }
        self.databases.insert(name, database);
        Ok(())
    }

    /// Names the chassis of a zone, which does not get packets for ports of other ones.
    pub fn set_chassis(&mut self, zone: impl Into<String>, chassis: impl Into<String>) {
        self.chassis.insert(zone.into(), chassis.into());
    }

    /// The database of the first zone.
    pub fn default_database(&self) -> &Northbound {
        &self.databases[&self.default]
    }

    /// The database of a zone. `None`: it has none.
    pub fn database(&self, zone: &str) -> Option<&Northbound> {
        self.databases.get(zone)
    }

    /// The databases with their zones.
    pub(crate) fn by_zone(&self) -> impl Iterator<Item = (&str, &Northbound)> {
        self.databases.iter().map(|(zone, database)| (zone.as_str(), database))
    }

    /// The databases.
    pub fn databases(&self) -> impl Iterator<Item = &Northbound> {
        self.databases.values()
    }

    /// Follows the packet of a question from the sender to its end, and the reply back.
    ///
    /// # Errors
    /// A name of the question is not known or not unique.
    pub fn ask(&self, question: &Question) -> Result<Course, QuestionError> {
        let destinations = self.destinations(question);
        let sender = self.sender(&question.sender, &destinations)?;
        let (addresses, target) = self.target(question, sender, &destinations)?;
        self.ask_between(question, sender, &addresses, target)
    }

    /// Follows the packet of a question between known ports.
    fn ask_between(
        &self,
        question: &Question,
        sender: Place<'_>,
        addresses: &[IpAddr],
        target: Option<Place<'_>>,
    ) -> Result<Course, QuestionError> {
        let northbound = sender.database;
        let address = northbound.common_address(question, sender.port, addresses)?;
        let first = northbound.ask(question, sender.port, address)?;
        let mut connections = Connections::new();
        let request = self.follow(sender.zone, first, Direction::Request, &mut connections);
        let is_leaving = request.last.answer.verdict == Verdict::Leaves;
        let is_inside = match (&question.destination, target) {
            (_, Some(target)) => !target.is_same_network(sender),
            // The backend of a service is a machine that the packet does not get to.
            (Destination::Service(_), None) => {
                let answers = request.before.iter().chain([&request.last]);
                let backend = answers.rev().find_map(|zone| zone.answer.dest);
                backend.is_some_and(|address| self.has_machine(address))
            }
            _ => false,
        };
        let isolated = is_leaving && is_inside;
        let expected = Expected {
            place: sender,
            source: address,
            port: Transport::from(question.protocol).destination_port(),
        };
        let reply = self.reply(&request, &expected, &mut connections);
        Ok(Course::new(request, reply, isolated))
    }

    /// `true` if a machine has an address.
    fn has_machine(&self, address: IpAddr) -> bool {
        self.databases().any(|database| !database.machines_with(address).is_empty())
    }

    /// Follows a packet from its answer in one database to the databases behind tunnels.
    fn follow<'a>(
        &'a self,
        zone: &'a str,
        first: Passage,
        direction: Direction,
        connections: &mut Connections,
    ) -> Way {
        let (mut zone, mut passage) = (zone, first);
        let mut before = Vec::new();
        loop {
            let Passage { mut answer, sent, .. } = passage;
            let database = self.databases.get(zone);
            let tunnel = database.zip(sent.as_ref()).and_then(|(database, sent)| {
                connections.insert(zone.to_owned(), sent.connection.clone());
                // An answer of a router is followed as a reply.
                let tunnel = database.tunnel(&sent.end).filter(|_| sent.answer.is_none());
                Some((database, tunnel?))
            });
            let end = |zone: &str, answer, sent, unasked| Way {
                before: Vec::new(),
                last: ZoneAnswer::new(zone, answer),
                sent,
                unasked,
            };
            let (Some((database, tunnel)), Some(packet)) = (tunnel, &sent) else {
                return Way { before, ..end(zone, answer, sent, None) };
            };
            let name = database.port_name(tunnel);
            let Some((next, port)) =
                self.zone_of(zone, name, &mut answer).filter(|_| before.len() < TUNNELS_MAX)
            else {
                let unasked = database.zone_behind(tunnel).unwrap_or(UNKNOWN_ZONE);
                return Way { before, ..end(zone, answer, sent, Some(unasked.to_owned())) };
            };
            before.push(ZoneAnswer::new(zone, answer));
            let target = &self.databases[next];
            let own = self.chassis.get(next);
            let bound = database.chassis(tunnel);
            let lost = if own.is_some_and(|own| bound != Some(own)) {
                let bound = bound.unwrap_or("no chassis");
                Some(format!("{name} is bound to {bound}, and not to that of zone {next}"))
            } else if is_different(database.tunnel_keys(tunnel), target.tunnel_keys(port)) {
                Some(format!("the tunnel keys of {name} differ from those of zone {next}"))
            } else {
                None
            };
            if let Some(at) = lost {
                return Way { before, ..end(next, Answer::lost(at), None, None) };
            }
            let known = connections.remove(next).unwrap_or_default();
            passage = target.trace_arrival(port, &packet.ip, (direction, known));
            zone = next;
        }
    }

    /// The zone, other than `zone`, in which a port is, and the port there.
    fn zone_of(&self, zone: &str, name: &str, answer: &mut Answer) -> Option<(&str, PortId)> {
        let others = self.databases.iter().filter(|(other, _)| *other != zone);
        let mut places = others
            .filter_map(|(other, database)| Some((other.as_str(), database.local_port(name)?)));
        let first = places.next()?;
        let count = places.count();
        if count > 0 {
            let choice = format!("{} zones have the port {name}", count + 1);
            answer.open.push(choice);
        }
        Some(first)
    }

    /// The way of the reply. `None`: no port of the databases replies, or the sender has its
    /// answer.
    fn reply(
        &self,
        request: &Way,
        expected: &Expected<'_>,
        connections: &mut Connections,
    ) -> Option<Way> {
        let sent = request.sent.as_ref().filter(|_| request.unasked.is_none())?;
        let zone = &request.last.zone;
        let database = self.databases.get(zone)?;
        let state = (Direction::Reply, connections.remove(zone).unwrap_or_default());
        let first = match (&sent.answer, sent.end.verdict, sent.end.out) {
            (Some(end), Verdict::Answered, _) => {
                // The answer of a router of another zone is in the tunnel back.
                database.tunnel(end)?;
                database.answer_in_tunnel(end, sent)
            }
            (None, Verdict::Reaches, Some(port)) if !expected.is_at(zone, port) => {
                let replier =
                    Source { address: Some(sent.ip.destination), ..Source::of_port(port) };
                let transport = sent.ip.transport.reversed();
                database.trace(&replier, sent.ip.source, transport, &state)
            }
            _ => return None,
        };
        let mut way = self.follow(zone, first, Direction::Reply, connections);
        if way.unasked.is_none()
            && let Some(at) = expected.difference(&way)
        {
            way.last.answer.stop(at);
        }
        Some(way)
    }
}

/// Reply that the sender of a request takes.
struct Expected<'a> {
    place: Place<'a>,
    source: IpAddr,
    port: u16,
}

impl Expected<'_> {
    /// `true` if a port is that of the sender.
    fn is_at(&self, zone: &str, port: SwitchPortId) -> bool {
        (zone, port) == (self.place.zone, self.place.port)
    }

    /// The reason why the packet that arrives is not the reply. `None`: it is, or the answer has
    /// the reason.
    fn difference(&self, way: &Way) -> Option<String> {
        let Sent { ip, end, .. } = way.sent.as_ref()?;
        if !matches!(end.verdict, Verdict::Reaches | Verdict::Leaves) {
            return None;
        }
        let name = self.place.database.port_name(self.place.port.into());
        if !end.out.is_some_and(|port| self.is_at(&way.last.zone, port)) {
            return Some(format!("the reply gets to {}, and not to {name}", end.at));
        }
        let IpPacket { source, transport, .. } = ip;
        let port = transport.source_port();
        if (*source, port) == (self.source, self.port) {
            return None;
        }
        let port = match port {
            0 => String::new(),
            port => format!(" and the port {port}"),
        };
        Some(format!("{name} does not know the source {source}{port} of the reply"))
    }
}

/// `true` if two zones give a datapath or port different keys.
fn is_different(own: [Option<&str>; 2], other: [Option<&str>; 2]) -> bool {
    let mut pairs = own.into_iter().zip(other);
    pairs.any(|(own, other)| own.is_some() && other.is_some() && own != other)
}

impl Northbound {
    /// The port by which a packet has entered a tunnel. `None`: it has not.
    fn tunnel(&self, end: &End) -> Option<PortId> {
        if end.verdict != Verdict::Reaches {
            return None;
        }
        match end.out {
            Some(port) => self.is_remote(port).then_some(port.into()),
            None => self.names.port(&end.at),
        }
    }

    fn is_remote(&self, port: SwitchPortId) -> bool {
        self.switch_port(port).kind == crate::northbound::SwitchPortKind::Remote
    }
}
