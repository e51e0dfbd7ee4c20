//! Text of `ovn-nbctl show`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use patchbay_engine::db::{Snapshot, TypedTable};
use patchbay_schemas::nb::{
    GatewayChassis, LogicalRouter, LogicalRouterPort, LogicalSwitch, LogicalSwitchPort, Nat,
};
use patchbay_schemas::typed::{Ref, TableRow, TypeError};
use uuid::Uuid;

use crate::lookup::{RenderError, find, rows_in_hash_order};
use crate::output::Output;
use crate::release::Release;

/// Renders all switches, then all routers.
///
/// # Errors
/// A row holds a value that OVN does not define.
pub fn show(snapshot: &Snapshot, release: Release) -> Result<String, RenderError> {
    let mut text = ShowText::new(snapshot, release);
    for (uuid, switch) in rows_in_hash_order::<LogicalSwitch>(snapshot)? {
        text.put_switch(uuid, &switch)?;
    }
    for (uuid, router) in rows_in_hash_order::<LogicalRouter>(snapshot)? {
        text.put_router(uuid, &router)?;
    }
    Ok(text.output.finish())
}

/// Renders the switch and the router with a name or UUID. The text is empty if neither exists.
///
/// # Errors
/// Several switches or routers have the name, or a row holds a value that OVN does not define.
pub fn show_named(snapshot: &Snapshot, id: &str, release: Release) -> Result<String, RenderError> {
    let mut text = ShowText::new(snapshot, release);
    if let Some((uuid, switch)) = find(snapshot, id)? {
        text.put_switch(uuid, &switch)?;
    }
    if let Some((uuid, router)) = find(snapshot, id)? {
        text.put_router(uuid, &router)?;
    }
    Ok(text.output.finish())
}

/// Renders the router with a name or UUID. The text is empty if there is none.
///
/// # Errors
/// Several routers have the name, or a row holds a value that OVN does not define.
pub fn show_router(snapshot: &Snapshot, id: &str, release: Release) -> Result<String, RenderError> {
    let mut text = ShowText::new(snapshot, release);
    if let Some((uuid, router)) = find(snapshot, id)? {
        text.put_router(uuid, &router)?;
    }
    Ok(text.output.finish())
}

/// Text of a `show` command and the tables that switches and routers refer to.
struct ShowText<'a> {
    release: Release,
    output: Output,
    switch_ports: TypedTable<'a, LogicalSwitchPort>,
    router_ports: TypedTable<'a, LogicalRouterPort>,
    gateway_chassis: TypedTable<'a, GatewayChassis>,
    nats: TypedTable<'a, Nat>,
}

impl<'a> ShowText<'a> {
    fn new(snapshot: &'a Snapshot, release: Release) -> Self {
        Self {
            release,
            output: Output::default(),
            switch_ports: snapshot.typed(),
            router_ports: snapshot.typed(),
            gateway_chassis: snapshot.typed(),
            nats: snapshot.typed(),
        }
    }

    fn put_switch(&mut self, uuid: Uuid, switch: &LogicalSwitch) -> Result<(), TypeError> {
        let alias = alias(&switch.external_ids, "neutron:network_name");
        self.output.line(format_args!("switch {uuid} ({}){alias}", switch.name));
        for (_, port) in referenced_rows(&self.switch_ports, &switch.ports)? {
            self.put_switch_port(&port);
        }
        Ok(())
    }

