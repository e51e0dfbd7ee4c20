//! Rows of rules about external addresses.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::Protocol;
use patchbay_model::vpc::{ForwardedPort, NatKey, NatKind, NatRow, WiredNat};
use patchbay_rows::PartRows;
use patchbay_schemas::nb::NatType;

use super::{ids, map, router_port};
use crate::capability::Vpcs;
use crate::part::Part;
use crate::tables::{BalancerRow, NatTableRow};

/// Adds the rows of a rule.
pub(crate) fn put(
    of: &Vpcs,
    (part, key): (&Part, &NatKey),
    nat: &WiredNat,
    rows: &mut PartRows<()>,
) {
    if let Some(port) = nat.port {
        return put_balancer(of, (part, key), nat, port, rows);
    }
    for pair in &nat.rows {
        let row = nat_row(part, key.kind, nat, pair);
        let mut added = rows.put(of.tables.nats, &row);
        added.held_by(of.tables.nats_of_router, &*nat.vpc);
        if nat.names_port {
            let port = router_port(&nat.vpc, &nat.subnet);
            added.holds(of.tables.port_of_nat, port);
        }
    }
}

fn nat_row(part: &Part, kind: NatKind, nat: &WiredNat, pair: &NatRow) -> NatTableRow {
    let NatRow { external, logical } = pair.clone();
    let row = NatTableRow {
        r#type: NatType::Snat,
        external_ip: external,
        logical_ip: logical,
        external_ids: ids(part, []),
        ..NatTableRow::default()
    };
    if kind == NatKind::Snat {
        return row;
    }
    // Port and MAC address make the machine's node translate. All tenants share the external subnet,
    // so the address is that of the OvnEip.
    let (port, mac) = nat.machine.clone().unzip();
    let stateless = if nat.machine.is_some() { "true" } else { "false" };
    NatTableRow {
        r#type: NatType::DnatAndSnat,
        logical_port: port.map(|port| port.to_string()),
        external_mac: mac.map(|mac| mac.to_string()),
        options: map([("stateless", stateless)]),
        ..row
    }
}

fn put_balancer(
    of: &Vpcs,
    (part, key): (&Part, &NatKey),
    nat: &WiredNat,
    port: ForwardedPort,
    rows: &mut PartRows<()>,
) {
    let with_port = |address: &str, port: u16| {
        if address.contains(':') {
            format!("[{address}]:{port}")
        } else {
            format!("{address}:{port}")
        }
    };
    let vips = nat.rows.iter().map(|pair| {
        let vip = with_port(&pair.external, port.external);
        (vip, with_port(&pair.logical, port.internal))
    });
    let options =
        if port.protocol == Protocol::Udp { map([("ct_flush", "true")]) } else { BTreeMap::new() };
    let row = BalancerRow {
        name: (&*key.name).into(),
        protocol: Some(port.protocol.as_str().to_ascii_lowercase().into()),
        vips: vips.collect(),
        ip_port_mappings: BTreeMap::new(),
        selection_fields: BTreeSet::new(),
        options,
        external_ids: ids(part, []),
    };
    rows.put(of.tables.balancers, &row).held_by(of.tables.balancers_of_router, &*nat.vpc);
}
