//! Questions: who sends what to whom.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Question about the first packet of a connection.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Question {
    /// Sender.
    #[serde(rename = "from")]
    pub sender: Sender,
    /// Destination.
    #[serde(rename = "to")]
    pub destination: Destination,
    /// Protocol and port.
    #[serde(default)]
    pub protocol: Protocol,
}

/// Sender of a packet: a switch port or a pod.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "an object with `pod` or `port`")]
pub struct Sender {
    /// Name of a switch port. `None`: the sender is a pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// Pod, as `NAMESPACE/NAME`. `None`: the sender is a switch port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Source address. `None`: the port's own; a localnet port needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<IpAddr>,
    /// Source MAC address. `None`: the port's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Router port for whose MAC address the frame is. `None`: what ARP or ND finds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_of: Option<String>,
    /// Gateway for destinations outside of the sender's network: an address, or the name of a router
    /// or router port. `None`: what rows or the machine's own routes name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
}

impl Sender {
    /// The sender behind a switch port.
    pub fn port(name: impl Into<String>) -> Self {
        Self { port: Some(name.into()), ..Self::default() }
    }

    /// A pod as sender, as `NAMESPACE/NAME`.
    pub fn pod(name: impl Into<String>) -> Self {
        Self { pod: Some(name.into()), ..Self::default() }
    }
}

/// Destination of a packet.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Destination {
    /// Pod, as `NAMESPACE/NAME`.
    Pod(String),
    /// First interface of a switch port.
    Port(String),
    /// Service, as `NAMESPACE/NAME`.
    Service(String),
    /// IP address.
    #[serde(rename = "ip")]
    Address(IpAddr),
}

/// Protocol of a packet, with its destination port.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Protocol {
    /// Echo request of ICMP for either family: `icmp`.
    #[default]
    Icmp,
    /// `tcp PORT`
    Tcp(u16),
    /// `udp PORT`
    Udp(u16),
    /// `sctp PORT`
    Sctp(u16),
}

impl Protocol {
    /// The destination port. `None`: the protocol has no ports.
    pub fn port(self) -> Option<u16> {
        match self {
            Self::Icmp => None,
            Self::Tcp(port) | Self::Udp(port) | Self::Sctp(port) => Some(port),
        }
    }

    /// The protocol with another destination port, or itself without ports.
    #[must_use]
    pub fn with_port(self, port: u16) -> Self {
        match self {
            Self::Icmp => self,
            Self::Tcp(_) => Self::Tcp(port),
            Self::Udp(_) => Self::Udp(port),
            Self::Sctp(_) => Self::Sctp(port),
        }
    }
}

/// Error: a text is not a protocol.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0:?} is no protocol: expected icmp, tcp PORT, udp PORT or sctp PORT")]
pub struct ProtocolError(String);

impl FromStr for Protocol {
    type Err = ProtocolError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ProtocolError(text.to_owned());
        let mut words = text.split_ascii_whitespace();
        let name = words.next().ok_or_else(error)?;
        let port = words.next();
        if words.next().is_some() {
            return Err(error());
        }
        if matches!(name, "icmp" | "icmp6") && port.is_none() {
            return Ok(Self::Icmp);
        }
        let port = port.and_then(|port| port.parse().ok()).ok_or_else(error)?;
        match name {
            "tcp" => Ok(Self::Tcp(port)),
            "udp" => Ok(Self::Udp(port)),
            "sctp" => Ok(Self::Sctp(port)),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Icmp => f.write_str("icmp"),
            Self::Tcp(port) => write!(f, "tcp {port}"),
            Self::Udp(port) => write!(f, "udp {port}"),
            Self::Sctp(port) => write!(f, "sctp {port}"),
        }
    }
}

impl<'de> Deserialize<'de> for Protocol {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for Protocol {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
