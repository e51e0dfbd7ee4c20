//! Ports of pods, and of nodes on external subnets.

use std::net::IpAddr;
use std::sync::Arc;

use patchbay_model::vpc::{
    DENY_ALL_GROUP, WiredEip, WiredPort, WiredVirtualIp, group_addresses, port_group,
};
use patchbay_rows::{PartRows, Reader};
use patchbay_schemas::atom::Atom;

use super::{dhcp, group, ids, map};
use crate::capability::{POD, Vpcs};
use crate::inputs::VpcCell;
use crate::part::Part;
use crate::tables::SwitchPortRow;

/// External id of a port in a custom VPC: it is not of the security group that all ports may have.
const DEFAULT_GROUP: &str = "associated_sg_default-securitygroup";

/// Adds the port of a pod.
pub(crate) fn put(
    of: &Vpcs,
    (part, name): (&Part, &Arc<str>),
    port: &WiredPort,
    reader: &Reader<'_, Vpcs>,
    rows: &mut PartRows<()>,
) {
    let groups = groups(port, reader);
    // A port without its groups would be open.
    if groups.iter().any(|group| reader.row(of.tables.groups, group).is_none()) {
        rows.keep_rest();
        return;
    }
    let mut external_ids = ids(part, [("ls", &port.subnet), (POD, &port.machine)]);
    if !port.is_in_default_vpc {
        external_ids.insert(DEFAULT_GROUP.to_owned(), "false".to_owned());
    }
    let former: SwitchPortRow = reader
        .row(of.tables.switch_ports, name)
        .and_then(|row| reader.typed(row).ok())
        .unwrap_or_default();
    let shared: Vec<String> = port.shared.iter().map(ToString::to_string).collect();
    if !shared.is_empty() {
        external_ids.insert("vips".to_owned(), shared.join(","));
        external_ids.insert("attach-vips".to_owned(), "true".to_owned());
    }
    let own = [port.addresses.clone()].into_iter();
    let secured = || own.chain(shared).collect::<Vec<_>>().join(" ");
    group::put_ids(&port.groups, &former.external_ids, &mut external_ids);
    let row = SwitchPortRow {
        name: (&**name).into(),
        addresses: [port.addresses.clone()].into(),
        port_security: port.has_port_security.then(secured).into_iter().collect(),
        external_ids,
        ..SwitchPortRow::default()
    };
    let options = dhcp::put_of_port(of, (part, name), port, rows);
    let mut added = rows.put(of.tables.switch_ports, &row);
    added.held_by(of.tables.ports_of_switch, &*port.subnet);
    for (holding, options) in options {
        added.holds(holding, options);
    }
    for group in &groups {
        added.held_by(of.tables.ports_of_group, group.as_str());
    }
    for name in &port.groups {
        for address in &port.ips {
            let set = group_addresses(name, address.is_ipv6());
            let address = address.to_string();
            rows.member(of.tables.address_sets, set, Atom::from(&*address));
        }
    }
}

/// Port groups of a port: those of its security groups that are there, and the one that drops what
/// none of them allows.
fn groups(port: &WiredPort, reader: &Reader<'_, Vpcs>) -> Vec<String> {
    if port.groups.is_empty() {
        return Vec::new();
    }
    let known = port.groups.iter().filter(|name| {
        let inputs = reader.read(&VpcCell::Group((*name).clone()));
        inputs.groups.contains_key(*name)
    });
    let names = known.map(|name| &**name).chain([DENY_ALL_GROUP]);
    names.map(port_group).collect()
}

/// Adds the port of a node.
pub(crate) fn put_eip(
    of: &Vpcs,
    (part, name): (&Part, &Arc<str>),
    eip: &WiredEip,
    rows: &mut PartRows<()>,
) {
    let row = SwitchPortRow {
        name: (&**name).into(),
        addresses: [eip.addresses.clone()].into(),
        external_ids: ids(part, [("ls", &eip.subnet)]),
        ..SwitchPortRow::default()
    };
    rows.put(of.tables.switch_ports, &row).held_by(of.tables.ports_of_switch, &*eip.subnet);
}

/// Port of a virtual address that some ports may have, without external ids.
pub(super) fn virtual_row(name: &str, address: &IpAddr, ports: &[String]) -> SwitchPortRow {
    let mut options = map([("virtual-ip", &*address.to_string())]);
    if !ports.is_empty() {
        options.insert("virtual-parents".to_owned(), ports.join(","));
    }
    SwitchPortRow {
        name: name.into(),
        r#type: "virtual".to_owned(),
        options,
        ..SwitchPortRow::default()
    }
}

/// Adds the ports of a virtual address: one that its machines have in turn, or that of a machine on
/// the network of its node.
pub(crate) fn put_virtual_ip(
    of: &Vpcs,
    (part, name): (&Part, &Arc<str>),
    virtual_ip: &WiredVirtualIp,
    rows: &mut PartRows<()>,
) {
    let subnet = &*virtual_ip.subnet;
    if let Some((address, ports)) = &virtual_ip.shared {
        let row = SwitchPortRow {
            external_ids: ids(part, [("ls", subnet)]),
            ..virtual_row(name, address, ports)
        };
        rows.put(of.tables.switch_ports, &row).held_by(of.tables.ports_of_switch, subnet);
    }
    if let Some(host) = &virtual_ip.host {
        let mut external_ids = ids(part, [("ls", subnet), (POD, &host.machine)]);
        if !host.is_in_default_vpc {
            external_ids.insert(DEFAULT_GROUP.to_owned(), "false".to_owned());
        }
        let row = SwitchPortRow {
            name: host.name.as_str().into(),
            addresses: [host.addresses.clone()].into(),
            external_ids,
            ..SwitchPortRow::default()
        };
        rows.put(of.tables.switch_ports, &row).held_by(of.tables.ports_of_switch, subnet);
    }
}