    fn put_switch_port(&mut self, port: &LogicalSwitchPort) {
        let out = &mut self.output;
        let alias = alias(&port.external_ids, "neutron:port_name");
        out.line(format_args!("    port {}{alias}", port.name));
        if !port.r#type.is_empty() {
            out.line(format_args!("        type: {}", port.r#type));
        }
        if let Some(parent) = &port.parent_name {
            out.line(format_args!("        parent: {parent}"));
        }
        if let Some(tag) = port.tag {
            out.line(format_args!("        tag: {tag}"));
        }
        // `ovn-nbctl` omits the address `router` of a port that is connected to a router.
        if !(port.addresses.is_empty() || port.addresses.iter().eq(["router"])) {
            out.line(format_args!("        addresses: [{}]", quoted(&port.addresses)));
        }
        if let Some(peer) = port.options.get("router-port") {
            out.line(format_args!("        router-port: {peer}"));
        }
        let peer = port.peer.as_ref();
        if let Some(peer) = peer.filter(|_| self.release == Release::V26_03) {
            out.line(format_args!("        peer: {peer}"));
        }
    }

    fn put_router(&mut self, uuid: Uuid, router: &LogicalRouter) -> Result<(), TypeError> {
        let alias = alias(&router.external_ids, "neutron:router_name");
        self.output.line(format_args!("router {uuid} ({}){alias}", router.name));
        for (_, port) in referenced_rows(&self.router_ports, &router.ports)? {
            self.put_router_port(&port)?;
        }
        for (uuid, nat) in referenced_rows(&self.nats, &router.nat)? {
            self.put_nat(uuid, &nat);
        }
        Ok(())
    }

    fn put_router_port(&mut self, port: &LogicalRouterPort) -> Result<(), TypeError> {
        let out = &mut self.output;
        out.line(format_args!("    port {}", port.name));
        out.line(format_args!("        mac: \"{}\"", port.mac));
        if self.release == Release::V26_03 {
            let address = link_local_address(&port.mac);
            out.line(format_args!("        ipv6-lla: \"{address}\""));
        }
        if !port.networks.is_empty() {
            out.line(format_args!("        networks: [{}]", quoted(&port.networks)));
        }
        if let Some(table) = port.options.get("route_table") {
            out.line(format_args!("        route-table: {table}"));
        }
        // `show` sorts by priority but does not request that column, so the order is that of the
        // UUIDs.
        let chassis = referenced_rows(&self.gateway_chassis, &port.gateway_chassis)?;
        if !chassis.is_empty() {
            let names: Vec<_> = chassis.iter().map(|(_, chassis)| &*chassis.chassis_name).collect();
            out.line(format_args!("        gateway chassis: [{}]", names.join(" ")));
        }
        Ok(())
    }

    fn put_nat(&mut self, uuid: Uuid, nat: &Nat) {
        let out = &mut self.output;
        out.line(format_args!("    nat {uuid}"));
        out.line(format_args!("        external ip: \"{}\"", nat.external_ip));
        if !nat.external_port_range.is_empty() {
            out.line(format_args!("        external port(s): \"{}\"", nat.external_port_range));
        }
        out.line(format_args!("        logical ip: \"{}\"", nat.logical_ip));
        out.line(format_args!("        type: \"{}\"", nat.r#type.as_str()));
    }
}

/// The link-local IPv6 address that follows from a MAC address. One that cannot be parsed counts as
/// zeros.
fn link_local_address(mac: &str) -> Ipv6Addr {
    let mut octets = [0; 6];
    let parts: Result<Vec<u8>, _> =
        mac.split(':').map(|part| u8::from_str_radix(part, 16)).collect();
    if let Ok(parsed) = parts.unwrap_or_default().try_into() {
        octets = parsed;
    }
    let [first, middle @ .., last]: [u8; 6] = octets;
    let [second, third, fourth, fifth] = middle;
    let mut address = [0; 16];
    address[..2].copy_from_slice(&[0xfe, 0x80]);
    address[8..].copy_from_slice(&[first ^ 2, second, third, 0xff, 0xfe, fourth, fifth, last]);
    address.into()
}

/// Rows that a column refers to, in the order of their UUIDs.
fn referenced_rows<T: TableRow>(
    table: &TypedTable<'_, T>,
    column: &BTreeSet<Ref<T>>,
) -> Result<Vec<(Uuid, T)>, TypeError> {
    column
        .iter()
        .map(|row| Ok(table.get(row.uuid)?.map(|found| (row.uuid, found))))
        .filter_map(Result::transpose)
        .collect()
}

/// Suffix with the name of the row in another system, such as Neutron.
fn alias(external_ids: &BTreeMap<String, String>, key: &str) -> String {
    match external_ids.get(key) {
        Some(alias) if !alias.is_empty() => format!(" (aka {alias})"),
        _ => String::new(),
    }
}

/// Texts in double quotes, separated by commas.
fn quoted(texts: &BTreeSet<String>) -> String {
    let quoted: Vec<_> = texts.iter().map(|text| format!("\"{text}\"")).collect();
    quoted.join(", ")
}
