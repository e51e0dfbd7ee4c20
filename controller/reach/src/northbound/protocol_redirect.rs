//! Packets of routing protocols that a switch gives to a port instead of the router.

use std::net::IpAddr;

use patchbay_schemas::nb::{self, LogicalRouterPort};

use super::id::{PortId, SwitchPortId};
use super::note::{Notes, RowRef};
use super::ports::Ports;
use super::router::RouterPort;
use crate::packet::{IpPacket, Transport};

/// TCP port of BGP.
const BGP_PORT: u16 = 179;
/// UDP port of BFD.
const BFD_PORT: u16 = 3784;

/// `routing-protocol-redirect` of a router port.
#[derive(Debug)]
pub(crate) struct ProtocolRedirect {
    pub(crate) row: RowRef,
    /// Port that gets the packets.
    pub(crate) output: SwitchPortId,
    /// Addresses of the router port.
    addresses: Vec<IpAddr>,
    has_bgp: bool,
    has_bfd: bool,
}

impl ProtocolRedirect {
    /// Reads the options of a router port behind the switch port `peer`. `None`: they have no
    /// effect.
    pub(super) fn new(
        port: &RouterPort,
        row: &nb::LogicalRouterPort,
        peer: SwitchPortId,
        ports: &Ports,
        notes: &mut Notes,
    ) -> Option<Self> {
        let target = row.options.get("routing-protocol-redirect")?;
        let reference = RowRef::new::<LogicalRouterPort>(port.uuid);
        let switch = ports.switch_ports[peer.0 as usize].switch;
        let output = match ports.by_name.get(target) {
            Some(PortId::Switch(output)) => Some(*output),
            Some(PortId::Router(_)) | None => None,
        };
        let is_near =
            |output: &SwitchPortId| ports.switch_ports[output.0 as usize].switch == switch;
        let Some(output) = output.filter(is_near) else {
            let reason = format!("routing-protocol-redirect names no port of the switch: {target}");
            notes.add(reference, reason);
            return None;
        };
        let protocols =
            row.options.get("routing-protocols").map(String::as_str).unwrap_or_default();
        let has = |name: &str| protocols.split(',').any(|protocol| protocol == name);
        let (has_bgp, has_bfd) = (has("BGP"), has("BFD"));
        if !has_bgp && !has_bfd {
            notes.add(reference, "routing-protocols names no known protocol");
            return None;
        }
        Some(Self {
            row: reference,
            output,
            addresses: port.networks.iter().map(|own| own.address).collect(),
            has_bgp,
            has_bfd,
        })
    }

    /// `true` if the port gets a packet.
    pub(crate) fn takes(&self, packet: &IpPacket) -> bool {
        let is_protocol = match packet.transport {
            Transport::Tcp { source, destination } => {
                self.has_bgp && [source, destination].contains(&BGP_PORT)
            }
            Transport::Udp { source, destination } => {
                self.has_bfd && [source, destination].contains(&BFD_PORT)
            }
            Transport::Echo { .. } | Transport::Sctp { .. } => false,
        };
        is_protocol && self.addresses.contains(&packet.destination)
    }
}
