//! Forwarding groups of a switch: one IP and MAC address for several ports.

use std::net::Ipv4Addr;

use patchbay_schemas::nb;
use uuid::Uuid;

use super::id::{PortId, SwitchPortId};
use super::note::{Notes, RowRef};
use super::ports::Ports;
use crate::address::Mac;

/// Forwarding group that OVN has.
#[derive(Debug)]
pub(crate) struct ForwardingGroup {
    pub(crate) row: RowRef,
    pub(crate) name: String,
    /// Address for which the switch answers ARP requests with the MAC address. `None`: it answers
    /// for none.
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) mac: Mac,
    /// Ports that get the packets for the MAC address: any of them. Empty: OVN drops the packets.
    pub(crate) ports: Vec<SwitchPortId>,
    /// `true` if the tunnel to a port's chassis has to work.
    pub(crate) is_monitored: bool,
}

/// Reads the forwarding groups of a switch.
pub(super) fn read_groups<'a>(
    rows: impl IntoIterator<Item = (Uuid, &'a nb::ForwardingGroup)>,
    ports: &Ports,
    notes: &mut Notes,
) -> Vec<ForwardingGroup> {
    let mut groups = Vec::new();
    for (uuid, row) in rows {
        let reference = RowRef::new::<nb::ForwardingGroup>(uuid);
        let Some(mac) = Mac::parse(&row.vmac) else {
            notes.add(reference, format!("bad vmac {}", row.vmac));
            continue;
        };
        let address = row.vip.parse().ok();
        if address.is_none() {
            notes.add(reference, format!("bad vip {}", row.vip));
        }
        let found = row.child_port.iter().map(|name| match ports.by_name.get(name) {
            Some(PortId::Switch(port)) => Ok(*port),
            Some(PortId::Router(_)) | None => Err(name),
        });
        let children = found.collect::<Result<Vec<_>, _>>().unwrap_or_else(|name| {
            notes.add(reference, format!("child_port {name} is not known"));
            Vec::new()
        });
        groups.push(ForwardingGroup {
            row: reference,
            name: row.name.clone(),
            address,
            mac,
            ports: children,
            is_monitored: row.liveness,
        });
    }
    groups
}
