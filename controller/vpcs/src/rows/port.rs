//! Ports of pods, and of nodes on external subnets.

use std::sync::Arc;

use patchbay_model::vpc::{WiredEip, WiredPort};
use patchbay_rows::PartRows;

use super::{dhcp, ids};
use crate::capability::{POD, Vpcs};
use crate::part::Part;
use crate::tables::SwitchPortRow;

/// External id of a port in a custom VPC: it is not of the security group that all ports may have.
const DEFAULT_GROUP: &str = "associated_sg_default-securitygroup";

/// Adds the port of a pod.
pub(crate) fn put(
    of: &Vpcs,
    (part, name): (&Part, &Arc<str>),
    port: &WiredPort,
    rows: &mut PartRows<()>,
) {
    let pod = port.pod.to_string();
    let mut external_ids = ids(part, [("ls", &port.subnet), (POD, &pod)]);
    if !port.is_in_default_vpc {
        external_ids.insert(DEFAULT_GROUP.to_owned(), "false".to_owned());
    }
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
