//! Ports of pods, and of nodes on external subnets.

use std::sync::Arc;

use patchbay_model::vpc::{DENY_ALL_GROUP, WiredEip, WiredPort, group_addresses, port_group};
use patchbay_rows::{PartRows, Reader};
use patchbay_schemas::atom::Atom;

use super::{dhcp, group, ids};
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
    let pod = port.pod.to_string();
    let mut external_ids = ids(part, [("ls", &port.subnet), (POD, &pod)]);
    if !port.is_in_default_vpc {
        external_ids.insert(DEFAULT_GROUP.to_owned(), "false".to_owned());
    }
    let former: SwitchPortRow = reader
        .row(of.tables.switch_ports, name)
        .and_then(|row| reader.typed(row).ok())
        .unwrap_or_default();
    group::put_ids(&port.groups, &former.external_ids, &mut external_ids);
    let row = SwitchPortRow {
        name: (&**name).into(),
        addresses: [port.addresses.clone()].into(),
        port_security: port.has_port_security.then(|| port.addresses.clone()).into_iter().collect(),
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
