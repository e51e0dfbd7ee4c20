//! Packets that come out of a tunnel from another chassis.

use std::net::IpAddr;

use crate::address::Mac;
use crate::answer::{Answer, Passage};
use crate::northbound::{Link, Northbound, PortId};
use crate::packet::{IpPacket, Packet, Payload, TIME_TO_LIVE, Transport};
use crate::question::Protocol;
use crate::resolve::NameError;
use crate::trace::{Connection, Deployment, Direction, Entry, Path, Trace};

/// First packet of a connection that another chassis has sent into a tunnel. The switch or router
/// that both chassis have continues with its egress pipeline.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Arrival {
    /// Port of that switch or router by which the packet goes out.
    pub port: String,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol and port.
    pub protocol: Protocol,
}

impl Northbound {
    /// Follows a packet that comes out of a tunnel.
    ///
    /// # Errors
    /// The database has no port of this name.
    pub fn follow_arrival(&self, arrival: &Arrival) -> Result<Answer, NameError> {
        let Arrival { source, destination, .. } = *arrival;
        let port = self.find_any_port(&arrival.port)?;
        let transport = Transport::from(arrival.protocol);
        let sent = IpPacket { source, destination, transport };
        Ok(self.trace_arrival(port, &sent, Default::default()).answer)
    }

    /// Follows a packet that comes out of a tunnel, for the port by which it goes out.
    pub(crate) fn trace_arrival(
        &self,
        port: PortId,
        sent: &IpPacket,
        connection: (Direction, Connection),
    ) -> Passage {
        let packet = Packet {
            eth_source: Mac::ZERO,
            eth_destination: self.mac_behind(port),
            payload: Payload::Ip(sent.clone()),
            input: port,
            output: None,
            mark: 0,
            time_to_live: TIME_TO_LIVE,
            dscp: 0,
            is_tracked: false,
        };
        let path = Path::default();
        let traced =
            Trace::run(self, Entry::Tunnel(port), packet, path, connection, Deployment::of(self));
        self.passage(traced, sent)
    }

    /// MAC address of the machine or router behind a port.
    fn mac_behind(&self, port: PortId) -> Mac {
        match port {
            PortId::Router(port) => match self.router_port(port).link {
                Link::Router(peer) => self.router_port(peer).mac,
                Link::Switch(_) | Link::Remote | Link::Missing => Mac::ZERO,
            },
            PortId::Switch(port) => {
                let port = self.switch_port(port);
                match port.peer {
                    Some(PortId::Router(peer)) => self.router_port(peer).mac,
                    Some(PortId::Switch(_)) | None => {
                        let interface = port.interfaces.first();
                        interface.map_or(Mac::ZERO, |interface| interface.mac)
                    }
                }
            }
        }
    }
}
